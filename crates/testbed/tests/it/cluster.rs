//! The control plane answers, and its helpers give what they say.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use testbed::Cluster;

#[tokio::test]
async fn the_api_server_publishes_the_authorities_of_clients_and_front_proxies() {
    let cluster = Cluster::shared().await;
    let published: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-system");
    let published = published.get("extension-apiserver-authentication").await.expect("the published authorities");
    let data = published.data.expect("data");
    assert_eq!(data["client-ca-file"], cluster.client_ca().certificate_pem());
    assert_eq!(data["requestheader-client-ca-file"], cluster.front_proxy_ca().certificate_pem());
    assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client"]"#);
}
