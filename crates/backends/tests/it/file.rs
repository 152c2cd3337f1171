//! What is special to the driver `file`: who may read, several processes, files that somebody else damaged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use backends::drivers::file::File;
use backends::drivers::{DRIVERS, Options};
use backends::{Code, Driver, Target, Update};
use futures::future::join_all;

use crate::place::{directory, document, target, text};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn directory_and_files_are_for_this_user_alone() {
    let directory = directory();
    let driver = File::open(&directory).unwrap();
    driver.on_create(target("r", "k"), Some(&document(r#"{"a":"b"}"#))).await.unwrap();
    driver.on_lock(target("r", "k2"), "me").await.unwrap();
    assert_eq!((mode(&directory), mode(&directory.join("r"))), (0o700, 0o600));
    let text = std::fs::read_to_string(directory.join("r")).unwrap();
    assert_eq!(text, "1=\"{\\\"a\\\":\\\"b\\\"}\"\n1_key=\"k\"\nlocked_by=\"me\"\nlocked_by_key=\"k2\"\n");

    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = File::open(&directory).unwrap_err().to_string();
    assert!(error.starts_with("directory: ") && error.contains("mode 755") && error.contains("chmod 700"), "{error}");
}

#[tokio::test]
async fn nothing_of_a_value_is_left_after_the_end_of_its_record() {
    let directory = directory();
    let driver = File::open(&directory).unwrap();
    driver.on_create(target("r", "k"), Some(&document("\"a-canary\""))).await.unwrap();
    // As a process leaves it that dies between the two steps of a write.
    std::fs::write(directory.join(".r.new"), "1=\"a-canary").unwrap();
    driver.on_delete(target("r", "k2"), None).await.unwrap();
    let left = |directory: &Path| {
        let names =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    };
    assert_eq!(left(&directory), [".locks"]);
    std::fs::write(directory.join(".other.new"), "1=\"a-canary").unwrap();
    File::open(&directory).unwrap();
    assert_eq!(left(&directory), [".locks"]);
}

#[tokio::test]
async fn a_file_that_is_not_understood_is_an_error_and_is_not_written_over() {
    let directory = directory();
    let driver = File::open(&directory).unwrap();
    std::fs::write(directory.join("r"), "1=\"secret-canary\"\nhalf a li").unwrap();
    let some = document("1");
    let update = Update { version: 2, value: Some(&some), owner: None, old_version: 1, old_context: None };
    let failures = [
        driver.get_value(target("r", ""), 1).await.unwrap_err(),
        driver.on_create(target("r", "k"), Some(&some)).await.unwrap_err(),
        driver.on_update(target("r", "k"), update).await.unwrap_err(),
        driver.on_delete(target("r", "k"), None).await.unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(failure.code, Code::Internal);
        assert!(failure.text.contains("line 2") && !failure.text.contains("canary"), "{failure}");
    }
    assert_eq!(std::fs::read_to_string(directory.join("r")).unwrap(), "1=\"secret-canary\"\nhalf a li");
}

#[tokio::test]
async fn several_openers_of_one_directory_lose_nothing_of_each_other() {
    let directory = directory();
    // Locks of the kernel belong to what was opened: two openers in one process exclude each other as two processes do.
    let drivers: Vec<File> = (0..4).map(|_| File::open(&directory).unwrap()).collect();
    drivers[0].on_create(target("r", "k"), Some(&document("1"))).await.unwrap();
    let writing = (2..66_u32).map(|version| {
        let driver = &drivers[version as usize % drivers.len()];
        async move {
            let (key, value) = (format!("k{version}"), document(&version.to_string()));
            let update =
                Update { version, value: Some(&value), owner: None, old_version: version - 1, old_context: None };
            driver.on_update(target("r", &key), update).await
        }
    });
    assert!(join_all(writing).await.iter().all(Result::is_ok));
    for version in 1..66 {
        let read = drivers[1].get_value(target("r", ""), version).await.unwrap();
        assert_eq!(text(read), Some(version.to_string()));
    }
}

#[tokio::test]
async fn a_record_that_somebody_holds_for_too_long_is_not_changed_later() {
    let directory = directory();
    let driver = File::open(&directory).unwrap();
    driver.on_create(target("r", "k"), Some(&document("1"))).await.unwrap();
    let locks: Vec<std::fs::File> = std::fs::read_dir(directory.join(".locks"))
        .unwrap()
        .map(|entry| std::fs::File::open(entry.unwrap().path()).unwrap())
        .collect();
    for lock in &locks {
        lock.lock().unwrap();
    }
    let short = Target { within: Duration::from_millis(100), ..target("r", "k2") };
    let failure = driver.on_lock(short, "me").await.unwrap_err();
    assert_eq!(failure.code, Code::DeadlineExceeded, "{failure}");
    drop(locks);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(driver.get_locked_by(target("r", "")).await, Ok(None));
    assert_eq!(text(driver.get_value(target("r", ""), 1).await.unwrap()).as_deref(), Some("1"));
}

#[test]
fn every_driver_of_the_list_names_what_it_needs() {
    let names: Vec<&str> = DRIVERS.iter().map(|kind| kind.name).collect();
    assert_eq!(names, ["file"]);
    for kind in DRIVERS {
        let error = (kind.open)(&Options::new()).unwrap_err().to_string();
        assert!(kind.options.iter().any(|option| error.starts_with(option.name)), "{error}");
    }
    let options = Options::from([("directory", directory().into_os_string())]);
    assert!((DRIVERS[0].open)(&options).is_ok());
}
