//! What happens to records, as far as the caller may watch them.

use access::Action;

use super::{Failure, GROUP, Guard};
use crate::model::Record;
use crate::{ChangeEvent, ChangeKind, Filter};

impl Guard {
    /// The record of an event as it is now, if the caller may watch it and it passes the filter; the outer `None` is for
    /// events that are not told. Of what is gone only the namespace can be asked.
    pub async fn watched(&self, event: &ChangeEvent, filter: &Filter) -> Result<Option<Option<Record>>, Failure> {
        if filter.namespaces.as_ref().is_some_and(|asked| !asked.contains(&event.namespace)) {
            return Ok(None);
        }
        let watch = Action::on("watch", GROUP, "typeinstances").in_namespace(&event.namespace);
        let everywhere = self.sight.may(watch.clone()).await?;
        let record = self.hub.records(std::slice::from_ref(&event.record)).await?.pop();
        let Some(record) = record else {
            return Ok((everywhere && event.kind == ChangeKind::Deleted).then_some(None));
        };
        if !everywhere && !self.sight.may(watch.named(record.called())).await? {
            return Ok(None);
        }
        let only_this = Filter { id: Some(record.id.clone()), ..filter.clone() };
        Ok((self.hub.count(only_this).await? > 0).then_some(Some(record)))
    }
}
