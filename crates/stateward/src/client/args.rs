//! The flags that all client commands share.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::Url;

use crate::cli::failure::Failure;
use crate::cli::output::{Format, FormatParser};
use crate::config::{Environment, Secret, units};

/// Where the server of this machine listens unless told otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8642";

/// Which server, who we are, and how to show the answer.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Client")]
pub struct ClientArgs {
    /// Address of the server [env: STATEWARD_SERVER] [default: http://127.0.0.1:8642]
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// Token to authenticate with; others on this machine can see it, so prefer --token-file [env: STATEWARD_TOKEN]
    #[arg(long, global = true, value_parser = |text: &str| Ok::<_, Infallible>(Secret::new(text)))]
    pub token: Option<Secret>,
    /// File with the token; on loopback the first token of this machine is found by itself [env: STATEWARD_TOKEN_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Authenticate as the user of a kubeconfig: token, token file, exec plugin or client certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; alone, of the one in KUBECONFIG or ~/.kube/config
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// CA of the server, PEM, instead of those that the operating system trusts
    #[arg(long, global = true, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// How long the server may take to answer
    #[arg(long, global = true, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    pub timeout: Duration,
    /// How to show the answer
    #[arg(short, long, global = true, value_parser = FormatParser, default_value_t, value_name = "FORMAT")]
    pub output: Format,
    /// The address where neither the flag nor the variable is given, and what gave it.
    #[arg(skip)]
    otherwise: Option<(&'static str, String)>,
}

impl ClientArgs {
    /// The same, with an address that counts where no other is given.
    pub fn or_server(self, otherwise: Option<(&'static str, String)>) -> ClientArgs {
        ClientArgs { otherwise, ..self }
    }

    /// The address of the server.
    pub fn server(&self, environment: &Environment) -> Result<Url, Failure> {
        let (name, text) = match (&self.server, environment.non_empty("STATEWARD_SERVER")) {
            (Some(text), _) => ("--server", text.as_str()),
            (None, Some(text)) => ("STATEWARD_SERVER", text),
            (None, None) => self.otherwise.as_ref().map_or(("", DEFAULT_SERVER), |(name, text)| (*name, text.as_str())),
        };
        // The address itself is not repeated in the first two: it may hold a password.
        let example = "write an address such as https://stateward.example.com:8642";
        let url = Url::parse(text).map_err(|error| Failure::usage(format!("{name} is not a URL: {error}"), example))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Failure::usage(
                format!("{name} holds a user or password"),
                "use --token-file or STATEWARD_TOKEN",
            ));
        }
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
            return Err(Failure::usage(format!("{name} {url} is not the http or https address of a server"), example));
        }
        Ok(url)
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    match units::duration(text) {
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("a time has a unit and is above zero, such as 30s or 2m, at most {}", units::LONGEST)),
    }
}
