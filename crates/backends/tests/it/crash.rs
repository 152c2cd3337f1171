//! `kill -9` of a server of files in the middle of writes: what was acknowledged is there, and no file is torn.
//!
//! The test runs itself as the child that is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backends::drivers::file::File;
use backends::{Client, Code, Driver, Endpoint, Mode, Server, ServerLimits, Serving, Update};
use testbed::process::{Process, scratch};
use testbed::scale;

use crate::place::{PATIENCE, document, target, text};

const DIRECTORY: &str = "STATEWARD_TEST_DIRECTORY";

/// What the child does; a plain test otherwise, which has nothing to do.
#[tokio::test]
async fn child_that_serves_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let driver = Arc::new(File::open(&directory).unwrap());
    let serving = Serving { listen: "127.0.0.1:0".parse().unwrap(), tls: None, limits: ServerLimits::default() };
    let server = Server::bind(driver, serving).await.unwrap();
    let told = Path::new(&directory).with_extension("address");
    std::fs::write(told.with_extension("part"), server.address().to_string()).unwrap();
    std::fs::rename(told.with_extension("part"), told).unwrap();
    server.run(std::future::pending()).await;
}

#[tokio::test]
async fn no_file_is_torn_and_no_acknowledged_version_is_lost_when_the_server_is_killed() {
    let directory = scratch("crash").unwrap().join("values");
    let told = directory.with_extension("address");
    let acknowledged: Mutex<BTreeMap<(String, u32), String>> = Mutex::default();
    for round in 0..scale().of(4, 40) {
        let _ = std::fs::remove_file(&told);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "crash::child_that_serves_until_it_is_killed"]).env(DIRECTORY, &directory);
        let mut child = Process::spawn("a server", &mut command, &directory.with_extension("log")).unwrap();
        child.wait_until(PATIENCE, || told.exists()).unwrap();
        let client = Client::new(&Endpoint::new(std::fs::read_to_string(&told).unwrap(), Mode::Value)).unwrap();

        let writers = (0..8).map(|writer| {
            let (client, acknowledged) = (&client, &acknowledged);
            async move {
                let id = format!("r{round}-{writer}");
                for version in 1.. {
                    let key = format!("{id}-{version}");
                    let value = format!("\"{}\"", key.repeat(fastrand::usize(1..2000)));
                    let sent = document(&value);
                    let update = Update {
                        version,
                        value: Some(&sent),
                        owner: None,
                        old_version: version - 1,
                        old_context: None,
                    };
                    let done = match version {
                        1 => client.on_create(target(&id, &key), Some(&sent)).await,
                        _ => client.on_update(target(&id, &key), update).await,
                    };
                    if done.is_err() {
                        break;
                    }
                    acknowledged.lock().unwrap().insert((id.clone(), version), value);
                }
            }
        });
        let killing = async {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(100..600))).await;
            child.kill();
        };
        tokio::join!(futures::future::join_all(writers), killing);
    }

    let driver = File::open(&directory).unwrap();
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > 20, "something was written: {}", acknowledged.len());
    for ((id, version), value) in &acknowledged {
        let read = driver.get_value(target(id, ""), *version).await.unwrap();
        assert!(text(read).as_ref() == Some(value), "{id} {version}");
    }
    for entry in std::fs::read_dir(&directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name == ".locks" {
            continue;
        }
        // Not even the beginning of a file that was never finished is left.
        let whole = driver.get_locked_by(target(&name, "")).await;
        assert!(whole.is_ok(), "{name}: {whole:?}");
        let versions = acknowledged.range((name.clone(), 0)..=(name.clone(), u32::MAX));
        let last = versions.last().map_or(0, |((_, version), _)| *version);
        let beyond = driver.get_value(target(&name, ""), last + 2).await;
        assert_eq!(beyond.unwrap_err().code, Code::NotFound, "at most the one that was under way");
    }
}
