//! What the API server was asked, by whom: its audit log, at the level Metadata.
//!
//! The control plane's own requests are not in it, and so none of a ServiceAccount of `kube-system`; those of the
//! testbed's helpers are, as [`super::ADMIN`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use serde_json::Value;

use super::Cluster;
use crate::eventually;

/// One request, as the API server saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    pub user: String,
    pub groups: Vec<String>,
    /// `get`, `list`, `watch`, `create`, ...
    pub verb: String,
    /// Empty for the core group and for paths that are no resource.
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
    /// What the program called itself.
    pub agent: String,
    pub status: u16,
}

impl AuditEvent {
    /// Whether somebody asked the API server to check a token.
    pub fn is_token_review(&self) -> bool {
        self.verb == "create" && self.resource == "tokenreviews"
    }

    /// Whether somebody asked the API server to decide about an access.
    pub fn is_subject_access_review(&self) -> bool {
        self.verb == "create" && self.resource == "subjectaccessreviews"
    }
}

impl Cluster {
    /// All requests so far that `filter` takes, each once, in the order in which they were answered. A watch is there
    /// as soon as it began.
    ///
    /// The line of a request is written about when its answer is sent. So that none of the past is missed, this makes
    /// a request of its own and waits for its line, unless the API server is stopped.
    pub async fn audit_events(&self, filter: impl Fn(&AuditEvent) -> bool) -> Vec<AuditEvent> {
        let path = format!("/version?audit-marker={}", uuid::Uuid::new_v4());
        let marker = http::Request::get(&path).body(Vec::new()).expect("a request");
        if self.client().request_text(marker).await.is_ok() {
            let written = || async { self.read_audit_log().iter().any(|event| event.path == path) };
            eventually(Duration::from_mins(1), written).await;
        }
        self.read_audit_log().into_iter().filter(|event| filter(event)).collect()
    }

    /// The verbs and resources (`create tokenreviews`) that a user has used, sorted, each once.
    pub async fn verbs_used_by(&self, user: &str) -> Vec<String> {
        let events = self.audit_events(|event| event.user == user && !event.resource.is_empty()).await;
        let mut verbs: Vec<String> = events.iter().map(|event| format!("{} {}", event.verb, event.resource)).collect();
        verbs.sort();
        verbs.dedup();
        verbs
    }

    fn read_audit_log(&self) -> Vec<AuditEvent> {
        let log = std::fs::read(self.plane.directory.path("audit.log")).unwrap_or_default();
        let mut events: Vec<AuditEvent> = Vec::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        // A line that is being written has no end yet and does not parse.
        for line in log.split(|&byte| byte == b'\n') {
            let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
            let event = event(&line);
            // A watch has a line at its start and one at its end.
            match seen.entry(text(&line["auditID"])) {
                Entry::Occupied(first) => events[*first.get()] = event,
                Entry::Vacant(first) => {
                    first.insert(events.len());
                    events.push(event);
                }
            }
        }
        events
    }
}

fn event(line: &Value) -> AuditEvent {
    let object = &line["objectRef"];
    let groups = line["user"]["groups"].as_array();
    AuditEvent {
        user: text(&line["user"]["username"]),
        groups: groups.into_iter().flatten().map(text).collect(),
        verb: text(&line["verb"]),
        group: text(&object["apiGroup"]),
        resource: text(&object["resource"]),
        subresource: text(&object["subresource"]),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        path: text(&line["requestURI"]),
        agent: text(&line["userAgent"]),
        status: line["responseStatus"]["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
