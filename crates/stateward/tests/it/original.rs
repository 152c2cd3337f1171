//! tf-kubernetes-configmap-backend by its own rules, straight on the cluster: what it reads, writes and refuses of a
//! ConfigMap. It stands in for the program, which cannot be had, wherever both work on the same objects.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

pub const LOCK: &str = "tf-kubernetes-configmap-backend.jimmidyson.github.com/lock-";

/// A backend with its two flags about states.
pub struct Original {
    pub maps: Api<ConfigMap>,
    pub compress: bool,
    pub minify: bool,
}

impl Original {
    pub async fn get(&self, name: &str) -> (u16, Vec<u8>) {
        let map = self.maps.get_opt(name).await.unwrap();
        let file = map.and_then(|mut map| map.binary_data.as_mut()?.remove("tfstate"));
        let Some(ByteString(file)) = file else { return (200, Vec::new()) };
        if !self.compress {
            return (200, file);
        }
        let mut text = Vec::new();
        match flate2::read::GzDecoder::new(file.as_slice()).read_to_end(&mut text) {
            Ok(_) => (200, text),
            Err(_) => (500, Vec::new()),
        }
    }

    pub async fn post(&self, name: &str, id: Option<&str>, state: &str) -> u16 {
        let (mut map, exists) = self.found(name).await;
        if lock_id(&map) != id {
            return 423;
        }
        map.binary_data.get_or_insert_default().insert("tfstate".to_owned(), ByteString(self.stored(state)));
        self.put(map, exists).await
    }

    pub async fn lock(&self, name: &str, id: &str) -> u16 {
        let (mut map, exists) = self.found(name).await;
        if lock_id(&map).is_some_and(|held| held != id) {
            return 423;
        }
        map.metadata.annotations.get_or_insert_default().extend(annotations(id));
        self.put(map, exists).await
    }

    /// `None`: an empty body.
    pub async fn unlock(&self, name: &str, id: Option<&str>) -> u16 {
        let (mut map, exists) = self.found(name).await;
        if !exists {
            return 404;
        }
        match (lock_id(&map), id) {
            (None, _) => return 200,
            (Some(held), Some(id)) if held != id => return 423,
            _ => {}
        }
        map.metadata.annotations.get_or_insert_default().retain(|key, _| !key.starts_with(LOCK));
        self.put(map, exists).await
    }

    pub async fn delete(&self, name: &str, id: Option<&str>) -> u16 {
        let (map, exists) = self.found(name).await;
        if !exists {
            return 404;
        }
        if lock_id(&map) != id {
            return 423;
        }
        self.maps.delete(name, &DeleteParams::default()).await.unwrap();
        200
    }

    /// What it stores for a state.
    pub fn stored(&self, state: &str) -> Vec<u8> {
        let text = if self.minify { minified(state) } else { state.to_owned() };
        if !self.compress {
            return text.into_bytes();
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    async fn found(&self, name: &str) -> (ConfigMap, bool) {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        match self.maps.get_opt(name).await.unwrap() {
            Some(map) => (map, true),
            None => (ConfigMap { metadata, ..ConfigMap::default() }, false),
        }
    }

    /// The whole object goes back as it was read; what the API server says against that is its answer.
    async fn put(&self, map: ConfigMap, exists: bool) -> u16 {
        let name = map.metadata.name.clone().unwrap();
        let put = if exists {
            self.maps.replace(&name, &PostParams::default(), &map).await
        } else {
            self.maps.create(&PostParams::default(), &map).await
        };
        match put {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) if status.code == 409 => 409,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The four annotations of a lock.
pub fn annotations(id: &str) -> BTreeMap<String, String> {
    let pairs = [("id", id), ("operation", "apply"), ("info", ""), ("who", "them@host")];
    pairs.map(|(field, text)| (format!("{LOCK}{field}"), text.to_owned())).into()
}

fn lock_id(map: &ConfigMap) -> Option<&str> {
    map.metadata.annotations.as_ref()?.get(&format!("{LOCK}id")).map(String::as_str)
}

/// JSON without the white space between its tokens.
pub fn minified(text: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let kept = text.chars().filter(|&letter| {
        let space = !inside && letter.is_ascii_whitespace();
        if letter == '"' && !escaped {
            inside = !inside;
        }
        escaped = inside && letter == '\\' && !escaped;
        !space
    });
    kept.collect()
}
