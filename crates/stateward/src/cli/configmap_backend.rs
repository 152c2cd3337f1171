//! `stateward configmap-backend`: in place of tf-kubernetes-configmap-backend, with its flags.
//!
//! What has no flag there is a key of the configuration, set by a variable or in the configuration file, as for
//! `serve`. The door is [`ConfigmapBackend::run`]: it turns the flags into settings and starts the one listener.

mod flags;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory as _};
use states::head::Packing;
use states::http::compat::AllowedPath;

use super::failure::{Ended, Exit, Failure};
use super::{Cli, go, logging, output};
use crate::config::settings::TlsVersion;
use crate::config::{Environment, Given, Problem, Settings, resolve};
use crate::serve::configmap_backend::{Backend, Kubeconfigs, OnFailure};
use crate::serve::tls::suites::{self, Chosen};
use crate::serve::tls::{self, Pair};
use crate::serve::{self, data_dir};
use flags::Flags;

const NAME: &str = "tf-kubernetes-configmap-backend";

/// Serve states in ConfigMaps, in place of tf-kubernetes-configmap-backend
///
/// Takes the flags of the original, also when the binary is called by its name; each has the effect that its help
/// promises. The audit log is kept in STATEWARD_DATA_DIR, by default tf-kubernetes-configmap-backend in
/// $XDG_STATE_HOME or ~/.local/state, or a temporary directory where that cannot be. Other settings, such as
/// STATEWARD_LOG_LEVEL, are those of `serve`, by variable or configuration file.
#[derive(Args)]
pub struct ConfigmapBackend {
    #[command(flatten)]
    flags: Flags,
}

impl ConfigmapBackend {
    pub async fn run(self, environment: &Environment) -> anyhow::Result<()> {
        let flags = self.flags.without_empty();
        if flags.help {
            let mut command = Cli::command();
            let command = command.find_subcommand_mut("configmap-backend").context("a command without its name")?;
            output::talk(format_args!("{}", flags::usage(command).trim_end()));
            return Err(Ended(2).into());
        }
        if flags.version {
            output::talk(format_args!("{NAME} (stateward {})", env!("CARGO_PKG_VERSION")));
            return Ok(());
        }
        let (settings, data, warnings) = settings(&flags, environment)?;
        let _flushed = logging::start_buffered(&settings.log, environment, flags.log_flush_frequency)?;
        logging::warn_of(&warnings);
        if let Data::Temporary = data {
            let directory = settings.data_dir.display();
            tracing::warn!(%directory, "the audit log is in a temporary directory: set STATEWARD_DATA_DIR to keep it");
        }
        let backend = backend(flags, settings)?;
        serve::configmap_backend::run(backend, environment).await
    }
}

fn backend(flags: Flags, settings: Settings) -> anyhow::Result<Backend> {
    let packing = match (flags.compress_state, flags.minify_state) {
        (false, false) => Packing::Plain,
        (false, true) => Packing::Minified,
        (true, false) => Packing::Gzip,
        (true, true) => Packing::GzipMinified,
    };
    let allowed = go::all(&flags.authorization_always_allow_paths).into_iter().map(|path| {
        AllowedPath::new(&path).ok_or_else(|| {
            Failure::usage(
                format!("--authorization-always-allow-paths: '{path}' is not a path"),
                "write paths such as /healthz or /team-a/*: only the last character may be a *",
            )
        })
    });
    let allowed = allowed.collect::<Result<Vec<_>, _>>()?;
    let Chosen { provider, left_out } = suites::choose(&go::all(&flags.tls_cipher_suites))
        .map_err(|fault| Failure::usage(format!("--tls-cipher-suites: {fault}"), "leave the flag out for safe ones"))?;
    for suite in left_out {
        tracing::warn!(suite, "left out a cipher suite that is not safe");
    }
    if let Some(version @ ("VersionTLS10" | "VersionTLS11")) = flags.tls_min_version.as_deref() {
        tracing::warn!(version, "this version of TLS is not safe: the oldest that is accepted is VersionTLS12");
    }
    let default = match (flags.tls_cert_file, flags.tls_private_key_file) {
        (Some(cert_file), Some(key_file)) => Pair { cert_file, key_file, names: Vec::new() },
        (None, None) => {
            let own = || settings.data_dir.join("certificates");
            tls::self_signed::in_directory(&flags.cert_dir.unwrap_or_else(own), NAME, flags.bind_address)?
        }
        _ => {
            let message = "--tls-cert-file and --tls-private-key-file go together";
            return Err(Failure::usage(message, "give both or none").into());
        }
    };
    let streams = Some(flags.http2_max_streams_per_connection).filter(|streams| *streams > 0);
    Ok(Backend {
        kubeconfigs: Kubeconfigs {
            core: flags.kubeconfig,
            authentication: flags.authentication_kubeconfig,
            authorization: flags.authorization_kubeconfig,
        },
        on_lookup_failure: if flags.authentication_tolerate_lookup_failure { OnFailure::GoOn } else { OnFailure::End },
        tls: tls::Wanted { default, by_name: flags.tls_sni_cert_key, min_version: settings.tls.min_version, provider },
        all_interfaces: flags.bind_address.is_none(),
        allowed,
        packing,
        streams,
        settings,
    })
}

/// The keys that the flags stand for, over those that variables and the configuration file set.
fn settings(flags: &Flags, environment: &Environment) -> anyhow::Result<(Settings, Data, Vec<Problem>)> {
    let (directory, data) = data_directory(environment)?;
    let mut given = Given::default();
    given.flags.insert("data_dir", vec![directory.display().to_string()]);
    let mut resolution = resolve(&given, environment);
    let warnings = std::mem::take(&mut resolution.warnings);
    let mut settings = resolution.settings()?;
    let address = flags.bind_address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    settings.listen = SocketAddr::new(address, flags.secure_port);
    settings.tls.min_version = match flags.tls_min_version.as_deref() {
        Some("VersionTLS13") => TlsVersion::Tls13,
        _ => TlsVersion::Tls12,
    };
    // As in Kubernetes, whoever these authorities sign for is whoever they say.
    settings.tls.client_ca_file.clone_from(&flags.client_ca_file);
    settings.tls.client_ca_trusted = true;
    let proxy = &mut settings.front_proxy;
    proxy.ca_file.clone_from(&flags.requestheader_client_ca_file);
    proxy.trusted = true;
    proxy.allowed_names = go::all(&flags.requestheader_allowed_names);
    proxy.user_headers = go::all(&flags.requestheader_username_headers);
    proxy.group_headers = go::all(&flags.requestheader_group_headers);
    proxy.extra_prefixes = go::all(&flags.requestheader_extra_headers_prefix);
    settings.access.lookup_cluster_ca = !flags.authentication_skip_lookup;
    settings.access.authentication_ttl = flags.authentication_token_webhook_cache_ttl;
    settings.access.allow_ttl = flags.authorization_webhook_cache_authorized_ttl;
    settings.access.deny_ttl = flags.authorization_webhook_cache_unauthorized_ttl;
    Ok((settings, data, warnings))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Kept,
    Temporary,
}

/// Where the audit log is. The original keeps nothing, so that it may run where nothing can be kept.
fn data_directory(environment: &Environment) -> anyhow::Result<(PathBuf, Data)> {
    if let Some(directory) = environment.non_empty("STATEWARD_DATA_DIR") {
        return Ok((PathBuf::from(directory), Data::Kept));
    }
    let absolute = |name: &str| environment.non_empty(name).map(Path::new).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    let base = absolute("XDG_STATE_HOME").map(Path::to_owned).or_else(home);
    if let Some(directory) = base.map(|base| base.join(NAME)).filter(|directory| data_dir::private(directory).is_ok()) {
        return Ok((directory, Data::Kept));
    }
    let base = absolute("TMPDIR").unwrap_or(Path::new("/tmp"));
    let directory = base.join(format!("{NAME}-{}", uuid::Uuid::new_v4()));
    let made = data_dir::private(&directory);
    made.map_err(|error| {
        let hint = "set STATEWARD_DATA_DIR to a directory that can be written";
        Failure::new(Exit::Failed, format!("there is no place for the audit log: {error:#}"), hint)
    })?;
    Ok((directory, Data::Temporary))
}
