//! What stands in a store, byte for byte and past the server, and a search that looks through everything that is not
//! encryption: base64, gzip and zstd.

use std::fs;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use db::{Config, Db};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::ListParams;
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use testbed::{Cluster, Postgres, Weed};

use crate::places::{Kept, Place};

/// Everything of a place: its part of the store, and whatever its server keeps on the disk.
pub(crate) async fn stored(place: &Place) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    files(&place.server.data, &mut all);
    let client = async || Cluster::shared().await.client();
    match place.kept {
        // In the file, large rows are cut into pages.
        Kept::Sqlite => {
            let db = Db::open(Config::sqlite(place.database())).await.expect("a database");
            let rows = db.read(|tx| {
                let chunks = tx.query("SELECT bytes FROM state_chunks", &[])?;
                Ok::<_, db::Error>(tx.query("SELECT head FROM state_heads", &[])?.into_iter().chain(chunks))
            });
            all.extend(rows.await.expect("rows").map(|row| row.get::<Vec<u8>>(0).expect("bytes")));
            db.close().await;
        }
        Kept::Postgres => {
            let read = "SELECT translate(encode(head, 'base64'), E'\\n', '') FROM state_heads UNION ALL \
                        SELECT translate(encode(bytes, 'base64'), E'\\n', '') FROM state_chunks";
            let rows = Postgres::shared().expect("PostgreSQL").sql(&place.container, read).expect("rows");
            all.extend(rows.lines().map(|row| BASE64_STANDARD.decode(row).expect("base64")));
        }
        Kept::ConfigMap | Kept::Secret | Kept::Kubernetes => {
            let maps: Api<ConfigMap> = Api::namespaced(client().await, &place.namespace);
            let secrets: Api<Secret> = Api::namespaced(client().await, &place.namespace);
            for map in maps.list(&ListParams::default()).await.expect("ConfigMaps") {
                all.push(serde_json::to_vec(&map).expect("JSON"));
            }
            for secret in secrets.list(&ListParams::default()).await.expect("Secrets") {
                all.push(serde_json::to_vec(&secret).expect("JSON"));
            }
        }
        Kept::S3 => {
            let bucket = AmazonS3Builder::new()
                .with_bucket_name(&place.container)
                .with_endpoint(Weed::shared().expect("weed").url())
                .with_region(Weed::REGION)
                .with_access_key_id(Weed::ACCESS_KEY_ID)
                .with_secret_access_key(Weed::SECRET_ACCESS_KEY)
                .with_allow_http(true)
                .build()
                .expect("a bucket");
            let objects: Vec<_> = bucket.list(None).try_collect().await.expect("objects");
            for object in objects {
                all.push(object.location.to_string().into_bytes());
                match bucket.get(&object.location).await {
                    // What an old version was stored in goes behind our back.
                    Err(object_store::Error::NotFound { .. }) => {}
                    found => all.push(found.expect("an object").bytes().await.expect("bytes").to_vec()),
                }
            }
        }
    }
    all
}

fn files(directory: &Path, all: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            files(&entry, all);
        } else {
            // Journals come and go.
            all.extend(fs::read(&entry));
        }
    }
}

/// Whether a text is in these bytes, also where they are packed or written as text.
pub(crate) fn holds(bytes: &[u8], text: &str) -> bool {
    contains(bytes, text.as_bytes())
        || in_base64(bytes)
            .any(|inner| contains(&inner, text.as_bytes()) || unpacked(&inner).any(|it| contains(&it, text.as_bytes())))
        || unpacked(bytes).any(|inner| contains(&inner, text.as_bytes()))
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    positions(bytes, text).next().is_some()
}

fn positions<'a>(bytes: &'a [u8], text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = text[0];
    let starts = bytes.iter().enumerate().filter(move |(_, byte)| **byte == first);
    starts.map(|(index, _)| index).filter(|&index| bytes[index..].starts_with(text))
}

/// What long runs of base64 stand for.
fn in_base64(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let runs = bytes.split(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')));
    runs.filter(|run| run.len() >= 64).filter_map(|run| BASE64_STANDARD.decode(&run[..run.len() / 4 * 4]).ok())
}

/// What unpacks from anywhere in the bytes, as far as it does.
fn unpacked(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let gzip = positions(bytes, &[0x1f, 0x8b, 0x08]).map(|index| all_of(flate2::read::GzDecoder::new(&bytes[index..])));
    let zstd = positions(bytes, &[0x28, 0xb5, 0x2f, 0xfd]);
    let zstd = zstd.filter_map(|index| zstd::stream::read::Decoder::new(&bytes[index..]).ok()).map(all_of);
    gzip.chain(zstd)
}

fn all_of(mut reader: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = reader.read_to_end(&mut all);
    all
}
