//! What every managed driver does, wherever it is: each test runs on each place.

use backends::{Code, Driver, Failure, Mode, Target, Update};
use futures::future::join_all;

use crate::place::{PATIENCE, all, document, said, target, text};

fn new_version(version: u32, value: &backends::Document) -> Update<'_> {
    Update { version, value: Some(value), owner: None, old_version: version - 1, old_context: None }
}

fn owned<'a>(version: u32, value: &'a backends::Document, owner: &'a str) -> Update<'a> {
    Update { owner: Some(owner), ..new_version(version, value) }
}

async fn value(driver: &dyn Driver, id: &str, version: u32) -> Result<Option<String>, Failure> {
    driver.get_value(target(id, ""), version).await.map(text)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(place: &str, result: Result<T, Failure>, code: Code, words: &str) {
    let failure = result.expect_err(place);
    assert_eq!(failure.code, code, "{place}: {failure}");
    assert!(said(&failure).contains(words), "{place}: {failure}");
}

#[tokio::test]
async fn a_value_lives_from_its_creation_to_its_deletion_version_by_version() {
    for place in all().await {
        let (driver, name) = (&*place.driver, place.name);
        assert_eq!(driver.mode(), Mode::Value);
        driver.health(PATIENCE).await.expect(name);
        let (one, two) = (document(r#"{"a":1}"#), document(r#"{"a":2}"#));
        assert_eq!(driver.on_create(target("r", "k1"), Some(&one)).await, Ok(None), "{name}");
        assert_eq!(driver.on_update(target("r", "k2"), new_version(2, &two)).await, Ok(None), "{name}");
        assert_eq!(value(driver, "r", 1).await, Ok(Some(r#"{"a":1}"#.to_owned())), "{name}");
        assert_eq!(value(driver, "r", 2).await, Ok(Some(r#"{"a":2}"#.to_owned())), "{name}");

        driver.on_delete_revision(target("r", "k3"), 2, None).await.expect(name);
        refused(name, value(driver, "r", 2).await, Code::NotFound, r#"TypeInstance "r" in revision 2 was not found"#);
        assert_eq!(value(driver, "r", 1).await, Ok(Some(r#"{"a":1}"#.to_owned())), "{name}");
        driver.on_update(target("r", "k4"), new_version(2, &one)).await.expect("a version that was undone is free");

        driver.on_delete(target("r", "k5"), None).await.expect(name);
        refused(name, value(driver, "r", 1).await, Code::NotFound, r#"TypeInstance "r" in revision 1 was not found"#);
        driver.on_create(target("r", "k6"), Some(&two)).await.expect("an id whose record ended is free");
    }
}

#[tokio::test]
async fn values_come_back_byte_for_byte() {
    let values = [
        r#""a string""#,
        r#""with \"quotes\" and \u0000 and \\ and \n""#,
        "null",
        "true",
        "0",
        "12345678901234567890123",
        "1.50",
        "-0.0",
        "1e400",
        "[]",
        r#"[1,null,"x",[{}]]"#,
        r#"{"a":{"b":null},"n":12345678901234567890123,"f":1.50}"#,
        r#"{"zebra":1,"apple":2,"apple":3}"#,
        "{ \"spaces\" :\n 1 }",
        r#"{"emoji":"🔐","line":" "}"#,
    ];
    for place in all().await {
        for (number, written) in values.iter().enumerate() {
            let id = format!("v{number}");
            let sent = document(written);
            place.driver.on_create(target(&id, "k"), Some(&sent)).await.expect(place.name);
            let read = value(&*place.driver, &id, 1).await;
            assert_eq!(read, Ok(Some((*written).to_owned())), "{}", place.name);
        }
        place.driver.on_create(target("none", "k"), None).await.expect(place.name);
        assert_eq!(value(&*place.driver, "none", 1).await, Ok(None), "{}: no value is not null", place.name);
    }
}

#[tokio::test]
async fn what_is_missing_or_there_already_is_refused_as_the_original_refuses_it() {
    for place in all().await {
        let (driver, name) = (&*place.driver, place.name);
        let some = document("1");
        let not_found = r#"TypeInstance "r" was not found"#;
        refused(name, value(driver, "r", 7).await, Code::NotFound, r#"TypeInstance "r" in revision 7 was not found"#);
        let update = driver.on_update(target("r", "k"), new_version(2, &some)).await;
        refused(name, update, Code::NotFound, not_found);
        refused(name, driver.on_delete(target("r", "k"), None).await, Code::NotFound, not_found);
        refused(name, driver.on_delete_revision(target("r", "k"), 1, None).await, Code::NotFound, not_found);
        refused(name, driver.on_lock(target("r", "k"), "o").await, Code::NotFound, not_found);
        refused(name, driver.on_unlock(target("r", "k")).await, Code::NotFound, not_found);
        refused(name, driver.get_locked_by(target("r", "")).await, Code::NotFound, not_found);

        driver.on_create(target("r", "k1"), Some(&some)).await.expect(name);
        let again = driver.on_create(target("r", "other"), Some(&some)).await;
        refused(name, again, Code::AlreadyExists, "already exists");
        let again = driver.on_create(target("r", ""), Some(&some)).await;
        refused(name, again, Code::AlreadyExists, "already exists");
        let first = driver.on_update(target("r", "other"), new_version(1, &some)).await;
        refused(name, first, Code::AlreadyExists, "revision 1 already exists");
        let missing = driver.on_delete_revision(target("r", "k"), 5, None).await;
        refused(name, missing, Code::NotFound, "revision 5 was not found");
        let before = driver.get_pre_create_value(target("r", "")).await;
        assert_eq!(before.unwrap_err().code, Code::Unimplemented, "{name}");
    }
}

#[tokio::test]
async fn a_call_with_the_same_key_is_answered_as_the_first_one_was() {
    for place in all().await {
        let (driver, name) = (&*place.driver, place.name);
        let (one, two, other) = (document("1"), document("2"), document("3"));
        for _repetition in 0..2 {
            driver.on_create(target("r", "create"), Some(&one)).await.expect(name);
            driver.on_update(target("r", "update"), new_version(2, &two)).await.expect(name);
            driver.on_lock(target("r", "lock"), "me").await.expect(name);
        }
        let locked = driver.on_lock(target("r", "another"), "me").await;
        refused(name, locked, Code::FailedPrecondition, "locked");
        driver.on_unlock(target("r", "unlock")).await.expect(name);
        driver.on_unlock(target("r", "unlock")).await.expect("nothing to unlock is no fault");
        let other = driver.on_update(target("r", "another"), new_version(2, &other)).await;
        refused(name, other, Code::AlreadyExists, "revision 2 already exists");
        assert_eq!(value(driver, "r", 2).await, Ok(Some("2".to_owned())), "{name}");
    }
}

#[tokio::test]
async fn a_lock_keeps_everybody_out_but_its_owner() {
    for place in all().await {
        let (driver, name) = (&*place.driver, place.name);
        let some = document("1");
        let locked_by = async || driver.get_locked_by(target("r", "")).await.expect(name);
        driver.on_create(target("r", "k1"), Some(&some)).await.expect(name);
        assert_eq!(locked_by().await, None, "{name}");
        driver.on_lock(target("r", "k2"), "ns/me-\"1\"").await.expect(name);
        assert_eq!(locked_by().await.as_deref(), Some("ns/me-\"1\""), "{name}");

        let stranger = driver.on_update(target("r", "k3"), owned(2, &some, "you")).await;
        refused(name, stranger, Code::FailedPrecondition, "locked");
        let nobody = driver.on_update(target("r", "k4"), new_version(2, &some)).await;
        refused(name, nobody, Code::FailedPrecondition, "locked");
        refused(name, driver.on_delete(target("r", "k5"), Some("you")).await, Code::FailedPrecondition, "locked");
        refused(name, driver.on_delete(target("r", "k6"), None).await, Code::FailedPrecondition, "locked");
        let undo = driver.on_delete_revision(target("r", "k7"), 1, None).await;
        refused(name, undo, Code::FailedPrecondition, "locked");
        let owner = driver.on_lock(target("r", "k8"), "ns/me-\"1\"").await;
        refused(name, owner, Code::FailedPrecondition, "locked");
        assert_eq!(value(driver, "r", 1).await, Ok(Some("1".to_owned())), "{name}: reading needs no lock");

        driver.on_update(target("r", "k9"), owned(2, &some, "ns/me-\"1\"")).await.expect("the owner may");
        driver.on_delete_revision(target("r", "k10"), 2, Some("ns/me-\"1\"")).await.expect("the owner may");
        driver.on_unlock(target("r", "k11")).await.expect(name);
        assert_eq!(locked_by().await, None, "{name}");
        driver.on_lock(target("r", "k12"), "you").await.expect("it is free");
        driver.on_delete(target("r", "k13"), Some("you")).await.expect("the owner may");
    }
}

#[tokio::test]
async fn ids_and_contexts_that_make_no_sense_are_refused() {
    for place in all().await {
        let (driver, name) = (&*place.driver, place.name);
        let some = document("1");
        for id in ["", "..", "../r", "a/b", "/etc/passwd", ".locks", "a\0b"] {
            let created = driver.on_create(target(id, "k"), Some(&some)).await;
            refused(name, created, Code::InvalidArgument, "type_instance_id");
            refused(name, value(driver, id, 1).await, Code::InvalidArgument, "type_instance_id");
            refused(name, driver.on_delete(target(id, "k"), None).await, Code::InvalidArgument, "type_instance_id");
        }
        let contexts = [
            ("not json", Code::InvalidArgument),
            ("[]", Code::InvalidArgument),
            (r#""dotenv""#, Code::InvalidArgument),
            (r#"{"provider":1}"#, Code::InvalidArgument),
            (r#"{"provider":"aws_secretsmanager"}"#, Code::FailedPrecondition),
        ];
        for (context, code) in contexts {
            let context = document(context);
            let target = Target { context: Some(&context), ..target("r", "k") };
            refused(name, driver.on_create(target, Some(&some)).await, code, "context");
            refused(name, driver.get_value(target, 1).await, code, "context");
        }
        for (number, context) in [r#"{"provider":"dotenv"}"#, "{}", "null", r#"{"provider":"file"}"#].iter().enumerate()
        {
            let (id, context) = (format!("c{number}"), document(context));
            let target = Target { context: Some(&context), ..target(&id, "k") };
            assert_eq!(driver.on_create(target, Some(&some)).await, Ok(None), "{name}");
        }
    }
}

#[tokio::test]
async fn of_many_writers_of_one_version_one_wins_and_no_version_is_lost() {
    for place in all().await {
        let (driver, name) = (&*place.driver, place.name);
        driver.on_create(target("r", "k"), Some(&document("0"))).await.expect(name);
        let write = async |writer: u32, version: u32| {
            let (key, written) = (format!("{writer}-{version}"), document(&writer.to_string()));
            driver.on_update(target("r", &key), new_version(version, &written)).await
        };
        let race = join_all((0..16).map(|writer| write(writer, 2))).await;
        let won: Vec<usize> = race.iter().enumerate().filter(|(_, end)| end.is_ok()).map(|(at, _)| at).collect();
        assert_eq!(won.len(), 1, "{name}: {race:?}");
        assert_eq!(value(driver, "r", 2).await, Ok(Some(won[0].to_string())), "{name}");
        assert!(race.iter().flat_map(|end| end.as_ref().err()).all(|failure| failure.code == Code::AlreadyExists));

        let apart = join_all((3..35).map(|version| write(version, version))).await;
        assert!(apart.iter().all(Result::is_ok), "{name}: {apart:?}");
        for version in 3..35 {
            assert_eq!(value(driver, "r", version).await, Ok(Some(version.to_string())), "{name}");
        }
    }
}
