//! Random rows, sights and questions, few enough different ones that they meet.

use std::collections::BTreeMap;

use explorer::query::{Facets, Order, Query};
use explorer::{Index, Key, Row, Status};
use fastrand::Rng;
use serde_json::json;

use crate::model::{Model, Rule, Sight, Sights};

pub(crate) const CLUSTERS: [&str; 3] = ["local", "team/leaf", "west"];
pub(crate) const NAMESPACES: [&str; 6] = ["", "apps", "flux-system", "kube-system", "team-a", "team-b"];
/// Group, kind, resource, category.
pub(crate) const KINDS: [(&str, &str, &str, &str); 5] = [
    ("", "ConfigMap", "configmaps", "other"),
    ("apps", "Deployment", "deployments", "other"),
    ("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", "automation"),
    ("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", "automation"),
    ("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories", "source"),
];
const NAMES: [&str; 8] = ["podinfo", "pod-web", "web", "Web-One", "flux", "flux-2", "a", "podinfo-1.2.3"];
const WORDS: [&str; 10] = ["alpha", "beta", "Gamma", "delta1", "timeout", "failed", "größe", "1.25.3", "http2", "x_y"];
pub(crate) const LABELS: [&str; 3] = ["app", "app.kubernetes.io/name", "tier"];

pub(crate) fn pick<'a, T>(random: &mut Rng, list: &'a [T]) -> &'a T {
    &list[random.usize(..list.len())]
}

fn text(random: &mut Rng, most: usize) -> String {
    let words: Vec<&str> = (0..random.usize(0..=most)).map(|_| *pick(random, &WORDS)).collect();
    words.join(*pick(random, &[" ", "-", ": ", "/"]))
}

pub(crate) fn key(random: &mut Rng) -> Key {
    let (group, kind, ..) = *pick(random, &KINDS);
    let number = random.u32(0..12);
    Key {
        cluster: (*pick(random, &CLUSTERS)).to_owned(),
        namespace: (*pick(random, &NAMESPACES)).to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        name: format!("{}{}", pick(random, &NAMES), if number < 6 { format!("-{number}") } else { String::new() }),
    }
}

pub(crate) fn row(random: &mut Rng, key: Key) -> Row {
    let (_, _, resource, category) = *KINDS.iter().find(|(_, kind, ..)| *kind == key.kind).unwrap();
    let mut labels = BTreeMap::new();
    for _ in 0..random.usize(0..3) {
        labels.insert((*pick(random, &LABELS)).to_owned(), text(random, 1));
    }
    let body = json!({
        "metadata": { "name": key.name, "labels": labels, "annotations": { "note": text(random, 2) } },
        "spec": {
            "interval": pick(random, &["1m", "5m", "10m"]),
            "suspend": random.bool(),
            "list": [{ "port": random.u32(80..84) }, { "port": random.u32(80..84) }],
            "text": text(random, 4),
        },
        text(random, 1): null,
    });
    Row {
        version: (*pick(random, &["v1", "v1beta2"])).to_owned(),
        resource: resource.to_owned(),
        uid: if random.bool() { uuid_like(random) } else { format!("uid-{}", random.u32(0..50)) },
        status: *pick(random, &Status::ALL),
        message: text(random, 3),
        category: category.to_owned(),
        labels: labels.into_iter().collect(),
        created: random.bool().then(|| random.i64(-5..5)),
        deleted_at: None,
        terminating: random.u32(0..10) == 0,
        orphaned: false,
        body: body.to_string(),
        key,
    }
}

fn uuid_like(random: &mut Rng) -> String {
    format!("{:08x}-0000-4000-8000-{:012x}", random.u32(0..20), random.u32(0..3))
}

pub(crate) fn sights(random: &mut Rng) -> Sights {
    let mut sights = Sights::new();
    for cluster in CLUSTERS {
        let sight = match random.u32(0..8) {
            0 => continue,
            1 => Sight::Withheld,
            2 | 3 => Sight::Everything,
            _ => {
                let rows = rules(random);
                let bodies = if random.bool() { rules(random) } else { rows.clone() };
                Sight::Granted(rows, bodies)
            }
        };
        sights.insert(cluster.to_owned(), sight);
    }
    sights
}

fn rules(random: &mut Rng) -> Vec<Rule> {
    let maybe = |random: &mut Rng, list: &[&str]| (random.u32(0..3) > 0).then(|| (*pick(random, list)).to_owned());
    (0..random.usize(0..5))
        .map(|_| {
            let resources: Vec<&str> = KINDS.iter().map(|(_, _, resource, _)| *resource).collect();
            let names = (random.u32(0..3) == 0).then(|| (0..3).map(|_| key(random).name).collect());
            Rule { resource: maybe(random, &resources), namespace: maybe(random, &NAMESPACES), names }
        })
        .collect()
}

/// A question in the filter language.
pub(crate) fn question(random: &mut Rng) -> String {
    let clause = |random: &mut Rng| {
        let key = key(random);
        let word = |random: &mut Rng| (*pick(random, &WORDS)).to_owned();
        let quoted = |text: &str| format!("\"{text}\"");
        let condition = match random.u32(0..24) {
            0 => format!("cluster:{}", quoted(&key.cluster)),
            1 => format!("ns:{}", quoted(&key.namespace)),
            2 => format!("ns:{}*", &key.namespace[..key.namespace.len().min(2)]),
            3 => format!("kind:{}", key.kind.to_lowercase()),
            4 => "kind:/(HelmRelease|configmap|Odd)/".to_owned(),
            5 => format!("name:{}", key.name),
            6 => format!("name:{}*", &key.name[..1]),
            7 => format!("name:*{}*", pick(random, &["od", "-", "web", "W", "1"])),
            8 => format!("status:{}", pick(random, &["failed", "S*", "-", "Unknown"])),
            9 => format!("tenant:{}", pick(random, &["red", "blue", "\"\"", "*"])),
            10 => format!("category:{}", pick(random, &["automation", "other", "s*"])),
            11 => format!("label.{}={}", pick(random, &LABELS), word(random)),
            12 => format!("labels.{}:*", pick(random, &LABELS)),
            13 => format!("message:{}", word(random)),
            14 => format!("message:*{}*", word(random)),
            15 => "message:\"\"".to_owned(),
            16 => format!("Object.spec.interval:{}", pick(random, &["5M", "10m", "7m"])),
            17 => format!("Object.spec.list.port:{}", random.u32(80..85)),
            18 => format!("is:{}", pick(random, &["deleted", "live", "terminating", "stale"])),
            19 => format!("group:{}", if key.group.is_empty() { "\"\"" } else { &key.group }),
            20 => format!("\"{} {}\"", word(random), word(random)),
            21 => format!("{}*", &word(random).to_lowercase().chars().take(3).collect::<String>()),
            22 => pick(random, &["od-w", "Web", "zz", "interval", "pod", "p", "83"]).to_string(),
            _ => word(random),
        };
        let sign = if random.u32(0..4) == 0 { *pick(random, &["-", "!"]) } else { "" };
        format!("{sign}{condition}")
    };
    let clauses: Vec<String> = (0..random.usize(0..4)).map(|_| clause(random)).collect();
    clauses.join(" ")
}

pub(crate) fn query(random: &mut Rng) -> (String, Query) {
    let text = question(random);
    let mut query = Query::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    query.order = *pick(random, &Order::ALL);
    query.descending = random.bool();
    query.limit = *pick(random, &[0, 1, 2, 7, 1000]);
    query.offset = *pick(random, &[0, 0, 1, 30]);
    query.facets = Facets::WithLabels(LABELS.map(str::to_owned).to_vec());
    (text, query)
}

/// One random change of index and model alike.
pub(crate) fn change(random: &mut Rng, index: &mut Index, model: &mut Model) {
    let upsert = |index: &mut Index, model: &mut Model, row: Row| {
        index.upsert(&index.preparer().prepare(row.clone()));
        model.rows.insert(row.key.clone(), row);
    };
    let existing = |random: &mut Rng, model: &Model| {
        let keys: Vec<&Key> = model.rows.keys().collect();
        (!keys.is_empty()).then(|| (*pick(random, &keys)).clone())
    };
    match random.u32(0..100) {
        0..55 => {
            let key = key(random);
            let row = row(random, key);
            upsert(index, model, row);
        }
        55..75 => {
            if let Some(key) = existing(random, model) {
                // Something of it changes.
                let (mut changed, other) = (model.rows[&key].clone(), row(random, key.clone()));
                match random.u32(0..5) {
                    0 => changed.status = other.status,
                    1 => changed.message = other.message,
                    2 => changed.labels = other.labels,
                    3 => changed.body = other.body,
                    _ => changed = other,
                }
                (changed.deleted_at, changed.orphaned) = (None, false);
                upsert(index, model, changed);
            }
        }
        75..95 => {
            if let Some(key) = existing(random, model) {
                index.delete(&key, None, 0);
                model.rows.remove(&key);
            }
        }
        95..97 => {
            let (cluster, namespace) = (*pick(random, &CLUSTERS), *pick(random, &NAMESPACES[1..]));
            let tenant = pick(random, &[None, Some("red"), Some("blue")]);
            index.set_tenant(cluster, namespace, *tenant);
            let place = (cluster.to_owned(), namespace.to_owned());
            match tenant {
                Some(tenant) => drop(model.tenants.insert(place, (*tenant).to_owned())),
                None => drop(model.tenants.remove(&place)),
            }
        }
        97 => {
            let cluster = *pick(random, &CLUSTERS);
            let stale = random.bool();
            index.set_stale(cluster, None, stale.then_some(7));
            if stale {
                model.stale.insert(cluster.to_owned())
            } else {
                model.stale.remove(cluster)
            };
        }
        98 if random.u32(0..4) == 0 => {
            let cluster = *pick(random, &CLUSTERS);
            index.remove_cluster(cluster);
            model.rows.retain(|key, _| key.cluster != cluster);
            model.tenants.retain(|(of, _), _| of != cluster);
            model.stale.remove(cluster);
        }
        _ => {
            let (cluster, (group, kind, ..)) = (*pick(random, &CLUSTERS), *pick(random, &KINDS));
            index.remove_kind(cluster, group, kind);
            model.rows.retain(|key, _| key.cluster != cluster || key.kind != kind);
        }
    }
}
