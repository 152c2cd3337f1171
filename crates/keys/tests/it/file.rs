//! Key files: who may read them, and that no rotation is ever lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use keys::key_file;
use keys::{Error, Key, Sharing};
use testbed::process::scratch;

use crate::ring::{file_ring, ring, scratch_key};

#[tokio::test]
async fn a_file_that_others_can_read_is_refused_unless_that_is_meant() {
    let path = scratch_key();
    for mode in [0o640, 0o604, 0o660, 0o644, 0o601, 0o620] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        let error = file_ring(&path).check("main").await.expect_err("open to others");
        let text = error.to_string();
        assert!(matches!(error, Error::Refused { .. }) && text.contains("chmod 0600"), "{mode:o}: {text}");
        assert!(text.contains(&format!("{mode:04o}")) && text.contains("keys.shared_files"), "{text}");
        ring("main", Key::file(&path, Sharing::AsItsModeSays)).check("main").await.expect("the owner says so");
    }
    for mode in [0o600, 0o400] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        file_ring(&path).check("main").await.expect("private");
    }
}

#[tokio::test]
async fn a_file_that_becomes_open_or_bad_is_refused_by_a_ring_that_has_read_it() {
    let path = scratch_key();
    let ring = file_ring(&path);
    ring.check("main").await.expect("a good file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
    assert!(matches!(ring.check("main").await, Err(Error::Refused { .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
    ring.check("main").await.expect("good again");
    let text = fs::read_to_string(&path).expect("the file");
    fs::write(&path, "v1 bm90IGEga2V5\n").expect("written");
    let error = ring.check("main").await.expect_err("bad");
    assert!(error.to_string().contains("line 1") && !error.to_string().contains("bm90"), "{error}");
    fs::write(&path, text).expect("written");
    ring.check("main").await.expect("good again");
}

#[test]
fn a_new_key_never_replaces_a_file() {
    let path = scratch_key();
    let before = fs::read(&path).expect("the file");
    let error = key_file::create(&path).expect_err("there is one");
    assert!(error.to_string().contains("failed to create"), "{error}");
    assert_eq!(fs::read(&path).expect("the file"), before);
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(path.parent().expect("a directory")).expect("entries").count(), 1, "a draft is left");
}

#[test]
fn rotation_keeps_the_mode_the_link_the_comments_and_every_version() {
    let path = scratch_key();
    let link = path.with_file_name("link.key");
    symlink(&path, &link).expect("a link");
    fs::write(&path, fs::read_to_string(&path).expect("text").trim_end().to_owned() + "\n# mine, without newline")
        .expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).expect("a mode");
    let first = key_file::list(&link).expect("a list");
    let added = key_file::rotate(&link).expect("rotated");
    assert_eq!(key_file::list(&path).expect("a list"), [first, vec![added]].concat());
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o440);
    assert!(fs::read_to_string(&path).expect("text").contains("# mine, without newline\n"));
}

#[test]
fn many_rotations_at_once_lose_no_version() {
    let path = scratch_key();
    let rotated: Vec<Result<String, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..16).map(|_| scope.spawn(|| key_file::rotate(&path).map_err(|error| error.to_string()))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let there = key_file::list(&path).expect("a list");
    let made: Vec<&String> = rotated.iter().filter_map(|result| result.as_ref().ok()).collect();
    assert!(!made.is_empty() && made.iter().all(|version| there.contains(version)), "{made:?} {there:?}");
    assert_eq!(there.len(), made.len() + 1);
    for refused in rotated.iter().filter_map(|result| result.as_ref().err()) {
        assert!(refused.contains("somebody else"), "{refused}");
    }
    assert!(!path.with_added_extension("draft").exists());
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let path = scratch("keys").expect("a directory").join("gone.key");
    let error = file_ring(&path).check("main").await.expect_err("gone");
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("gone.key"), "{error}");
    assert!(key_file::rotate(&path).expect_err("gone").to_string().contains("gone.key"));
}
