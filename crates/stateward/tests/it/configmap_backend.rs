//! `stateward configmap-backend`: every flag of the original has the effect that its help promises.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::Duration;

use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use rustix::process::Signal;
use testbed::process::scratch;
use testbed::{AUDIENCE, Cluster, Scope, eventually, rule, subject};

use crate::backend::{Backend, EVERYTHING, Launch, NAME, identity};
use crate::compat::{NEW, gunzip, info, somebody};
use crate::original::Original;
use crate::run::{Run, in_pod, stateward, tofu};
use crate::server::{PATIENCE, answer, status};

/// Every flag that the original lists: its name, the word for its type and its default.
const FLAGS: &[(&str, &str, &str)] = &[
    ("authentication-kubeconfig", "string", ""),
    ("authentication-skip-lookup", "", ""),
    ("authentication-token-webhook-cache-ttl", "duration", "10s"),
    ("authentication-tolerate-lookup-failure", "", ""),
    ("authorization-always-allow-paths", "strings", ""),
    ("authorization-kubeconfig", "string", ""),
    ("authorization-webhook-cache-authorized-ttl", "duration", "10s"),
    ("authorization-webhook-cache-unauthorized-ttl", "duration", "10s"),
    ("bind-address", "ip", "0.0.0.0"),
    ("cert-dir", "string", "\"tf-kubernetes-configmap-backend/certificates\""),
    ("client-ca-file", "string", ""),
    ("compress-state", "", ""),
    ("http2-max-streams-per-connection", "int", ""),
    ("kubeconfig", "string", ""),
    ("log-flush-frequency", "duration", "5s"),
    ("minify-state", "", ""),
    ("requestheader-allowed-names", "strings", ""),
    ("requestheader-client-ca-file", "string", ""),
    ("requestheader-extra-headers-prefix", "strings", "[x-remote-extra-]"),
    ("requestheader-group-headers", "strings", "[x-remote-group]"),
    ("requestheader-username-headers", "strings", "[x-remote-user]"),
    ("secure-port", "int", "8443"),
    ("tls-cert-file", "string", ""),
    ("tls-cipher-suites", "strings", ""),
    ("tls-min-version", "string", ""),
    ("tls-private-key-file", "string", ""),
    ("tls-sni-cert-key", "namedCertKey", "[]"),
    ("version", "", ""),
];

#[test]
fn the_flags_are_those_of_the_original() {
    let help = Run::of(&mut stateward(&["configmap-backend", "--help"]));
    assert!(help.code == Some(2) && help.out.is_empty(), "as programs in Go do: {help:#?}");
    let mut lines = help.err.lines();
    assert_eq!(lines.next(), Some("Usage of tf-kubernetes-configmap-backend:"));
    let found: Vec<(String, String, String)> = lines
        .map(|line| {
            let (left, right) = line.trim_start().split_once("   ").expect("two columns");
            let (name, kind) = left.trim_end().split_once(' ').unwrap_or((left.trim_end(), ""));
            let default = right.rsplit_once(" (default ").and_then(|(_, value)| value.strip_suffix(')'));
            let name = name.strip_prefix("--").expect("a flag");
            (name.to_owned(), kind.to_owned(), default.unwrap_or_default().to_owned())
        })
        .collect();
    let expected: Vec<_> =
        FLAGS.iter().map(|(name, kind, default)| (name.to_string(), kind.to_string(), default.to_string())).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_version_goes_to_stderr() {
    let secure_port = ["--secure-port=1", "--version"];
    for more in [&["--version"][..], &secure_port, &["--version=true"], &["--version=1"], &["--version=T"]] {
        let run = Run::of(stateward(&["configmap-backend"]).args(more));
        assert!(run.code == Some(0) && run.out.is_empty() && run.err.contains(env!("CARGO_PKG_VERSION")), "{run:#?}");
    }
}

#[test]
fn wrong_values_are_refused_by_name() {
    let table = [
        ("--secure-port=0", "--secure-port"),
        ("--secure-port=65536", "--secure-port"),
        ("--bind-address=localhost", "--bind-address"),
        ("--log-flush-frequency=5", "--log-flush-frequency"),
        ("--authentication-token-webhook-cache-ttl=-1s", "--authentication-token-webhook-cache-ttl"),
        ("--http2-max-streams-per-connection=-1", "--http2-max-streams-per-connection"),
        ("--tls-min-version=1.2", "--tls-min-version"),
        ("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA", "--tls-cipher-suites: none of these"),
        ("--tls-cipher-suites=TLS_NONSENSE", "TLS_NONSENSE"),
        ("--tls-sni-cert-key=one.crt", "--tls-sni-cert-key"),
        ("--tls-cert-file=one.crt", "--tls-private-key-file"),
        ("--authorization-always-allow-paths=/a*b", "--authorization-always-allow-paths"),
        ("--compress-state=maybe", "--compress-state"),
        ("--nonsense", "--nonsense"),
    ];
    for (flag, told) in table {
        let (code, log) = Launch::bare().switch(flag).fails();
        assert!(code == 2 && log.contains(told), "{flag}: {code} {log}");
    }
}

#[tokio::test]
async fn values_are_written_as_programs_in_go_take_them() {
    // What charts pass for what is not set; then other forms of the same value.
    let empty = [
        "client-ca-file",
        "requestheader-client-ca-file",
        "tls-cert-file",
        "tls-private-key-file",
        "tls-min-version",
        "tls-cipher-suites",
        "authorization-always-allow-paths",
        "requestheader-allowed-names",
        "requestheader-username-headers",
        "bind-address",
    ];
    let given = [
        "--compress-state=T",
        "--minify-state=FALSE",
        "--authentication-skip-lookup=1",
        "--authentication-tolerate-lookup-failure=f",
        "--version=false",
        "--help=0",
        "--http2-max-streams-per-connection=0x10",
        "--log-flush-frequency=1.5s",
        "--authentication-token-webhook-cache-ttl=0h0m10s",
        "--authorization-webhook-cache-authorized-ttl=+5000ms",
        "--authorization-webhook-cache-unauthorized-ttl=0",
        "--authorization-always-allow-paths=/healthz,/livez",
        "--authorization-always-allow-paths=\"/readyz\"",
        "--requestheader-group-headers=x-group,x-other",
        "--bind-address=127.0.0.1",
    ];
    let launch = empty.iter().fold(Launch::new().await, |launch, flag| launch.flag(&format!("--{flag}"), ""));
    let backend = given.iter().fold(launch, |launch, flag| launch.switch(flag)).start();
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(status(backend.request("GET", path)).await, 200, "{path}");
    }
    // An empty kubeconfig is none: this is no Pod.
    let nothing = ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"];
    let (_, log) = nothing.iter().fold(Launch::bare(), |launch, flag| launch.flag(flag, "")).fails();
    assert!(log.contains("is not given"), "{log}");
    // Nor has the certificate to be in a directory of its own.
    let beside = Launch::new().await.flag("--cert-dir", "").start();
    let certificate = beside.directory.join("data/certificates").join(format!("{NAME}.crt"));
    assert!(certificate.exists(), "{}", beside.process.log());
}

#[tokio::test]
async fn each_kubeconfig_is_asked_for_its_own_part() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("three").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    let mut kubeconfigs = Vec::new();
    let rules = [
        rule(EVERYTHING, &[""], &["configmaps"]),
        rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ];
    for (name, rule) in ["core", "authentication", "authorization"].into_iter().zip(rules) {
        cluster.service_account(&namespace, name).await;
        cluster.grant(Scope::Cluster, &[subject::service_account(&namespace, name)], &[rule]).await;
        let token = cluster.token_request(&namespace, name, &[], 3600).await;
        kubeconfigs.push(cluster.kubeconfig_for_token(&token).write());
    }
    let launch = Launch::bare()
        .flag("--kubeconfig", &kubeconfigs[0])
        .flag("--authentication-kubeconfig", &kubeconfigs[1])
        .flag("--authorization-kubeconfig", &kubeconfigs[2])
        .switch("--authentication-skip-lookup");
    let backend = launch.start();
    let path = format!("/{namespace}/app");
    let post = backend.request("POST", &path).basic_auth("terraform", Some(&token)).body(NEW);
    assert_eq!(answer(post).await, (200, String::new()));
    for (name, expected) in [
        ("core", &["create configmaps", "get configmaps"][..]),
        ("authentication", &["create tokenreviews"]),
        ("authorization", &["create subjectaccessreviews"]),
    ] {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        assert_eq!(cluster.verbs_used_by(&user).await, expected, "{name}");
    }
    // Each is missed by its name.
    for missing in 0..3 {
        let flags = ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"];
        let given = flags.iter().zip(&kubeconfigs).enumerate().filter(|(index, _)| *index != missing);
        let launch = given.fold(Launch::bare(), |launch, (_, (flag, file))| launch.flag(flag, file));
        let (_, log) = launch.fails();
        assert!(log.contains(&format!("{} is not given", flags[missing])), "{log}");
    }
}

#[tokio::test]
async fn without_kubeconfigs_it_is_the_service_account_of_its_pod() {
    let cluster = Cluster::shared().await;
    let (_, kubeconfig) = identity().await;
    let text: serde_json::Value = serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap();
    let pod = scratch("pod").unwrap();
    std::fs::write(pod.join("token"), text["users"][0]["user"]["token"].as_str().unwrap()).unwrap();
    std::fs::write(pod.join("ca.crt"), cluster.client_ca().certificate_pem()).unwrap();
    std::fs::write(pod.join("namespace"), "default").unwrap();
    let namespace = cluster.namespace("pod").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    let (host, port) = cluster.url().strip_prefix("https://").unwrap().split_once(':').unwrap();
    let launch = Launch::bare()
        .variable("KUBERNETES_SERVICE_HOST", host)
        .variable("KUBERNETES_SERVICE_PORT", port)
        .variable("PATH", &std::env::var("PATH").unwrap());
    let (unshare, before) = in_pod(&pod);
    let before: Vec<&str> = before.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_stateward")]).collect();
    let backend = launch.through(unshare.as_ref(), &before).start();
    let path = format!("/{namespace}/app");
    let post = backend.request("POST", &path).basic_auth("terraform", Some(&token)).body(NEW);
    assert_eq!(answer(post).await, (200, String::new()));
}

#[tokio::test]
async fn authentication_settings_are_looked_up_unless_told_otherwise() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("lookup").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    let path = format!("/{namespace}/app");
    let jane = cluster.user("jane-of-lookup", &[]);
    let may = [rule(&["get"], &[""], &["configmaps"])];
    cluster.grant(Scope::Namespace(&namespace), &[subject::user("jane-of-lookup")], &may).await;
    let pem = format!("{}{}", jane.certificate_pem, jane.key_pem);
    let by_certificate = async |backend: &Backend| {
        let identity = reqwest::Identity::from_pem(pem.as_bytes()).unwrap();
        let client = backend.client_builder().identity(identity).build().unwrap();
        status(backend.request_by(&client, "GET", &path)).await
    };
    let by_token =
        async |backend: &Backend| status(backend.request("GET", &path).basic_auth("terraform", Some(&token))).await;
    let looked_up = async |user: &str| {
        let published = "extension-apiserver-authentication";
        let events = cluster.audit_events(|event| event.user == user && event.name == published).await;
        !events.is_empty()
    };

    let (user, kubeconfig) = identity().await;
    let backend = Launch::bare().cluster(&kubeconfig).start();
    assert_eq!((by_certificate(&backend).await, by_token(&backend).await), (200, 200));
    assert!(looked_up(&user).await);

    let (user, kubeconfig) = identity().await;
    let backend = Launch::bare().cluster(&kubeconfig).switch("--authentication-skip-lookup").start();
    assert_eq!((by_certificate(&backend).await, by_token(&backend).await), (401, 200));
    assert!(!looked_up(&user).await);

    // Somebody who may review, but not read what the cluster publishes.
    cluster.service_account(&namespace, "blind").await;
    let blind = [subject::service_account(&namespace, "blind")];
    let rules = [
        rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ];
    cluster.grant(Scope::Cluster, &blind, &rules).await;
    cluster.grant(Scope::Namespace(&namespace), &blind, &[rule(EVERYTHING, &[""], &["configmaps"])]).await;
    let blind = cluster.token_request(&namespace, "blind", &[], 3600).await;
    let blind = cluster.kubeconfig_for_token(&blind).write();
    let (_, log) = Launch::bare().cluster(&blind).fails();
    assert!(log.contains("failed to look up authentication settings"), "{log}");
    let tolerant = Launch::bare().cluster(&blind).switch("--authentication-tolerate-lookup-failure").start();
    assert_eq!((by_certificate(&tolerant).await, by_token(&tolerant).await), (401, 200));
    assert!(tolerant.process.log().contains("do not count until this is mended"), "{}", tolerant.process.log());
    // With both authorities in files there is nothing to look up.
    let directory = scratch("authorities").unwrap();
    let (clients, proxies) = (directory.join("clients.crt"), directory.join("proxies.crt"));
    std::fs::write(&clients, cluster.client_ca().certificate_pem()).unwrap();
    std::fs::write(&proxies, cluster.front_proxy_ca().certificate_pem()).unwrap();
    let files = Launch::bare().cluster(&blind).flag("--client-ca-file", clients);
    let files = files.flag("--requestheader-client-ca-file", proxies).start();
    assert_eq!((by_certificate(&files).await, by_token(&files).await), (200, 200));
}

#[tokio::test]
async fn allowed_paths_are_not_asked_about() {
    let cluster = Cluster::shared().await;
    let (open, closed) = (cluster.namespace("open").await, cluster.namespace("closed").await);
    let nobody = somebody(cluster, &open, "nobody", &[]).await;
    let paths = format!("/healthz,/readyz,/{open}/*");
    let backend = Launch::new().await.flag("--authorization-always-allow-paths", paths);
    let backend = backend.flag("--authorization-always-allow-paths", "/metrics").start();
    for (path, expected) in [("/healthz", "ok\n"), ("/readyz", "ok\n")] {
        assert_eq!(answer(backend.request("GET", path)).await, (200, expected.to_owned()), "{path}");
    }
    assert!(answer(backend.request("GET", "/metrics")).await.1.contains("stateward_http_requests"));
    assert_eq!(status(backend.request("GET", "/livez")).await, 401, "it was not named");
    assert_eq!(status(backend.request("GET", "/livez").basic_auth("x", Some(&nobody))).await, 404);
    let send = |method: &str, namespace: &str, body: &'static str| {
        backend.request(method, &format!("/{namespace}/app")).basic_auth("x", Some(&nobody)).body(body)
    };
    assert_eq!(status(backend.request("GET", &format!("/{open}/app"))).await, 401, "who they are still counts");
    assert_eq!(answer(send("POST", &open, NEW)).await, (200, String::new()));
    assert_eq!(answer(send("GET", &open, "")).await, (200, NEW.to_owned()));
    assert_eq!(answer(send("GET", &closed, "")).await, (403, String::new()));
    assert_eq!(answer(send("POST", &closed, NEW)).await, (403, String::new()));
}

#[tokio::test]
async fn answers_are_remembered_as_long_as_each_flag_says() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("ttl").await;
    let reader = somebody(cluster, &namespace, "reader", &["get"]).await;
    let nobody = somebody(cluster, &namespace, "nobody", &[]).await;
    // Which flag is 0, and how many TokenReviews and SubjectAccessReviews three requests of each then need.
    let table = [
        ("", 2, 2),
        ("authentication-token-webhook-cache-ttl", 6, 2),
        ("authorization-webhook-cache-authorized-ttl", 2, 4),
        ("authorization-webhook-cache-unauthorized-ttl", 2, 4),
    ];
    for (zero, token_reviews, access_reviews) in table {
        let (user, kubeconfig) = identity().await;
        let flags = table.iter().map(|(flag, ..)| flag).filter(|flag| !flag.is_empty());
        let launch = flags.fold(Launch::bare().cluster(&kubeconfig), |launch, flag| {
            launch.flag(&format!("--{flag}"), if *flag == zero { "0" } else { "1h0m0s" })
        });
        let backend = launch.start();
        let client = backend.client_builder().build().unwrap();
        for (token, expected) in [(&reader, 200), (&nobody, 403)] {
            for _ in 0..3 {
                let get = backend.request_by(&client, "GET", &format!("/{namespace}/app"));
                assert_eq!(status(get.basic_auth("x", Some(token))).await, expected, "{zero}");
            }
        }
        let asked = cluster.audit_events(|event| event.user == user).await;
        let tokens = asked.iter().filter(|event| event.is_token_review()).count();
        let accesses = asked.iter().filter(|event| event.is_subject_access_review()).count();
        assert_eq!((tokens, accesses), (token_reviews, access_reviews), "{zero}");
    }
}

#[tokio::test]
async fn states_are_stored_as_the_flags_say_and_come_back_as_they_were_sent() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("packing").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let odd = "{ \"version\": 4,  \"serial\": 12345678901234567890123, \"x\": [ 1.50, \"\\u003c a\" ] }\n\n";
    let minified = |text: &str| text.replace([' ', '\n'], "").replace("\\u003ca", "\\u003c a");
    let table = [
        (&[][..], "plain", false, false),
        (&["--minify-state"], "minify", true, false),
        (&["--compress-state"], "compress", false, true),
        (&["--compress-state", "--minify"], "both", true, true),
        (
            &["--compress-state", "--minify-state", "--minify-state=false", "--compress-state=false"],
            "taken-back",
            false,
            false,
        ),
    ];
    for (flags, name, minify, compress) in table {
        let launch = flags.iter().fold(Launch::new().await, |launch, flag| launch.switch(flag));
        let backend = launch.start();
        for (kind, state) in [("usual", NEW), ("odd", odd)] {
            let name = format!("{name}-{kind}");
            let send = |method: &str, body: &'static str| {
                let path = format!("/{namespace}/{name}");
                backend.request(method, &path).basic_auth("x", Some(&token)).body(body)
            };
            assert_eq!(answer(send("POST", state)).await, (200, String::new()), "{name}");
            let ByteString(stored) = maps.get(&name).await.unwrap().binary_data.unwrap().remove("tfstate").unwrap();
            assert_eq!(stored.starts_with(&[0x1f, 0x8b]), compress, "{name}");
            let stored = if compress { gunzip(&stored) } else { String::from_utf8(stored).unwrap() };
            assert_eq!(stored, if minify { minified(state) } else { state.to_owned() }, "{name}");
            // White space that no client writes is lost with minifying, as in the original; nothing else is.
            let back = if minify && kind == "odd" { minified(state) } else { state.to_owned() };
            assert_eq!(answer(send("GET", "")).await, (200, back.clone()), "{name}");
            assert_eq!(answer(send("LOCK", r#"{"ID":"a"}"#)).await.0, 200, "{name}");
            assert_eq!(answer(send("GET", "")).await, (200, back), "{name}");
        }
    }
}

#[tokio::test]
async fn a_signal_lets_requests_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let cluster = Cluster::shared().await;
        let namespace = cluster.namespace("stop").await;
        let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
        let mut backend = Launch::new().await.start();
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let piece = |text: &str| Ok::<_, std::convert::Infallible>(Frame::data(bytes::Bytes::from(text.to_owned())));
        let (first, rest) = NEW.split_at(10);
        sender.unbounded_send(piece(first)).unwrap();
        let post = backend.request("POST", &format!("/{namespace}/app")).basic_auth("x", Some(&token));
        let post = tokio::spawn(post.body(reqwest::Body::wrap(StreamBody::new(receiver))).send());
        // Its intent is on record as soon as it is inside, before its body is.
        let log = backend.directory.join("data/audit");
        let files = || std::fs::read_dir(&log).into_iter().flatten().flatten().map(|file| file.path());
        let text = || files().map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect::<String>();
        eventually(PATIENCE, || async { text().contains(&namespace) && text().contains("intent") }).await;
        backend.process.signal(signal);
        let refused = || async { std::net::TcpStream::connect(backend.address()).is_err() };
        eventually(PATIENCE, refused).await;
        sender.unbounded_send(piece(rest)).unwrap();
        drop(sender);
        assert_eq!(post.await.unwrap().expect("an answer").status().as_u16(), 200, "{signal:?}");
        assert!(backend.process.wait(PATIENCE).unwrap().success(), "{signal:?}");
        assert!(backend.process.log().contains("stopped"), "{}", backend.process.log());
    }
}

#[tokio::test]
async fn log_lines_wait_as_long_as_they_are_told_and_warnings_never() {
    let launch = || async { Launch::new().await.flag("--tls-min-version", "VersionTLS10") };
    let mut patient = launch().await.flag("--log-flush-frequency", "1h").start();
    assert_eq!(status(patient.request("GET", "/")).await, 401);
    let log = patient.process.log();
    assert!(log.contains("this version of TLS is not safe") && !log.contains("answered"), "{log}");
    patient.process.stop(PATIENCE).unwrap();
    assert!(patient.process.log().contains("answered"), "nothing is lost at the end");
    for frequency in ["100ms", "0"] {
        let quick = launch().await.flag("--log-flush-frequency", frequency).start();
        assert_eq!(status(quick.request("GET", "/")).await, 401);
        eventually(PATIENCE, || async { quick.process.log().contains("answered") }).await;
    }
}

#[tokio::test]
async fn it_listens_where_it_is_told() {
    let is_there = |backend: &Backend, host: &str| {
        let (_, port) = backend.address().rsplit_once(':').unwrap();
        std::net::TcpStream::connect(format!("{host}:{port}")).is_ok()
    };
    let one = Launch::new().await.flag("--bind-address", "127.0.0.2").start();
    assert!(one.address().starts_with("127.0.0.2:") && is_there(&one, "127.0.0.2") && !is_there(&one, "127.0.0.1"));
    let all = Launch::new().await.flag("--bind-address", "").start();
    assert!(is_there(&all, "127.0.0.1") && is_there(&all, "127.0.0.2"), "{}", all.url);
}

#[tokio::test]
async fn the_audit_log_finds_a_place() {
    let home = scratch("home").unwrap();
    let in_home = Launch::new().await.without_variable("STATEWARD_DATA_DIR").variable("HOME", home.to_str().unwrap());
    drop(in_home.start());
    assert!(home.join(".local/state").join(NAME).join("audit").is_dir());
    let temporary = scratch("tmp").unwrap();
    let nowhere = Launch::new().await.without_variable("STATEWARD_DATA_DIR").variable("HOME", "/dev/null");
    let backend = nowhere.variable("TMPDIR", temporary.to_str().unwrap()).start();
    assert!(backend.process.log().contains("set STATEWARD_DATA_DIR to keep it"), "{}", backend.process.log());
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
}

#[tokio::test]
async fn the_quick_start_of_the_original_works_as_it_is_written() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("quick").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    let (_, kubeconfig) = identity().await;
    let directory = scratch("quick").unwrap();
    let program = directory.join(NAME);
    symlink(env!("CARGO_BIN_EXE_stateward"), &program).unwrap();
    let line = format!(
        "exec {} --authentication-kubeconfig {file} --authorization-kubeconfig {file} --kubeconfig {file} \
         --compress-state --minify",
        program.display(),
        file = kubeconfig.display()
    );
    // Another run on this machine may have the port for a while.
    let backend = eventually(Duration::from_mins(5), || async {
        // The program stands where its certificates would go.
        let (work, log) = (scratch("quick").unwrap(), directory.join("log"));
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new("sh");
        command.env_clear().env("HOME", &work).current_dir(&work).args(["-c", &line]);
        let mut process = testbed::Process::spawn(NAME, &mut command, &log).unwrap();
        let is_there = || std::fs::read_to_string(&log).unwrap_or_default().contains("States in ConfigMaps are at");
        process.wait_until(PATIENCE, is_there).ok()?;
        assert!(process.log().contains("https://0.0.0.0:8443/"), "{}", process.log());
        Some(Backend { process, url: "https://127.0.0.1:8443".to_owned(), directory: work })
    })
    .await;

    let workspace = scratch("workspace").unwrap();
    let address = format!("{}/{namespace}/network", backend.url);
    let text = format!(
        "terraform {{\n  backend \"http\" {{\n    address = \"{address}\"\n    lock_address = \"{address}\"\n    \
         unlock_address = \"{address}\"\n    username = \"terraform\"\n    password = \"{token}\"\n  }}\n}}\n\
         resource \"terraform_data\" \"it\" {{\n  input = \"one\"\n}}\n"
    );
    std::fs::write(workspace.join("main.tf"), text).unwrap();
    let pem = std::fs::read_to_string(backend.certificate()).unwrap();
    for arguments in [&["init"][..], &["apply", "-auto-approve"], &["plan", "-detailed-exitcode"]] {
        let output = tofu(&workspace, arguments).env("TF_HTTP_CLIENT_CA_CERTIFICATE_PEM", &pem).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let map = maps.get("network").await.unwrap();
    let stored = gunzip(&map.binary_data.unwrap()["tfstate"].0);
    assert!(stored.starts_with(r#"{"version":4,"terraform_version":"#), "minified: {stored}");
    maps.delete("network", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn the_permissions_that_the_original_needs_are_enough() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("update").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    cluster.service_account(&namespace, "backend").await;
    let account = [subject::service_account(&namespace, "backend")];
    let rules = [
        rule(&["get", "create", "update", "delete"], &[""], &["configmaps"]),
        rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ];
    cluster.grant(Scope::Cluster, &account, &rules).await;
    let own = cluster.token_request(&namespace, "backend", &[], 3600).await;
    let backend = Launch::bare().cluster(&cluster.kubeconfig_for_token(&own).write()).start();
    let original = Original { maps: Api::namespaced(cluster.client(), &namespace), compress: false, minify: false };
    assert_eq!(original.post("app", None, NEW).await, 200);
    let send = |method: &str, query: &str, body: String| {
        let path = format!("/{namespace}/app{query}");
        answer(backend.request(method, &path).basic_auth("x", Some(&token)).body(body))
    };
    for round in 0..2 {
        let state = NEW.replace('8', &round.to_string());
        assert_eq!(send("LOCK", "", info(Some("a"))).await, (200, String::new()));
        assert_eq!(original.lock("app", "b").await, 423);
        assert_eq!(send("POST", "?ID=a", state.clone()).await, (200, String::new()));
        assert_eq!(send("UNLOCK", "", info(Some("a"))).await, (200, String::new()));
        assert_eq!(send("GET", "", String::new()).await, (200, state.clone()));
        assert_eq!(original.get("app").await, (200, state.into_bytes()));
    }
    assert_eq!(send("DELETE", "", String::new()).await, (200, String::new()));
    assert_eq!(original.get("app").await, (200, Vec::new()));
    // After the first refusal nobody tries to patch any more.
    let user = format!("system:serviceaccount:{namespace}:backend");
    let patches = cluster.audit_events(|event| event.user == user && event.verb == "patch").await;
    assert_eq!(patches.len(), 1, "{patches:?}");
}

#[tokio::test]
async fn tokens_of_a_chosen_audience_only_are_a_setting_beside_the_flags() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("audience").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    let path = format!("/{namespace}/app");
    for (audience, expected) in [(AUDIENCE, 200), ("another", 403)] {
        let backend = Launch::new().await.variable("STATEWARD_ACCESS_AUDIENCES", audience).start();
        let lock = backend.request("LOCK", &path).basic_auth("x", Some(&token)).body(info(Some("a")));
        assert_eq!(status(lock).await, expected, "{audience}");
    }
}
