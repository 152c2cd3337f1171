//! The management API as requests and answers.

mod clients;
mod content;
mod locks;
mod openapi;
mod rbac;
mod roles;
mod tombstone;

use serde_json::{Value, json};

use crate::states::User;

/// A path of the API.
fn api(namespace: &str, name: &str, rest: &str) -> String {
    format!("/api/states/{namespace}/{name}{rest}")
}

/// A state with a resource and two outputs; `value` is in all of them.
fn with_outputs(serial: u64, value: &str) -> String {
    json!({
        "version": 4, "terraform_version": "1.12.1", "serial": serial, "lineage": "l",
        "outputs": {
            "open": {"value": format!("open-{value}"), "type": "string"},
            "secret": {"value": format!("secret-{value}"), "type": "string", "sensitive": true},
        },
        "resources": [{
            "mode": "managed", "type": "x_thing", "name": "it", "provider": "provider[\"example.com/a/x\"]",
            "instances": [{"attributes": {"id": "i-1", "note": format!("attribute-{value}")}}],
        }],
    })
    .to_string()
}

impl User<'_> {
    /// An answer that is JSON, with this status.
    #[track_caller]
    fn json(&self, expected: u16, method: &str, path: &str, body: &str) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        let what = format!("{method} {path} at {place}");
        let sent = self.send(method, path, body);
        async move {
            let (status, text) = sent.await;
            assert_eq!(status, expected, "{what}: {text}");
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"))
        }
    }
}
