//! The client side of the API, for commands.
//!
//! The door is [`Client`]: built from the flags that all client commands share, it sends one request and gives the
//! answer or a [`Failure`] with exit code and hint. It never sends a credential in clear to another machine, nor
//! along a redirect, and it never retries: a command that changes something is repeated by whoever gave it.

mod args;
mod exec;
pub mod hub;
mod identity;
mod kubeconfig;
mod refusal;
pub mod transfer;
mod upstream;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use args::ClientArgs;
pub use identity::{Identity, SERVICE_ACCOUNT};
pub use kubeconfig::default_path as default_kubeconfig;
pub use upstream::Upstream;

use refusal::Credential;
pub use refusal::holder;
use transfer::{Download, Idle, Upload};

use crate::cli::failure::{Exit, Failure};
use crate::config::Environment;

/// What a command reads at most: far above any answer that it expects.
const LARGEST_ANSWER: usize = 64 << 20;

/// No request lasts longer, whatever moves.
const LONGEST_TRANSFER: Duration = Duration::from_hours(24);

/// Pairs of the query; one without a value is left out.
pub type Query<'a> = &'a [(&'a str, Option<&'a str>)];

/// A server, and who we are to it.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    server: Url,
    /// Marked as sensitive, so that Debug does not show it.
    authorization: Option<HeaderValue>,
    credential: Credential,
    timeout: Duration,
}

impl Client {
    pub async fn new(args: &ClientArgs, environment: &Environment) -> Result<Client, Failure> {
        let server = args.server(environment)?;
        let identity = Identity::find(args, environment, &server).await?;
        Client::with(args, server, &identity)
    }

    /// The same for a command that may run in a Pod.
    pub async fn in_pod(args: &ClientArgs, environment: &Environment) -> Result<Client, Failure> {
        let server = args.server(environment)?;
        let identity = Identity::find_or_service_account(args, environment, &server).await?;
        Client::with(args, server, &identity)
    }

    fn with(args: &ClientArgs, server: Url, identity: &Identity) -> Result<Client, Failure> {
        let http = build(connection(args, &server, identity)?.timeout(args.timeout))?;
        let credential = if identity.is_none() { Credential::None } else { Credential::Sent };
        Ok(Client { http, server, authorization: identity.authorization()?, credential, timeout: args.timeout })
    }

    /// The address of the server, without a slash at its end.
    pub fn address(&self) -> &str {
        self.server.as_str().trim_end_matches('/')
    }

    /// How long the server may be silent.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends a request without a body. `path` is given by segments, which may hold anything.
    pub async fn call(&self, method: Method, path: &[&str]) -> Result<Value, Failure> {
        self.answer(self.request(method, path, &[])?).await
    }

    /// Sends a request without a body, with a query.
    pub async fn ask(&self, method: Method, path: &[&str], query: Query<'_>) -> Result<Value, Failure> {
        self.answer(self.request(method, path, query)?).await
    }

    /// Sends a request with a JSON body.
    pub async fn send(&self, method: Method, path: &[&str], body: &impl Serialize) -> Result<Value, Failure> {
        self.send_with(method, path, &[], body).await
    }

    /// Sends a request with a JSON body and a query.
    pub async fn send_with(
        &self,
        method: Method,
        path: &[&str],
        query: Query<'_>,
        body: &impl Serialize,
    ) -> Result<Value, Failure> {
        self.answer(self.request(method, path, query)?.json(body)).await
    }

    /// Begins to read a body of any length; only its silence is limited in time.
    pub async fn download(&self, path: &[&str], query: Query<'_>) -> Result<Download, Failure> {
        let request = self.request(Method::GET, path, query)?.timeout(LONGEST_TRANSFER);
        let answer = tokio::time::timeout(self.timeout, request.send()).await;
        let response = answer.map_err(|_| self.silent())?.map_err(|error| self.unreachable(&error))?;
        if response.status() == StatusCode::OK {
            return Ok(Download::new(response, self.address().to_owned(), self.timeout));
        }
        Err(self.refused(response).await)
    }

    /// Sends a body of any length; only its silence is limited in time.
    pub async fn upload(
        &self,
        method: Method,
        path: &[&str],
        query: Query<'_>,
        upload: Upload,
    ) -> Result<Value, Failure> {
        let idle = Idle::new(self.timeout);
        let request = self.request(method, path, query)?.timeout(LONGEST_TRANSFER);
        let answering = self.answer(upload.on(request, &idle));
        tokio::select! {
            answer = answering => answer,
            () = idle.over() => Err(self.silent()),
        }
    }

    /// Reads what a request without a body is answered, with every value as it was written.
    pub async fn get_exactly<T: DeserializeOwned>(&self, path: &[&str], query: Query<'_>) -> Result<T, Failure> {
        let body = self.accepted(self.request(Method::GET, path, query)?).await?;
        serde_json::from_slice(&body).map_err(|_| self.not_understood())
    }

    /// Sends a JSON text and gives the body of the answer as it is. What an answer that is no success means is `understood`
    /// where it can be.
    pub async fn post_text(
        &self,
        path: &[&str],
        text: String,
        understood: fn(&[u8]) -> Option<Failure>,
    ) -> Result<Vec<u8>, Failure> {
        let request = self.request(Method::POST, path, &[])?.header(CONTENT_TYPE, "application/json").body(text);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(self.refused(response).await);
        }
        let body = self.body(response).await?;
        if status.is_success() {
            return Ok(body);
        }
        Err(understood(&body).unwrap_or_else(|| refusal::failure(status, &body, self.credential)))
    }

    /// Reads an answer into a type; one that does not fit is the server's fault.
    pub fn read<T: DeserializeOwned>(&self, answer: &Value) -> Result<T, Failure> {
        T::deserialize(answer).map_err(|_| self.not_understood())
    }

    pub fn not_understood(&self) -> Failure {
        let message = format!("the answer of {} is not one that this version understands", self.server);
        Failure::new(Exit::Failed, message, "compare `stateward version` with the version of the server")
    }

    fn request(&self, method: Method, path: &[&str], query: Query<'_>) -> Result<RequestBuilder, Failure> {
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
        for (name, value) in query.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
            url.query_pairs_mut().append_pair(name, value);
        }
        let mut request = self.http.request(method, url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        Ok(request)
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Value, Failure> {
        let body = self.accepted(request).await?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| {
            let message = format!("the answer of {} is not JSON", self.server);
            Failure::new(Exit::Failed, message, "check that --server is the address of stateward")
        })
    }

    /// The body of an answer that is a success.
    async fn accepted(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        self.body(response).await
    }

    /// What an answer that is no success says.
    async fn refused(&self, response: Response) -> Failure {
        let status = response.status();
        if status.is_redirection() {
            let target = response.headers().get(http::header::LOCATION).and_then(|target| target.to_str().ok());
            let message = format!("{} redirects to {}", self.server, target.unwrap_or("nowhere"));
            let hint = "credentials do not follow redirects: give that address as --server";
            return Failure::new(Exit::Failed, message, hint);
        }
        match self.body(response).await {
            Ok(body) => refusal::failure(status, &body, self.credential),
            Err(failure) => failure,
        }
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

    fn silent(&self) -> Failure {
        transfer::silent(self.address(), self.timeout)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let causes = causes(error);
        let hint = if error.is_timeout() {
            "try again, or allow more time with --timeout"
        } else if causes.contains("certificate") {
            "give the CA of the server with --ca-file"
        } else if self.server.scheme() == "http" && causes.contains("invalid HTTP") {
            "if it speaks TLS, give its https:// address with --server or STATEWARD_SERVER, and its CA with --ca-file"
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

pub fn certificates(file: &Path) -> Result<Vec<Certificate>, Failure> {
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
pub fn causes(error: &reqwest::Error) -> String {
    let mut texts = vec![];
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.dedup();
    texts.join(": ")
}
