//! The client side of the API, for commands.
//!
//! The door is [`Client`]: built from the flags that all client commands share, it sends one request and gives the
//! answer or a [`Failure`] with exit code and hint. It never sends a credential in clear to another machine, nor
//! along a redirect, and it never retries: a command that changes something is repeated by whoever gave it.

mod args;
mod exec;
mod identity;
mod kubeconfig;
mod refusal;
mod upstream;

use std::net::IpAddr;
use std::path::Path;

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use args::ClientArgs;
pub use identity::{Identity, SERVICE_ACCOUNT};
pub use upstream::Upstream;

use refusal::Credential;

use crate::cli::failure::{Exit, Failure};
use crate::config::Environment;

/// What a command reads at most: far above any answer that it expects.
const LARGEST_ANSWER: usize = 64 << 20;

/// A server, and who we are to it.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    server: Url,
    /// Marked as sensitive, so that Debug does not show it.
    authorization: Option<HeaderValue>,
    credential: Credential,
}

impl Client {
    pub async fn new(args: &ClientArgs, environment: &Environment) -> Result<Client, Failure> {
        let server = args.server(environment)?;
        let identity = Identity::find(args, environment, &server).await?;
        let http = build(connection(args, &server, &identity)?.timeout(args.timeout))?;
        let credential = if identity.is_none() { Credential::None } else { Credential::Sent };
        Ok(Client { http, server, authorization: identity.authorization()?, credential })
    }

    /// Sends a request without a body. `path` is given by segments, which may hold anything.
    pub async fn call(&self, method: Method, path: &[&str]) -> Result<Value, Failure> {
        self.answer(self.request(method, path)?).await
    }

    /// Sends a request with a JSON body.
    pub async fn send(&self, method: Method, path: &[&str], body: &impl Serialize) -> Result<Value, Failure> {
        self.answer(self.request(method, path)?.json(body)).await
    }

    /// Reads an answer into a type; one that does not fit is the server's fault.
    pub fn read<T: DeserializeOwned>(&self, answer: &Value) -> Result<T, Failure> {
        T::deserialize(answer).map_err(|_| {
            let message = format!("the answer of {} is not one that this version understands", self.server);
            Failure::new(Exit::Failed, message, "compare `stateward version` with the version of the server")
        })
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, Failure> {
        if let Some(segment) = path.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
            return Err(Failure::usage(
                format!("'{segment}' cannot be an id or a name"),
                "give the id or name from the list",
            ));
        }
        let mut url = self.server.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let mut request = self.http.request(method, url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        Ok(request)
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            let target = response.headers().get(http::header::LOCATION).and_then(|target| target.to_str().ok());
            let message = format!("{} redirects to {}", self.server, target.unwrap_or("nowhere"));
            return Err(Failure::new(
                Exit::Failed,
                message,
                "credentials do not follow redirects: give that address as --server",
            ));
        }
        let body = self.body(response).await?;
        if !status.is_success() {
            return Err(refusal::failure(status, &body, self.credential));
        }
        if status == StatusCode::NO_CONTENT || body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| {
            let message = format!("the answer of {} is not JSON", self.server);
            Failure::new(Exit::Failed, message, "check that --server is the address of stateward")
        })
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST_ANSWER {
                let message = format!("the answer of {} is larger than {LARGEST_ANSWER} bytes", self.server);
                return Err(Failure::new(Exit::Failed, message, "check that --server is the address of stateward"));
            }
        }
        Ok(body)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let causes = causes(error);
        let hint = if error.is_timeout() {
            "try again, or allow more time with --timeout"
        } else if causes.contains("certificate") {
            "give the CA of the server with --ca-file"
        } else {
            "is it running there? --server or STATEWARD_SERVER names another address"
        };
        Failure::new(Exit::Unavailable, format!("failed to reach {}: {causes}", self.server), hint)
    }
}

/// A connection to the server as all clients make it, without a deadline.
fn connection(args: &ClientArgs, server: &Url, identity: &Identity) -> Result<ClientBuilder, Failure> {
    if server.scheme() == "http" && !is_loopback(server) && !identity.is_none() {
        return Err(Failure::usage(
            format!("a credential is not sent in clear to {server}"),
            "use an https:// address; plain http is for loopback only",
        ));
    }
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("stateward/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none());
    if is_loopback(server) {
        // A proxy would be another machine, and would get the credential in clear.
        builder = builder.no_proxy();
    }
    if let Some(file) = &args.ca_file {
        builder = builder.tls_certs_only(certificates(file)?);
    }
    if let Some(pem) = &identity.certificate {
        let certificate = reqwest::Identity::from_pem(pem.expose().as_bytes()).map_err(|_| {
            Failure::usage("the client certificate or its key is not PEM", "check the user of the kubeconfig")
        })?;
        builder = builder.identity(certificate);
    }
    Ok(builder)
}

fn build(builder: ClientBuilder) -> Result<reqwest::Client, Failure> {
    builder.build().map_err(|error| {
        Failure::usage(
            format!("failed to prepare the connection: {}", causes(&error)),
            "check --ca-file and the client certificate",
        )
    })
}

/// Whether the address is this machine whatever the network says.
pub fn is_loopback(server: &Url) -> bool {
    let host = server.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, Failure> {
    let unusable = |fault: String| {
        Failure::usage(format!("--ca-file {}: {fault}", file.display()), "give a PEM file with certificates")
    };
    let pem = std::fs::read(file).map_err(|error| unusable(format!("failed to read: {error}")))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(unusable("holds no certificate".to_owned())),
    }
}

/// The error and its causes on one line; reqwest alone says only "error sending request".
fn causes(error: &reqwest::Error) -> String {
    let mut texts = vec![];
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.dedup();
    texts.join(": ")
}
