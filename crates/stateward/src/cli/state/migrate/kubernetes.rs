//! Terraform's `kubernetes` backend: gzip in a Secret and, beyond one object, in further parts; locked by a Lease.

use bytes::Bytes;
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::Value;

use super::cluster::failure;
use super::gunzip::unpacked;
use super::side::{Doing, Locking, Side, Source, id, whole};
use crate::cli::failure::{Exit, Failure};
use crate::client::holder;
use crate::client::transfer::Pieces;

const LOCK_INFO: &str = "app.terraform.io/lock-info";
/// Only behind a part of this size does Terraform put another one; more may be left of a state that was larger.
const FULL_PART: usize = 1 << 20;

pub struct KubernetesSide {
    client: Client,
    namespace: String,
    suffix: String,
    workspace: String,
}

impl KubernetesSide {
    pub fn new(client: Client, namespace: &str, suffix: &str, workspace: Option<&str>) -> KubernetesSide {
        let workspace = workspace.unwrap_or("default").to_owned();
        KubernetesSide { client, namespace: namespace.to_owned(), suffix: suffix.to_owned(), workspace }
    }

    fn secret(&self) -> String {
        format!("tfstate-{}-{}", self.workspace, self.suffix)
    }

    fn lease(&self) -> String {
        format!("lock-{}", self.secret())
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn new_lease(&self) -> Lease {
        let labels = [
            ("tfstate", "true"),
            ("tfstateSecretSuffix", self.suffix.as_str()),
            ("tfstateWorkspace", self.workspace.as_str()),
            ("app.kubernetes.io/managed-by", "terraform"),
        ];
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let metadata = ObjectMeta { name: Some(self.lease()), labels: Some(labels), ..ObjectMeta::default() };
        Lease { metadata, spec: None }
    }
}

/// The holder that a Lease names.
fn held_by(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn kept_info(lease: &Lease) -> &[u8] {
    let annotations = lease.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(LOCK_INFO)).map_or(b"", |info| info.as_bytes())
}

impl Side for KubernetesSide {
    fn place(&self) -> String {
        format!("kubernetes://{}/{}?workspace={}", self.namespace, self.suffix, self.workspace)
    }

    fn lock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, Locking> {
        Box::pin(async {
            let (leases, place) = (self.leases(), self.place());
            let wrong = |error: kube::Error| failure("lock", &place, &error);
            let found = leases.get_opt(&self.lease()).await.map_err(wrong)?;
            let is_new = found.is_none();
            let mut lease = found.unwrap_or_else(|| self.new_lease());
            match held_by(&lease) {
                Some(holder) if holder == id(info) => return Ok(Locking::Locked),
                Some(other) => {
                    let said = holder(kept_info(&lease)).unwrap_or_else(|| format!("locked with the ID {other}"));
                    let hint = "wait for its holder, or force-unlock it with terraform or tofu";
                    return Err(Failure::new(Exit::Locked, format!("{place} is {said}"), hint).into());
                }
                None => {}
            }
            lease.spec.get_or_insert_with(LeaseSpec::default).holder_identity = Some(id(info).to_owned());
            lease.metadata.annotations.get_or_insert_default().insert(LOCK_INFO.to_owned(), info.to_string());
            // Both are refused with 409 if another was faster: the one by its name, the other by its resourceVersion.
            let written = if is_new {
                leases.create(&PostParams::default(), &lease).await
            } else {
                leases.replace(&self.lease(), &PostParams::default(), &lease).await
            };
            written.map_err(wrong)?;
            Ok(Locking::Locked)
        })
    }

    fn unlock<'a>(&'a mut self, info: &'a Value) -> Doing<'a, ()> {
        Box::pin(async {
            let (leases, place) = (self.leases(), self.place());
            let wrong = |error: kube::Error| failure("unlock", &place, &error);
            let Some(mut lease) = leases.get_opt(&self.lease()).await.map_err(wrong)? else { return Ok(()) };
            if held_by(&lease) != Some(id(info)) {
                return Ok(());
            }
            lease.spec.get_or_insert_with(LeaseSpec::default).holder_identity = None;
            lease.metadata.annotations.get_or_insert_default().remove(LOCK_INFO);
            leases.replace(&self.lease(), &PostParams::default(), &lease).await.map_err(wrong)?;
            Ok(())
        })
    }
}

impl Source for KubernetesSide {
    fn open(&mut self) -> Doing<'_, Pieces> {
        Box::pin(async {
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
            let (base, place) = (self.secret(), self.place());
            let first = part(&secrets, &base, &place).await?.ok_or_else(|| {
                let message = format!("there is no state at {place}: the Secret {base} is not there or holds none");
                Failure::new(Exit::NotFound, message, "check namespace, suffix and workspace")
            })?;
            let name = place.clone();
            // The first one is here already; the others have a number.
            let next = (first.len() == FULL_PART).then_some(1u32);
            let others = futures::stream::try_unfold(next, move |next| {
                let (secrets, base, place) = (secrets.clone(), base.clone(), place.clone());
                async move {
                    let Some(number) = next else { return Ok(None) };
                    let found = part(&secrets, &format!("{base}-part-{number}"), &place).await?;
                    Ok(found.map(|bytes| {
                        let next = (bytes.len() == FULL_PART).then_some(number + 1);
                        (bytes, next)
                    }))
                }
            });
            let parts = whole(first).chain(others);
            Ok(unpacked(&name, parts.boxed()))
        })
    }
}

async fn part(secrets: &Api<Secret>, name: &str, place: &str) -> Result<Option<Bytes>, Failure> {
    let secret = secrets.get_opt(name).await.map_err(|error| failure("read", place, &error))?;
    let bytes = secret.and_then(|secret| secret.data).and_then(|mut data| data.remove("tfstate"));
    Ok(bytes.map(|bytes| bytes.0.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
}
