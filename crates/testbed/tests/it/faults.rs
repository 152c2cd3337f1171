//! The proxy in front of the real API server: each rule does what it says, seen from both sides.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;
use testbed::faults::{Fault, Proxy, Rule};
use testbed::{Cluster, Scope, eventually, rule, subject};

#[tokio::test]
async fn what_no_rule_is_about_passes_and_is_counted() {
    let bench = Bench::new().await;
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::CREATED);
    assert!(bench.exists("a").await);
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::CONFLICT);
    assert_eq!(bench.proxy.passed(&Method::POST, "/configmaps"), 2);
    assert_eq!(bench.proxy.passed(&Method::GET, "/configmaps"), 0);
    let answers: Vec<_> = bench.proxy.exchanges().into_iter().map(|exchange| exchange.answer).collect();
    assert_eq!(answers, [Some(StatusCode::CREATED), Some(StatusCode::CONFLICT)]);
}

#[tokio::test]
async fn an_answer_of_the_proxy_keeps_the_request_from_the_peer() {
    let bench = Bench::new().await;
    bench.proxy.add(Rule::new(Fault::too_many_requests(7)).method(Method::POST).path("/configmaps").nth(1));
    bench.proxy.add(Rule::new(Fault::status(StatusCode::INTERNAL_SERVER_ERROR)).path("/configmaps").nth(2));
    let refused = bench.post("a").send().await.expect("an answer");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "7");
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!bench.exists("a").await && bench.proxy.passed(&Method::POST, "") == 0);
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::CREATED);
}

#[tokio::test]
async fn a_lost_request_never_reaches_the_peer() {
    let bench = Bench::new().await;
    bench.proxy.add(Rule::new(Fault::LoseRequest).method(Method::POST));
    bench.create("a").await.expect_err("the connection is cut");
    assert!(!bench.exists("a").await && bench.proxy.passed(&Method::POST, "") == 0);
    bench.proxy.clear();
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::CREATED);
}

#[tokio::test]
async fn a_lost_answer_leaves_the_work_done() {
    let bench = Bench::new().await;
    bench.proxy.add(Rule::new(Fault::LoseAnswer).method(Method::POST).first(1));
    bench.create("a").await.expect_err("the connection is cut");
    assert!(bench.exists("a").await);
    assert_eq!(bench.proxy.exchanges()[0].answer, None);
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_delayed_answer_comes_after_the_work_and_a_delayed_request_before_it() {
    let bench = Bench::new().await;
    let hour = Duration::from_hours(1);
    bench.proxy.add(Rule::new(Fault::DelayAnswer(hour)).nth(1));
    bench.proxy.add(Rule::new(Fault::DelayRequest(hour)).nth(2));
    let brief = Duration::from_millis(500);
    bench.proxy.add(Rule::new(Fault::DelayRequest(brief)).nth(3));

    let late = tokio::spawn(bench.post("late-answer").send());
    eventually(Duration::from_mins(1), || bench.exists("late-answer")).await;
    assert!(!late.is_finished(), "the work is done and the client does not know");
    late.abort();
    let patience = Duration::from_secs(2);
    assert!(bench.post("late-request").timeout(patience).send().await.expect_err("too late").is_timeout());
    assert!(!bench.exists("late-request").await);

    let started = Instant::now();
    assert_eq!(bench.create("late").await.expect("an answer"), StatusCode::CREATED);
    assert!(started.elapsed() >= brief);
}

#[tokio::test]
async fn a_repeated_request_is_answered_as_the_second() {
    let bench = Bench::new().await;
    bench.proxy.add(Rule::new(Fault::Repeat).method(Method::POST).nth(1));
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::CONFLICT);
    assert!(bench.exists("a").await);
    assert_eq!(bench.proxy.passed(&Method::POST, "/configmaps"), 2);
}

#[tokio::test]
async fn a_header_that_is_taken_away_does_not_reach_the_peer() {
    let bench = Bench::new().await;
    bench.proxy.add(Rule::new(Fault::RemoveHeaders(vec![http::header::AUTHORIZATION])).nth(1));
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::FORBIDDEN, "as anybody");
    assert_eq!(bench.create("a").await.expect("an answer"), StatusCode::CREATED);
}

#[tokio::test]
async fn the_rules_hold_over_http_2_too() {
    let mut bench = Bench::new().await;
    bench.client = reqwest::Client::builder().http2_prior_knowledge().build().expect("a client");
    bench.proxy.add(Rule::new(Fault::LoseAnswer).nth(1));
    bench.proxy.add(Rule::new(Fault::LoseRequest).nth(2));
    bench.create("a").await.expect_err("the stream is cut");
    assert!(bench.exists("a").await);
    bench.create("b").await.expect_err("the stream is cut");
    assert!(!bench.exists("b").await);
    let answer = bench.post("b").send().await.expect("an answer");
    assert_eq!((answer.version(), answer.status()), (http::Version::HTTP_2, StatusCode::CREATED));
}

#[tokio::test]
async fn a_kubernetes_client_works_through_the_proxy_over_tls_and_streams_its_watch() {
    use futures::{StreamExt, pin_mut};

    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("faults-tls").await;
    let served = cluster.client_ca().server(&["127.0.0.1"]);
    let admin = cluster.client_ca().client("through-the-proxy", &["system:masters"]);
    let authority = cluster.client_ca().certificate_pem();
    let proxy = Proxy::to(cluster.url()).trusting(authority).presenting(&admin).serving(&served).start();
    assert!(proxy.url().starts_with("https://"));

    let kubeconfig = cluster.kubeconfig_for_certificate(&admin).with_server(proxy.url());
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client_as(&kubeconfig), &namespace);
    let parameters = kube::api::WatchParams::default().fields("metadata.name=made").disable_bookmarks();
    let events = maps.watch(&parameters, "0").await.expect("a watch");
    pin_mut!(events);
    let manifest = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: made, namespace: {namespace}}}}}");
    cluster.apply(&manifest).await;
    // The watch is still open when its first event comes out.
    let event = tokio::time::timeout(Duration::from_mins(1), events.next()).await.expect("an event in time");
    assert!(matches!(event, Some(Ok(kube::api::WatchEvent::Added(_)))), "{event:?}");
}

#[tokio::test]
async fn a_peer_that_is_down_is_a_bad_gateway() {
    let port = testbed::process::free_port().expect("a port");
    let proxy = Proxy::to(&format!("http://127.0.0.1:{port}")).start();
    let answer = reqwest::get(proxy.url()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::BAD_GATEWAY);
}

/// A namespace, somebody who may make ConfigMaps in it, and a plain http proxy in front of the API server.
struct Bench {
    cluster: &'static Cluster,
    namespace: String,
    token: String,
    proxy: Proxy,
    client: reqwest::Client,
}

impl Bench {
    async fn new() -> Bench {
        let cluster = Cluster::shared().await;
        let namespace = cluster.namespace("faults").await;
        let user = cluster.static_token_user();
        let rules = [rule(&["create"], &[""], &["configmaps"])];
        cluster.grant(Scope::Namespace(&namespace), &[subject::user(&user.name)], &rules).await;
        let proxy = Proxy::to(cluster.url()).trusting(cluster.client_ca().certificate_pem()).start();
        Bench { cluster, namespace, token: user.token, proxy, client: reqwest::Client::new() }
    }

    fn post(&self, name: &str) -> reqwest::RequestBuilder {
        let url = format!("{}/api/v1/namespaces/{}/configmaps", self.proxy.url(), self.namespace);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        self.client.post(url).bearer_auth(&self.token).json(&map)
    }

    async fn create(&self, name: &str) -> reqwest::Result<StatusCode> {
        Ok(self.post(name).send().await?.status())
    }

    /// Asked of the API server itself.
    async fn exists(&self, name: &str) -> bool {
        let maps: Api<ConfigMap> = Api::namespaced(self.cluster.client(), &self.namespace);
        maps.get_opt(name).await.expect("read").is_some()
    }
}
