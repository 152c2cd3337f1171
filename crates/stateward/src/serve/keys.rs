//! The named keys of this server.

use anyhow::{Context, Result, bail};
use keys::{Auth, Error, Key, Keyring, Sharing, Vault, VaultSettings};

use super::cluster::Cluster;
use crate::config::Settings;
use crate::config::named_keys::{NamedKey, Place, named};
use crate::config::settings;

/// The keyring that the settings describe. A key that cannot be used as it is set up is an error; one that is out of
/// reach for the moment is not, since what needs no key can be served meanwhile.
pub(crate) async fn open(settings: &Settings, cluster: Option<&Cluster>) -> Result<Keyring> {
    let named = named(settings);
    let transit = named.iter().any(|key| matches!(key.place, Place::Transit { .. }));
    let vault = if transit { Some(vault(&settings.keys)?) } else { None };
    let mut keys = Vec::new();
    for NamedKey { name, place } in named {
        let key = match place {
            Place::File(path) => Key::file(path, sharing(&settings.keys)),
            Place::Secret { namespace, secret } => {
                let Some(cluster) = cluster else {
                    bail!(
                        "keys.secrets: the key '{name}' is in a Secret, which needs a cluster: set cluster.kubeconfig"
                    )
                };
                Key::secret(cluster.client(), &namespace, &secret)
            }
            Place::Transit { mount, key } => {
                Key::transit(vault.clone().context("keys.vault_address is not set")?, &mount, &key)
            }
        };
        keys.push((name, key));
    }
    let remembered = keys::Settings { cache_ttl: settings.keys.cache_ttl, cache_entries: settings.keys.cache_entries };
    let keyring = Keyring::new(keys, remembered)?;
    for name in keyring.names() {
        match keyring.check(name).await {
            Ok(version) => tracing::info!(key = name, version, "the key is there"),
            Err(error @ Error::Unavailable { .. }) => tracing::warn!(key = name, %error, "a key is out of reach"),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(keyring)
}

fn sharing(keys: &settings::Keys) -> Sharing {
    if keys.shared_files { Sharing::AsItsModeSays } else { Sharing::Private }
}

fn vault(keys: &settings::Keys) -> Result<Vault> {
    let address = keys.vault_address.clone().context("keys.vault_address is not set")?;
    let mount = |default: &str| keys.vault_auth_mount.clone().unwrap_or_else(|| default.to_owned());
    let auth = if let Some(file) = &keys.vault_token_file {
        Auth::TokenFile(file.clone())
    } else if let Some(role) = &keys.vault_role {
        Auth::Kubernetes { mount: mount("kubernetes"), role: role.clone(), jwt_file: keys.vault_jwt_file.clone() }
    } else if let (Some(role_id_file), Some(secret_id_file)) = (&keys.vault_role_id_file, &keys.vault_secret_id_file) {
        Auth::AppRole {
            mount: mount("approle"),
            role_id_file: role_id_file.clone(),
            secret_id_file: secret_id_file.clone(),
        }
    } else {
        bail!(
            "keys.transit has no way to log in: set keys.vault_token_file, keys.vault_role or keys.vault_role_id_file"
        )
    };
    let settings = VaultSettings {
        address,
        namespace: keys.vault_namespace.clone(),
        ca_file: keys.vault_ca_file.clone(),
        auth,
        deadline: keys.vault_deadline,
    };
    Ok(Vault::new(settings)?)
}
