//! What somebody may not see shows in nothing that they can ask for.

use serde_json::json;
use testbed::{Scope, rule, subject};

use super::{in_path, make_map, own, world};

#[tokio::test]
async fn forbidden_names_and_words_of_bodies_show_nowhere() {
    let world = world().await;
    let (mine, theirs) = (world.cluster.namespace("mine").await, world.cluster.namespace("theirs").await);
    let canary = format!("canary{}", &theirs["theirs-".len()..]);
    let hidden = format!("hidden-{canary}");
    make_map(world.cluster, &theirs, &hidden, &[("text", &canary)]).await;
    // One of mine, whose body I may not get.
    make_map(world.cluster, &mine, "listed", &[("text", &canary), (&format!("key-{canary}"), "value")]).await;
    let person = world.nobody(&mine, "jane").await;
    let account = [subject::service_account(&mine, "jane")];
    world.cluster.grant(Scope::Namespace(&mine), &account, &[rule(&["list"], &[""], &["configmaps"])]).await;
    person.sees(&own(&mine), &["listed"]).await;
    let admin = world.admin().await;
    admin.sees(&canary, &[&hidden, "listed"]).await;

    for query in [
        canary.clone(),
        format!("{}*", &canary[..8]),
        format!("Object.data.text:{canary}"),
        format!("Object.data.key-{canary}:value"),
        format!("name:{hidden}"),
        format!("ns:{theirs}"),
        format!("-ns:{mine} kind:ConfigMap name:*canary*"),
    ] {
        let answer = person.find(&query).await;
        assert_eq!((&answer["total"], &answer["objects"]), (&json!(0), &json!([])), "{query}");
        assert!(!answer.to_string().contains(&canary), "{query}: {answer}");
    }
    // A negation does not tell either: the row is there whether its body has the word or not.
    assert_eq!(person.names(&format!("{} -{canary}", own(&mine))).await, ["listed"]);
    assert_eq!(person.names(&format!("{} -nothing-of-the-kind", own(&mine))).await, ["listed"]);

    let id = in_path(&format!("local/{theirs}//v1/ConfigMap/{hidden}"));
    for path in [
        "/v1/facets".to_owned(),
        format!("/v1/suggest?field=name&prefix={}", &hidden[..8]),
        format!("/v1/suggest?field=namespace&prefix={}", &theirs[..3]),
        format!("/v1/objects/{id}"),
        format!("/v1/objects/{id}/events"),
        format!("/v1/objects/{id}/related"),
        format!("/v1/explain/{id}"),
        format!("/v1/who-can-see?object=ConfigMap/{theirs}/{hidden}"),
        "/v1/debug/access-rules".to_owned(),
        "/v1/clusters".to_owned(),
        "/explore".to_owned(),
        format!("/explore?q={canary}"),
        format!("/explore/object?id={id}"),
    ] {
        let (_, answer) = person.get(&path).await;
        let told = answer.to_string();
        assert!(!told.contains(&hidden), "{path}: {answer}");
        assert!(!told.contains(&theirs), "{path}: {answer}");
    }
    let log = world.server.process.log();
    assert!(!log.contains(&person.token) && !log.contains(&admin.token), "a token is in the log");
}
