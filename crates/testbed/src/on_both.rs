//! One test, two databases.

/// Makes each `async fn(Place)` a test on SQLite and on PostgreSQL. The caller's `crate::place::Place` says what a place is: it is
/// made by `Place::sqlite()` and `Place::postgres()`.
#[macro_export]
#[expect(clippy::crate_in_macro_def, reason = "the place is that of whoever calls")]
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::place::Place::sqlite()).await;
            }
        )+}
        mod postgres {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::place::Place::postgres()).await;
            }
        )+}
    };
}
