//! Urls of backends, as people write them.

use std::path::PathBuf;

use http::uri::Authority;

use crate::Error;

/// Where to connect, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) place: Place,
    pub(super) security: Security,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    Plain,
    Tls,
}

/// Whether somebody set up TLS for this backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certificates {
    Given,
    None,
}

impl Address {
    pub(super) fn parse(url: &str, certificates: Certificates) -> Result<Address, Error> {
        let url = url.trim();
        if let Some(path) = url.strip_prefix("unix:") {
            if certificates == Certificates::Given {
                return Err(fault("a unix socket takes no TLS: leave the certificates out"));
            }
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(fault("unix: needs a path, as in unix:/run/backend.sock"));
            }
            return Ok(Address { place: Place::Unix(path.into()), security: Security::Plain });
        }
        // Names of resolvers, as gRPC's own libraries take them.
        let bare = ["dns:///", "passthrough:///", "dns:"].iter().find_map(|prefix| url.strip_prefix(prefix));
        let (scheme, rest) = bare.unwrap_or(url).split_once("://").unwrap_or(("", bare.unwrap_or(url)));
        let as_given = if certificates == Certificates::Given { Security::Tls } else { Security::Plain };
        let (security, usual_port) = match scheme.to_ascii_lowercase().as_str() {
            "" | "grpc" | "tcp" => (as_given, None),
            "http" if certificates == Certificates::Given => {
                return Err(fault(
                    "http:// speaks no TLS, and there are certificates: write https://, or leave them out",
                ));
            }
            "http" => (Security::Plain, Some(80)),
            "https" => (Security::Tls, Some(443)),
            "grpcs" => (Security::Tls, None),
            _ => return Err(fault("its scheme is none of http, https, grpc, grpcs, unix: write host:port")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(fault("a backend has no path: write host:port alone"));
        }
        if authority.contains('@') {
            return Err(fault("a backend takes no user and password in its url: use client certificates"));
        }
        let authority: Authority =
            authority.parse().map_err(|_| fault("it is not host:port, such as backend.example:50051"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let named = authority.as_str() != authority.host();
        let port = if named { authority.port_u16().filter(|port| *port > 0) } else { usual_port };
        match port {
            _ if host.is_empty() => Err(fault("it has no host: write host:port")),
            None if named => Err(fault("its port is no number from 1 to 65535")),
            None => Err(fault("it has no port: write host:port, such as backend.example:50051")),
            Some(port) => Ok(Address { place: Place::Tcp { host, port }, security }),
        }
    }

    /// The host and port as HTTP names them.
    pub(super) fn authority(&self) -> String {
        match &self.place {
            Place::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Place::Tcp { host, port } => format!("{host}:{port}"),
            Place::Unix(_) => "localhost".to_owned(),
        }
    }
}

/// The url itself is not repeated: it may hold what does not belong there.
fn fault(text: &str) -> Error {
    Error::Url(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str, certificates: Certificates) -> Result<String, String> {
        let address = Address::parse(url, certificates).map_err(|error| error.to_string())?;
        let scheme = if address.security == Security::Tls { "tls" } else { "plain" };
        Ok(format!("{scheme} {}", address.authority()))
    }

    #[test]
    fn urls_are_read_as_people_write_them() {
        let table = [
            ("storage-backend.capact-system:50051", "plain storage-backend.capact-system:50051"),
            ("10.0.0.1:50051", "plain 10.0.0.1:50051"),
            ("[::1]:50051", "plain [::1]:50051"),
            (" host:1 ", "plain host:1"),
            ("http://host:50051", "plain host:50051"),
            ("http://host:50051/", "plain host:50051"),
            ("http://host", "plain host:80"),
            ("https://host", "tls host:443"),
            ("HTTPS://host:8443", "tls host:8443"),
            ("grpc://host:50051", "plain host:50051"),
            ("grpcs://host:50051", "tls host:50051"),
            ("dns:///host:50051", "plain host:50051"),
            ("dns:host:50051", "plain host:50051"),
            ("unix:/run/a.sock", "plain localhost"),
        ];
        for (url, expected) in table {
            assert_eq!(read(url, Certificates::None).as_deref(), Ok(expected), "{url}");
        }
        for url in ["host:1", "grpc://host:1", "https://host:1", "grpcs://host:1"] {
            assert_eq!(read(url, Certificates::Given).as_deref(), Ok("tls host:1"), "{url}");
        }
        let paths =
            ["unix:/run/a.sock", "unix:///run/a.sock"].map(|url| Address::parse(url, Certificates::None).unwrap());
        assert!(paths.iter().all(|address| address.place == Place::Unix("/run/a.sock".into())));
    }

    #[test]
    fn what_is_no_url_of_a_backend_says_why_and_is_not_repeated() {
        let table = [
            ("", Certificates::None, "host:port"),
            ("host", Certificates::None, "no port"),
            ("host:", Certificates::None, "port"),
            ("host:0", Certificates::None, "1 to 65535"),
            ("host:65536", Certificates::None, "1 to 65535"),
            (":50051", Certificates::None, "host"),
            ("ftp://host:1", Certificates::None, "scheme"),
            ("http://user:hunter2@host:1", Certificates::None, "no user and password"),
            ("host:1/path", Certificates::None, "no path"),
            ("a b:1", Certificates::None, "not host:port"),
            ("unix:", Certificates::None, "a path"),
            ("http://host:1", Certificates::Given, "https://"),
            ("unix:/a", Certificates::Given, "no TLS"),
        ];
        for (url, certificates, expected) in table {
            let text = read(url, certificates).unwrap_err();
            assert!(text.contains(expected) && !text.contains("hunter2"), "{url}: {text}");
        }
    }
}
