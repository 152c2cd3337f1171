//! `stateward config check`, and how `serve` refuses a configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde_json::Value;

use crate::run::{Run, stateward};

fn file(yaml: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.yaml");
    std::fs::write(&path, yaml).unwrap();
    (directory, path)
}

#[test]
fn check_shows_every_value_and_where_it_came_from() {
    let (_directory, path) = file("listen: 127.0.0.1:1\nallowed_hosts: [a, b]\n");
    let shown = Run::of(
        stateward(&["config", "check", "--shutdown-grace", "5s", "--config"])
            .arg(&path)
            .env("STATEWARD_DATABASE_URL", "postgres://u:canary@h/d")
            .env("STATEWARD_SERVICE_HOST", "10.0.0.1"),
    )
    .ok();
    let row = |key: &str| {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(key)).unwrap();
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("listen"), format!("127.0.0.1:1 {}:1", path.display()));
    assert_eq!(row("allowed_hosts"), format!("a,b {}:2", path.display()));
    assert_eq!(row("shutdown_grace"), "5s flag --shutdown-grace");
    assert_eq!(row("database.url"), "(set) env STATEWARD_DATABASE_URL");
    assert_eq!(row("audit.keep"), "90d default");
    assert_eq!(row("tls.cert_file"), "- default");
    assert!(!shown.contains("canary"));
}

#[test]
fn check_gives_programs_the_same_in_json_and_yaml() {
    let check = |format: &str| Run::of(stateward(&["config", "check", "-o", format]).env("STATEWARD_LISTN", "x"));
    let json = check("json");
    assert!(json.code == Some(0) && json.err.contains("warning: STATEWARD_LISTN"), "{json:#?}");
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["values"][0]["key"], "listen");
    assert_eq!(report["values"][0]["value"], "127.0.0.1:8642");
    assert_eq!(report["problems"], Value::Array(Vec::new()));
    assert_eq!(report["warnings"][0]["subject"], "STATEWARD_LISTN");
    let yaml: Value = serde_saphyr::from_str(&check("yaml").out).unwrap();
    assert_eq!(yaml, report);
}

#[test]
fn check_lists_every_problem_and_ends_with_2() {
    let (_directory, path) = file("listne: 1\nlisten: 0.0.0.0:1\n");
    let run = Run::of(stateward(&["config", "check", "--tls-cert-file=c", "--config"]).arg(&path));
    assert_eq!(run.code, Some(2), "{run:#?}");
    assert!(run.out.contains("tls.cert_file"), "{run:#?}");
    for text in
        ["did you mean listen?", "tls.cert_file: has no key", "error: the configuration has 2 problems", "hint: "]
    {
        assert!(run.err.contains(text), "{text}: {run:#?}");
    }
}

#[test]
fn what_check_refuses_serve_refuses_with_the_same_words() {
    let table: &[&[&str]] = &[
        &["--listen=0.0.0.0:1", "--tls-sni=c:k"],
        &["--access-grants=jane=editor@*"],
        &["--states-routes=a"],
        &["--states-routes=a=etcd"],
        &["--states-routes=a=configmap"],
        &["--hub-allowed-urls=nowhere"],
        &["--keys-secrets=main=team-a/key"],
        &["--states-compat-listen=127.0.0.1:0"],
        &["--allowed-hosts=a.example:443"],
        &["--limits-connections=9999999999999999999"],
        &["--access-authentication-ttl=400000d"],
        &["--database-url=postgres://h/d?sslmode=disable", "--database-tls-ca-file=c"],
    ];
    for flags in table {
        let refused = |command: &[&str]| {
            let run = Run::of(&mut stateward(&[command, &["--data-dir=/nowhere/data"][..], *flags].concat()));
            assert_eq!(run.code, Some(2), "{flags:?} {run:#?}");
            run.err
        };
        let (checked, served) = (refused(&["config", "check"]), refused(&["serve"]));
        let problems: Vec<&str> = checked.lines().filter_map(|line| line.strip_prefix("problem: ")).collect();
        assert!(!problems.is_empty(), "{checked}");
        for problem in problems {
            assert!(served.contains(problem), "'{problem}' is not in {served}");
        }
    }
}

#[test]
fn serve_refuses_a_bad_configuration_with_all_its_faults() {
    let run = Run::of(stateward(&["serve", "--listen=here"]).env("STATEWARD_DATABASE_POOL", "0"));
    run.fails(2, "listen (flag --listen): 'here' is not an IP address");
    run.fails(2, "database.pool (env STATEWARD_DATABASE_POOL): is zero");
}

#[test]
fn serve_refuses_to_listen_beyond_loopback_without_tls() {
    Run::of(&mut stateward(&["serve", "--listen=0.0.0.0:0"])).fails(2, "TLS is off");
}

#[test]
fn short_flags_and_switches_without_a_value_work() {
    let arguments = [
        "config",
        "check",
        "-o=json",
        "--kubeconfig=/k",
        "--context=c",
        "--tls-self-signed",
        "--allowed-hosts=a",
        "--allowed-hosts=b,c",
    ];
    let run = Run::of(&mut stateward(&arguments));
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let value = |key: &str| {
        let values = report["values"].as_array().unwrap();
        values.iter().find(|value| value["key"] == key).unwrap()["value"].clone()
    };
    assert_eq!(run.code, Some(0), "{run:#?}");
    assert_eq!((value("cluster.kubeconfig"), value("cluster.context")), ("/k".into(), "c".into()));
    assert_eq!(value("tls.self_signed"), "true");
    assert_eq!(value("allowed_hosts"), serde_json::json!(["a", "b", "c"]));
}

#[test]
fn a_variable_that_is_not_unicode_is_refused_by_name() {
    let run = Run::of(stateward(&["serve"]).env("STATEWARD_DATA_DIR", OsStr::from_bytes(b"/data/\xff")));
    run.fails(2, "data_dir (env STATEWARD_DATA_DIR): is not Unicode");
}
