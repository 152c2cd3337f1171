//! Values come back byte for byte, whatever JSON they are.

use http::StatusCode;
use serde_json::json;

use crate::front::{Front, file_backend};
use crate::place::{Place, on_both};

on_both!(
    odd_json_comes_back_byte_for_byte,
    literals_come_back_as_they_were_written,
    fields_are_answered_in_the_order_in_which_they_are_selected,
    a_variable_that_is_not_sent_is_what_the_document_says_of_it,
);

const ODD: [&str; 14] = [
    "12345678901234567890123",
    "1.50",
    "-0.0e+10",
    "[1.50,12345678901234567890123,null]",
    r#"{"b":null,"a":{"c":[null,{"d":null}]}}"#,
    r#""a \" \\ \u00e9 é""#,
    r#""""#,
    "0",
    "false",
    "[]",
    "{}",
    r#"{"$serde_json::private::RawValue":"1"}"#,
    r#"{"z":1,"a":2,"z":3}"#,
    r#"{"n":1e400}"#,
];

async fn odd_json_comes_back_byte_for_byte(place: Place) {
    let address = file_backend(&place).await;
    let front = Front::open(place).await;
    let admin = front.admin().await;
    super::storage::register(
        &admin,
        "outside",
        json!({ "url": address, "acceptValue": true, "contextSchema": { "type": "object" } }),
    )
    .await;
    for (number, value) in ODD.iter().enumerate() {
        for (backend, context) in [("builtin", "null"), ("outside", r#"{"n":1.50,"x":null}"#)] {
            let create = format!(
                r#"{{"query": "mutation($in: CreateTypeInstanceInput!) {{ createTypeInstance(in: $in) }}", "variables": {{"in":
                {{"typeRef": {{"path": "cap.type.test", "revision": "0.1.0"}}, "name": "odd-{backend}-{number}", "value": {value},
                "backend": {{ "id": "{backend}", "context": {context} }}}}}}}}"#
            );
            let (status, text) = admin.send(create).await;
            assert!(status == StatusCode::OK && !text.contains("errors"), "{value}: {text}");
            let read = format!(
                r#"{{"query": "{{ typeInstance(id: \"odd-{backend}-{number}\") {{ latestResourceVersion {{ spec {{ value valueError backend {{ context }} }} }} }} }}"}}"#
            );
            let (status, text) = admin.send(read).await;
            let parts = [
                format!(r#""value":{value},"#),
                format!(r#""backend":{{"context":{context}}}"#),
                r#""valueError":null"#.to_owned(),
            ];
            assert!(status == StatusCode::OK && parts.iter().all(|part| text.contains(part)), "{value}: {text}");
        }
    }
}

async fn literals_come_back_as_they_were_written(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let create = r#"mutation($part: Any, $text: String) { createTypeInstance(in: {
        typeRef: { path: "cap.type.test", revision: "0.1.0" }, name: "literal",
        value: { b: [1, -2, 0.5, null, true], a: "x\"é", c: { d: $part, e: $text }, f: """block "x" """,
            g: "\ud83d\ude00 \u00e9", h: """ three \""" quotes""" } }) }"#;
    let body = format!(
        r#"{{"query": {}, "variables": {{"part": [1.50, {{"x":12345678901234567890123}}], "text": "t"}}}}"#,
        json!(create)
    );
    let (_, text) = admin.send(body).await;
    assert!(!text.contains("errors"), "{text}");
    let (_, text) = admin
        .send(
            json!({ "query": "{ typeInstance(id: \"literal\") { latestResourceVersion { spec { value } } } }" })
                .to_string(),
        )
        .await;
    let value = r#"{"b":[1,-2,0.5,null,true],"a":"x\"é","c":{"d":[1.50,{"x":12345678901234567890123}],"e":"t"},"f":"block \"x\" ","g":"😀 é","h":" three \"\"\" quotes"}"#;
    assert!(text.contains(value), "{text}");
    let (_, message) = admin
        .refused(
            "mutation { createTypeInstance(in: { typeRef: { path: \"a\", revision: \"0.1.0\" }, value: WORD }) }",
            json!({}),
        )
        .await;
    assert!(message.contains("quotes"), "{message}");
}

async fn fields_are_answered_in_the_order_in_which_they_are_selected(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let create = r#"{"query": "mutation($v: Any) { createTypeInstance(in: { typeRef: { path: \"cap.type.test\", revision: \"0.1.0\" }, name: \"ordered\", value: $v }) }", "variables": {"v": {"z": 1.50, "a": null, "m": 12345678901234567890123}}}"#;
    let (_, text) = admin.send(create).await;
    assert!(!text.contains("errors"), "{text}");
    let query = r#"query($with: Boolean!) { zeta: typeInstance(id: "ordered") { usedBy { id }
        v: latestResourceVersion { spec { valueError ...Value @include(if: $with) backend { context } } resourceVersion }
        ... on TypeInstance { typeRef { revision path } name } backend { abstract id } namespace __typename }
        alpha: typeInstance(id: "nobody") { id } }
        fragment Value on TypeInstanceResourceVersionSpec { value additionalParameters }"#;
    let (_, text) = admin.send(json!({ "query": query, "variables": { "with": true } }).to_string()).await;
    let expected = format!(
        r#"{{"data":{{"zeta":{{"usedBy":[],"v":{{"spec":{{"valueError":null,"value":{{"z":1.50,"a":null,"m":12345678901234567890123}},"additionalParameters":null,"backend":{{"context":null}}}},"resourceVersion":1}},"typeRef":{{"revision":"0.1.0","path":"cap.type.test"}},"name":"ordered","backend":{{"abstract":true,"id":"{}"}},"namespace":"default","__typename":"TypeInstance"}},"alpha":null}}}}"#,
        hub::model::BUILT_IN
    );
    assert_eq!(text, expected);
}

async fn a_variable_that_is_not_sent_is_what_the_document_says_of_it(place: Place) {
    let front = Front::open(place).await;
    let admin = front.admin().await;
    let query = r#"query($name: Boolean! = true, $id: Boolean = true, $source: LockSource, $builtin: ID! = "builtin") {
        typeInstance(id: $builtin) { id @skip(if: $id) name @include(if: $name) ...Lock @include(if: $name) } }
        fragment Lock on TypeInstance { lockedBy(source: $source) }"#;
    for (variables, expected) in [
        (json!({}), json!({ "name": "builtin", "lockedBy": null })),
        (
            json!({ "source": null, "id": false }),
            json!({ "id": hub::model::BUILT_IN, "name": "builtin", "lockedBy": null }),
        ),
        (json!({ "name": false, "id": false }), json!({ "id": hub::model::BUILT_IN })),
    ] {
        assert_eq!(admin.data(query, variables.clone()).await["typeInstance"], expected, "{variables}");
    }
    let body = json!({ "query": query, "operationName": "", "extensions": { "clientLibrary": { "name": "x" } } });
    let (status, text) = admin.send(body.to_string()).await;
    assert!(status == StatusCode::OK && text.contains(r#""name":"builtin""#), "{text}");
    let id = admin.create(json!({})).await;
    let delete = "mutation($id: ID!, $on: OnBackendFailure) { deleteTypeInstance(id: $id, onBackendFailure: $on) }";
    assert_eq!(admin.data(delete, json!({ "id": id, "on": null })).await["deleteTypeInstance"], json!(id));
}
