//! An object of S3 as Terraform's `s3` backend keeps it; locked, as with its `use_lockfile`, by an object beside it that
//! only one can create.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig,
};
use serde_json::Value;

use super::flags::S3Flags;
use super::side::{Doing, Locking, Side, Source, is_ours};
use crate::cli::failure::{Exit, Failure};
use crate::client::holder;
use crate::client::transfer::{Pieces, patient, silent};
use crate::config::Environment;
use crate::config::profile::Profile;

pub struct S3Side {
    store: AmazonS3,
    bucket: String,
    key: Path,
    timeout: Duration,
}

impl S3Side {
    pub fn new(
        bucket: &str,
        key: &str,
        flags: &S3Flags,
        environment: &Environment,
        timeout: Duration,
    ) -> Result<S3Side, Failure> {
        let variable = |names: &[&str]| names.iter().find_map(|name| environment.non_empty(name)).map(str::to_owned);
        let profile = Profile::read(flags.profile.as_deref(), environment).map_err(|error| {
            let hint = "`aws configure list-profiles` shows them; AWS_SHARED_CREDENTIALS_FILE names another file";
            Failure::usage(error.to_string(), hint)
        })?;
        let from_profile = |name: &str| profile.get(name).map(str::to_owned);
        let key = Path::parse(key.trim_start_matches('/')).map_err(|_| {
            Failure::usage(
                format!("'{key}' cannot be a key of a bucket"),
                "write s3://BUCKET/path/to/terraform.tfstate",
            )
        })?;
        let endpoint = flags.endpoint.clone().or_else(|| variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let endpoint = endpoint.or_else(|| from_profile("endpoint_url"));
        let region = flags.region.clone().or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.or_else(|| from_profile("region")).unwrap_or_else(|| "us-east-1".to_owned());
        let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 3, retry_timeout: timeout };
        let options = ClientOptions::new().with_connect_timeout(timeout).with_timeout_disabled();
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(region)
            .with_retry(retry)
            .with_client_options(options.with_allow_http(endpoint.is_some()));
        if let Some(endpoint) = endpoint {
            // Services other than AWS rarely have a name per bucket.
            builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false);
        }
        // A profile that was named counts for more than variables; keys are taken from one place, never mixed.
        let own = flags.access_key.clone().zip(flags.secret_key.as_ref().map(|key| key.expose().to_owned()));
        let named = from_profile("aws_access_key_id").zip(from_profile("aws_secret_access_key"));
        let set = variable(&["AWS_ACCESS_KEY_ID"]).zip(variable(&["AWS_SECRET_ACCESS_KEY"]));
        let (keys, token) = match (own, named, set) {
            (Some(own), _, _) => (Some(own), None),
            (None, Some(named), _) if flags.profile.is_some() => (Some(named), from_profile("aws_session_token")),
            (None, _, Some(set)) => (Some(set), variable(&["AWS_SESSION_TOKEN"])),
            (None, named, None) => (named, from_profile("aws_session_token")),
        };
        let Some((access, secret)) = keys else {
            return Err(Failure::usage(
                "there are no credentials for S3",
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile with --s3-profile",
            ));
        };
        builder = builder.with_access_key_id(access).with_secret_access_key(secret);
        if let Some(token) = token {
            builder = builder.with_token(token);
        }
        let store = builder.build().map_err(|error| {
            Failure::usage(format!("the bucket {bucket} cannot be used: {error}"), "check the --s3 flags")
        })?;
        Ok(S3Side { store, bucket: bucket.to_owned(), key, timeout })
    }

    fn lock_key(&self) -> Path {
        Path::from(format!("{}.tflock", self.key))
    }

    async fn lock_there(&self) -> anyhow::Result<Option<bytes::Bytes>> {
        let key = self.lock_key();
        let read = async { self.store.get(&key).await?.bytes().await };
        match self.within(read).await? {
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure("lock", &self.place(), &error).into()),
        }
    }

    /// An answer that may not take too long.
    async fn within<T>(&self, answer: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::time::timeout(self.timeout, answer).await.map_err(|_| silent(&self.place(), self.timeout))
    }
}

impl Side for S3Side {
    fn place(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.key)
    }

    fn lock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, Locking> {
        Box::pin(async {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let key = self.lock_key();
            match self.within(self.store.put_opts(&key, info.to_string().into(), options)).await? {
                Ok(_) => Ok(Locking::Locked),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
                    let kept = self.lock_there().await?.unwrap_or_default();
                    if is_ours(&kept, info) {
                        return Ok(Locking::Locked);
                    }
                    let said = holder(&kept).unwrap_or_else(|| "locked by somebody else".to_owned());
                    let hint = "wait for its holder, or force-unlock it with terraform or tofu";
                    Err(Failure::new(Exit::Locked, format!("{} is {said}", self.place()), hint).into())
                }
                Err(error) => Err(failure("lock", &self.place(), &error).into()),
            }
        })
    }

    fn unlock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, ()> {
        Box::pin(async {
            let Some(kept) = self.lock_there().await? else { return Ok(()) };
            if !is_ours(&kept, info) {
                return Ok(());
            }
            let gone = self.within(self.store.delete(&self.lock_key())).await?;
            Ok(gone.map_err(|error| failure("unlock", &self.place(), &error))?)
        })
    }
}

impl Source for S3Side {
    fn open(&mut self) -> Doing<'_, Pieces> {
        Box::pin(async {
            let place = self.place();
            let found = self.within(self.store.get(&self.key)).await?;
            let found = found.map_err(|error| failure("read", &place, &error))?;
            let from = place.clone();
            let pieces = found.into_stream().map_err(move |error| failure("read", &place, &error).into());
            Ok(patient(pieces.boxed(), from, self.timeout))
        })
    }
}

fn failure(doing: &str, place: &str, error: &Error) -> Failure {
    let exit = match error {
        Error::NotFound { .. } => Exit::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Exit::Denied,
        Error::Generic { .. } => Exit::Unavailable,
        _ => Exit::Failed,
    };
    let said = match exit {
        Exit::NotFound => "it is not there".to_owned(),
        Exit::Denied => "the credentials may not do that".to_owned(),
        _ => crate::cli::output::plain(&error.to_string()),
    };
    let hint = match exit {
        Exit::Denied => "check the credentials; --no-source-lock copies what may only be read",
        _ => "check bucket, key, credentials and --s3-endpoint",
    };
    Failure::new(exit, format!("failed to {doing} {place}: {said}"), hint)
}
