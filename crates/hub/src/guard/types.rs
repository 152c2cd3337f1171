//! Types, which belong to no namespace.

use access::Action;

use super::acts::together;
use super::{Failure, GROUP, Guard};
use crate::Error;
use crate::model::NodePath;
use crate::types::{PathPattern, Type};

impl Guard {
    /// The Types that match, if the caller may list them.
    pub async fn types(&self, pattern: &PathPattern) -> Result<Vec<Type>, Failure> {
        self.caller.may(&Action::on("list", GROUP, "types")).await?;
        Ok(self.hub.types(pattern).await?)
    }

    /// The revisions of one Type; nothing if the caller may not get it.
    pub async fn type_named(&self, path: &NodePath) -> Result<Vec<Type>, Failure> {
        let mut found = self.hub.types(&PathPattern::Exact(path.to_string())).await?;
        // Those that are attached to a node of this name are other Types.
        found.retain(|known| known.reference.path == *path);
        if found.is_empty() || !self.sight.may(Action::on("get", GROUP, "types").named(path.as_str())).await? {
            return Ok(Vec::new());
        }
        Ok(found)
    }

    /// Takes Types, all or none.
    pub async fn apply_types(&self, types: Vec<Type>) -> Result<(), Failure> {
        if types.len() > self.limits.batch {
            return Err(self.too_many("manifests"));
        }
        let actions = types.iter().map(|applied| {
            Action::on("create", GROUP, "types").named(applied.reference.path.as_str())
        });
        let (actions, hub) = (actions.collect(), self.hub.clone());
        together(&self.caller, actions, async move { hub.apply_types(types).await }).await
    }

    pub(super) fn too_many(&self, what: &str) -> Failure {
        let most = self.limits.batch;
        Error::invalid(format!("there are more than {most} {what} (the setting hub.batch_records); send fewer at once")).into()
    }
}
