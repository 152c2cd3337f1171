//! Which place a text names.

use std::path::Path;

use reqwest::Url;

use super::Migrate;
use super::cluster::connect;
use super::configmap::ConfigMapSide;
use super::file::FileSide;
use super::http::HttpSide;
use super::kubernetes::KubernetesSide;
use super::s3::S3Side;
use super::side::{Destination, Source};
use crate::cli::failure::Failure;
use crate::client::Client;
use crate::config::Environment;

pub async fn source<'e>(
    text: &str,
    flags: &Migrate,
    client: &Client,
    environment: &'e Environment,
) -> Result<Box<dyn Source + 'e>, Failure> {
    let timeout = client.timeout();
    Ok(match text.split_once("://") {
        Some(("http" | "https", _)) => Box::new(HttpSide::new(text, &flags.http, environment, timeout)?),
        Some(("s3", rest)) => {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            Box::new(S3Side::new(bucket, key, &flags.s3, environment, timeout)?)
        }
        Some(("kubernetes", _)) => {
            let place = Place::read(text, "kubernetes://NAMESPACE/SECRET-SUFFIX", &["workspace", "context"])?;
            let client = connect(&flags.cluster, place.get("context"), environment, timeout).await?;
            Box::new(KubernetesSide::new(client, &place.namespace, &place.name, place.get("workspace")))
        }
        Some(("configmap", _)) => {
            let place = Place::read(text, "configmap://NAMESPACE/NAME", &["context"])?;
            let client = connect(&flags.cluster, place.get("context"), environment, timeout).await?;
            Box::new(ConfigMapSide::new(client, &place.namespace, &place.name))
        }
        Some(("file", path)) => Box::new(FileSide::new(Path::new(path), environment)),
        Some((scheme, _)) => return Err(unknown(scheme)),
        None => Box::new(FileSide::new(Path::new(text), environment)),
    })
}

pub fn destination<'e>(
    text: &str,
    flags: &Migrate,
    client: &Client,
    environment: &'e Environment,
) -> Result<Box<dyn Destination + 'e>, Failure> {
    Ok(match text.split_once("://") {
        Some(("http" | "https", _)) => Box::new(HttpSide::new(text, &flags.http, environment, client.timeout())?),
        Some(("file", path)) => Box::new(FileSide::new(Path::new(path), environment)),
        Some((scheme, _)) => return Err(unknown(scheme)),
        None => Box::new(FileSide::new(Path::new(text), environment)),
    })
}

fn unknown(scheme: &str) -> Failure {
    Failure::usage(
        format!("'{scheme}://' is not a place that states are copied {}", "from or to here"),
        "from http, https, s3, kubernetes, configmap or a file; to http, https or a file",
    )
}

/// A place in a cluster.
struct Place {
    namespace: String,
    name: String,
    query: Vec<(String, String)>,
}

impl Place {
    fn read(text: &str, form: &str, known: &[&str]) -> Result<Place, Failure> {
        let wrong = |fault: String| {
            Failure::usage(fault, format!("write {form}, with ?{}=... behind it", known.join("= or ?")))
        };
        let url = Url::parse(text).map_err(|error| wrong(format!("'{text}' is not a place: {error}")))?;
        let name = url.path().trim_matches('/').to_owned();
        let namespace = url.host_str().unwrap_or_default().to_owned();
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(wrong(format!("'{text}' has no namespace or no name")));
        }
        let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        if let Some((name, _)) = query.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            return Err(wrong(format!("'{name}' in '{text}' is not known")));
        }
        Ok(Place { namespace, name, query })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_cluster_has_a_namespace_a_name_and_known_words() {
        let read = |text: &str| Place::read(text, "FORM", &["workspace", "context"]);
        let place = read("kubernetes://team-a/app?workspace=w&context=c%20d").ok().unwrap();
        assert_eq!((place.namespace.as_str(), place.name.as_str()), ("team-a", "app"));
        assert_eq!((place.get("workspace"), place.get("context")), (Some("w"), Some("c d")));
        for wrong in ["kubernetes://team-a", "kubernetes:///app", "kubernetes://a/b/c", "kubernetes://a/b?x=1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
