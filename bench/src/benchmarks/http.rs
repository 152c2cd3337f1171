//! A real server, asked over HTTP/2 by many at once. `/healthz` is the whole way through listener, layers and log; a
//! request with a token adds the gate, two reads of the database and a line in the audit log; TLS adds its records.
//!
//! Client and server share the machine, so that rates are lower than a server alone would have, and the client's own
//! work brings all ratios nearer to 1.

use anyhow::{Result, ensure};
use http::{StatusCode, Version};
use reqwest::Client;

use crate::measure::{Bench, Comparison, Limit, Question};
use crate::server::{Server, Transport, build};

/// Requests under way at once, on one connection.
const AT_ONCE: usize = 32;

const WHY_TOKEN: &str =
    "a token costs two reads through the database's threads and an audit line, where /healthz does nothing";
const WHY_TLS: &str = "records of a few hundred bytes are cheap to seal; the handshake is not in it";

const TOKEN_PLAIN: Question = Question {
    ours: "list of tokens, plain",
    against: "/healthz, plain",
    limit: Limit { at_least: 0.1, why: WHY_TOKEN },
};

const TOKEN_TLS: Question =
    Question { ours: "list of tokens, TLS", against: "/healthz, TLS", limit: Limit { at_least: 0.1, why: WHY_TOKEN } };

const TLS_OPEN: Question =
    Question { ours: "/healthz, TLS", against: "/healthz, plain", limit: Limit { at_least: 0.4, why: WHY_TLS } };

const TLS_TOKEN: Question = Question {
    ours: "list of tokens, TLS",
    against: "list of tokens, plain",
    limit: Limit { at_least: 0.4, why: WHY_TLS },
};

pub(super) fn run(bench: &Bench) -> Result<Vec<Comparison>> {
    let program = build()?;
    // The client's connections belong to the runtime.
    let start = |name, transport| Server::start(&program, &bench.path(name), transport);
    let (plain, tls) = (start("http-plain", Transport::Plain)?, start("http-tls", Transport::Tls)?);
    let open = |server: &Server| ask(bench, &Target::new(server, "/healthz", None));
    let token = |server: &Server| ask(bench, &Target::new(server, "/api/v1/tokens", server.token.as_deref()));
    Ok(vec![
        bench.compare(TOKEN_PLAIN, || token(&plain), || open(&plain))?,
        bench.compare(TOKEN_TLS, || token(&tls), || open(&tls))?,
        bench.compare(TLS_OPEN, || open(&tls), || open(&plain))?,
        bench.compare(TLS_TOKEN, || token(&tls), || token(&plain))?,
    ])
}

/// A request that is sent again and again.
#[derive(Clone)]
struct Target {
    client: Client,
    url: String,
    token: Option<String>,
}

impl Target {
    fn new(server: &Server, path: &str, token: Option<&str>) -> Target {
        let url = format!("{}{path}", server.url);
        Target { client: server.client.clone(), url, token: token.map(str::to_owned) }
    }
}

fn ask(bench: &Bench, target: &Target) -> Result<f64> {
    bench.together(AT_ONCE, target, |target| async move {
        let mut request = target.client.get(&target.url);
        if let Some(token) = &target.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await?;
        let (status, version) = (response.status(), response.version());
        ensure!(status == StatusCode::OK && version == Version::HTTP_2, "{} by {version:?}: {status}", target.url);
        std::hint::black_box(response.bytes().await?);
        Ok(())
    })
}
