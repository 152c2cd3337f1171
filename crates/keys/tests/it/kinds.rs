//! Every kind of key that the suite runs on, with ways to rotate, break and disturb it. A new kind is a line in
//! [`on_every_kind`].

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use keys::{Auth, Key, Keyring, Sharing, Vault, VaultSettings, key_file};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;
use testbed::process::scratch;
use testbed::{Cluster, Proxy, Toxiproxy};

use crate::ring::{ring, scratch_key};

/// A named key in its place. What it makes is fresh each time and remembers nothing.
pub(crate) trait Place: Send + Sync {
    fn kind(&self) -> &'static str;

    fn key(&self) -> Key;

    /// Adds a version, which is the newest from then on.
    fn rotate(&self) -> BoxFuture<'_, ()>;

    /// Takes away the oldest version.
    fn remove_oldest(&self) -> BoxFuture<'_, ()>;

    /// Puts another key there, whose versions have the same names.
    fn replace(&self) -> BoxFuture<'_, ()>;

    /// Makes it unreachable.
    fn down(&self) -> BoxFuture<'_, ()>;

    fn up(&self) -> BoxFuture<'_, ()>;

    /// Texts that nobody may ever see.
    fn canaries(&self) -> BoxFuture<'_, Vec<String>>;
}

impl dyn Place {
    /// A ring with this key, named `main`, that remembers nothing.
    pub(crate) fn ring(&self) -> Keyring {
        ring("main", self.key())
    }
}

/// Runs a check on every kind.
pub(crate) async fn on_every_kind<F: Future<Output = ()>>(check: impl Fn(Box<dyn Place>) -> F) {
    let places: [Box<dyn Place>; 3] =
        [Box::new(InFile::new()), Box::new(InSecret::new().await), Box::new(InTransit::new().await)];
    for place in places {
        #[expect(clippy::print_stderr, reason = "cargo shows it when the test fails")]
        {
            eprintln!("with a key of the kind {}", place.kind());
        }
        check(place).await;
    }
}

struct InFile {
    path: PathBuf,
}

impl InFile {
    fn new() -> InFile {
        InFile { path: scratch_key() }
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).expect("the key file");
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    /// As an editor does it: in place.
    fn write(&self, lines: &[String]) {
        fs::write(&self.path, lines.join("\n") + "\n").expect("written");
        assert_eq!(fs::metadata(&self.path).expect("a file").permissions().mode() & 0o777, 0o600);
    }

    fn away(&self) -> PathBuf {
        self.path.with_extension("away")
    }
}

impl Place for InFile {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn key(&self) -> Key {
        Key::file(&self.path, Sharing::Private)
    }

    fn rotate(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(key_file::rotate(&self.path).expect("rotated")) })
    }

    fn remove_oldest(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.write(&self.lines()[1..]) })
    }

    fn replace(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let others = InFile::new().lines();
            let value = others[0].split_once(' ').expect("a value").1;
            let changed = |line: &String| format!("{} {value}", line.split_once(' ').expect("a version").0);
            self.write(&self.lines().iter().map(changed).collect::<Vec<_>>());
        })
    }

    fn down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { fs::rename(&self.path, self.away()).expect("renamed") })
    }

    fn up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { fs::rename(self.away(), &self.path).expect("renamed") })
    }

    fn canaries(&self) -> BoxFuture<'_, Vec<String>> {
        let value = |line: &String| line.split_once(' ').expect("a value").1.to_owned();
        Box::pin(async move { self.lines().iter().map(value).collect() })
    }
}

/// A Secret, behind a proxy in front of the API server.
pub(crate) struct InSecret {
    pub(crate) namespace: String,
    pub(crate) name: String,
    client: kube::Client,
    _toxiproxy: Toxiproxy,
    proxy: Proxy,
    secrets: Api<Secret>,
}

impl InSecret {
    pub(crate) async fn new() -> InSecret {
        let cluster = Cluster::shared().await;
        let namespace = cluster.namespace("keys").await;
        let toxiproxy = Toxiproxy::start().expect("toxiproxy");
        let server = cluster.url().strip_prefix("https://").expect("an https address");
        let proxy = toxiproxy.proxy(server).await.expect("a proxy");
        let user = cluster.user("keys-test", &["system:masters"]);
        let place = InSecret {
            client: client(&user.kubeconfig().clone().with_server(&format!("https://{}", proxy.address))),
            secrets: Api::namespaced(cluster.client(), &namespace),
            name: "main-key".to_owned(),
            namespace,
            _toxiproxy: toxiproxy,
            proxy,
        };
        let metadata = ObjectMeta { name: Some(place.name.clone()), ..ObjectMeta::default() };
        let data = Some(BTreeMap::from([("v9".to_owned(), value())]));
        let secret = Secret { metadata, data, ..Secret::default() };
        place.secrets.create(&PostParams::default(), &secret).await.expect("a Secret");
        place
    }

    /// Changes the entries as a person would, past everything under test.
    pub(crate) async fn edit(&self, change: impl Fn(&mut BTreeMap<String, ByteString>)) {
        let mut secret = self.secrets.get(&self.name).await.expect("the Secret");
        change(secret.data.get_or_insert_default());
        self.secrets.replace(&self.name, &PostParams::default(), &secret).await.expect("replaced");
    }
}

/// A client without the retries that the product does not have either.
pub(crate) fn client(kubeconfig: &testbed::Kubeconfig) -> kube::Client {
    let mut config = kubeconfig.config();
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

/// A random key as a person would put it there: base64, made by a program.
pub(crate) fn value() -> ByteString {
    let path = scratch_key();
    let text = fs::read_to_string(path).expect("a key file");
    let line = text.lines().last().expect("a line");
    ByteString(line.split_once(' ').expect("a value").1.as_bytes().to_vec())
}

impl Place for InSecret {
    fn kind(&self) -> &'static str {
        "secret"
    }

    fn key(&self) -> Key {
        Key::secret(self.client.clone(), &self.namespace, &self.name)
    }

    fn rotate(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.edit(|data| {
            // From v9 to v10, which is not the order of the alphabet.
            let highest = data.keys().map(|id| id[1..].parse::<u32>().expect("a number")).max().expect("a version");
            data.insert(format!("v{}", highest + 1), value());
        }))
    }

    fn remove_oldest(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.edit(|data| drop(data.remove("v9").expect("the first version"))))
    }

    fn replace(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.edit(|data| data.values_mut().for_each(|bytes| *bytes = value())))
    }

    fn down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.proxy.cut().await.expect("cut") })
    }

    fn up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.proxy.heal().await.expect("healed") })
    }

    fn canaries(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let data = self.secrets.get(&self.name).await.expect("the Secret").data.expect("entries");
            data.into_values().map(|bytes| String::from_utf8(bytes.0).expect("base64")).collect()
        })
    }
}

/// A key of a transit engine of its own, behind a proxy in front of Vault; with a token that may wrap and unwrap and
/// nothing else.
pub(crate) struct InTransit {
    pub(crate) vault: &'static testbed::Vault,
    /// Also the name of the policy that is enough for it.
    pub(crate) mount: String,
    pub(crate) token_file: PathBuf,
    _toxiproxy: Toxiproxy,
    pub(crate) proxy: Proxy,
}

impl InTransit {
    pub(crate) const KEY: &str = "main-key";

    pub(crate) async fn new() -> InTransit {
        let vault = testbed::Vault::shared().await.expect("Vault");
        let toxiproxy = Toxiproxy::start().expect("toxiproxy");
        let proxy = toxiproxy.proxy(&vault.address()).await.expect("a proxy");
        let mount = prepare(vault).await;
        let token_file = scratch("token").expect("a directory").join("token");
        fs::write(&token_file, vault.token(&[&mount]).await.expect("a token") + "\n").expect("written");
        InTransit { vault, mount, token_file, _toxiproxy: toxiproxy, proxy }
    }

    pub(crate) fn settings(&self, auth: Auth) -> VaultSettings {
        VaultSettings {
            address: format!("http://{}", self.proxy.address),
            namespace: None,
            ca_file: None,
            auth,
            deadline: Duration::from_secs(10),
        }
    }

    pub(crate) fn key_with(&self, auth: Auth) -> Key {
        Key::transit(Vault::new(self.settings(auth)).expect("a client"), &self.mount, InTransit::KEY)
    }

    fn path(&self) -> String {
        format!("{}/keys/{}", self.mount, InTransit::KEY)
    }
}

/// A transit engine with a key, and a policy of the same name as the engine.
pub(crate) async fn prepare(vault: &testbed::Vault) -> String {
    let mount = format!("transit-{:016x}", fastrand::u64(..));
    vault.enable_transit(&mount).await.expect("a transit engine");
    vault.transit_key(&mount, InTransit::KEY, json!({})).await.expect("a key");
    let line = |verb: &str| format!("path \"{mount}/{verb}/{}\" {{ capabilities = [\"update\"] }}\n", InTransit::KEY);
    vault.policy(&mount, &(line("encrypt") + &line("decrypt"))).await.expect("a policy");
    mount
}

impl Place for InTransit {
    fn kind(&self) -> &'static str {
        "transit"
    }

    fn key(&self) -> Key {
        self.key_with(Auth::TokenFile(self.token_file.clone()))
    }

    fn rotate(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            drop(self.vault.write(&format!("{}/rotate", self.path()), json!({})).await.expect("rotated"));
        })
    }

    fn remove_oldest(&self) -> BoxFuture<'_, ()> {
        let wanted = json!({ "min_decryption_version": 2 });
        Box::pin(async { drop(self.vault.write(&format!("{}/config", self.path()), wanted).await.expect("removed")) })
    }

    fn replace(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let wanted = json!({ "deletion_allowed": true });
            self.vault.write(&format!("{}/config", self.path()), wanted).await.expect("configured");
            self.vault.ask(http::Method::DELETE, &self.path(), None).await.expect("deleted");
            self.vault.transit_key(&self.mount, InTransit::KEY, json!({})).await.expect("another key");
        })
    }

    fn down(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.proxy.cut().await.expect("cut") })
    }

    fn up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.proxy.heal().await.expect("healed") })
    }

    fn canaries(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { vec![read(&self.token_file), self.vault.root_token().to_owned()] })
    }
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file").trim().to_owned()
}
