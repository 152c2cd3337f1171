//! Static tokens of a standalone server: made once, kept only as a hash, looked up on every request.
//!
//! A token is `stw_<id>_<secret>`: the id finds the row, the secret (256 random bits) is compared through its SHA-256
//! in constant time. There is no cache, so that a revoked token is refused at once by every process on the database.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use db::{Db, Migrations, Row, Tx, params};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::authorize::roles::Grant;
use crate::identity::{Identity, Source, is_system};

pub(crate) const MIGRATIONS: Migrations = Migrations {
    set: "access",
    steps: &["CREATE TABLE access_tokens (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        hash BYTEA NOT NULL,
        user_name TEXT NOT NULL,
        user_groups TEXT NOT NULL,
        grants TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        created_by TEXT NOT NULL,
        expires_at BIGINT
    );
    CREATE TABLE access_bootstrap (id BIGINT PRIMARY KEY, at BIGINT NOT NULL)"],
};

const PREFIX: &str = "stw_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
const NAME_LIMIT: usize = 253;

/// The tokens in the database.
#[derive(Clone, Debug)]
pub struct TokenStore {
    db: Db,
}

/// What a new token shall be.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub name: String,
    /// Defaults to the name.
    pub user: Option<String>,
    pub groups: Vec<String>,
    pub grants: Vec<Grant>,
    pub expires_at: Option<Timestamp>,
    pub created_by: String,
}

/// A token as it may be shown: everything but the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TokenRecord {
    pub id: String,
    pub name: String,
    pub user: String,
    pub groups: Vec<String>,
    pub grants: Vec<Grant>,
    pub created_at: Timestamp,
    pub created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The text of a token, shown once to whoever asked for it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(Zeroizing<String>);

impl TokenText {
    /// The secret itself: hand it to the caller and to nobody else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(hidden)")
    }
}

#[derive(Debug, Error)]
pub enum TokenError {
    #[error("the field '{field}' {fault}")]
    Invalid { field: &'static str, fault: &'static str },
    #[error("a token with that name exists already")]
    NameTaken,
    #[error("no token has that id or name")]
    NotFound,
    #[error("failed to make a random token")]
    Random,
    #[error("failed to read a token record: its {0} is damaged")]
    Damaged(&'static str),
    #[error(transparent)]
    Db(#[from] db::Error),
}

impl TokenStore {
    pub fn new(db: Db) -> TokenStore {
        TokenStore { db }
    }

    /// Keeps a token that [`prepare`] made: only its hash, so that the text is with the caller and nowhere else.
    pub async fn create(&self, record: &TokenRecord, text: &TokenText) -> Result<(), TokenError> {
        let (row, hash) = (record.clone(), hash_of(text.reveal()));
        self.db.write(move |tx| insert(tx, &row, &hash)).await
    }

    /// Makes the first token of this database, unless one was ever made. `keep` puts the text where its owner finds
    /// it and runs first: a crash in between leaves a text without a row, which the next start replaces, and never a
    /// row whose text nobody has.
    pub async fn create_first<E>(
        &self,
        new: NewToken,
        keep: impl FnOnce(&TokenText) -> Result<(), E>,
    ) -> Result<Option<TokenRecord>, E>
    where
        E: From<TokenError>,
    {
        if self.is_bootstrapped().await? {
            return Ok(None);
        }
        let (record, text) = prepare(new)?;
        keep(&text)?;
        let row = record.clone();
        let hash = hash_of(text.reveal());
        let made = self.db.write(move |tx| -> Result<bool, TokenError> {
            let sql = "INSERT INTO access_bootstrap (id, at) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
            if tx.execute(sql, params![row.created_at.as_millisecond()])? == 0 {
                return Ok(false);
            }
            insert(tx, &row, &hash)?;
            Ok(true)
        });
        Ok(made.await?.then_some(record))
    }

    async fn is_bootstrapped(&self) -> Result<bool, TokenError> {
        self.db.read(|tx| Ok(tx.query_opt("SELECT 1 FROM access_bootstrap WHERE id = 1", &[])?.is_some())).await
    }

    /// Every token that has not been revoked, by name.
    pub async fn list(&self) -> Result<Vec<TokenRecord>, TokenError> {
        self.db
            .read(|tx| {
                let sql = format!("SELECT {COLUMNS} FROM access_tokens ORDER BY name");
                tx.query(&sql, &[])?.iter().map(record_of).collect()
            })
            .await
    }

    /// The id of the token with this id or name.
    pub async fn id_of(&self, id_or_name: &str) -> Result<Option<String>, TokenError> {
        if !is_plain(id_or_name) {
            return Ok(None);
        }
        let wanted = id_or_name.to_owned();
        let sql = "SELECT id FROM access_tokens WHERE id = $1 OR name = $1";
        let row = self.db.read(move |tx| tx.query_opt(sql, params![wanted.as_str()]).map_err(TokenError::from));
        row.await?.map(|row| Ok(row.get(0)?)).transpose()
    }

    /// Ends a token by its id or name; it is refused from the next request on.
    pub async fn revoke(&self, id_or_name: &str) -> Result<TokenRecord, TokenError> {
        if !is_plain(id_or_name) {
            return Err(TokenError::NotFound);
        }
        let wanted = id_or_name.to_owned();
        self.db
            .write(move |tx| {
                let sql = format!("DELETE FROM access_tokens WHERE id = $1 OR name = $1 RETURNING {COLUMNS}");
                let row = tx.query_opt(&sql, params![wanted.as_str()])?;
                row.as_ref().map(record_of).ok_or(TokenError::NotFound)?
            })
            .await
    }

    /// The identity behind a token; `None` when there is none (any more).
    pub(crate) async fn find(&self, token: &str) -> Result<Option<Identity>, TokenError> {
        let Some(id) = id_of(token) else { return Ok(None) };
        let presented = hash_of(token);
        let sql = "SELECT hash, expires_at, user_name, user_groups, grants FROM access_tokens WHERE id = $1";
        let Some(row) = self.db.look_up(sql, params![id]).await? else { return Ok(None) };
        let matches = bool::from(row.bytes(0)?.ct_eq(&presented));
        let expires_at = row.get::<Option<i64>>(1)?.map(time).transpose()?;
        if !matches || expires_at.is_some_and(|end| end <= Timestamp::now()) {
            return Ok(None);
        }
        let mut identity = Identity::new(Source::StaticToken, row.get(2)?);
        identity.groups = list(&row.get::<String>(3)?, "groups")?;
        identity.grants = list::<Grant>(&row.get::<String>(4)?, "grants")?.into();
        Ok(identity.admitted())
    }
}

const COLUMNS: &str = "id, name, user_name, user_groups, grants, created_at, created_by, expires_at";

/// Checks what a new token shall be and makes its id and text; nothing is kept yet, so that its id can be on record
/// before it is.
pub fn prepare(new: NewToken) -> Result<(TokenRecord, TokenText), TokenError> {
    let invalid = |field, fault| Err(TokenError::Invalid { field, fault });
    if !is_plain(&new.name) {
        return invalid("name", "must be 1 to 253 characters of letters, digits and . _ : @ / -");
    }
    if new.name.len() == 2 * ID_BYTES && new.name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return invalid("name", "must not look like a token id (16 hexadecimal digits), or 'revoke' could hit another");
    }
    let user = new.user.unwrap_or_else(|| new.name.clone());
    if !is_plain(&user) || !new.groups.iter().all(|group| is_plain(group)) {
        return invalid("user", "and 'groups' must be 1 to 253 characters of letters, digits and . _ : @ / - each");
    }
    if is_system(&user) || new.groups.iter().any(|group| is_system(group)) {
        return invalid("user", "and 'groups' must not begin with 'system:': only Kubernetes says that of a caller");
    }
    if new.grants.is_empty() {
        return invalid("grants", "must name at least one ROLE@NAMESPACE-PATTERN, else the token could do nothing");
    }
    let now = Timestamp::now();
    if new.expires_at.is_some_and(|end| end <= now) {
        return invalid("expires", "must be in the future");
    }
    let mut id = [0; ID_BYTES];
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    rand::fill(&mut id).and_then(|()| rand::fill(secret.as_mut_slice())).map_err(|_| TokenError::Random)?;
    let id = crate::hex(&id);
    let text = Zeroizing::new(format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret.as_slice())));
    // Milliseconds are what the database keeps: the record must be the same when it is read back.
    let kept = |time: Timestamp| Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time);
    let record = TokenRecord {
        id,
        name: new.name,
        user,
        groups: new.groups,
        grants: new.grants,
        created_at: kept(now),
        created_by: new.created_by,
        expires_at: new.expires_at.map(kept),
    };
    Ok((record, TokenText(text)))
}

fn insert(tx: &mut Tx<'_>, record: &TokenRecord, hash: &[u8]) -> Result<(), TokenError> {
    let groups = serde_json::to_string(&record.groups).map_err(|_| TokenError::Damaged("groups"))?;
    let grants = serde_json::to_string(&record.grants).map_err(|_| TokenError::Damaged("grants"))?;
    let sql = format!(
        "INSERT INTO access_tokens ({COLUMNS}, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
         ON CONFLICT (name) DO NOTHING"
    );
    let inserted = tx.execute(
        &sql,
        params![
            record.id.as_str(),
            record.name.as_str(),
            record.user.as_str(),
            groups,
            grants,
            record.created_at.as_millisecond(),
            record.created_by.as_str(),
            record.expires_at.map(Timestamp::as_millisecond),
            hash
        ],
    )?;
    if inserted == 1 { Ok(()) } else { Err(TokenError::NameTaken) }
}

fn record_of(row: &Row) -> Result<TokenRecord, TokenError> {
    Ok(TokenRecord {
        id: row.get(0)?,
        name: row.get(1)?,
        user: row.get(2)?,
        groups: list(&row.get::<String>(3)?, "groups")?,
        grants: list(&row.get::<String>(4)?, "grants")?,
        created_at: time(row.get(5)?)?,
        created_by: row.get(6)?,
        expires_at: row.get::<Option<i64>>(7)?.map(time).transpose()?,
    })
}

fn list<T: DeserializeOwned>(text: &str, what: &'static str) -> Result<Vec<T>, TokenError> {
    serde_json::from_str(text).map_err(|_| TokenError::Damaged(what))
}

fn time(millis: i64) -> Result<Timestamp, TokenError> {
    Timestamp::from_millisecond(millis).map_err(|_| TokenError::Damaged("time"))
}

fn id_of(token: &str) -> Option<&str> {
    let (id, secret) = token.strip_prefix(PREFIX)?.split_once('_')?;
    (id.len() == 2 * ID_BYTES && !secret.is_empty()).then_some(id)
}

fn hash_of(token: &str) -> Vec<u8> {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@/-".contains(&byte);
    !name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(plain)
}
