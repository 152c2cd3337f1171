//! From the settings to a pool: URL, time limits, TLS.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Limits;
use crate::{Engine, Error, PostgresConfig};

/// When a COMMIT is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    OnDisk,
    /// Before it is on disk, which it is within a second.
    Soon,
}

/// Few: notes are one statement each, and of one writer or two.
const NOTES: usize = 2;

/// Whether the settings can be meant, as far as that can be told without looking at anything else.
pub(crate) fn check(config: &PostgresConfig) -> Result<(), Error> {
    read(config).map(drop)
}

pub(super) fn pool(config: &PostgresConfig, limits: Limits, commit: Commit) -> Result<Pool, Error> {
    let mut settings = read(config)?;
    settings
        .connect_timeout(limits.connect)
        .tcp_user_timeout(limits.call)
        .keepalives(true)
        .keepalives_idle(Duration::from_secs(15))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3);
    if settings.get_application_name().is_none() {
        settings.application_name("stateward");
    }
    // A dead connection is found by the BEGIN that every use starts with.
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = match settings.get_ssl_mode() {
        SslMode::Disable => Manager::from_config(settings, NoTls, recycling),
        mode => {
            let tls = MakeRustlsConnect::new(tls(config.tls_ca_file.as_deref(), mode)?);
            Manager::from_config(settings, tls, recycling)
        }
    };
    let new_connection = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move { client.batch_execute(&self::settings(limits, commit)).await.map_err(HookError::Backend) })
    });
    Pool::builder(manager)
        .max_size(if commit == Commit::OnDisk { config.pool.max(1) } else { NOTES })
        .runtime(Runtime::Tokio1)
        .post_create(new_connection)
        .build()
        .map_err(|error| failed(&error.to_string()))
}

/// What every connection is told first.
fn settings(limits: Limits, commit: Commit) -> String {
    let statement = limits.statement.as_millis();
    let call = limits.call.as_millis();
    let commit = match commit {
        // A role or database that is set to forget commits would break the promise of `write`.
        Commit::OnDisk => {
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        }
        Commit::Soon => "SET synchronous_commit = off",
    };
    format!(
        "SET statement_timeout = {statement}; SET lock_timeout = {statement}; \
         SET idle_in_transaction_session_timeout = {call}; {commit}"
    )
}

/// What the URL says, with TLS where a CA asks for it: who names one does not want clear text instead.
fn read(config: &PostgresConfig) -> Result<tokio_postgres::Config, Error> {
    let mut settings = parse(&config.url)?;
    match settings.get_ssl_mode() {
        SslMode::Disable if config.tls_ca_file.is_some() => return Err(Error::TlsOff),
        SslMode::Prefer if config.tls_ca_file.is_some() => _ = settings.ssl_mode(SslMode::Require),
        _ => {}
    }
    Ok(settings)
}

/// The driver knows three modes; here TLS always verifies, so that the stricter ones are `require`.
fn parse(url: &str) -> Result<tokio_postgres::Config, Error> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(failed("the URL does not begin with postgres://"));
    }
    let url = match url.rsplit_once('?') {
        None => url.to_owned(),
        Some((head, options)) => {
            let options = options.split('&').map(|option| match option {
                "sslmode=verify-full" | "sslmode=verify-ca" => "sslmode=require",
                other => other,
            });
            format!("{head}?{}", options.collect::<Vec<_>>().join("&"))
        }
    };
    // The driver's words might quote a part of a badly escaped password.
    url.parse()
        .map_err(|_| failed("the URL is not valid (characters such as @ / ? # in a password are written %40 ...)"))
}

fn tls(ca_file: Option<&Path>, mode: SslMode) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| failed(&error.to_string()))?;
    if let Some(file) = ca_file {
        return Ok(builder.with_root_certificates(roots(file)?).with_no_client_auth());
    }
    match rustls_platform_verifier::Verifier::new(provider) {
        Ok(verifier) => {
            Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
        }
        // The server may do without TLS; with no roots at all, no certificate will be accepted.
        Err(_) if mode == SslMode::Prefer => {
            Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        }
        Err(error) => Err(failed(&format!("cannot load the certificate authorities of this machine: {error}"))),
    }
}

fn roots(file: &Path) -> Result<RootCertStore, Error> {
    let unusable = |reason: String| failed(&format!("the CA file {}: {reason}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("holds no certificate".to_owned())) } else { Ok(roots) }
}

fn failed(reason: &str) -> Error {
    Error::Open { engine: Engine::Postgres, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_the_mode_of_tls() {
        let table = [
            ("postgres://h/d", SslMode::Prefer),
            ("postgresql://h/d?sslmode=disable", SslMode::Disable),
            ("postgres://h/d?sslmode=prefer", SslMode::Prefer),
            ("postgres://h/d?application_name=x&sslmode=require", SslMode::Require),
            ("postgres://h/d?sslmode=verify-ca", SslMode::Require),
            ("postgres://h/d?sslmode=verify-full&application_name=x", SslMode::Require),
        ];
        for (url, mode) in table {
            assert_eq!(parse(url).unwrap().get_ssl_mode(), mode, "{url}");
        }
    }

    #[test]
    fn a_ca_asks_for_tls() {
        let mode = |url: &str, ca: Option<&str>| {
            let crate::Config::Postgres(mut config) = crate::Config::postgres(url) else { unreachable!() };
            config.tls_ca_file = ca.map(Into::into);
            read(&config).map(|settings| settings.get_ssl_mode())
        };
        assert_eq!(mode("postgres://h/d", None).unwrap(), SslMode::Prefer);
        assert_eq!(mode("postgres://h/d", Some("/ca")).unwrap(), SslMode::Require);
        assert_eq!(mode("postgres://h/d?sslmode=verify-full", Some("/ca")).unwrap(), SslMode::Require);
        assert_eq!(mode("postgres://h/d?sslmode=disable", None).unwrap(), SslMode::Disable);
        assert!(matches!(mode("postgres://h/d?sslmode=disable", Some("/ca")), Err(Error::TlsOff)));
    }

    #[test]
    fn a_bad_url_is_refused_without_being_quoted() {
        let table = [
            "mysql://u:canary@h/d",
            "postgres://u:canary@h:port/d",
            "postgres://u:pass@h/d?canary=1",
            "postgres://u:%canary@h/d?x",
            "postgres://u:canary@h/d?sslmode=sometimes",
        ];
        for url in table {
            let error = parse(url).unwrap_err();
            assert!(!error.to_string().contains("canary"), "{error}");
            assert!(!format!("{error:?}").contains("canary"), "{error:?}");
        }
    }
}
