//! TLS to PostgreSQL: verified, or not at all.

use db::{Config, Db, Error};
use testbed::Postgres;

async fn open(url: String, ca_file: Option<std::path::PathBuf>) -> Result<Db, Error> {
    let Config::Postgres(mut config) = Config::postgres(url) else { unreachable!() };
    config.tls_ca_file = ca_file;
    config.deadline = std::time::Duration::from_secs(5);
    Db::open(Config::Postgres(config)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_authority_is_accepted_and_any_other_refused() {
    let server = Postgres::start_with_tls().unwrap();
    let other = Postgres::start_with_tls().unwrap();
    let url = |mode: &str| format!("{}?sslmode={mode}", server.url("postgres"));
    for mode in ["prefer", "require", "verify-ca", "verify-full"] {
        let db = open(url(mode), Some(server.ca_file())).await.unwrap();
        let used = db.read(|tx| tx.query_opt("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[])).await;
        assert_eq!(used.unwrap().unwrap().get::<i64>(0).unwrap(), 1, "{mode}");
        for wrong in [Some(other.ca_file()), None] {
            let error = open(url(mode), wrong).await.unwrap_err();
            assert!(matches!(error, Error::Open { .. }), "{mode}: {error}");
            assert!(error.to_string().contains("certificate"), "{mode}: {error}");
        }
    }
    let db = open(url("disable"), None).await.unwrap();
    let used = db.read(|tx| tx.query_opt("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[])).await;
    assert_eq!(used.unwrap().unwrap().get::<i64>(0).unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_not_in_the_certificate_is_refused() {
    let server = Postgres::start_with_tls().unwrap();
    let url = format!("{}?sslmode=verify-full", server.url("postgres"));
    let named = format!("{}&hostaddr=127.0.0.1", url.replace("127.0.0.1", "elsewhere.example"));
    let error = open(named, Some(server.ca_file())).await.unwrap_err();
    assert!(matches!(error, Error::Open { .. }) && error.to_string().contains("certificate"), "{error}");
    let good = format!("{}&hostaddr=127.0.0.1", url.replace("127.0.0.1", "localhost"));
    open(good, Some(server.ca_file())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_refused_where_tls_is_required() {
    let server = Postgres::shared().unwrap();
    let authority = Postgres::start_with_tls().unwrap().ca_file();
    let required = format!("{}?sslmode=require", server.url("postgres"));
    assert!(open(required, Some(authority.clone())).await.is_err());
    // Who names a CA wants TLS, whatever the URL does not say.
    for url in [server.url("postgres"), format!("{}?sslmode=prefer", server.url("postgres"))] {
        let refused = open(url, Some(authority.clone())).await;
        assert!(refused.is_err(), "not in clear");
    }
    let disabled = format!("{}?sslmode=disable", server.url("postgres"));
    assert!(matches!(open(disabled, Some(authority)).await, Err(Error::TlsOff)));
    open(format!("{}?sslmode=prefer", server.url(&server.create_database().unwrap())), None).await.unwrap();
}
