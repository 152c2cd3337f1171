//! Requests that are not carried out: each is told what is wrong, by the name of the setting where there is one.

use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::front::Front;
use crate::place::Place;

fn error(text: &str) -> (String, String) {
    let answer: Value = serde_json::from_str(text).unwrap();
    let error = &answer["errors"][0];
    (
        error["extensions"]["code"].as_str().unwrap_or_default().to_owned(),
        error["message"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_a_400_that_says_why() {
    let front = Front::open(Place::sqlite()).await;
    let admin = front.admin().await;
    let query = |query: &str| json!({ "query": query }).to_string();
    let deep = "{ typeInstance(id: \"builtin\") { ".to_owned() + &"uses { ".repeat(20) + "id" + &" }".repeat(22);
    let aliases: Vec<String> = (0..2001).map(|number| format!("a{number}: __typename ")).collect();
    let aliases = aliases.concat();
    let fragments: Vec<String> =
        (0..40).map(|level| format!("fragment f{level} on Query {{ ...f{0} ...f{0} }} ", level + 1)).collect();
    let fragments = fragments.concat();
    let canary = "canary-in-a-document";
    let table: Vec<(String, &str, &str)> = vec![
        (String::new(), "BAD_REQUEST", "JSON object"),
        ("{".to_owned(), "BAD_REQUEST", "JSON object"),
        ("\"query\"".to_owned(), "BAD_REQUEST", "JSON object"),
        ("{}".to_owned(), "BAD_REQUEST", "query"),
        (format!("[{}]", query("{ typeInstances { id } }")), "BAD_REQUEST", "not in batches"),
        (query(&format!("{{ typeInstance(id: \"{canary}\" }}")), "BAD_REQUEST", "not GraphQL at line 1, column"),
        (query(""), "BAD_REQUEST", "not GraphQL"),
        (query("query a { __typename } query b { __typename }"), "BAD_REQUEST", "operationName"),
        (
            json!({ "query": "query a { __typename }", "operationName": "b" }).to_string(),
            "BAD_REQUEST",
            "operationName",
        ),
        (json!({ "query": "{ __typename }", "variables": [1] }).to_string(), "BAD_REQUEST", "variables"),
        (
            query(
                "mutation { createTypeInstance(in: { typeRef: { path: \"a\", revision: \"0.1.0\" }, value: 1.50 }) }",
            ),
            "BAD_REQUEST",
            "line 1, column 87",
        ),
        (query(&format!("{{ a(b: {}1{}) }}", "[".repeat(5000), "]".repeat(5000))), "BAD_REQUEST", "nested"),
        // A comment ends with a lone carriage return, too; behind it, the parser would come to the end of its stack.
        (query(&format!("#\r{{ a(b: {}1{}) }}", "[".repeat(15_000), "]".repeat(15_000))), "BAD_REQUEST", "nested"),
        (query("subscription { typeInstanceChanges { id } }"), "BAD_REQUEST", "text/event-stream"),
        (query(&deep), "TOO_LARGE", "hub.query_depth"),
        (query(&format!("{{ {aliases} }}")), "TOO_LARGE", "hub.query_fields"),
        (
            query(&format!("{{ ...f0 }} {fragments} fragment f40 on Query {{ __typename }}")),
            "TOO_LARGE",
            "hub.query_fields",
        ),
        (query("{ ...a } fragment a on Query { ...a }"), "BAD_REQUEST", "spreads itself"),
        (
            query(
                "mutation { __typename applyTypes(manifests: []) { path } ...again } \
                 fragment again on Mutation { __typename applyTypes(manifests: []) { path } }",
            ),
            "BAD_REQUEST",
            "'applyTypes' is selected twice",
        ),
        // Ways to a fragment that is not there are as many.
        (query(&format!("{{ ...f0 }} {fragments}")), "TOO_LARGE", "hub.query_fields"),
        (query(r#"{ typeInstance(id: "\u0000") { id } }"#), "BAD_REQUEST", "NUL character"),
        (
            json!({ "query": "query($id: ID!) { typeInstance(id: $id) { id } }", "variables": { "id": "a\0" } })
                .to_string(),
            "BAD_REQUEST",
            "NUL character",
        ),
    ];
    for (body, code, fault) in table {
        let (status, text) = admin.send(body.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {text}");
        let (told, message) = error(&text);
        assert!(told == code && message.contains(fault), "{body}: {text}");
        assert!(!text.contains(canary), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fragments_are_no_fields_as_to_the_depth() {
    let front = Front::open(Place::sqlite()).await;
    let admin = front.admin().await;
    let (open, close) = ("uses { ... on TypeInstance { ".repeat(18), " } }".repeat(18));
    let query = format!("{{ typeInstance(id: \"builtin\") {{ ... {{ {open} id {close} }} }} }}");
    assert_eq!(admin.data(&query, json!({})).await["typeInstance"], json!({ "uses": [] }));
    // As many levels as there may be, in several fragments.
    let fragment = |at: usize| {
        let next = if at < 4 { format!("...f{}", at + 1) } else { "id".to_owned() };
        format!(" fragment f{at} on TypeInstance {{ {}{next}{} }}", "... { ".repeat(48), " }".repeat(48))
    };
    let fragments: String = (0..5).map(fragment).collect();
    let deep = format!("{{ typeInstance(id: \"builtin\") {{ ...f0 }} }}{fragments}");
    assert_eq!(admin.data(&deep, json!({})).await["typeInstance"]["id"], hub::model::BUILT_IN);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_a_limit_and_a_kind() {
    let front = Front::open(Place::sqlite()).await;
    let admin = front.admin().await;
    let large = json!({ "query": "{ __typename }", "variables": { "a": "x".repeat(64 << 10) } }).to_string();
    let (status, text) = admin.send(large).await;
    assert!(status == StatusCode::PAYLOAD_TOO_LARGE && text.contains("hub.body_bytes"), "{status} {text}");
    let query = json!({ "query": "{ __typename }" }).to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let response = admin.response("*/*", kind, query.clone()).await;
        assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    let response = admin.response("*/*", "Application/JSON; charset=utf-8", query).await;
    assert_eq!(
        (response.status(), response.headers()["cache-control"].to_str().unwrap()),
        (StatusCode::OK, "no-store")
    );
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&*text, br#"{"data":{"__typename":"Query"}}"#);
}

/// What tools ask for, in the form of the reference implementation.
fn introspection() -> String {
    let of_type = (0..9).fold("kind name".to_owned(), |inner, _| format!("kind name ofType {{ {inner} }}"));
    format!(
        "query IntrospectionQuery {{ __schema {{ queryType {{ name }} mutationType {{ name }} subscriptionType {{ name }}
             types {{ ...FullType }} directives {{ name description locations args {{ ...InputValue }} }} }} }}
         fragment FullType on __Type {{ kind name description
             fields(includeDeprecated: true) {{ name description args {{ ...InputValue }} type {{ ...TypeRef }} isDeprecated deprecationReason }}
             inputFields {{ ...InputValue }} interfaces {{ ...TypeRef }}
             enumValues(includeDeprecated: true) {{ name description isDeprecated deprecationReason }}
             possibleTypes {{ ...TypeRef }} }}
         fragment InputValue on __InputValue {{ name description type {{ ...TypeRef }} defaultValue }}
         fragment TypeRef on __Type {{ {of_type} }}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_answered_whom_the_gate_does_not_let_in() {
    let front = Front::open(Place::sqlite()).await;
    let person = front.person(&["viewer@*"]).await;
    // Who is let in may read the schema, whatever else they may do.
    let schema = person.data(&introspection(), json!({})).await;
    let names: Vec<&str> =
        schema["__schema"]["types"].as_array().unwrap().iter().filter_map(|known| known["name"].as_str()).collect();
    for name in
        ["TypeInstance", "TypeInstanceInstrumentationHealthStatus", "HTTPRequestMethod", "LockOwnerID", "Subscription"]
    {
        assert!(names.contains(&name), "{name}");
    }
    person.revoke().await;
    let (status, text) = person.send(json!({ "query": "{ __typename }" }).to_string()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{text}");
    let response = person.response("text/event-stream", "application/json", "{".to_owned()).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "before anything is read");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_schema_does_not_have_is_refused_without_values() {
    let front = Front::open(Place::sqlite()).await;
    let admin = front.admin().await;
    for query in
        ["{ nothing }", "{ typeInstances { nothing } }", "{ typeInstances(first: \"x\") { id } }", "{ typeInstances }"]
    {
        let answer = admin.answer(query, json!({})).await;
        assert!(!answer["errors"][0]["message"].as_str().unwrap().is_empty() && answer["data"].is_null(), "{answer}");
    }
    let create = "mutation($in: CreateTypeInstanceInput!) { createTypeInstance(in: $in) }";
    let unknown = json!({ "typeRef": { "path": "a", "revision": "0.1.0" }, "values": "canary-of-a-value" });
    let answer = admin.answer(create, json!({ "in": unknown })).await.to_string();
    assert!(answer.contains("values") && !answer.contains("canary-of-a-value"), "{answer}");
    for backend in
        [json!({ "idd": "canary-of-a-value" }), json!([]), json!(["canary-of-a-value"]), json!(7), json!("\0")]
    {
        let wrong = json!({ "typeRef": { "path": "a", "revision": "0.1.0" }, "backend": backend });
        let answer = admin.answer(create, json!({ "in": wrong })).await.to_string();
        assert!(answer.contains("{id, context}") && !answer.contains("canary-of-a-value"), "{backend}: {answer}");
    }
    for wrong in [
        json!("canary-of-a-value"),
        json!([{ "value": "canary-of-a-value" }]),
        json!({ "typeRef": "canary-of-a-value" }),
    ] {
        let answer = admin.answer(create, json!({ "in": wrong })).await.to_string();
        assert!(answer.contains("BAD_REQUEST") && !answer.contains("canary-of-a-value"), "{answer}");
    }
    let both = json!({ "typeRef": { "path": "a", "revision": "0.1.0" }, "backend": { "id": "b", "context": { "a": 1 } }, "additionalParameters": { "a": 2 } });
    let (code, text) = admin.refused(create, json!({ "in": both })).await;
    assert!(code == "INVALID" && text.contains("leave one out"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_any_text_that_is_looked_for_is_the_fault_of_the_request() {
    for place in [Place::sqlite(), Place::postgres()] {
        let front = Front::open(place).await;
        let admin = front.admin().await;
        let texts = [
            "query($t: ID!) { typeInstance(id: $t) { id } }",
            "query($t: String) { typeInstances(filter: { name: $t }) { id } }",
            "query($t: String) { typeInstances(filter: { createdBy: $t }) { id } }",
            "query($t: String) { typeInstances(filter: { backend: $t }) { id } }",
            "query($t: String) { typeInstances(filter: { namespace: $t }) { id } }",
            "query($t: NodePath!) { typeInstances(filter: { typeRef: { path: $t } }) { id } }",
            "query($t: NodePath!) { typeInstances(filter: { attributes: [{ path: $t }] }) { id } }",
            "mutation($t: ID!) { deleteTypeInstance(id: $t) }",
            "mutation($t: ID!) { lockTypeInstances(in: { ids: [$t], ownerID: \"a\" }) }",
        ];
        for query in texts {
            let body = json!({ "query": query, "variables": { "t": "a\u{0}b" } }).to_string();
            let (status, text) = admin.send(body).await;
            // Refused before anything is looked for where it stands for a name or an id.
            let (code, _) = error(&text);
            let fine = match status {
                StatusCode::OK => ["INVALID", "NOT_FOUND"].contains(&code.as_str()) || !text.contains("errors"),
                status => status == StatusCode::BAD_REQUEST && code == "BAD_REQUEST" && text.contains("variables.t"),
            };
            assert!(fine, "{query}: {status} {text}");
        }
    }
}
