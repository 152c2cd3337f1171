//! Certificates of storage backends that are renewed while the hub runs.

use std::path::Path;
use std::sync::Arc;

use backends::drivers::file::File;
use backends::{Pem, ServerLimits, ServerTls, Serving};
use serde_json::json;
use testbed::certificates::Authority;
use testbed::process::scratch;

use super::{code, create, data};
use crate::server::{PATIENCE, Server, Start};

/// Who signs for backends, and who for their clients.
struct Authorities {
    servers: Authority,
    clients: Authority,
}

impl Authorities {
    fn new(name: &str) -> Authorities {
        Authorities {
            servers: Authority::new(&format!("{name} servers")),
            clients: Authority::new(&format!("{name} clients")),
        }
    }

    /// A backend that lets in whom its authority knows; its address.
    async fn backend(&self, directory: &Path) -> String {
        let pair = self.servers.server(&["127.0.0.1"]);
        let pem = |text: &str| Pem::Text(text.as_bytes().to_vec());
        let tls = ServerTls {
            certificate: pem(&pair.certificate_pem),
            key: pem(&pair.key_pem),
            client_authority: Some(pem(self.clients.certificate_pem())),
        };
        let serving =
            Serving { listen: "127.0.0.1:0".parse().unwrap(), tls: Some(tls), limits: ServerLimits::default() };
        let server =
            backends::Server::bind(Arc::new(File::open(directory.to_owned()).unwrap()), serving).await.unwrap();
        let address = server.address().to_string();
        tokio::spawn(server.run(std::future::pending()));
        address
    }

    fn write_authority(&self, directory: &Path) {
        std::fs::write(directory.join("servers.crt"), self.servers.certificate_pem()).unwrap();
    }

    fn write_certificate(&self, directory: &Path) {
        self.clients.client("hub", &[]).write(directory, "client").unwrap();
    }
}

async fn register(server: &Server, token: &str, name: &str, address: &str) {
    let type_ref = json!({ "path": "cap.core.type.hub.storage.file", "revision": "0.1.0" });
    let value = json!({ "url": address, "acceptValue": true });
    create(server, token, json!({ "name": name, "typeRef": type_ref, "value": value })).await;
}

#[tokio::test]
async fn renewed_certificates_and_authorities_of_backends_count_without_a_restart() {
    let directory = scratch("renewed").unwrap();
    let (old, new) = (Authorities::new("old"), Authorities::new("new"));
    old.write_authority(&directory);
    old.write_certificate(&directory);
    let file = |name: &str| directory.join(name);
    let server = Start::new()
        .flag("--hub-backend-ca-file", file("servers.crt"))
        .flag("--hub-backend-cert-file", file("client.crt"))
        .flag("--hub-backend-key-file", file("client.key"))
        .serve();
    let token = server.first_token();
    register(&server, &token, "first", &old.backend(&file("first")).await).await;
    register(&server, &token, "second", &new.backend(&file("second")).await).await;
    let kept = create(&server, &token, json!({ "backend": "first", "value": "kept" })).await;
    let record = |backend: &str| {
        let type_ref = json!({ "path": "cap.type.test", "revision": "0.1.0" });
        json!({ "in": { "backend": backend, "value": "new", "typeRef": type_ref } })
    };
    let created = async |backend: &str| code(&server, &token, super::CREATE, record(backend)).await;
    assert_eq!(created("second").await, "BACKEND", "its authority is not known");
    new.write_authority(&directory);
    assert_eq!(created("second").await, "BACKEND", "it does not know the hub");
    new.write_certificate(&directory);
    testbed::eventually(PATIENCE, || async { created("second").await.is_empty() }).await;
    // The connection to the first backend is an old one, and goes on.
    let read = "query($id: ID!) { typeInstance(id: $id) { latestResourceVersion { spec { value } } } }";
    let found = data(&server, &token, read, json!({ "id": kept })).await;
    assert_eq!(found["typeInstance"]["latestResourceVersion"]["spec"]["value"], "kept");
    // A new one to it has the new certificates, too.
    register(&server, &token, "third", &old.backend(&file("third")).await).await;
    assert_eq!(created("third").await, "BACKEND");
}
