//! Stopping, restarting, compacting and replacing, for private clusters.
//!
//! A part is stopped as by a crash and comes back on the same port with the same data. The controller-manager comes back
//! also by itself, unless it was stopped here.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};

use super::control_plane::ControlPlane;
use super::{Cluster, blocking};

impl Cluster {
    pub async fn stop_api_server(&self) {
        self.with_plane(|plane| plane.api_server.stop()).await;
    }

    /// Returns when it is ready.
    pub async fn start_api_server(&self) {
        self.with_plane(ControlPlane::start_api_server).await.expect("start the API server");
    }

    pub async fn restart_api_server(&self) {
        self.stop_api_server().await;
        self.start_api_server().await;
    }

    pub async fn stop_controller_manager(&self) {
        self.with_plane(|plane| plane.controller_manager.stop()).await;
    }

    /// Returns at once: wait for what its controllers do.
    pub async fn start_controller_manager(&self) {
        self.with_plane(ControlPlane::start_controller_manager).await.expect("start the controller-manager");
    }

    pub async fn restart_controller_manager(&self) {
        self.stop_controller_manager().await;
        self.start_controller_manager().await;
    }

    pub async fn stop_etcd(&self) {
        self.with_plane(|plane| plane.etcd.stop()).await;
    }

    /// Returns when it is ready; the API server finds it again by itself, a moment later.
    pub async fn start_etcd(&self) {
        self.with_plane(ControlPlane::start_etcd).await.expect("start etcd");
    }

    pub async fn restart_etcd(&self) {
        self.stop_etcd().await;
        self.start_etcd().await;
    }

    /// Begins anew with nothing in it: another cluster at the same address, which believes the same credentials.
    pub async fn replace(&self) {
        self.stop_controller_manager().await;
        self.stop_api_server().await;
        self.stop_etcd().await;
        std::fs::remove_dir_all(self.directory().join("etcd")).expect("remove what etcd had");
        self.start_etcd().await;
        self.start_api_server().await;
        self.start_controller_manager().await;
    }

    /// Makes every resourceVersion that was handed out so far too old to watch from. The API server must restart too,
    /// because its watch cache hides a compaction.
    pub async fn expire_watches(&self) {
        // One more revision, so that also the newest one seen by anybody is older than the compaction.
        let put = json!({"key": "dGVzdGJlZA==", "value": ""});
        let answer = self.ask_etcd("put", &put).await.expect("write to etcd");
        let revision = answer["header"]["revision"].as_str().expect("a revision").to_owned();
        self.stop_api_server().await;
        let compaction = json!({"revision": revision, "physical": true});
        self.ask_etcd("compaction", &compaction).await.expect("compact etcd");
        self.start_api_server().await;
    }

    /// The process ids of what runs: controller-manager, API server, etcd.
    pub fn pids(&self) -> Vec<u32> {
        let plane = &self.plane;
        [&*plane.controller_manager, &plane.api_server, &plane.etcd].iter().filter_map(|part| part.pid()).collect()
    }

    /// Where the cluster keeps its data and logs.
    pub fn directory(&self) -> &std::path::Path {
        self.plane.directory.root()
    }

    /// The JSON gateway of etcd's gRPC API.
    async fn ask_etcd(&self, method: &str, request: &Value) -> Result<Value> {
        let url = format!("{}/v3/kv/{method}", self.plane.etcd_url);
        let response = reqwest::Client::new().post(url).json(request).send().await?;
        Ok(response.error_for_status()?.json().await?)
    }

    async fn with_plane<T: Send + 'static>(&self, work: impl FnOnce(&ControlPlane) -> T + Send + 'static) -> T {
        let plane = Arc::clone(&self.plane);
        blocking(move || work(&plane)).await
    }
}
