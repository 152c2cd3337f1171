//! Help, version, completion, manual pages, exit codes, and what goes to which stream.

use crate::run::{Run, repository, stateward};

#[test]
fn version_tells_people_and_programs_the_same() {
    let text = Run::of(&mut stateward(&["version"])).ok();
    assert!(text.starts_with(concat!("stateward ", env!("CARGO_PKG_VERSION"))), "{text}");
    let json = Run::of(&mut stateward(&["version", "-o", "json"])).ok();
    let facts: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));
    assert!(facts["rustc"].as_str().unwrap().starts_with("rustc 1."), "{facts}");
    assert!(facts["features"].is_array() && facts.get("commit").is_some(), "{facts}");
    let yaml = Run::of(&mut stateward(&["version", "-o", "yaml"])).ok();
    assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), facts);
}

#[test]
fn wrong_usage_ends_with_2_and_says_where_help_is() {
    for arguments in [
        &["nonsense"][..],
        &["serve", "--lisen=1"],
        &["version", "-o", "xml"],
        &["token", "create", "ci"],
        &["token", "create", "ci", "--grant", "viewer"],
        &["token", "create", "ci", "--grant", "viewer@*", "--expires", "soon"],
        &["token", "revoke"],
        &["token", "list", "--timeout", "0s"],
    ] {
        Run::of(&mut stateward(arguments)).fails(2, "error: ");
    }
}

#[test]
fn help_is_data_and_documents_the_exit_codes() {
    let help = Run::of(&mut stateward(&["--help"])).ok();
    for code in ["0  done", "2  wrong usage or configuration", "7  verification failed"] {
        assert!(help.contains(code), "{help}");
    }
    assert!(!help.contains("generate-docs"), "{help}");
}

#[test]
fn no_colour_goes_into_a_pipe() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["nonsense"]] {
        let run = Run::of(&mut stateward(arguments));
        assert!(!run.out.contains('\u{1b}') && !run.err.contains('\u{1b}'), "{run:#?}");
    }
}

#[test]
fn completion_scripts_know_the_flags_of_the_configuration() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = Run::of(&mut stateward(&["completion", shell])).ok();
        assert!(script.contains("tls-cert-file") || script.contains("tls\\-cert\\-file"), "{shell}");
    }
}

#[test]
fn manual_pages_are_printed_or_written_one_per_command() {
    let page = Run::of(&mut stateward(&["man"])).ok();
    assert!(page.contains(".TH stateward 1"), "{page}");
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("man1");
    assert_eq!(Run::of(stateward(&["man"]).arg(&target)).ok(), "");
    for name in ["stateward.1", "stateward-serve.1", "stateward-token-create.1", "stateward-config-check.1"] {
        let page = std::fs::read_to_string(target.join(name)).unwrap();
        assert!(page.contains(".SH NAME"), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    for arguments in [&["completion", "zsh"][..], &["config", "check"], &["version", "-o", "json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = stateward(arguments).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn the_committed_reference_pages_are_what_this_program_says() {
    let directory = tempfile::tempdir().unwrap();
    Run::of(stateward(&["generate-docs"]).arg(directory.path())).ok();
    for name in ["cli.md", "configuration.md"] {
        let fresh = std::fs::read_to_string(directory.path().join(name)).unwrap();
        let committed = std::fs::read_to_string(repository().join("docs/reference").join(name)).unwrap_or_default();
        assert!(fresh == committed, "docs/reference/{name} is stale: run `cargo xtask generate`");
    }
}

#[test]
fn the_reference_page_shows_the_same_help_as_the_command() {
    let page = std::fs::read_to_string(repository().join("docs/reference/cli.md")).unwrap();
    let help = Run::of(stateward(&["token", "revoke", "--help"]).env("COLUMNS", "100")).ok();
    let line = help.lines().next().unwrap();
    assert!(page.contains("## `stateward token revoke`") && page.contains(line), "{line}");
}

#[cfg(feature = "testing")]
#[test]
fn fail_points_are_armed_from_the_environment() {
    Run::of(stateward(&["version"]).env("STATEWARD_FAILPOINTS", "nonsense")).fails(1, "NAME=ACTION");
    Run::of(stateward(&["version"]).env("STATEWARD_FAILPOINTS", "example.step=fail")).ok();
}
