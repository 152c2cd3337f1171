//! Random calls against a plain model: what the database answers is what a few vectors would.

use std::collections::BTreeMap;

use fastrand::Rng;
use hub::{AttributeFilter, Batch, Change, Deletion, Filter, Hub, NewRecord, Page, Relation, Rule, Versions};

use crate::place::{Place, attribute, json, on_both, type_ref};

on_both!(random_calls_agree_with_a_model);

/// A record as the model knows it.
#[derive(Clone, Debug, Default)]
struct Known {
    path: String,
    versions: Vec<KnownVersion>,
    uses: Vec<String>,
    owner: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct KnownVersion {
    author: String,
    attributes: Vec<String>,
    value: String,
}

#[derive(Default)]
struct Model(BTreeMap<String, Known>);

async fn random_calls_agree_with_a_model(place: Place) {
    let mut random = Rng::with_seed(testbed::seed("random_calls_agree_with_a_model"));
    let hub = place.hub().await;
    let mut model = Model::default();
    for _ in 0..testbed::scale().of(150, 5000) {
        match random.u8(..10) {
            0..=2 => create(&hub, &mut model, &mut random).await,
            3..=5 => update(&hub, &mut model, &mut random).await,
            6 => delete(&hub, &mut model, &mut random).await,
            7 => lock(&hub, &mut model, &mut random).await,
            _ => list(&hub, &model, &mut random).await,
        }
    }
    assert!(model.0.len() > 5, "the calls did something");
    for (id, known) in &model.0 {
        let versions = hub.versions(id).await.unwrap();
        assert_eq!(versions.len(), known.versions.len());
        for (version, known) in versions.iter().zip(&known.versions) {
            let value = hub.value(id, version.number).await.unwrap().unwrap();
            let attributes: Vec<String> =
                version.attributes.iter().map(|attribute| attribute.path.to_string()).collect();
            assert_eq!((value.text(), &attributes), (known.value.as_str(), &known.attributes));
        }
    }
}

fn pick(random: &mut Rng, prefix: &str, of: usize) -> String {
    format!("{prefix}{}", random.usize(..of))
}

fn version(random: &mut Rng) -> KnownVersion {
    let attributes = (0..3).filter(|_| random.bool()).map(|number| format!("cap.attribute.x{number}")).collect();
    KnownVersion { author: pick(random, "author-", 3), attributes, value: random.u64(..).to_string() }
}

fn some_id(model: &Model, random: &mut Rng) -> String {
    let ids: Vec<&String> = model.0.keys().collect();
    if ids.is_empty() || random.u8(..10) == 0 { "nobody".to_owned() } else { ids[random.usize(..ids.len())].clone() }
}

async fn create(hub: &Hub, model: &mut Model, random: &mut Rng) {
    let (path, version, target) = (pick(random, "cap.type.t", 3), version(random), some_id(model, random));
    let record = NewRecord {
        alias: Some("it".to_owned()),
        created_by: Some(version.author.clone()),
        attributes: version.attributes.iter().map(|path| attribute(path, "0.1.0")).collect(),
        value: Some(json(&version.value)),
        ..NewRecord::new(type_ref(&path, "0.1.0"))
    };
    let relations = vec![Relation { from: "it".to_owned(), to: target.clone() }];
    let created = hub.create(Batch { records: vec![record], relations, idempotency_key: None }).await;
    assert_eq!(created.is_ok(), model.0.contains_key(&target));
    if let Ok(created) = created {
        model.0.insert(created[0].id.clone(), Known { path, versions: vec![version], uses: vec![target], owner: None });
    } else if model.0.is_empty() {
        // Somebody has to be the first.
        let record = NewRecord::new(type_ref(&path, "0.1.0"));
        let record = NewRecord { value: Some(json("0")), created_by: Some("author-0".to_owned()), ..record };
        let id = hub.create(Batch { records: vec![record], ..Batch::default() }).await.unwrap().remove(0).id;
        let version = KnownVersion { author: "author-0".to_owned(), attributes: Vec::new(), value: "0".to_owned() };
        model.0.insert(id, Known { path, versions: vec![version], ..Known::default() });
    }
}

async fn update(hub: &Hub, model: &mut Model, random: &mut Rng) {
    let (id, version) = (some_id(model, random), version(random));
    let owner = random.bool().then(|| pick(random, "owner-", 2));
    let change = Change {
        id: id.clone(),
        owner: owner.clone(),
        created_by: Some(version.author.clone()),
        attributes: Some(version.attributes.iter().map(|path| attribute(path, "0.1.0")).collect()),
        value: Some(json(&version.value)),
        ..Change::default()
    };
    let done = hub.update(vec![change]).await.is_ok();
    let known = model.0.get_mut(&id).filter(|known| known.owner.is_none() || known.owner == owner);
    assert_eq!(done, known.is_some());
    if let Some(known) = known {
        known.versions.push(version);
    }
}

async fn delete(hub: &Hub, model: &mut Model, random: &mut Rng) {
    let id = some_id(model, random);
    let owner = random.bool().then(|| pick(random, "owner-", 2));
    let done =
        hub.delete(Deletion { ids: vec![id.clone()], owner: owner.clone(), ..Deletion::default() }).await.is_ok();
    let used = model.0.iter().any(|(by, known)| *by != id && known.uses.contains(&id));
    let free = model.0.get(&id).is_some_and(|known| known.owner.is_none() || known.owner == owner);
    assert_eq!(done, free && !used);
    if done {
        model.0.remove(&id);
    }
}

async fn lock(hub: &Hub, model: &mut Model, random: &mut Rng) {
    let (id, owner) = (some_id(model, random), pick(random, "owner-", 2));
    let unlock = random.bool();
    let done = if unlock {
        hub.unlock(vec![id.clone()], owner.clone()).await.is_ok()
    } else {
        hub.lock(vec![id.clone()], owner.clone(), None).await.is_ok()
    };
    let known = model.0.get_mut(&id).filter(|known| known.owner.as_ref().is_none_or(|holder| *holder == owner));
    assert_eq!(done, known.is_some());
    if let Some(known) = known {
        known.owner = (!unlock).then_some(owner);
    }
}

async fn list(hub: &Hub, model: &Model, random: &mut Rng) {
    let path = random.bool().then(|| pick(random, "cap.type.t", 3));
    let author = random.bool().then(|| pick(random, "author-", 3));
    let versions = if random.bool() { Versions::Any } else { Versions::Latest };
    let rules: Vec<(String, Rule)> = (0..random.usize(..3))
        .map(|_| (pick(random, "cap.attribute.x", 3), if random.bool() { Rule::Include } else { Rule::Exclude }))
        .collect();
    let passes = |version: &KnownVersion| {
        author.as_ref().is_none_or(|author| version.author == *author)
            && rules.iter().all(|(path, rule)| version.attributes.contains(path) == (*rule == Rule::Include))
    };
    let expected = model.0.iter().filter(|(_id, known)| {
        let looked_at = match versions {
            Versions::Any => &known.versions[..],
            Versions::Latest => &known.versions[known.versions.len() - 1..],
        };
        path.as_ref().is_none_or(|path| known.path == *path) && looked_at.iter().any(passes)
    });
    let expected: Vec<&String> = expected.map(|(id, _known)| id).collect();
    let mut filter = crate::list::by_type(path.as_deref().unwrap_or("cap.type.*"), None);
    filter.attributes = rules
        .iter()
        .map(|(path, rule)| AttributeFilter { path: path.parse().unwrap(), revision: None, rule: *rule })
        .collect();
    filter = Filter { created_by: author.clone(), versions, ..filter };
    let mut found: Vec<String> = hub
        .list(filter, Page { first: 10_000, after: None })
        .await
        .unwrap()
        .into_iter()
        .map(|record| record.id)
        .collect();
    found.sort();
    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{author:?} {rules:?} {versions:?}");
}
