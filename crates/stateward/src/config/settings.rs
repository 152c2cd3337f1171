//! The typed result. Each field is the key of the same path in `keys.rs`; a test holds the two together.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Secret;

/// Everything that `stateward serve` is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// Read by [`super::lists`], as are the routes of states, the grants and the addresses of storage backends.
    pub allowed_hosts: Vec<String>,
    pub metrics_listen: Option<SocketAddr>,
    pub shutdown_grace: Duration,
    pub log: Log,
    pub tls: Tls,
    pub front_proxy: FrontProxy,
    pub database: Database,
    pub cluster: Cluster,
    pub access: Access,
    pub audit: Audit,
    pub limits: Limits,
    pub keys: Keys,
    pub states: States,
    pub s3: S3,
    pub explorer: Explorer,
    pub hub: Hub,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Auto,
    Human,
    Json,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub sni: Vec<SniPair>,
    pub min_version: TlsVersion,
    pub client_ca_file: Option<PathBuf>,
    pub client_ca_trusted: bool,
    pub self_signed: bool,
    pub self_signed_names: Vec<String>,
}

impl Tls {
    /// Whether the server speaks TLS at all.
    pub fn is_on(&self) -> bool {
        self.cert_file.is_some() || self.self_signed
    }
}

/// A certificate for some names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SniPair {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
    /// Empty: the names of the certificate.
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontProxy {
    pub ca_file: Option<PathBuf>,
    pub allowed_names: Vec<String>,
    pub user_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_prefixes: Vec<String>,
    pub trusted: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// None: SQLite in the data directory.
    pub url: Option<Secret>,
    pub tls_ca_file: Option<PathBuf>,
    pub pool: usize,
    pub deadline: Duration,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    #[expect(clippy::struct_field_names, reason = "the key is cluster.in_cluster")]
    pub in_cluster: InCluster,
    pub namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InCluster {
    Auto,
    On,
    Off,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    pub audiences: Vec<String>,
    pub grants: Vec<String>,
    pub authentication_ttl: Duration,
    pub allow_ttl: Duration,
    pub deny_ttl: Duration,
    pub cache_entries: u64,
    pub review_deadline: Duration,
    pub reviews: usize,
    pub new_tokens: u64,
    pub token_bytes: u64,
    pub lookup_cluster_ca: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    pub rotate_bytes: u64,
    pub rotate_after: Duration,
    pub keep: Duration,
    pub key_file: Option<PathBuf>,
    pub lease_every: Duration,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub body_bytes: u64,
    pub header_time: Duration,
    pub idle_body_time: Duration,
    pub connections: usize,
}

/// What the lists of keys say is read by [`super::named_keys`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    pub files: Vec<String>,
    pub shared_files: bool,
    pub secrets: Vec<String>,
    pub transit: Vec<String>,
    pub vault_address: Option<String>,
    pub vault_ca_file: Option<PathBuf>,
    pub vault_namespace: Option<String>,
    pub vault_token_file: Option<PathBuf>,
    pub vault_role: Option<String>,
    pub vault_jwt_file: PathBuf,
    pub vault_role_id_file: Option<PathBuf>,
    pub vault_secret_id_file: Option<PathBuf>,
    pub vault_auth_mount: Option<String>,
    pub vault_deadline: Duration,
    pub cache_ttl: Duration,
    pub cache_entries: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct States {
    pub encryption_key: Option<String>,
    pub compat_listen: Option<SocketAddr>,
    pub routes: Vec<String>,
    pub body_bytes: u64,
    pub lock_info_bytes: u64,
    pub uploads: usize,
    pub upload_rate: u64,
    pub cluster_bytes: u64,
    pub stored_bytes: Option<u64>,
    pub depth: usize,
    pub lock_expiry: Duration,
    pub forced_unlock: bool,
    pub versions: usize,
    pub version_age: Duration,
    pub sweep_every: Duration,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    /// None: there is no store s3.
    pub bucket: Option<String>,
    pub prefix: Option<String>,
    pub endpoint: Option<String>,
    pub region: String,
    pub path_style: bool,
    pub identity: S3Identity,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<Secret>,
    pub secret_access_key_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub allow_http: bool,
    pub deadline: Duration,
}

/// Whose keys count at the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum S3Identity {
    Keys,
    Aws,
}

/// What the lists say is read by [`crate::serve::explorer`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explorer {
    pub enabled: bool,
    pub cluster_name: String,
    pub authorizer: Authorizer,
    pub kinds: Vec<String>,
    pub row_verbs: Vec<String>,
    pub rbac_max_age: Duration,
    pub retention: Vec<String>,
    pub clean_every: Duration,
    pub page_rows: usize,
    pub words: usize,
    pub changes: usize,
    pub followers: usize,
    pub token_users: Vec<String>,
    pub encryption_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authorizer {
    Rbac,
    Review,
}

/// What the files say is read by [`crate::serve::hub`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hub {
    pub enabled: bool,
    pub namespace: String,
    pub encryption_key: Option<String>,
    pub require_types: bool,
    pub types_dir: Option<PathBuf>,
    pub policy_file: Option<PathBuf>,
    pub allowed_urls: Vec<String>,
    pub backend_ca_file: Option<PathBuf>,
    pub backend_cert_file: Option<PathBuf>,
    pub backend_key_file: Option<PathBuf>,
    pub call_time: Duration,
    pub read_time: Duration,
    pub lock_question_time: Duration,
    pub changes_age: Duration,
    pub changes_records: u64,
    pub followers: usize,
    pub body_bytes: u64,
    pub query_depth: usize,
    pub query_fields: usize,
    pub list_records: usize,
    pub answer_records: usize,
    pub answer_bytes: u64,
    pub batch_records: usize,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use crate::config::keys::{KEYS, find};
    use crate::config::{Environment, Given, resolve};

    fn paths_of(value: &Value, path: &str, paths: &mut BTreeSet<String>) {
        match value {
            // A Duration is an object too; a known key ends the descent.
            Value::Object(fields) if find(path).is_none() => {
                for (name, field) in fields {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    paths_of(field, &path, paths);
                }
            }
            _ => _ = paths.insert(path.to_owned()),
        }
    }

    #[test]
    fn every_field_is_a_key_and_every_key_is_a_field() {
        let environment: Environment = [("HOME", "/home/a")].into_iter().collect();
        let settings = resolve(&Given::default(), &environment).settings().unwrap();
        let mut fields = BTreeSet::new();
        paths_of(&serde_json::to_value(settings).unwrap(), "", &mut fields);
        assert_eq!(fields, KEYS.iter().map(|key| key.path.to_owned()).collect());
    }
}
