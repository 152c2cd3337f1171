//! A feed of objects: 20 clusters, 5,000 namespaces, a dozen kinds, bodies of 2 to 6 kB.

use explorer::status::{assess, category};
use explorer::{Key, Row};
use fastrand::Rng;

use super::bodies::{self, Facts};

pub(crate) const CLUSTERS: usize = 20;
pub(crate) const NAMESPACES: usize = 5000;

/// The same objects for the same seed.
pub(crate) struct Feed {
    random: Rng,
    made: usize,
}

impl Feed {
    pub(crate) fn new() -> Feed {
        Feed { random: Rng::with_seed(5), made: 0 }
    }

    /// The next objects.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Row> {
        (0..count).map(|_| self.row()).collect()
    }

    fn row(&mut self) -> Row {
        self.made += 1;
        let random = &mut self.random;
        let (group, version, kind, resource, body) = bodies::KINDS[random.usize(..bodies::KINDS.len())];
        let place = random.usize(..NAMESPACES);
        let app = bodies::app(random);
        let name = format!("{app}-{}", self.made);
        let facts = Facts { name: &name, namespace: &namespace(place), app: &app };
        let body = body(random, &facts);
        let assessment = assess(group, kind, &body);
        let labels = body.pointer("/metadata/labels").and_then(|labels| labels.as_object()).into_iter().flatten();
        let own = str::to_owned;
        Row {
            version: own(version),
            resource: own(resource),
            uid: bodies::uid(random),
            status: assessment.status,
            message: assessment.message,
            category: own(category(group, kind)),
            labels: labels.map(|(key, value)| (key.clone(), own(value.as_str().unwrap_or_default()))).collect(),
            created: Some(1_700_000_000_000 + random.i64(0..60_000_000_000)),
            deleted_at: None,
            terminating: false,
            orphaned: false,
            body: body.to_string(),
            key: Key { cluster: cluster(place), namespace: namespace(place), group: own(group), kind: own(kind), name },
        }
    }
}

/// The cluster of a namespace.
pub(crate) fn cluster(place: usize) -> String {
    format!("cluster-{:02}", place % CLUSTERS)
}

pub(crate) fn namespace(place: usize) -> String {
    format!("team-{place:04}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_as_large_as_real_ones_and_objects_differ() {
        let rows = Feed::new().take(500);
        let is_odd = |row: &&Row| !(2000..=6200).contains(&row.body.len());
        let odd: Vec<_> = rows.iter().filter(is_odd).map(|row| (&row.key.kind, row.body.len())).collect();
        assert!(odd.is_empty(), "{odd:?}");
        let keys: std::collections::BTreeSet<&Key> = rows.iter().map(|row| &row.key).collect();
        assert_eq!(keys.len(), rows.len());
        assert!(rows.iter().any(|row| row.status == explorer::Status::Failed));
    }
}
