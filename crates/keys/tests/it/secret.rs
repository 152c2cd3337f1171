//! Keys in Secrets: which version is the newest, how often the API server is asked, what it takes.

use std::time::Duration;

use futures::future::join_all;
use http::Method;
use k8s_openapi::ByteString;
use keys::{Error, Key, Keyring, Settings};
use testbed::faults::Proxy;
use testbed::{Cluster, Scope, eventually, rule, subject};

use crate::kinds::{InSecret, Place, client, value};
use crate::ring::ring;

#[tokio::test]
async fn the_entry_current_names_the_version_that_wraps() {
    let place = InSecret::new().await;
    place.rotate().await;
    let fresh = || ring("main", place.key());
    assert_eq!(fresh().check("main").await.expect("a version"), "v10");
    place.edit(|data| drop(data.insert("current".to_owned(), ByteString(b"v9\n".to_vec())))).await;
    assert_eq!(fresh().check("main").await.expect("a version"), "v9");
    assert_eq!(fresh().generate("main", b"").await.expect("generated").1.version, "v9");
    place.edit(|data| drop(data.insert("current".to_owned(), ByteString(b"v11".to_vec())))).await;
    let error = fresh().check("main").await.expect_err("no such version");
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&format!("{}/{}", place.namespace, place.name)) && text.contains("current"), "{text}");
}

#[tokio::test]
async fn a_secret_that_is_not_there_not_readable_or_no_key_is_refused() {
    let cluster = Cluster::shared().await;
    let place = InSecret::new().await;
    let admin = ring("main", Key::secret(cluster.client(), &place.namespace, "gone"));
    let error = admin.check("main").await.expect_err("gone");
    assert!(matches!(&error, Error::Refused { reason, .. } if reason.contains("is not there")), "{error:?}");

    let user = cluster.user("keys-nobody", &[]);
    let theirs = || ring("main", Key::secret(client(user.kubeconfig()), &place.namespace, &place.name));
    let error = theirs().check("main").await.expect_err("no permission");
    assert!(matches!(&error, Error::Refused { reason, .. } if reason.contains("`get`")), "{error:?}");
    let get = rule(&["get"], &[""], &["secrets"]);
    cluster.grant(Scope::Namespace(&place.namespace), &[subject::user("keys-nobody")], &[get]).await;
    // `get` is enough.
    eventually(Duration::from_mins(1), || async { theirs().check("main").await }).await;

    place.edit(|data| drop(data.insert("v10".to_owned(), ByteString(b"c2VjcmV0LWNhbmFyeQ==".to_vec())))).await;
    let error = theirs().check("main").await.expect_err("no key");
    assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains("'v10'"), "{error}");
    assert!(!format!("{error:?}").contains("canary") && !format!("{error:?}").contains("c2Vj"), "{error:?}");
}

#[tokio::test]
async fn many_who_ask_at_once_put_one_question() {
    let cluster = Cluster::shared().await;
    let place = InSecret::new().await;
    let user = cluster.user("keys-counted", &["system:masters"]);
    let proxy = Proxy::to(cluster.url())
        .trusting(cluster.client_ca().certificate_pem())
        .presenting(&cluster.client_ca().client("keys-counted", &["system:masters"]))
        .start();
    let key = Key::secret(client(&user.kubeconfig().clone().with_server(proxy.url())), &place.namespace, &place.name);
    let ring = Keyring::new([("main".to_owned(), key)], Settings::default()).expect("a keyring");
    let questions = || proxy.passed(&Method::GET, "/secrets/main-key");

    let wrapped: Vec<_> = join_all((0..32).map(|_| ring.generate("main", b""))).await;
    assert_eq!(questions(), 1, "32 that wrap");
    let (_, wrapped) = wrapped.into_iter().next().expect("one").expect("generated");

    place.edit(|data| drop(data.insert("v10".to_owned(), value()))).await;
    let (_, unknown) = crate::ring::ring("main", place.key()).generate("main", b"").await.expect("generated");
    let before = questions();
    let opened = join_all((0..32).map(|_| ring.unwrap(&unknown, b""))).await;
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    assert_eq!(questions(), before + 1, "32 that need a version which was not known");
    ring.unwrap(&wrapped, b"").await.expect("remembered");
    assert_eq!(questions(), before + 1);
}
