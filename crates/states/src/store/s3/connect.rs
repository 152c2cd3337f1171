//! The client of the bucket, from explicit settings alone.

use std::fmt;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientOptions, RetryConfig};

use super::Unfit;
use super::identity::Identity;

/// Where the bucket is, and who we are there.
#[derive(Clone)]
pub struct S3Settings {
    pub bucket: String,
    /// What the names of all objects begin with; may be empty.
    pub prefix: String,
    /// The server, if it is not that of AWS.
    pub endpoint: Option<String>,
    pub region: String,
    pub addressing: Addressing,
    pub identity: Identity,
    /// The authorities of the server's certificate, PEM; `None` trusts what the operating system trusts.
    pub authorities: Option<Vec<u8>>,
    pub transport: Transport,
    /// How long one request may take; one with a chunk may take six times as long.
    pub deadline: Duration,
}

/// Where an address has the name of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    Path,
    Host,
}

/// Whether requests may cross the network in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    TlsOnly,
    PlainToo,
}

const CONNECT: Duration = Duration::from_secs(5);

pub(super) fn connect(settings: &S3Settings) -> Result<AmazonS3, Unfit> {
    let bad = |what: &str| Unfit::Settings(what.to_owned());
    let is_plain = |address: Option<&str>| address.is_some_and(|address| !address.starts_with("https://"));
    let plain = is_plain(settings.endpoint.as_deref());
    let sts = match &settings.identity {
        Identity::WebIdentity { sts, .. } => sts.as_deref(),
        _ => None,
    };
    if (plain || is_plain(sts)) && settings.transport == Transport::TlsOnly {
        return Err(bad("the endpoint does not begin with https://"));
    }
    // No proxy of the environment, and no redirect: a swap is sent once, to where the settings say.
    let mut client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .http1_only();
    if let Some(pem) = &settings.authorities {
        let authorities = reqwest::Certificate::from_pem_bundle(pem).unwrap_or_default();
        if authorities.is_empty() {
            return Err(bad("the CA file holds no certificate"));
        }
        client = client.tls_certs_only(authorities);
    }
    let client = client.build().map_err(|_| bad("the TLS settings cannot be used"))?;
    let virtual_hosted = settings.addressing == Addressing::Host;
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&settings.bucket)
        .with_region(&settings.region)
        .with_virtual_hosted_style_request(virtual_hosted)
        // A swap that is sent again meets itself: what is lost is found out by reading back.
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
        .with_disable_bulk_delete(true)
        .with_allow_http(plain)
        .with_http_connector(Connector(client));
    if let Some(endpoint) = &settings.endpoint {
        let endpoint = match endpoint.split_once("://") {
            Some((scheme, rest)) if virtual_hosted => format!("{scheme}://{}.{rest}", settings.bucket),
            _ => endpoint.clone(),
        };
        builder = builder.with_endpoint(endpoint);
    }
    settings.identity.apply(builder).build().map_err(|_| bad("the endpoint, region or bucket cannot be used"))
}

#[derive(Debug)]
struct Connector(reqwest::Client);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

impl fmt::Debug for S3Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let S3Settings { bucket, prefix, endpoint, .. } = self;
        let mut shown = formatter.debug_struct("S3Settings");
        shown.field("bucket", bucket).field("prefix", prefix).field("endpoint", endpoint).finish_non_exhaustive()
    }
}
