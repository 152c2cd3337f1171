//! The kinds of values: how each is written, and how text becomes the JSON that [`super::Settings`] is read from.

use std::net::SocketAddr;
use std::num::IntErrorKind;

use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::units;

/// The largest count: whatever is counted here is kept, opened or waited for, so that more is a slip of a finger.
const MOST: u64 = i32::MAX as u64;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// IP address and port.
    Address,
    /// The same, on a loopback address.
    LoopbackAddress,
    Path,
    Text,
    /// `postgres://...` or `sqlite:PATH`; may hold a password, so it is never shown.
    DatabaseUrl,
    /// A text that is never shown.
    Secret,
    /// Words, as a YAML list or separated by commas.
    List,
    /// Names of HTTP headers.
    HeaderList,
    /// `CERT:KEY[:NAME...]`.
    SniList,
    Switch,
    /// A whole number from 1 to 2147483647.
    Count,
    /// A size of at least one byte and not beyond [`units::LARGEST`].
    Bytes,
    /// Bytes per second; may be zero.
    Rate,
    /// A time that may be zero, and is not beyond [`units::LONGEST`].
    Duration,
    /// The same, above zero.
    Period,
    Choice(&'static [&'static str]),
    /// What `tracing_subscriber::EnvFilter` reads.
    LogFilter,
}

/// A value as somebody wrote it.
#[derive(Clone, PartialEq, Eq)]
pub enum Raw {
    Text(String),
    List(Vec<String>),
}

/// Why a value does not fit its kind, and what to write instead. Never holds a secret value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    pub fault: String,
    pub cure: String,
}

impl Kind {
    pub fn is_list(self) -> bool {
        matches!(self, Kind::List | Kind::HeaderList | Kind::SniList)
    }

    pub fn is_secret(self) -> bool {
        matches!(self, Kind::DatabaseUrl | Kind::Secret)
    }

    /// How a value of this kind is written, for the reference page and for cures.
    pub fn syntax(self) -> String {
        match self {
            Kind::Address => "ADDRESS:PORT, such as 127.0.0.1:8642 or [::1]:8642".to_owned(),
            Kind::LoopbackAddress => "ADDRESS:PORT on loopback, such as 127.0.0.1:9642".to_owned(),
            Kind::Path => "a path; relative ones start from the working directory".to_owned(),
            Kind::Text => "text".to_owned(),
            Kind::DatabaseUrl => "postgres://USER:PASSWORD@HOST/DATABASE or sqlite:/PATH".to_owned(),
            Kind::Secret => "text, which is never shown again".to_owned(),
            Kind::List => "a list; separated by commas in a variable or flag".to_owned(),
            Kind::HeaderList => "a list of HTTP header names; separated by commas in a variable or flag".to_owned(),
            Kind::SniList => "a list of CERT:KEY[:NAME...]; separated by commas in a variable or flag".to_owned(),
            Kind::Switch => "true or false".to_owned(),
            Kind::Count => format!("a whole number from 1 to {MOST}"),
            Kind::Rate => format!("a size per second, such as 0, 65536, 64KiB or 1MiB, at most {}", units::LARGEST),
            Kind::Bytes => format!("a size, such as 65536, 64KiB, 1MiB or 2GiB, at most {}", units::LARGEST),
            Kind::Duration => format!("a time, such as 0s, 10s, 5m, 24h or 90d, at most {}", units::LONGEST),
            Kind::Period => {
                format!("a time above zero, such as 250ms, 10s, 5m, 24h or 90d, at most {}", units::LONGEST)
            }
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::LogFilter => "a level, or a filter such as info,stateward=debug".to_owned(),
        }
    }

    /// The placeholder of a flag.
    pub fn placeholder(self) -> &'static str {
        match self {
            Kind::Address | Kind::LoopbackAddress => "ADDRESS",
            Kind::Path => "PATH",
            Kind::Text | Kind::Secret => "TEXT",
            Kind::DatabaseUrl => "URL",
            Kind::List | Kind::HeaderList => "LIST",
            Kind::SniList => "CERT:KEY[:NAME...]",
            Kind::Switch => "BOOL",
            Kind::Count => "NUMBER",
            Kind::Bytes | Kind::Rate => "SIZE",
            Kind::Duration | Kind::Period => "TIME",
            Kind::Choice(_) => "WORD",
            Kind::LogFilter => "FILTER",
        }
    }

    /// Splits text from a variable or flag the way this kind is written there.
    pub fn split(self, text: &str) -> Raw {
        if self.is_list() {
            Raw::List(text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
        } else {
            Raw::Text(text.to_owned())
        }
    }

    /// Reads a value.
    pub fn read(self, raw: &Raw) -> Result<Value, Misfit> {
        let read = match raw {
            Raw::List(items) => {
                items.iter().map(|item| self.read_item(item)).collect::<Result<_, _>>().map(Value::Array)
            }
            Raw::Text(text) if text.contains('\u{fffd}') => Err("is not Unicode".to_owned()),
            Raw::Text(text) => self.read_text(text.trim()),
        };
        read.map_err(|fault| Misfit { fault, cure: format!("write {}", self.syntax()) })
    }

    fn read_item(self, item: &str) -> Result<Value, String> {
        match self {
            Kind::HeaderList => match http::HeaderName::from_bytes(item.as_bytes()) {
                Ok(_) => Ok(json!(item)),
                Err(_) => Err(format!("'{item}' cannot be a header name")),
            },
            Kind::SniList => {
                let mut parts = item.split(':');
                match (parts.next().filter(|part| !part.is_empty()), parts.next().filter(|part| !part.is_empty())) {
                    (Some(cert), Some(key)) => {
                        let names: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
                        Ok(json!({ "cert_file": cert, "key_file": key, "names": names }))
                    }
                    _ => Err(format!("'{item}' lacks a certificate or a key")),
                }
            }
            _ => Ok(json!(item)),
        }
    }

    fn read_text(self, text: &str) -> Result<Value, String> {
        match self {
            Kind::Address | Kind::LoopbackAddress => match text.parse::<SocketAddr>() {
                Err(_) => Err(format!("'{text}' is not an IP address with a port")),
                Ok(address) if self == Kind::LoopbackAddress && !address.ip().is_loopback() => {
                    Err(format!("'{text}' is not a loopback address"))
                }
                Ok(address) => Ok(json!(address)),
            },
            Kind::Path | Kind::Secret if text.is_empty() => Err("is empty".to_owned()),
            Kind::Path | Kind::Text | Kind::Secret => Ok(json!(text)),
            Kind::DatabaseUrl => {
                let known = ["postgres://", "postgresql://", "sqlite:"]
                    .iter()
                    .any(|scheme| text.len() > scheme.len() && text.starts_with(scheme));
                if known { Ok(json!(text)) } else { Err("is not the URL of a database that is known here".to_owned()) }
            }
            Kind::List | Kind::HeaderList | Kind::SniList => {
                self.read(&self.split(text)).map_err(|misfit| misfit.fault)
            }
            Kind::Switch => match text {
                "true" | "on" | "yes" | "1" => Ok(json!(true)),
                "false" | "off" | "no" | "0" => Ok(json!(false)),
                _ => Err(format!("'{text}' is neither true nor false")),
            },
            Kind::Count => match text.parse::<u64>() {
                Ok(0) => Err("is zero".to_owned()),
                Ok(number) if number <= MOST => Ok(json!(number)),
                Err(error) if *error.kind() != IntErrorKind::PosOverflow => {
                    Err(format!("'{text}' is not a whole number"))
                }
                _ => Err(format!("'{text}' is more than {MOST}")),
            },
            Kind::Bytes | Kind::Rate => match units::bytes(text) {
                Some(0) if self == Kind::Bytes => Err("is zero".to_owned()),
                Some(size) => Ok(json!(size)),
                None if units::is_size(text) => Err(format!("'{text}' is more than {}", units::LARGEST)),
                None => Err(format!("'{text}' is not a size")),
            },
            Kind::Duration | Kind::Period => match units::duration(text) {
                Some(time) if time.is_zero() && self == Kind::Period => Err("is zero".to_owned()),
                Some(time) => Ok(json!(time)),
                None if units::is_time(text) => Err(format!("'{text}' is more than {}", units::LONGEST)),
                None => Err(format!("'{text}' is not a time with a unit")),
            },
            Kind::Choice(words) if words.contains(&text) => Ok(json!(text)),
            Kind::Choice(_) => Err(format!("'{text}' is not known")),
            Kind::LogFilter => match EnvFilter::builder().parse(text) {
                Ok(_) if !text.is_empty() && !has_unknown_level(text) => Ok(json!(text)),
                _ => Err(format!("'{text}' is not a log filter")),
            },
        }
    }
}

/// A single word that is no level would be taken for a module, so that `inf` would log nothing at all.
fn has_unknown_level(filter: &str) -> bool {
    let is_word = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let mut words = filter.split(',').map(str::trim).filter(is_word);
    words.any(|word| word.parse::<LevelFilter>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, good: &[&str], bad: &[&str]) {
        for text in good {
            let read = kind.read(&kind.split(text));
            assert!(read.is_ok(), "{kind:?} {text}: {read:?}");
        }
        for text in bad {
            let misfit = kind.read(&kind.split(text)).expect_err(text);
            assert!(misfit.cure.starts_with("write "), "{kind:?} {text}");
        }
    }

    #[test]
    fn each_kind_takes_what_it_documents_and_refuses_the_rest() {
        check(Kind::Address, &["127.0.0.1:1", "[::1]:8642", "0.0.0.0:0"], &["", "localhost:1", "127.0.0.1", ":80"]);
        check(Kind::LoopbackAddress, &["127.0.0.2:1", "[::1]:1"], &["0.0.0.0:1", "10.0.0.1:1"]);
        check(Kind::Path, &["/a b", "a"], &["", "\u{fffd}"]);
        check(Kind::Secret, &["canary"], &["", "\u{fffd}"]);
        check(
            Kind::DatabaseUrl,
            &["postgres://u:p@h/d", "postgresql://h", "sqlite:/x"],
            &["", "mysql://h", "postgres://"],
        );
        check(Kind::HeaderList, &["", "X-Remote-User,X-Other"], &["X Remote"]);
        check(Kind::SniList, &["", "c:k", "c:k:a:b,d:l"], &["c", "c:", ":k"]);
        check(Kind::Switch, &["true", "off", "1", "no"], &["", "TRUE", "maybe"]);
        let (over, beyond) = ("2147483648", "99999999999999999999");
        check(Kind::Count, &["1", "10000", "2147483647"], &["0", "-1", "1.5", "many", "", over, beyond]);
        check(Kind::Bytes, &["1", "64MiB", units::LARGEST], &["0", "64MB", "", "1048577GiB"]);
        check(Kind::Rate, &["0", "64KiB", units::LARGEST], &["64KB", "-1", "", "1048577GiB"]);
        check(Kind::Duration, &["0s", "10s", units::LONGEST], &["10", "", "soon", "36501d"]);
        check(Kind::Period, &["1s"], &["0s", "", "400000d"]);
        check(Kind::Choice(&["a", "b"]), &["a"], &["c", "", "A"]);
        let filters = ["info", "off", "WARN", "info,stateward=debug", "stateward::serve,info", "[request]=debug"];
        check(Kind::LogFilter, &filters, &["", "stateward=loud", "inf", "loud,stateward=debug"]);
    }

    #[test]
    fn a_value_out_of_bounds_is_told_the_bound() {
        let table = [
            (Kind::Count, "9999999999999999999", "2147483647"),
            (Kind::Count, "99999999999999999999999", "2147483647"),
            (Kind::Bytes, "1048577GiB", units::LARGEST),
            (Kind::Duration, "400000d", units::LONGEST),
            (Kind::Period, "400000d", units::LONGEST),
        ];
        for (kind, text, bound) in table {
            let misfit = kind.read(&kind.split(text)).unwrap_err();
            assert_eq!(misfit.fault, format!("'{text}' is more than {bound}"));
            assert!(misfit.cure.contains(bound), "{misfit:?}");
        }
    }

    #[test]
    fn a_refused_database_url_is_not_repeated() {
        let misfit = Kind::DatabaseUrl.read(&Raw::Text("mysql://u:canary@h".to_owned())).unwrap_err();
        assert!(!format!("{misfit:?}").contains("canary"), "{misfit:?}");
    }
}
