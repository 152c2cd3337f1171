//! Which backend keeps a record that names none.

use hub::model::BUILT_IN;
use hub::types::Type;
use hub::{Change, Hub, NewRecord, PolicyRule, Settings};

use crate::outside::{World, batch, kept_in, patient, storage};
use crate::place::{Place, attribute, create, json, new, on_both, type_ref, value};

on_both!(
    the_oldest_default_is_chosen,
    what_needs_more_than_a_value_cannot_be_the_default,
    a_rule_wins_over_the_default,
    the_draft_of_a_backend_is_one,
    a_backend_may_keep_the_record_of_another,
    a_type_that_comes_later_counts_from_the_next_update_on,
);

async fn backend_of(hub: &Hub, id: &str) -> String {
    hub.find(id).await.unwrap().unwrap().backend
}

fn default() -> Vec<hub::model::AttributeRef> {
    vec![attribute("cap.core.attribute.default", "0.1.0")]
}

async fn the_oldest_default_is_chosen(place: Place) {
    let world = World::new(place, patient()).await;
    let (first, second) = (world.register("first").await, world.register("second").await);
    let make = |id: &str, attributes: Vec<_>| {
        let change = Change { id: id.to_owned(), attributes: Some(attributes), ..Change::default() };
        let hub = world.hub.clone();
        async move { hub.update(vec![change]).await.unwrap() }
    };
    assert_eq!(backend_of(&world.hub, &create(&world.hub, new("1")).await).await, BUILT_IN);
    make(&second.id, default()).await;
    let id = create(&world.hub, new("1")).await;
    assert_eq!(
        (backend_of(&world.hub, &id).await, value(&world.hub, &id, 1).await),
        (second.id.clone(), "1".to_owned())
    );
    make(&first.id, default()).await;
    assert_eq!(backend_of(&world.hub, &create(&world.hub, new("1")).await).await, first.id);
    // The attribute of any other record means nothing, and a backend's own record stays here.
    create(&world.hub, NewRecord { attributes: default(), ..new(r#"{"url":"a:1","acceptValue":true}"#) }).await;
    let registered = world.register("third").await;
    assert_eq!(backend_of(&world.hub, &registered.id).await, BUILT_IN);
    let named = create(&world.hub, kept_in("builtin", "1")).await;
    assert_eq!(backend_of(&world.hub, &named).await, BUILT_IN);
    make(&first.id, Vec::new()).await;
    assert_eq!(backend_of(&world.hub, &create(&world.hub, new("1")).await).await, second.id);
    make(&second.id, Vec::new()).await;
    assert_eq!(backend_of(&world.hub, &create(&world.hub, new("1")).await).await, BUILT_IN);
}

async fn what_needs_more_than_a_value_cannot_be_the_default(place: Place) {
    let world = World::new(place, patient()).await;
    let required = storage("a:1", r#"{"type":"object","required":["provider"]}"#);
    let optional = storage("a:1", r#"{"type":"object"}"#);
    let context_only = r#"{"url":"a:1","acceptValue":false,"contextSchema":{"type":"object"}}"#;
    let context_only = NewRecord { value: Some(json(context_only)), ..required.clone() };
    let hostile = storage("a:1", r#"{"$ref":"http://example.com/schema"}"#);
    let table = [
        (NewRecord { attributes: default(), ..required.clone() }, "it requires a context"),
        (NewRecord { attributes: default(), ..context_only }, "it takes no values (acceptValue is false)"),
        (NewRecord { attributes: default(), value: None, ..required.clone() }, "it cannot be the default: spec/value"),
        (hostile, "contextSchema: the schema refers to"),
    ];
    for (record, text) in table {
        let error = world.hub.create(batch(vec![record])).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let id = create(&world.hub, NewRecord { attributes: default(), ..optional }).await;
    let change = |value: Option<hub::Json>, attributes: Option<Vec<_>>| Change {
        id: id.clone(),
        value,
        attributes,
        ..Change::default()
    };
    let error = world.hub.update(vec![change(required.value.clone(), None)]).await.unwrap_err().to_string();
    assert!(error.contains("it requires a context"), "{error}");
    world.hub.update(vec![change(required.value, Some(Vec::new()))]).await.unwrap();
    let error = world.hub.update(vec![change(None, Some(default()))]).await.unwrap_err().to_string();
    assert!(error.contains("it requires a context"), "{error}");
}

async fn a_rule_wins_over_the_default(place: Place) {
    let rule =
        |path: &str, backend: &str| PolicyRule { path: path.to_owned(), revision: None, backend: backend.to_owned() };
    let policy =
        vec![rule("cap.type.*", "by-rule"), rule("cap.type.lost", "nowhere"), rule("cap.type.here", "builtin")];
    let world = World::new(place, Settings { policy, ..patient() }).await;
    let (by_rule, by_default) = (world.register("by-rule").await, world.register("by-default").await);
    let change = Change { id: by_default.id.clone(), attributes: Some(default()), ..Change::default() };
    world.hub.update(vec![change]).await.unwrap();
    let of = |path: &str| NewRecord { value: Some(json("1")), ..NewRecord::new(type_ref(path, "0.1.0")) };
    for (path, expected) in
        [("cap.type.a", by_rule.id.as_str()), ("cap.other", &by_default.id), ("cap.type.here", BUILT_IN)]
    {
        assert_eq!(backend_of(&world.hub, &create(&world.hub, of(path)).await).await, expected, "{path}");
    }
    let error = world.hub.create(batch(vec![of("cap.type.lost")])).await.unwrap_err().to_string();
    assert!(error.contains("the policy keeps cap.type.lost:0.1.0 in \"nowhere\""), "{error}");
}

/// The Type and the record of the seed, ids and titles as they are there.
async fn the_draft_of_a_backend_is_one(place: Place) {
    let world = World::new(place, patient()).await;
    let manifest = r##"
ocfVersion: 0.0.1
revision: 0.0.1
kind: Type
metadata:
  path: cap.type.helm.storage
spec:
  additionalRefs: ["cap.core.hub.storage"]
  value:
    "$schema": "http://json-schema.org/draft-07/schema"
    "$id": "http://example.com/example.json"
    type: object
    title: The root schema
    required: [url, additionalParametersSchema]
    properties:
      url: {"$id": "#/properties/url", type: string, format: uri}
      additionalParametersSchema:
        const:
          "$id": "#/properties/additionalParameters"
          type: object
          required: [name]
          properties: {name: {"$id": "#/properties/additionalParameters/properties/name", type: string}}
          additionalProperties: false
    additionalProperties: false
"##;
    world.hub.apply_types(vec![Type::parse(manifest).unwrap()]).await.unwrap();
    let value = r##"{"url":"helm-storage:50051","additionalParametersSchema":{"$id":"#/properties/additionalParametersSchema",
        "type":"object","required":["name"],"properties":{"name":{"$id":"#/x","type":"string"}},"additionalProperties":false}}"##;
    let outside = world.register("helm-storage").await;
    for revision in ["0.0.1", "0.1.0"] {
        let name = format!("helm-{}", revision.replace('.', "-"));
        let record = NewRecord {
            name: Some(name.clone()),
            value: Some(json(value)),
            ..NewRecord::new(type_ref("cap.type.helm.storage", revision))
        };
        create(&world.hub, record).await;
        let backend = Some(crate::outside::choice(&name, Some(json(r#"{"name":"release"}"#))));
        let id = create(&world.hub, NewRecord { backend, ..new("\"foo\"") }).await;
        assert_eq!(crate::outside::versions(&outside.original, &id), [(1, "\"foo\"".to_owned())]);
    }
    let other = value.replace("\"name\":{", "\"other\":{");
    let record = NewRecord { value: Some(json(&other)), ..NewRecord::new(type_ref("cap.type.helm.storage", "0.0.1")) };
    let error = world.hub.create(batch(vec![record])).await.unwrap_err().to_string();
    assert!(error.contains("value/additionalParametersSchema must be equal to constant"), "{error}");
}

async fn a_backend_may_keep_the_record_of_another(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("first").await;
    let second = world.register("second").await;
    let record = NewRecord { backend: Some(crate::outside::choice("first", None)), ..storage("second:50051", "null") };
    let registered = create(&world.hub, NewRecord { name: Some("kept-outside".to_owned()), ..record }).await;
    assert!(outside.original.kept(&registered).is_some());
    let id = create(&world.hub, kept_in("kept-outside", "1")).await;
    assert!(second.original.kept(&id).is_some() && value(&world.hub, &id, 1).await == "1");
}

async fn a_type_that_comes_later_counts_from_the_next_update_on(place: Place) {
    let world = World::new(place, patient()).await;
    let outside = world.register("shelf").await;
    let path = "cap.type.late.storage";
    let value_of = |url: &str| Some(json(&format!(r#"{{"url":"{url}","acceptValue":true,"contextSchema":null}}"#)));
    let record = NewRecord { value: value_of("shelf:50051"), ..NewRecord::new(type_ref(path, "0.1.0")) };
    let id = create(&world.hub, record).await;
    let refused = async || world.hub.create(batch(vec![kept_in(&id, "1")])).await.unwrap_err().to_string();
    let text = refused().await;
    assert!(text.ends_with("is not attached to cap.core.type.hub.storage"), "{text}");
    let manifest = "ocfVersion: 0.0.1\nkind: Type\nrevision: 0.1.0\nmetadata: {path: cap.type.late.storage}\n\
                    spec: {additionalRefs: [cap.core.type.hub.storage]}\n";
    world.hub.apply_types(vec![Type::parse(manifest).unwrap()]).await.unwrap();
    let text = refused().await;
    assert!(text.contains("update the record"), "{text}");
    // All that it is counts as new, not only what is changed.
    let bad = Change { id: id.clone(), attributes: Some(default()), value: Some(json("{}")), ..Change::default() };
    assert!(world.hub.update(vec![bad]).await.is_err());
    let updated = world.hub.update(vec![Change { id: id.clone(), ..Change::default() }]).await.unwrap();
    assert!(updated[0].storage && world.hub.storage_backend(&id).await.unwrap().is_some());
    let kept = create(&world.hub, kept_in(&id, "1")).await;
    assert_eq!(outside.original.ids(), [kept]);
}
