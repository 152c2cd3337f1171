//! The hub behind its front door: real tokens and roles, a real audit log, requests as clients write them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use access::audit::{Audit, Config};
use access::http::Door;
use access::metrics::Metrics;
use access::{Authorities, Authorizer, Gate, NewToken, TokenAuthority, TokenStore, prepare};
use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use backends::drivers::file::File;
use backends::{Client, Code, Driver, Failure, Server, ServerLimits, Serving};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hub::graphql::QueryLimits;
use hub::guard::Limits;
use hub::http::{Http, Settings, routes};
use hub::{Connect, Endpoint, Hub};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::place::Place;

pub(crate) struct Front {
    pub(crate) hub: Hub,
    pub(crate) place: Place,
    router: Router,
    tokens: TokenStore,
    made: AtomicUsize,
}

/// Somebody with a token.
#[derive(Clone)]
pub(crate) struct Person<'a> {
    front: &'a Front,
    pub(crate) token: String,
}

pub(crate) fn settings() -> Settings {
    Settings {
        graphql: hub::graphql::Settings {
            query: QueryLimits { depth: 20, fields: 2000 },
            answer_records: 1000,
            answer_bytes: 1 << 20,
        },
        limits: Limits { list: 50, batch: 20 },
        body_bytes: 64 << 10,
        followers: 2,
        stop: Box::leak(Box::new(tokio::sync::watch::Sender::new(false))).subscribe(),
    }
}

impl Front {
    pub(crate) async fn open(place: Place) -> Front {
        let hub = place.hub_on(crate::place::settings(), Arc::new(Wire)).await;
        Front::over(place, hub).await
    }

    pub(crate) async fn over(place: Place, hub: Hub) -> Front {
        let db = place.db().await;
        db.migrate(access::MIGRATIONS).await.unwrap();
        let config = Config::new(place.directory.join("audit"), place.directory.join("audit.key"));
        let audit = Audit::open(config, db.clone()).await.unwrap();
        let tokens = TokenStore::new(db);
        let gate = Gate::new(
            TokenAuthority::Static(tokens.clone()),
            Authorizer::Roles(Vec::new()),
            Authorities::default(),
            access::Settings::default(),
            Metrics::register(&mut Registry::default()),
        );
        let door = Door::new(gate.unwrap(), audit);
        let http = Http::new(hub.clone(), settings()).unwrap();
        let router = routes(&http).layer(Extension(door));
        Front { hub, place, router, tokens, made: AtomicUsize::new(0) }
    }

    /// Somebody with these grants, such as `viewer@team-*`.
    pub(crate) async fn person(&self, grants: &[&str]) -> Person<'_> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let new = NewToken {
            name: format!("person-{number}"),
            user: None,
            groups: Vec::new(),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            expires_at: None,
            created_by: "test".to_owned(),
        };
        let (record, text) = prepare(new).unwrap();
        self.tokens.create(&record, &text).await.unwrap();
        Person { front: self, token: text.reveal().to_owned() }
    }

    pub(crate) async fn admin(&self) -> Person<'_> {
        self.person(&["admin@*"]).await
    }

    /// Everything that is in the audit log by now.
    pub(crate) fn audit(&self) -> String {
        std::fs::read_to_string(self.place.directory.join("audit/audit.log")).unwrap()
    }
}

impl Person<'_> {
    /// Nobody from now on.
    pub(crate) async fn revoke(&self) {
        let id = self.token.split('_').nth(1).unwrap();
        self.front.tokens.revoke(id).await.unwrap();
    }

    pub(crate) async fn response(&self, accept: &str, content: &str, body: String) -> axum::response::Response {
        let request = Request::post("/graphql")
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", content)
            .header("accept", accept)
            .body(Body::from(body));
        self.front.router.clone().oneshot(request.unwrap()).await.unwrap()
    }

    /// The answer to a body as it is, with its bytes.
    pub(crate) async fn send(&self, body: impl Into<String>) -> (StatusCode, String) {
        let response = self.response("application/json", "application/json", body.into()).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// The whole answer to a document.
    pub(crate) async fn answer(&self, query: &str, variables: Value) -> Value {
        let (status, text) = self.send(json!({ "query": query, "variables": variables }).to_string()).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What a document that succeeds gives.
    pub(crate) async fn data(&self, query: &str, variables: Value) -> Value {
        let answer = self.answer(query, variables).await;
        assert!(answer.get("errors").is_none(), "{query}: {answer}");
        answer["data"].clone()
    }

    /// The code and the text of the first error.
    pub(crate) async fn refused(&self, query: &str, variables: Value) -> (String, String) {
        let answer = self.answer(query, variables).await;
        let error = &answer["errors"][0];
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{query}: {answer}")).to_owned();
        (text(&error["extensions"]["code"]), text(&error["message"]))
    }

    /// Creates one record of `cap.type.test` with what else is given; its id.
    pub(crate) async fn create(&self, more: Value) -> String {
        let mut input = json!({ "typeRef": { "path": "cap.type.test", "revision": "0.1.0" }, "value": { "a": 1 } });
        let more = more.as_object().unwrap().clone();
        input.as_object_mut().unwrap().extend(more);
        let created = self.data(CREATE, json!({ "in": input })).await;
        created["createTypeInstance"].as_str().unwrap().to_owned()
    }
}

pub(crate) const CREATE: &str = "mutation($in: CreateTypeInstanceInput!) { createTypeInstance(in: $in) }";

/// A storage backend over the wire: the driver `file`, served on loopback.
pub(crate) async fn file_backend(front: &Place) -> String {
    let driver = File::open(front.directory.join("values")).unwrap();
    let serving = Serving { listen: "127.0.0.1:0".parse().unwrap(), tls: None, limits: ServerLimits::default() };
    let server = Server::bind(Arc::new(driver), serving).await.unwrap();
    let address = server.address().to_string();
    tokio::spawn(server.run(std::future::pending()));
    address
}

/// Calls backends over the wire, as the server does.
#[derive(Debug)]
pub(crate) struct Wire;

impl Connect for Wire {
    fn connect(&self, endpoint: &Endpoint) -> Result<Arc<dyn Driver>, Failure> {
        let client = Client::new(&backends::Endpoint::new(&endpoint.url, endpoint.mode));
        Ok(Arc::new(client.map_err(|error| Failure::new(Code::Unavailable, error.to_string()))?))
    }
}
