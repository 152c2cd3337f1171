//! The states of this server: which store keeps which namespace, and the sweeper of them all.

use std::sync::Arc;
use std::time::Duration;

use access::Pattern;
use anyhow::{Context, Result, bail};
use db::Db;
use keys::Keyring;
use states::head::Packing;
use states::http::compat::Compat;
use states::metrics::Metrics;
use states::store::{ConfigMapStore, Metered, Reader, S3Store, SecretStore, SqlStore, Store, TerraformStore};
use states::{ForcedUnlock, Sealing, States, StoredBytes, Stores, Times, codec};

use super::cluster::Cluster;
use crate::config::Settings;
use crate::config::lists::{self, Route};

const MEMORY: usize = 4 << 20;
const SEGMENT: std::ops::Range<usize> = (1 << 20)..(4 << 20);

/// The engine over the stores that this server has.
pub(crate) fn open(
    settings: &Settings,
    db: &Db,
    cluster: Option<&Cluster>,
    s3: Option<Arc<S3Store>>,
    keyring: Keyring,
    metrics: Metrics,
) -> Result<States> {
    let engine = engine(settings, keyring)?;
    let mut stores = stores(db, cluster, &reader(&engine));
    stores.extend(s3.map(|s3| s3 as Arc<dyn Store>));
    let metered = |store| Arc::new(Metered::new(store, metrics.clone())) as Arc<dyn Store>;
    let stores: Vec<Arc<dyn Store>> = stores.into_iter().map(metered).collect();
    let Some(default) = stores.first().cloned() else { bail!("this server has no store for states") };
    let routes = lists::routes(settings)?.into_iter().map(|route| to_store(route, &stores)).collect::<Result<_>>()?;
    // What no route names is reached by the compatibility listener, or by whoever moves a state from store to store.
    Ok(States::measured(Stores { routes, default, others: stores }, engine, metrics))
}

/// The engine over ConfigMaps alone.
pub(crate) fn in_config_maps(
    settings: &Settings,
    cluster: &Cluster,
    packing: Packing,
    keyring: Keyring,
    metrics: Metrics,
) -> Result<States> {
    let engine = engine(settings, keyring)?;
    let store = ConfigMapStore::new(cluster.client(), reader(&engine)).packing(packing);
    let store = Metered::new(Arc::new(store), metrics.clone());
    let stores = Stores { routes: Vec::new(), default: Arc::new(store), others: Vec::new() };
    Ok(States::measured(stores, engine, metrics))
}

fn engine(settings: &Settings, keyring: Keyring) -> Result<states::Settings> {
    let spool = settings.data_dir.join("spool");
    super::data_dir::private(&spool)?;
    let set = |time: Duration| (!time.is_zero()).then_some(time);
    Ok(states::Settings {
        lock_expiry: set(settings.states.lock_expiry),
        forced_unlock: if settings.states.forced_unlock { ForcedUnlock::WithPermission } else { ForcedUnlock::Off },
        versions: settings.states.versions,
        version_age: set(settings.states.version_age),
        codec: codec::Limits {
            body_bytes: settings.states.body_bytes,
            depth: settings.states.depth,
            memory: MEMORY,
            segment: SEGMENT,
        },
        spool,
        uploads: settings.states.uploads,
        upload_rate: settings.states.upload_rate,
        lock_info_bytes: usize::try_from(settings.states.lock_info_bytes).unwrap_or(usize::MAX),
        stored_bytes: StoredBytes {
            in_cluster: Some(settings.states.cluster_bytes),
            elsewhere: settings.states.stored_bytes,
        },
        times: Times::default(),
        sealing: Sealing { keyring: Some(keyring), key: settings.states.encryption_key.clone() },
    })
}

fn reader(engine: &states::Settings) -> Reader {
    Reader { limits: engine.codec.clone(), spool: engine.spool.clone() }
}

/// What the compatibility listener serves: ConfigMaps, whatever the routes say.
pub(crate) fn compatible(states: States) -> Result<Compat> {
    let store = states.stores().into_iter().find(|store| store.name() == "configmap");
    let store = store.context("states.compat_listen needs a cluster: set cluster.kubeconfig")?;
    Ok(Compat::new(states, store))
}

/// Every store that there is here; the first one keeps what no route names.
fn stores(db: &Db, cluster: Option<&Cluster>, reader: &Reader) -> Vec<Arc<dyn Store>> {
    let mut stores: Vec<Arc<dyn Store>> = vec![Arc::new(SqlStore::new(db.clone()))];
    if let Some(cluster) = cluster {
        stores.push(Arc::new(ConfigMapStore::new(cluster.client(), reader.clone())));
        stores.push(Arc::new(SecretStore::new(cluster.client(), reader.clone())));
        stores.push(Arc::new(TerraformStore::new(cluster.client(), reader.clone())));
    }
    stores
}

fn to_store(Route { namespaces, store: name }: Route, stores: &[Arc<dyn Store>]) -> Result<(Pattern, Arc<dyn Store>)> {
    let store = stores.iter().find(|store| store.name() == name);
    let store = store.with_context(|| format!("states.routes: this server has no store '{name}'"))?;
    Ok((namespaces, store.clone()))
}

/// Looks after old versions whenever there are new ones.
pub(crate) async fn keep_up(states: States) {
    states.keep_up().await;
}

/// Sweeps now and then, for as long as the server runs.
pub(crate) async fn sweep(states: States, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let swept = states.sweep().await;
        if swept.uploads > 0 {
            tracing::info!(uploads = swept.uploads, "swept what unfinished writes and old versions left");
        }
    }
}
