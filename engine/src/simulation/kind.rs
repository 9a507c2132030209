//! Kinds of fleets.

use proptest::prelude::*;

pub(super) const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// Kind of fleet, by the exposure that its stories begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fleet {
    /// A MultiClusterService. Exposed EndpointSlices alone are watched, or all.
    Native { exposed: bool },
    /// A ServiceExport, in members that differ. MultiClusterServices are published as exports, or
    /// not.
    Clusterset { publish: bool },
}

pub(super) fn native() -> impl Strategy<Value = Fleet> {
    any::<bool>().prop_map(|exposed| Fleet::Native { exposed })
}

pub(super) fn clusterset() -> impl Strategy<Value = Fleet> {
    any::<bool>().prop_map(|publish| Fleet::Clusterset { publish })
}
