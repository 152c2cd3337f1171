//! A client of an HTTP state backend, ours or another's: LOCK, GET, POST, UNLOCK of a state of its own.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use reqwest::{Certificate, Client, Method, RequestBuilder};

use super::Payload;

const PATIENCE: Duration = Duration::from_mins(5);

/// A backend that somebody else started: `NAME=URL[,USER:PASSWORD]`. A state is one path segment below the URL.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) name: String,
    url: String,
    credentials: Option<(String, String)>,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let shape = "a peer is NAME=URL or NAME=URL,USER:PASSWORD, such as other=https://127.0.0.1:8443/ns,me:token";
        let (name, rest) = text.split_once('=').ok_or(shape)?;
        let (url, credentials) = match rest.split_once(',') {
            None => (rest, None),
            Some((url, pair)) => {
                let (user, password) = pair.split_once(':').ok_or(shape)?;
                (url, Some((user.to_owned(), password.to_owned())))
            }
        };
        let http = url.starts_with("http://") || url.starts_with("https://");
        if name.is_empty() || !http {
            return Err(shape.to_owned());
        }
        Ok(Peer { name: name.to_owned(), url: url.trim_end_matches('/').to_owned(), credentials })
    }
}

/// Clients of one backend, each with a connection and a state of its own.
pub(crate) struct Http {
    clients: Vec<Client>,
    url: String,
    credentials: Option<(String, String)>,
}

impl Http {
    /// `url` is what a state's name is put below.
    pub(crate) fn ours(url: &str, token: &str, authority: &[u8], clients: usize) -> Result<Http> {
        let authority = Certificate::from_pem(authority)?;
        let client = || Ok(builder().tls_certs_only([authority.clone()]).build()?);
        let clients = (0..clients).map(|_| client()).collect::<Result<_>>()?;
        Ok(Http { clients, url: url.to_owned(), credentials: Some(("bench".to_owned(), token.to_owned())) })
    }

    /// Whoever names a peer on the command line knows who it is: its certificate is not checked.
    pub(crate) fn peer(peer: &Peer, clients: usize) -> Result<Http> {
        let client = || Ok(builder().tls_danger_accept_invalid_certs(true).build()?);
        let clients = (0..clients).map(|_| client()).collect::<Result<_>>()?;
        Ok(Http { clients, url: peer.url.clone(), credentials: peer.credentials.clone() })
    }

    pub(crate) async fn cycle(&self, client: usize, payload: &Payload) -> Result<()> {
        let id = format!("00000000-0000-4000-8000-{client:012}");
        let info = format!(
            "{{\"ID\":\"{id}\",\"Operation\":\"OperationTypeApply\",\"Info\":\"\",\"Who\":\"bench@host\",\
             \"Version\":\"1.12.1\",\"Created\":\"2026-01-01T00:00:00Z\",\"Path\":\"\"}}"
        );
        let state = format!("bench-{client}");
        self.send(client, "LOCK", &state, info.clone().into()).await?;
        std::hint::black_box(self.read(client, &state).await?);
        self.send(client, "POST", &format!("{state}?ID={id}"), payload.next()).await?;
        self.send(client, "UNLOCK", &state, info.into()).await
    }

    /// Writes the state of every client once, so that there is something to read.
    pub(crate) async fn prime(&self, payload: &Payload) -> Result<()> {
        for client in 0..self.clients.len() {
            self.send(client, "POST", &format!("bench-{client}"), payload.next()).await?;
        }
        Ok(())
    }

    pub(crate) async fn write(&self, state: &str, bytes: impl Into<reqwest::Body>) -> Result<()> {
        let request = self.request(0, "POST", state)?.body(bytes).header("content-type", "application/json");
        answered("POST", request.send().await?).await.map(drop)
    }

    pub(crate) async fn read(&self, client: usize, state: &str) -> Result<Bytes> {
        answered("GET", self.request(client, "GET", state)?.send().await?).await
    }

    /// How many bytes a GET answers with; they are not kept.
    pub(crate) async fn length(&self, state: &str) -> Result<u64> {
        let mut response = self.request(0, "GET", state)?.send().await?.error_for_status()?;
        let mut length = 0;
        while let Some(piece) = response.chunk().await? {
            length += piece.len() as u64;
        }
        Ok(length)
    }

    async fn send(&self, client: usize, method: &str, state: &str, body: Bytes) -> Result<()> {
        let request = self.request(client, method, state)?.header("content-type", "application/json").body(body);
        answered(method, request.send().await?).await.map(drop)
    }

    fn request(&self, client: usize, method: &str, state: &str) -> Result<RequestBuilder> {
        let client = self.clients.get(client).context("there are fewer clients")?;
        let request = client.request(Method::from_bytes(method.as_bytes())?, format!("{}/{state}", self.url));
        Ok(match &self.credentials {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        })
    }
}

fn builder() -> reqwest::ClientBuilder {
    Client::builder().no_proxy().timeout(PATIENCE)
}

async fn answered(method: &str, response: reqwest::Response) -> Result<Bytes> {
    let status = response.status();
    let bytes = response.bytes().await?;
    ensure!(status.is_success(), "{method}: {status}: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]));
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_name_an_address_and_perhaps_credentials() {
        let peer: Peer =
            "other=https://127.0.0.1:8443/team/,me:pass:word".parse().unwrap_or_else(|text| panic!("{text}"));
        assert_eq!((peer.name.as_str(), peer.url.as_str()), ("other", "https://127.0.0.1:8443/team"));
        assert_eq!(peer.credentials, Some(("me".to_owned(), "pass:word".to_owned())));
        assert!("other=http://[::1]:1".parse::<Peer>().is_ok_and(|peer| peer.credentials.is_none()));
        for wrong in ["", "other", "=http://a", "other=ftp://a", "other=http://a,me"] {
            assert!(wrong.parse::<Peer>().is_err(), "{wrong}");
        }
    }
}
