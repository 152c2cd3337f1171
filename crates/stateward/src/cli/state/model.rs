//! What the management API answers, as far as tables show it. Programs get the answers whole.

use jiff::Timestamp;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct State {
    pub namespace: String,
    pub name: String,
    #[serde(default)]
    pub store: String,
    pub version: Option<u64>,
    pub serial: Option<String>,
    pub lineage: Option<String>,
    pub terraform_version: Option<String>,
    pub size: Option<u64>,
    pub sha256: Option<String>,
    #[serde(default)]
    pub encrypted_by_client: bool,
    #[serde(default)]
    pub sealed: bool,
    pub updated_at: Option<String>,
    pub updated_by: Option<String>,
    #[serde(default)]
    pub versions: u64,
    pub lock: Option<Lock>,
    pub deleted: Option<Ended>,
    pub moved: Option<Moved>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Ended {
    pub by: Option<String>,
    pub at: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Moved {
    pub to: String,
    pub by: Option<String>,
    pub at: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Lock {
    #[serde(default)]
    pub namespace: String,
    #[serde(default)]
    pub name: String,
    pub id: String,
    pub operation: Option<String>,
    pub info: Option<String>,
    pub who: Option<String>,
    pub user: Option<String>,
    pub taken_at: Option<String>,
    pub active_at: Option<String>,
    #[serde(default)]
    pub expired: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Version {
    #[serde(rename = "version")]
    pub number: u64,
    pub serial: Option<String>,
    #[serde(rename = "terraform_version")]
    pub written_with: Option<String>,
    pub size: Option<u64>,
    pub sha256: Option<String>,
    pub written_at: Option<String>,
    pub written_by: Option<String>,
    #[serde(default)]
    pub current: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Items<T> {
    pub items: Vec<T>,
}

impl State {
    /// What stands in the way of using it, or nothing.
    pub fn condition(&self) -> String {
        match (&self.moved, &self.deleted, &self.lock) {
            (Some(moved), _, _) => format!("moved to {}", moved.to),
            (_, Some(_), _) => "deleted".to_owned(),
            (_, _, Some(lock)) => format!("locked by {}", lock.holder()),
            _ => "-".to_owned(),
        }
    }
}

impl Lock {
    /// The authenticated user and what the client says of itself, where they differ.
    pub fn holder(&self) -> String {
        match (filled(self.user.as_ref()), filled(self.who.as_ref())) {
            (Some(user), Some(who)) if user != who => format!("{user} ({who})"),
            (Some(text), _) | (None, Some(text)) => text.to_owned(),
            (None, None) => "unknown".to_owned(),
        }
    }
}

fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// The text of a cell, or what stands for nothing.
pub fn cell(text: Option<&String>) -> String {
    filled(text).unwrap_or("-").to_owned()
}

/// A number in a cell.
pub fn count(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// A size as people read it.
pub fn size(bytes: Option<u64>) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let Some(bytes) = bytes else { return "-".to_owned() };
    let (mut tenths, mut unit) = (u128::from(bytes) * 10, "B");
    for next in UNITS {
        if tenths < 10_240 {
            break;
        }
        (tenths, unit) = (tenths / 1024, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{}.{} {unit}", tenths / 10, tenths % 10) }
}

/// How long ago that was, in its largest unit.
pub fn age(time: Option<&String>, now: Timestamp) -> String {
    let Some(time) = time.and_then(|text| text.parse::<Timestamp>().ok()) else { return "-".to_owned() };
    let seconds = now.duration_since(time).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages_are_short() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (300 << 20, "300.0 MiB")]
        {
            assert_eq!(size(Some(bytes)), text);
        }
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        for (then, text) in [
            ("2026-11-16T11:59:01Z", "59s"),
            ("2026-11-16T11:00:30Z", "59m"),
            ("2026-11-15T12:00:01Z", "23h"),
            ("2026-11-01T12:00:00Z", "15d"),
            ("2026-11-16T12:00:09Z", "0s"),
            ("yesterday", "-"),
        ] {
            assert_eq!(age(Some(&then.to_owned()), now), text, "{then}");
        }
    }
}
