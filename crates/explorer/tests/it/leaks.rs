//! What a user may not see does not show in anything that they can ask.

use std::collections::BTreeSet;

use explorer::index::{Changes, Settings};
use explorer::query::{Facets, Field, Query, Request};
use explorer::{Index, Key, Row, Status};
use serde_json::json;

use crate::model::{Rule, Sight, Sights, visibility};
use crate::random::LABELS;

fn secret_row(cluster: &str, namespace: &str, name: &str, secret: &str) -> Row {
    let own = str::to_owned;
    let body = json!({
        "metadata": { "name": name, "namespace": namespace, "annotations": { format!("note-{secret}"): secret } },
        "spec": { "text": format!("some {secret} text"), "path": secret, secret: [1, { "deep": secret }] },
    });
    Row {
        key: Key {
            cluster: own(cluster),
            namespace: own(namespace),
            group: own(""),
            kind: own("ConfigMap"),
            name: own(name),
        },
        version: own("v1"),
        resource: own("configmaps"),
        uid: format!("uid-{name}"),
        status: Status::Success,
        message: own("all is well"),
        category: own("other"),
        labels: vec![(own("app"), own("shared"))],
        created: Some(1),
        deleted_at: None,
        terminating: false,
        orphaned: false,
        body: body.to_string(),
    }
}

fn rule(namespace: Option<&str>) -> Rule {
    Rule { resource: None, namespace: namespace.map(str::to_owned), names: None }
}

fn of(sight: Sight) -> Sights {
    Sights::from([("local".to_owned(), sight)])
}

/// Every word that might be in a body, asked in every way that there is.
const CANARIES: [&str; 3] = ["canary", "canaryword", "kanarie"];

#[test]
fn a_user_who_may_list_and_not_get_learns_nothing_of_bodies() {
    // Two indexes that differ in bodies alone answer the same to whoever may only list.
    let build = |secret: &str| {
        let mut index = Index::new(Settings::default());
        for number in 0..30 {
            let row = secret_row("local", "apps", &format!("row-{number}"), secret);
            index.upsert(&index.preparer().prepare(row));
        }
        index
    };
    let (one, other) = (build("canaryword"), build("different"));
    let listing = visibility(&of(Sight::Granted(vec![rule(None)], vec![])));
    let reading = visibility(&of(Sight::Granted(vec![rule(None)], vec![rule(None)])));
    let mut questions: Vec<String> = vec![String::new(), "text".to_owned(), "deep".to_owned(), "spec".to_owned()];
    for canary in CANARIES {
        for form in
            ["{}", "{}*", "-{}", "!{}*", "\"some {}\"", "-\"{} text\"", "Object.spec.path:{}", "-Object.spec.path:{}"]
        {
            questions.push(form.replace("{}", canary));
        }
        questions.push(format!("Object.spec.{canary}.deep:{canary}"));
        questions.push(format!("Object.metadata.annotations.note-{canary}:{canary}"));
    }
    questions.push("Object.metadata.name:row-1".to_owned());
    questions.push("Object.metadata.namespace:apps".to_owned());
    let mut told_apart = 0;
    for text in &questions {
        let mut query = Query::parse(text).unwrap();
        query.facets = Facets::WithLabels(LABELS.map(str::to_owned).to_vec());
        let answer = |index: &Index, who| format!("{:?}", index.query(&query, who));
        assert_eq!(answer(&one, &listing), answer(&other, &listing), "{text}");
        told_apart += usize::from(answer(&one, &reading) != answer(&other, &reading));
        // The user is not even told that there is something to ask for: a negation takes nothing away.
        let total = one.query(&query, &listing).total;
        assert!(
            if text.starts_with(['-', '!']) || text.is_empty() { total == 30 } else { total == 0 },
            "{text}: {total}"
        );
    }
    assert!(told_apart > 10, "the questions would tell the indexes apart for those who may get: {told_apart}");
    for field in fields() {
        for beginning in ["", "c", "can", "d", "note", "s"] {
            let suggested = one.suggest(&field, beginning, 100, &listing);
            assert_eq!(suggested, other.suggest(&field, beginning, 100, &listing));
            assert!(suggested.iter().all(|suggestion| !suggestion.value.contains("canary")), "{suggested:?}");
        }
    }
    let row = one.get(&secret_row("local", "apps", "row-1", "").key, &listing).unwrap();
    assert!(!row.has_body && !format!("{row:?}").contains("canary"));
}

fn fields() -> Vec<Field> {
    let mut fields = vec![
        Field::Cluster,
        Field::Namespace,
        Field::Kind,
        Field::Group,
        Field::Name,
        Field::Status,
        Field::Message,
        Field::Tenant,
        Field::Category,
        Field::Uid,
        Field::Is,
        Field::Text,
        Field::Object("spec".to_owned()),
        Field::Label(String::new()),
    ];
    fields.extend(LABELS.map(|label| Field::Label(label.to_owned())));
    fields
}

#[test]
fn rows_that_may_not_be_seen_show_in_no_answer_facet_suggestion_or_change() {
    // The same questions, with and without rows that the user may not see.
    let sights = of(Sight::Granted(vec![rule(Some("apps"))], vec![rule(Some("apps"))]));
    let user = visibility(&sights);
    let (mut with, mut without) = (Index::new(Settings::default()), Index::new(Settings::default()));
    let begin = (with.position(), without.position());
    for number in 0..20 {
        let row = secret_row("local", "apps", &format!("mine-{number}"), "shown");
        with.upsert(&with.preparer().prepare(row.clone()));
        without.upsert(&without.preparer().prepare(row));
        for (cluster, namespace) in [("local", "hidden-canary"), ("canary-cluster", "apps"), ("local", "")] {
            let mut row = secret_row(cluster, namespace, &format!("canary-{number}"), "canaryword");
            row.labels =
                vec![("canary-label".to_owned(), "canary".to_owned()), ("app".to_owned(), "canary".to_owned())];
            row.message = "canary message".to_owned();
            row.category = "canary-category".to_owned();
            with.upsert(&with.preparer().prepare(row));
        }
    }
    with.set_tenant("local", "hidden-canary", Some("canary-tenant"));
    with.set_tenant("canary-cluster", "apps", Some("canary-tenant"));
    let questions = [
        "",
        "canary",
        "canary*",
        "-canary",
        "name:canary*",
        "name:*canar*",
        "ns:hidden*",
        "-ns:hidden-canary",
        "cluster:*",
        "tenant:canary-tenant",
        "-tenant:canary-tenant",
        "label.canary-label:*",
        "label.app:*",
        "message:canary",
        "category:canary*",
        "uid:uid-canary-1",
        "kind:ConfigMap",
        "is:live",
        "Object.spec.path:canaryword",
    ];
    for text in questions {
        for order_by in ["name", "message", "cluster", "tenant", "age"] {
            let request = Request {
                query: text.to_owned(),
                order_by: order_by.to_owned(),
                facets: true,
                facet_labels: vec!["app".to_owned(), "canary-label".to_owned()],
                limit: 7,
                ..Request::default()
            };
            let mut query = request.query().unwrap();
            loop {
                let (found, expected) = (with.query(&query, &user), without.query(&query, &user));
                let shown = |page: &explorer::Page| {
                    let ids: Vec<&str> = page.rows.iter().map(|found| found.id.as_str()).collect();
                    format!("{ids:?} {} {:?} {:?} {:?}", page.total, page.facets, page.cursor, page.unsearched)
                };
                assert_eq!(shown(&found), shown(&expected), "{text}");
                // But for the label that was asked for.
                let told = format!("{found:?}").replace("labels.canary-label", "");
                assert!(!told.contains("canary"), "{text}: {told}");
                let Some(cursor) = found.cursor else { break };
                query.after = Some(explorer::query::Cursor::decode(&cursor).unwrap());
            }
        }
    }
    for field in fields() {
        for beginning in ["", "c", "can", "m", "hidden"] {
            assert_eq!(
                with.suggest(&field, beginning, 100, &user),
                without.suggest(&field, beginning, 100, &user),
                "{field:?}"
            );
        }
    }
    for key in [
        secret_row("local", "hidden-canary", "canary-1", "").key,
        secret_row("canary-cluster", "apps", "canary-1", "").key,
    ] {
        assert_eq!(with.get(&key, &user), None);
        with.delete(&key, None, 1);
    }
    let names = |changes: Changes| match changes {
        Changes::Since { changes, .. } => changes.into_iter().map(|change| change.id).collect::<BTreeSet<_>>(),
        Changes::Reset { .. } => panic!("nothing was lost"),
    };
    let (seen, expected) = (names(with.changes(begin.0, &user)), names(without.changes(begin.1, &user)));
    assert_eq!(seen, expected);
    assert_eq!(seen.len(), 20);
}
