//! Rules between keys: what contradicts itself, and which named files are not there.

use std::path::Path;

use super::settings::{InCluster, S3Identity, Settings};
use super::{Problem, Secret, explored, named_keys};

/// Everything in the settings that cannot be meant together. Each rule is a line: when, which key, fault, cure.
pub fn contradictions(settings: &Settings) -> Vec<Problem> {
    let Settings { tls, front_proxy, database, cluster, states, s3, hub, .. } = settings;
    let postgres = database.url.as_ref().map(Secret::expose).is_some_and(|url| url.starts_with("postgres"));
    let no_client_ca = tls.client_ca_file.is_none();
    let no_proxy_ca = front_proxy.ca_file.is_none();
    let no_secret = s3.secret_access_key.is_none() && s3.secret_access_key_file.is_none();
    let routed_to =
        |store: &str| states.routes.iter().any(|route| route.rsplit('=').next().map(str::trim) == Some(store));
    let same_ca = !no_client_ca && tls.client_ca_file == front_proxy.ca_file;
    let rules: &[(bool, &str, &str, &str)] = &[
        (
            !settings.listen.ip().is_loopback() && !tls.is_on(),
            "listen",
            "is not a loopback address, and TLS is off, so that tokens would cross the network in clear",
            "set tls.cert_file and tls.key_file, or tls.self_signed, or listen on 127.0.0.1",
        ),
        (
            settings.metrics_listen == Some(settings.listen) && settings.listen.port() != 0,
            "metrics_listen",
            "is the address of listen",
            "choose another port, or leave it out and use /metrics of the server",
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
            database.tls_ca_file.is_some() && !postgres,
            "database.tls_ca_file",
            "has no effect without PostgreSQL",
            "set database.url to a postgres:// URL, or leave the CA out",
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
    broken.chain(named_keys::problems(settings)).chain(explored::problems(settings)).collect()
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
