//! The reference page of the configuration, made from the table of keys.

use std::fmt::Write;

use super::keys::{GROUPS, KEYS, Key};
use super::resolve::DEFAULT_FILE;

/// The page in Markdown.
pub fn page() -> String {
    let mut page = format!(
        "<!-- Made by `cargo xtask generate` from crates/stateward/src/config/keys.rs; edits are lost. -->\n\
         # Configuration\n\n\
         `stateward serve` takes every key from four places; the first that has it wins:\n\n\
         1. a flag: `--tls-cert-file`;\n\
         2. a variable: `STATEWARD_TLS_CERT_FILE`;\n\
         3. the YAML file of `--config`, `STATEWARD_CONFIG`, or `{DEFAULT_FILE}` if it exists:\n   \
         `tls: {{ cert_file: ... }}`;\n\
         4. the default.\n\n\
         Lists are YAML lists, or texts with commas; list flags may be repeated. An empty variable unsets what the file\n\
         says. `stateward config check` shows every value and where it came from, and lists everything that is wrong.\n\
         Variables with our prefix that mean nothing are ignored (Kubernetes injects some for a Service of that name);\n\
         `config check` names them.\n"
    );
    for (group, about) in GROUPS {
        let title = if group.is_empty() { (*about).to_owned() } else { format!("{group}: {about}") };
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {title}\n");
        for key in KEYS.iter().filter(|key| key.group() == *group) {
            let _ = write!(page, "\n{}", entry(key));
        }
    }
    page
}

fn entry(key: &Key) -> String {
    let mut flag = format!("`--{}`", key.flag());
    if let Some(short) = key.short_flag {
        let _ = write!(flag, " or `--{short}`");
    }
    let more = if key.more.is_empty() { String::new() } else { format!(" {}", key.more) };
    let path = key.path;
    format!(
        "### `{path}`\n{}.{more}\n\n- Value: {}\n- Default: `{}`\n- Variable: `{}`; flag: {flag}\n",
        key.help,
        key.kind.syntax(),
        key.default_shown(),
        key.variable(),
    )
}
