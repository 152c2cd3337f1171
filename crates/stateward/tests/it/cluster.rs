//! The gate in front of a real API server: who is let in, who may, and what happens when Kubernetes is gone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use testbed::certificates::{Authority, Pair};
use testbed::{
    AUDIENCE, AuditEvent, Cluster, Direction, FRONT_PROXY_NAME, Scope, Toxiproxy, eventually, rule, scale, subject,
};

use crate::server::{PATIENCE, Server, Start, answer, status};

const PROBES: &str = "testing.stateward.dev";

/// A server beside the shared cluster, with TLS, that takes tokens for the audience of the testbed.
async fn server(cluster: &Cluster) -> (Server, String) {
    let delegator = cluster.service_account_with_auth_delegator().await;
    let start = Start::new().cluster(&delegator.kubeconfig).tls().flag("--access-audiences", AUDIENCE);
    (start.serve(), delegator.username)
}

fn probe(namespace: &str) -> String {
    format!("/probe/{namespace}/thing")
}

#[tokio::test]
async fn a_user_granted_by_a_group_binding_is_allowed() {
    let cluster = Cluster::shared().await;
    let (server, _) = server(cluster).await;
    let namespace = cluster.namespace("group").await;
    cluster.service_account(&namespace, "app").await;
    let everyone = subject::group(&format!("system:serviceaccounts:{namespace}"));
    cluster.grant(Scope::Namespace(&namespace), &[everyone], &[rule(&["get", "lock"], &[PROBES], &["probes"])]).await;
    let token = cluster.token_request(&namespace, "app", &[AUDIENCE], 600).await;

    assert_eq!(status(server.request("GET", &probe(&namespace)).bearer_auth(&token)).await, 200);
    let basic = server.request("LOCK", &probe(&namespace)).basic_auth("anybody", Some(&token));
    assert_eq!(answer(basic).await, (200, "locked".to_owned()));
}

#[tokio::test]
async fn a_denied_request_is_told_verb_resource_and_namespace() {
    let cluster = Cluster::shared().await;
    let (server, _) = server(cluster).await;
    let namespace = cluster.namespace("denied").await;
    cluster.service_account(&namespace, "app").await;
    let token = cluster.token_request(&namespace, "app", &[AUDIENCE], 600).await;
    for (method, verb) in [("GET", "get"), ("POST", "update"), ("LOCK", "lock"), ("UNLOCK", "unlock")] {
        let (status, text) = answer(server.request(method, &probe(&namespace)).bearer_auth(&token)).await;
        assert_eq!(status, 403, "{text}");
        let expected = format!(
            "user 'system:serviceaccount:{namespace}:app' may not {verb} probes.{PROBES} 'thing' in namespace '{namespace}'"
        );
        assert!(text.contains(&expected), "{text}");
    }
}

#[tokio::test]
async fn wrong_audience_expired_garbage_and_missing_tokens_are_401() {
    let cluster = Cluster::shared().await;
    let (server, _) = server(cluster).await;
    let namespace = cluster.namespace("tokens").await;
    cluster.service_account(&namespace, "app").await;
    let app = [subject::service_account(&namespace, "app")];
    cluster.grant(Scope::Namespace(&namespace), &app, &[rule(&["get"], &[PROBES], &["probes"])]).await;

    let right = cluster.signed_token(&namespace, "app", &[AUDIENCE], 600).await;
    assert_eq!(status(server.request("GET", &probe(&namespace)).bearer_auth(&right)).await, 200);
    let broken = format!("{}x", &right[..right.len() - 5]);
    let wrong = [
        ("another audience", cluster.token_request(&namespace, "app", &["https://elsewhere.example"], 600).await),
        ("expired", cluster.signed_token(&namespace, "app", &[AUDIENCE], -120).await),
        ("a broken signature", broken),
        ("garbage", "garbage".to_owned()),
    ];
    for (what, token) in wrong {
        let (status, text) = answer(server.request("GET", &probe(&namespace)).bearer_auth(&token)).await;
        assert_eq!(status, 401, "{what}: {text}");
        assert!(!text.contains(&token), "{what}: the token is in the answer");
    }
    assert_eq!(status(server.request("GET", &probe(&namespace))).await, 401);
    let two = server.request("GET", &probe(&namespace)).bearer_auth(&right).bearer_auth("other");
    assert_eq!(status(two).await, 401);
}

#[tokio::test]
async fn a_burst_of_a_hundred_requests_asks_kubernetes_once() {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let start = Start::new().cluster(&delegator.kubeconfig).tls().flag("--access-audiences", AUDIENCE);
    // Longer than the burst takes on any machine: an answer that ends meanwhile is asked for again, and rightly so.
    let ttl = ["--access-authentication-ttl", "--access-allow-ttl", "--access-deny-ttl"];
    let server = ttl.iter().fold(start, |start, name| start.flag(name, "10m")).serve();
    let namespace = cluster.namespace("burst").await;
    cluster.service_account(&namespace, "app").await;
    let app = [subject::service_account(&namespace, "app")];
    cluster.grant(Scope::Namespace(&namespace), &app, &[rule(&["get"], &[PROBES], &["probes"])]).await;
    let token = cluster.token_request(&namespace, "app", &[AUDIENCE], 600).await;

    let client = server.client();
    let path = probe(&namespace);
    let requests = (0..100).map(|_| status(server.request_by(&client, "GET", &path).bearer_auth(&token)));
    let statuses = futures::future::join_all(requests).await;
    assert_eq!(statuses, vec![200; 100]);

    // A review that the API server failed to answer was asked again, as it must be.
    let answered = |event: &AuditEvent| event.user == delegator.username && event.status == 201;
    let reviews = cluster.audit_events(answered).await;
    let tokens = reviews.iter().filter(|event| event.is_token_review()).count();
    let accesses = reviews.iter().filter(|event| event.is_subject_access_review()).count();
    assert_eq!((tokens, accesses), (1, 1));
}

#[tokio::test]
async fn a_removed_binding_counts_within_the_time_to_live() {
    let cluster = Cluster::shared().await;
    let (server, _) = server(cluster).await;
    let namespace = cluster.namespace("removed").await;
    cluster.service_account(&namespace, "app").await;
    let app = [subject::service_account(&namespace, "app")];
    let grant = cluster.grant(Scope::Namespace(&namespace), &app, &[rule(&["get"], &[PROBES], &["probes"])]).await;
    let token = cluster.token_request(&namespace, "app", &[AUDIENCE], 3600).await;
    let path = probe(&namespace);
    assert_eq!(status(server.request("GET", &path).bearer_auth(&token)).await, 200);

    cluster.remove_binding(&grant).await;
    let removed = Instant::now();
    eventually(PATIENCE, || async { status(server.request("GET", &path).bearer_auth(&token)).await == 403 }).await;
    if scale().is_full() {
        // Ten seconds of our cache, and the moment that the API server's authorizer takes to learn of it.
        assert!(removed.elapsed() < Duration::from_secs(12), "{:?}", removed.elapsed());
    }
}

#[tokio::test]
async fn a_certificate_of_the_cluster_is_an_identity_with_its_groups() {
    let cluster = Cluster::shared().await;
    let (server, _) = server(cluster).await;
    let namespace = cluster.namespace("certificate").await;
    let group = format!("team-{namespace}");
    cluster
        .grant(Scope::Namespace(&namespace), &[subject::group(&group)], &[rule(&["get"], &[PROBES], &["probes"])])
        .await;
    let path = probe(&namespace);
    let by = |pair: Pair| status(server.request_by(&server.client_with(&pair), "GET", &path));

    let authority = cluster.client_ca();
    assert_eq!(by(authority.client("jane", &[&group])).await, 200);
    assert_eq!(by(authority.client("jane", &["other"])).await, 403);
    // The cluster's own authority may say `system:`.
    assert_eq!(by(authority.client("root", &["system:masters"])).await, 200);
    let past = SystemTime::now() - Duration::from_secs(7200)..SystemTime::now() - Duration::from_secs(3600);
    assert_eq!(by(authority.client_with("jane", &[&group], past)).await, 401);
    assert_eq!(by(authority.server(&["jane"])).await, 401, "a server certificate is no client");
}

#[tokio::test]
async fn system_masters_of_an_untrusted_authority_is_not_an_admin() {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let namespace = cluster.namespace("masters").await;
    let ordinary = Authority::new("an authority of our own");
    let directory = testbed::process::scratch("ca").unwrap();
    let file = directory.join("ca.crt");
    std::fs::write(&file, ordinary.certificate_pem()).unwrap();
    let start = Start::new().cluster(&delegator.kubeconfig).tls().flag("--tls-client-ca-file", &file);
    let server = start.serve();
    cluster
        .grant(Scope::Namespace(&namespace), &[subject::user("jane")], &[rule(&["get"], &[PROBES], &["probes"])])
        .await;

    let path = probe(&namespace);
    let by = |method: &'static str, pair: Pair| answer(server.request_by(&server.client_with(&pair), method, &path));
    let (status, text) = by("GET", ordinary.client("somebody", &["system:masters"])).await;
    assert_eq!(status, 403, "the group is dropped, the user stays: {text}");
    assert_eq!(by("GET", ordinary.client("jane", &["system:masters"])).await.0, 200, "what jane may do herself");
    assert_eq!(by("POST", ordinary.client("jane", &["system:masters"])).await.0, 403);
    assert_eq!(by("GET", ordinary.client("system:admin", &[])).await.0, 401, "a system: user is refused whole");
    let stranger = Authority::new("nobody knows this one");
    let (status, text) = by("GET", stranger.client("root", &["system:masters"])).await;
    assert_eq!(status, 401, "{text}");
    assert!(text.contains("not of an authority that counts here"), "{text}");

    // The same authority, marked by the operator, may speak of system groups.
    let start = Start::new().cluster(&delegator.kubeconfig).tls().flag("--tls-client-ca-file", &file);
    let trusting = start.switch("--tls-client-ca-trusted").serve();
    let client = trusting.client_with(&ordinary.client("somebody", &["system:masters"]));
    assert_eq!(crate::server::status(trusting.request_by(&client, "POST", &path)).await, 200);
}

#[tokio::test]
async fn a_front_proxy_vouches_for_callers_only_with_its_own_certificate() {
    let cluster = Cluster::shared().await;
    let (server, _) = server(cluster).await;
    let namespace = cluster.namespace("proxy").await;
    let group = format!("team-{namespace}");
    cluster
        .grant(Scope::Namespace(&namespace), &[subject::group(&group)], &[rule(&["get"], &[PROBES], &["probes"])])
        .await;
    let path = probe(&namespace);
    let as_jane = |client: &reqwest::Client| {
        let request = server.request_by(client, "GET", &path);
        answer(request.header("X-Remote-User", "jane").header("X-Remote-Group", &group))
    };

    let proxy = server.client_with(&cluster.front_proxy_certificate(FRONT_PROXY_NAME));
    assert_eq!(as_jane(&proxy).await.0, 200);
    let unnamed = server.request_by(&proxy, "GET", &path);
    assert_eq!(status(unnamed).await, 401, "the proxy itself is nobody");
    let other = server.client_with(&cluster.front_proxy_certificate("somebody-else"));
    assert_eq!(as_jane(&other).await.0, 401, "a name that is not allowed");
    assert_eq!(as_jane(&server.client()).await.0, 401, "no certificate at all");
    let client = server.client_with(&cluster.client_ca().client("mallory", &[]));
    let (status, text) = as_jane(&client).await;
    assert_eq!(status, 403, "{text}");
    assert!(text.contains("user 'mallory'"), "the headers are ignored: {text}");
}

#[tokio::test]
async fn a_proxy_whose_user_does_not_count_is_not_taken_for_the_caller() {
    // Its own certificate would be an identity: clients and proxies have the same authority.
    let authority = Authority::new("for both");
    let file = testbed::process::scratch("ca").unwrap().join("ca.crt");
    std::fs::write(&file, authority.certificate_pem()).unwrap();
    let start = Start::new().tls().flag("--tls-client-ca-file", &file).flag("--front-proxy-ca-file", &file);
    let start = start.flag("--front-proxy-allowed-names", "proxy");
    let server = start.flag("--access-grants", "user:proxy=viewer@*,user:jane=viewer@*,user:other=viewer@*").serve();
    let by = |client: &reqwest::Client, user: Option<&'static [u8]>| {
        let request = server.request_by(client, "GET", "/probe/a/thing");
        match user {
            Some(user) => answer(request.header("X-Remote-User", user)),
            None => answer(request),
        }
    };
    let proxy = server.client_with(&authority.client("proxy", &[]));
    assert_eq!(by(&proxy, Some(b"jane")).await.0, 200);
    assert_eq!(by(&proxy, None).await.0, 200, "without a user it speaks for itself");
    for unusable in [&b"system:admin"[..], b"system:anonymous", b"j\xe4ne", b""] {
        let (status, text) = by(&proxy, Some(unusable)).await;
        assert_eq!(status, 401, "{unusable:?}: {text}");
        assert!(text.contains("the front proxy passes on a user"), "{text}");
    }
    let other = server.client_with(&authority.client("other", &[]));
    assert_eq!(by(&other, Some(b"system:admin")).await.0, 200, "the headers of one that is no proxy are ignored");
}

#[tokio::test]
async fn authorities_in_files_are_read_again_while_the_cluster_cannot_be_asked() {
    let cluster = Cluster::shared().await;
    let toxiproxy = Toxiproxy::start().expect("toxiproxy");
    let way = toxiproxy.proxy(cluster.url().trim_start_matches("https://")).await.expect("a proxy");
    let delegator = cluster.service_account_with_auth_delegator().await;
    let kubeconfig = delegator.kubeconfig.clone().with_server(&format!("https://{}", way.address));
    let (before, after) = (Authority::new("before"), Authority::new("after"));
    let file = testbed::process::scratch("ca").unwrap().join("ca.crt");
    std::fs::write(&file, before.certificate_pem()).unwrap();
    let start = Start::new().cluster(&kubeconfig).tls().flag("--tls-client-ca-file", &file);
    let server = start.flag("--access-review-deadline", "1s").serve();
    let by = |pair: Pair| status(server.request_by(&server.client_with(&pair), "GET", "/probe/a/thing"));
    let (old, new) = (before.client("jane", &[]), after.client("jane", &[]));
    let of_cluster = cluster.client_ca().client("jane", &[]);
    let known = |status: u16| status == 403 || status == 503;
    assert!(known(by(old.clone()).await) && known(by(of_cluster.clone()).await));
    assert_eq!(by(new.clone()).await, 401);

    way.timeout(Direction::Downstream).await.expect("toxiproxy");
    std::fs::write(&file, after.certificate_pem()).unwrap();
    // Whoever is known gets no further now: nobody can say what they may.
    eventually(PATIENCE, || async { known(by(new.clone()).await) }).await;
    assert_eq!(by(old).await, 401);
    assert!(known(by(of_cluster).await), "the cluster's own authority counts as last seen");
    let log = server.process.log();
    assert_eq!(log.matches("do not count until this is mended").count(), 1, "{log}");
}

#[tokio::test]
async fn many_new_tokens_of_one_address_are_reviewed_and_let_in() {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let start = Start::new().cluster(&delegator.kubeconfig).tls().flag("--access-audiences", AUDIENCE);
    let server = start.flag("--access-new-tokens", "5").serve();
    let namespace = cluster.namespace("newcomers").await;
    cluster.service_account(&namespace, "app").await;
    let mut tokens = Vec::new();
    for number in 0..30 {
        tokens.push(cluster.signed_token(&namespace, "app", &[AUDIENCE], 3600 + number).await);
    }
    let client = server.client();
    let path = probe(&namespace);
    // More than the rate, and none of them in vain: the places of those who were good are taken by the next.
    for token in &tokens {
        assert_eq!(status(server.request_by(&client, "GET", &path).bearer_auth(token)).await, 403);
    }
    // A flood of bad ones: whoever was turned away and comes again gets in.
    let (over, turned_away) = (AtomicBool::new(false), AtomicUsize::new(0));
    let flood = (0..20).map(|number| {
        let (client, path, over, turned_away, server) = (&client, &path, &over, &turned_away, &server);
        async move {
            for round in 0.. {
                if over.load(Relaxed) {
                    break;
                }
                let request = server.request_by(client, "GET", path).bearer_auth(format!("bad-{number}-{round}"));
                turned_away.fetch_add(usize::from(status(request).await == 429), Relaxed);
            }
        }
    });
    let late = cluster.signed_token(&namespace, "app", &[AUDIENCE], 7200).await;
    let gets_in = async {
        eventually(PATIENCE, || async { turned_away.load(Relaxed) > 40 }).await;
        let get = || status(server.request_by(&client, "GET", &path).bearer_auth(&late));
        eventually(PATIENCE, || async { get().await == 403 }).await;
        over.store(true, Relaxed);
    };
    tokio::join!(futures::future::join_all(flood), gets_in);
}

#[tokio::test]
async fn a_start_with_overlapping_authorities_and_no_allowed_names_is_refused() {
    let authority = Authority::new("for both");
    let directory = testbed::process::scratch("ca").unwrap();
    // Two files with the same authority: that they overlap shows only in what they hold.
    let (client, proxy) = (directory.join("client.crt"), directory.join("proxy.crt"));
    std::fs::write(&client, authority.certificate_pem()).unwrap();
    std::fs::write(&proxy, Authority::new("another").certificate_pem().to_owned() + authority.certificate_pem())
        .unwrap();
    let start = || Start::new().tls().flag("--tls-client-ca-file", &client).flag("--front-proxy-ca-file", &proxy);
    let mut process = start().spawn();
    let status = process.wait(PATIENCE).expect("the start is refused");
    assert!(!status.success());
    assert!(process.log().contains("the client CA and the front-proxy CA overlap"), "{}", process.log());
    start().flag("--front-proxy-allowed-names", "proxy").serve();
}

#[tokio::test]
async fn an_api_server_that_is_down_fails_closed_and_recovers_by_itself() {
    let cluster = Cluster::own().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let ttl = ["--access-authentication-ttl", "--access-allow-ttl", "--access-deny-ttl"];
    let start = Start::new().cluster(&delegator.kubeconfig).flag("--access-review-deadline", "2s");
    let start = ttl.iter().fold(start, |start, name| start.flag(name, "1s"));
    let server = start.flag("--access-audiences", AUDIENCE).serve();
    let namespace = cluster.namespace("down").await;
    cluster.service_account(&namespace, "app").await;
    let app = [subject::service_account(&namespace, "app")];
    cluster.grant(Scope::Namespace(&namespace), &app, &[rule(&["get", "update"], &[PROBES], &["probes"])]).await;
    let token = cluster.token_request(&namespace, "app", &[AUDIENCE], 3600).await;
    let path = probe(&namespace);
    let get = || status(server.request("GET", &path).bearer_auth(&token));
    assert_eq!(get().await, 200);
    assert_eq!(status(server.request("GET", "/readyz")).await, 200);

    cluster.stop_api_server().await;
    // What was decided before may count for its time to live, and not longer.
    eventually(PATIENCE, || async { get().await == 503 }).await;
    for method in ["GET", "POST", "LOCK"] {
        let asked = Instant::now();
        let (status, text) = answer(server.request(method, &path).bearer_auth(&token)).await;
        assert_eq!(status, 503, "{text}");
        assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    }
    assert_eq!(status(server.request("GET", "/readyz")).await, 503);
    assert_eq!(status(server.request("GET", "/healthz")).await, 200);

    cluster.start_api_server().await;
    eventually(PATIENCE, || async { get().await == 200 }).await;
    eventually(PATIENCE, || async { status(server.request("GET", "/readyz")).await == 200 }).await;
    assert!(!server.data.join("first-token").exists(), "a cluster authenticates: there is no token of our own");
}

#[tokio::test]
async fn a_kubeconfig_is_an_identity_of_the_command_line() {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    // No audiences are set here: a token for the API server itself is what people have in a kubeconfig.
    let server = Start::new().cluster(&delegator.kubeconfig).tls().serve();
    let namespace = cluster.namespace("kubeconfig").await;
    cluster.service_account(&namespace, "app").await;
    let token = cluster.token_request(&namespace, "app", &[], 600).await;
    let list = |kubeconfig: &testbed::Kubeconfig| {
        let mut command = crate::run::stateward(&["token", "list", "--server", &server.url]);
        command
            .arg("--ca-file")
            .arg(server.data.join("tls/self-signed.crt"))
            .arg("--kubeconfig")
            .arg(kubeconfig.write());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A server beside a cluster has no tokens of its own, and says so to those whom it knows.
    for known in [cluster.kubeconfig_for_token(&token), cluster.user("jane", &[]).kubeconfig().clone()] {
        let (code, said) = list(&known);
        assert_eq!(code, Some(5), "{said}");
        assert!(said.contains("this server has no tokens of its own") && said.contains("hint: "), "{said}");
    }
    let (code, said) = list(&cluster.kubeconfig_for_token("garbage"));
    assert_eq!(code, Some(4), "{said}");
    assert!(!said.contains("garbage"), "{said}");
}

#[tokio::test]
async fn the_end_of_the_audit_log_goes_to_a_lease() {
    let cluster = Cluster::shared().await;
    let delegator = cluster.service_account_with_auth_delegator().await;
    let leases = [rule(&["get", "create", "patch"], &["coordination.k8s.io"], &["leases"])];
    let account = delegator.username.rsplit_once(':').unwrap().1;
    let subject = subject::service_account(&delegator.namespace, account);
    cluster.grant(Scope::Namespace(&delegator.namespace), &[subject], &leases).await;
    let kubeconfig = delegator.kubeconfig.write();
    let start = Start::new().flag("--cluster-kubeconfig", &kubeconfig).flag("--audit-lease-every", "1s");
    let mut server = start.flag("--cluster-namespace", &delegator.namespace).serve();
    assert_eq!(status(server.request("GET", "/metrics")).await, 401);
    let api: kube::Api<k8s_openapi::api::coordination::v1::Lease> =
        kube::Api::namespaced(cluster.client(), &delegator.namespace);
    let published = || async {
        let leases = api.list(&kube::api::ListParams::default()).await.ok()?;
        let annotations = leases.items.into_iter().next()?.metadata.annotations?;
        // Two lines at least: the start, and the request that was refused.
        let head = annotations.get("stateward.dev/audit-head")?.split_once(':')?.0.parse::<u64>().ok()?;
        (head >= 2).then_some(head)
    };
    eventually(PATIENCE, published).await;
    server.process.kill();

    // Somebody cuts the log off and makes the database forget: the Lease remembers.
    let log = server.data.join("audit/audit.log");
    let first = std::fs::read_to_string(&log).unwrap().lines().next().unwrap().to_owned() + "\n";
    std::fs::write(&log, first).unwrap();
    let verify = || {
        let mut command = crate::run::stateward(&["audit", "verify", "--cluster-namespace", &delegator.namespace]);
        command.arg("--data-dir").arg(&server.data).arg("--cluster-kubeconfig").arg(&kubeconfig).output().unwrap()
    };
    let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let found = verify();
    assert_eq!(found.status.code(), Some(7));
    assert!(text(&found).contains("the database remembers"), "{}", text(&found));
    for file in ["stateward.db", "stateward.db-wal", "stateward.db-shm"] {
        let _ = std::fs::remove_file(server.data.join(file));
    }
    let found = verify();
    assert_eq!(found.status.code(), Some(7));
    assert!(text(&found).contains("the Lease remembers"), "{}", text(&found));
    assert!(!server.data.join("stateward.db").exists(), "a check makes no database");

    // A server that starts on it nevertheless says so and does not lower the Lease.
    let again = |data: &std::path::Path| {
        let start = Start::on(data.to_owned()).flag("--cluster-kubeconfig", &kubeconfig);
        let start = start.flag("--audit-lease-every", "1s").flag("--metrics-listen", "127.0.0.1:0");
        start.flag("--cluster-namespace", &delegator.namespace).serve()
    };
    let remembered = published().await.expect("a head");
    let mut server = again(&server.data);
    let readiness = |server: &Server| {
        let request = server.client().get(server.metrics_url().replace("/metrics", "/readyz?verbose"));
        async move { request.send().await.unwrap().text().await.unwrap() }
    };
    eventually(PATIENCE, || async { readiness(&server).await.contains("[-] audit lease not ready") }).await;
    assert_eq!(published().await, Some(remembered), "{}", server.process.log());
    server.process.stop(PATIENCE).unwrap();
    assert_eq!(published().await, Some(remembered));
    let found = verify();
    assert_eq!(found.status.code(), Some(7), "{}", text(&found));

    // Accepted, the numbers go on after the one that the Lease remembers.
    let mut accept = crate::run::stateward(&["audit", "accept", "--cluster-namespace", &delegator.namespace]);
    let accepted = accept.arg("--data-dir").arg(&server.data).arg("--cluster-kubeconfig").arg(&kubeconfig).output();
    assert!(accepted.as_ref().unwrap().status.success(), "{accepted:?}");
    let server = again(&server.data);
    eventually(PATIENCE, || async { published().await.is_some_and(|head| head > remembered) }).await;
    assert!(readiness(&server).await.contains("[+] audit lease ok"), "{}", readiness(&server).await);
    let found = verify();
    assert_eq!(found.status.code(), Some(0), "{}", text(&found));
}

#[tokio::test]
async fn metrics_and_verbose_readiness_need_a_nonresource_url_grant() {
    let cluster = Cluster::shared().await;
    let (server, _) = server(cluster).await;
    let namespace = cluster.namespace("metrics").await;
    for account in ["reader", "other"] {
        cluster.service_account(&namespace, account).await;
    }
    let mut paths = rule(&["get"], &[], &[]);
    (paths.api_groups, paths.resources) = (None, None);
    paths.non_resource_urls = Some(vec!["/metrics".to_owned(), "/readyz".to_owned()]);
    let reader = [subject::service_account(&namespace, "reader")];
    cluster.grant(Scope::Cluster, &reader, &[paths]).await;
    let allowed = cluster.token_request(&namespace, "reader", &[AUDIENCE], 600).await;
    let denied = cluster.token_request(&namespace, "other", &[AUDIENCE], 600).await;
    for path in ["/metrics", "/readyz?verbose"] {
        assert_eq!(status(server.request("GET", path)).await, 401, "{path}");
        assert_eq!(status(server.request("GET", path).bearer_auth(&allowed)).await, 200, "{path}");
    }
    // Kubernetes itself grants everybody /readyz (system:public-info-viewer), so only /metrics can tell.
    assert_eq!(status(server.request("GET", "/metrics").bearer_auth(&denied)).await, 403);
    let (_, metrics) = answer(server.request("GET", "/metrics").bearer_auth(&allowed)).await;
    assert!(metrics.contains("stateward_access_reviews_total"), "{metrics}");
    assert!(!metrics.contains(&namespace) && !metrics.contains("reader"), "{metrics}");
}
