//! Users, ServiceAccounts and their tokens.

use std::fmt;

use aws_lc_rs::digest;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use rcgen::PublicKeyData;
use serde_json::{Value, json};

use super::{Cluster, Kubeconfig, Scope, StaticTokenUser, role, rule, subject, unique};
use crate::certificates::{Authority, Pair};

/// A user who proves herself by a certificate of the cluster's client authority.
#[derive(Clone)]
pub struct UserCertificate {
    pub name: String,
    pub certificate_pem: String,
    pub key_pem: String,
    kubeconfig: Kubeconfig,
}

/// A ServiceAccount that may ask TokenReviews and SubjectAccessReviews, and read the published authorities, as the
/// component behind an aggregated API may.
#[derive(Clone, Debug)]
pub struct Delegator {
    /// As the audit log has it: `system:serviceaccount:<namespace>:<name>`.
    pub username: String,
    pub namespace: String,
    pub kubeconfig: Kubeconfig,
}

impl UserCertificate {
    pub fn kubeconfig(&self) -> &Kubeconfig {
        &self.kubeconfig
    }
}

impl Cluster {
    /// The authority of the API server's own certificate and of client certificates.
    pub fn client_ca(&self) -> &Authority {
        &self.plane.authority
    }

    /// The authority of front proxies.
    pub fn front_proxy_ca(&self) -> &Authority {
        &self.plane.front_proxy_authority
    }

    /// A front proxy's certificate; the API server believes the one named [`super::FRONT_PROXY_NAME`] only.
    pub fn front_proxy_certificate(&self, common_name: &str) -> Pair {
        self.plane.front_proxy_authority.client(common_name, &[])
    }

    /// A user with these groups, by certificate.
    pub fn user(&self, name: &str, groups: &[&str]) -> UserCertificate {
        let pair = self.plane.authority.client(name, groups);
        let kubeconfig = self.kubeconfig_for_certificate(&pair);
        let Pair { certificate_pem, key_pem } = pair;
        UserCertificate { name: name.to_owned(), certificate_pem, key_pem, kubeconfig }
    }

    /// A user with groups, by static token: the next of a pool, since the API server reads its token file only once.
    pub fn static_token_user(&self) -> StaticTokenUser {
        self.static_tokens.take()
    }

    /// Makes a ServiceAccount; it needs no controller for that.
    pub async fn service_account(&self, namespace: &str, name: &str) -> ServiceAccount {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        accounts.create(&PostParams::default(), &account).await.expect("create a ServiceAccount")
    }

    /// A token from the API server, for at least 600 s (it refuses less). No audience means the API server's own.
    pub async fn token_request(&self, namespace: &str, account: &str, audiences: &[&str], seconds: i64) -> String {
        let spec = TokenRequestSpec {
            audiences: audiences.iter().map(|&audience| audience.to_owned()).collect(),
            expiration_seconds: Some(seconds),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let answer: TokenRequest =
            accounts.create_token_request(account, &PostParams::default(), &request).await.expect("request a token");
        answer.status.expect("a status").token
    }

    /// A token that the testbed signs with the cluster's own key, for any life; a negative one ended that long ago.
    ///
    /// The API server forgives a minute of clock skew and remembers an accepted token for about 10 s more: what must
    /// be refused as expired ended at least 61 s ago.
    pub async fn signed_token(&self, namespace: &str, account: &str, audiences: &[&str], life_seconds: i64) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let uid = accounts.get(account).await.expect("the ServiceAccount").metadata.uid;
        let now = Timestamp::now().as_second();
        let expiry = now + life_seconds;
        let issued = now.min(expiry - 1);
        self.sign(&json!({
            "iss": self.url(),
            "sub": format!("system:serviceaccount:{namespace}:{account}"),
            "aud": audiences,
            "iat": issued,
            "nbf": issued,
            "exp": expiry,
            "jti": uuid::Uuid::new_v4(),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account, "uid": uid}},
        }))
    }

    /// An ES256 token with these claims, by the key that the API server signs with.
    fn sign(&self, claims: &Value) -> String {
        let key = &self.plane.service_account_key;
        let key_id = digest::digest(&digest::SHA256, &key.subject_public_key_info());
        let header = json!({"alg": "ES256", "kid": BASE64_URL_SAFE_NO_PAD.encode(key_id)});
        let encode = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(claims));
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.serialized_der());
        let signature = signer.expect("a P-256 key").sign(&SystemRandom::new(), message.as_bytes());
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.expect("sign a token")))
    }

    /// A kubeconfig that shows a token.
    pub fn kubeconfig_for_token(&self, token: &str) -> Kubeconfig {
        Kubeconfig::for_token(self.url(), self.plane.authority.certificate_pem(), token)
    }

    /// A kubeconfig that shows a certificate, whoever signed it.
    pub fn kubeconfig_for_certificate(&self, pair: &Pair) -> Kubeconfig {
        Kubeconfig::for_certificate(self.url(), self.plane.authority.certificate_pem(), pair)
    }

    /// A ServiceAccount of its own for a component that authenticates and authorizes through the API server.
    pub async fn service_account_with_auth_delegator(&self) -> Delegator {
        let namespace = self.namespace("delegator").await;
        let name = unique("delegator");
        self.service_account(&namespace, &name).await;
        let account = [subject::service_account(&namespace, &name)];
        self.bind(Scope::Cluster, role::cluster("system:auth-delegator"), &account).await;
        let reader = role::namespaced("extension-apiserver-authentication-reader");
        self.bind(Scope::Namespace("kube-system"), reader, &account).await;
        let reviews = rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]);
        self.wait_until_allowed(Scope::Cluster, &account, &[reviews]).await;
        let published = rule(&["get"], &[""], &["configmaps"]);
        let published =
            PolicyRule { resource_names: Some(vec!["extension-apiserver-authentication".to_owned()]), ..published };
        self.wait_until_allowed(Scope::Namespace("kube-system"), &account, &[published]).await;
        let token = self.token_request(&namespace, &name, &[], 3600).await;
        Delegator {
            username: format!("system:serviceaccount:{namespace}:{name}"),
            namespace,
            kubeconfig: self.kubeconfig_for_token(&token),
        }
    }
}

impl fmt::Debug for UserCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UserCertificate").field("name", &self.name).finish_non_exhaustive()
    }
}
