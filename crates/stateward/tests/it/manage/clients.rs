//! What the real clients make of what was done through the API.

use std::fs;

use serde_json::{Value, json};

use super::api;
use crate::states::User;
use crate::terraform::{Workspace, server, text};

const ENCRYPTION: &str = r#"
terraform {
  encryption {
    key_provider "pbkdf2" "it" {
      passphrase = "correct horse battery staple"
      iterations = 200000
    }
    method "aes_gcm" "it" {
      keys = key_provider.pbkdf2.it
    }
    state {
      method   = method.aes_gcm.it
      enforced = true
    }
  }
}
"#;

/// The number of the current version and its bytes.
async fn current(user: &User<'_>, name: &str) -> (u64, String) {
    let shown = user.json(200, "GET", &api("team-a", name, ""), "").await;
    let (status, raw) = user.send("GET", &api("team-a", name, "/raw"), "").await;
    assert_eq!(status, 200);
    (shown["version"].as_u64().unwrap(), raw)
}

async fn roll_back(user: &User<'_>, name: &str, version: u64) -> String {
    let body = json!({"version": version}).to_string();
    let rolled = user.json(200, "POST", &api("team-a", name, "/rollback"), &body).await;
    rolled["serial"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn after_a_rollback_the_next_plan_finds_the_old_state() {
    let (server, token) = server();
    let user = User { server: &server, token: token.clone() };
    let tofu = testbed::peer("tofu").expect("tofu");
    let workspace = Workspace::new(&tofu, &server, &token, "/state/team-a/app");
    workspace.ok(&["init"]);
    workspace.ok(&["apply", "-auto-approve"]);
    let (version, first) = current(&user, "app").await;
    workspace.configure("two", "");
    workspace.ok(&["apply", "-auto-approve"]);
    let (_, second) = current(&user, "app").await;
    assert!(second.contains("\"two\"") && !second.contains("\"one\""));

    let serial = roll_back(&user, "app", version).await;
    let (_, now) = current(&user, "app").await;
    let digits = |text: &str| {
        let state: Value = serde_json::from_str(text).unwrap();
        state["serial"].as_u64().unwrap()
    };
    assert_eq!(digits(&now).to_string(), serial);
    assert!(digits(&now) > digits(&second));
    // The client writes the digits right behind the colon.
    let old = format!("\"serial\":{},", digits(&first));
    assert_eq!(first.matches(&old).count(), 1, "{first}");
    assert_eq!(now, first.replace(&old, &format!("\"serial\":{serial},")), "nothing else changed");

    assert!(workspace.ok(&["plan"]).contains("must be replaced"), "what is configured is not there any more");
    workspace.configure("one", "");
    assert!(workspace.ok(&["plan"]).contains("No changes"));
    workspace.configure("three", "");
    workspace.ok(&["apply", "-auto-approve"]);
    assert!(current(&user, "app").await.1.contains("\"three\""));

    // A version as it is read can be pushed.
    let file = workspace.directory.join("old.tfstate");
    let (_, raw) = user.send("GET", &api("team-a", "app", &format!("/versions/{version}/raw")), "").await;
    fs::write(&file, raw).unwrap();
    workspace.ok(&["state", "push", "-force", file.to_str().unwrap()]);
    assert!(current(&user, "app").await.1.contains("\"one\""));
}

#[tokio::test]
async fn what_tofu_encrypted_rolls_back_byte_for_byte_and_can_be_planned() {
    let (server, token) = server();
    let user = User { server: &server, token: token.clone() };
    let tofu = testbed::peer("tofu").expect("tofu");
    let workspace = Workspace::new(&tofu, &server, &token, "/state/team-a/sealed");
    fs::write(workspace.directory.join("encryption.tf"), ENCRYPTION).unwrap();
    workspace.ok(&["init"]);
    workspace.ok(&["apply", "-auto-approve"]);
    let (version, first) = current(&user, "sealed").await;
    assert!(first.contains("encrypted_data") && !first.contains("terraform_data"), "{first}");
    workspace.configure("two", "");
    workspace.ok(&["apply", "-auto-approve"]);

    roll_back(&user, "sealed", version).await;
    let (now, bytes) = current(&user, "sealed").await;
    assert!(now > version && bytes == first, "byte for byte");
    assert!(workspace.ok(&["plan"]).contains("must be replaced"));
    workspace.configure("one", "");
    assert!(workspace.ok(&["plan"]).contains("No changes"));
    for rest in ["/diff", "/resources", "/outputs"] {
        let told = user.json(409, "GET", &api("team-a", "sealed", rest), "").await;
        assert!(told["error"]["message"].as_str().unwrap().contains("encrypted by the client"), "{told}");
    }
    let shown = user.json(200, "GET", &api("team-a", "sealed", ""), "").await;
    assert_eq!(shown["encrypted_by_client"], true);
    workspace.configure("three", "");
    workspace.ok(&["apply", "-auto-approve"]);
}

/// What the client says of a plan that fails, on one line.
fn plan_fails(workspace: &Workspace) -> String {
    let refused = workspace.run(&["plan"]);
    assert!(!refused.status.success());
    text(&refused).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn clients_show_the_lock_of_a_person_and_where_a_state_went() {
    let (server, token) = server();
    let user = User { server: &server, token: token.clone() };
    let clients = [testbed::peer("tofu").expect("tofu"), "/usr/local/bin/terraform".into()];
    for (number, client) in clients.iter().enumerate() {
        let name = format!("held-{number}");
        let workspace = Workspace::new(client, &server, &token, &format!("/state/team-a/{name}"));
        workspace.ok(&["init"]);
        workspace.ok(&["apply", "-auto-approve"]);
        let body = json!({"reason": "frozen for the audit", "operation": "freeze"}).to_string();
        let lock = user.json(200, "PUT", &api("team-a", &name, "/lock"), &body).await;
        let id = lock["id"].as_str().unwrap();
        // Of the holder's LockInfo they show the ID; the rest is their own.
        assert!(plan_fails(&workspace).contains(id));
        let moved = json!({"to": "https://new.example/", "lock_id": id}).to_string();
        user.json(200, "POST", &api("team-a", &name, "/moved"), &moved).await;
        user.json(200, "DELETE", &api("team-a", &name, &format!("/lock?ID={id}")), "").await;
        let said = plan_fails(&workspace);
        assert!(said.contains("the state was moved to https://new.example/"), "{said}");
        user.json(200, "POST", &api("team-a", &name, "/restore"), "").await;
        assert!(workspace.ok(&["plan"]).contains("No changes"));
    }
}
