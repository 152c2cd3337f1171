//! Answers are those of the model: rows, totals, facets, texts, for everybody.

use std::collections::BTreeMap;

use explorer::Index;
use explorer::index::{Page, Settings};
use explorer::query::{Field, Query};
use fastrand::Rng;

use crate::model::{Model, Sights, sees_body, visibility};
use crate::random::{LABELS, change, query, sights};

/// Asks both, and compares all that an answer tells.
fn check(index: &Index, model: &Model, query: &Query, sights: &Sights, text: &str) {
    let page: Page = index.query(query, &visibility(sights));
    let expected = model.sorted(model.matching(&query.clauses, sights), query.order, query.descending);
    assert_eq!(page.total, expected.len() as u64, "total of {text}");
    let limit = if query.limit == 0 { usize::MAX } else { query.limit };
    let shown: Vec<_> = expected.iter().skip(query.offset).take(limit.min(1000)).collect();
    let found: Vec<_> = page.rows.iter().map(|found| &found.row.key).collect();
    assert_eq!(found, shown.iter().map(|row| &row.key).collect::<Vec<_>>(), "rows of {text} by {:?}", query.order);
    for (found, row) in page.rows.iter().zip(shown) {
        let mut without_body = (**row).clone();
        without_body.body = String::new();
        assert_eq!(serde_json::to_value(&found.row).unwrap(), serde_json::to_value(&without_body).unwrap());
        assert_eq!(found.tenant.as_deref().unwrap_or_default(), model.tenant(row));
        assert_eq!(found.has_body, sees_body(sights, row));
        assert_eq!(found.stale_since.is_some(), model.stale.contains(&row.key.cluster));
    }
    let facets: BTreeMap<String, BTreeMap<String, u64>> = page
        .facets
        .iter()
        .map(|facet| {
            assert!(facet.values.is_sorted_by(|one, other| {
                one.count > other.count || (one.count == other.count && one.value < other.value)
            }));
            (facet.field.clone(), facet.values.iter().map(|value| (value.value.clone(), value.count)).collect())
        })
        .collect();
    assert_eq!(facets, model.facets(&expected, &LABELS.map(str::to_owned)), "facets of {text}");
    let everything = model.facets(&model.matching(&[], sights), &[]);
    for (field, name) in [
        (Field::Cluster, "cluster"),
        (Field::Namespace, "namespace"),
        (Field::Kind, "kind"),
        (Field::Status, "status"),
        (Field::Tenant, "tenant"),
        (Field::Category, "category"),
    ] {
        let suggested = index.suggest(&field, "", 1000, &visibility(sights));
        let suggested: BTreeMap<String, u64> = suggested.into_iter().map(|found| (found.value, found.count)).collect();
        assert_eq!(suggested, everything[name], "suggestions for {name}");
    }
    assert_eq!(page.cursor.is_some(), query.offset.saturating_add(limit) < expected.len(), "{text}");
    assert!(!page.truncated && page.unsearched.is_empty() && !page.incomplete, "{text}: {page:?}");
}

#[test]
fn rows_totals_facets_and_texts_are_those_of_a_brute_force_count() {
    let mut random = Rng::with_seed(testbed::seed("rows_totals_facets_and_texts"));
    let (mut asked, mut hits) = (0_u64, 0_u64);
    for _ in 0..testbed::scale().of(6, 60) {
        let (mut index, mut model) = (Index::new(Settings::default()), Model::default());
        for step in 0..testbed::scale().of(600, 3000) {
            change(&mut random, &mut index, &mut model);
            if step % 10 == 0 {
                let (text, query) = query(&mut random);
                let sights = sights(&mut random);
                check(&index, &model, &query, &sights, &text);
                asked += 1;
                hits += u64::from(!model.matching(&query.clauses, &sights).is_empty());
            }
        }
        index.audit().unwrap();
        assert_eq!(index.len(), model.rows.len());
    }
    // Questions that find nothing prove little.
    assert!(hits * 4 > asked, "{hits} of {asked} questions found something");
}

#[test]
fn nothing_granted_is_nothing_and_a_cluster_that_is_not_named_is_not_seen() {
    use crate::model::{Rule, Sight};
    let mut random = Rng::with_seed(testbed::seed("nothing_granted_is_nothing"));
    let (mut index, mut model) = (Index::new(Settings::default()), Model::default());
    while model.rows.len() < 100 {
        change(&mut random, &mut index, &mut model);
    }
    let nothing: [Sight; 4] = [
        Sight::Withheld,
        Sight::Granted(vec![], vec![]),
        // A body without its row.
        Sight::Granted(vec![], vec![Rule { resource: None, namespace: None, names: None }]),
        Sight::Granted(vec![Rule { resource: None, namespace: None, names: Some(vec![]) }], vec![]),
    ];
    for sight in nothing {
        let sights: Sights =
            crate::random::CLUSTERS.iter().map(|cluster| ((*cluster).to_owned(), sight.clone())).collect();
        let page = index.query(&Query::default(), &visibility(&sights));
        assert_eq!((page.total, page.rows.len()), (0, 0), "{sight:?}");
        assert_eq!(page.withheld.len(), if matches!(sight, Sight::Withheld) { 3 } else { 0 });
    }
    assert_eq!(index.query(&Query::default(), &visibility(&Sights::new())).total, 0);
}

#[test]
fn a_limit_of_0_is_the_servers_most_and_is_marked_when_there_is_more() {
    let mut random = Rng::with_seed(testbed::seed("a_limit_of_0"));
    let settings = Settings { page: 10, ..Settings::default() };
    let (mut index, mut model) = (Index::new(settings), Model::default());
    while model.rows.len() < 25 {
        change(&mut random, &mut index, &mut model);
    }
    let all: Sights = crate::random::CLUSTERS
        .iter()
        .map(|cluster| ((*cluster).to_owned(), crate::model::Sight::Everything))
        .collect();
    let ask = |limit, offset| index.query(&Query { limit, offset, ..Query::default() }, &visibility(&all));
    let total = model.rows.len();
    for (limit, offset, rows, truncated, more) in [
        (0, 0, 10, true, true),
        (5, 0, 5, false, true),
        (10, 0, 10, false, true),
        (11, 0, 10, true, true),
        (0, total - 10, 10, false, false),
        (0, total - 3, 3, false, false),
        (0, total, 0, false, false),
        (3, usize::MAX, 0, false, false),
    ] {
        let page = ask(limit, offset);
        let found = (page.rows.len(), page.truncated, page.cursor.is_some(), page.total);
        assert_eq!(found, (rows, truncated, more, total as u64), "limit {limit}, offset {offset}");
    }
}

#[test]
fn words_that_cannot_be_found_in_bodies_are_named_and_still_found_in_names() {
    let mut random = Rng::with_seed(testbed::seed("words_that_cannot_be_found"));
    let mut index = Index::new(Settings::default());
    let hash = "0123456789abcdef0123";
    for name in [format!("x-{hash}"), "plain".to_owned()] {
        let key = crate::random::key(&mut random);
        let mut row = crate::random::row(&mut random, key);
        row.key = explorer::Key { cluster: "local".to_owned(), name, ..row.key };
        row.body = serde_json::json!({ "spec": { "revision": hash } }).to_string();
        row.message = format!("stored {hash}");
        index.upsert(&index.preparer().prepare(row));
    }
    let all = Sights::from([("local".to_owned(), crate::model::Sight::Everything)]);
    let ask = |text: &str| index.query(&Query::parse(text).unwrap(), &visibility(&all));
    let page = ask(hash);
    assert_eq!((page.total, &page.unsearched[..]), (1, &[hash.to_owned()][..]));
    let page = ask(&format!("Object.spec.revision:{hash}"));
    assert_eq!((page.total, page.unsearched.len()), (0, 1));
    // In messages they can be looked for.
    assert_eq!(ask(&format!("message:{hash}")).total, 2);
    assert_eq!(ask(&format!("message:*{}*", &hash[2..9])).total, 2);
}

#[test]
fn a_full_dictionary_is_told_and_never_wrong_about_what_everybody_sees() {
    let mut random = Rng::with_seed(testbed::seed("a_full_dictionary"));
    let mut index = Index::new(Settings { words: 3, ..Settings::default() });
    let mut model = Model::default();
    for _ in 0..200 {
        change(&mut random, &mut index, &mut model);
    }
    index.audit().unwrap();
    let row = |bodies: Vec<crate::model::Rule>| {
        let all = vec![crate::model::Rule { resource: None, namespace: None, names: None }];
        crate::random::CLUSTERS
            .iter()
            .map(|cluster| ((*cluster).to_owned(), crate::model::Sight::Granted(all.clone(), bodies.clone())))
            .collect::<Sights>()
    };
    let query = Query::parse("timeout").unwrap();
    let full = index
        .query(&query, &visibility(&row(vec![crate::model::Rule { resource: None, namespace: None, names: None }])));
    assert!(full.incomplete);
    // Whoever sees no body is told nothing of what is missing there, and gets all of the rest.
    let listed = index.query(&query, &visibility(&row(vec![])));
    assert!(!listed.incomplete);
    assert_eq!(listed.total, model.matching(&query.clauses, &row(vec![])).len() as u64);
}

#[test]
fn a_name_that_is_seen_is_suggested_however_many_before_it_are_not() {
    let mut random = Rng::with_seed(testbed::seed("a_name_that_is_seen_is_suggested"));
    let mut index = Index::new(Settings::default());
    let hidden = 100_010;
    for number in 0..=hidden {
        let seen = number == hidden;
        let mut key = crate::random::key(&mut random);
        key.cluster = if seen { "local" } else { "west" }.to_owned();
        key.name = if seen { "web-z".to_owned() } else { format!("web-a{number}") };
        let row = explorer::Row { labels: Vec::new(), body: "{}".to_owned(), ..crate::random::row(&mut random, key) };
        index.upsert(&index.preparer().prepare(row));
    }
    let sees_one = visibility(&Sights::from([("local".to_owned(), crate::model::Sight::Everything)]));
    let suggest = |beginning: &str| {
        let found = index.suggest(&Field::Name, beginning, 20, &sees_one).into_iter();
        found.map(|found| (found.value, found.count)).collect::<Vec<_>>()
    };
    for beginning in ["", "web", "web-z"] {
        assert_eq!(suggest(beginning), [("web-z".to_owned(), 1)], "{beginning}");
    }
    assert_eq!(suggest("web-a"), []);
    let all = visibility(&Sights::from([("west".to_owned(), crate::model::Sight::Everything)]));
    assert_eq!(index.suggest(&Field::Name, "web-a", 20, &all).len(), 20);
}
