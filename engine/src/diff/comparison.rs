//! Input and result of a comparison.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ServiceKey};
use serde_json::Value;

use crate::model::slice::SourceVersion;
use crate::model::{ObjectId, TargetCluster, TimePoint, Write};

/// Writes for one service, by cluster, except the hub's status.
#[derive(Debug, Default, PartialEq)]
pub struct Diff {
    /// The writes.
    pub writes: BTreeMap<TargetCluster, Vec<Write>>,
    /// Whether the MultiClusterService has to be looked up on the hub: an object bears causeway's
    /// label, and no MultiClusterService is known that wants it.
    pub look_up: bool,
    /// Copies that were made from newer versions of their sources than were observed.
    pub newer_copies: Vec<NewerCopy>,
    /// Number of copies that are held because no rule of the plan decides about them.
    pub undecided: usize,
    /// Time at which the result changes without an event.
    pub again_at: Option<TimePoint>,
}

/// Copy that was made from a newer version of its source than was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerCopy {
    /// Cluster of the source.
    pub provider: ClusterName,
    /// Version of the source that the copy names.
    pub copied: SourceVersion,
}

/// Time of a comparison, and the state of the service's writes.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: TimePoint,
    /// Whether writes for the service are under way: its finalizer is retained until they are
    /// answered.
    pub busy: bool,
}

/// Returns a patch of the MultiClusterService on the hub.
pub(super) fn hub_write(key: &ServiceKey, patch: Value) -> Write {
    Write::patch(ObjectId::MultiClusterService(key.clone()), patch)
}
