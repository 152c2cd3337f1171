//! Who may speak with whom.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use backends::{
    Client, ClientTls, Code, Driver, Endpoint, Error, Failure, Mode, Pem, Server, ServerLimits, ServerTls, Serving,
};
use testbed::certificates::Authority;
use testbed::eventually;
use testbed::process::scratch;

use crate::place::{PATIENCE, Parts, Security, document, file, pem, pems, serve, target};
use crate::recorder::Recorder;

async fn call(address: &str, tls: Option<ClientTls>) -> Result<(), Failure> {
    let endpoint = Endpoint { tls, ..Endpoint::new(address, Mode::Value) };
    Client::new(&endpoint).unwrap().on_lock(target("r", "k"), "me").await
}

#[tokio::test]
async fn whoever_shows_no_certificate_of_the_authority_is_turned_away_before_anything_is_sent() {
    let parts = Parts::new(Security::Mutual);
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let running = serve(recorder.clone(), parts.server.clone(), ServerLimits::default()).await;
    let good = parts.client.clone().unwrap();
    call(&running.address, Some(good.clone())).await.unwrap();
    assert_eq!(recorder.asked().len(), 1);

    let strangers = Authority::new("strangers");
    let now = SystemTime::now();
    let day = Duration::from_secs(86_400);
    let stranger = pems(&strangers.client("hub", &[]));
    let past = pems(&strangers.client_with("hub", &[], now - 2 * day..now - day));
    for identity in [None, Some(stranger), Some(past)] {
        let failure = call(&running.address, Some(ClientTls { identity, ..good.clone() })).await.unwrap_err();
        assert_eq!(failure.code, Code::Unavailable, "nothing was sent, and it says so: {failure}");
    }
    let failure = call(&running.address, None).await.unwrap_err();
    assert_eq!(failure.code, Code::Unknown, "in plain something was sent, and nobody can tell: {failure}");
    assert_eq!(recorder.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_is_not_who_it_should_be_is_sent_nothing() {
    let parts = Parts::new(Security::Tls);
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let running = serve(recorder.clone(), parts.server.clone(), ServerLimits::default()).await;
    let good = parts.client.clone().unwrap();
    let port = running.address.rsplit_once(':').unwrap().1;
    for url in [running.address.clone(), format!("https://localhost:{port}"), format!("grpcs://127.0.0.1:{port}")] {
        call(&url, Some(good.clone())).await.unwrap();
    }
    recorder.asked();
    let other = ClientTls { authorities: Some(pem(Authority::new("others").certificate_pem())), ..good.clone() };
    let name = ClientTls { server_name: Some("elsewhere.test".to_owned()), ..good.clone() };
    let machine = ClientTls { authorities: None, ..good };
    for (tls, words) in [(other, "UnknownIssuer"), (name, "elsewhere.test"), (machine, "TLS: ")] {
        let failure = call(&running.address, Some(tls)).await.unwrap_err();
        assert_eq!(failure.code, Code::Unavailable, "{failure}");
        assert!(failure.text.contains(words), "{failure}");
    }
    let plain = serve(recorder.clone(), None, ServerLimits::default()).await;
    let failure = call(&plain.address, parts.client.clone()).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "TLS to a plain server: {failure}");
    assert_eq!(recorder.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_others_could_reach_needs_to_know_them() {
    let bind = async |listen: &str, tls: Option<ServerTls>| {
        let serving = Serving { listen: listen.parse().unwrap(), tls, limits: ServerLimits::default() };
        Server::bind(file(), serving).await.map(drop)
    };
    for listen in ["0.0.0.0:0", "[::]:0"] {
        for security in [Security::Plain, Security::Tls] {
            let error = bind(listen, Parts::new(security).server).await.unwrap_err();
            assert!(matches!(error, Error::Exposed(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains(listen) && text.contains("authority") && text.contains("127.0.0.1"), "{text}");
        }
    }
    bind("0.0.0.0:0", Parts::new(Security::Mutual).server).await.unwrap();
    bind("127.0.0.1:0", None).await.unwrap();
    bind("127.0.0.2:0", Parts::new(Security::Tls).server).await.unwrap();
}

#[tokio::test]
async fn certificates_that_make_no_sense_are_told_at_the_beginning_and_never_shown() {
    let parts = Parts::new(Security::Mutual);
    let good = parts.client.unwrap();
    let (certificate, key) = good.identity.clone().unwrap();
    let Pem::Text(secret) = &key else { panic!("text") };
    let secret = String::from_utf8(secret.clone()).unwrap();
    assert!(!format!("{good:?}").contains(secret.lines().nth(1).unwrap()));
    let missing = Pem::File("/nowhere/at/all".into());
    let other = pems(&Authority::new("x").client("x", &[])).1;
    let table = [
        (ClientTls { authorities: Some(missing.clone()), ..good.clone() }, "/nowhere/at/all"),
        (ClientTls { authorities: Some(pem("nonsense")), ..good.clone() }, "no PEM certificate"),
        (ClientTls { identity: Some((key.clone(), key.clone())), ..good.clone() }, "no PEM certificate"),
        (
            ClientTls { identity: Some((certificate.clone(), certificate.clone())), ..good.clone() },
            "no PEM private key",
        ),
        (ClientTls { identity: Some((certificate, other)), ..good.clone() }, "not of its certificate"),
        (ClientTls { server_name: Some("not a name".to_owned()), ..good.clone() }, "server name"),
    ];
    for (tls, words) in table {
        let endpoint = Endpoint { tls: Some(tls), ..Endpoint::new("host:1", Mode::Value) };
        let error = Client::new(&endpoint).unwrap_err().to_string();
        assert!(error.starts_with("TLS: ") && error.contains(words), "{error}");
        assert!(!error.contains("PRIVATE KEY-----") && !error.contains("nonsense"), "{error}");
    }
}

#[tokio::test]
async fn a_client_takes_renewed_certificates_for_its_next_connection() {
    let directory = scratch("renewed").unwrap();
    let parts = Parts::new(Security::Mutual);
    let running = serve(file(), parts.server.clone(), ServerLimits::default()).await;
    let good = parts.client.unwrap();
    let (Pem::Text(certificate), Pem::Text(key)) = good.identity.clone().unwrap() else { panic!("text") };
    let stale = Authority::new("old").client("hub", &[]);
    let Some(Pem::Text(authorities)) = good.authorities.clone() else { panic!("text") };
    let paths = ["crt", "key", "ca"].map(|name| directory.join(name));
    std::fs::write(&paths[0], stale.certificate_pem).unwrap();
    std::fs::write(&paths[1], stale.key_pem).unwrap();
    std::fs::write(&paths[2], Authority::new("old").certificate_pem()).unwrap();
    let identity = Some((Pem::File(paths[0].clone()), Pem::File(paths[1].clone())));
    let tls = Some(ClientTls { identity, authorities: Some(Pem::File(paths[2].clone())), ..good });
    let client = Client::new(&Endpoint { tls, ..Endpoint::new(running.address.clone(), Mode::Value) }).unwrap();
    let some = document("1");
    assert_eq!(client.on_create(target("r", "k"), Some(&some)).await.unwrap_err().code, Code::Unavailable);
    std::fs::write(&paths[2], authorities).unwrap();
    let failure = client.on_create(target("r", "k"), Some(&some)).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "it is known by now, and does not know us: {failure}");
    std::fs::write(&paths[0], certificate).unwrap();
    std::fs::write(&paths[1], key).unwrap();
    eventually(PATIENCE, || client.on_create(target("r", "k"), Some(&some))).await;
}

#[tokio::test]
async fn a_server_takes_renewed_certificates_and_authorities_while_it_runs() {
    let directory = scratch("renewed").unwrap();
    let write = |(servers, clients): &(Authority, Authority)| {
        servers.server(&["127.0.0.1"]).write(&directory, "server").unwrap();
        std::fs::write(directory.join("clients.crt"), clients.certificate_pem()).unwrap();
    };
    let client = |(servers, clients): &(Authority, Authority)| ClientTls {
        authorities: Some(pem(servers.certificate_pem())),
        identity: Some(pems(&clients.client("hub", &[]))),
        server_name: None,
    };
    let [old, new] = ["old", "new"].map(|name| (Authority::new(name), Authority::new(name)));
    write(&old);
    let named = |name: &str| Pem::File(directory.join(name));
    let tls = ServerTls {
        certificate: named("server.crt"),
        key: named("server.key"),
        client_authority: Some(named("clients.crt")),
    };
    let recorder = Arc::new(Recorder::new(Mode::Value));
    let running = serve(recorder, Some(tls), ServerLimits::default()).await;
    call(&running.address, Some(client(&old))).await.unwrap();
    write(&new);
    eventually(PATIENCE, || call(&running.address, Some(client(&new)))).await;
    let failure = call(&running.address, Some(client(&old))).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "{failure}");
}
