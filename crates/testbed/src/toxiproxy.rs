//! TCP connections that are cut, slow or silent: the real toxiproxy, driven through its HTTP API.
//!
//! What is set takes effect on the connections that are open, too.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::peers::peer;
use crate::process::{Process, free_port, scratch};

/// A running toxiproxy; ended when dropped.
#[derive(Debug)]
pub struct Toxiproxy {
    api: Api,
    proxies: AtomicU32,
    _process: Process,
}

/// A listener in front of one upstream.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Where to connect instead.
    pub address: String,
    name: String,
    api: Api,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Upstream,
    /// From the server to the client.
    Downstream,
}

#[derive(Clone, Debug)]
struct Api {
    client: Client,
    root: String,
}

impl Toxiproxy {
    pub fn start() -> Result<Toxiproxy> {
        let port = free_port()?;
        let mut command = Command::new(peer("toxiproxy")?);
        command.args(["-host", "127.0.0.1", "-port", &port.to_string()]);
        let mut process = Process::spawn("toxiproxy", &mut command, &scratch("toxiproxy")?.join("log"))?;
        process.wait_until(Duration::from_secs(30), || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(10)).build()?;
        let api = Api { client, root: format!("http://127.0.0.1:{port}") };
        Ok(Toxiproxy { api, proxies: AtomicU32::new(0), _process: process })
    }

    /// A new listener in front of `upstream` (`host:port`).
    pub async fn proxy(&self, upstream: &str) -> Result<Proxy> {
        let name = format!("proxy{}", self.proxies.fetch_add(1, Ordering::Relaxed));
        let wanted = json!({ "name": name, "listen": "127.0.0.1:0", "upstream": upstream, "enabled": true });
        let made = self.api.call(Method::POST, "/proxies", Some(wanted)).await?;
        let address = made["listen"].as_str().context("toxiproxy named no address")?.to_owned();
        Ok(Proxy { address, name, api: self.api.clone() })
    }
}

impl Proxy {
    /// Closes all connections and refuses new ones.
    pub async fn cut(&self) -> Result<()> {
        self.set(json!({ "enabled": false })).await
    }

    /// Swallows all data of this direction; nothing is closed. Healing closes those connections.
    pub async fn timeout(&self, direction: Direction) -> Result<()> {
        self.toxic("timeout", direction, json!({ "timeout": 0 })).await
    }

    /// Holds data of this direction back. Healing lets through what was held.
    pub async fn latency(&self, direction: Direction, delay: Duration) -> Result<()> {
        self.toxic("latency", direction, json!({ "latency": delay.as_millis() })).await
    }

    /// Closes each connection once the client has sent this many bytes more.
    pub async fn limit_data_upstream(&self, bytes: u64) -> Result<()> {
        self.toxic("limit_data", Direction::Upstream, json!({ "bytes": bytes })).await
    }

    /// Closes each connection once the server has sent this many bytes more.
    pub async fn limit_data_downstream(&self, bytes: u64) -> Result<()> {
        self.toxic("limit_data", Direction::Downstream, json!({ "bytes": bytes })).await
    }

    /// Takes everything back.
    pub async fn heal(&self) -> Result<()> {
        let path = format!("/proxies/{}/toxics", self.name);
        let toxics = self.api.call(Method::GET, &path, None).await?;
        for toxic in toxics.as_array().into_iter().flatten() {
            let name = toxic["name"].as_str().context("a toxic without a name")?;
            self.api.call(Method::DELETE, &format!("{path}/{name}"), None).await?;
        }
        self.set(json!({ "enabled": true })).await
    }

    async fn set(&self, wanted: Value) -> Result<()> {
        self.api.call(Method::POST, &format!("/proxies/{}", self.name), Some(wanted)).await.map(drop)
    }

    async fn toxic(&self, kind: &str, direction: Direction, attributes: Value) -> Result<()> {
        let stream = match direction {
            Direction::Upstream => "upstream",
            Direction::Downstream => "downstream",
        };
        let wanted = json!({ "type": kind, "stream": stream, "toxicity": 1.0, "attributes": attributes });
        self.api.call(Method::POST, &format!("/proxies/{}/toxics", self.name), Some(wanted)).await.map(drop)
    }
}

impl Api {
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let request = self.client.request(method.clone(), format!("{}{path}", self.root));
        let request = body.into_iter().fold(request, |request, body| request.json(&body));
        let answer = request.send().await.with_context(|| format!("toxiproxy: {method} {path}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        ensure!(status.is_success(), "toxiproxy: {method} {path}: {status} {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}
