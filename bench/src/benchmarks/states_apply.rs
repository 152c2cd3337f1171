//! A whole `tofu apply` that finds nothing to change, as pipelines run it most of the time: through our API with the
//! state in some store, against tofu's own backend on the same store. In turns, and the medians count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testbed::{Cluster, Weed};

use crate::measure::{Bench, median};
use crate::report::{self, Figure, Row, Side, Within};
use crate::server::build;
use crate::states::{Place, Programs, Store};

const WHY: &str = "goal: an apply through the server is not slower than by tofu's own backend (5 % for noise)";

/// Our stores, each with the backend of tofu that keeps states in the same place.
const PAIRS: [(Store, Backend); 5] = [
    (Store::Sqlite, Backend::Local),
    (Store::Postgres, Backend::Pg),
    (Store::Secret, Backend::Kubernetes),
    (Store::ConfigMap, Backend::Kubernetes),
    (Store::S3, Backend::S3),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Local,
    Pg,
    Kubernetes,
    S3,
}

pub(super) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let (program, tofu) = (build()?, testbed::peer("tofu")?);
    let mut rows = Vec::new();
    for (store, backend) in PAIRS {
        let (place, theirs) = bench.wait_for(async {
            let place = Place::start(bench, &program, store).await?;
            anyhow::Ok((place, backend.settings(&bench.programs).await?))
        })?;
        let ours = Workspace::new(bench, &tofu, &over_http(&place)?)?;
        let theirs = Workspace::new(bench, &tofu, &theirs)?;
        let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
        for _round in 0..bench.effort.of(5, 20) {
            our_times.push(ours.apply()?.as_secs_f64());
            their_times.push(theirs.apply()?.as_secs_f64());
        }
        let ratios: Vec<f64> = our_times.iter().zip(&their_times).map(|(ours, theirs)| ours / theirs).collect();
        let (ours, theirs) = (median(our_times.into_iter()), median(their_times.into_iter()));
        let side = |name: String, time: f64| Side::new(name, vec![Figure::MedianMilliseconds(time * 1e3)]);
        let row = Row::new(side(format!("{}, no-op apply", store.name()), ours));
        let row = row.against(side(format!("tofu's {}", backend.name()), theirs)).ratio("p50", ours / theirs, &ratios);
        // A file beside the configuration is locked and read without any server: that is told, not judged.
        let row = if backend == Backend::Local { row } else { row.goal(Within::AtMost(1.05), WHY) };
        report::tell("states-apply", &row);
        rows.push(row);
    }
    Ok(rows)
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Backend::Local => "local",
            Backend::Pg => "pg",
            Backend::Kubernetes => "kubernetes",
            Backend::S3 => "s3",
        }
    }

    async fn settings(self, programs: &Programs) -> Result<String> {
        Ok(match self {
            Backend::Local => "backend \"local\" {}".to_owned(),
            Backend::Pg => {
                let postgres = programs.postgres().await?;
                let url = postgres.url(&postgres.create_database()?);
                format!("backend \"pg\" {{\n    conn_str = \"{url}?sslmode=disable\"\n  }}")
            }
            Backend::Kubernetes => kubernetes(programs.cluster().await).await,
            Backend::S3 => s3(programs.weed().await?)?,
        })
    }
}

async fn kubernetes(cluster: &Cluster) -> String {
    let namespace = cluster.namespace("tofu").await;
    format!(
        "backend \"kubernetes\" {{\n    secret_suffix = \"bench\"\n    namespace = \"{namespace}\"\n    \
         config_path = \"{}\"\n  }}",
        cluster.admin_kubeconfig().display()
    )
}

/// With its lock in the bucket too, so that it does as much as ours.
fn s3(weed: &Weed) -> Result<String> {
    Ok(format!(
        "backend \"s3\" {{\n    bucket = \"{}\"\n    key = \"bench\"\n    region = \"{}\"\n    \
         access_key = \"{}\"\n    secret_key = \"{}\"\n    endpoints = {{ s3 = \"{}\" }}\n    use_path_style = true\n    \
         use_lockfile = true\n    skip_credentials_validation = true\n    skip_metadata_api_check = true\n    \
         skip_region_validation = true\n    skip_requesting_account_id = true\n    skip_s3_checksum = true\n  }}",
        weed.create_bucket()?,
        Weed::REGION,
        Weed::ACCESS_KEY_ID,
        Weed::SECRET_ACCESS_KEY,
        weed.url()
    ))
}

fn over_http(place: &Place) -> Result<String> {
    let address = format!("{}/noop", place.url());
    let authority = fs::read_to_string(place.authority())?;
    Ok(format!(
        "backend \"http\" {{\n    address = \"{address}\"\n    lock_address = \"{address}\"\n    \
         unlock_address = \"{address}\"\n    username = \"bench\"\n    password = \"{}\"\n    \
         client_ca_certificate_pem = <<PEM\n{authority}PEM\n  }}",
        place.token
    ))
}

/// A directory whose state was applied once.
struct Workspace {
    tofu: PathBuf,
    directory: PathBuf,
}

impl Workspace {
    fn new(bench: &Bench, tofu: &Path, backend: &str) -> Result<Workspace> {
        let directory = bench.path(&format!("workspace-{}", bench.count()));
        fs::create_dir(&directory)?;
        fs::write(directory.join("backend.tf"), format!("terraform {{\n  {backend}\n}}\n"))?;
        let resource = "resource \"terraform_data\" \"it\" {\n  count = 10\n  input = \"value ${count.index}\"\n}\n";
        fs::write(directory.join("main.tf"), resource)?;
        let workspace = Workspace { tofu: tofu.to_owned(), directory };
        workspace.run(&["init", "-input=false"])?;
        workspace.run(&["apply", "-auto-approve", "-input=false"])?;
        Ok(workspace)
    }

    /// How long an apply takes that changes nothing.
    fn apply(&self) -> Result<Duration> {
        let start = Instant::now();
        let told = self.run(&["apply", "-auto-approve", "-input=false"])?;
        let elapsed = start.elapsed();
        ensure!(told.contains("No changes"), "the apply changed something: {told}");
        Ok(elapsed)
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.tofu);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &self.directory);
        command.env("CHECKPOINT_DISABLE", "1").current_dir(&self.directory).args(arguments).arg("-no-color");
        let output = command.output().context("failed to run tofu")?;
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "tofu {arguments:?}: {told}");
        Ok(told)
    }
}
