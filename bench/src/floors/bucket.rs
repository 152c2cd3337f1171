//! An object per client in a bucket: GET, then a PUT on the condition of the ETag that was read.

use anyhow::Result;
use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion};
use testbed::Weed;

use super::name;

pub(crate) struct Bucket(AmazonS3);

/// A bucket by the bare client.
pub(crate) fn open(server: &Weed, bucket: &str) -> Result<AmazonS3> {
    let builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_region(Weed::REGION)
        .with_access_key_id(Weed::ACCESS_KEY_ID)
        .with_secret_access_key(Weed::SECRET_ACCESS_KEY)
        .with_endpoint(server.url())
        .with_allow_http(true);
    Ok(builder.build()?)
}

impl Bucket {
    pub(super) async fn new(server: &Weed, clients: usize, payload: &Bytes) -> Result<Bucket> {
        let bucket = open(server, &server.create_bucket()?)?;
        for client in 0..clients {
            bucket.put(&Path::from(name(client)), PutPayload::from_bytes(payload.clone())).await?;
        }
        Ok(Bucket(bucket))
    }

    /// The tag of what was read.
    pub(super) async fn read(&self, client: usize) -> Result<Option<String>> {
        let found = self.0.get(&Path::from(name(client))).await?;
        let tag = found.meta.e_tag.clone();
        std::hint::black_box(found.bytes().await?);
        Ok(tag)
    }

    pub(super) async fn rewrite(&self, client: usize, payload: &Bytes) -> Result<()> {
        let e_tag = self.read(client).await?;
        let mode = PutMode::Update(UpdateVersion { e_tag, version: None });
        let options = PutOptions { mode, ..PutOptions::default() };
        self.0.put_opts(&Path::from(name(client)), PutPayload::from_bytes(payload.clone()), options).await?;
        Ok(())
    }
}
