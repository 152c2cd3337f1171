//! Keys of a transit engine: ways to prove oneself, what the engine must allow, and what happens when it does not answer.

use std::fs;
use std::time::{Duration, Instant};

use http::StatusCode;
use keys::{Auth, Error, Key, Keyring, Vault, VaultSettings};
use serde_json::json;
use testbed::faults::{self, Fault, Rule};
use testbed::process::scratch;
use testbed::{Cluster, Direction, eventually};

use crate::kinds::{InTransit, Place, prepare, read};
use crate::ring::{ring, same};

const PATIENCE: Duration = Duration::from_mins(1);

/// What is wrapped opens again.
async fn assert_works(ring: &Keyring) {
    let (data_key, wrapped) = ring.generate("main", b"context").await.expect("generated");
    assert!(same(&data_key, &ring.unwrap(&wrapped, b"context").await.expect("unwrapped")));
}

fn refusal(error: &Error) -> &str {
    match error {
        Error::Refused { reason, .. } => reason,
        other => panic!("not refused but {other:?}"),
    }
}

#[tokio::test]
async fn a_token_file_is_read_again_when_its_token_ends() {
    let place = InTransit::new().await;
    let ring = ring("main", place.key());
    assert_works(&ring).await;
    let old = read(&place.token_file);
    place.vault.revoke(&old).await.expect("revoked");
    let error = ring.generate("main", b"").await.expect_err("the token has ended");
    assert!(refusal(&error).contains("may not") && !format!("{error:?}").contains(&old), "{error:?}");
    fs::write(&place.token_file, place.vault.token(&[&place.mount]).await.expect("a token")).expect("written");
    assert_works(&ring).await;
    fs::remove_file(&place.token_file).expect("removed");
    let error = ring.generate("main", b"").await.expect_err("no token");
    assert!(refusal(&error).contains("keys.vault_token_file"), "{error:?}");
}

#[tokio::test]
async fn a_service_account_logs_in_and_logs_in_again_when_its_token_ends() {
    let cluster = Cluster::shared().await;
    let place = InTransit::new().await;
    let namespace = cluster.namespace("keys").await;
    cluster.service_account(&namespace, "stateward").await;
    let mount = format!("kubernetes-{}", place.mount);
    place.vault.kubernetes_auth(&mount, cluster).await.expect("Kubernetes auth");
    let account = (namespace.as_str(), "stateward");
    place.vault.kubernetes_role(&mount, "keys", account, &[&place.mount], "3s").await.expect("a role");
    let jwt_file = scratch("jwt").expect("a directory").join("token");
    let jwt = cluster.token_request(&namespace, "stateward", &[], 3600).await;
    fs::write(&jwt_file, &jwt).expect("written");

    let auth =
        |role: &str| Auth::Kubernetes { mount: mount.clone(), role: role.to_owned(), jwt_file: jwt_file.clone() };
    let ring_of = |role: &str| ring("main", place.key_with(auth(role)));
    let logged_in = ring_of("keys");
    // The API server learns of the reviewer's binding a moment later.
    eventually(PATIENCE, || logged_in.check("main")).await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(7) {
        // Every token lives for 3 s only.
        assert_works(&logged_in).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // All tokens of the login end at once, as when an operator revokes them; a fresh one is believed for a second.
    place.vault.write(&format!("sys/leases/revoke-prefix/auth/{mount}/login"), json!({})).await.expect("revoked");
    eventually(PATIENCE, || logged_in.generate("main", b"")).await;

    let error = ring_of("no-such-role").check("main").await.expect_err("no role");
    assert!(refusal(&error).contains(&mount) && refusal(&error).contains("login"), "{error:?}");
    fs::write(&jwt_file, jwt.clone() + "x").expect("written");
    let error = ring_of("keys").check("main").await.expect_err("no identity");
    assert!(refusal(&error).contains("login") && !format!("{error:?}").contains(&jwt), "{error:?}");
}

#[tokio::test]
async fn an_app_role_logs_in() {
    let place = InTransit::new().await;
    let mount = format!("approle-{}", place.mount);
    let role = place.vault.app_role(&mount, "keys", &[&place.mount], "1h").await.expect("an AppRole");
    let directory = scratch("approle").expect("a directory");
    let (role_id_file, secret_id_file) = (directory.join("role-id"), directory.join("secret-id"));
    fs::write(&role_id_file, &role.role_id).expect("written");
    fs::write(&secret_id_file, format!("{}\n", role.secret_id)).expect("written");
    let key = || {
        let (role_id_file, secret_id_file) = (role_id_file.clone(), secret_id_file.clone());
        place.key_with(Auth::AppRole { mount: mount.clone(), role_id_file, secret_id_file })
    };
    assert_works(&ring("main", key())).await;
    fs::write(&secret_id_file, "11111111-2222-3333-4444-555555555555").expect("written");
    let error = ring("main", key()).check("main").await.expect_err("another secret id");
    assert!(refusal(&error).contains("login") && !format!("{error:?}").contains("11111111"), "{error:?}");
}

#[tokio::test]
async fn what_the_policy_or_the_engine_does_not_allow_is_refused_with_what_is_needed() {
    let place = InTransit::new().await;
    place.vault.policy("keys-nothing", "path \"nothing\" { capabilities = [\"read\"] }").await.expect("a policy");
    fs::write(&place.token_file, place.vault.token(&["keys-nothing"]).await.expect("a token")).expect("written");
    let error = ring("main", place.key()).check("main").await.expect_err("no permission");
    let needed = format!("{}/encrypt/{}", place.mount, InTransit::KEY);
    assert!(refusal(&error).contains(&needed) && refusal(&error).contains("`update`"), "{error:?}");

    fs::write(&place.token_file, place.vault.root_token()).expect("written");
    let vault = Vault::new(place.settings(Auth::TokenFile(place.token_file.clone()))).expect("a client");
    let elsewhere = ring("main", Key::transit(vault.clone(), "no-such-mount", "key"));
    let error = elsewhere.check("main").await.expect_err("no engine");
    assert!(refusal(&error).contains("no-such-mount"), "{error:?}");

    // A key that cannot authenticate the context must not wrap.
    place.vault.transit_key(&place.mount, "rsa", json!({ "type": "rsa-2048" })).await.expect("an RSA key");
    let error =
        ring("main", Key::transit(vault.clone(), &place.mount, "rsa")).check("main").await.expect_err("no AEAD");
    assert!(refusal(&error).contains("aes256-gcm96"), "{error:?}");

    // The wrapped key is of a key that is not there any more.
    let (_, wrapped) = ring("main", place.key()).generate("main", b"").await.expect("generated");
    let gone = ring("main", Key::transit(vault, &place.mount, "gone")).unwrap(&wrapped, b"").await.expect_err("no key");
    assert!(refusal(&gone).contains("no key 'gone'"), "{gone:?}");
}

#[tokio::test]
async fn a_derived_key_and_another_cipher_bind_the_context_too() {
    let place = InTransit::new().await;
    fs::write(&place.token_file, place.vault.root_token()).expect("written");
    let vault = Vault::new(place.settings(Auth::TokenFile(place.token_file.clone()))).expect("a client");
    let kinds = [
        ("derived", json!({ "derived": true })),
        ("convergent", json!({ "derived": true, "convergent_encryption": true })),
        ("chacha", json!({ "type": "chacha20-poly1305" })),
        ("small", json!({ "type": "aes128-gcm96" })),
    ];
    for (name, options) in kinds {
        place.vault.transit_key(&place.mount, name, options).await.expect("a key");
        let ring = ring("main", Key::transit(vault.clone(), &place.mount, name));
        assert_works(&ring).await;
        let (_, wrapped) = ring.generate("main", b"context").await.expect("generated");
        let error = ring.unwrap(&wrapped, b"another").await.expect_err("another context");
        assert!(matches!(error, Error::WrongKey { .. }), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn a_service_that_swallows_questions_is_given_up_in_time() {
    let place = InTransit::new().await;
    let ring = ring("main", place.key());
    assert_works(&ring).await;
    place.proxy.timeout(Direction::Downstream).await.expect("silent");
    let started = Instant::now();
    let error = ring.generate("main", b"").await.expect_err("no answer");
    assert!(matches!(&error, Error::Unavailable { reason, .. } if reason.contains("in time")), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    place.proxy.heal().await.expect("healed");
    eventually(PATIENCE, || ring.generate("main", b"")).await;
}

#[tokio::test]
async fn a_passing_fault_is_tried_again_and_a_lasting_one_is_told() {
    let place = InTransit::new().await;
    let proxy = faults::Proxy::to(&place.vault.url()).start();
    let auth = Auth::TokenFile(place.token_file.clone());
    let settings = VaultSettings { address: proxy.url().to_owned(), ..place.settings(auth) };
    let ring = ring("main", Key::transit(Vault::new(settings).expect("a client"), &place.mount, InTransit::KEY));
    for fault in [
        Fault::status(StatusCode::INTERNAL_SERVER_ERROR),
        Fault::status(StatusCode::SERVICE_UNAVAILABLE),
        Fault::too_many_requests(1),
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Repeat,
    ] {
        proxy.add(Rule::new(fault.clone()).first(1));
        assert_works(&ring).await;
        proxy.clear();
        if matches!(fault, Fault::Answer { .. }) {
            proxy.add(Rule::new(fault));
            let error = ring.generate("main", b"").await.expect_err("it lasts");
            assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
            proxy.clear();
        }
    }
    // What the service says is never passed on, and a redirect never followed.
    proxy.add(Rule::new(Fault::status(StatusCode::TEMPORARY_REDIRECT)));
    let error = ring.generate("main", b"").await.expect_err("redirected");
    assert!(refusal(&error).contains("active node") && !error.to_string().contains("rule of the proxy"), "{error}");
    proxy.clear();
    proxy.add(Rule::new(Fault::status(StatusCode::IM_A_TEAPOT)));
    let error = ring.generate("main", b"").await.expect_err("odd");
    assert!(refusal(&error).contains("418") && !error.to_string().contains("rule of the proxy"), "{error}");
    proxy.clear();
    proxy.add(Rule::new(Fault::status(StatusCode::OK)));
    let error = ring.generate("main", b"").await.expect_err("no JSON");
    assert!(refusal(&error).contains("not understood") && !error.to_string().contains("rule of the proxy"), "{error}");
}

#[tokio::test]
async fn a_vault_that_is_sealed_or_killed_is_unavailable_and_keeps_its_keys() {
    let vault = testbed::Vault::start_with_tls().await.expect("Vault");
    let mount = prepare(&vault).await;
    let token_file = scratch("token").expect("a directory").join("token");
    fs::write(&token_file, vault.token(&[&mount]).await.expect("a token")).expect("written");
    let settings = VaultSettings {
        address: vault.url(),
        namespace: None,
        ca_file: Some(vault.ca_file()),
        auth: Auth::TokenFile(token_file),
        deadline: Duration::from_secs(10),
    };
    let stranger = VaultSettings { ca_file: None, ..settings.clone() };
    let ring_of = |settings: VaultSettings| {
        ring("main", Key::transit(Vault::new(settings).expect("a client"), &mount, InTransit::KEY))
    };
    let ring = ring_of(settings);
    let (data_key, wrapped) = ring.generate("main", b"context").await.expect("generated");

    let error = ring_of(stranger).check("main").await.expect_err("an unknown authority");
    assert!(matches!(&error, Error::Unavailable { reason, .. } if reason.contains("keys.vault_ca_file")), "{error:?}");

    vault.seal().await.expect("sealed");
    let error = ring.unwrap(&wrapped, b"context").await.expect_err("sealed");
    assert!(matches!(&error, Error::Unavailable { reason, .. } if reason.contains("sealed")), "{error:?}");
    vault.unseal().await.expect("unsealed");
    assert!(same(&data_key, &eventually(PATIENCE, || ring.unwrap(&wrapped, b"context")).await));

    vault.kill();
    let error = ring.unwrap(&wrapped, b"context").await.expect_err("dead");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    vault.start_again().await.expect("started again");
    assert!(same(&data_key, &eventually(PATIENCE, || ring.unwrap(&wrapped, b"context")).await));
}

/// Namespaces are a matter of Vault Enterprise and OpenBao, neither of which can be had here: what is sent is looked at.
#[tokio::test]
async fn the_namespace_is_sent_with_every_question() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/base/", listener.local_addr().expect("an address"));
    let place = InTransit::new().await;
    let auth = Auth::TokenFile(place.token_file.clone());
    let settings = VaultSettings { address, namespace: Some("team-a/prod".to_owned()), ..place.settings(auth) };
    let ring = ring("main", Key::transit(Vault::new(settings).expect("a client"), "mount/of parts", "key"));
    let answered = async {
        let (mut stream, _) = listener.accept().await.expect("a question");
        let mut head = Vec::new();
        while !head.windows(4).any(|window| window == b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a byte"));
        }
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer).await.expect("answered");
        String::from_utf8(head).expect("text").to_lowercase()
    };
    let (head, result) = tokio::join!(answered, ring.check("main"));
    assert!(refusal(&result.expect_err("not found")).contains("mount/of parts"));
    assert!(head.starts_with("post /base/v1/mount/of%20parts/encrypt/key http/1.1\r\n"), "{head}");
    for header in ["x-vault-namespace: team-a/prod", "x-vault-request: true", "x-vault-token: "] {
        assert!(head.contains(&format!("\r\n{header}")), "{head}");
    }
}
