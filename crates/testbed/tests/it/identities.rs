//! Everybody whom the testbed makes is whom the API server takes them for.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::authentication::v1::{
    SelfSubjectReview, TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use testbed::certificates::Authority;
use testbed::{AUDIENCE, Cluster, FRONT_PROXY_NAME, STATIC_TOKEN_GROUP, Scope, eventually, rule, subject};

#[tokio::test]
async fn a_requested_token_passes_review_for_its_audience_only() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("token").await;
    cluster.service_account(&namespace, "robot").await;
    let token = cluster.token_request(&namespace, "robot", &[AUDIENCE], 600).await;

    let right = review(cluster, &token, &[AUDIENCE]).await;
    assert_eq!(right.authenticated, Some(true), "{right:?}");
    assert_eq!(right.audiences, Some(vec![AUDIENCE.to_owned()]));
    let user = right.user.expect("a user");
    assert_eq!(user.username, Some(format!("system:serviceaccount:{namespace}:robot")));
    assert!(user.groups.expect("groups").contains(&format!("system:serviceaccounts:{namespace}")));

    let wrong = review(cluster, &token, &["somebody-else"]).await;
    assert_ne!(wrong.authenticated, Some(true), "{wrong:?}");
    assert!(
        wrong.error.as_ref().is_some_and(|error| error.contains("is invalid for the target audiences")),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn a_token_signed_by_the_testbed_counts_until_it_has_expired() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("signed").await;
    cluster.service_account(&namespace, "robot").await;

    let alive = cluster.signed_token(&namespace, "robot", &[AUDIENCE], 30).await;
    let alive = review(cluster, &alive, &[AUDIENCE]).await;
    assert_eq!(alive.authenticated, Some(true), "{alive:?}");
    assert_eq!(alive.user.and_then(|user| user.username), Some(format!("system:serviceaccount:{namespace}:robot")));

    let expired = cluster.signed_token(&namespace, "robot", &[AUDIENCE], -90).await;
    let expired = review(cluster, &expired, &[AUDIENCE]).await;
    assert_ne!(expired.authenticated, Some(true), "{expired:?}");
    assert!(expired.error.as_ref().is_some_and(|error| error.contains("expired")), "{expired:?}");

    let garbage = review(cluster, "garbage", &[AUDIENCE]).await;
    assert_ne!(garbage.authenticated, Some(true), "{garbage:?}");
}

#[tokio::test]
async fn a_certificate_makes_a_user_with_all_her_groups() {
    let cluster = Cluster::shared().await;
    let user = cluster.user("carla", &["painters", "poets", "pilots"]);
    let info = who_am_i(cluster.client_as(user.kubeconfig())).await.expect("she is known");
    assert_eq!(info.username.as_deref(), Some("carla"));
    assert_eq!(info.groups.expect("groups"), ["painters", "poets", "pilots", "system:authenticated"]);
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_another_time_is_refused() {
    let cluster = Cluster::shared().await;
    let now = SystemTime::now();
    let hour = Duration::from_secs(3600);
    let stranger = Authority::new("testbed-cluster").client("carla", &["system:masters"]);
    let over = cluster.client_ca().client_with("carla", &[], now - 2 * hour..now - hour);
    let to_come = cluster.client_ca().client_with("carla", &[], now + hour..now + 2 * hour);
    let now_only = cluster.client_ca().client_with("carla", &[], now - hour..now + hour);
    for refused in [stranger, over, to_come] {
        let answer = who_am_i(cluster.client_as(&cluster.kubeconfig_for_certificate(&refused))).await;
        assert!(answer.is_err(), "{answer:?}");
    }
    let answer = who_am_i(cluster.client_as(&cluster.kubeconfig_for_certificate(&now_only))).await;
    assert_eq!(answer.expect("she is known").username.as_deref(), Some("carla"));
}

#[tokio::test]
async fn each_static_token_user_is_somebody_else() {
    let cluster = Cluster::shared().await;
    let [one, two] = [cluster.static_token_user(), cluster.static_token_user()];
    assert_ne!(one.name, two.name);
    for user in [one, two] {
        let kubeconfig = cluster.kubeconfig_for_token(&user.token);
        let info = who_am_i(cluster.client_as(&kubeconfig)).await.expect("the token is known");
        assert_eq!(info.username, Some(user.name));
        let groups = info.groups.expect("groups");
        assert!(user.groups.iter().all(|group| groups.contains(group)), "{groups:?}");
        assert!(groups.contains(&STATIC_TOKEN_GROUP.to_owned()), "{groups:?}");
    }
}

#[tokio::test]
async fn headers_count_from_a_front_proxy_with_the_right_name_only() {
    let cluster = Cluster::shared().await;
    for (name, believed) in [(FRONT_PROXY_NAME, true), ("somebody", false)] {
        let kubeconfig = cluster.kubeconfig_for_certificate(&cluster.front_proxy_certificate(name));
        let mut config = kubeconfig.config();
        let header =
            |name: &'static str, value| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value));
        config.headers = vec![header("x-remote-user", "fred"), header("x-remote-group", "fishers")];
        let answer = who_am_i(Client::try_from(config).expect("a client")).await;
        let fred = matches!(&answer, Ok(info) if info.username.as_deref() == Some("fred"));
        assert_eq!(fred, believed, "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn a_binding_to_a_group_allows_its_members_until_it_is_removed() {
    let cluster = Cluster::shared().await;
    let namespace = cluster.namespace("group").await;
    let question = |group: &str| SubjectAccessReviewSpec {
        user: Some("gina".to_owned()),
        groups: Some(vec![group.to_owned()]),
        resource_attributes: Some(ResourceAttributes {
            namespace: Some(namespace.clone()),
            verb: Some("get".to_owned()),
            resource: Some("secrets".to_owned()),
            ..ResourceAttributes::default()
        }),
        ..SubjectAccessReviewSpec::default()
    };
    let group = format!("group-of-{namespace}");
    assert!(!cluster.allows(question(&group)).await);
    let rules = [rule(&["get"], &[""], &["secrets"])];
    let grant = cluster.grant(Scope::Namespace(&namespace), &[subject::group(&group)], &rules).await;
    assert!(cluster.allows(question(&group)).await);
    assert!(!cluster.allows(question("other")).await);
    cluster.remove_binding(&grant).await;
    eventually(Duration::from_secs(60), || async { !cluster.allows(question(&group)).await }).await;
}

#[tokio::test]
async fn a_grant_for_the_whole_cluster_counts_in_every_namespace() {
    let cluster = Cluster::shared().await;
    let user = cluster.user("wanda", &[]);
    let rules = [rule(&["list"], &[""], &["configmaps", "pods/log"])];
    cluster.grant(Scope::Cluster, &[subject::user("wanda")], &rules).await;
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::all(cluster.client_as(user.kubeconfig()));
    maps.list(&kube::api::ListParams::default()).await.expect("she may list them all");
}

async fn review(cluster: &Cluster, token: &str, audiences: &[&str]) -> TokenReviewStatus {
    let delegator = cluster.service_account_with_auth_delegator().await;
    let audiences = audiences.iter().map(|&audience| audience.to_owned()).collect();
    let spec = TokenReviewSpec { audiences: Some(audiences), token: Some(token.to_owned()) };
    let reviews: Api<TokenReview> = Api::all(cluster.client_as(&delegator.kubeconfig));
    let answer = reviews.create(&PostParams::default(), &TokenReview { spec, ..TokenReview::default() }).await;
    answer.expect("review a token").status.expect("a status")
}

async fn who_am_i(client: Client) -> kube::Result<UserInfo> {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let answer = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    Ok(answer.status.and_then(|status| status.user_info).unwrap_or_default())
}
