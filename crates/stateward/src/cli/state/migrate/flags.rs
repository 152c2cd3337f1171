//! The flags of `migrate` that are about places other than the server.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::Secret;

/// How an http backend is spoken to.
#[derive(Args, Debug)]
#[command(next_help_heading = "Another http backend")]
pub struct HttpFlags {
    /// How it is locked unless the addresses below say it: LOCK and UNLOCK at its address, POST and DELETE at
    /// its address with /lock (GitLab, Gitea), or not at all
    #[arg(long, value_enum, default_value_t, value_name = "STYLE")]
    pub style: Style,
    /// User for Basic credentials [env: TF_HTTP_USERNAME]
    #[arg(long, value_name = "NAME")]
    pub username: Option<String>,
    /// File with the password for Basic credentials [env: TF_HTTP_PASSWORD]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Address to lock it at [env: TF_HTTP_LOCK_ADDRESS]
    #[arg(long, value_name = "URL")]
    pub lock_address: Option<String>,
    /// Method to lock it with [env: TF_HTTP_LOCK_METHOD]
    #[arg(long, value_name = "METHOD")]
    pub lock_method: Option<String>,
    /// Address to unlock it at [env: TF_HTTP_UNLOCK_ADDRESS]
    #[arg(long, value_name = "URL")]
    pub unlock_address: Option<String>,
    /// Method to unlock it with [env: TF_HTTP_UNLOCK_METHOD]
    #[arg(long, value_name = "METHOD")]
    pub unlock_method: Option<String>,
    /// Method to write it with [env: TF_HTTP_UPDATE_METHOD] [default: POST]
    #[arg(long, value_name = "METHOD")]
    pub update_method: Option<String>,
    /// CA of that server, PEM, instead of those that the operating system trusts
    #[arg(long, value_name = "FILE")]
    pub peer_ca_file: Option<PathBuf>,
    /// Send credentials to it also without TLS
    #[arg(long)]
    pub allow_plain_http: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Style {
    #[default]
    Terraform,
    Gitlab,
    Unlocked,
}

/// Where an S3 bucket is, and who we are to it.
#[derive(Args, Debug)]
#[command(next_help_heading = "S3")]
pub struct S3Flags {
    /// Address of the S3 service, if not that of AWS [env: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL]
    #[arg(long = "s3-endpoint", value_name = "URL")]
    pub endpoint: Option<String>,
    /// Region of the bucket [env: AWS_REGION, AWS_DEFAULT_REGION]
    #[arg(long = "s3-region", value_name = "REGION")]
    pub region: Option<String>,
    /// Access key [env: AWS_ACCESS_KEY_ID]
    #[arg(long = "s3-access-key", value_name = "ID", requires = "secret_key")]
    pub access_key: Option<String>,
    /// Secret key; others on this machine can see it, so prefer the variable or a profile [env: AWS_SECRET_ACCESS_KEY]
    #[arg(long = "s3-secret-key", value_name = "KEY", requires = "access_key",
          value_parser = |text: &str| Ok::<_, Infallible>(Secret::new(text)))]
    pub secret_key: Option<Secret>,
    /// Profile of ~/.aws/credentials and ~/.aws/config [env: AWS_PROFILE]
    #[arg(long = "s3-profile", value_name = "NAME")]
    pub profile: Option<String>,
}

/// Which cluster `kubernetes://` and `configmap://` are about.
#[derive(Args, Debug)]
#[command(next_help_heading = "Another cluster")]
pub struct ClusterFlags {
    /// Kubeconfig of the cluster with the source [env: KUBE_CONFIG_PATH, KUBECONFIG] [default: ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub source_kubeconfig: Option<PathBuf>,
}
