//! `stateward state backend-config`: in place of tf-kubernetes-configmap-backend-file-generator.
//!
//! Writes a partial backend configuration, for `tofu init -backend-config=FILE`. The token in it is the one of this
//! moment: where tokens are replaced, `stateward state exec` puts the current one on every request instead.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::ArgAction;
use reqwest::Url;

use crate::cli::failure::{Exit, Failure};
use crate::cli::{go, output};
use crate::client::{ClientArgs, Identity, SERVICE_ACCOUNT, is_loopback};
use crate::config::{Environment, Given, resolve};

/// Write a file for `tofu init -backend-config=FILE` with address, token and CA
///
/// The token is that of --token-file, STATEWARD_TOKEN, a kubeconfig, or the ServiceAccount of the Pod. The CA is that of
/// --ca-file, of a self-signed server on this machine, or the ServiceAccount's.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct BackendConfig {
    /// File to write, whole or not at all
    #[arg(long, value_name = "FILE")]
    output_file: PathBuf,
    /// Address of the state
    #[arg(long, value_name = "URL")]
    http_backend_address: String,
    /// Lock the state, at the same address
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = go::switch, action = ArgAction::Set)]
    enable_state_locking: bool,
    /// Permissions of the file
    #[arg(long, value_name = "OCTAL", default_value = "0600", value_parser = mode)]
    mode: u32,
    /// Let the client talk to whoever answers at the address, and give them the token
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = go::switch, action = ArgAction::Set)]
    skip_cert_verification: bool,
}

impl BackendConfig {
    pub async fn run(self, client: &ClientArgs, environment: &Environment) -> anyhow::Result<()> {
        let example = "write an address such as https://stateward.example.com:8642/state/team-a/network";
        let address = Url::parse(&self.http_backend_address).ok();
        let address = address.filter(|url| matches!(url.scheme(), "http" | "https") && url.password().is_none());
        let address = address.ok_or_else(|| {
            Failure::usage("--http-backend-address is not the http or https address of a state", example)
        })?;
        if address.scheme() == "http" && !is_loopback(&address) {
            output::talk(format_args!("warning: the client will send the token in clear to {address}"));
        }
        let token = token(client, environment, &address).await?;
        let authority = match (self.skip_cert_verification, address.scheme()) {
            (false, "https") => authority(client, environment, &address)?,
            _ => None,
        };

        let mut text = String::new();
        let mut set = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name} = {}", quoted(value));
        };
        // As it was given: a client compares addresses as texts.
        set("address", &self.http_backend_address);
        if self.enable_state_locking {
            set("lock_address", &self.http_backend_address);
            set("unlock_address", &self.http_backend_address);
        }
        set("username", "terraform");
        set("password", &token);
        if let Some(pem) = authority {
            set("client_ca_certificate_pem", &pem);
        }
        if self.skip_cert_verification {
            set("skip_cert_verification", "true");
        }
        write(&self.output_file, &text, self.mode).map_err(|error| {
            let message = format!("failed to write {}: {error}", self.output_file.display());
            Failure::new(Exit::Failed, message, "check the directory and its permissions")
        })?;
        Ok(())
    }
}

async fn token(client: &ClientArgs, environment: &Environment, address: &Url) -> Result<String, Failure> {
    let identity = Identity::find_or_service_account(client, environment, address).await?;
    let header = identity.header.as_ref().and_then(|header| header.expose().strip_prefix("Bearer "));
    header.map(str::to_owned).ok_or_else(|| {
        Failure::usage(
            format!("there is no token, neither given nor of a ServiceAccount at {SERVICE_ACCOUNT}"),
            "use --token-file or STATEWARD_TOKEN, or mount the token of a ServiceAccount",
        )
    })
}

/// The CA that signed the server's certificate; `None` leaves it to what the client's machine trusts.
fn authority(client: &ClientArgs, environment: &Environment, address: &Url) -> Result<Option<String>, Failure> {
    let data = || resolve(&Given::default(), environment).path_of("data_dir");
    let own = || data().filter(|_| is_loopback(address)).map(|data| data.join("tls/self-signed.crt"));
    let own = || own().filter(|file| file.exists());
    let of_pod = || Some(Path::new(SERVICE_ACCOUNT).join("ca.crt")).filter(|file| file.exists());
    let Some(file) = client.ca_file.clone().or_else(own).or_else(of_pod) else { return Ok(None) };
    let unusable = |fault: String| {
        Failure::usage(format!("the CA file {}: {fault}", file.display()), "give a PEM file with certificates")
    };
    let pem = fs::read_to_string(&file).map_err(|error| unusable(format!("failed to read: {error}")))?;
    if pem.contains("-----BEGIN CERTIFICATE-----") {
        Ok(Some(pem))
    } else {
        Err(unusable("holds no certificate".to_owned()))
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write permissions in octal, such as 0600 or 0440".to_owned())
}

/// A text in quotes, as HCL reads it: nothing in it is an escape or a template.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '$' | '%' if letters.peek() == Some(&'{') => quoted.extend([letter, letter]),
            letter if letter.is_control() => _ = write!(quoted, "\\u{:04x}", u32::from(letter)),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Writes a file whole or not at all; nobody sees it with other permissions.
fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}", uuid::Uuid::new_v4()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_hcl_reads_them() {
        let table = [
            ("plain", r#""plain""#),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("two\nlines\t\r", r#""two\nlines\t\r""#),
            ("${var.x} %{if} $$ 100%", r#""$${var.x} %%{if} $$ 100%""#),
            ("$${", r#""$$${""#),
            ("\u{1}ü", r#""\u0001ü""#),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text), expected, "{text}");
        }
    }

    #[test]
    fn permissions_are_octal() {
        assert_eq!(["0600", "440", "0o444"].map(|text| mode(text).ok()), [Some(0o600), Some(0o440), Some(0o444)]);
        assert!(["8", "01000", "rw", ""].iter().all(|text| mode(text).is_err()));
    }
}
