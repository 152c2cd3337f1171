//! The commands: `stateward explore` and `stateward cluster`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use testbed::{Scope, eventually, rule, subject};

use super::{Person, collector, crossing::other, make_map, own, world};
use crate::run::{Run, stateward};
use crate::server::{PATIENCE, Server, Start};

fn command(server: &Server, token: &str, arguments: &[&str]) -> Command {
    let mut command = stateward(arguments);
    command.env("STATEWARD_SERVER", &server.url).env("STATEWARD_TOKEN", token);
    if server.url.starts_with("https") {
        command.arg("--ca-file").arg(server.data.join("tls/self-signed.crt"));
    }
    command
}

fn run(person: &Person, arguments: &[&str]) -> Run {
    Run::of(&mut command(person.server, &person.token, arguments))
}

#[tokio::test]
async fn explore_finds_in_tables_in_json_and_over_many_pages() {
    let world = world().await;
    let namespace = world.cluster.namespace("explore").await;
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    for number in 0..12 {
        make_map(world.cluster, &namespace, &format!("map-{number:02}"), &[]).await;
    }
    eventually(PATIENCE, || async { person.total(&own(&namespace)).await == 12 }).await;
    // What is still being listed would be told beside the data.
    eventually(PATIENCE, || async {
        let answer = person.find("").await;
        if answer["collected"]["clusters"] == answer["collected"]["of"] { Ok(()) } else { Err(answer) }
    })
    .await;
    let query = own(&namespace);
    let table = run(&person, &["explore", &query]).ok();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("CLUSTER") && lines.len() == 13 && lines[1].contains("map-00"), "{table}");
    let without = format!("ns:{namespace} -name:kube-root-ca.crt -name:map-0*");
    let table = run(&person, &["explore", "--descending", &without]).ok();
    let names: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(names, ["map-11", "map-10"], "{table}");
    let json: Value = serde_json::from_str(&run(&person, &["explore", &query, "-o", "json"]).ok()).unwrap();
    assert_eq!((json["total"].as_u64(), json["objects"].as_array().unwrap().len()), (Some(12), 12));
    let limited = run(&person, &["explore", &query, "--limit", "5"]);
    assert_eq!((limited.code, limited.out.lines().count()), (Some(0), 6));
    assert!(limited.err.contains("5 of 12 objects"), "{limited:?}");
    let facets = run(&person, &["explore", &query, "--facets"]).ok();
    assert!(facets.lines().any(|line| line.split_whitespace().eq(["kind", "ConfigMap", "12"])), "{facets}");
    // Several words are one question.
    assert_eq!(run(&person, &["explore", &query, "name:map-03"]).ok().lines().count(), 2);
    run(&person, &["explore", "status:no"]).fails(1, "query at character 8");
    let stranger = Person { token: "garbage".to_owned(), ..person.clone() };
    run(&stranger, &["explore", "x"]).fails(4, "not authenticated");
}

#[tokio::test]
async fn explore_goes_on_and_tells_what_changes() {
    let world = world().await;
    let namespace = world.cluster.namespace("watches").await;
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    let query = own(&namespace);
    let mut child =
        command(person.server, &person.token, &["explore", "--watch", &query]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, mut told) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
    // The stream has begun when a change is told; until then changes are made.
    let mut number = 0;
    let line = loop {
        make_map(world.cluster, &namespace, &format!("map-{number}"), &[]).await;
        number += 1;
        if let Ok(line) = tokio::time::timeout(std::time::Duration::from_secs(2), told.recv()).await {
            break line.unwrap();
        }
        assert!(number < 30, "nothing was told");
    };
    assert!(line.starts_with("changed  local") && line.contains("map-"), "{line}");
    let name = line.split_whitespace().find(|word| word.starts_with("map-")).unwrap();
    super::delete_map(world.cluster, &namespace, name).await;
    let gone = tokio::time::timeout(PATIENCE, async {
        loop {
            let line = told.recv().await.unwrap();
            if line.starts_with("gone") {
                return line;
            }
        }
    });
    assert!(gone.await.unwrap().ends_with(&format!("ConfigMap/{name}")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn who_can_see_is_told_to_those_who_may_know() {
    let world = world().await;
    let namespace = world.cluster.namespace("who-command").await;
    make_map(world.cluster, &namespace, "map", &[]).await;
    let grant = world
        .cluster
        .grant(Scope::Namespace(&namespace), &[subject::user("wanda")], &[rule(&["get"], &[""], &["configmaps"])])
        .await;
    let admin = world.admin().await;
    admin.sees(&own(&namespace), &["map"]).await;
    let object = format!("ConfigMap/{namespace}/map");
    let table = run(&admin, &["explore", "--who-can-see", &object]).ok();
    let line = table.lines().find(|line| line.contains("wanda")).unwrap_or_else(|| panic!("{table}"));
    assert!(line.starts_with("get") && line.contains(&grant.binding) && line.contains(&grant.role), "{line}");
    run(&admin, &["explore", "--who-can-see", &object, "--cluster", "nowhere"]).fails(3, "no such cluster");
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    run(&person, &["explore", "--who-can-see", &object]).fails(4, "you may not list");
}

#[tokio::test]
async fn clusters_are_added_listed_and_removed() {
    let other = other().await;
    let server: &'static Server = Box::leak(Box::new(Start::new().flag("--explorer-kinds", super::KINDS).serve()));
    let admin = Person { server, token: server.first_token() };
    let file = collector(other).await.write();
    let file = file.to_str().unwrap();
    let added =
        run(&admin, &["cluster", "add", "west", "--from", file, "--identity", "shared", "--token-user", "admin=amy"])
            .ok();
    assert!(added.contains("west") && added.contains("added"), "{added}");
    eventually(PATIENCE, || async {
        let list = run(&admin, &["cluster", "list"]).ok();
        let line = list.lines().find(|line| line.starts_with("west")).unwrap_or_default().to_owned();
        if line.ends_with("ok") && line.contains("7/7") { Ok(()) } else { Err(list) }
    })
    .await;
    let list: Value = serde_json::from_str(&run(&admin, &["cluster", "list", "-o", "json"]).ok()).unwrap();
    assert_eq!(list["clusters"][0]["name"], "west");
    run(&admin, &["cluster", "add", "east", "--from", file]).fails(5, "is already here as 'west'");
    run(&admin, &["cluster", "add", "east", "--from", "/nowhere"]).fails(1, "failed to read the kubeconfig");
    run(&admin, &["cluster", "add", "east", "--from", file, "--map", "user:a=b"]).fails(2, "--map has no effect");
    assert!(run(&admin, &["cluster", "remove", "west"]).ok().contains("west"));
    let failed = run(&admin, &["cluster", "remove", "west"]);
    assert!(failed.code == Some(3) && failed.err.contains("no cluster named 'west'"), "{failed:?}");
}
