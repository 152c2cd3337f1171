//! `stateward backend file`: the real process, called with the client that the hub uses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use backends::{Client, ClientTls, Code, Document, Driver, Endpoint, Mode, Pem, Target};
use rustix::process::Signal;
use testbed::certificates::Authority;
use testbed::process::{Process, scratch};

use crate::run::{Run, stateward};
use crate::server::PATIENCE;

/// A running backend; killed when dropped.
struct Backend {
    process: Process,
    address: String,
    health: Option<String>,
}

fn start(directory: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Backend {
    let (values, log) = (directory.join("values"), directory.join("log"));
    let _ = std::fs::remove_file(&log);
    let mut command = stateward(&["backend", "file", "--directory"]);
    command.arg(values).args(flags).envs(variables.iter().copied());
    let mut process = Process::spawn("backend", &mut command, &log).unwrap();
    let told = |words: &str| {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(words).map(str::to_owned))
    };
    process.wait_until(PATIENCE, || told("The storage backend file is at ").is_some()).unwrap();
    let address = told("The storage backend file is at ").unwrap();
    Backend { process, address, health: told("Its health is at ") }
}

fn client(address: &str, tls: Option<ClientTls>) -> Client {
    Client::new(&Endpoint { tls, ..Endpoint::new(address, Mode::Value) }).unwrap()
}

fn target<'a>(id: &'a str, key: &'a str) -> Target<'a> {
    Target { id, context: None, key, within: Duration::from_secs(30) }
}

fn document(text: &str) -> Document {
    Document(text.as_bytes().to_vec().into())
}

#[tokio::test]
async fn values_are_kept_over_a_stop_by_either_signal() {
    let directory = scratch("storage").unwrap();
    let values = [r#"{"a":1.50}"#, "12345678901234567890123"].map(document);
    for (number, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        let mut backend = start(&directory, &["--listen", "127.0.0.1:0"], &[]);
        let client = client(&backend.address, None);
        client.health(PATIENCE).await.unwrap();
        let id = number.to_string();
        client.on_create(target(&id, "k"), Some(&values[number])).await.unwrap();
        for (id, value) in ["0", "1"].into_iter().zip(&values).take(number + 1) {
            assert_eq!(client.get_value(target(id, ""), 1).await.unwrap().as_ref(), Some(value));
        }
        backend.process.signal(signal);
        assert!(backend.process.wait(PATIENCE).unwrap().success(), "{}", backend.process.log());
        assert!(backend.process.log().contains("stopped"), "{}", backend.process.log());
        let failure = client.get_value(target("0", ""), 1).await.unwrap_err();
        assert_eq!(failure.code, Code::Unavailable, "{failure}");
    }
}

#[tokio::test]
async fn others_are_let_in_with_a_certificate_of_the_authority_alone() {
    let directory = scratch("storage").unwrap();
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    servers.server(&["127.0.0.1"]).write(&directory, "server").unwrap();
    clients.client("hub", &[]).write(&directory, "client").unwrap();
    std::fs::write(directory.join("clients.crt"), clients.certificate_pem()).unwrap();
    std::fs::write(directory.join("servers.crt"), servers.certificate_pem()).unwrap();
    let file = |name: &str| directory.join(name);
    let shown = |name: &str| file(name).display().to_string();
    let (certificate, key, authority) = (shown("server.crt"), shown("server.key"), shown("clients.crt"));
    let tls = ["--tls-cert", &certificate, "--tls-key", &key];

    let values = shown("values");
    let base = ["backend", "file", "--directory", &values];
    let refused = |flags: &[&str]| Run::of(&mut stateward(&[&base[..], flags].concat()));
    refused(&["--listen", "0.0.0.0:0"]).fails(2, "which others can reach");
    refused(&[&["--listen", "0.0.0.0:0"][..], &tls[..]].concat()).fails(2, "which others can reach");
    assert!(!file("values").exists(), "what is refused leaves nothing behind");
    refused(&["--tls-cert", &certificate]).fails(2, "--tls-key");
    refused(&["--tls-cert", &key, "--tls-key", &key]).fails(2, "holds no PEM certificate");
    refused(&["--listen", "nonsense"]).fails(2, "--listen: 'nonsense' is not an address");

    let flags = [&["--listen", "0.0.0.0:0", "--client-ca", &authority][..], &tls[..]].concat();
    let backend = start(&directory, &flags, &[]);
    let address = backend.address.replace("0.0.0.0", "127.0.0.1");
    let pem = |name: &str| Pem::File(file(name));
    let good = ClientTls {
        authorities: Some(pem("servers.crt")),
        identity: Some((pem("client.crt"), pem("client.key"))),
        server_name: None,
    };
    client(&address, Some(good.clone())).on_create(target("r", "k"), Some(&document("1"))).await.unwrap();
    let nobody = client(&address, Some(ClientTls { identity: None, ..good }));
    assert_eq!(nobody.get_value(target("r", ""), 1).await.unwrap_err().code, Code::Unavailable);
    assert!(client(&address, None).get_value(target("r", ""), 1).await.is_err(), "in plain");
}

#[tokio::test]
async fn the_variables_of_the_original_count_and_probes_are_answered_in_plain() {
    let directory = scratch("storage").unwrap();
    let variables = [("APP_GRPC_ADDR", "127.0.0.1:0"), ("APP_HEALTHZ_ADDR", "localhost:0")];
    let backend = start(&directory, &[], &variables);
    client(&backend.address, None).health(PATIENCE).await.unwrap();
    let url = backend.health.clone().unwrap();
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let answer = http.get(&url).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, "ok\n"));
    std::fs::remove_dir_all(directory.join("values")).unwrap();
    assert_eq!(http.get(&url).send().await.unwrap().status().as_u16(), 503);
    assert!(client(&backend.address, None).health(PATIENCE).await.is_err());

    let directory = scratch("backend").unwrap().join("values");
    let directory = directory.to_str().unwrap();
    let everywhere = Run::of(stateward(&["backend", "file", "--directory", directory]).env("APP_GRPC_ADDR", ":0"));
    everywhere.fails(2, "which others can reach");
    assert!(!std::path::Path::new(directory).exists());
}

#[test]
fn a_driver_must_be_chosen_and_gets_its_own_flags() {
    Run::of(&mut stateward(&["backend", "file"])).fails(2, "--directory <DIR>");
    let none = Run::of(&mut stateward(&["backend"]));
    assert!(none.code == Some(2) && none.err.contains("file"), "{none:#?}");
    let unknown = Run::of(&mut stateward(&["backend", "nothing"]));
    assert!(unknown.code == Some(2) && unknown.err.contains("nothing"), "{unknown:#?}");
    let open: PathBuf = scratch("storage").unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let shown = open.display().to_string();
    let refused = Run::of(&mut stateward(&["backend", "file", "--directory", &shown]));
    refused.fails(2, "is open to others (mode 755)");
}
