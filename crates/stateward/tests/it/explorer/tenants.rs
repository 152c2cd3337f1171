//! Tenants: whose namespace an object lives in, as its label says now.

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::eventually;

use super::{Person, facet, own, world};
use crate::server::PATIENCE;

/// Waits until a question finds two rows, all of this tenant, and their facet says the same.
async fn are_of(person: &Person, query: &str, tenant: &str) {
    eventually(PATIENCE, || async {
        let found = person.find(query).await;
        let rows = found["objects"].as_array().unwrap();
        let rows_say = rows.len() == 2 && rows.iter().all(|row| row["tenant"] == tenant);
        let counts = facet(&found, "tenant");
        // What is nobody's is no value of the facet.
        let facet_says =
            if tenant.is_empty() { counts.is_empty() } else { counts.iter().eq([(&tenant.to_owned(), &2)]) };
        if rows_say && facet_says { Ok(()) } else { Err(found) }
    })
    .await;
}

#[tokio::test]
async fn rows_facets_and_filters_follow_the_label_of_the_namespace() {
    let world = world().await;
    let namespaces: Api<Namespace> = Api::all(world.cluster.client());
    let label = |namespace: String, tenant: Value| {
        let namespaces = namespaces.clone();
        async move {
            let patch = json!({ "metadata": { "labels": { "toolkit.fluxcd.io/tenant": tenant } } });
            namespaces.patch(&namespace, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    };
    let namespace = world.cluster.namespace("tenants").await;
    let other = world.cluster.namespace("tenants").await;
    for namespace in [&namespace, &other] {
        world.maps(namespace, &["one", "two"]).await;
    }
    let person = world.reader(&namespace, "jane", &[""], &["configmaps"]).await;
    let (blue, red) = (format!("blue-{namespace}"), format!("red-{namespace}"));
    let query = own(&namespace);
    person.sees(&query, &["one", "two"]).await;
    are_of(&person, &query, "").await;

    // Of a tenant that has another namespace too, only what one may see counts.
    label(namespace.clone(), json!(blue)).await;
    label(other.clone(), json!(blue)).await;
    are_of(&person, &query, &blue).await;
    let of_blue = format!("tenant:{blue} -name:kube-root-ca.crt");
    person.sees(&of_blue, &["one", "two"]).await;
    let (_, facets) = person.get(&format!("/v1/facets?query=tenant:{blue}")).await;
    assert_eq!(facet(&facets, "namespace").into_keys().collect::<Vec<_>>(), std::slice::from_ref(&namespace));
    let (_, suggested) = person.get(&format!("/v1/suggest?field=tenant&prefix={blue}")).await;
    assert_eq!(suggested["values"][0]["value"], json!(blue), "{suggested}");

    label(namespace.clone(), json!(red)).await;
    are_of(&person, &query, &red).await;
    person.sees(&of_blue, &[]).await;
    person.sees(&format!("tenant:{red} -name:kube-root-ca.crt"), &["one", "two"]).await;
    label(namespace.clone(), Value::Null).await;
    are_of(&person, &query, "").await;
    person.sees(&format!("tenant:{red}"), &[]).await;
    person.sees(&format!("{query} tenant:\"\""), &["one", "two"]).await;
}
