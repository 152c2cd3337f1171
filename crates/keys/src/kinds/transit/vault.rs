//! Questions to Vault or OpenBao: with a deadline, a few attempts, and a token that is renewed when it is refused.
//!
//! What they answer is read for what it means and never passed on: not even an error of theirs.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

use super::login::{Auth, Session};
use crate::error::Error;

const CONNECT: Duration = Duration::from_secs(3);
/// Of one attempt: what swallows questions is given up in time for another attempt.
const ATTEMPT: Duration = Duration::from_secs(4);
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];
const ANSWER_LIMIT: usize = 64 * 1024;

/// A key service; keys of one service share it, with its connections and its token.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

#[derive(Clone, Debug)]
pub struct VaultSettings {
    /// Such as `https://vault.example.com:8200`.
    pub address: String,
    /// The namespace of Vault Enterprise or OpenBao.
    pub namespace: Option<String>,
    /// PEM; without it, what the operating system trusts.
    pub ca_file: Option<PathBuf>,
    pub auth: Auth,
    /// How long one question may take, with all attempts.
    pub deadline: Duration,
}

struct Inner {
    http: Client,
    address: Url,
    session: Session,
    deadline: Duration,
}

/// Why a question was not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallError {
    Unavailable(String),
    Refused(String),
    Forbidden,
    NotFound,
    Bad(BadRequest),
}

/// What is wrong with a question in the eyes of the transit engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadRequest {
    NoKey,
    NoVersion,
    /// The ciphertext is not one of this key and context, or anything else.
    Other,
}

pub(super) type Body = Zeroizing<Vec<u8>>;

impl Vault {
    pub fn new(settings: VaultSettings) -> Result<Vault, Error> {
        let bad = |fault: &str| Error::Setup(format!("keys.vault_address {fault}"));
        let address = address(&settings.address).map_err(bad)?;
        let mut headers = HeaderMap::new();
        // Agents can ask for it, so that no web page can make a browser speak to them.
        headers.insert("X-Vault-Request", HeaderValue::from_static("true"));
        if let Some(namespace) = &settings.namespace {
            let value = HeaderValue::from_str(namespace);
            headers.insert(
                "X-Vault-Namespace",
                value.map_err(|_| Error::Setup("keys.vault_namespace cannot be a namespace".to_owned()))?,
            );
        }
        // No proxy of the environment and no redirect: both would pass a token on to somebody else.
        let mut builder = Client::builder()
            .default_headers(headers)
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(ATTEMPT);
        if let Some(file) = &settings.ca_file {
            let unusable = |fault: String| Error::Setup(format!("keys.vault_ca_file {} {fault}", file.display()));
            let pem = std::fs::read(file).map_err(|error| unusable(format!("cannot be read: {error}")))?;
            let certificates = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
            let certificates = certificates.ok_or_else(|| unusable("holds no certificate in PEM".to_owned()))?;
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(|_| Error::Setup("failed to prepare connections by TLS".to_owned()))?;
        let session = Session::new(settings.auth);
        Ok(Vault(Arc::new(Inner { http, address, session, deadline: settings.deadline })))
    }

    pub(super) fn address(&self) -> &Url {
        &self.0.address
    }

    /// Asks with a token. Encryptions and decryptions change nothing, so that asking twice is harmless.
    pub(super) async fn post(&self, path: &[&str], question: &impl Serialize) -> Result<Body, CallError> {
        let attempts = async {
            for pause in PAUSES {
                match self.attempt(path, question).await {
                    Err(CallError::Unavailable(_)) => sleep(pause).await,
                    answer => return answer,
                }
            }
            self.attempt(path, question).await
        };
        let late = |_| Err(CallError::Unavailable(format!("{} does not answer in time", self.0.address)));
        timeout(self.0.deadline, attempts).await.unwrap_or_else(late)
    }

    async fn attempt(&self, path: &[&str], question: &impl Serialize) -> Result<Body, CallError> {
        let token = self.0.session.token(self).await?;
        match self.send(path, Some(&token), question).await {
            // A token that has ended and a token that may not look the same.
            Err(CallError::Forbidden) => {
                let Some(other) = self.0.session.other_than(&token, self).await? else {
                    return Err(CallError::Forbidden);
                };
                self.send(path, Some(&other), question).await
            }
            answer => answer,
        }
    }

    /// Asks once, with or without a token.
    pub(super) async fn send(
        &self,
        path: &[&str],
        token: Option<&str>,
        question: &impl Serialize,
    ) -> Result<Body, CallError> {
        let mut url = self.0.address.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        let mut request = self.0.http.post(url).json(question);
        if let Some(token) = token {
            let header = HeaderValue::from_str(token);
            let mut header = header.map_err(|_| CallError::Refused("the token has odd characters".to_owned()))?;
            header.set_sensitive(true);
            request = request.header("X-Vault-Token", header);
        }
        let address = &self.0.address;
        // The causes may name addresses and certificates, but quote no header and no body.
        let lost = |error: reqwest::Error| {
            let cause = if error.is_timeout() { "does not answer in time" } else { "cannot be reached" };
            let certificate = causes(&error).any(|text| text.contains("certificate"));
            let certificate = if certificate { ": its certificate is not trusted, see keys.vault_ca_file" } else { "" };
            CallError::Unavailable(format!("{address} {cause}{certificate}"))
        };
        let mut response = request.send().await.map_err(lost)?;
        let status = response.status();
        let mut body = Zeroizing::new(Vec::with_capacity(4096));
        while let Some(chunk) = response.chunk().await.map_err(lost)? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_LIMIT {
                return Err(CallError::Refused(format!("{address} answers more than a key service would")));
            }
        }
        match status {
            StatusCode::OK => Ok(body),
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => Err(CallError::Forbidden),
            StatusCode::NOT_FOUND => Err(CallError::NotFound),
            StatusCode::BAD_REQUEST => Err(CallError::Bad(fault(&body))),
            StatusCode::SERVICE_UNAVAILABLE => Err(CallError::Unavailable(format!("{address} is sealed or starting"))),
            // A node that is catching up, and one that has too much to do.
            StatusCode::PRECONDITION_FAILED | StatusCode::TOO_MANY_REQUESTS => {
                Err(CallError::Unavailable(format!("{address} answers {}", status.as_u16())))
            }
            status if status.is_redirection() => Err(CallError::Refused(format!(
                "{address} redirects, which a token must not follow: give the address of the active node"
            ))),
            status if status.is_server_error() || status.as_u16() == 472 || status.as_u16() == 473 => {
                Err(CallError::Unavailable(format!("{address} answers {}", status.as_u16())))
            }
            status => Err(CallError::Refused(format!("{address} answers {}", status.as_u16()))),
        }
    }
}

impl VaultSettings {
    /// What is wrong with an address, as the rest of a sentence that begins with its setting.
    pub fn check_address(text: &str) -> Result<(), &'static str> {
        address(text).map(drop)
    }
}

fn address(text: &str) -> Result<Url, &'static str> {
    let address = Url::parse(text).map_err(|_| "is not a URL")?;
    if !matches!(address.scheme(), "http" | "https") || address.cannot_be_a_base() {
        return Err("is not an http or https URL");
    }
    if !address.username().is_empty() || address.password().is_some() {
        return Err("holds a user or a password");
    }
    if address.scheme() == "http" && !is_loopback(&address) {
        return Err("is plain http to another machine");
    }
    Ok(address)
}

/// What the texts of the transit engine mean; they are the same in OpenBao.
fn fault(body: &[u8]) -> BadRequest {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<String>,
    }
    let errors = serde_json::from_slice::<Errors>(body).map(|body| body.errors).unwrap_or_default();
    let says = |part: &str| errors.iter().any(|error| error.contains(part));
    if says("encryption key not found") {
        BadRequest::NoKey
    } else if says("(too old)") || says("version is too new") || says("no such key version") {
        BadRequest::NoVersion
    } else {
        BadRequest::Other
    }
}

/// Whether the address is this machine whatever the network says.
fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = String> {
    let first: Option<&dyn std::error::Error> = Some(error);
    std::iter::successors(first, |error| error.source()).map(ToString::to_string)
}

impl fmt::Debug for Vault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Vault").field("address", &self.0.address.as_str()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(address: &str) -> Result<Vault, Error> {
        let auth = Auth::TokenFile("/nowhere".into());
        let deadline = Duration::from_secs(1);
        Vault::new(VaultSettings { address: address.to_owned(), namespace: None, ca_file: None, auth, deadline })
    }

    #[test]
    fn a_key_service_is_reached_by_https_or_on_this_machine() {
        for good in
            ["https://vault:8200", "https://vault/base/", "http://127.0.0.1:8200", "http://[::1]:1", "http://localhost"]
        {
            assert!(made(good).is_ok(), "{good}");
        }
        for bad in ["", "vault:8200", "http://vault:8200", "ftp://vault", "https://user:canary@vault", "mailto:a@b"] {
            let error = made(bad).expect_err(bad).to_string();
            assert!(error.starts_with("keys.vault_address ") && !error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn errors_of_the_engine_are_told_apart() {
        let table = [
            (r#"{"errors":["encryption key not found"]}"#, BadRequest::NoKey),
            (
                r#"{"errors":["ciphertext or signature version is disallowed by policy (too old)"]}"#,
                BadRequest::NoVersion,
            ),
            (r#"{"errors":["invalid ciphertext: version is too new"]}"#, BadRequest::NoVersion),
            (r#"{"errors":["cipher: message authentication failed"]}"#, BadRequest::Other),
            ("no JSON", BadRequest::Other),
        ];
        for (body, expected) in table {
            assert_eq!(fault(body.as_bytes()), expected, "{body}");
        }
    }
}
