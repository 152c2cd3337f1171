//! smoke
use db::{Config, Db, Error, Migrations, params};
#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(Config::sqlite(dir.path().join("a/b.db"))).await.unwrap();
    db.migrate(&[Migrations {
        set: "t",
        steps: &["CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x');"],
    }])
    .await
    .unwrap();
    db.write(|tx| tx.execute("INSERT INTO t (a, b) VALUES ($2, $1)", params!["y", 2]))
        .await
        .map(|n| assert_eq!(n, 1))
        .unwrap();
    let n: i64 = db.read(|tx| tx.query_opt("SELECT COUNT(*) FROM t", &[])?.unwrap().get(0)).await.unwrap();
    assert_eq!(n, 2);
    let e = db.read(|tx| tx.execute("DELETE FROM t", &[])).await.unwrap_err();
    assert!(matches!(e, Error::ReadOnly), "{e}");
    println!("{:?}", db.backup(&dir.path().join("bk")).await.unwrap());
    db.ping().await.unwrap();
    db.close().await;
}
