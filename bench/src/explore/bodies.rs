//! Bodies shaped like those of real kinds, with the words, hashes, times and uids that such objects have.

use fastrand::Rng;
use serde_json::{Value, json};

/// What a body is about.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) app: &'a str,
}

type Kind = (&'static str, &'static str, &'static str, &'static str, fn(&mut Rng, &Facts<'_>) -> Value);

/// Group, version, kind, resource, body.
pub(super) const KINDS: &[Kind] = &[
    ("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases", release),
    ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations", kustomization),
    ("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories", source),
    ("source.toolkit.fluxcd.io", "v1", "HelmRepository", "helmrepositories", source),
    ("source.toolkit.fluxcd.io", "v1", "OCIRepository", "ocirepositories", source),
    ("source.toolkit.fluxcd.io", "v1", "HelmChart", "helmcharts", source),
    ("infra.contrib.fluxcd.io", "v1alpha2", "Terraform", "terraforms", kustomization),
    ("external-secrets.io", "v1", "ExternalSecret", "externalsecrets", kustomization),
    ("apps", "v1", "Deployment", "deployments", workload),
    ("apps", "v1", "StatefulSet", "statefulsets", workload),
    ("", "v1", "Pod", "pods", workload),
    ("", "v1", "ConfigMap", "configmaps", settings),
    ("", "v1", "Service", "services", settings),
];

const APPS: &[&str] = &[
    "podinfo",
    "nginx",
    "billing",
    "checkout",
    "search",
    "catalog",
    "payments",
    "gateway",
    "ledger",
    "mailer",
    "metrics",
    "frontend",
    "backend",
    "worker",
    "scheduler",
    "auth",
    "session",
    "profile",
    "orders",
    "inventory",
    "shipping",
    "reports",
];
const PARTS: &[&str] = &["api", "web", "db", "cache", "queue", "proxy", "sync", "admin", "jobs", "edge"];
const REASONS: &[&str] = &["Succeeded", "ReconciliationFailed", "BuildFailed", "HealthCheckFailed", "Progressing"];

pub(super) fn app(random: &mut Rng) -> String {
    format!("{}-{}", APPS[random.usize(..APPS.len())], PARTS[random.usize(..PARTS.len())])
}

pub(super) fn uid(random: &mut Rng) -> String {
    let (third, fourth) = (random.u16(..0x1000), random.u16(..0x1000));
    format!("{:08x}-{:04x}-4{third:03x}-8{fourth:03x}-{:012x}", random.u32(..), random.u16(..), random.u64(..1 << 48))
}

fn hash(random: &mut Rng) -> String {
    format!("{:032x}{:032x}", random.u128(..), random.u128(..))
}

fn time(random: &mut Rng) -> String {
    format!(
        "2026-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        random.u8(1..13),
        random.u8(1..29),
        random.u8(..24),
        random.u8(..60),
        random.u8(..60)
    )
}

fn metadata(random: &mut Rng, facts: &Facts<'_>) -> Value {
    json!({
        "name": facts.name, "namespace": facts.namespace, "uid": uid(random), "generation": random.u32(1..40),
        "resourceVersion": random.u32(100_000_000..).to_string(), "creationTimestamp": time(random),
        "labels": {
            "app.kubernetes.io/name": facts.app,
            "app.kubernetes.io/managed-by": if random.bool() { "flux" } else { "Helm" },
            "app.kubernetes.io/version": format!("{}.{}.{}", random.u8(0..5), random.u8(0..30), random.u8(0..10)),
            "tier": if random.bool() { "frontend" } else { "backend" },
            "kustomize.toolkit.fluxcd.io/name": facts.namespace,
        },
        "annotations": {
            "reconcile.fluxcd.io/requestedAt": time(random),
            "checksum/config": hash(random),
            "meta.helm.sh/release-name": facts.app,
            "meta.helm.sh/release-namespace": facts.namespace,
            "prometheus.io/scrape": "true", "prometheus.io/port": random.u16(8000..8100).to_string(),
        },
        "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": facts.app, "uid": uid(random), "controller": true }],
    })
}

fn conditions(random: &mut Rng, message: &str) -> Value {
    let reason = REASONS[if random.u8(..) < 220 { 0 } else { random.usize(..REASONS.len()) }];
    let status = match reason {
        "Succeeded" => "True",
        "Progressing" => "Unknown",
        _ => "False",
    };
    let ready = if status == "True" {
        message.to_owned()
    } else {
        format!("{reason}: timeout waiting for condition of {message}")
    };
    json!([
        { "type": "Ready", "status": status, "reason": reason, "message": ready, "lastTransitionTime": time(random), "observedGeneration": 3 },
        { "type": "Healthy", "status": status, "reason": reason, "message": "Health check passed in 30ms", "lastTransitionTime": time(random) },
        { "type": "Stalled", "status": "False", "reason": "RetriesLeft", "message": "", "lastTransitionTime": time(random) },
    ])
}

/// Settings of the parts of an application: the same part has the same shape everywhere, and one of a few images.
fn filler(random: &mut Rng, entries: usize) -> Value {
    let first = random.usize(..PARTS.len());
    let entry = |number: usize| {
        let (part, app) = (PARTS[(first + number) % PARTS.len()], APPS[(first * 7 + number) % APPS.len()]);
        let setting = json!({
            "enabled": random.u8(..) < 250,
            "image": format!("registry.example.org/{app}/{part}:1.{}.{}", random.u8(0..20), random.u8(0..9)),
            "resources": {
                "requests": { "cpu": "100m", "memory": "128Mi" },
                "limits": { "memory": format!("{}Mi", 64 * random.u16(1..9)) },
            },
            "host": format!("{app}-{part}.example.svc.cluster.local"),
            "replicas": random.u8(1..6),
        });
        (format!("{app}.{part}"), setting)
    };
    Value::Object((0..entries).map(entry).collect())
}

fn release(random: &mut Rng, facts: &Facts<'_>) -> Value {
    let version = format!("{}.{}.{}", random.u8(1..9), random.u8(0..20), random.u8(0..10));
    let message = format!(
        "Helm upgrade succeeded for release {}/{}.v{} with chart {}@{version}",
        facts.namespace,
        facts.name,
        random.u8(1..90),
        facts.app
    );
    let history: Vec<Value> = (0..2).map(|number| json!({
        "chartName": facts.app, "chartVersion": version, "configDigest": format!("sha256:{}", hash(random)), "digest": format!("sha256:{}", hash(random)),
        "firstDeployed": time(random), "lastDeployed": time(random), "name": facts.name, "namespace": facts.namespace, "status": "deployed", "version": number,
    })).collect();
    let entries = random.usize(3..14);
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": metadata(random, facts),
        "spec": {
            "interval": format!("{}m", random.u8(1..60)), "releaseName": facts.name,
            "chart": { "spec": { "chart": facts.app, "version": version, "sourceRef": { "kind": "HelmRepository", "name": facts.app } } },
            "install": { "remediation": { "retries": 3 } }, "values": filler(random, entries),
        },
        "status": { "conditions": conditions(random, &message), "history": history, "observedGeneration": 3, "lastAttemptedRevision": version },
    })
}

fn kustomization(random: &mut Rng, facts: &Facts<'_>) -> Value {
    let revision = format!("main@sha1:{:040x}", random.u16(..2000));
    let entries: Vec<Value> = (0..random.usize(8..40))
        .map(|_| {
            json!({
                "id": format!("{}_{}_apps_Deployment", facts.namespace, app(random)), "v": "v1",
            })
        })
        .collect();
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata(random, facts),
        "spec": {
            "interval": format!("{}m", random.u8(1..60)), "path": format!("./clusters/production/{}", facts.app), "prune": true, "suspend": random.u8(..) < 8,
            "sourceRef": { "kind": "GitRepository", "name": "flux-system" }, "dependsOn": [{ "name": app(random) }], "timeout": "5m0s", "wait": random.bool(),
        },
        "status": { "conditions": conditions(random, &format!("Applied revision: {revision}")), "inventory": { "entries": entries }, "lastAppliedRevision": revision },
    })
}

fn source(random: &mut Rng, facts: &Facts<'_>) -> Value {
    let revision = format!("main@sha1:{:040x}", random.u16(..2000));
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata(random, facts),
        "spec": {
            "interval": format!("{}m", random.u8(1..60)), "url": format!("https://git.example.org/{}/{}", facts.namespace, facts.app), "ref": { "branch": "main" },
            "secretRef": { "name": "flux-system" }, "ignore": "# exclude all\n/*\n# include deploy dir\n!/deploy\n", "timeout": "60s",
        },
        "status": {
            "conditions": conditions(random, &format!("stored artifact for revision '{revision}'")),
            "artifact": { "digest": format!("sha256:{}", hash(random)), "lastUpdateTime": time(random), "revision": revision, "size": random.u32(..),
                "path": format!("gitrepository/{}/{}/latest.tar.gz", facts.namespace, facts.name),
                "url": format!("http://source-controller.flux-system.svc.cluster.local./gitrepository/{}/{}/latest.tar.gz", facts.namespace, facts.name) },
            "observedIgnore": "# exclude all\n/*\n# include deploy dir\n!/deploy\n", "observedGeneration": 3,
            "observedInclude": [{ "fromPath": format!("./{}", facts.app), "toPath": "./vendor", "repository": { "name": app(random) } }],
        },
    })
}

fn workload(random: &mut Rng, facts: &Facts<'_>) -> Value {
    let containers: Vec<Value> = (0..random.usize(1..3)).map(|_| {
        let environment: Vec<Value> = (0..random.usize(6..14)).map(|_| json!({
            "name": format!("{}_{}_URL", APPS[random.usize(..APPS.len())].to_uppercase(), PARTS[random.usize(..PARTS.len())].to_uppercase()),
            "value": format!("http://{}.{}.svc:{}", app(random), facts.namespace, random.u16(8000..8100)),
        })).collect();
        json!({
            "name": app(random), "image": format!("registry.example.org/{}:{}.{}.{}", facts.app, random.u8(0..9), random.u8(0..30), random.u8(0..10)),
            "env": environment, "ports": [{ "containerPort": random.u16(8000..8100), "name": "http", "protocol": "TCP" }],
            "livenessProbe": { "httpGet": { "path": "/healthz", "port": "http" }, "periodSeconds": 10 },
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
        })
    }).collect();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(random, facts),
        "spec": {
            "replicas": random.u8(1..6), "selector": { "matchLabels": { "app.kubernetes.io/name": facts.app } }, "strategy": { "type": "RollingUpdate" },
            "template": { "metadata": { "labels": { "app.kubernetes.io/name": facts.app } }, "spec": { "serviceAccountName": facts.app, "containers": containers } },
        },
        "status": { "conditions": conditions(random, "Deployment has minimum availability"), "readyReplicas": 2, "replicas": 2 },
    })
}

fn settings(random: &mut Rng, facts: &Facts<'_>) -> Value {
    let entries = random.usize(5..18);
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(random, facts), "data": filler(random, entries) })
}
