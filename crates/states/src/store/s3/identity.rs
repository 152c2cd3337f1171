//! Who we are towards the bucket, for as long as the server runs: keys that end are fetched again before they do, and
//! keys in files are read again.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use zeroize::Zeroizing;

/// Where the keys come from.
#[derive(Clone)]
pub enum Identity {
    /// From whoever knows them, who is asked again every minute.
    Keys(Arc<Ask>),
    /// A role, for the token in a file (`AssumeRoleWithWebIdentity`), such as that of a ServiceAccount.
    WebIdentity { role: String, token_file: String, session: String, sts: Option<String> },
    /// The agent that gives a Pod of EKS its keys, for the token in a file.
    Pod { address: String, token_file: String },
    /// The agent that gives a task of ECS its keys, at this path.
    Task { path: String },
    /// The machine itself, by the metadata service of AWS or by another one at this address.
    Machine { address: Option<String> },
}

/// Tells the keys of now, or why there are none.
pub(super) type Ask = dyn Fn() -> Result<AccessKey, String> + Send + Sync;

#[derive(Clone)]
pub struct AccessKey {
    pub id: String,
    pub secret: Zeroizing<String>,
    pub session_token: Option<Zeroizing<String>>,
}

/// How long keys count before they are asked for again.
const AGE: Duration = Duration::from_mins(1);

impl Identity {
    /// Keys that stay.
    pub fn keys(id: &str, secret: &str) -> Identity {
        let key = AccessKey { id: id.to_owned(), secret: secret.to_owned().into(), session_token: None };
        Identity::Keys(Arc::new(move || Ok(key.clone())))
    }

    pub(super) fn apply(&self, builder: AmazonS3Builder) -> AmazonS3Builder {
        match self {
            Identity::Keys(ask) => {
                builder.with_credentials(Arc::new(Asked { ask: ask.clone(), age: AGE, last: Mutex::new(None) }))
            }
            Identity::WebIdentity { role, token_file, session, sts } => {
                let builder = builder
                    .with_config(AmazonS3ConfigKey::RoleArn, role)
                    .with_config(AmazonS3ConfigKey::RoleSessionName, session)
                    .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, token_file);
                match sts {
                    Some(sts) => builder.with_config(AmazonS3ConfigKey::StsEndpoint, sts),
                    None => builder,
                }
            }
            Identity::Pod { address, token_file } => builder
                .with_config(AmazonS3ConfigKey::ContainerCredentialsFullUri, address)
                .with_config(AmazonS3ConfigKey::ContainerAuthorizationTokenFile, token_file),
            Identity::Task { path } => builder.with_config(AmazonS3ConfigKey::ContainerCredentialsRelativeUri, path),
            Identity::Machine { address: Some(address) } => builder.with_metadata_endpoint(address),
            Identity::Machine { address: None } => builder,
        }
    }
}

struct Asked {
    ask: Arc<Ask>,
    /// How old what it told may be.
    age: Duration,
    last: Mutex<Option<(Instant, Arc<AwsCredential>)>>,
}

impl Asked {
    fn now(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = &*last
            && at.elapsed() < self.age
        {
            return Ok(known.clone());
        }
        let known = match ((self.ask)(), &*last) {
            (Ok(AccessKey { id, secret, session_token }), _) => {
                let token = session_token.map(|token| token.to_string());
                Arc::new(AwsCredential { key_id: id, secret_key: secret.to_string(), token })
            }
            // A file that is being replaced is not there for a moment: what was good a minute ago still may be.
            (Err(_), Some((_, known))) => known.clone(),
            (Err(reason), None) => {
                return Err(object_store::Error::Generic { store: "S3", source: reason.into() });
            }
        };
        *last = Some((Instant::now(), known.clone()));
        Ok(known)
    }
}

impl CredentialProvider for Asked {
    type Credential = AwsCredential;

    fn get_credential<'a, 'answer>(&'a self) -> Answer<'answer>
    where
        'a: 'answer,
        Self: 'answer,
    {
        Box::pin(std::future::ready(self.now()))
    }
}

type Answer<'answer> = Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'answer>>;

impl fmt::Debug for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Asked")
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Identity")
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AccessKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for keys as often as there are answers, and tells what came each time.
    fn told(age: Duration, mut answers: Vec<Result<&'static str, &'static str>>) -> Vec<Result<String, String>> {
        let count = answers.len();
        answers.reverse();
        let answers = Mutex::new(answers);
        let ask = move || {
            let answer = answers.lock().unwrap().pop().expect("an answer");
            let key = |id: &str| AccessKey { id: id.to_owned(), secret: "s".to_owned().into(), session_token: None };
            answer.map(key).map_err(str::to_owned)
        };
        let asked = Asked { ask: Arc::new(ask), age, last: Mutex::new(None) };
        let now = || asked.now().map(|key| key.key_id.clone()).map_err(|error| error.to_string());
        (0..count).map(|_| now()).collect()
    }

    #[test]
    fn keys_are_asked_for_again_and_stay_when_there_is_no_answer() {
        let ids = |found: Vec<Result<String, String>>| found.into_iter().map(Result::unwrap).collect::<Vec<_>>();
        let changing = || vec![Ok("one"), Err("not there"), Ok("two")];
        assert_eq!(ids(told(Duration::ZERO, changing())), ["one", "one", "two"]);
        assert_eq!(ids(told(AGE, changing())), ["one", "one", "one"], "not before their time");
        let late = told(Duration::ZERO, vec![Err("not there"), Ok("two")]);
        assert!(late[0].as_ref().is_err_and(|reason| reason.contains("not there")), "{late:?}");
        assert_eq!(late[1].as_deref(), Ok("two"));
    }
}
