//! States of every size on every store: they come back byte for byte, and the server takes little memory for them.

use std::io::Read as _;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use testbed::Cluster;
use testbed::states::{Options, RESOURCE_BYTES, generate};
use testbed::{Postgres, Weed, scale};

use crate::compat::beside_cluster;
use crate::server::{Server, Start};
use crate::states::user;

/// What the server may take beside the compressed state.
pub(crate) const BESIDE: u64 = 64 << 20;

/// A server, a token of somebody who may write there, and where.
struct Place {
    name: &'static str,
    server: Server,
    token: String,
    namespace: String,
}

async fn places() -> Vec<Place> {
    let sqlite = Start::new().serve();
    let postgres = Postgres::shared().expect("PostgreSQL");
    let database = postgres.url(&postgres.create_database().expect("a database"));
    let postgres = Start::new().variable("STATEWARD_DATABASE_URL", &database).serve();
    let mut places = Vec::new();
    for (name, server) in [("sqlite", sqlite), ("postgres", postgres)] {
        let token = user(&server, "ann", &["editor@*"]).await.token;
        places.push(Place { name, server, token, namespace: "team-a".to_owned() });
    }
    places.push(s3().await);
    Cluster::shared().await;
    for name in ["configmap", "secret"] {
        let (server, token, namespace) =
            beside_cluster("sizes", |start| start.flag("--states-routes", format!("*={name}"))).await;
        places.push(Place { name, server, token, namespace });
    }
    places
}

async fn s3() -> Place {
    let weed = Weed::shared().expect("weed");
    let server = Start::new()
        .variable("STATEWARD_S3_SECRET_ACCESS_KEY", Weed::SECRET_ACCESS_KEY)
        .flag("--s3-access-key-id", Weed::ACCESS_KEY_ID)
        .flag("--s3-bucket", weed.create_bucket().expect("a bucket"))
        .flag("--s3-endpoint", weed.url())
        .switch("--s3-allow-http")
        .flag("--states-routes", "*=s3")
        .serve();
    let token = user(&server, "ann", &["editor@*"]).await.token;
    Place { name: "s3", server, token, namespace: "team-a".to_owned() }
}

impl Place {
    fn request(&self, method: &str, state: &str) -> reqwest::RequestBuilder {
        let client =
            self.server.client_builder().timeout(std::time::Duration::from_mins(10)).build().expect("a client");
        let path = format!("/state/{}/{state}", self.namespace);
        self.server.request_by(&client, method, &path).bearer_auth(&self.token)
    }

    /// Writes a state; what the server took at most meanwhile.
    async fn write(&self, state: &str, bytes: Vec<u8>) -> u64 {
        self.server.forget_peak();
        let response = self.request("POST", state).body(bytes).send().await.expect("an answer");
        let status = response.status().as_u16();
        assert_eq!(status, 200, "{}: {}", self.name, response.text().await.unwrap_or_default());
        self.server.peak_memory()
    }

    /// Reads a state as the client asks for it; whether it came packed.
    async fn read(&self, state: &str, accept: &str) -> (Vec<u8>, bool) {
        let response = self.request("GET", state).header("Accept-Encoding", accept).send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200, "{}", self.name);
        let packed = response.headers().get("content-encoding").is_some_and(|coding| coding == "gzip");
        let md5 = response.headers()["content-md5"].clone();
        let bytes = response.bytes().await.expect("a body").to_vec();
        assert_eq!(md5, base64_md5(&bytes), "{}: the Content-MD5 is of what was sent", self.name);
        if !packed {
            return (bytes, false);
        }
        let mut whole = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut whole).expect("gzip");
        (whole, true)
    }

    async fn check(&self, state: &str, sent: &[u8], what: &str) {
        let (plain, packed) = self.read(state, "identity").await;
        assert!(!packed, "{} {what}: packed for one who does not take it", self.name);
        assert!(plain == sent, "{} {what}: other bytes came back", self.name);
        let (unpacked, _) = self.read(state, "gzip").await;
        assert_eq!(digest(&SHA256, &unpacked).as_ref(), digest(&SHA256, sent).as_ref(), "{} {what}", self.name);
    }
}

fn base64_md5(bytes: &[u8]) -> String {
    base64::prelude::BASE64_STANDARD.encode(<md5::Md5 as md5::Digest>::digest(bytes))
}

pub(crate) fn compressed_size(bytes: &[u8]) -> u64 {
    let mut packed = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(bytes, flate2::Compression::fast());
    encoder.read_to_end(&mut packed).expect("memory") as u64
}

#[tokio::test(flavor = "multi_thread")]
async fn states_of_every_size_come_back_as_they_were_and_take_little_memory() {
    let sizes: &[usize] = scale().of(&[10_000, 1_500_000], &[10_000, 1_500_000, 20_000_000, 110_000_000, 300_000_000]);
    let places = places().await;
    for &size in sizes {
        let resources = size / RESOURCE_BYTES;
        let first = generate(resources, 7, &Options::default());
        let changed = Options { serial: 2, edits: [(resources / 2, 1)].into() };
        let second = generate(resources, 7, &changed);
        let bound = BESIDE + compressed_size(&first);
        for place in &places {
            let state = format!("of-{size}");
            let one = place.write(&state, first.clone()).await;
            place.check(&state, &first, &format!("{size} bytes")).await;
            let two = place.write(&state, second.clone()).await;
            place.check(&state, &second, &format!("{size} bytes, one resource changed")).await;
            #[expect(clippy::print_stderr, reason = "the figures of the run")]
            {
                let (one, two, bound) = (one >> 20, two >> 20, bound >> 20);
                let name = place.name;
                eprintln!("{name}, {size} bytes: peak {one} MiB, once more {two} MiB, bound {bound} MiB");
            }
            // Of a small state, most of it is the program itself, whose pages count twice as much in a debug build.
            if size >= 100_000_000 {
                assert!(one.max(two) <= bound, "{} took {one} and {two} bytes for {size}, bound {bound}", place.name);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_states_come_back_as_they_were() {
    let numbers = "{\n  \"version\": 4,\n  \"serial\": 1,\n  \"big\": 12345678901234567890123,\n  \"price\": 1.50,\n  \"power\": -0.0E+10\n}\n";
    let escapes = "{\n  \"version\": 4,\n  \"serial\": 1,\n  \"a\": \"\\u003ca\\u0026b\\u003e \\u2028 \\\"\\\\\\/\\b\\f\\n\\r\\t\",\n  \"b\": \"ä€𝄞\"\n}\n";
    let indented = "\n\t{ \"version\":4 ,\r\n\"serial\" :  1,\"x\" : [ 1,\n\n 2 , { } ,[ ] ] }\t\n ";
    let minified = "{\"version\":4,\"serial\":1,\"resources\":[{\"a\":[]},{}]}";
    let mut random = fastrand::Rng::with_seed(9);
    let noise: Vec<u8> = (0..300_000).map(|_| random.u8(..)).collect();
    let sealed = format!(
        "{{\"serial\":7,\"lineage\":\"3f1c\",\"meta\":{{\"key_provider.pbkdf2.k\":\"eyJzYWx0Ijoi\"}},\"encrypted_data\":\"{}\",\"encryption_version\":\"v0\"}}",
        base64::prelude::BASE64_STANDARD.encode(&noise)
    );
    for place in places().await {
        let mut packed = 0;
        for (index, text) in [numbers, escapes, indented, minified, &sealed].into_iter().enumerate() {
            let state = format!("odd-{index}");
            place.write(&state, text.as_bytes().to_vec()).await;
            place.check(&state, text.as_bytes(), &state).await;
            packed += usize::from(place.read(&state, "gzip, deflate").await.1);
        }
        let in_objects = matches!(place.name, "configmap" | "secret");
        assert_eq!(packed, if in_objects { 5 } else { 0 }, "{}: stored gzip is passed on", place.name);
    }
}
