//! The clients' own backend `kubernetes` beside the server.

use std::fs;
use std::path::Path;

use super::{Workspace, held_by, named};
use crate::places::{Kept, Place, every_client};
use crate::server::status;

/// A workspace that keeps its state in Kubernetes by itself, past the server.
async fn stock(client: &Path, namespace: &str, suffix: &str) -> Workspace {
    let kubeconfig = testbed::Cluster::shared().await.admin_kubeconfig();
    let workspace = Workspace::local(client);
    workspace.keep_in(&format!(
        "backend \"kubernetes\" {{\n  secret_suffix = \"{suffix}\"\n  namespace = \"{namespace}\"\n  \
         config_path = \"{}\"\n}}",
        kubeconfig.display()
    ));
    workspace
}

#[tokio::test]
async fn the_store_kubernetes_and_the_backend_of_that_name_share_states_and_locks() {
    let place = Place::new(Kept::Kubernetes).await;
    for client in &every_client() {
        let name = &named("app", client);
        let stock = stock(client, &place.namespace, name).await;
        let ours = Workspace::at(&place, client, name);
        let value = async || place.state(name).await["outputs"]["it"]["value"].clone();

        // Each goes on where the other stopped.
        stock.ok(&["init"]);
        stock.ok(&["apply", "-auto-approve"]);
        assert_eq!(value().await, "one");
        ours.ok(&["init"]);
        assert!(ours.ok(&["apply", "-auto-approve"]).contains("No changes"));
        ours.configure("two", "");
        ours.ok(&["apply", "-auto-approve"]);
        assert!(stock.ok(&["output"]).contains("two"));
        stock.configure("three", "");
        stock.ok(&["apply", "-auto-approve"]);
        assert_eq!(value().await, "three");

        // Each minds the other's lock, and names its holder.
        let (mut applying, gate) = stock.busy("stock").await;
        let held = held_by(&place, name).await;
        assert_eq!(held["Operation"], "OperationTypeApply");
        ours.fails(&["plan"], held["ID"].as_str().unwrap());
        fs::write(gate, "").unwrap();
        assert!(applying.wait().unwrap().success());
        assert_eq!(value().await, "stock");
        let (mut applying, gate) = ours.busy("ours").await;
        let held = held_by(&place, name).await;
        let id = held["ID"].as_str().unwrap();
        stock.fails(&["plan"], id);

        // Broken by the stock client: the server's client does not write any more.
        stock.ok(&["force-unlock", "-force", id]);
        let before = value().await;
        let late = place.server.request("POST", &format!("{}?ID={id}", place.path(name))).bearer_auth(&place.token);
        assert_eq!(status(late.body("{}")).await, 423);
        fs::write(gate, "").unwrap();
        assert!(!applying.wait().unwrap().success(), "it could not save its state");
        assert_eq!(value().await, before);
        stock.configure("four", "");
        stock.ok(&["apply", "-auto-approve"]);
        assert_eq!(value().await, "four");

        // Other workspaces have names of their own.
        stock.ok(&["workspace", "new", "prod"]);
        stock.ok(&["apply", "-auto-approve"]);
        let prod = place.state(&format!("prod.{name}")).await;
        assert_eq!(prod["outputs"]["it"]["value"], "four");
    }
}
