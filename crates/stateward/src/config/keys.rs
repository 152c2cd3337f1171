//! The table of keys. Everything that knows a key by name takes it from here.
//!
//! To add one: a line here and a field of the same path in `settings.rs`; a test holds the two together.

use super::environment::{Environment, PREFIX};
use super::kind::Kind;

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Group and name, joined by a dot; keys without a group stand at the top.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    /// One line, shown by `serve -h`.
    pub help: &'static str,
    /// What else there is to know: limits, reasons, what it goes with. May be empty.
    pub more: &'static str,
    /// A shorter flag for what people type every day.
    pub short_flag: Option<&'static str>,
}

/// What holds when nobody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing; an empty list for a list.
    Unset,
    Text(&'static str),
    /// The directory for data of this user's programs.
    DataDirectory,
}

impl Key {
    const fn flag_too(mut self, flag: &'static str) -> Key {
        self.short_flag = Some(flag);
        self
    }

    /// `tls.cert_file` is `STATEWARD_TLS_CERT_FILE`.
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path.replace('.', "_").to_uppercase())
    }

    /// `tls.cert_file` is `tls-cert-file`.
    pub fn flag(&self) -> String {
        self.path.replace(['.', '_'], "-")
    }

    /// The group, empty for the keys at the top.
    pub fn group(&self) -> &'static str {
        self.path.split_once('.').map_or("", |(group, _)| group)
    }

    /// The default as text, if there is one here.
    pub fn default_text(&self, environment: &Environment) -> Option<String> {
        match self.default {
            Fallback::Unset => None,
            Fallback::Text(text) => Some(text.to_owned()),
            Fallback::DataDirectory => {
                let absolute = |name: &str| environment.get(name).filter(|path| path.starts_with('/'));
                let home = || absolute("HOME").map(|home| format!("{home}/.local/share"));
                let base = absolute("XDG_DATA_HOME").map(str::to_owned).or_else(home)?;
                Some(format!("{}/stateward", base.trim_end_matches('/')))
            }
        }
    }

    /// The default as documented: the same on every machine.
    pub fn default_shown(&self) -> &'static str {
        match self.default {
            Fallback::Unset if self.kind.is_list() => "empty",
            Fallback::Unset => "unset",
            Fallback::Text(text) => text,
            Fallback::DataDirectory => "$XDG_DATA_HOME/stateward or ~/.local/share/stateward",
        }
    }
}

/// The key of this path.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// What the groups are about, in the order of the reference page.
pub const GROUPS: &[(&str, &str)] = &[
    ("", "Where it listens and what it keeps"),
    ("log", "Logs, on standard error"),
    ("tls", "TLS of the server"),
    ("front_proxy", "Identities that an authenticating proxy passes on"),
    ("database", "Where records are kept"),
    ("cluster", "The Kubernetes cluster that authenticates and authorises"),
    ("access", "Who is it, may they"),
    ("audit", "The audit log"),
    ("limits", "What one client may take"),
    ("keys", "Named keys, which seal what is kept"),
    ("states", "Terraform and OpenTofu states"),
    ("s3", "The bucket behind the store s3"),
    ("explorer", "Objects of many clusters, for those who may see them"),
    ("hub", "Typed records, whose values may live elsewhere"),
];

const fn key(path: &'static str, kind: Kind, default: Fallback, help: &'static str, more: &'static str) -> Key {
    Key { path, kind, default, help, more, short_flag: None }
}

use Fallback::{DataDirectory, Text, Unset};

#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("listen", Kind::Address, Text("127.0.0.1:8642"), "Address and port of the server", "Anything but a loopback address needs TLS."),
    key("data_dir", Kind::Path, DataDirectory, "Directory of everything that is kept on this machine", "Created with mode 0700. Only one process at a time may use it."),
    key("allowed_hosts", Kind::List, Unset, "Host names under which clients may call the server", "Checked against the Host header, so that a foreign web page cannot reach a loopback server by DNS rebinding. Names and addresses alone: any port fits. localhost and the address of `listen` are always allowed."),
    key("metrics_listen", Kind::LoopbackAddress, Unset, "Separate loopback address for /metrics and verbose /readyz", "Without it both need `get` on that URL."),
    key("shutdown_grace", Kind::Duration, Text("20s"), "How long requests may go on after SIGTERM or SIGINT, and what is being undone at storage backends", "Keep it below terminationGracePeriodSeconds of the Pod."),

    key("log.format", Kind::Choice(&["auto", "human", "json"]), Text("auto"), "Form of the log lines", "auto is human on a terminal and json elsewhere."),
    key("log.level", Kind::LogFilter, Text("info"), "What is logged", "A level (error, warn, info, debug, trace) or a filter per module."),

    key("tls.cert_file", Kind::Path, Unset, "Certificate chain of the server, PEM", "Read again when the file changes; connections are kept."),
    key("tls.key_file", Kind::Path, Unset, "Private key of tls.cert_file, PEM", ""),
    key("tls.sni", Kind::SniList, Unset, "More certificates, chosen by the name that the client asks for", "Without names, those of the certificate count."),
    key("tls.min_version", Kind::Choice(&["1.2", "1.3"]), Text("1.2"), "Oldest version of TLS that is accepted", ""),
    key("tls.client_ca_file", Kind::Path, Unset, "CA of client certificates, PEM", "The common name is the user, the organisations are the groups."),
    key("tls.client_ca_trusted", Kind::Switch, Text("false"), "Whether client certificates may carry system: users and groups", "Otherwise those are dropped: who signs for this CA could become system:masters."),
    key("tls.self_signed", Kind::Switch, Text("false"), "Make a certificate in the data directory and serve with it", "For trials. Clients need its file as their CA."),
    key("tls.self_signed_names", Kind::List, Unset, "Names and addresses in the self-signed certificate", "localhost and the address of `listen` are always in it."),

    key("front_proxy.ca_file", Kind::Path, Unset, "CA of the proxies whose identity headers count, PEM", ""),
    key("front_proxy.allowed_names", Kind::List, Unset, "Common names that a proxy's certificate may have", "Empty allows every certificate of the CA, and is refused when that CA also signs client certificates."),
    key("front_proxy.user_headers", Kind::HeaderList, Text("X-Remote-User"), "Headers that may hold the user; the first that is there counts", ""),
    key("front_proxy.uid_headers", Kind::HeaderList, Text("X-Remote-Uid"), "Headers that may hold the uid", ""),
    key("front_proxy.group_headers", Kind::HeaderList, Text("X-Remote-Group"), "Headers that hold groups", ""),
    key("front_proxy.extra_prefixes", Kind::HeaderList, Text("X-Remote-Extra-"), "Prefixes of headers that hold extra facts", ""),
    key("front_proxy.trusted", Kind::Switch, Text("false"), "Whether proxies may pass on system: users and groups", ""),

    key("database.url", Kind::DatabaseUrl, Unset, "PostgreSQL or another SQLite file", "Unset is SQLite at stateward.db in the data directory. Give a URL with a password in the environment or in the file, not as a flag: flags show in the list of processes."),
    key("database.tls_ca_file", Kind::Path, Unset, "CA of the PostgreSQL server, PEM", "With it there is no connection without TLS, whatever sslmode says. Unset trusts what the operating system trusts."),
    key("database.pool", Kind::Count, Text("8"), "Connections that are kept at most", "Not beyond 10000."),
    key("database.deadline", Kind::Period, Text("10s"), "How long one database operation may take", ""),

    key("cluster.kubeconfig", Kind::Path, Unset, "kubeconfig of the cluster", "").flag_too("kubeconfig"),
    key("cluster.context", Kind::Text, Unset, "Context of the kubeconfig, if not the current one", "").flag_too("context"),
    key("cluster.in_cluster", Kind::Choice(&["auto", "on", "off"]), Text("auto"), "Whether to use the ServiceAccount of the Pod", "auto does if KUBERNETES_SERVICE_HOST and the ServiceAccount's files are there and no kubeconfig is given."),
    key("cluster.namespace", Kind::Text, Unset, "Namespace of this process's own objects", "Unset is the namespace of the Pod or of the context."),

    key("access.audiences", Kind::List, Unset, "Audiences that a token must be for", "Empty takes the audiences of the API server."),
    key("access.grants", Kind::List, Unset, "Roles of users and groups of a standalone server", "Each as user:NAME=ROLE@NAMESPACE-PATTERN or group:NAME=ROLE@NAMESPACE-PATTERN, for callers with a certificate or behind a front proxy; static tokens carry their own grants. With a cluster, RBAC decides instead."),
    key("access.authentication_ttl", Kind::Duration, Text("10s"), "How long a TokenReview is remembered", ""),
    key("access.allow_ttl", Kind::Duration, Text("10s"), "How long an allowing SubjectAccessReview is remembered", "A removed binding counts after this time at the latest."),
    key("access.deny_ttl", Kind::Duration, Text("10s"), "How long a denying SubjectAccessReview is remembered", ""),
    key("access.cache_entries", Kind::Count, Text("10000"), "How many answers each cache remembers at most", ""),
    key("access.review_deadline", Kind::Period, Text("5s"), "How long the API server may take to answer a review", "After that the request fails with 503: no answer is never a yes."),
    key("access.reviews", Kind::Count, Text("64"), "TokenReviews that are under way at the same time", "More are refused with 429, so that a flood of tokens does not become one on the API server."),
    key("access.new_tokens", Kind::Count, Text("50"), "Tokens per second that one address may present in vain", "More are refused with 429. What turns out to be good does not count, and a token that was good in the last ten minutes is never held up, as many clients may share the address of a proxy or a NAT. A fifth is kept for tokens that were turned away and come again. Beside a cluster a new token waits up to a second for those before it to be reviewed."),
    key("access.token_bytes", Kind::Bytes, Text("16KiB"), "Longest token", ""),
    key("access.lookup_cluster_ca", Kind::Switch, Text("true"), "Trust the client and front-proxy CAs of extension-apiserver-authentication", "Needs `get` on that ConfigMap in kube-system."),

    key("audit.rotate_bytes", Kind::Bytes, Text("64MiB"), "Size at which a new file begins", ""),
    key("audit.rotate_after", Kind::Period, Text("24h"), "Age at which a new file begins", ""),
    key("audit.keep", Kind::Period, Text("90d"), "How long files are kept", ""),
    key("audit.key_file", Kind::Path, Unset, "File with the key of the chain", "Unset makes one in the data directory. Kept elsewhere, who can write the log cannot forge it."),
    key("audit.lease_every", Kind::Period, Text("60s"), "How often the end of the chain is noted in a Lease of the cluster", ""),

    key("limits.body_bytes", Kind::Bytes, Text("1MiB"), "Largest request body, where a route sets no other limit", ""),
    key("limits.header_time", Kind::Period, Text("10s"), "How long a client may take to send the headers", ""),
    key("limits.idle_body_time", Kind::Period, Text("30s"), "How long a body may stand still", ""),
    key("limits.connections", Kind::Count, Text("4096"), "Connections that are open at the same time", ""),

    key("keys.files", Kind::List, Unset, "Keys in files", "Each as NAME=PATH; `stateward key new` makes a file. Names are DNS labels, each there once in all lists of keys. A file is read again when it changes."),
    key("keys.shared_files", Kind::Switch, Text("false"), "Whether key files may be readable by others than their owner", "For files in a volume of a Pod, which nobody else can reach."),
    key("keys.secrets", Kind::List, Unset, "Keys in Secrets of the cluster", "Each as NAME=NAMESPACE/SECRET. The entries of the Secret are versions, 32 bytes or their base64; the entry `current` names the one that seals, else the highest does. Needs `get` on the Secret."),
    key("keys.transit", Kind::List, Unset, "Keys of a transit engine of Vault or OpenBao", "Each as NAME=MOUNT/KEY. Needs `update` on MOUNT/encrypt/KEY and MOUNT/decrypt/KEY there."),
    key("keys.vault_address", Kind::Text, Unset, "Address of Vault or OpenBao, such as https://vault:8200", "Plain http is for this machine only."),
    key("keys.vault_ca_file", Kind::Path, Unset, "CA of Vault or OpenBao, PEM", "Unset trusts what the operating system trusts."),
    key("keys.vault_namespace", Kind::Text, Unset, "Namespace in Vault or OpenBao", ""),
    key("keys.vault_token_file", Kind::Path, Unset, "File with a token for Vault or OpenBao", "Read again for every question, so that an agent may renew it."),
    key("keys.vault_role", Kind::Text, Unset, "Role to log in as with a ServiceAccount (Kubernetes auth)", ""),
    key("keys.vault_jwt_file", Kind::Path, Text("/var/run/secrets/kubernetes.io/serviceaccount/token"), "Token of the ServiceAccount that logs in", "Read again for every login."),
    key("keys.vault_role_id_file", Kind::Path, Unset, "File with the role id of an AppRole", ""),
    key("keys.vault_secret_id_file", Kind::Path, Unset, "File with the secret id of an AppRole", ""),
    key("keys.vault_auth_mount", Kind::Text, Unset, "Where that way to log in is mounted", "Unset is kubernetes with a role, approle with a role id."),
    key("keys.vault_deadline", Kind::Period, Text("10s"), "How long Vault or OpenBao may take to answer", "With all attempts. After that the request fails with 503."),
    key("keys.cache_ttl", Kind::Period, Text("5m"), "How long an unwrapped data key is remembered", "A version of a key that was taken away may open things for as long."),
    key("keys.cache_entries", Kind::Count, Text("1000"), "How many data keys are remembered at most", ""),

    key("states.encryption_key", Kind::Text, Unset, "Name of the key that seals states at rest", "One of keys.files, keys.secrets or keys.transit. Unset writes states as they are; what was sealed stays readable for as long as its key is listed."),
    key("states.routes", Kind::List, Unset, "Which store keeps the states of which namespaces", "Each as NAMESPACE-PATTERN=STORE; the first that matches counts. Stores are sqlite or postgres (the database of this server, which also keeps all other namespaces), configmap and secret (objects of the cluster), kubernetes (Secrets as Terraform's own backend of that name keeps them), and s3 (the bucket of s3.bucket)."),
    key("states.compat_listen", Kind::Address, Unset, "Separate address that speaks as tf-kubernetes-configmap-backend does", "Paths are /NAMESPACE/NAME, the store is configmap. Needs a cluster, and TLS on anything but a loopback address."),
    key("states.body_bytes", Kind::Bytes, Text("1GiB"), "Largest state", ""),
    key("states.lock_info_bytes", Kind::Bytes, Text("64KiB"), "Largest LockInfo", ""),
    key("states.uploads", Kind::Count, Text("32"), "States larger than 256 KiB that are being received at the same time", "Each takes some 20 MB of memory at most. More wait for 10 s, then they are refused with 503."),
    key("states.upload_rate", Kind::Rate, Text("64KiB"), "Bytes per second below which such an upload loses its place to one that waits", "It is the slowest of the last seconds that goes, with 408. While there are free places, anybody may take their time. 0 leaves everybody their place."),
    key("states.cluster_bytes", Kind::Bytes, Text("64MiB"), "Bytes that one state takes with its history, in ConfigMaps and Secrets", "Compressed. They live in etcd, which is not made for much."),
    key("states.stored_bytes", Kind::Bytes, Unset, "Bytes that one state takes with its history, in other stores", "Compressed. Unset is as much as the store has."),
    key("states.depth", Kind::Count, Text("512"), "How deep the JSON of a state may be nested", ""),
    key("states.lock_expiry", Kind::Duration, Text("0s"), "How long a lock holds without a request of its holder", "0s is for ever. An expired lock is not released: the next LOCK takes it over."),
    key("states.forced_unlock", Kind::Switch, Text("true"), "Whether locks of others can be broken, with the permission `unlock`", ""),
    key("states.versions", Kind::Count, Text("100"), "How many versions of a state are kept", ""),
    key("states.version_age", Kind::Duration, Text("0s"), "How long versions are kept", "0s is for ever. The current version always stays."),
    key("states.sweep_every", Kind::Period, Text("1h"), "How often what unfinished writes left is removed", ""),

    key("s3.bucket", Kind::Text, Unset, "Bucket of the store s3", "At the start the server tries whether the bucket keeps concurrent conditional writes apart, and does not start if it does not."),
    key("s3.prefix", Kind::Text, Unset, "What the names of all objects in the bucket begin with", "Several servers with the same prefix share their states."),
    key("s3.endpoint", Kind::Text, Unset, "Address of the S3 server, such as https://minio.example:9000", "Unset is AWS, in s3.region."),
    key("s3.region", Kind::Text, Text("us-east-1"), "Region of the bucket", ""),
    key("s3.path_style", Kind::Switch, Text("true"), "Whether the bucket is in the path of an address, not in its host name", ""),
    key("s3.identity", Kind::Choice(&["keys", "aws"]), Text("keys"), "Where the keys for the bucket come from", "keys are those of s3.access_key_id. aws takes what AWS's own tools would, and renews it: the variables AWS_ACCESS_KEY_ID and so on, the role of AWS_ROLE_ARN with the token in AWS_WEB_IDENTITY_TOKEN_FILE, a profile, the agent of a container, at last the machine."),
    key("s3.access_key_id", Kind::Text, Unset, "Name of the access key", ""),
    key("s3.secret_access_key", Kind::Secret, Unset, "The access key", "Give it in the environment or in the file, not as a flag: flags show in the list of processes."),
    key("s3.secret_access_key_file", Kind::Path, Unset, "File that holds the access key, in place of s3.secret_access_key", "Read again every minute."),
    key("s3.ca_file", Kind::Path, Unset, "CA of the S3 server, PEM", "Unset trusts what the operating system trusts."),
    key("s3.allow_http", Kind::Switch, Text("false"), "Whether s3.endpoint may be an http:// address", "States then cross the network in clear."),
    key("s3.deadline", Kind::Period, Text("10s"), "How long one request to the bucket may take", "One with a chunk of a large state may take six times as long."),

    key("explorer.enabled", Kind::Switch, Text("true"), "Whether objects are collected and can be searched", "Beside a cluster this needs get, list and watch on the kinds, on namespaces and on RBAC; what is not granted is reported, and nothing is shown of a cluster whose RBAC cannot be read."),
    key("explorer.cluster_name", Kind::Text, Text("local"), "What the cluster is called that the server belongs to", ""),
    key("explorer.authorizer", Kind::Choice(&["rbac", "review"]), Text("rbac"), "What decides in that cluster who sees what", "rbac is compiled here and right where RBAC alone decides. review asks SubjectAccessReviews, for clusters with other authorizers beside it; it shows no row that is granted by its name alone."),
    key("explorer.kinds", Kind::List, Unset, "Kinds that are collected, in place of the usual ones", "Each as group/version/Kind, version/Kind for the core group, or Kind.group. Empty is Flux, Terraform, external secrets, GitOps sets and templates, and Events about them. Of a kind that is named all objects are collected, of v1/Event too. A kind that a cluster does not have is waited for."),
    key("explorer.row_verbs", Kind::List, Text("list,get"), "Verbs of which any shows a row", "list, get or both. The body of an object always needs get."),
    key("explorer.rbac_max_age", Kind::Period, Text("60s"), "For how long RBAC counts when nothing more is heard of it", "After that nothing is shown of the cluster until it is heard of again."),
    key("explorer.retention", Kind::List, Unset, "How long objects that are gone are still shown, by kind", "Each as KIND=TIME or KIND.GROUP=TIME; Event=24h if explorer.kinds is empty and unless this says otherwise; all other kinds not at all."),
    key("explorer.clean_every", Kind::Period, Text("1m"), "How often objects are looked for that have been shown long enough, at least", "Each is removed when its own time is over."),
    key("explorer.page_rows", Kind::Count, Text("1000"), "Rows that one answer has at most", ""),
    key("explorer.words", Kind::Count, Text("4000000"), "Different words of bodies that can be searched for", "Rows with more than there is room for are known to be incomplete."),
    key("explorer.changes", Kind::Count, Text("10000"), "Changes that are remembered for those who follow", "Who is further behind is told to read all again."),
    key("explorer.followers", Kind::Count, Text("256"), "Clients that follow changes at the same time", "More are refused with 429."),
    key("explorer.token_users", Kind::List, Unset, "Who static tokens are in the cluster that the server belongs to", "Each as TOKEN-USER=USER or TOKEN-USER=USER:GROUP:GROUP. A static token that is not listed sees nothing there. For other clusters it is said when they are added."),
    key("explorer.encryption_key", Kind::Text, Unset, "Name of the key that seals the credentials of added clusters", "One of keys.files, keys.secrets or keys.transit. Unset makes a key file in the data directory."),

    key("hub.enabled", Kind::Switch, Text("true"), "Whether records are kept and /graphql is served", ""),
    key("hub.namespace", Kind::Text, Text("default"), "Namespace of records that name none, and of the built-in storage backend", "Permissions are asked for in the namespace of a record."),
    key("hub.encryption_key", Kind::Text, Unset, "Name of the key that seals values and contexts", "One of keys.files, keys.secrets or keys.transit. Unset makes hub.key in the data directory, which is as good as the disk. With database.url, whose database others may share, there is no hub without a named key."),
    key("hub.require_types", Kind::Switch, Text("false"), "Whether records must be of Types that are known here", "Otherwise values of unknown Types are taken as they are."),
    key("hub.types_dir", Kind::Path, Unset, "Directory of Type manifests that are applied at the start", "Every .yaml, .yml and .json file below it that is of the kind Type. A revision that is there already with other content stops the start."),
    key("hub.policy_file", Kind::Path, Unset, "Which storage backend keeps records that name none", "YAML with `rules`, alone or below `typeInstance` as in the original, each with `typeRef` (path, maybe revision; a path may end in .*) and `backend` (id: the id or name). The most specific rule counts. Read at the start."),
    key("hub.allowed_urls", Kind::List, Unset, "Addresses that storage backends may have", "Patterns host:port, in which * stands for anything within its part, such as *.storage.svc:50051; with https:// before it only that. Empty lets whoever may register a backend name any address."),
    key("hub.backend_ca_file", Kind::Path, Unset, "CA of storage backends, PEM", "Unset trusts what the operating system trusts."),
    key("hub.backend_cert_file", Kind::Path, Unset, "Certificate that is shown to storage backends, PEM", ""),
    key("hub.backend_key_file", Kind::Path, Unset, "Private key of hub.backend_cert_file, PEM", ""),
    key("hub.call_time", Kind::Period, Text("10s"), "How long a change at a storage backend may take, with its repetitions", ""),
    key("hub.read_time", Kind::Period, Text("5s"), "How long a storage backend may take to give a value", "After that the value is null and valueError says why."),
    key("hub.lock_question_time", Kind::Period, Text("1s"), "How long a storage backend may take to say who holds a record, and whether it is there", ""),
    key("hub.changes_age", Kind::Period, Text("24h"), "How long subscribers can go on from a change", "Whoever comes later gets the error RESET and begins anew."),
    key("hub.changes_records", Kind::Count, Text("500000"), "How many changes subscribers can go on from", "Beyond that the oldest are dropped before their time."),
    key("hub.followers", Kind::Count, Text("256"), "Subscriptions that are open at the same time", "More are refused with 429."),
    key("hub.body_bytes", Kind::Bytes, Text("32MiB"), "Largest request to /graphql", ""),
    key("hub.query_depth", Kind::Count, Text("20"), "How many fields deep a GraphQL document may go", ""),
    key("hub.query_fields", Kind::Count, Text("2000"), "How many fields a GraphQL document may select", "Fragments count wherever they are used."),
    key("hub.list_records", Kind::Count, Text("100000"), "Records that a list has at most", "Longer ones are read in pages. The built-in storage backend is one of them."),
    key("hub.answer_records", Kind::Count, Text("100000"), "Records that one answer has at most, relations and versions included", ""),
    key("hub.answer_bytes", Kind::Bytes, Text("256MiB"), "Values and contexts that one answer has at most", ""),
    key("hub.batch_records", Kind::Count, Text("1000"), "Records that one mutation changes at most", ""),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_has_a_known_group_its_own_names_and_help_without_a_full_stop() {
        let mut names = BTreeSet::new();
        for key in KEYS {
            assert!(GROUPS.iter().any(|(group, _)| *group == key.group()), "{}", key.path);
            assert!(names.insert(key.variable()) && names.insert(key.flag()), "{} is there twice", key.path);
            assert!(!key.help.is_empty() && !key.help.ends_with('.'), "{}", key.path);
            assert!(key.more.is_empty() || key.more.ends_with('.'), "{}", key.path);
        }
    }

    #[test]
    fn every_default_fits_its_kind() {
        for key in KEYS {
            if let Fallback::Text(text) = key.default {
                let read = key.kind.read(&key.kind.split(text));
                assert!(read.is_ok(), "{}: {read:?}", key.path);
            }
        }
    }

    #[test]
    fn names_follow_from_the_path() {
        let key = find("tls.cert_file").unwrap();
        assert_eq!((key.variable().as_str(), key.flag().as_str()), ("STATEWARD_TLS_CERT_FILE", "tls-cert-file"));
        assert_eq!(find("data_dir").unwrap().variable(), "STATEWARD_DATA_DIR");
    }

    #[test]
    fn the_data_directory_follows_the_xdg_rules() {
        let key = find("data_dir").unwrap();
        let check = |home: &str, data_home: &str, expected: Option<&str>| {
            let environment = [("HOME", home), ("XDG_DATA_HOME", data_home)].into_iter().collect();
            assert_eq!(key.default_text(&environment).as_deref(), expected, "{home} {data_home}");
        };
        check("/home/a", "/data/", Some("/data/stateward"));
        check("/home/a", "", Some("/home/a/.local/share/stateward"));
        check("/home/a", "relative", Some("/home/a/.local/share/stateward"));
        check("", "", None);
        assert_eq!(key.default_text(&Environment::default()), None);
    }
}
