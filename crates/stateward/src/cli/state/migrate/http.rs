//! Any backend that speaks Terraform's http protocol, with its own addresses, methods and credentials.
//!
//! One that turns out to be another Stateward gets a tombstone when its state has moved.

use std::time::Duration;

use http::{Method, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, Url};
use serde_json::{Value, json};

use super::super::model::State;
use super::super::push::Existing;
use super::super::spooled::Spooled;
use super::flags::{HttpFlags, Style};
use super::side::{Destination, Doing, Left, Locking, Side, Source, id, is_ours};
use crate::cli::failure::{Exit, Failure};
use crate::client::transfer::{Download, Idle, Pieces, silent};
use crate::client::{causes, certificates, holder, is_loopback};
use crate::config::{Environment, Secret};

pub struct HttpSide<'e> {
    client: reqwest::Client,
    environment: &'e Environment,
    address: Url,
    update_method: Method,
    lock: Option<(Method, Url)>,
    unlock: Option<(Method, Url)>,
    /// Whether somebody said how it is locked, so that it must be.
    lock_is_certain: bool,
    credentials: Option<(String, Secret)>,
    timeout: Duration,
}

/// What a LockInfo may weigh in an answer.
const LARGEST_LOCK: usize = 64 << 10;

impl<'e> HttpSide<'e> {
    pub fn new(
        text: &str,
        flags: &HttpFlags,
        environment: &'e Environment,
        timeout: Duration,
    ) -> Result<HttpSide<'e>, Failure> {
        let variable = |name: &str| environment.non_empty(name).map(str::to_owned);
        let address = url("the address", text)?;
        let given = |flag: &Option<String>, name: &str| flag.clone().or_else(|| variable(name));
        let at = |flag: &Option<String>, name: &str| given(flag, name).map(|text| url(name, &text)).transpose();
        let by = |flag: &Option<String>, name: &str| given(flag, name).map(|text| method(&text)).transpose();
        let (lock_at, unlock_at) =
            (at(&flags.lock_address, "TF_HTTP_LOCK_ADDRESS")?, at(&flags.unlock_address, "TF_HTTP_UNLOCK_ADDRESS")?);
        let (lock_by, unlock_by) =
            (by(&flags.lock_method, "TF_HTTP_LOCK_METHOD")?, by(&flags.unlock_method, "TF_HTTP_UNLOCK_METHOD")?);
        let lock_is_certain = lock_at.is_some() || flags.style == Style::Gitlab;
        let (lock, unlock) = match (flags.style, &lock_at) {
            (Style::Unlocked, None) => (None, None),
            (Style::Gitlab, _) => {
                let mut beside = address.clone();
                beside.set_path(&format!("{}/lock", address.path().trim_end_matches('/')));
                let lock = (lock_by.unwrap_or(Method::POST), lock_at.unwrap_or_else(|| beside.clone()));
                (Some(lock), Some((unlock_by.unwrap_or(Method::DELETE), unlock_at.unwrap_or(beside))))
            }
            _ => {
                let lock = (lock_by.map_or_else(|| method("LOCK"), Ok)?, lock_at.unwrap_or_else(|| address.clone()));
                let unlock = unlock_by.map_or_else(|| method("UNLOCK"), Ok)?;
                (Some(lock), Some((unlock, unlock_at.unwrap_or_else(|| address.clone()))))
            }
        };
        let username = given(&flags.username, "TF_HTTP_USERNAME");
        let password = match &flags.password_file {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Failure::usage(format!("failed to read {}: {error}", file.display()), "check --password-file")
                })?;
                Some(Secret::new(text.trim_end_matches(['\n', '\r'])))
            }
            None => variable("TF_HTTP_PASSWORD").map(Secret::new),
        };
        let credentials = username.map(|name| (name, password.unwrap_or_else(|| Secret::new(""))));
        let addresses = [Some(&address), lock.as_ref().map(|lock| &lock.1), unlock.as_ref().map(|unlock| &unlock.1)];
        let clear = |url: &&Url| url.scheme() == "http" && !is_loopback(url);
        if let Some(url) = addresses.into_iter().flatten().find(clear)
            && credentials.is_some()
            && !flags.allow_plain_http
        {
            return Err(Failure::usage(
                format!("a password is not sent in clear to {url}"),
                "use an https:// address, or say --allow-plain-http",
            ));
        }
        let mut builder = reqwest::Client::builder().redirect(Policy::none()).connect_timeout(timeout);
        if is_loopback(&address) {
            builder = builder.no_proxy();
        }
        if let Some(file) = &flags.peer_ca_file {
            builder = builder.tls_certs_only(certificates(file)?);
        }
        let client = builder.build().map_err(|error| {
            Failure::usage(format!("failed to prepare the connection: {}", causes(&error)), "check --peer-ca-file")
        })?;
        let update_method = by(&flags.update_method, "TF_HTTP_UPDATE_METHOD")?.unwrap_or(Method::POST);
        Ok(HttpSide {
            client,
            environment,
            address,
            update_method,
            lock,
            unlock,
            lock_is_certain,
            credentials,
            timeout,
        })
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        let request = self.client.request(method, url);
        match &self.credentials {
            Some((name, password)) => request.basic_auth(name, Some(password.expose())),
            None => request,
        }
    }

    async fn answer(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = tokio::time::timeout(self.timeout, request.send()).await;
        answer.map_err(|_| silent(&self.place(), self.timeout))?.map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let (place, causes) = (self.place(), causes(error));
        let hint =
            if causes.contains("certificate") { "give its CA with --peer-ca-file" } else { "is it running there?" };
        Failure::new(Exit::Unavailable, format!("failed to reach {place}: {causes}"), hint)
    }

    /// What an answer that is no success means; its body is shown only as the holder of a lock.
    async fn refused(&self, doing: &str, response: Response) -> Failure {
        let status = response.status();
        self.refusal(doing, status, &small(response).await)
    }

    fn refusal(&self, doing: &str, status: StatusCode, body: &[u8]) -> Failure {
        let (place, told) = (self.place(), told(body));
        let holder = holder(body).filter(|_| told.is_empty());
        let (exit, hint) = match status.as_u16() {
            401 | 403 => {
                (Exit::Denied, "check --username and --password-file, or TF_HTTP_USERNAME and TF_HTTP_PASSWORD")
            }
            404 | 410 => (Exit::NotFound, "check the address"),
            423 => (Exit::Locked, "wait for its holder"),
            409 if holder.is_some() => (Exit::Locked, "wait for its holder"),
            409 => (Exit::Conflict, "look at what is there"),
            408 | 429 | 502..=504 => (Exit::Unavailable, "try again later"),
            _ => (Exit::Failed, "the log of that server may say more"),
        };
        match holder.filter(|_| exit == Exit::Locked) {
            Some(holder) => Failure::new(exit, format!("{place} is {holder}"), hint),
            None => Failure::new(exit, format!("failed to {doing} {place}: it answered {status}{told}"), hint),
        }
    }

    /// The body of a state; `None` where there is none.
    async fn get(&self) -> Result<Option<Pieces>, Failure> {
        let response = self.answer(self.request(Method::GET, self.address.clone())).await?;
        match response.status() {
            StatusCode::NOT_FOUND | StatusCode::NO_CONTENT => Ok(None),
            StatusCode::OK if response.content_length() == Some(0) => Ok(None),
            StatusCode::OK => Ok(Some(Download::new(response, self.place(), self.timeout).pieces())),
            _ => Err(self.refused("read", response).await),
        }
    }

    /// The address of the state in the management API of another Stateward, if the address has that form.
    fn managed(&self, below: &str) -> Option<Url> {
        let (base, key) = self.address.path().rsplit_once("/state/")?;
        let mut url = self.address.clone();
        url.set_path(&format!("{base}/api/states/{key}{below}"));
        url.set_query(None);
        (key.split('/').count() == 2).then_some(url)
    }

    /// What another Stateward says of the state; `None` if it is none, or says nothing.
    async fn facts(&self) -> Result<Option<State>, Failure> {
        let Some(url) = self.managed("") else { return Ok(None) };
        let response = self.answer(self.request(Method::GET, url)).await?;
        if response.status() != StatusCode::OK {
            return Ok(None);
        }
        Ok(serde_json::from_slice(&small(response).await).ok())
    }
}

/// The beginning of a body that should be short.
async fn small(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > LARGEST_LOCK {
            break;
        }
    }
    body
}

impl Side for HttpSide<'_> {
    fn place(&self) -> String {
        self.address.to_string()
    }

    fn lock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, Locking> {
        Box::pin(async {
            let Some((method, url)) = self.lock.clone() else {
                return Ok(Locking::Impossible("--style unlocked says so".to_owned()));
            };
            let response = self.answer(self.request(method, url).json(info)).await?;
            let status = response.status();
            match status.as_u16() {
                200..=299 => Ok(Locking::Locked),
                404 | 405 | 501 if !self.lock_is_certain => {
                    self.unlock = None;
                    Ok(Locking::Impossible(format!("it answered {status}; --lock-address or --style say how")))
                }
                409 | 423 => {
                    let body = small(response).await;
                    if is_ours(&body, info) {
                        return Ok(Locking::Locked);
                    }
                    Err(self.refusal("lock", status, &body).into())
                }
                _ => Err(self.refused("lock", response).await.into()),
            }
        })
    }

    fn unlock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, ()> {
        Box::pin(async {
            let Some((method, url)) = self.unlock.clone() else { return Ok(()) };
            let response = self.answer(self.request(method, url).json(info)).await?;
            if response.status().is_success() {
                return Ok(());
            }
            Err(self.refused("unlock", response).await.into())
        })
    }
}

/// What a server of ours says of a conflict; another's words are not repeated.
fn told(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = body["error"]["message"].as_str().unwrap_or_default();
    if message.is_empty() { String::new() } else { format!(": {}", crate::cli::output::plain(message)) }
}

impl Source for HttpSide<'_> {
    fn moved(&mut self) -> Doing<'_, Option<String>> {
        Box::pin(async { Ok(self.facts().await?.and_then(|state| state.moved).map(|moved| moved.to)) })
    }

    fn open(&mut self) -> Doing<'_, Pieces> {
        Box::pin(async {
            let missing =
                || Failure::new(Exit::NotFound, format!("there is no state at {}", self.place()), "check the address");
            Ok(self.get().await?.ok_or_else(missing)?)
        })
    }

    fn leave<'a>(&'a mut self, to: &'a str, info: &'a Value) -> Doing<'a, Left> {
        Box::pin(async move {
            let Some(url) = self.managed("/moved") else { return Ok(Left::AsItWas) };
            if self.facts().await?.is_none() {
                return Ok(Left::AsItWas);
            }
            let body = json!({ "to": to, "lock_id": id(info) });
            let response = self.answer(self.request(Method::POST, url).json(&body)).await?;
            if !response.status().is_success() {
                return Err(self.refused("leave a tombstone at", response).await.into());
            }
            Ok(Left::Tombstone)
        })
    }
}

impl Destination for HttpSide<'_> {
    fn existing(&mut self) -> Doing<'_, Option<Existing>> {
        Box::pin(async {
            let Some(pieces) = self.get().await? else { return Ok(None) };
            Ok(Some(Existing::of(&Spooled::read(&self.place(), pieces, self.environment).await?)))
        })
    }

    fn write<'a>(&'a mut self, state: &'a Spooled, pieces: Pieces, info: &'a Value) -> Doing<'a, ()> {
        Box::pin(async {
            let mut url = self.address.clone();
            if self.unlock.is_some() {
                url.query_pairs_mut().append_pair("ID", id(info));
            }
            let idle = Idle::new(self.timeout);
            let sending = state.upload(pieces).on(self.request(self.update_method.clone(), url), &idle).send();
            let response = tokio::select! {
                response = sending => response.map_err(|error| self.unreachable(&error))?,
                () = idle.over() => return Err(silent(&self.place(), self.timeout).into()),
            };
            if response.status().is_success() {
                return Ok(());
            }
            Err(self.refused("write", response).await.into())
        })
    }

    fn read_back(&mut self) -> Doing<'_, Pieces> {
        Source::open(self)
    }
}

fn url(name: &str, text: &str) -> Result<Url, Failure> {
    let example = "write an address such as https://gitlab.example.com/api/v4/projects/1/terraform/state/app";
    // The text itself is not repeated: it may hold a password.
    let url = Url::parse(text).map_err(|error| Failure::usage(format!("{name} is not a URL: {error}"), example))?;
    if !url.username().is_empty() || url.password().is_some() {
        let hint = "use --username and --password-file, or TF_HTTP_USERNAME and TF_HTTP_PASSWORD";
        return Err(Failure::usage(format!("{name} holds a user or password"), hint));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Failure::usage(format!("{name} is not an http or https address"), example));
    }
    Ok(url)
}

fn method(text: &str) -> Result<Method, Failure> {
    Method::from_bytes(text.as_bytes())
        .map_err(|_| Failure::usage(format!("'{text}' is not a method"), "write a method such as POST or LOCK"))
}
