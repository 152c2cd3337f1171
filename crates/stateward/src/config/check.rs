//! Rules between keys: what contradicts itself, what needs a cluster, and which named files are not there.

use std::net::SocketAddr;
use std::path::Path;

use super::settings::{InCluster, S3Identity, Settings};
use super::{Environment, Problem, database, explored, lists, named_keys};

/// A pool makes room for all of its connections at once, and PostgreSQL itself begins with a hundred.
const MOST_CONNECTIONS: usize = 10_000;

/// Everything in the settings that cannot be meant together. Each rule is a line: when, which key, fault, cure.
pub fn contradictions(settings: &Settings) -> Vec<Problem> {
    let Settings { tls, front_proxy, database, cluster, states, s3, hub, .. } = settings;
    let no_client_ca = tls.client_ca_file.is_none();
    let no_proxy_ca = front_proxy.ca_file.is_none();
    let no_secret = s3.secret_access_key.is_none() && s3.secret_access_key_file.is_none();
    let routes = lists::routes(settings).unwrap_or_default();
    let routed_to = |store: &str| routes.iter().any(|route| route.store == store);
    let is_also = |listen: Option<SocketAddr>, other: Option<SocketAddr>| {
        listen.zip(other).is_some_and(|(listen, other)| overlap(listen, other))
    };
    let same_ca = !no_client_ca && tls.client_ca_file == front_proxy.ca_file;
    let rules: &[(bool, &str, &str, &str)] = &[
        (
            !settings.listen.ip().is_loopback() && !tls.is_on(),
            "listen",
            "is not a loopback address, and TLS is off, so that tokens would cross the network in clear",
            "set tls.cert_file and tls.key_file, or tls.self_signed, or listen on 127.0.0.1",
        ),
        (
            is_also(settings.metrics_listen, Some(settings.listen)),
            "metrics_listen",
            "is the address of listen",
            "choose another port, or leave it out and use /metrics of the server",
        ),
        (
            is_also(states.compat_listen, Some(settings.listen)),
            "states.compat_listen",
            "is the address of listen",
            "choose another port",
        ),
        (
            is_also(states.compat_listen, settings.metrics_listen),
            "states.compat_listen",
            "is the address of metrics_listen",
            "choose another port",
        ),
        (
            states.compat_listen.is_some_and(|listen| !listen.ip().is_loopback()) && !tls.is_on(),
            "states.compat_listen",
            "is not a loopback address, and TLS is off, so that tokens would cross the network in clear",
            "set tls.cert_file and tls.key_file, or tls.self_signed, or use 127.0.0.1",
        ),
        (tls.cert_file.is_some() && tls.key_file.is_none(), "tls.cert_file", "has no key", "set tls.key_file"),
        (tls.key_file.is_some() && tls.cert_file.is_none(), "tls.key_file", "has no certificate", "set tls.cert_file"),
        (
            tls.self_signed && tls.cert_file.is_some(),
            "tls.self_signed",
            "contradicts tls.cert_file",
            "leave one of them out",
        ),
        (
            !tls.sni.is_empty() && !tls.is_on(),
            "tls.sni",
            "has no default certificate beside it, for clients that ask for another name or for none",
            "set tls.cert_file and tls.key_file, or tls.self_signed",
        ),
        (
            !tls.self_signed && !tls.self_signed_names.is_empty(),
            "tls.self_signed_names",
            "has no effect without tls.self_signed",
            "set tls.self_signed, or leave the names out",
        ),
        (
            !no_client_ca && !tls.is_on(),
            "tls.client_ca_file",
            "has no effect without TLS",
            "set tls.cert_file and tls.key_file, or tls.self_signed",
        ),
        (
            tls.client_ca_trusted && no_client_ca,
            "tls.client_ca_trusted",
            "trusts a CA that is not given",
            "set tls.client_ca_file",
        ),
        (
            !no_proxy_ca && !tls.is_on(),
            "front_proxy.ca_file",
            "has no effect without TLS, as a proxy is known by its certificate",
            "set tls.cert_file and tls.key_file, or tls.self_signed",
        ),
        (
            no_proxy_ca && !front_proxy.allowed_names.is_empty(),
            "front_proxy.allowed_names",
            "has no effect without a CA",
            "set front_proxy.ca_file",
        ),
        (
            no_proxy_ca && front_proxy.trusted,
            "front_proxy.trusted",
            "trusts a CA that is not given",
            "set front_proxy.ca_file",
        ),
        (
            !no_proxy_ca && front_proxy.user_headers.is_empty(),
            "front_proxy.user_headers",
            "is empty, so that no proxy can say who the user is",
            "name at least one header, such as X-Remote-User",
        ),
        (
            same_ca && front_proxy.allowed_names.is_empty(),
            "front_proxy.allowed_names",
            "is empty while front_proxy.ca_file is also tls.client_ca_file: every client could claim to be anybody",
            "list the common names of the proxies, or use a CA of its own",
        ),
        (
            database.tls_ca_file.is_some() && !database::is_postgres(settings),
            "database.tls_ca_file",
            "has no effect without PostgreSQL",
            "set database.url to a postgres:// URL, or leave the CA out",
        ),
        (
            database.pool > MOST_CONNECTIONS,
            "database.pool",
            "is more than 10000, which no database would take",
            "write what the server can spare of its max_connections",
        ),
        (
            cluster.context.is_some() && cluster.kubeconfig.is_none(),
            "cluster.context",
            "has no kubeconfig to be looked up in",
            "set cluster.kubeconfig",
        ),
        (
            cluster.kubeconfig.is_some() && cluster.in_cluster == InCluster::On,
            "cluster.in_cluster",
            "is on while a kubeconfig is given",
            "leave one of them out",
        ),
        (
            states.encryption_key.is_some() && routed_to("kubernetes"),
            "states.encryption_key",
            "would seal states of the store kubernetes, which Terraform's own backend has to read",
            "route those namespaces to the store secret, or leave the key out",
        ),
        (
            s3.bucket.is_none() && routed_to("s3"),
            "states.routes",
            "names the store s3, which has no bucket",
            "set s3.bucket",
        ),
        (
            s3.bucket.is_none() && s3.endpoint.is_some(),
            "s3.endpoint",
            "has no effect without a bucket",
            "set s3.bucket",
        ),
        (
            s3.bucket.is_some() && s3.access_key_id.is_none() && s3.identity == S3Identity::Keys,
            "s3.bucket",
            "has no access key",
            "set s3.access_key_id, and s3.secret_access_key or s3.secret_access_key_file; or s3.identity: aws",
        ),
        (
            s3.access_key_id.is_some() && s3.identity == S3Identity::Aws,
            "s3.identity",
            "is aws while s3.access_key_id is given",
            "leave one of them out",
        ),
        (
            s3.bucket.is_some() && s3.access_key_id.is_some() && no_secret,
            "s3.access_key_id",
            "has no secret",
            "set s3.secret_access_key or s3.secret_access_key_file",
        ),
        (
            s3.secret_access_key.is_some() && s3.secret_access_key_file.is_some(),
            "s3.secret_access_key",
            "contradicts s3.secret_access_key_file",
            "leave one of them out",
        ),
        (
            s3.endpoint.as_deref().is_some_and(|endpoint| !endpoint.starts_with("https://")) && !s3.allow_http,
            "s3.endpoint",
            "does not begin with https://, so that states would cross the network in clear",
            "use https://, or set s3.allow_http where the network is your own",
        ),
        (
            (s3.allow_http || s3.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("https://")))
                && s3.endpoint.as_deref().is_some_and(|endpoint| !is_address(endpoint)),
            "s3.endpoint",
            "is not the address of a server",
            "write one such as https://minio.example:9000",
        ),
        (
            !s3.prefix.as_deref().is_none_or(states::store::S3Store::takes_prefix),
            "s3.prefix",
            "has an empty part, or one that object names cannot have",
            "write it as a/b",
        ),
        (
            !access::http::is_dns_label(&hub.namespace),
            "hub.namespace",
            "is not a DNS label",
            "use lower-case letters, digits and '-'",
        ),
        (
            hub.backend_cert_file.is_some() != hub.backend_key_file.is_some(),
            "hub.backend_cert_file",
            "and hub.backend_key_file go together",
            "set both, or leave both out",
        ),
    ];
    let broken = rules.iter().filter(|(broken, ..)| *broken);
    let broken = broken.map(|(_, key, fault, cure)| Problem::new(*key, *fault, *cure));
    let of_database = database::read(settings).err();
    let of_lists = lists::problems(settings).into_iter().chain(explored::problems(settings));
    broken.chain(of_database).chain(named_keys::problems(settings)).chain(of_lists).collect()
}

/// What needs the cluster that a server started here would not have.
pub fn without_a_cluster(settings: &Settings, environment: &Environment) -> Vec<Problem> {
    let Settings { cluster, states, keys, .. } = settings;
    let expected = match cluster.in_cluster {
        InCluster::On => true,
        InCluster::Auto => environment.is_in_pod(),
        InCluster::Off => false,
    };
    if expected || cluster.kubeconfig.is_some() {
        return Vec::new();
    }
    let routes = lists::routes(settings).unwrap_or_default();
    let routed = routes.iter().any(|route| lists::STORES_OF_CLUSTERS.contains(&route.store.as_str()));
    let needing = [
        ("keys.secrets", !keys.secrets.is_empty()),
        ("states.compat_listen", states.compat_listen.is_some()),
        ("states.routes", routed),
    ];
    let cure = "set cluster.kubeconfig, or, for a Pod, cluster.in_cluster: on";
    let needing = needing.into_iter().filter(|(_, needs)| *needs);
    needing.map(|(key, _)| Problem::new(key, "needs a cluster, and there is none here", cure)).collect()
}

/// Whether the kernel would refuse one of two listeners because of the other.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    // An unspecified address of IPv6 takes what comes by IPv4 too.
    let covers = |wide: SocketAddr, narrow: SocketAddr| {
        wide.ip() == narrow.ip() || wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    one.port() == other.port() && one.port() != 0 && (covers(one, other) || covers(other, one))
}

fn is_address(text: &str) -> bool {
    let uri = text.parse::<http::Uri>();
    uri.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    })
}

/// Files that the settings name and that cannot be opened here. A warning only: the check may run on another machine.
pub fn missing_files(settings: &Settings) -> Vec<Problem> {
    let Settings { tls, front_proxy, database, cluster, audit, keys, s3, hub, .. } = settings;
    let key_files = named_keys::files(settings);
    let named = [
        ("tls.cert_file", &tls.cert_file),
        ("tls.key_file", &tls.key_file),
        ("tls.client_ca_file", &tls.client_ca_file),
        ("front_proxy.ca_file", &front_proxy.ca_file),
        ("database.tls_ca_file", &database.tls_ca_file),
        ("cluster.kubeconfig", &cluster.kubeconfig),
        ("audit.key_file", &audit.key_file),
        ("s3.secret_access_key_file", &s3.secret_access_key_file),
        ("s3.ca_file", &s3.ca_file),
        ("hub.types_dir", &hub.types_dir),
        ("hub.policy_file", &hub.policy_file),
        ("hub.backend_ca_file", &hub.backend_ca_file),
        ("hub.backend_cert_file", &hub.backend_cert_file),
        ("hub.backend_key_file", &hub.backend_key_file),
        ("keys.vault_ca_file", &keys.vault_ca_file),
        ("keys.vault_token_file", &keys.vault_token_file),
        ("keys.vault_role_id_file", &keys.vault_role_id_file),
        ("keys.vault_secret_id_file", &keys.vault_secret_id_file),
    ];
    let named = named.into_iter().filter_map(|(key, path)| path.as_deref().map(|path| (key, path)));
    let pairs = tls.sni.iter().flat_map(|pair| [("tls.sni", &*pair.cert_file), ("tls.sni", &*pair.key_file)]);
    let keys = key_files.iter().map(|path| ("keys.files", path.as_path()));
    named.chain(pairs).chain(keys).filter_map(|(key, path)| unreadable(key, path)).collect()
}

fn unreadable(key: &str, path: &Path) -> Option<Problem> {
    let error = std::fs::File::open(path).err()?;
    let fault = format!("{} cannot be read here: {error}", path.display());
    Some(Problem::new(key, fault, "check the path and the permissions"))
}
