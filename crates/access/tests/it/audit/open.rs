//! Opening a log again: in good order, after damage that no crash makes, and by two at once.

use std::fs;

use access::audit::{Audit, Error, Fault, Head, MIGRATIONS, missing_instance, read_head, read_instance, should_be_in};

use super::{Place, act, files, told};

#[tokio::test]
async fn a_log_goes_on_where_it_ended() {
    let place = Place::new("again");
    for round in 0..3 {
        let audit = place.open().await;
        let receipt = audit.commit(act("x")).await.unwrap();
        assert_eq!(receipt.n, round * 3 + 2, "start, act and stop each round");
        audit.close().await;
        assert!(audit.commit(act("late")).await.unwrap_err().to_string().contains("closed"));
    }
    let instances: Vec<_> = place.lines().into_values().filter(|line| line["kind"] == "start").collect();
    assert_eq!(instances.len(), 3);
    assert!(instances.iter().all(|line| line["more"]["instance"] == instances[0]["more"]["instance"]));
    assert!(!place.verify().await.tampered());
}

#[tokio::test]
async fn two_cannot_write_one_log() {
    let place = Place::new("two");
    let audit = place.open().await;
    assert!(matches!(Audit::open(place.config(), place.db().await).await, Err(Error::InUse { .. })));
    audit.close().await;
    place.open().await.close().await;
}

#[tokio::test]
async fn a_log_that_was_tampered_with_is_refused_and_can_be_set_aside() {
    // Each row takes away or changes something that no crash does.
    type Damage = fn(&Place);
    let damages: [(&str, Damage); 15] = [
        ("last line cut off", |place| rewrite(place, |lines| drop(lines.pop()))),
        ("last line torn, though the database knows it", |place| {
            rewrite(place, |lines| {
                let last = lines.pop().unwrap();
                lines.push(last[..last.len() / 2].to_owned());
            });
        }),
        ("a line edited", |place| rewrite(place, |lines| lines[1] = lines[1].replace("jane", "jack"))),
        ("a line removed", |place| rewrite(place, |lines| drop(lines.remove(1)))),
        ("current file deleted", |place| fs::remove_file(place.directory().join("audit.log")).unwrap()),
        ("current file emptied", |place| fs::write(place.directory().join("audit.log"), "").unwrap()),
        ("instance deleted", |place| fs::remove_file(place.directory().join("audit.instance")).unwrap()),
        ("database deleted", forget),
        ("database deleted and the end cut off", |place| {
            forget(place);
            rewrite(place, |lines| lines.truncate(2));
        }),
        ("database deleted, the current file, too", |place| {
            forget(place);
            fs::remove_file(place.directory().join("audit.log")).unwrap();
        }),
        ("all of it deleted", |place| fs::remove_dir_all(place.directory()).unwrap()),
        ("its name deleted wherever it stands", |place| {
            fs::remove_file(place.directory().join("audit.instance")).unwrap();
            fs::remove_file(place.root.join("audit.instance")).unwrap();
        }),
        ("all of it deleted, its name beside it, too", |place| {
            fs::remove_dir_all(place.directory()).unwrap();
            fs::remove_file(place.root.join("audit.instance")).unwrap();
        }),
        ("another log in its place", |place| {
            fs::write(place.directory().join("audit.instance"), "c0ffee00-0000-4000-8000-000000000000\n").unwrap();
        }),
        ("key deleted", |place| fs::remove_file(place.key_file()).unwrap()),
    ];
    for (what, damage) in damages {
        let place = Place::new("refused").rotating_at(1500);
        let audit = place.open().await;
        for i in 0..9 {
            let _receipt = audit.commit(act(&format!("x{i}"))).await.unwrap();
        }
        audit.close().await;
        let head = place.head().await.unwrap();
        damage(&place);
        let before = if place.directory().exists() { files(&place.directory()) } else { Vec::new() };
        let error = Audit::open(place.config(), place.db().await).await.unwrap_err();
        assert!(matches!(error, Error::Tampered { .. }), "{what}: {error}");
        assert!(error.to_string().contains("stateward audit verify"), "{what}: {error}");
        assert_eq!(files(&place.directory()), before, "{what}: nothing was changed");

        let audit = Audit::open_after_tampering(place.config(), place.db().await, None).await.unwrap();
        let receipt = audit.commit(act("after")).await.unwrap();
        audit.close().await;
        // Under its old name, as long as it stands somewhere in the directory.
        if !what.starts_with("database deleted") && !what.contains("its name") && what != "another log in its place" {
            assert!(receipt.n > head.n, "{what}: numbers go on");
        }
        let report = place.verify().await;
        assert!(!report.tampered() && report.has(Fault::Restarted), "{what}: {}", told(&report));
        let evidence = fs::read_dir(place.directory()).unwrap().map(|entry| entry.unwrap().path());
        let evidence: Vec<_> = evidence.filter(|path| path.is_dir()).collect();
        assert_eq!(files(&evidence[0]), before, "{what}: the evidence is kept");
        // And from then on it is a log like any other.
        place.open().await.close().await;
        assert!(!place.verify().await.tampered(), "{what}");
    }
}

#[tokio::test]
async fn a_first_start_that_ends_before_its_head_is_known_is_no_tampering() {
    let place = Place::new("first").rotating_at(1500);
    let audit = place.open().await;
    let _receipt = audit.commit(act("x")).await.unwrap();
    audit.close().await;
    let start = |lines: &mut Vec<String>| lines.truncate(1);
    for half in ["", "{\"n\":2,\"ti"] {
        forget(&place);
        rewrite(&place, |lines| {
            start(lines);
            lines.push(half.to_owned());
        });
        let report = place.verify().await;
        assert!(!report.tampered(), "{half:?}: {}", told(&report));
        place.open().await.close().await;
        assert!(!place.verify().await.tampered());
    }
}

#[tokio::test]
async fn a_log_from_before_there_was_a_copy_of_its_name_gets_one() {
    let place = Place::new("copy");
    place.open().await.close().await;
    assert_eq!(missing_instance(&place.directory()).unwrap(), None);
    fs::remove_file(place.root.join("audit.instance")).unwrap();
    place.open().await.close().await;
    let name = read_instance(&place.directory()).unwrap();
    fs::remove_dir_all(place.directory()).unwrap();
    assert_eq!(missing_instance(&place.directory()).unwrap(), name);
}

#[tokio::test]
async fn a_log_that_ends_before_a_remembered_head_is_set_aside_when_it_is_accepted() {
    let place = Place::new("remembered");
    place.open().await.close().await;
    let head = place.head().await.unwrap();
    let remembered = Head { n: head.n + 10, ..head };
    let audit = Audit::open_after_tampering(place.config(), place.db().await, Some(remembered)).await.unwrap();
    audit.close().await;
    assert!(place.lines().keys().all(|n| *n > remembered.n), "numbers go on after the one that is remembered");
    let report = place.verify().await;
    assert!(!report.tampered() && report.has(Fault::Restarted), "{}", told(&report));
    // One that it has is no reason.
    let head = place.head().await.unwrap();
    let audit = Audit::open_after_tampering(place.config(), place.db().await, Some(head)).await.unwrap();
    audit.close().await;
    let restarts = place.lines().into_values().filter(|line| line["kind"] == "restart").count();
    assert_eq!(restarts, 1);
}

#[tokio::test]
async fn a_log_is_missed_by_its_name_where_it_was_and_nowhere_else() {
    let postgres = testbed::Postgres::start().expect("PostgreSQL");
    let url = postgres.url(&postgres.create_database().expect("a database"));
    let sqlite = testbed::process::scratch("shared").unwrap().join("shared.db");
    for config in [db::Config::sqlite(sqlite), db::Config::postgres(url)] {
        let db = db::Db::open(config).await.unwrap();
        db.migrate(&[MIGRATIONS]).await.unwrap();
        let open = async |place: &Place| Audit::open(place.config(), db.clone()).await;
        let remembered = async |place: &Place| should_be_in(&db, &place.directory()).await.unwrap();
        let (place, other) = (Place::new("shared"), Place::new("shared"));
        assert_eq!(remembered(&place).await, None);
        for place in [&place, &other] {
            open(place).await.unwrap().close().await;
            assert_eq!(remembered(place).await, read_instance(&place.directory()).unwrap());
        }
        let gone = read_instance(&place.directory()).unwrap().unwrap();
        let head = read_head(&db, &gone).await.unwrap();

        // With its place, or only with what names it; an empty place is refused as it is.
        fs::remove_dir_all(&place.root).unwrap();
        for _ in 0..2 {
            let error = open(&place).await.unwrap_err();
            assert!(matches!(error, Error::Tampered { .. }) && error.to_string().contains(&gone), "{error}");
            assert_eq!(read_instance(&place.directory()).unwrap(), None, "nothing was made");
        }
        // Nobody else is asked for it, a new place not either.
        open(&other).await.unwrap().close().await;
        open(&Place::new("shared")).await.unwrap().close().await;

        Audit::open_after_tampering(place.config(), db.clone(), None).await.unwrap().close().await;
        let restart = place.lines().into_values().find(|line| line["kind"] == "restart").unwrap();
        assert_eq!(restart["more"]["missing"], *gone);
        let name = read_instance(&place.directory()).unwrap();
        assert!(name.as_ref() != Some(&gone) && remembered(&place).await == name);
        assert_eq!(read_head(&db, &gone).await.unwrap(), head, "what was known of the old log stays");
        open(&place).await.unwrap().close().await;

        // A log that moves is missed in its old place no more.
        let moved = Place::at(place.root.with_added_extension("moved"));
        fs::rename(&place.root, &moved.root).unwrap();
        assert!(matches!(open(&place).await.unwrap_err(), Error::Tampered { .. }));
        fs::remove_dir_all(&place.root).unwrap();
        open(&moved).await.unwrap().close().await;
        open(&place).await.unwrap().close().await;
        fs::remove_dir_all(&moved.root).unwrap();
        db.close().await;
    }
}

/// Takes the database away.
fn forget(place: &Place) {
    for file in ["test.db", "test.db-wal", "test.db-shm"] {
        let _ = fs::remove_file(place.root.join(file));
    }
}

/// Changes the lines of the current file.
fn rewrite(place: &Place, change: impl FnOnce(&mut Vec<String>)) {
    let path = place.directory().join("audit.log");
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().split_inclusive('\n').map(str::to_owned).collect();
    change(&mut lines);
    fs::write(path, lines.concat()).unwrap();
}
