//! How the sources of a configuration are laid over one another, and what is said about wrong ones.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::KEYS;
use super::resolve::{Resolution, Source};
use super::settings::{LogFormat, SniPair, TlsVersion};
use super::*;

/// A file, variables and flags; HOME is always there.
struct Case {
    directory: tempfile::TempDir,
    given: Given,
    variables: Vec<(String, String)>,
}

impl Case {
    fn new() -> Case {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        std::fs::write(&file, "").unwrap();
        let given = Given { file: Some(file), ..Given::default() };
        Case { directory, given, variables: vec![("HOME".to_owned(), "/home/a".to_owned())] }
    }

    fn file(self, yaml: &str) -> Case {
        std::fs::write(self.path(), yaml).unwrap();
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Case {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn flag(mut self, path: &str, texts: &[&str]) -> Case {
        let key = keys::find(path).unwrap();
        self.given.flags.insert(key.path, texts.iter().map(|text| (*text).to_owned()).collect());
        self
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("config.yaml")
    }

    fn resolve(&self) -> Resolution {
        resolve(&self.given, &self.variables.iter().cloned().collect())
    }

    #[track_caller]
    fn settings(&self) -> Settings {
        self.resolve().settings().unwrap()
    }

    #[track_caller]
    fn source(&self, path: &str) -> Source {
        self.resolve().entries.into_iter().find(|entry| entry.key.path == path).unwrap().source
    }

    /// Each problem must be named by one of the texts, and the other way round.
    #[track_caller]
    fn problems(&self, expected: &[&str]) {
        let problems: Vec<String> = self.resolve().problems.iter().map(Problem::to_string).collect();
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "'{expected}' is not in {problems:#?}");
        }
    }
}

#[test]
fn without_anything_the_defaults_hold() {
    let settings = Case::new().settings();
    assert_eq!(settings.listen.to_string(), "127.0.0.1:8642");
    assert_eq!(settings.data_dir, Path::new("/home/a/.local/share/stateward"));
    assert_eq!(settings.shutdown_grace, Duration::from_secs(20));
    assert_eq!(settings.log.format, LogFormat::Auto);
    assert_eq!(settings.tls.min_version, TlsVersion::Tls12);
    assert_eq!(settings.front_proxy.extra_prefixes, ["X-Remote-Extra-"]);
    assert_eq!((settings.database.url, settings.database.pool), (None, 8));
    assert_eq!(settings.access.allow_ttl, Duration::from_secs(10));
    assert_eq!((settings.audit.rotate_bytes, settings.audit.keep), (64 << 20, Duration::from_hours(2160)));
    assert_eq!((settings.limits.body_bytes, settings.limits.connections), (1 << 20, 4096));
    assert!(settings.access.lookup_cluster_ca && !settings.tls.is_on());
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let case = Case::new();
    assert_eq!((case.settings().listen.port(), case.source("listen")), (8642, Source::Default));

    let case = case.file("# a comment\nlisten: 127.0.0.1:1\n");
    let file = Source::File { path: case.path(), line: 2 };
    assert_eq!((case.settings().listen.port(), case.source("listen")), (1, file));

    let case = case.variable("STATEWARD_LISTEN", "127.0.0.1:2");
    let variable = Source::Variable("STATEWARD_LISTEN".to_owned());
    assert_eq!((case.settings().listen.port(), case.source("listen")), (2, variable));

    let case = case.flag("listen", &["127.0.0.1:3"]);
    assert_eq!((case.settings().listen.port(), case.source("listen")), (3, Source::Flag("listen".to_owned())));
}

#[test]
fn every_key_can_be_set_from_every_source() {
    for key in KEYS {
        // The text of the default fits; keys without one take a path-like word, which fits all of their kinds.
        let text = match (key.path, key.default_shown()) {
            ("database.url", _) => "sqlite:/a",
            ("tls.sni", _) => "c:k",
            ("states.stored_bytes", _) => "1GiB",
            ("metrics_listen" | "states.compat_listen", _) => "127.0.0.1:7",
            (_, "unset" | "empty") | ("data_dir", _) => "/a",
            (_, text) => text,
        };
        let yaml = match key.path.split_once('.') {
            Some((group, name)) => format!("{group}:\n  {name}: \"{text}\"\n"),
            None => format!("\n{}: \"{text}\"\n", key.path),
        };
        let case = Case::new().file(&yaml);
        assert_eq!(case.source(key.path), Source::File { path: case.path(), line: 2 }, "{}", key.path);
        let case = case.variable(&key.variable(), text);
        assert_eq!(case.source(key.path), Source::Variable(key.variable()), "{}", key.path);
        let case = case.flag(key.path, &[text]);
        assert_eq!(case.source(key.path), Source::Flag(key.flag()), "{}", key.path);
        let misread = case.resolve().problems.into_iter().filter(|problem| problem.place.is_some()).collect::<Vec<_>>();
        assert!(misread.is_empty(), "{misread:?}");
    }
}

#[test]
fn lists_are_yaml_lists_or_texts_with_commas_and_flags_add_up() {
    let expected = vec!["a".to_owned(), "b".to_owned()];
    for yaml in ["allowed_hosts: [a, b]\n", "allowed_hosts:\n  - a\n  - b\n", "allowed_hosts: a, b\n"] {
        assert_eq!(Case::new().file(yaml).settings().allowed_hosts, expected, "{yaml}");
    }
    assert_eq!(Case::new().variable("STATEWARD_ALLOWED_HOSTS", "a,b,").settings().allowed_hosts, expected);
    assert_eq!(Case::new().flag("allowed_hosts", &["a", "b"]).settings().allowed_hosts, expected);
    assert_eq!(Case::new().flag("allowed_hosts", &["a,b"]).settings().allowed_hosts, expected);

    let pair = SniPair { cert_file: "/c".into(), key_file: "/k".into(), names: vec!["a.example".to_owned()] };
    let case = Case::new().flag("tls.sni", &["/c:/k:a.example"]).flag("tls.self_signed", &["true"]);
    assert_eq!(case.settings().tls.sni, [pair]);
}

#[test]
fn yaml_scalars_mean_what_the_key_says() {
    let yaml = "tls: { min_version: 1.3, self_signed: yes }\n\
                cluster: { in_cluster: off }\n\
                database: { pool: 3, url: ~ }\n\
                limits: { body_bytes: 2MiB }\n\
                access: { lookup_cluster_ca: false, allow_ttl: 0s }\n";
    let settings = Case::new().file(yaml).settings();
    assert_eq!(settings.tls.min_version, TlsVersion::Tls13);
    assert!(settings.tls.self_signed && !settings.access.lookup_cluster_ca);
    assert_eq!(settings.cluster.in_cluster, settings::InCluster::Off);
    assert_eq!((settings.database.pool, settings.database.url), (3, None));
    assert_eq!((settings.limits.body_bytes, settings.access.allow_ttl), (2 << 20, Duration::ZERO));
}

#[test]
fn an_empty_variable_takes_back_what_the_file_says() {
    let case = Case::new().file("metrics_listen: 127.0.0.1:9\nallowed_hosts: [a]\n");
    let case = case.variable("STATEWARD_METRICS_LISTEN", "").variable("STATEWARD_ALLOWED_HOSTS", "");
    let settings = case.settings();
    assert_eq!((settings.metrics_listen, settings.allowed_hosts), (None, Vec::new()));
    Case::new().variable("STATEWARD_LISTEN", "").problems(&["listen (env STATEWARD_LISTEN): is empty"]);
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_place_and_cure() {
    let yaml = "lisen: 127.0.0.1:1\n\
                tls:\n  cert-file: /c\n  key_file: [a]\n  sni: { a: b }\n\
                log: loud\n\
                whatever: 1\n\
                audit:\n  keep: 90\n";
    let case = Case::new().file(yaml).variable("STATEWARD_DATABASE_POOL", "many").flag("listen", &["here"]);
    let path = case.path().display().to_string();
    case.problems(&[
        &format!("lisen ({path}:1): is not a known key; did you mean listen?"),
        &format!("tls.cert-file ({path}:3): is not a known key; did you mean tls.cert_file?"),
        &format!("tls.key_file ({path}:4): is a list; write a path"),
        &format!("tls.sni ({path}:5): is a mapping; write a list of CERT:KEY"),
        &format!("log ({path}:6): is a group of keys, not a value; write a mapping with keys such as log.format"),
        &format!("whatever ({path}:7): is not a known key; remove it"),
        "listen (flag --listen): 'here' is not an IP address with a port; write ADDRESS:PORT",
        "database.pool (env STATEWARD_DATABASE_POOL): 'many' is not a whole number",
        &format!("audit.keep ({path}:9): '90' is not a time with a unit; write a time above zero"),
    ]);
}

#[test]
fn a_broken_or_missing_file_is_named() {
    Case::new().file("listen: [\n").problems(&["config.yaml"]);
    Case::new().file("listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n").problems(&["config.yaml:2"]);
    Case::new().file("- a\n").problems(&["is not a mapping"]);
    let mut case = Case::new();
    case.given.file = Some("/nowhere/config.yaml".into());
    case.problems(&["configuration file (/nowhere/config.yaml): failed to read"]);
    let mut case = Case::new().variable("STATEWARD_CONFIG", "/nowhere/else.yaml");
    case.given.file = None;
    case.problems(&["configuration file (/nowhere/else.yaml): failed to read"]);
}

#[test]
fn an_empty_file_sets_nothing() {
    for yaml in ["", "# only a comment\n", "---\n", "tls:\n"] {
        Case::new().file(yaml).problems(&[]);
    }
}

#[test]
fn a_broken_file_is_not_quoted() {
    let case = Case::new().file("database: { url: postgres://u:canary@h\nlisten: {\n");
    let shown = format!("{:?}", case.resolve().problems);
    assert!(shown.contains("is not YAML") && !shown.contains("canary"), "{shown}");
}

#[test]
fn variables_that_kubernetes_injects_are_passed_over_and_others_are_warned_about() {
    let case = Case::new()
        .variable("STATEWARD_PORT", "tcp://10.0.0.1:8642")
        .variable("STATEWARD_PORT_8642_TCP_ADDR", "10.0.0.1")
        .variable("STATEWARD_SERVICE_HOST", "10.0.0.1")
        .variable("STATEWARD_SERVICE_PORT_HTTPS", "8642")
        .variable("STATEWARD_TLS_SERVICE_PORT", "8642")
        .variable("STATEWARD_TOKEN", "mine")
        .variable("STATEWARD_CACHE", "/cache")
        .variable("STATEWARD_LISTN", "127.0.0.1:1");
    case.problems(&[]);
    let warnings: Vec<String> = case.resolve().warnings.iter().map(Problem::to_string).collect();
    assert_eq!(warnings, ["STATEWARD_LISTN: is not a known variable; did you mean STATEWARD_LISTEN?"]);
}

#[test]
fn without_a_home_the_data_directory_must_be_given() {
    let mut case = Case::new();
    case.variables.clear();
    case.problems(&["data_dir (default): has no default here, as HOME is not set; set STATEWARD_DATA_DIR"]);
    case.variable("STATEWARD_DATA_DIR", "/data").problems(&[]);
}

#[test]
fn what_contradicts_itself_is_told() {
    let table: &[(&str, &[&str])] = &[
        ("listen: 0.0.0.0:1", &["listen: is not a loopback address"]),
        ("listen: 0.0.0.0:1\ntls: { self_signed: true }", &[]),
        ("listen: 0.0.0.0:1\ntls: { cert_file: c, key_file: k }", &[]),
        ("listen: '[::1]:1'", &[]),
        ("metrics_listen: 0.0.0.0:1", &["'0.0.0.0:1' is not a loopback address"]),
        ("metrics_listen: 127.0.0.1:8642", &["metrics_listen: is the address of listen"]),
        ("states: { compat_listen: '127.0.0.1:8642' }", &["states.compat_listen: is the address of listen"]),
        (
            "metrics_listen: 127.0.0.1:2\nstates: { compat_listen: '0.0.0.0:2' }\ntls: { self_signed: true }",
            &["states.compat_listen: is the address of metrics_listen"],
        ),
        ("listen: 127.0.0.1:0\nmetrics_listen: 127.0.0.1:0\nstates: { compat_listen: '127.0.0.2:8642' }", &[]),
        ("allowed_hosts: [a.example, '[::1]', 10.0.0.1]", &[]),
        ("allowed_hosts: ['a:80', b, c.]", &["allowed_hosts: 'a:80' is no name", "allowed_hosts: 'c.' is no name"]),
        ("tls: { sni: 'c:k' }", &["tls.sni: has no default certificate"]),
        ("listen: 0.0.0.0:1\ntls: { sni: 'c:k' }", &["listen: is not a loopback", "tls.sni: has no default"]),
        ("tls: { sni: 'c:k', self_signed: true }", &[]),
        ("tls: { self_signed: true, self_signed_names: [ä] }", &["tls.self_signed_names: 'ä' cannot be"]),
        ("access: { grants: ['user:jane=editor@team-*'] }", &[]),
        (
            "access: { grants: ['jane=editor@team-*', 'group:dev=king@*'] }",
            &["access.grants: 'jane=editor@team-*' is not of the form", "access.grants: 'king' is not a role"],
        ),
        ("database: { url: 'sqlite://' }", &["database.url: names no file"]),
        ("database: { url: 'postgres://u:canary@h:port/d' }", &["database.url: cannot be used: the URL is not valid"]),
        ("database: { pool: 10001 }", &["database.pool: is more than 10000"]),
        (
            "database: { url: 'postgres://h/d?sslmode=disable', tls_ca_file: c }",
            &["database.tls_ca_file: contradicts sslmode=disable"],
        ),
        ("states: { routes: ['a'] }", &["states.routes: 'a' is not NAMESPACE-PATTERN=STORE"]),
        ("states: { routes: ['A=sqlite'] }", &["states.routes: 'A' is not a namespace pattern"]),
        ("states: { routes: ['a=etcd'] }", &["states.routes: 'a=etcd' names a store that this server does not have"]),
        ("states: { routes: ['a=postgres'] }", &["name one of sqlite, configmap, secret, kubernetes, s3"]),
        ("states: { routes: ['a=postgres', b=secret] }\ndatabase: { url: 'postgres://h/d' }", &[]),
        ("hub: { allowed_urls: ['*.svc:50051', 'unix:/run/a'] }", &[]),
        ("hub: { allowed_urls: ['*.svc:50051', nowhere] }", &["hub.allowed_urls: 'nowhere' is not host:port"]),
        ("s3: { bucket: b, identity: aws, prefix: 'a//b' }", &["s3.prefix: has an empty part"]),
        ("s3: { bucket: b, identity: aws, endpoint: 'https://' }", &["s3.endpoint: is not the address"]),
        (
            "s3: { bucket: b, identity: aws, endpoint: 'h:9000', allow_http: true }",
            &["s3.endpoint: is not the address"],
        ),
        ("tls: { cert_file: c }", &["tls.cert_file: has no key"]),
        ("tls: { key_file: k }", &["tls.key_file: has no certificate"]),
        ("tls: { self_signed: true, cert_file: c, key_file: k }", &["tls.self_signed: contradicts"]),
        ("tls: { self_signed_names: a }", &["tls.self_signed_names: has no effect"]),
        ("tls: { client_ca_file: c }", &["tls.client_ca_file: has no effect without TLS"]),
        ("tls: { client_ca_trusted: true }", &["tls.client_ca_trusted: trusts a CA that is not given"]),
        ("front_proxy: { ca_file: c }", &["front_proxy.ca_file: has no effect without TLS"]),
        ("front_proxy: { allowed_names: a }", &["front_proxy.allowed_names: has no effect"]),
        ("front_proxy: { trusted: true }", &["front_proxy.trusted: trusts a CA that is not given"]),
        (
            "tls: { self_signed: true }\nfront_proxy: { ca_file: c, user_headers: [] }",
            &["front_proxy.user_headers: is empty"],
        ),
        (
            "tls: { self_signed: true, client_ca_file: c }\nfront_proxy: { ca_file: c }",
            &["front_proxy.allowed_names: is empty while"],
        ),
        ("tls: { self_signed: true, client_ca_file: c }\nfront_proxy: { ca_file: c, allowed_names: p }", &[]),
        ("database: { tls_ca_file: c }", &["database.tls_ca_file: has no effect"]),
        ("database: { tls_ca_file: c, url: 'postgres://h/d' }", &[]),
        ("states: { routes: ['a=sqlite', 'b = s3'] }", &["states.routes: names the store s3"]),
        ("s3: { bucket: b }", &["s3.bucket: has no access key"]),
        ("s3: { bucket: b, identity: aws }", &[]),
        (
            "s3: { bucket: b, identity: aws, access_key_id: a, secret_access_key: s }",
            &["s3.identity: is aws while s3.access_key_id is given"],
        ),
        ("s3: { bucket: b, access_key_id: a }", &["s3.access_key_id: has no secret"]),
        ("s3: { bucket: b, access_key_id: a, secret_access_key_file: f }\nstates: { routes: ['*=s3'] }", &[]),
        (
            "s3: { bucket: b, access_key_id: a, secret_access_key: s, secret_access_key_file: f }",
            &["s3.secret_access_key: contradicts"],
        ),
        ("s3: { endpoint: 'https://h' }", &["s3.endpoint: has no effect"]),
        (
            "s3: { bucket: b, access_key_id: a, secret_access_key: s, endpoint: 'http://h' }",
            &["s3.endpoint: does not begin with https"],
        ),
        ("s3: { bucket: b, access_key_id: a, secret_access_key: s, endpoint: 'http://h', allow_http: true }", &[]),
        ("cluster: { context: c }", &["cluster.context: has no kubeconfig"]),
        ("cluster: { kubeconfig: k, in_cluster: on }", &["cluster.in_cluster: is on while"]),
        ("keys: { files: [a=/a], secrets: [b=ns/b] }\nstates: { encryption_key: b }", &[]),
        (
            "keys: { files: [a=/a] }\nstates: { encryption_key: b }",
            &["states.encryption_key: 'b' is not one of the keys"],
        ),
        (
            "keys: { files: [a=/a] }\nexplorer: { encryption_key: b }",
            &["explorer.encryption_key: 'b' is not one of the keys"],
        ),
        ("explorer: { kinds: [v1/ConfigMap, HelmRelease.helm.toolkit.fluxcd.io], retention: [ConfigMap=10s] }", &[]),
        ("explorer: { kinds: [configmap] }", &["explorer.kinds: 'configmap' is no kind"]),
        ("explorer: { retention: [Event=1] }", &["explorer.retention: 'Event=1' is not KIND=TIME"]),
        ("explorer: { retention: [Pod=1m] }", &["explorer.retention: 'Pod' is not collected"]),
        ("explorer: { token_users: ['ci=system:admin'] }", &["explorer.token_users: 'ci=system:admin' is not"]),
        ("explorer: { row_verbs: [watch] }", &["explorer.row_verbs: has something else"]),
        ("explorer: { row_verbs: [] }", &["explorer.row_verbs: has something else"]),
        ("explorer: { cluster_name: 'A b' }", &["explorer.cluster_name: 'A b' is not a DNS label"]),
        ("keys: { files: [/a] }", &["keys.files: '/a' is not NAME=PATH"]),
        ("keys: { files: [a=] }", &["keys.files: 'a=' is not NAME=PATH"]),
        ("keys: { files: [A_b=/a] }", &["keys.files: 'A_b' cannot be the name of a key"]),
        ("keys: { secrets: [a=b] }", &["keys.secrets: 'a=b' is not NAME=NAMESPACE/SECRET"]),
        ("keys: { secrets: [a=b/c/d] }", &["keys.secrets: 'a=b/c/d' is not NAME=NAMESPACE/SECRET"]),
        ("keys: { files: [a=/a, a=/b] }", &["keys.files: 'a' is the name of two keys"]),
        ("keys: { files: [a=/a], secrets: [a=b/c] }", &["keys.secrets: 'a' is the name of two keys"]),
        ("keys: { transit: [a=b/c] }", &["keys.vault_address: is not set", "keys.transit: has no way to log in"]),
        (
            "keys: { transit: [a=b], vault_address: 'https://v', vault_role: r }",
            &["keys.transit: 'a=b' is not NAME=MOUNT/KEY"],
        ),
        ("keys: { transit: [a=b/c/d], vault_address: 'https://v', vault_role: r }", &[]),
        ("keys: { transit: [a=b/c], vault_address: 'http://127.0.0.1:1', vault_token_file: /t }", &[]),
        (
            "keys: { transit: [a=b/c], vault_address: 'http://v', vault_role: r }",
            &["keys.vault_address: is plain http"],
        ),
        ("keys: { transit: [a=b/c], vault_address: v, vault_role: r }", &["keys.vault_address: is not a URL"]),
        (
            "keys: { transit: [a=b/c], vault_address: 'https://v', vault_role: r, vault_token_file: /t }",
            &["keys.vault_role: is one of several ways"],
        ),
        (
            "keys: { transit: [a=b/c], vault_address: 'https://v', vault_role_id_file: /t }",
            &["keys.vault_role_id_file: has no secret id"],
        ),
        (
            "keys: { transit: [a=b/c], vault_address: 'https://v', vault_secret_id_file: /t }",
            &["keys.transit: has no way to log in", "keys.vault_secret_id_file: has no role id"],
        ),
        (
            "keys: { transit: [a=b/c], vault_address: 'https://v', vault_token_file: /t, vault_auth_mount: m }",
            &["keys.vault_auth_mount: has no effect"],
        ),
        ("keys: { vault_address: 'https://v' }", &["keys.vault_address: has no effect"]),
    ];
    for (yaml, expected) in table {
        Case::new().file(yaml).problems(expected);
    }
}

#[test]
fn what_needs_a_cluster_is_refused_only_where_a_server_is_to_start_without_one() {
    let yaml = "keys: { secrets: [a=ns/a] }\nstates: { compat_listen: '127.0.0.1:1', routes: ['*=secret'] }\n";
    let to_serve = |rest: &str| {
        let case = Case::new().file(&format!("{yaml}{rest}"));
        case.problems(&[]);
        let problems = resolve_to_serve(&case.given, &case.variables.iter().cloned().collect()).problems;
        problems.into_iter().map(|problem| problem.to_string()).collect::<Vec<_>>()
    };
    for rest in ["", "cluster: { in_cluster: off }\n"] {
        let problems = to_serve(rest);
        assert_eq!(problems.len(), 3, "{problems:?}");
        for (problem, key) in problems.iter().zip(["keys.secrets", "states.compat_listen", "states.routes"]) {
            assert!(problem.starts_with(&format!("{key}: needs a cluster")), "{problem}");
        }
    }
    for rest in ["cluster: { in_cluster: on }\n", "cluster: { kubeconfig: /k }\n"] {
        assert_eq!(to_serve(rest), Vec::<String>::new());
    }
}

#[test]
fn files_that_are_not_there_are_a_warning() {
    let case = Case::new().file("tls: { cert_file: /nowhere/c, key_file: /nowhere/k }");
    let warnings = case.resolve().warnings;
    assert_eq!(
        warnings.iter().map(|warning| warning.subject.as_str()).collect::<Vec<_>>(),
        ["tls.cert_file", "tls.key_file"]
    );
    case.problems(&[]);
}

#[test]
fn the_password_of_the_database_is_shown_nowhere() {
    let case = Case::new().variable("STATEWARD_DATABASE_URL", "postgres://u:canary@h/d");
    let resolution = case.resolve();
    let shown: Vec<String> = resolution.entries.iter().map(|entry| entry.shown().to_string()).collect();
    assert!(shown.contains(&"\"(set)\"".to_owned()) && !shown.concat().contains("canary"));
    let settings = resolution.settings().unwrap();
    assert!(!format!("{settings:?}").contains("canary"));
    assert_eq!(settings.database.url.unwrap().expose(), "postgres://u:canary@h/d");
}
