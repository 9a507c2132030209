//! What a comparison is made with, and what comes of it.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ServiceKey};
use serde_json::Value;

use crate::model::slice::SourceVersion;
use crate::model::{Lane, Operation, TimePoint, Write};

/// What is to be written for one service, per cluster, the hub's status aside.
#[derive(Debug, Default, PartialEq)]
pub struct Diff {
    /// The writes.
    pub writes: BTreeMap<Lane, Vec<Write>>,
    /// Something bears causeway's label and no MultiClusterService is known that wants it: it has to be looked up on the hub.
    pub look_up: bool,
    /// Copies that were made from newer versions of their sources than are known.
    pub ahead: Vec<Ahead>,
    /// When time alone will change it.
    pub again_at: Option<TimePoint>,
}

/// A copy that was made from a newer version of its source than is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The cluster of the source.
    pub provider: ClusterName,
    /// The version of the source that the copy names.
    pub copied: SourceVersion,
}

/// When a comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: TimePoint,
    /// Whether writes for the service are under way: until they are answered its finalizer stays.
    pub busy: bool,
}

/// A patch of the MultiClusterService on the hub.
pub(super) fn hub_write(key: &ServiceKey, patch: Value) -> Write {
    Write::new(Operation::PatchMultiClusterService(key.clone(), patch))
}
