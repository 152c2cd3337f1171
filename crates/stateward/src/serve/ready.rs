//! What is ready and what is not. Parts register a check once; `/readyz` asks them all.

use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The checks of this process; a clone shares them.
#[derive(Clone, Default)]
pub(crate) struct Readiness(Arc<RwLock<Vec<(&'static str, Check)>>>);

impl Readiness {
    /// Adds a part: its check answers with the reason when it is not ready, without a secret in it.
    pub(crate) fn add<F>(&self, part: &'static str, check: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let check: Check = Arc::new(move || Box::pin(check()));
        self.0.write().unwrap_or_else(PoisonError::into_inner).push((part, check));
    }

    /// Every part with its reason, if it is not ready.
    pub(crate) async fn report(&self) -> Vec<(&'static str, Result<(), String>)> {
        let checks: Vec<_> = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let asked = checks.into_iter().map(|(part, check)| async move { (part, check().await) });
        futures::future::join_all(asked).await
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").finish()
    }
}
