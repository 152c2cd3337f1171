//! An object of S3, as the `s3` backend of the real clients writes it.

use std::fs;

use testbed::Weed;
use testbed::process::scratch;

use super::elsewhere::{Workspace, resource};
use crate::run::Run;
use crate::server::Start;
use crate::state_commands::{Person, a_state, file_with, lock_of};

const STATE: &str = "team-a/app";

#[tokio::test]
async fn an_object_of_the_s3_backend_is_locked_beside_it_and_copied() {
    let server = Start::new().serve();
    let me = Person::first(&server);
    let weed = Weed::shared().expect("weed");
    let bucket = weed.create_bucket().expect("a bucket");
    let url = weed.url();
    let backend = format!(
        "  backend \"s3\" {{\n    bucket = \"{bucket}\"\n    key = \"path/to/app.tfstate\"\n    region = \"{}\"\n    \
         endpoints = {{ s3 = \"{url}\" }}\n    access_key = \"{}\"\n    secret_key = \"{}\"\n    use_path_style = true\n    \
         use_lockfile = true\n    skip_credentials_validation = true\n    skip_region_validation = true\n    \
         skip_requesting_account_id = true\n    skip_metadata_api_check = true\n    skip_s3_checksum = true\n  }}",
        Weed::REGION,
        Weed::ACCESS_KEY_ID,
        Weed::SECRET_ACCESS_KEY
    );
    let tofu = testbed::peer("tofu").expect("tofu");
    let workspace = Workspace::new(&tofu, &backend);
    workspace.configure(&resource("one"));
    workspace.ok(&["init"]);
    workspace.ok(&["apply", "-auto-approve"]);

    let place = format!("s3://{bucket}/path/to/app.tfstate");
    let migrate = ["migrate", STATE, "--from", &place, "--s3-endpoint", &url];
    let keys = [("AWS_ACCESS_KEY_ID", Weed::ACCESS_KEY_ID), ("AWS_SECRET_ACCESS_KEY", Weed::SECRET_ACCESS_KEY)];
    let with_keys = |arguments: &[&str]| Run::of(me.command(arguments).envs(keys));
    me.fails(2, "no credentials for S3", &migrate);
    let wrong = Run::of(me.command(&migrate).envs([keys[0], ("AWS_SECRET_ACCESS_KEY", "wrong")]));
    wrong.fails(4, "may not do that");
    with_keys(&["migrate", STATE, "--from", &format!("s3://{bucket}/none"), "--s3-endpoint", &url])
        .fails(3, "not there");

    // The client holds its lock object: it is named.
    let busy = workspace.busy_apply().await;
    with_keys(&migrate).fails(8, "OperationTypeApply");
    busy.end();

    // We hold it, also after a crash: the client does not get in between.
    let crashed = Run::of(me.command(&migrate).envs(keys).env("STATEWARD_FAILPOINTS", "migrate.both_locked=crash"));
    assert!(crashed.code.is_none(), "{crashed:#?}");
    let refused = workspace.run(&["apply", "-auto-approve"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("migration"), "{said}");
    assert!(with_keys(&migrate).ok().contains("copied"));
    assert_eq!(lock_of(&me, STATE), None);
    workspace.ok(&["plan"]);

    // With a profile, and what the client writes next.
    workspace.configure(&resource("two"));
    workspace.ok(&["apply", "-auto-approve"]);
    let files = scratch("aws").unwrap();
    let profile = format!(
        "[other]\naws_access_key_id = no\n[mine]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        Weed::ACCESS_KEY_ID,
        Weed::SECRET_ACCESS_KEY
    );
    fs::write(files.join("credentials"), profile).unwrap();
    let by_profile = [&migrate[..], &["--s3-profile", "mine"]].concat();
    let run = Run::of(me.command(&by_profile).env("AWS_SHARED_CREDENTIALS_FILE", files.join("credentials")));
    assert!(run.ok().contains("copied"));
    let pulled: serde_json::Value = serde_json::from_str(&workspace.ok(&["state", "pull"])).unwrap();
    let copied: serde_json::Value = serde_json::from_str(&me.ok(&["pull", STATE])).unwrap();
    assert_eq!(copied, pulled);
    me.fails(2, "no AWS profile", &[&migrate[..], &["--s3-profile", "none"]].concat());
}

#[tokio::test]
async fn a_namespace_moves_into_the_bucket_of_the_server() {
    let weed = Weed::shared().expect("weed");
    let bucket = weed.create_bucket().expect("a bucket");
    let start = |start: Start| {
        start
            .flag("--s3-bucket", &bucket)
            .flag("--s3-endpoint", weed.url())
            .switch("--s3-allow-http=true")
            .flag("--s3-access-key-id", Weed::ACCESS_KEY_ID)
            .variable("STATEWARD_S3_SECRET_ACCESS_KEY", Weed::SECRET_ACCESS_KEY)
    };
    let server = start(Start::new()).serve();
    let me = Person::first(&server);
    for name in ["one", "two"] {
        me.ok(&["push", &format!("team-a/{name}"), &file_with(&a_state(1, name))]);
    }
    me.ok(&["push", "team-b/stays", &file_with(&a_state(1, "stays"))]);
    let out = me.ok(&["migrate", "-n", "team-a", "--from-store", "sqlite", "--to-store", "s3"]);
    assert_eq!(out.matches(" copied ").count(), 2, "{out}");
    for name in ["one", "two"] {
        let state = format!("team-a/{name}");
        assert_eq!(me.ok(&["pull", &state, "--store", "s3"]), a_state(1, name));
        me.fails(5, "in the store s3", &["pull", &state]);
    }
    assert_eq!(me.ok(&["pull", "team-b/stays"]), a_state(1, "stays"));
    // With the route that a move is followed by, the same names are found in the new store.
    let (data, token) = (server.data.clone(), me.token.clone());
    drop(server);
    let server = start(Start::on(data)).flag("--states-routes", "team-a=s3").serve();
    let me = Person::new(&server, &token);
    assert_eq!(me.ok(&["pull", "team-a/one"]), a_state(1, "one"));
}
