//! The original and we, in turns on the same objects: neither ever misreads what the other wrote.

use fastrand::Rng;
use testbed::{Cluster, scale, seed};

use crate::backend::{Backend, EVERYTHING, Launch};
use crate::compat::{info, somebody};
use crate::original::{Original, minified};
use crate::server::answer;

/// What both must agree on.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    /// As a GET of ours answers.
    state: String,
    lock: Option<String>,
}

struct Table {
    backend: Backend,
    client: reqwest::Client,
    original: Original,
    token: String,
    namespace: String,
}

impl Table {
    async fn ours(&self, method: &str, name: &str, id: Option<&str>, body: String) -> (u16, String) {
        let query = id.map(|id| format!("?ID={id}")).unwrap_or_default();
        let path = format!("/{}/{name}{query}", self.namespace);
        answer(self.backend.request_by(&self.client, method, &path).basic_auth("x", Some(&self.token)).body(body)).await
    }
}

/// A state as clients write it, of any content.
fn state(random: &mut Rng) -> String {
    let (serial, text) = (random.u64(..), random.u64(..));
    format!(
        "{{\n  \"version\": 4,\n  \"serial\": {serial},\n  \"lineage\": \"a \\\" {text:x}\",\n  \"resources\": []\n}}\n"
    )
}

#[tokio::test]
async fn in_any_order_each_finds_what_the_other_left() {
    let mut random = Rng::with_seed(seed("exchange"));
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("exchange").await;
    let token = somebody(cluster, &namespace, "full", EVERYTHING).await;
    for (compress, minify) in [(false, false), (true, false), (false, true), (true, true)] {
        let launch = Launch::new().await;
        let launch = launch.switch(&format!("--compress-state={compress}"));
        let backend = launch.switch(&format!("--minify-state={minify}")).start();
        let client = backend.client_builder().build().unwrap();
        let maps = kube::Api::namespaced(cluster.client(), &namespace);
        let original = Original { maps, compress, minify };
        let table = Table { backend, client, original, token: token.clone(), namespace: namespace.clone() };
        let name = format!("shared-{compress}-{minify}");
        let (mut model, mut history) = (Model::default(), Vec::new());
        for number in 0..scale().of(60, 1000) {
            history.push(step(&table, &name, number, &mut model, &mut random).await);
            let found = table.ours("GET", &name, None, String::new()).await;
            assert_eq!(found, (200, model.state.clone()), "we read something else after {history:#?}");
            let expected = if minify { minified(&model.state) } else { model.state.clone() };
            let (status, found) = table.original.get(&name).await;
            let found = String::from_utf8(found).unwrap();
            assert_eq!((status, found), (200, expected), "the original reads something else after {history:#?}");
        }
    }
}

/// It answers 409 when somebody else changed the object meanwhile, as we do for a moment after a write of ours when old versions
/// are put away; its client asks again.
async fn again<F: Future<Output = u16>>(mut ask: impl FnMut() -> F) -> u16 {
    for _ in 0..10 {
        let status = ask().await;
        if status != 409 {
            return status;
        }
    }
    409
}

/// One request to one of the two, right or wrong; tells what it was.
async fn step(table: &Table, name: &str, number: usize, model: &mut Model, random: &mut Rng) -> String {
    let (ours, right) = (random.bool(), random.u8(..4) > 0);
    let held = model.lock.clone();
    let wrong = format!("wrong-{number}");
    let id = if right { held.clone() } else { Some(wrong.clone()) };
    let id = id.as_deref();
    let (what, status, expected) = match random.u8(..10) {
        0..4 => {
            let state = state(random);
            let status = if ours {
                table.ours("POST", name, id, state.clone()).await.0
            } else {
                again(|| table.original.post(name, id, &state)).await
            };
            if right {
                model.state = if table.original.minify && !ours { minified(&state) } else { state };
            }
            ("POST", status, if right { 200 } else { 423 })
        }
        4..7 => {
            let id = if right && held.is_some() { held.clone().unwrap() } else { format!("lock-{number}") };
            let status = if ours {
                table.ours("LOCK", name, None, info(Some(&id))).await.0
            } else {
                again(|| table.original.lock(name, &id)).await
            };
            let free = held.as_ref().is_none_or(|held| *held == id);
            if free {
                model.lock = Some(id);
            }
            ("LOCK", status, if free { 200 } else { 423 })
        }
        // Whether there is an object at all is not for both to agree on after a DELETE.
        _ if *model == Model::default() => return "nothing".to_owned(),
        7..9 => {
            let body = id.map(|id| info(Some(id))).unwrap_or_default();
            let status = if ours {
                table.ours("UNLOCK", name, None, body).await.0
            } else {
                again(|| table.original.unlock(name, id)).await
            };
            let allowed = right || held.is_none();
            if allowed {
                model.lock = None;
            }
            ("UNLOCK", status, if allowed { 200 } else { 423 })
        }
        _ => {
            let status = if ours {
                table.ours("DELETE", name, id, String::new()).await.0
            } else {
                again(|| table.original.delete(name, id)).await
            };
            if right {
                *model = Model::default();
            }
            ("DELETE", status, if right { 200 } else { 423 })
        }
    };
    let told = format!("{number}: {what} by {} with {id:?}", if ours { "us" } else { "the original" });
    assert_eq!(status, expected, "{told} while {held:?} holds it");
    told
}
