//! Another workspace that reads outputs, by somebody who may read nothing else.

use std::fs;

use serde_json::{Value, json};

use super::{Workspace, http_reader, named, on_every_store};

#[test]
fn a_remote_state_reads_outputs_with_permission_for_outputs_only() {
    on_every_store(async |place, client| {
        let name = named("producer", client);
        let producer = Workspace::at(place, client, &name);
        let secret = "output \"secret\" {\n  value = \"canary\"\n  sensitive = true\n}\n";
        fs::write(producer.directory.join("secret.tf"), secret).unwrap();
        producer.ok(&["init"]);
        producer.ok(&["apply", "-auto-approve"]);
        assert_eq!(place.state(&name).await["outputs"]["secret"]["value"], "canary");

        let token = place.outputs_token(&named("reader", client)).await;
        let consumer = Workspace::local(client);
        let reading = |path: &str| {
            let text = format!(
                "data \"terraform_remote_state\" \"it\" {{\n  backend = \"http\"\n  config = {{\n{}  }}\n}}\n\
                 output \"all\" {{\n  value = data.terraform_remote_state.it.outputs\n}}\n",
                http_reader(&place.server, &token, path)
            );
            fs::write(consumer.directory.join("main.tf"), text).unwrap();
        };
        let path = place.path(&name);
        reading(&format!("{path}/outputs"));
        consumer.ok(&["init"]);
        consumer.ok(&["apply", "-auto-approve"]);
        let read: Value = serde_json::from_str(&consumer.ok(&["output", "-json"])).unwrap();
        assert_eq!(read["all"]["value"], json!({"it": "one"}), "and no sensitive one");
        reading(&path);
        consumer.fails(&["apply", "-auto-approve"], "invalid auth");
    });
}
