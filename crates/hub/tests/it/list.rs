//! Lists: order, filters, pages.

use hub::types::PathPattern;
use hub::{AttributeFilter, Change, Cursor, Filter, Hub, NewRecord, Page, Rule, TypeFilter, Versions};

use crate::place::{Place, attribute, create, json, new, on_both, type_ref};

on_both!(
    lists_go_by_path_newest_revision_and_newest_record,
    pages_join_to_the_whole_list,
    versions_are_looked_at_as_asked,
    records_are_found_by_name_store_and_namespace,
);

const ALL: Page = Page { first: 1000, after: None };

fn of_type(path: &str, revision: &str) -> NewRecord {
    NewRecord::new(type_ref(path, revision))
}

pub(crate) fn by_type(path: &str, revision: Option<&str>) -> Filter {
    let revision = revision.map(|revision| revision.parse().unwrap());
    let type_ref = Some(TypeFilter { path: PathPattern::parse(path).unwrap(), revision });
    Filter { type_ref, ..Filter::default() }
}

pub(crate) async fn ids(hub: &Hub, filter: Filter) -> Vec<String> {
    let counted = hub.count(filter.clone()).await.unwrap();
    let ids: Vec<String> = hub.list(filter, ALL).await.unwrap().into_iter().map(|record| record.id).collect();
    assert_eq!(counted, ids.len() as u64);
    ids
}

async fn lists_go_by_path_newest_revision_and_newest_record(place: Place) {
    let hub = place.hub().await;
    let mut created = Vec::new();
    for (path, revision) in
        [("cap.type.b", "0.9.0"), ("cap.type.b", "0.10.0"), ("cap.type.a", "0.1.0"), ("cap.type.b", "0.9.0")]
    {
        created.push(create(&hub, of_type(path, revision)).await);
    }
    let [older, newer_revision, a, newer] = <[String; 4]>::try_from(created).unwrap();
    let in_order = [a.clone(), newer_revision.clone(), newer.clone(), older.clone()];
    let listed = ids(&hub, Filter::default()).await;
    assert_eq!(listed[1..], in_order, "the built-in record, of cap.core, stands before");
    assert_eq!(ids(&hub, by_type("cap.type.b", None)).await, in_order[1..]);
    assert_eq!(ids(&hub, by_type("cap.type.b", Some("0.9.0"))).await, in_order[2..]);
    assert_eq!(ids(&hub, by_type("cap.type.*", None)).await, in_order);
    assert_eq!(ids(&hub, by_type("cap.type.(a|c)", None)).await, in_order[..1]);
    assert_eq!(ids(&hub, by_type("cap.type", None)).await, [""; 0]);
}

async fn pages_join_to_the_whole_list(place: Place) {
    let hub = place.hub().await;
    for number in 0..7 {
        create(&hub, of_type("cap.type.a", &format!("0.{number}.0"))).await;
    }
    for (number, namespace) in (0..12).zip(["team-a", "team-b", "team-c"].into_iter().cycle()) {
        let record = of_type(["cap.type.a", "cap.type.a-b", "cap.type.b", "cap.type"][number % 4], "0.1.0");
        create(&hub, NewRecord { namespace: Some(namespace.to_owned()), ..record }).await;
    }
    let namespaces = Some(["team-b", "team-a", "team-b", "default"].map(str::to_owned).to_vec());
    let within = |filter: Filter| Filter { namespaces: namespaces.clone(), ..filter };
    for (filter, count) in [
        (Filter::default(), 20),
        (within(Filter::default()), 16),
        (by_type("cap.type.*", None), 19),
        (within(by_type("cap.type.a.*", None)), 11),
    ] {
        let places: Vec<_> =
            hub.list(filter.clone(), ALL).await.unwrap().into_iter().map(|record| record.place).collect();
        assert!(places.is_sorted());
        let whole = ids(&hub, filter.clone()).await;
        let (mut joined, mut after) = (Vec::new(), None);
        loop {
            let page = hub.list(filter.clone(), Page { first: 3, after }).await.unwrap();
            let Some(last) = page.last() else { break };
            // As a client carries it.
            after = Some(Cursor::parse(&Cursor::of(last).to_string()).unwrap());
            joined.extend(page.iter().map(|record| record.id.clone()));
        }
        assert_eq!((joined.len(), joined), (count, whole), "{filter:?}");
    }
    assert!(Cursor::parse("no cursor!").unwrap_err().to_string().starts_with("after: "));
}

async fn versions_are_looked_at_as_asked(place: Place) {
    let hub = place.hub().await;
    let (a, b) = (attribute("cap.attribute.a", "0.1.0"), attribute("cap.attribute.b", "0.2.0"));
    let record =
        NewRecord { attributes: vec![a.clone(), b.clone()], created_by: Some("nature".to_owned()), ..new("1") };
    let id = create(&hub, record).await;
    let change = Change {
        id: id.clone(),
        attributes: Some(vec![b.clone()]),
        created_by: Some("update".to_owned()),
        value: Some(json("2")),
        ..Change::default()
    };
    hub.update(vec![change]).await.unwrap();
    let asks = |path: &str, revision: Option<&str>, rule: Rule| AttributeFilter {
        path: path.parse().unwrap(),
        revision: revision.map(|revision| revision.parse().unwrap()),
        rule,
    };
    let (include_a, include_b) =
        (asks("cap.attribute.a", None, Rule::Include), asks("cap.attribute.b", Some("0.2.0"), Rule::Include));
    let exclude_a = asks("cap.attribute.a", Some("0.1.0"), Rule::Exclude);
    let exclude_b = asks("cap.attribute.b", None, Rule::Exclude);
    let table = [
        (Some("nature"), vec![], true, false),
        (Some("update"), vec![], true, true),
        (Some("nobody"), vec![], false, false),
        (None, vec![include_a.clone()], true, false),
        (None, vec![include_a.clone(), include_b.clone()], true, false),
        (None, vec![include_b.clone()], true, true),
        (None, vec![asks("cap.attribute.b", Some("0.1.0"), Rule::Include)], false, false),
        (None, vec![exclude_a.clone()], true, true),
        (None, vec![exclude_b.clone()], false, false),
        (None, vec![include_b.clone(), exclude_a], true, true),
        (None, vec![include_a.clone(), exclude_b], false, false),
        // Both must hold of the same version.
        (Some("update"), vec![include_a], false, false),
        (Some("nature"), vec![include_b], true, false),
    ];
    for (created_by, attributes, any, latest) in table {
        let said = format!("{created_by:?} {attributes:?}");
        // Only this record: the built-in one has an author and attributes, too.
        let filter = Filter { created_by: created_by.map(str::to_owned), attributes, ..by_type("cap.type.test", None) };
        let found = ids(&hub, filter.clone()).await;
        assert_eq!(found, vec![id.clone(); usize::from(any)], "{said}, any");
        let found = ids(&hub, Filter { versions: Versions::Latest, ..filter }).await;
        assert_eq!(found, vec![id.clone(); usize::from(latest)], "{said}, latest");
    }
}

async fn records_are_found_by_name_store_and_namespace(place: Place) {
    let hub = place.hub().await;
    let named = NewRecord { name: Some("first".to_owned()), namespace: Some("team-a".to_owned()), ..new("1") };
    let (named, other) = (create(&hub, named).await, create(&hub, new("1")).await);
    let built_in = hub::model::BUILT_IN.to_owned();
    let filter = Filter::default;
    assert_eq!(ids(&hub, Filter { name: Some("first".to_owned()), ..filter() }).await, std::slice::from_ref(&named));
    assert_eq!(ids(&hub, Filter { name: Some("second".to_owned()), ..filter() }).await, [""; 0]);
    for backend in ["builtin", &built_in] {
        let listed = ids(&hub, Filter { backend: Some(backend.to_owned()), ..filter() }).await;
        assert_eq!(listed, [built_in.clone(), other.clone(), named.clone()]);
    }
    assert_eq!(ids(&hub, Filter { backend: Some(named.clone()), ..filter() }).await, [""; 0]);
    let within = |namespaces: &[&str]| Filter {
        namespaces: Some(namespaces.iter().map(|namespace| (*namespace).to_owned()).collect()),
        ..filter()
    };
    assert_eq!(ids(&hub, within(&["team-a", "team-b"])).await, [named]);
    assert_eq!(ids(&hub, within(&["default"])).await, [built_in, other]);
    assert_eq!(ids(&hub, within(&[])).await, [""; 0], "no namespace is not every namespace");
    assert_eq!(hub.namespaces().await.unwrap(), ["default", "team-a"]);
}
