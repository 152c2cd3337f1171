//! Where the token for a key service comes from: a file, or a login that is repeated before it ends.
//!
//! A login is made anew rather than renewed: that also works beyond the token's longest life, and it costs one question
//! in two thirds of a lease.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::vault::{CallError, Vault};

/// A token this fresh that is refused lacks permission: logging in again and again would not help.
const FRESH: Duration = Duration::from_secs(1);
const FILE_LIMIT: u64 = 64 * 1024;

/// How this process proves itself. Files are read again whenever they are needed: they may be rotated.
#[derive(Clone, Debug)]
pub enum Auth {
    /// A token, such as Vault Agent writes it.
    TokenFile(PathBuf),
    /// The ServiceAccount of a Pod, by its projected token.
    Kubernetes {
        mount: String,
        role: String,
        jwt_file: PathBuf,
    },
    AppRole {
        mount: String,
        role_id_file: PathBuf,
        secret_id_file: PathBuf,
    },
}

pub(super) struct Session {
    auth: Auth,
    /// Locked while a login is under way, so that one is enough for all who wait.
    held: Mutex<Option<Held>>,
}

struct Held {
    token: Zeroizing<String>,
    since: Instant,
    /// `None` is a token without an end.
    until: Option<Instant>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Question<'a> {
    Kubernetes { role: &'a str, jwt: &'a str },
    AppRole { role_id: &'a str, secret_id: &'a str },
}

#[derive(Deserialize)]
struct Answer {
    auth: Granted,
}

#[derive(Deserialize)]
struct Granted {
    client_token: String,
    /// Seconds.
    #[serde(default)]
    lease_duration: u64,
}

impl Session {
    pub(super) fn new(auth: Auth) -> Session {
        Session { auth, held: Mutex::default() }
    }

    /// A token that has not ended as far as is known.
    pub(super) async fn token(&self, vault: &Vault) -> Result<Zeroizing<String>, CallError> {
        if let Auth::TokenFile(file) = &self.auth {
            return read("keys.vault_token_file", file).await;
        }
        let mut held = self.held.lock().await;
        if let Some(Held { token, until, .. }) = &*held
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Ok(token.clone());
        }
        let fresh = self.login(vault).await?;
        Ok(held.insert(fresh).token.clone())
    }

    /// Another token, now that this one was refused; `None` if there is none to be had.
    pub(super) async fn other_than(
        &self,
        refused: &str,
        vault: &Vault,
    ) -> Result<Option<Zeroizing<String>>, CallError> {
        if let Auth::TokenFile(file) = &self.auth {
            let token = read("keys.vault_token_file", file).await?;
            return Ok((token.as_str() != refused).then_some(token));
        }
        let mut held = self.held.lock().await;
        if let Some(Held { token, since, .. }) = &*held {
            if token.as_str() != refused {
                return Ok(Some(token.clone()));
            }
            if since.elapsed() < FRESH {
                return Ok(None);
            }
        }
        let fresh = self.login(vault).await?;
        Ok(Some(held.insert(fresh).token.clone()))
    }

    async fn login(&self, vault: &Vault) -> Result<Held, CallError> {
        let since = Instant::now();
        let (mount, answer) = match &self.auth {
            Auth::TokenFile(_) => return Err(CallError::Refused("a token from a file needs no login".to_owned())),
            Auth::Kubernetes { mount, role, jwt_file } => {
                let jwt = read("keys.vault_jwt_file", jwt_file).await?;
                (mount, self.ask(vault, mount, &Question::Kubernetes { role, jwt: &jwt }).await)
            }
            Auth::AppRole { mount, role_id_file, secret_id_file } => {
                let role_id = read("keys.vault_role_id_file", role_id_file).await?;
                let secret_id = read("keys.vault_secret_id_file", secret_id_file).await?;
                (mount, self.ask(vault, mount, &Question::AppRole { role_id: &role_id, secret_id: &secret_id }).await)
            }
        };
        let answer = answer.map_err(|error| match error {
            CallError::Forbidden | CallError::NotFound | CallError::Bad(_) => CallError::Refused(format!(
                "the login at auth/{mount} is refused: check keys.vault_auth_mount, the role and its bindings"
            )),
            other => other,
        })?;
        let lease = Duration::from_secs(answer.lease_duration);
        let until = (!lease.is_zero()).then(|| since + lease * 2 / 3);
        Ok(Held { token: Zeroizing::new(answer.client_token), since, until })
    }

    async fn ask(&self, vault: &Vault, mount: &str, question: &Question<'_>) -> Result<Granted, CallError> {
        let path: Vec<&str> = std::iter::once("auth").chain(mount.split('/')).chain(["login"]).collect();
        let body = vault.send(&path, None, question).await?;
        let odd =
            |_| CallError::Refused("the answer to the login is not understood: is it Vault or OpenBao?".to_owned());
        serde_json::from_slice::<Answer>(&body).map(|answer| answer.auth).map_err(odd)
    }
}

/// What a file holds, without white space around it.
async fn read(setting: &str, file: &Path) -> Result<Zeroizing<String>, CallError> {
    let unreadable = |fault: &str| CallError::Refused(format!("{setting} {} {fault}", file.display()));
    let size = tokio::fs::metadata(file).await.map_err(|_| unreadable("cannot be read"))?.len();
    if size > FILE_LIMIT {
        return Err(unreadable("is too large for a credential"));
    }
    let text = tokio::fs::read(file).await.map(Zeroizing::new).map_err(|_| unreadable("cannot be read"))?;
    let text = std::str::from_utf8(&text).map_err(|_| unreadable("is not text"))?.trim();
    if text.is_empty() {
        return Err(unreadable("is empty"));
    }
    Ok(Zeroizing::new(text.to_owned()))
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("auth", &self.auth).finish_non_exhaustive()
    }
}
