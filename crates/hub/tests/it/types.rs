//! Types: what they check, how they and their records are found.

use hub::types::{PathPattern, Type};
use hub::{Batch, Change, Hub, NewRecord, Reason, Settings};

use crate::list::{by_type, ids};
use crate::place::{Place, create, json, new, on_both, settings, type_ref};

on_both!(
    values_are_checked_against_a_known_type,
    fields_with_the_names_of_a_backend_are_read_as_such_in_backends_alone,
    a_value_that_would_take_for_ever_is_refused_and_a_large_one_holds_up_nobody,
    a_revision_of_a_type_never_changes,
    types_are_found_through_the_nodes_that_they_are_attached_to,
    types_may_be_required,
);

fn manifest(path: &str, revision: &str, refs: &str, schema: &str) -> Type {
    let text = format!(
        "{{ocfVersion: 0.0.1, kind: Type, revision: {revision}, metadata: {{path: {path}}}, \
         spec: {{additionalRefs: [{refs}], value: {schema}}}}}"
    );
    Type::parse(&text).unwrap()
}

async fn found(hub: &Hub, pattern: &str) -> Vec<String> {
    let types = hub.types(&PathPattern::parse(pattern).unwrap()).await.unwrap();
    types.into_iter().map(|found| found.reference.to_string()).collect()
}

async fn values_are_checked_against_a_known_type(place: Place) {
    let hub = place.hub().await;
    let schema = r#"{"type": "object", "required": ["port"], "properties": {"port": {"type": "string"}}}"#;
    hub.apply_types(vec![manifest("cap.type.test", "0.1.0", "", schema)]).await.unwrap();
    let create_one = |value: &str| Batch {
        records: vec![NewRecord { alias: Some("db".to_owned()), ..new(value) }],
        ..Batch::default()
    };
    let id = hub.create(create_one(r#"{"port": "1"}"#)).await.unwrap().remove(0).id;
    let error = hub.create(create_one(r#"{"port": 4711}"#)).await.unwrap_err().to_string();
    let expected = "failed to create the TypeInstances: 1 error occurred:\n\t* Error: TypeInstance \"db\": invalid input: \
                    value/port must be string";
    assert_eq!(error, expected);
    let change = Change { id: id.clone(), value: Some(json("{}")), ..Change::default() };
    let error = hub.update(vec![change]).await.unwrap_err().to_string();
    let expected = format!(
        "failed to update TypeInstances: 1 error occurred:\n\t* Error: TypeInstance \"{id}\": invalid input: value must have \
         required property 'port'"
    );
    assert_eq!(error, expected);
    assert_eq!(hub.find(&id).await.unwrap().unwrap().latest, 1);
    let open = r#"{"properties": {"port": {"type": "string"}}}"#;
    hub.apply_types(vec![manifest("cap.type.test", "0.3.0", "", open)]).await.unwrap();
    // What cannot be read as a value is not taken for one that fits.
    for odd in ["1e999999", r#""\ud800""#] {
        let value = Some(json(&format!(r#"{{"port": 4711, "odd": {odd}}}"#)));
        let record = NewRecord { value, ..NewRecord::new(type_ref("cap.type.test", "0.3.0")) };
        let error = hub.create(Batch { records: vec![record], ..Batch::default() }).await.unwrap_err().to_string();
        assert!(error.contains("cannot be compared with its schema"), "{odd}: {error}");
    }
    let other_revision = NewRecord { value: Some(json("7")), ..NewRecord::new(type_ref("cap.type.test", "0.2.0")) };
    create(&hub, other_revision).await;
}

async fn fields_with_the_names_of_a_backend_are_read_as_such_in_backends_alone(place: Place) {
    let hub = place.hub().await;
    let schema = r#"{"type": "object", "properties": {
        "url": {"type": "string", "format": "uri"},
        "additionalParameters": {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}}},
        "contextSchema": {"const": {"title": "A"}}}}"#;
    let attached = "cap.core.type.hub.storage";
    let types = [("cap.type.plain", ""), ("cap.type.attached", attached)];
    let types = types.map(|(path, refs)| manifest(path, "0.1.0", refs, schema));
    hub.apply_types(types.to_vec()).await.unwrap();
    let table = [
        ("cap.type.plain", r#"{"additionalParameters": {"title": "a song"}}"#, ""),
        ("cap.type.plain", r#"{"contextSchema": {"title": "A"}}"#, ""),
        ("cap.type.plain", r#"{"contextSchema": {"title": "B"}}"#, "value/contextSchema must be equal to constant"),
        ("cap.type.plain", r#"{"url": "10.0.0.1:50051"}"#, "value/url must match format \"uri\""),
        ("cap.type.attached", r#"{"url": "10.0.0.1:50051"}"#, ""),
        ("cap.type.attached", r#"{"url": "10.0.0.1:50051", "contextSchema": {"title": "B"}}"#, ""),
        (
            "cap.type.attached",
            r#"{"url": "10.0.0.1:50051", "contextSchema": {"type": "object"}}"#,
            "value/contextSchema must be",
        ),
    ];
    for (path, value, fault) in table {
        let record = NewRecord { value: Some(json(value)), ..NewRecord::new(type_ref(path, "0.1.0")) };
        let made = hub.create(Batch { records: vec![record], ..Batch::default() }).await;
        match made {
            Ok(_) => assert_eq!(fault, "", "{path} {value}"),
            Err(error) => assert!(!fault.is_empty() && error.to_string().contains(fault), "{path} {value}: {error}"),
        }
    }
    // Another revision attaches the Type as a whole, and what was remembered of it counts no more.
    hub.apply_types(vec![manifest("cap.type.plain", "0.2.0", attached, "{}")]).await.unwrap();
    let backend = r#"{"url": "10.0.0.1:50051"}"#;
    create(&hub, NewRecord { value: Some(json(backend)), ..NewRecord::new(type_ref("cap.type.plain", "0.1.0")) }).await;
}

async fn a_value_that_would_take_for_ever_is_refused_and_a_large_one_holds_up_nobody(place: Place) {
    let hub = place.hub().await;
    let branches: Vec<String> = (0..400).map(|number| format!(r#"{{"required": ["a{number}"]}}"#)).collect();
    let schema = format!(r#"{{"items": {{"not": {{"anyOf": [{}]}}}}}}"#, branches.join(","));
    hub.apply_types(vec![manifest("cap.type.test", "0.1.0", "", &schema)]).await.unwrap();
    let objects = |count: usize| format!("[{}]", vec![r#"{"b":1}"#; count].join(","));
    create(&hub, new(&objects(100))).await;
    create(&hub, new(&objects(10_000))).await;
    let batch = Batch { records: vec![new(&objects(100_000))], ..Batch::default() };
    let error = hub.create(batch).await.unwrap_err().to_string();
    assert!(error.contains("value is too large for its schema: it has 200001 parts, the schema 1"), "{error}");
    assert!(error.contains("50000000 comparisons"), "{error}");
    let last = objects(10_000).replacen("[{", r#"[{"a7":1,"#, 1);
    let error = hub.create(Batch { records: vec![new(&last)], ..Batch::default() }).await.unwrap_err().to_string();
    assert!(error.contains("value does not match its schema, and is too large to say where"), "{error}");
}

async fn a_revision_of_a_type_never_changes(place: Place) {
    let hub = place.hub().await;
    let first = manifest("cap.type.a", "0.1.0", "", r#"{"type": "string"}"#);
    hub.apply_types(vec![first.clone()]).await.unwrap();
    hub.apply_types(vec![first]).await.unwrap();
    let both = vec![manifest("cap.type.b", "0.1.0", "", "{}"), manifest("cap.type.a", "0.1.0", "", "{}")];
    let hub::Error::Refused { reason, message } = hub.apply_types(both).await.unwrap_err() else {
        panic!("another error")
    };
    assert!(reason == Reason::Conflict && message.contains("cap.type.a:0.1.0 is there already"), "{message}");
    assert_eq!(found(&hub, "*").await, ["cap.type.a:0.1.0"], "all or none");
    let error =
        hub.apply_types(vec![manifest("cap.type.c", "0.1.0", "cap.type.a", "{}")]).await.unwrap_err().to_string();
    assert_eq!(error, "\"cap.type.a\" cannot be used as parent node as it resolves to concrete Type");
}

async fn types_are_found_through_the_nodes_that_they_are_attached_to(place: Place) {
    let hub = place.hub().await;
    let types = vec![
        manifest("cap.type.helm.storage", "0.10.0", "", "{}"),
        manifest("cap.type.helm.storage", "0.9.0", "cap.core.hub.storage", "{}"),
        manifest("cap.type.vault.storage", "0.1.0", "cap.core.type.hub.storage", "{}"),
        manifest("cap.type.other", "0.1.0", "cap.core.type.platform", "{}"),
    ];
    hub.apply_types(types).await.unwrap();
    let storage = ["cap.type.helm.storage:0.9.0", "cap.type.helm.storage:0.10.0", "cap.type.vault.storage:0.1.0"];
    for pattern in ["cap.core.hub.storage.*", "cap.core.type.hub.storage.*", "cap.core.type.hub.storage"] {
        assert_eq!(found(&hub, pattern).await, storage, "{pattern}");
    }
    assert_eq!(found(&hub, "cap.type.(other|none)").await, ["cap.type.other:0.1.0"]);
    assert_eq!(found(&hub, "*").await.len(), 4);
    // Another revision than the attached one suffices.
    let helm = create(&hub, NewRecord::new(type_ref("cap.type.helm.storage", "0.1.0"))).await;
    create(&hub, NewRecord::new(type_ref("cap.type.other", "0.1.0"))).await;
    let built_in = hub::model::BUILT_IN.to_owned();
    assert_eq!(ids(&hub, by_type("cap.core.hub.storage.*", None)).await, [built_in, helm]);
    for (path, is_storage) in [("cap.type.helm.storage", true), ("cap.type.other", false), ("cap.type.unknown", false)]
    {
        assert_eq!(hub.is_storage(&type_ref(path, "0.1.0")).await.unwrap(), is_storage, "{path}");
    }
}

async fn types_may_be_required(place: Place) {
    let hub = place.hub_with(Settings { require_types: true, ..settings() }).await;
    let batch = || Batch { records: vec![new("1")], ..Batch::default() };
    let error = hub.create(batch()).await.unwrap_err().to_string();
    assert!(error.contains("the Type cap.type.test:0.1.0 is not known here"), "{error}");
    hub.apply_types(vec![manifest("cap.type.test", "0.1.0", "", "{}")]).await.unwrap();
    hub.create(batch()).await.unwrap();
}
