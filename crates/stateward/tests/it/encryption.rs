//! Encryption at rest, with a real server: keys of every kind on every store, as clients, operators and thieves meet it.

mod named_key;
mod stored;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::Value;
use states::store::{Expect, Found};
use testbed::states::{Options, RESOURCE_BYTES, generate};
use testbed::{Cluster, Vault};

use crate::original::Original;
use crate::places::{Kept, LARGE_STORES, Place, on};
use crate::server::{PATIENCE, Start, answer, status};
use crate::terraform::Workspace;
use named_key::{Kind, NamedKey};
use stored::{holds, stored};

const VALUE: &str = "canary-value-4711";
const ADDRESS: &str = "canary_address_4711";
const CONFIGURATION: &str = r#"
resource "terraform_data" "canary_address_4711" {
  input = "canary-value-4711"
}
"#;
/// What every state that the testbed generates holds: a type, the beginning of its ids, of a value.
const GENERATED: [&str; 3] = ["aws_instance", "arn:aws:ec2:", "compute.internal"];

/// Every kind of key with every store in `make soak`; each at least once in `make test`.
fn kinds(kept: Kept) -> Vec<Kind> {
    let one = match kept {
        Kept::Sqlite | Kept::S3 => Kind::File,
        Kept::ConfigMap | Kept::Kubernetes => Kind::Secret,
        Kept::Postgres | Kept::Secret => Kind::Transit,
    };
    testbed::scale().of(vec![one], vec![Kind::File, Kind::Secret, Kind::Transit])
}

async fn sealing(kept: Kept, key: &NamedKey) -> Place {
    Place::with(kept, key.beside(), key.settings()).await
}

/// A state of about three megabytes, so that it is in chunks.
fn large(serial: u64) -> Vec<u8> {
    let edits = [(17, serial)].into();
    generate((3 << 20) / RESOURCE_BYTES, 4711, &Options { serial, edits })
}

fn small(serial: u64) -> Vec<u8> {
    generate(1, 4711, &Options { serial, ..Options::default() })
}

impl Place {
    async fn post(&self, name: &str, state: Vec<u8>) -> (u16, String) {
        answer(self.server.request("POST", &self.path(name)).bearer_auth(&self.token).body(state)).await
    }

    async fn put(&self, name: &str, state: Vec<u8>) {
        let (status, text) = self.post(name, state).await;
        assert_eq!(status, 200, "{text}");
    }

    async fn get(&self, name: &str) -> (u16, String) {
        answer(self.server.request("GET", &self.path(name)).bearer_auth(&self.token)).await
    }

    /// Comes back byte for byte.
    async fn has(&self, name: &str, state: &[u8]) {
        let (status, text) = self.get(name).await;
        assert!(status == 200 && text.as_bytes() == state, "{name}: {status} {}", &text[..text.len().min(300)]);
    }
}

#[test]
fn clients_live_with_sealed_states_and_nobody_finds_anything_in_the_store() {
    on(&LARGE_STORES, async |kept| {
        let tofu = testbed::peer("tofu").expect("tofu");
        for kind in kinds(kept) {
            let key = NamedKey::new(kind).await;
            let place = sealing(kept, &key).await;
            let workspace = Workspace::at(&place, &tofu, "app");
            fs::write(workspace.directory.join("main.tf"), CONFIGURATION).unwrap();
            workspace.ok(&["init"]);
            workspace.ok(&["apply", "-auto-approve"]);
            assert!(workspace.ok(&["plan"]).contains("No changes"));
            let state = place.state("app").await;
            let id = state.pointer("/resources/0/instances/0/attributes/id").and_then(Value::as_str).expect("an id");
            for serial in 1..=3 {
                place.put("large", large(serial)).await;
            }
            nothing_of(&[VALUE, ADDRESS, id], &place).await;
            nothing_of(&GENERATED, &place).await;
            place.has("large", &large(3)).await;
            let shown = place.user().send("GET", &format!("/api/states/{}/app", place.namespace), "").await.1;
            assert!(shown.contains("\"sealed\":true"), "{shown}");
            workspace.ok(&["destroy", "-auto-approve"]);
            nothing_of(&[VALUE, ADDRESS, id], &place).await;
        }
    });
}

/// Not in the store, not in the files of the server, not in its log.
async fn nothing_of(canaries: &[&str], place: &Place) {
    let mut all = stored(place).await;
    assert!(all.iter().any(|bytes| holds(bytes, "wrapped")), "heads can be read");
    all.push(place.server.process.log().into_bytes());
    for canary in canaries {
        assert!(!all.iter().any(|bytes| holds(bytes, canary)), "{canary} is in {}", place.kept.name());
    }
}

#[test]
fn the_same_search_finds_everything_that_is_not_sealed() {
    on(&LARGE_STORES, async |kept| {
        let place = Place::new(kept).await;
        place.put("small", small(1)).await;
        let found = |all: Vec<Vec<u8>>| GENERATED.map(|canary| all.iter().any(|bytes| holds(bytes, canary)));
        assert_eq!(found(stored(&place).await), [true; 3], "in the head");
        place.put("small", b"{\"version\": 4, \"serial\": 2}".to_vec()).await;
        let place = Place::new(kept).await;
        place.put("large", large(1)).await;
        assert_eq!(found(stored(&place).await), [true; 3], "in chunks");
    });
}

#[test]
fn a_rotated_key_wraps_old_states_anew_without_a_restart_and_its_old_version_may_go() {
    on(&LARGE_STORES, async |kept| {
        for kind in kinds(kept) {
            let key = NamedKey::new(kind).await;
            let mut place = sealing(kept, &key).await;
            let states = [("small", small(1)), ("large", large(1))];
            let mut old = Vec::new();
            for (name, state) in &states {
                place.put(name, state.clone()).await;
                old.push(wrapped_by(&place, name).await);
            }
            key.rotate().await;
            for ((name, _), old) in states.iter().zip(old) {
                testbed::eventually(PATIENCE, || async { wrapped_by(&place, name).await != old }).await;
            }
            key.remove_oldest().await;
            for (name, state) in &states {
                place.has(name, state).await;
            }
            // Nobody remembers anything.
            place.kill();
            place.start_again();
            for (name, state) in &states {
                place.has(name, state).await;
                place.put(name, small(2)).await;
                place.has(name, &small(2)).await;
            }
        }
    });
}

/// The version of the key that wraps the key of a state.
async fn wrapped_by(place: &Place, name: &str) -> String {
    place.head(name).await.seal.expect("a sealed state").wrapped.version
}

#[test]
fn another_key_in_its_place_is_refused_with_its_name_and_version() {
    on(&[Kept::Sqlite, Kept::Postgres, Kept::ConfigMap], async |kept| {
        let key = NamedKey::new(match kept {
            Kept::Sqlite => Kind::File,
            Kept::Postgres => Kind::Transit,
            _ => Kind::Secret,
        })
        .await;
        let mut place = sealing(kept, &key).await;
        for (name, state) in [("small", small(1)), ("large", large(1))] {
            place.put(name, state).await;
        }
        let version = wrapped_by(&place, "small").await;
        place.kill();
        key.replace().await;
        place.start_again();
        for name in ["small", "large"] {
            for (status, text) in [place.get(name).await, place.post(name, small(2)).await] {
                assert_eq!(status, 422, "{text}");
                assert!(text.contains("'main'") && text.contains(&format!("'{version}'")), "{text}");
            }
        }
        place.put("new", small(1)).await;
        place.has("new", &small(1)).await;
    });
}

#[tokio::test]
async fn a_key_service_that_is_down_is_a_503_in_time_and_everything_works_when_it_is_back() {
    let vault = Vault::start().await.expect("Vault");
    let key = NamedKey::in_vault(&vault).await;
    let place = sealing(Kept::Sqlite, &key).await;
    place.put("app", small(1)).await;
    for way in ["stopped", "killed", "sealed"] {
        match way {
            "stopped" => vault.stop().expect("a stop"),
            "killed" => vault.kill(),
            _ => vault.seal().await.expect("a seal"),
        }
        // The key is remembered for a moment.
        testbed::eventually(PATIENCE, || async {
            // The setting says three seconds; the rest is for a slow machine. A client does not wait for ever.
            let (status, text) = tokio::time::timeout(PATIENCE, place.get("app")).await.expect("an answer in time");
            assert!(status == 200 || status == 503, "{way}: {status} {text}");
            status == 503
        })
        .await;
        let (status, text) = place.post("app", small(2)).await;
        assert!(status == 503 && text.contains("key"), "{way}: {status} {text}");
        let user = place.user();
        assert_eq!(user.does("LOCK", &place.path("app"), r#"{"ID":"a"}"#).await, 200, "{way}: locks need no key");
        assert_eq!(user.does("UNLOCK", &place.path("app"), r#"{"ID":"a"}"#).await, 200, "{way}");
        match way {
            "sealed" => vault.unseal().await.expect("unsealed"),
            _ => vault.start_again().await.expect("a start"),
        }
        testbed::eventually(PATIENCE, || async { place.get("app").await.0 == 200 }).await;
        place.has("app", &small(1)).await;
    }
    place.put("app", small(2)).await;
}

#[test]
fn what_is_moved_to_another_state_is_refused() {
    on(&LARGE_STORES, async |kept| {
        let key = NamedKey::new(Kind::File).await;
        let place = sealing(kept, &key).await;
        let store = place.store().await;
        for (size, state) in [("small", small(1)), ("large", large(1))] {
            place.put(size, state.clone()).await;
            let (stolen, other) = (format!("{size}-stolen"), format!("{size}-other"));
            place.put(&other, state).await;
            let head = place.head(size).await;
            store.write_head(&place.key(&stolen), &head, &Expect::Nothing).await.expect("a copy");
            let Found { revision, .. } = store.read_head(&place.key(&other)).await.unwrap().expect("a head");
            store.write_head(&place.key(&other), &head, &Expect::Revision(revision)).await.expect("an exchange");
            for name in [&stolen, &other] {
                let (status, text) = place.get(name).await;
                assert!(status == 422 && text.contains("for another place"), "{name}: {status} {text}");
            }
            assert_eq!(place.get(size).await.0, 200);
        }
    });
}

#[tokio::test]
async fn other_readers_of_config_maps_fail_on_a_sealed_state_and_a_copied_one_is_refused() {
    let key = NamedKey::new(Kind::File).await;
    let place = sealing(Kept::ConfigMap, &key).await;
    let maps: Api<ConfigMap> = Api::namespaced(Cluster::shared().await.client(), &place.namespace);
    for (name, state) in [("small", small(1)), ("large", large(1))] {
        place.put(name, state).await;
        let map = maps.get(name).await.expect("a ConfigMap");
        let file = &map.binary_data.as_ref().expect("data")["tfstate"].0;
        assert!(!file.is_empty() && file.len() < 200 && serde_json::from_slice::<Value>(file).is_err(), "{file:?}");
        let original = |compress| Original { maps: maps.clone(), compress, minify: false };
        assert_eq!(original(true).get(name).await.0, 500, "no gzip");
        assert_eq!(&original(false).get(name).await.1, file, "no JSON, and not nothing");

        let metadata = ObjectMeta {
            name: Some(format!("{name}-copy")),
            annotations: map.metadata.annotations.clone(),
            labels: map.metadata.labels.clone(),
            ..ObjectMeta::default()
        };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..map }).await.expect("a copy");
        let (status, text) = place.get(&format!("{name}-copy")).await;
        assert!(status == 422 && text.contains("for another place"), "{status} {text}");
        assert_eq!(place.get(name).await.0, 200);
    }
}

#[tokio::test]
async fn an_upload_that_waits_on_the_disk_cannot_be_read_there() {
    let key = NamedKey::new(Kind::File).await;
    let server = key.settings()(Start::new()).serve();
    let token = server.first_token();
    // Noise does not pack well: more than waits in memory.
    let noise: Vec<String> = (0..3 << 19).map(|_| format!("{:016x}", fastrand::u64(..))).collect();
    let state = serde_json::json!({"version": 4, "serial": 1, "canaries": GENERATED, "noise": noise}).to_string();
    let state = state.as_bytes();
    let mut upload = TcpStream::connect(server.address()).unwrap();
    let head = format!(
        "POST /state/team-a/app HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n",
        server.address(),
        state.len()
    );
    let (most, rest) = state.split_at(state.len() - 1000);
    let begun = upload.write_all(head.as_bytes()).and_then(|()| upload.write_all(most));
    assert!(begun.is_ok(), "{begun:?}: {}", server.process.log_tail());
    // Files without a name: only the process has them.
    let (process, spool) = (format!("/proc/{}/fd", server.process.pid()), server.data.join("spool"));
    let waiting = testbed::eventually(PATIENCE, || async {
        let opened = fs::read_dir(&process).unwrap().map(|entry| entry.unwrap().path());
        let mut spooled = opened.filter(|file| fs::read_link(file).is_ok_and(|target| target.starts_with(&spool)));
        spooled.next().and_then(|file| fs::read(file).ok()).filter(|bytes| bytes.len() > 8 << 20)
    })
    .await;
    for canary in GENERATED {
        assert!(!holds(&waiting, canary), "{canary}");
    }
    upload.write_all(rest).unwrap();
    let mut answered = String::new();
    std::io::Read::read_to_string(&mut upload, &mut answered).unwrap();
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    assert_eq!(status(server.request("GET", "/state/team-a/app").bearer_auth(&token)).await, 200);
}
