//! Values of flags as programs in Go take them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::serve::tls::Pair;

/// Reads `10s`, `1m30s`, `1.5h`, `250ms` or `0`, as `time.ParseDuration` does. A time is never negative here.
pub fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] =
        &[("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let wrong = || "a time is numbers with units, such as 10s, 1m30s or 1.5h; 0 is none".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = Duration::ZERO;
    while !rest.is_empty() || total.is_zero() && text.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
}

/// Reads what `strconv.ParseBool` takes.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// An address to listen on; empty is all interfaces.
pub fn address(text: &str) -> Result<Option<IpAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| "write an IP address such as 0.0.0.0 or ::1".to_owned())
}

/// Reads `cert.crt,key.key` or `cert.crt,key.key:*.example.com,example.com`.
pub fn named_pair(text: &str) -> Result<Pair, String> {
    let (files, patterns) = text.split_once(':').unwrap_or((text, ""));
    let (cert, key) = files.split_once(',').filter(|(_, key)| !key.contains(',')).unwrap_or_default();
    let (cert, key) = (cert.trim(), key.trim());
    if cert.is_empty() || key.is_empty() {
        return Err("write a certificate and a key, such as foo.crt,foo.key:*.foo.com,foo.com".to_owned());
    }
    let names = patterns.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Ok(Pair { cert_file: PathBuf::from(cert), key_file: PathBuf::from(key), names })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let table = [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("2h45m", Some(9_900_000)),
            ("250ms", Some(250)),
            ("1000us", Some(1)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("+5s", Some(5_000)),
            ("", None),
            ("10", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("1s5", None),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn pairs_have_two_files_and_perhaps_patterns() {
        let table = [
            ("a.crt,a.key", Some(("a.crt", "a.key", &[][..]))),
            ("a.crt,a.key:*.foo.com,foo.com", Some(("a.crt", "a.key", &["*.foo.com", "foo.com"]))),
            (" a.crt , a.key : foo.com ", Some(("a.crt", "a.key", &["foo.com"]))),
            ("a.crt", None),
            ("a.crt,", None),
            ("a,b,c", None),
            (":foo.com", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = named_pair(text).ok();
            let found = found.as_ref().map(|pair| {
                let names: Vec<&str> = pair.names.iter().map(String::as_str).collect();
                (pair.cert_file.to_str().unwrap_or_default(), pair.key_file.to_str().unwrap_or_default(), names)
            });
            assert_eq!(found, expected.map(|(cert, key, names)| (cert, key, names.to_vec())), "{text}");
        }
    }
}
