//! `stateward state backend-config`: files that `tofu init -backend-config=FILE` takes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use testbed::process::scratch;

use crate::run::{Run, in_pod, stateward, tofu};
use crate::server::{Start, answer};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_real_client_works_with_the_file() {
    let server = Start::new().tls().serve();
    let directory = scratch("backend-config").unwrap();
    let (token, file) = (directory.join("token"), directory.join("backend.hcl"));
    fs::write(&token, format!("{}\n", server.first_token())).unwrap();
    let address = format!("{}/state/team-a/network", server.url);
    let flags = ["--http-backend-address", &address, "--enable-state-locking", "--output-file", file.to_str().unwrap()];
    let mut command = stateward(&["state", "backend-config", "--token-file", token.to_str().unwrap()]);
    let ca = server.data.join("tls/self-signed.crt");
    Run::of(command.args(flags).args(["--ca-file", ca.to_str().unwrap()])).ok();
    assert_eq!(mode(&file), 0o600);
    let text = fs::read_to_string(&file).unwrap();
    for line in ["address = ", "lock_address = ", "unlock_address = ", "username = \"terraform\"", "password = "] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}");
    }
    assert!(!text.contains("skip_cert_verification"));

    let main = "terraform {\n  backend \"http\" {}\n}\nresource \"terraform_data\" \"it\" {\n  input = \"one\"\n}\n";
    fs::write(directory.join("main.tf"), main).unwrap();
    for arguments in [&["init", "-backend-config=backend.hcl"][..], &["apply", "-auto-approve"]] {
        let output = tofu(&directory, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let get = server.request("GET", "/state/team-a/network").bearer_auth(server.first_token());
    assert!(answer(get).await.1.contains("terraform_data"));

    // The CA of a server on this machine is found by itself; so is its first token.
    let data = server.data.to_str().unwrap();
    Run::of(stateward(&["state", "backend-config"]).args(flags).env("STATEWARD_DATA_DIR", data)).ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn the_file_has_the_mode_it_is_given_and_is_whole_or_as_it_was() {
    let directory = scratch("backend-config").unwrap();
    let file = directory.join("backend.hcl");
    let write = |more: &[&str]| {
        let mut command =
            stateward(&["state", "backend-config", "--http-backend-address", "https://a.test/x/y?a=${b}"]);
        command.args(["--output-file", file.to_str().unwrap()]).env("STATEWARD_TOKEN", "t\"oken").args(more);
        Run::of(&mut command)
    };
    write(&["--mode", "0440"]).ok();
    assert_eq!(mode(&file), 0o440);
    let expected = "address = \"https://a.test/x/y?a=$${b}\"\nusername = \"terraform\"\npassword = \"t\\\"oken\"\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    write(&["--ca-file", "/nowhere/ca.crt"]).fails(2, "/nowhere/ca.crt");
    write(&["--mode", "rw"]).fails(2, "--mode");
    write(&["--output-file", "/nowhere/backend.hcl"]).fails(1, "/nowhere/backend.hcl");
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing is left beside it");
    write(&["--skip-cert-verification=F"]).ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    write(&["--skip-cert-verification"]).ok();
    assert!(fs::read_to_string(&file).unwrap().ends_with("skip_cert_verification = \"true\"\n"));
    assert_eq!(mode(&file), 0o600);

    let file = file.to_str().unwrap();
    let bad = ["state", "backend-config", "--output-file", file, "--http-backend-address", "ftp://a.test"];
    Run::of(&mut stateward(&bad)).fails(2, "--http-backend-address");
    let no_token = ["state", "backend-config", "--output-file", file, "--http-backend-address", "https://a.test/x/y"];
    Run::of(&mut stateward(&no_token)).fails(2, "there is no token");
}

#[test]
fn by_the_name_of_the_original_it_does_as_the_original() {
    let directory = scratch("generator").unwrap();
    let program = directory.join("tf-kubernetes-configmap-backend-file-generator");
    symlink(env!("CARGO_BIN_EXE_stateward"), &program).unwrap();
    let (pod, file) = (scratch("pod").unwrap(), directory.join("backend.hcl"));
    fs::write(pod.join("token"), "the-token-of-the-pod\n").unwrap();
    let (unshare, before) = in_pod(&pod);
    let mut command = Command::new(unshare);
    command.args(before).arg(&program).arg(format!("--output-file={}", file.display()));
    command.args(["--http-backend-address=https://backend.test/team-a/app", "--enable-state-locking=1"]);
    Run::of(&mut command).ok();
    assert_eq!(mode(&file), 0o444);
    let address = "https://backend.test/team-a/app";
    let expected = format!(
        "address = \"{address}\"\nlock_address = \"{address}\"\nunlock_address = \"{address}\"\nusername = \
         \"terraform\"\npassword = \"the-token-of-the-pod\"\nskip_cert_verification = \"true\"\n"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
}
