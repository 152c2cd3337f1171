//! The lists that are read item by item: roles of users, stores of namespaces, names of hosts, addresses of backends.
//!
//! `serve` takes what it uses from here, so that the check refuses exactly what the server would.

use std::net::{IpAddr, Ipv6Addr};

use access::{Binding, Pattern};
use hub::AllowedUrls;

use super::settings::Settings;
use super::{Invalid, Problem, database};

/// Which store keeps the states of the namespaces that a pattern fits.
#[derive(Clone, Debug)]
pub struct Route {
    pub namespaces: Pattern,
    pub store: String,
}

/// Stores of a server that are objects of its cluster.
pub const STORES_OF_CLUSTERS: &[&str] = &["configmap", "secret", "kubernetes"];

/// The roles of users and groups of a standalone server.
pub fn bindings(settings: &Settings) -> Result<Vec<Binding>, Invalid> {
    all(settings.access.grants.iter().map(|text| binding(text)))
}

/// The stores of namespaces, the first that fits counts.
pub fn routes(settings: &Settings) -> Result<Vec<Route>, Invalid> {
    all(settings.states.routes.iter().map(|text| route(settings, text)))
}

/// The hosts under whose names clients may call, without the brackets of addresses.
pub fn hosts(settings: &Settings) -> Result<Vec<String>, Invalid> {
    all(settings.allowed_hosts.iter().map(|text| host(text)))
}

/// The addresses that storage backends may have.
pub fn allowed_urls(settings: &Settings) -> Result<AllowedUrls, Invalid> {
    let read = AllowedUrls::parse(settings.hub.allowed_urls.iter().map(String::as_str));
    read.map_err(|_| Invalid(wrong_urls(settings)))
}

/// Everything that is wrong with these lists.
pub fn problems(settings: &Settings) -> Vec<Problem> {
    let lists = [bindings(settings).err(), routes(settings).err(), hosts(settings).err()];
    let names = settings.tls.self_signed_names.iter().filter(|name| !can_be_certified(name)).map(|name| {
        let fault = format!("'{name}' cannot be in a certificate");
        Problem::new("tls.self_signed_names", fault, "write a DNS name in ASCII, or an IP address")
    });
    let lists = lists.into_iter().flatten().flat_map(|invalid| invalid.0);
    lists.chain(wrong_urls(settings)).chain(names).collect()
}

/// All items, or everything that is wrong with them.
fn all<T>(items: impl Iterator<Item = Result<T, Problem>>) -> Result<Vec<T>, Invalid> {
    let (mut good, mut problems) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Ok(item) => good.push(item),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(good) } else { Err(Invalid(problems)) }
}

fn binding(text: &str) -> Result<Binding, Problem> {
    let cure = "write it as user:NAME=ROLE@NAMESPACE-PATTERN or group:NAME=ROLE@NAMESPACE-PATTERN";
    text.parse().map_err(|error: access::GrantError| Problem::new("access.grants", error.to_string(), cure))
}

fn route(settings: &Settings, text: &str) -> Result<Route, Problem> {
    let wrong = |fault: String, cure: &str| Problem::new("states.routes", fault, cure);
    let Some((pattern, store)) = text.split_once('=') else {
        return Err(wrong(format!("'{text}' is not NAMESPACE-PATTERN=STORE"), "write it as team-*=configmap"));
    };
    let (pattern, store) = (pattern.trim(), store.trim());
    let namespaces = pattern.parse().map_err(|error: access::GrantError| {
        wrong(error.to_string(), "write it as team-*=configmap; * stands for any characters")
    })?;
    let own = if database::is_postgres(settings) { "postgres" } else { "sqlite" };
    let known: Vec<&str> = [own].iter().chain(STORES_OF_CLUSTERS).chain(&["s3"]).copied().collect();
    if !known.contains(&store) {
        let fault = format!("'{text}' names a store that this server does not have");
        return Err(wrong(fault, &format!("name one of {}", known.join(", "))));
    }
    Ok(Route { namespaces, store: store.to_owned() })
}

fn host(text: &str) -> Result<String, Problem> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(of_name);
    let good = match inner {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => text.parse::<IpAddr>().is_ok() || text.split('.').all(is_label),
    };
    if good {
        return Ok(inner.unwrap_or(text).to_owned());
    }
    let fault = format!("'{text}' is no name or address of a host, so that no request would ever fit it");
    let cure = "write the name or address alone: without scheme, port, final dot or *, in ASCII";
    Err(Problem::new("allowed_hosts", fault, cure))
}

fn wrong_urls(settings: &Settings) -> Vec<Problem> {
    let wrong = settings.hub.allowed_urls.iter().filter(|text| AllowedUrls::parse([text.as_str()]).is_err());
    let problem = |text: &String| {
        let fault = format!("'{text}' is not host:port, alone or after http://, https://, grpc:// or grpcs://");
        Problem::new("hub.allowed_urls", fault, "write it as *.storage.svc:50051, or unix:/PATH")
    };
    wrong.map(problem).collect()
}

/// As the library that makes certificates sees it.
fn can_be_certified(name: &str) -> bool {
    rcgen::CertificateParams::new([name.to_owned()]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_and_nothing_beside_them() {
        let good = [
            ("stateward.example", "stateward.example"),
            ("my_host", "my_host"),
            ("10.0.0.1", "10.0.0.1"),
            ("fd00::1", "fd00::1"),
            ("[fd00::1]", "fd00::1"),
        ];
        for (text, expected) in good {
            assert_eq!(host(text), Ok(expected.to_owned()));
        }
        for bad in ["a:80", "a.", "[fd00::1]:80", "[a]", "https://a", "*.a", "a b", "a/", "bücher.example", "a..b", ""]
        {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
