//! What an object says that it belongs to, takes its content from, waits for or has made. Pure rules over its JSON.
//!
//! The door is [`references`]. A reference names an object that may not exist; whoever shows it looks it up among what the
//! caller may see.

use serde_json::Value;

use crate::row::Key;

/// A thing that an object refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub relation: Relation,
    /// Where it can be, the likelier place first: an owner is in the same namespace or of the whole cluster.
    pub places: Vec<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    Owner,
    Source,
    DependsOn,
    Inventory,
}

const SOURCES: &str = "source.toolkit.fluxcd.io";
/// Where objects of Flux say what they take their content from.
const SOURCE_REFS: [&str; 3] = ["/spec/sourceRef", "/spec/chartRef", "/spec/chart/spec/sourceRef"];
/// More than anybody looks at, and a bound on what one object can make the server do.
const MOST: usize = 1000;

/// Everything that the body of an object refers to.
pub fn references(key: &Key, body: &Value) -> Vec<Reference> {
    let list = |pointer: &str| body.pointer(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let owners = list("/metadata/ownerReferences").iter().filter_map(|owner| of_owner(key, owner));
    let sources = SOURCE_REFS.iter().filter_map(|pointer| of_source(key, body.pointer(pointer)?));
    let waits = list("/spec/dependsOn").iter().filter_map(|on| of_dependency(key, on));
    let made = list("/status/inventory/entries").iter().filter_map(|entry| of_inventory(key, text(entry, "id")?));
    owners.chain(sources).chain(waits).chain(made).take(MOST).collect()
}

fn of_owner(key: &Key, owner: &Value) -> Option<Reference> {
    let (version, kind, name) = (text(owner, "apiVersion")?, text(owner, "kind")?, text(owner, "name")?);
    let here = Key { group: group(version).to_owned(), kind: kind.to_owned(), name: name.to_owned(), ..key.clone() };
    let mut places = vec![here.clone()];
    if !key.namespace.is_empty() {
        places.push(Key { namespace: String::new(), ..here });
    }
    Some(Reference { relation: Relation::Owner, places })
}

fn of_source(key: &Key, source: &Value) -> Option<Reference> {
    let (kind, name) = (text(source, "kind")?, text(source, "name")?);
    let place = Key {
        cluster: key.cluster.clone(),
        namespace: text(source, "namespace").unwrap_or(&key.namespace).to_owned(),
        group: text(source, "apiVersion").map_or(SOURCES, group).to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    Some(Reference { relation: Relation::Source, places: vec![place] })
}

/// Of the same kind, as Flux has it.
fn of_dependency(key: &Key, on: &Value) -> Option<Reference> {
    let namespace = text(on, "namespace").unwrap_or(&key.namespace).to_owned();
    let place = Key { namespace, name: text(on, "name")?.to_owned(), ..key.clone() };
    Some(Reference { relation: Relation::DependsOn, places: vec![place] })
}

/// `NAMESPACE_NAME_GROUP_KIND`; a colon in a name is written as two underscores.
fn of_inventory(key: &Key, id: &str) -> Option<Reference> {
    let (namespace, rest) = id.split_once('_')?;
    let (rest, kind) = rest.rsplit_once('_')?;
    let (name, group) = rest.rsplit_once('_')?;
    let place = Key {
        cluster: key.cluster.clone(),
        namespace: namespace.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        name: name.replace("__", ":"),
    };
    let whole = !place.name.is_empty() && !place.kind.is_empty();
    whole.then(|| Reference { relation: Relation::Inventory, places: vec![place] })
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Of `group/version`, or of `version` alone, which is the core group's.
fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(key: &str, body: &Value) -> Vec<String> {
        let references = references(&Key::from_id(key).unwrap(), body);
        let places = |reference: &Reference| {
            let ids: Vec<String> = reference.places.iter().map(|place| place.id("")).collect();
            format!("{:?} {}", reference.relation, ids.join(" or "))
        };
        references.iter().map(places).collect()
    }

    #[test]
    fn owners_sources_dependencies_and_inventories_are_found_where_they_can_be() {
        const RELEASE: &str = "c/apps/helm.toolkit.fluxcd.io/v2/HelmRelease/web";
        let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1" });
        let core = json!({ "apiVersion": "v1", "kind": "Node", "name": "n" });
        let inventory = |id: &str| json!({ "status": { "inventory": { "entries": [{ "id": id, "v": "v1" }] } } });
        let cases: Vec<(&str, Value, Vec<&str>)> = vec![
            (RELEASE, json!({}), vec![]),
            (
                "c/apps//v1/Pod/p",
                json!({ "metadata": { "ownerReferences": [owner, core, { "kind": "X" }] } }),
                vec![
                    "Owner c/apps/apps//ReplicaSet/web-1 or c//apps//ReplicaSet/web-1",
                    "Owner c/apps///Node/n or c////Node/n",
                ],
            ),
            (
                RELEASE,
                json!({ "spec": { "chart": { "spec": { "sourceRef": { "kind": "HelmRepository", "name": "r" } } } } }),
                vec!["Source c/apps/source.toolkit.fluxcd.io//HelmRepository/r"],
            ),
            (
                RELEASE,
                json!({ "spec": { "sourceRef": { "kind": "Git", "name": "r", "namespace": "o", "apiVersion": "g.io/v1" } } }),
                vec!["Source c/o/g.io//Git/r"],
            ),
            (
                RELEASE,
                json!({ "spec": { "dependsOn": [{ "name": "db" }, { "name": "net", "namespace": "infra" }, {}] } }),
                vec![
                    "DependsOn c/apps/helm.toolkit.fluxcd.io//HelmRelease/db",
                    "DependsOn c/infra/helm.toolkit.fluxcd.io//HelmRelease/net",
                ],
            ),
            (RELEASE, inventory("apps_web_apps_Deployment"), vec!["Inventory c/apps/apps//Deployment/web"]),
            (RELEASE, inventory("apps_web__Service"), vec!["Inventory c/apps///Service/web"]),
            (
                RELEASE,
                inventory("_system__node_rbac.authorization.k8s.io_ClusterRole"),
                vec!["Inventory c//rbac.authorization.k8s.io//ClusterRole/system:node"],
            ),
            (RELEASE, inventory("nonsense"), vec![]),
            (RELEASE, inventory("a__g_"), vec![]),
        ];
        for (key, body, expected) in cases {
            assert_eq!(told(key, &body), expected, "{body}");
        }
    }

    #[test]
    fn one_object_cannot_refer_to_more_than_the_server_looks_up() {
        let many = vec![json!({ "name": "x" }); 5000];
        assert_eq!(told("c/n/g/v/K/x", &json!({ "spec": { "dependsOn": many } })).len(), MOST);
    }
}
