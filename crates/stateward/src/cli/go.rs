//! Values of flags as programs in Go take them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::serve::tls::Pair;

/// Reads `10s`, `1m30s`, `1.5h`, `250ms` or `0`, as `time.ParseDuration` does. A time is never negative here.
pub fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] = &[
        ("ns", 1e-9),
        ("us", 1e-6),
        // The micro sign and the Greek letter.
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let wrong = || "a time is numbers with units, such as 10s, 1m30s or 1.5h; 0 is none".to_owned();
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if matches!(rest, "0" | "-0") {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
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

/// A whole number as `strconv.ParseInt` reads it: perhaps with a sign, a base, and `_` between digits.
fn integer(text: &str) -> Option<i64> {
    let (negative, digits) = match text.split_at_checked(1) {
        Some(("-", digits)) => (true, digits),
        Some(("+", digits)) => (false, digits),
        _ => (false, text),
    };
    let prefix = digits.get(..2).map(str::to_ascii_lowercase);
    let (base, digits) = match prefix.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    // One may follow the base too.
    let parts: Vec<&str> = digits.strip_prefix('_').filter(|_| base != 10).unwrap_or(digits).split('_').collect();
    let is_digit = |letter: char| letter.is_digit(base);
    if parts.iter().any(|part| part.is_empty() || !part.chars().all(is_digit)) {
        return None;
    }
    let number = i64::from_str_radix(&parts.concat(), base).ok()?;
    Some(if negative { -number } else { number })
}

/// A port that is not 0.
pub fn port(text: &str) -> Result<u16, String> {
    let port = integer(text).and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0);
    port.ok_or_else(|| "write a port from 1 to 65535".to_owned())
}

pub fn count(text: &str) -> Result<u32, String> {
    let count = integer(text).and_then(|number| u32::try_from(number).ok());
    count.ok_or_else(|| format!("write a number from 0 to {}", u32::MAX))
}

/// What one use of a flag for several texts says. Uses add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings(Vec<String>);

/// Reads `a,b,"c,d"`: one line of CSV, as a `StringSlice` of pflag does.
pub fn strings(text: &str) -> Result<Strings, String> {
    let wrong = || "write texts with commas between them; one with a comma or a \" in it in \"...\"".to_owned();
    let (mut items, mut rest) = (Vec::new(), text);
    loop {
        let (item, tail) = match rest.strip_prefix('"') {
            None => {
                let (item, tail) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if item.contains('"') {
                    return Err(wrong());
                }
                (item.to_owned(), tail)
            }
            Some(quoted) => {
                let (mut item, mut quoted) = (String::new(), quoted);
                loop {
                    let (part, tail) = quoted.split_once('"').ok_or_else(wrong)?;
                    item.push_str(part);
                    let Some(more) = tail.strip_prefix('"') else { break (item, tail) };
                    // Twice is once, inside.
                    item.push('"');
                    quoted = more;
                }
            }
        };
        items.push(item);
        match tail.strip_prefix(',') {
            Some(more) => rest = more,
            None if tail.is_empty() => return Ok(Strings(items)),
            None => return Err(wrong()),
        }
    }
}

/// All that was said, without empty texts.
pub fn all(uses: &[Strings]) -> Vec<String> {
    uses.iter().flat_map(|Strings(items)| items).filter(|item| !item.is_empty()).cloned().collect()
}

/// The name of a version of TLS; empty is the usual one.
pub fn tls_version(text: &str) -> Result<String, String> {
    match text {
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "VersionTLS13" => Ok(text.to_owned()),
        _ => Err("write VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13".to_owned()),
    }
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
    let text = text.trim();
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
            ("+0", Some(0)),
            (".5s", Some(500)),
            ("1.s", Some(1_000)),
            ("1000\u{b5}s", Some(1)),
            ("1000\u{3bc}s", Some(1)),
            (".s", None),
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
    fn whole_numbers_are_those_of_go() {
        let table = [
            ("8443", Some(8443)),
            ("+1", Some(1)),
            ("-1", Some(-1)),
            ("0", Some(0)),
            ("0x20fb", Some(8443)),
            ("0X_20FB", Some(8443)),
            ("0b101", Some(5)),
            ("0o17", Some(15)),
            ("017", Some(15)),
            ("8_443", Some(8443)),
            ("", None),
            ("-", None),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("08", None),
            ("0x", None),
            ("1.0", None),
            ("+-1", None),
            ("ü1", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in table {
            assert_eq!(integer(text), expected, "{text}");
        }
        assert_eq!((port("0x1bb"), port("0").is_err(), count("-1").is_err()), (Ok(443), true, true));
    }

    #[test]
    fn lists_are_lines_of_csv() {
        let table: [(&str, Option<&[&str]>); 9] = [
            ("", Some(&[""])),
            ("a", Some(&["a"])),
            ("a,b,,c", Some(&["a", "b", "", "c"])),
            ("\"a,b\",c", Some(&["a,b", "c"])),
            ("\"a\"\"b\"", Some(&["a\"b"])),
            ("\"\"", Some(&[""])),
            ("a\"b", None),
            ("\"a", None),
            ("\"a\"b", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|items| Strings(items.iter().map(|item| (*item).to_owned()).collect()));
            assert_eq!(strings(text).ok(), expected, "{text}");
        }
        assert_eq!(all(&[strings("a,b").unwrap(), strings("").unwrap(), strings("c,").unwrap()]), ["a", "b", "c"]);
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
