//! How much one member's exports may cost the others, and which of them go beyond that.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;

use super::clusterset::ExportView;
use super::slice::Path;

/// What one member may export. Each export takes an address of the service range in every other cluster, and room in their
/// stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Exports.
    pub exports: usize,
    /// Bytes of exported labels and annotations, of all exports together.
    pub metadata: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            exports: 1000,
            metadata: 4 * MIB,
        }
    }
}

/// What of a quota an export goes beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondQuota {
    /// So many are exported that are older.
    Exports(usize),
    /// With those that are older its labels and annotations have more bytes than that.
    Metadata(usize),
}

const MIB: usize = 1024 * 1024;

/// What a person is told, with the flag.
impl fmt::Display for BeyondQuota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exports(most) => write!(
                out,
                "the cluster exports more than {most} services (--max-member-exports of causeway-controller)"
            ),
            Self::Metadata(most) => write!(
                out,
                "the labels and annotations that the cluster exports have more than {} MiB (--max-member-exported-mib of \
                 causeway-controller)",
                most / MIB
            ),
        }
    }
}

/// The exports of a member by age, the oldest first; of those as old the one whose key comes first. One without a time is the
/// youngest.
#[derive(Debug, Default)]
pub(super) struct ByAge {
    sizes: BTreeMap<(Timestamp, ServiceKey), usize>,
    created: HashMap<ServiceKey, Timestamp>,
}

impl ByAge {
    /// An export is there, or is not any more. Those that stand for a MultiClusterService are the hub's own wish.
    pub(super) fn note(&mut self, key: &ServiceKey, export: Option<&ExportView>) {
        if let Some(created) = self.created.remove(key) {
            self.sizes.remove(&(created, key.clone()));
        }
        let of_hub = |export: &&ExportView| {
            let hub = export.hub.as_deref();
            hub.is_some_and(|hub| export.path(hub) == Some(Path::Native))
        };
        if let Some(export) = export.filter(|export| !export.deleting && !of_hub(export)) {
            let created = export.created.unwrap_or(Timestamp::MAX);
            let place = (created, key.clone());
            self.sizes.insert(place, size(export));
            self.created.insert(key.clone(), created);
        }
    }

    /// Whether the export goes beyond the quota. No more exports are looked at than it allows.
    pub(super) fn beyond(&self, key: &ServiceKey, quota: &Quota) -> Option<BeyondQuota> {
        let own = (*self.created.get(key)?, key.clone());
        let (mut count, mut bytes) = (0, 0);
        for size in self.sizes.range(..=own).map(|(_, size)| size) {
            count += 1;
            bytes += size;
            if count > quota.exports {
                return Some(BeyondQuota::Exports(quota.exports));
            }
            if bytes > quota.metadata {
                return Some(BeyondQuota::Metadata(quota.metadata));
            }
        }
        None
    }
}

fn size(export: &ExportView) -> usize {
    let all = [
        &export.spec.exported_labels,
        &export.spec.exported_annotations,
    ];
    let all = all.into_iter().flatten();
    all.map(|(name, value)| name.len() + value.len()).sum()
}
