//! The flags of the original, under their names, with their defaults.
//!
//! In the order in which the original lists them. The value names are the words that it uses for types.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{ArgAction, OsStringValueParser, TypedValueParser as _};
use clap::{Arg, Args, Command};

use crate::cli::go::{self, Strings};
use crate::serve::tls::Pair;

/// What the command line says. Repeated flags count once, the last time; lists add up.
#[derive(Args, Debug)]
#[command(args_override_self = true, disable_help_flag = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the original")]
pub struct Flags {
    /// kubeconfig of the API server that is asked for TokenReviews, with the right to create them; in-cluster if left
    /// out
    #[arg(long, value_name = "string", value_parser = path())]
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Do not look up missing authentication settings (client CA, request headers) in the cluster
    #[arg(long, value_name = "bool", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = go::switch, action = ArgAction::Set)]
    pub authentication_skip_lookup: bool,
    /// How long an answer about a token is remembered; 0 asks every time
    #[arg(long, value_name = "duration", default_value = "10s", value_parser = go::duration)]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// Start also when authentication settings cannot be looked up in the cluster: client certificates and request
    /// headers do not count until they can, tokens do
    #[arg(long, value_name = "bool", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = go::switch, action = ArgAction::Set)]
    pub authentication_tolerate_lookup_failure: bool,
    /// Paths at which the API server is not asked whether a caller may; a last * stands for anything. /healthz, /livez
    /// and /readyz are there if they are named here, and need no credentials
    #[arg(long, value_name = "strings", value_parser = go::strings, action = ArgAction::Append)]
    pub authorization_always_allow_paths: Vec<Strings>,
    /// kubeconfig of the API server that is asked for SubjectAccessReviews, with the right to create them; in-cluster if
    /// left out
    #[arg(long, value_name = "string", value_parser = path())]
    pub authorization_kubeconfig: Option<PathBuf>,
    /// How long a yes about an access is remembered; 0 asks every time
    #[arg(long, value_name = "duration", default_value = "10s", value_parser = go::duration)]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// How long a no about an access is remembered; 0 asks every time
    #[arg(long, value_name = "duration", default_value = "10s", value_parser = go::duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
    /// IP address to listen on; empty is all interfaces
    #[arg(long, value_name = "ip", default_value = "0.0.0.0", value_parser = go::address)]
    pub bind_address: std::option::Option<IpAddr>,
    /// Directory of the certificate tf-kubernetes-configmap-backend.crt and its key, made there if they are missing;
    /// ignored with --tls-cert-file and --tls-private-key-file; empty is beside the audit log
    #[arg(long, value_name = "string", default_value = "tf-kubernetes-configmap-backend/certificates",
          value_parser = path())]
    pub cert_dir: Option<PathBuf>,
    /// CA of client certificates: the common name is the user, the organisations are the groups
    #[arg(long, value_name = "string", value_parser = path())]
    pub client_ca_file: Option<PathBuf>,
    /// Store states as gzip
    #[arg(long, value_name = "bool", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = go::switch, action = ArgAction::Set)]
    pub compress_state: bool,
    /// How many streams a client may have open in one HTTP/2 connection; 0 is 250
    #[arg(long, value_name = "int", default_value = "0", value_parser = go::count, allow_negative_numbers = true)]
    pub http2_max_streams_per_connection: u32,
    /// kubeconfig of the API server that keeps the ConfigMaps; in-cluster if left out
    #[arg(long, value_name = "string", value_parser = path())]
    pub kubeconfig: Option<PathBuf>,
    /// How long log lines wait before they are written together; warnings and errors never wait; 0 writes every line at
    /// once
    #[arg(long, value_name = "duration", default_value = "5s", value_parser = go::duration)]
    pub log_flush_frequency: Duration,
    /// Store states without white space; what Terraform and OpenTofu write still comes back as it was sent
    #[arg(long, alias = "minify", value_name = "bool", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value = "false", value_parser = go::switch, action = ArgAction::Set)]
    pub minify_state: bool,
    /// Common names that the certificate of a front proxy may have; empty allows every one of its CA
    #[arg(long, value_name = "strings", value_parser = go::strings, action = ArgAction::Append)]
    pub requestheader_allowed_names: Vec<Strings>,
    /// CA of front proxies, whose headers tell who the caller is
    #[arg(long, value_name = "string", value_parser = path())]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Prefixes of headers with extra facts of the caller
    #[arg(long, value_name = "strings", value_parser = go::strings, default_value = "x-remote-extra-",
          action = ArgAction::Append)]
    pub requestheader_extra_headers_prefix: Vec<Strings>,
    /// Headers with groups of the caller
    #[arg(long, value_name = "strings", value_parser = go::strings, default_value = "x-remote-group",
          action = ArgAction::Append)]
    pub requestheader_group_headers: Vec<Strings>,
    /// Headers that may hold the user; the first that is there counts
    #[arg(long, value_name = "strings", value_parser = go::strings, default_value = "x-remote-user",
          action = ArgAction::Append)]
    pub requestheader_username_headers: Vec<Strings>,
    /// Port of the server, always with TLS; cannot be 0
    #[arg(long, value_name = "int", default_value = "8443", value_parser = go::port, allow_negative_numbers = true)]
    pub secure_port: u16,
    /// Certificate chain of the server, read again when it changes
    #[arg(long, value_name = "string", value_parser = path())]
    pub tls_cert_file: Option<PathBuf>,
    /// Cipher suites for TLS 1.2, by their names in Go; those that are not safe are left out with a warning
    #[arg(long, value_name = "strings", value_parser = go::strings, action = ArgAction::Append)]
    pub tls_cipher_suites: Vec<Strings>,
    /// Oldest version of TLS, VersionTLS10 to VersionTLS13; what is below VersionTLS12 counts as VersionTLS12
    #[arg(long, value_name = "string", value_parser = go::tls_version)]
    pub tls_min_version: Option<String>,
    /// Private key of --tls-cert-file
    #[arg(long, value_name = "string", value_parser = path())]
    pub tls_private_key_file: Option<PathBuf>,
    /// A certificate and its key for some names, such as foo.crt,foo.key:*.foo.com,foo.com; may be repeated. Without
    /// names, those of the certificate count, after all names that were given; exact names come before patterns
    #[arg(long, value_name = "namedCertKey", value_parser = go::named_pair, action = ArgAction::Append)]
    pub tls_sni_cert_key: Vec<Pair>,
    /// Print version information and quit
    #[arg(long, value_name = "bool", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = go::switch, action = ArgAction::Set)]
    pub version: bool,
    /// Show the flags
    #[arg(long, short, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = go::switch, action = ArgAction::Set)]
    pub help: bool,
}

impl Flags {
    /// As in Go, an empty text is the same as no flag: charts pass what is not set so.
    #[must_use]
    pub fn without_empty(mut self) -> Flags {
        for path in [
            &mut self.authentication_kubeconfig,
            &mut self.authorization_kubeconfig,
            &mut self.cert_dir,
            &mut self.client_ca_file,
            &mut self.kubeconfig,
            &mut self.requestheader_client_ca_file,
            &mut self.tls_cert_file,
            &mut self.tls_private_key_file,
        ] {
            path.take_if(|path| path.as_os_str().is_empty());
        }
        self.tls_min_version.take_if(|version| version.is_empty());
        self
    }
}

/// Unlike clap's own, it takes an empty text.
fn path() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// The flags as the original shows them.
pub fn usage(command: &Command) -> String {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let rows: Vec<(String, String)> = shown.filter_map(|arg| Some((left(arg)?, right(arg)))).collect();
    let width = rows.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
    let rows = rows.iter().map(|(left, right)| format!("{left:<width$}   {right}\n"));
    format!("Usage of tf-kubernetes-configmap-backend:\n{}", rows.collect::<String>())
}

fn kind(arg: &Arg) -> &str {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map(clap::builder::Str::as_str).filter(|_| arg.get_action().takes_values()).unwrap_or("bool")
}

fn left(arg: &Arg) -> Option<String> {
    let kind = kind(arg);
    let kind = if kind == "bool" { String::new() } else { format!(" {kind}") };
    Some(format!("      --{}{kind}", arg.get_long()?))
}

fn right(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let value = arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let value = match (kind(arg), value.as_deref()) {
        ("bool", _) | ("int", Some("0")) => None,
        ("namedCertKey", None) => Some("[]".to_owned()),
        ("strings", Some(value)) => Some(format!("[{value}]")),
        ("string", Some(value)) => Some(format!("{value:?}")),
        (_, value) => value.map(str::to_owned),
    };
    value.map_or(help.clone(), |value| format!("{help} (default {value})"))
}
