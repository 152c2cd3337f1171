//! What of the records the caller may see.

use std::collections::HashMap;

use access::Action;

use super::sight::Part;
use super::{Failure, GROUP, Guard};
use crate::model::Record;
use crate::store::Direction;
use crate::{Cursor, Error, Filter, Json, LockedBy, Page, Reason, VersionId};

/// Relations that are read at least, where those before could not be shown.
const MORE: usize = 256;

/// A page of a list, and whether there is another.
#[derive(Clone, Debug)]
pub struct Listed {
    pub records: Vec<Record>,
    pub has_more: bool,
}

impl Guard {
    /// The record of an id or a name; nothing if the caller may not get it.
    pub async fn find(&self, id_or_name: &str) -> Result<Option<Record>, Failure> {
        let Some(record) = self.hub.find(id_or_name).await? else { return Ok(None) };
        Ok(self.sight.sees(&record, Part::Metadata).await?.then_some(record))
    }

    /// Those of these records that the caller may get.
    pub async fn seen(&self, records: Vec<Record>) -> Result<Vec<Record>, Failure> {
        let seen = self.sight.which(&records, Part::Metadata).await?;
        Ok(records.into_iter().zip(seen).filter_map(|(record, seen)| seen.then_some(record)).collect())
    }

    /// A page of the records that the caller may list. Without `first` it is all of them, unless they are too many.
    pub async fn list(&self, filter: Filter, first: Option<usize>, after: Option<Cursor>) -> Result<Listed, Failure> {
        let most = self.limits.list;
        if first.is_some_and(|first| first > most) {
            let text = format!("first: it must be {most} at most (the setting hub.list_records)");
            return Err(Error::refused(Reason::TooLarge, text).into());
        }
        let Some(filter) = self.scoped(filter).await? else {
            return Ok(Listed { records: Vec::new(), has_more: false });
        };
        let wanted = first.unwrap_or(most);
        let mut records = self.hub.list(filter, Page { first: wanted.saturating_add(1), after }).await?;
        let has_more = records.len() > wanted;
        if has_more && first.is_none() {
            let text = format!(
                "there are more than {most} TypeInstances (the setting hub.list_records); read them in pages, with first and after"
            );
            return Err(Error::invalid(text).into());
        }
        records.truncate(wanted);
        Ok(Listed { records, has_more })
    }

    /// How many records the caller may list.
    pub async fn count(&self, filter: Filter) -> Result<u64, Failure> {
        match self.scoped(filter).await? {
            Some(filter) => Ok(self.hub.count(filter).await?),
            None => Ok(0),
        }
    }

    /// The same filter within what the caller may list; `None` if that is nothing.
    pub(super) async fn scoped(&self, mut filter: Filter) -> Result<Option<Filter>, Failure> {
        let asked = filter.namespaces.take();
        let allowed = match &asked {
            Some(asked) => {
                let mut allowed = Vec::new();
                for namespace in asked {
                    let list = Action::on("list", GROUP, "typeinstances").in_namespace(namespace);
                    if self.sight.may(list).await? {
                        allowed.push(namespace.clone());
                    }
                }
                Some(allowed)
            }
            None => self.sight.namespaces("typeinstances", &self.hub.namespaces().await?).await?,
        };
        filter.namespaces = allowed;
        if filter.namespaces.as_ref().is_none_or(|allowed| !allowed.is_empty()) && filter.name.is_none() {
            return Ok(Some(filter));
        }
        // Who may get a record by its name finds it by its name, too.
        if let Some(name) = &filter.name
            && let Some(record) = self.hub.find(name).await?
            && asked.is_none_or(|asked| asked.contains(&record.namespace))
        {
            let listed = filter.namespaces.as_ref().is_none_or(|allowed| allowed.contains(&record.namespace));
            if listed || self.sight.sees(&record, Part::Metadata).await? {
                filter.namespaces = Some(vec![record.namespace]);
                return Ok(Some(filter));
            }
        }
        Ok(None)
    }

    /// What each of these records is related to, as far as the caller may get it; of each the first so many.
    pub(crate) async fn related(
        &self,
        ids: &[String],
        direction: Direction,
        first: Option<usize>,
    ) -> Result<HashMap<String, Vec<Record>>, Failure> {
        let Some(first) = first else {
            let related = self.hub.related(ids, direction, None).await?;
            return self.seen_by_id(related).await;
        };
        let (mut found, mut open, mut most) = (HashMap::new(), ids.to_vec(), first);
        loop {
            let related = self.hub.related(&open, direction, Some(most)).await?;
            let all_read: HashMap<String, bool> =
                related.iter().map(|(id, records)| (id.clone(), records.len() < most)).collect();
            open.clear();
            for (id, mut seen) in self.seen_by_id(related).await? {
                if seen.len() < first && !all_read[&id] {
                    // Others that the caller may not get came first.
                    open.push(id.clone());
                }
                seen.truncate(first);
                found.insert(id, seen);
            }
            if open.is_empty() || most == usize::MAX {
                return Ok(found);
            }
            most = most.saturating_mul(16).max(MORE);
        }
    }

    async fn seen_by_id(&self, related: HashMap<String, Vec<Record>>) -> Result<HashMap<String, Vec<Record>>, Failure> {
        let mut distinct: HashMap<&str, &Record> = HashMap::new();
        for record in related.values().flatten() {
            distinct.insert(&record.id, record);
        }
        let distinct: Vec<Record> = distinct.into_values().cloned().collect();
        let seen = self.sight.which(&distinct, Part::Metadata).await?;
        let seen: HashMap<&str, bool> = distinct.iter().map(|record| record.id.as_str()).zip(seen).collect();
        let keep = |record: &Record| seen.get(record.id.as_str()).copied().unwrap_or_default();
        let filtered = related
            .iter()
            .map(|(id, records)| (id.clone(), records.iter().filter(|record| keep(record)).cloned().collect()));
        Ok(filtered.collect())
    }

    /// The values of these versions of these records; those without one are left out. Where the caller may not see one, or
    /// it cannot be had, that is told for it alone.
    pub async fn values(&self, wanted: &[(Record, u32)]) -> Result<HashMap<VersionId, Result<Json, Failure>>, Failure> {
        let (allowed, mut answers) = self.readable(wanted).await?;
        let values = self.hub.values_for(&self.reader(), &allowed).await?;
        answers.extend(values.into_iter().map(|(id, value)| (id, value.map_err(Failure::from))));
        Ok(answers)
    }

    /// The contexts of these versions, which need the same permission: they may hold secrets, too.
    pub async fn contexts(
        &self,
        wanted: &[(Record, u32)],
    ) -> Result<HashMap<VersionId, Result<Json, Failure>>, Failure> {
        let (allowed, mut answers) = self.readable(wanted).await?;
        let contexts = self.hub.contexts(&allowed).await?;
        answers.extend(contexts.into_iter().map(|(id, context)| (id, context.map_err(Failure::from))));
        Ok(answers)
    }

    /// The versions whose documents the caller may read, and refusals for the others.
    async fn readable(
        &self,
        wanted: &[(Record, u32)],
    ) -> Result<(Vec<VersionId>, HashMap<VersionId, Result<Json, Failure>>), Failure> {
        let mut records: HashMap<&str, &Record> = HashMap::new();
        for (record, _number) in wanted {
            records.insert(&record.id, record);
        }
        let records: Vec<Record> = records.into_values().cloned().collect();
        let seen = self.sight.which(&records, Part::Value).await?;
        let seen: HashMap<&str, bool> = records.iter().map(|record| record.id.as_str()).zip(seen).collect();
        let (mut allowed, mut refused) = (Vec::new(), HashMap::new());
        for (record, number) in wanted {
            let id = VersionId { record: record.id.clone(), number: *number };
            if seen.get(record.id.as_str()).copied().unwrap_or_default() {
                allowed.push(id);
            } else {
                refused.insert(id, Err(self.may_not_read()));
            }
        }
        Ok((allowed, refused))
    }

    /// Who holds each of these records, by the hub and by its backend.
    pub async fn locked_by(&self, records: &[Record]) -> Result<HashMap<String, LockedBy>, Failure> {
        Ok(self.hub.locked_by(records).await?)
    }

    /// Tells callers apart, with all that a permission may depend on.
    fn reader(&self) -> String {
        format!("{:?}", self.caller.identity())
    }

    fn may_not_read(&self) -> Failure {
        let message = format!("user '{}' may not get typeinstances/value of this record", self.caller.identity().user);
        let hint = format!("ask for a role with the verb 'get' on 'typeinstances/value' of the API group '{GROUP}'");
        Failure::Access(access::http::Problem::new(http::StatusCode::FORBIDDEN, message, hint))
    }
}
