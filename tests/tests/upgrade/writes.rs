//! Writes of causeway's programs, by the audit logs of all API servers.

use std::collections::BTreeMap;

use causeway_tests::Fleet;
use causeway_tests::audit::{AuditedWrite, Mark};
use causeway_tests::soak::ROCK;

const PROGRAMS: [&str; 2] = ["causeway-controller/", "causeway-webhook/"];

/// A moment, in each cluster of a fleet.
pub(super) struct Marks(Vec<Mark>);

impl Marks {
    pub(super) async fn now(fleet: &Fleet) -> Self {
        let mut marks = Vec::new();
        for cluster in fleet.clusters() {
            marks.push(cluster.mark().await);
        }
        Self(marks)
    }
}

/// Writes that changed something, but for those of the Lease; each with its cluster.
pub(super) struct Writes(Vec<(String, AuditedWrite)>);

impl Writes {
    pub(super) async fn since(fleet: &Fleet, marks: &Marks) -> Self {
        let mut all = Vec::new();
        for (cluster, mark) in fleet.clusters().zip(&marks.0) {
            let writes = cluster.all_writes_since(*mark).await.into_iter();
            let writes = writes.filter(is_counted);
            all.extend(writes.map(|write| (cluster.name().to_owned(), write)));
        }
        Self(all)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of writes of a version.
    pub(super) fn by(&self, version: &str) -> usize {
        let of = |write: &AuditedWrite| {
            let mut named = PROGRAMS
                .iter()
                .filter_map(|program| write.user_agent.strip_prefix(program));
            named.any(|rest| rest.split(' ').next() == Some(version))
        };
        self.0.iter().filter(|(_, write)| of(write)).count()
    }

    /// Returns the number of writes of each object, and of each status.
    pub(super) fn by_object(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for (cluster, write) in &self.0 {
            *all.entry(named(cluster, write)).or_default() += 1;
        }
        all
    }

    /// Those of what nobody touched: of the rock, of the namespace that the churn spares, and of
    /// what serves causeway itself.
    pub(super) fn of_untouched(self, spared: &str) -> Self {
        let mut untouched = self.0;
        untouched.retain(|(_, write)| match write.namespace.as_str() {
            // A Cluster says what becomes of the churn: which deletions are suspended, for
            // instance.
            "" => !["clusters", "namespaces"].contains(&write.resource.as_str()),
            namespace => {
                namespace == ROCK || namespace == spared || namespace.starts_with("causeway-")
            }
        });
        Self(untouched)
    }
}

fn is_counted(write: &AuditedWrite) -> bool {
    let by_causeway = PROGRAMS
        .iter()
        .any(|program| write.user_agent.starts_with(program));
    by_causeway && write.code < 300 && !write.dry_run && write.resource != "leases"
}

fn named(cluster: &str, write: &AuditedWrite) -> String {
    let AuditedWrite {
        resource,
        subresource,
        namespace,
        name,
        ..
    } = write;
    let slash = if subresource.is_empty() { "" } else { "/" };
    format!("{cluster}: {resource}{slash}{subresource} {namespace}/{name}")
}
