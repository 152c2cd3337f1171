//! The lists of named keys: which there are, where each lives, and what is wrong with them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use keys::VaultSettings;

use super::Problem;
use super::settings::{Keys, Settings};

/// A key that the settings name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    pub name: String,
    pub place: Place,
}

/// Where a key lives. A new kind is a member here, a line in [`LISTS`], and one in `serve/keys.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    File(PathBuf),
    Secret { namespace: String, secret: String },
    Transit { mount: String, key: String },
}

/// Each list: its key, how an item is written, and how the part after the name is read.
type List = (&'static str, &'static str, fn(&Keys) -> &Vec<String>, fn(&str) -> Option<Place>);

const LISTS: &[List] = &[
    ("keys.files", "NAME=PATH", |keys| &keys.files, |text| Some(Place::File(PathBuf::from(text)))),
    (
        "keys.secrets",
        "NAME=NAMESPACE/SECRET",
        |keys| &keys.secrets,
        |text| {
            let (namespace, secret) = text.split_once('/')?;
            let whole = !namespace.is_empty() && !secret.is_empty() && !secret.contains('/');
            whole.then(|| Place::Secret { namespace: namespace.to_owned(), secret: secret.to_owned() })
        },
    ),
    (
        "keys.transit",
        "NAME=MOUNT/KEY",
        |keys| &keys.transit,
        |text| {
            // A mount may have several parts, a key has one.
            let (mount, key) = text.rsplit_once('/')?;
            let whole = mount.split('/').all(|part| !part.is_empty()) && !key.is_empty();
            whole.then(|| Place::Transit { mount: mount.to_owned(), key: key.to_owned() })
        },
    ),
];

/// The keys that can be read out of the lists.
pub fn named(settings: &Settings) -> Vec<NamedKey> {
    read(&settings.keys).into_iter().filter_map(|(_, item)| item.ok()).collect()
}

/// The files that are keys.
pub fn files(settings: &Settings) -> Vec<PathBuf> {
    let paths = named(settings).into_iter().filter_map(|key| match key.place {
        Place::File(path) => Some(path),
        _ => None,
    });
    paths.collect()
}

/// Everything that is wrong with the keys, and with the settings that name one.
pub fn problems(settings: &Settings) -> Vec<Problem> {
    let keys = &settings.keys;
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    for (list, item) in read(keys) {
        match item {
            Err(problem) => problems.push(problem),
            Ok(NamedKey { name, .. }) if names.contains(&name) => {
                let fault = format!("'{name}' is the name of two keys");
                problems.push(Problem::new(list, fault, "give each key its own name"));
            }
            Ok(NamedKey { name, .. }) => _ = names.insert(name),
        }
    }
    let users = [
        ("states.encryption_key", &settings.states.encryption_key),
        ("explorer.encryption_key", &settings.explorer.encryption_key),
        ("hub.encryption_key", &settings.hub.encryption_key),
    ];
    for (setting, name) in users {
        if let Some(name) = name.as_ref().filter(|name| !names.contains(*name)) {
            let fault = format!("'{name}' is not one of the keys");
            problems.push(Problem::new(setting, fault, "name a key of keys.files, keys.secrets or keys.transit"));
        }
    }
    problems.extend(vault(keys));
    problems
}

fn vault(keys: &Keys) -> Vec<Problem> {
    let used = !keys.transit.is_empty();
    let bad_address = keys.vault_address.as_ref().and_then(|address| VaultSettings::check_address(address).err());
    let app_role = keys.vault_role_id_file.is_some();
    let ways = [keys.vault_token_file.is_some(), keys.vault_role.is_some(), app_role];
    let ways = ways.into_iter().filter(|way| *way).count();
    let first_way = if keys.vault_role.is_some() { "keys.vault_role" } else { "keys.vault_token_file" };
    let rules = [
        (
            used && keys.vault_address.is_none(),
            "keys.vault_address",
            "is not set, while keys.transit has keys",
            "set it to the address of Vault or OpenBao",
        ),
        (
            !used && keys.vault_address.is_some(),
            "keys.vault_address",
            "has no effect without keys.transit",
            "list a key there, or leave the address out",
        ),
        (
            bad_address.is_some(),
            "keys.vault_address",
            bad_address.unwrap_or_default(),
            "write an https:// address; plain http is for this machine only",
        ),
        (
            keys.vault_namespace.as_ref().is_some_and(|name| http::HeaderValue::from_str(name).is_err()),
            "keys.vault_namespace",
            "has characters that no header can have",
            "write it as a/b",
        ),
        (
            used && ways == 0,
            "keys.transit",
            "has no way to log in",
            "set keys.vault_token_file, keys.vault_role, or keys.vault_role_id_file and keys.vault_secret_id_file",
        ),
        (ways > 1, first_way, "is one of several ways to log in that are set", "leave one way"),
        (
            app_role && keys.vault_secret_id_file.is_none(),
            "keys.vault_role_id_file",
            "has no secret id",
            "set keys.vault_secret_id_file",
        ),
        (
            !app_role && keys.vault_secret_id_file.is_some(),
            "keys.vault_secret_id_file",
            "has no role id",
            "set keys.vault_role_id_file",
        ),
        (
            keys.vault_auth_mount.is_some() && keys.vault_role.is_none() && !app_role,
            "keys.vault_auth_mount",
            "has no effect without a login",
            "set keys.vault_role or keys.vault_role_id_file, or leave it out",
        ),
    ];
    let broken = rules.into_iter().filter(|(broken, ..)| *broken);
    broken.map(|(_, key, fault, cure)| Problem::new(key, fault, cure)).collect()
}

fn read(keys: &Keys) -> Vec<(&'static str, Result<NamedKey, Problem>)> {
    let mut items = Vec::new();
    for (list, syntax, texts, place) in LISTS {
        for text in texts(keys) {
            let parts = text.split_once('=').map(|(name, rest)| (name.trim(), rest.trim()));
            let place = parts.filter(|(_, rest)| !rest.is_empty()).and_then(|(name, rest)| Some((name, place(rest)?)));
            let item = match place {
                None => Err(Problem::new(*list, format!("'{text}' is not {syntax}"), format!("write {syntax}"))),
                Some((name, _)) if !keys::is_name(name) => Err(Problem::new(
                    *list,
                    format!("'{name}' cannot be the name of a key"),
                    "use lower-case letters, digits and hyphens, at most 63",
                )),
                Some((name, place)) => Ok(NamedKey { name: name.to_owned(), place }),
            };
            items.push((*list, item));
        }
    }
    items
}
