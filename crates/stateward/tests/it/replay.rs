//! Clients repeat requests whose answer was lost: the second answer is the first one, on both listeners and protocols.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use reqwest::{Body, Client, Method};
use testbed::{AUDIENCE, Cluster, Scope, rule, subject};

use crate::compat::{NEW, Rig, info};
use crate::server::answer;

/// A body whose length nobody announces.
fn chunked(text: &str) -> Body {
    let pieces: Vec<_> = text.as_bytes().chunks(7).map(|piece| Frame::data(Bytes::copy_from_slice(piece))).collect();
    Body::wrap(StreamBody::new(futures::stream::iter(pieces.into_iter().map(Ok::<_, Infallible>))))
}

const ID: &str = "01a1e590-42e6-7227-a8da-2bab2f2168d6";

struct Place<'a> {
    client: &'a Client,
    url: String,
    token: &'a str,
}

impl Place<'_> {
    async fn once(&self, method: &str, query: &str, body: Body) -> (u16, String) {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        // The same id on every request: it is all in which two refusals may differ.
        let request = self.client.request(method, format!("{}{query}", self.url)).header("X-Request-ID", ID);
        answer(request.basic_auth("x", Some(self.token)).body(body)).await
    }

    /// Sends it twice, with a length and without one, and expects this status each time.
    #[track_caller]
    fn same(&self, method: &str, query: &str, body: &str, expected: u16) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let first = self.once(method, query, body.to_owned().into()).await;
            assert_eq!(first.0, expected, "{method} {} from line {}: {}", self.url, caller.line(), first.1);
            for again in [Body::from(body.to_owned()), chunked(body), chunked(body)] {
                let answer = self.once(method, query, again).await;
                assert_eq!(answer, first, "{method} {} from line {}", self.url, caller.line());
            }
            first.1
        }
    }
}

#[tokio::test]
async fn whatever_is_sent_again_is_answered_again() {
    let rig = Rig::new().await;
    let clients =
        [("h1", rig.server.client_builder().http1_only()), ("h2", rig.server.client_builder().http2_prior_knowledge())];
    for (protocol, builder) in clients {
        let client = builder.build().unwrap();
        let listeners = [("compat", format!("{}/", rig.url)), ("main", format!("{}/state/", rig.server.url))];
        for (listener, base) in listeners {
            let url = format!("{base}{}/replay-{listener}-{protocol}", rig.namespace);
            let place = Place { client: &client, url, token: &rig.token };
            replay(&place).await;
        }
    }
}

async fn replay(place: &Place<'_>) {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|id| info(Some(id)));
    place.same("LOCK", "", &a, 200).await;
    assert_eq!(place.same("LOCK", "", &b, 423).await, a, "the holder as it told of itself");
    place.same("LOCK", "", "not a LockInfo", 400).await;
    place.same("POST", "?ID=a", NEW, 200).await;
    place.same("POST", "?ID=b", NEW, 423).await;
    place.same("POST", "", NEW, 423).await;
    place.same("POST", "?ID=a", "{\"version\": ", 400).await;
    assert_eq!(place.once("GET", "", Body::from("")).await, (200, NEW.to_owned()));

    // A wrong ID and nothing at all are told apart also where no length announces which it is.
    assert_eq!(place.once("UNLOCK", "", chunked(&b)).await, (423, a.clone()));
    place.same("UNLOCK", "", &b, 423).await;
    assert_eq!(place.once("LOCK", "", b.clone().into()).await, (423, a.clone()), "it is still locked");
    place.same("UNLOCK", "", &a, 200).await;
    let told = place.same("POST", "?ID=a", NEW, 423).await;
    assert!(told.contains("\"ID\":\"a\"") && told.contains("released"), "{told}");

    // The late UNLOCK of the last holder frees nobody else's lock.
    place.same("LOCK", "", &c, 200).await;
    place.same("UNLOCK", "", &a, 200).await;
    assert_eq!(place.once("LOCK", "", d.clone().into()).await, (423, c));
    assert_eq!(place.once("UNLOCK", "", chunked("")).await, (200, String::new()), "Terraform's force-unlock");
    place.same("UNLOCK", "", "", 200).await;
    place.same("LOCK", "", &d, 200).await;
    place.same("UNLOCK", "", &d, 200).await;
}

#[tokio::test]
async fn a_forced_unlock_is_answered_again_to_somebody_who_may_do_nothing_else() {
    let rig = Rig::new().await;
    let cluster = Cluster::shared().await;
    cluster.service_account(&rig.namespace, "breaker").await;
    let breaker = [subject::service_account(&rig.namespace, "breaker")];
    let unlock = [rule(&["unlock"], &["stateward.dev"], &["states"])];
    cluster.grant(Scope::Namespace(&rig.namespace), &breaker, &unlock).await;
    let token = cluster.token_request(&rig.namespace, "breaker", &[AUDIENCE], 3600).await;
    let client = rig.server.client();
    let url = format!("{}/state/{}/broken", rig.server.url, rig.namespace);
    let holder = Place { client: &client, url: url.clone(), token: &rig.token };
    let breaker = Place { client: &client, url: url.clone(), token: &token };
    for body in [String::new(), info(Some("a"))] {
        holder.same("LOCK", "", &info(Some("a")), 200).await;
        breaker.same("UNLOCK", "", &body, 200).await;
        breaker.same("LOCK", "", &info(Some("b")), 403).await;
    }
    // Whoever may do neither is told so as before.
    cluster.service_account(&rig.namespace, "nobody").await;
    let token = cluster.token_request(&rig.namespace, "nobody", &[AUDIENCE], 3600).await;
    let nobody = Place { client: &client, url, token: &token };
    nobody.same("UNLOCK", "", "", 403).await;
}
