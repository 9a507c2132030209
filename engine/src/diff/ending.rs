//! Removal of what was made for a MultiClusterService: its finalizer is removed once the members
//! are clean, or after a maximum time.

use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use super::comparison::{Diff, Moment, hub_write};
use crate::messages::events;
use crate::model::{MemberState, ObjectEvent, TargetCluster};
use crate::observed::Index;
use crate::observed::hub::McsView;

/// Maximum time for which the clean-up may hold a MultiClusterService. Obstacles in a member
/// (permissions, a webhook of its own) may last longer; they do not prevent the deletion of an
/// object of the hub. Leftovers are collected by their label once that is possible.
const CLEANED_WITHIN: Duration = Duration::from_secs(60);

/// Time after which a MultiClusterService is checked again, at least.
const AGAIN: Duration = Duration::from_secs(1);

/// Removes the finalizer of a MultiClusterService that is terminating, if it is due.
pub(super) fn let_go(
    diff: &mut Diff,
    index: &Index,
    key: &ServiceKey,
    mcs: &McsView,
    moment: Moment,
) {
    let Some(since) = mcs
        .deleting_since
        .filter(|_| mcs.finalizers.have_ours() && !moment.busy)
    else {
        return;
    };
    let until = index.deletes_since(since).after(CLEANED_WITHIN);
    let is_in_time = moment.now < until || !index.is_hub_current();
    if is_in_time
        && index
            .cluster_names()
            .any(|name| is_waited_for(index, name, key))
    {
        let again_at = until.max(moment.now.after(AGAIN));
        diff.again_at = diff.again_at.into_iter().chain([again_at]).min();
        return;
    }
    let patch = mcs.finalizers.without_ours(&mcs.resource_version);
    let write = hub_write(key, patch).with_events(leftovers(index, key));
    diff.writes.insert(TargetCluster::Hub, vec![write]);
}

/// Removes the finalizer of a MultiClusterService that Karmada manages, once every member was
/// observed to hold nothing of causeway's, or takes no part.
pub(super) fn hand_over(
    diff: &mut Diff,
    index: &Index,
    key: &ServiceKey,
    mcs: &McsView,
    moment: Moment,
) {
    let is_clean = |name: &ClusterName| match index.member_state(name) {
        MemberState::Synced => !holds(index, name, key),
        MemberState::LeftOut(_) => true,
        _ => false,
    };
    let guards = mcs.finalizers.have_ours() && !mcs.is_deleting();
    if guards && !moment.busy && index.cluster_names().all(is_clean) {
        let patch = mcs.finalizers.without_ours(&mcs.resource_version);
        diff.writes
            .insert(TargetCluster::Hub, vec![hub_write(key, patch)]);
    }
}

/// Whether a member that answers has an object of the service to clean, or may have one because it
/// is still syncing. A member that does not answer never delays a deletion.
fn is_waited_for(index: &Index, name: &ClusterName, key: &ServiceKey) -> bool {
    match index.member_state(name) {
        MemberState::Synced => holds(index, name, key),
        MemberState::Syncing => true,
        MemberState::Unreachable { .. }
        | MemberState::Unwatched { .. }
        | MemberState::Refused(_)
        | MemberState::LeftOut(_)
        | MemberState::NotJoined => false,
    }
}

fn holds(index: &Index, name: &ClusterName, key: &ServiceKey) -> bool {
    let member = index.member(name);
    member.is_some_and(|member| member.owns_native(key, index.hub_uid()))
}

fn leftovers(index: &Index, key: &ServiceKey) -> Option<ObjectEvent> {
    let clusters = index.cluster_names();
    let left: Vec<_> = clusters.filter(|name| holds(index, name, key)).collect();
    (!left.is_empty()).then(|| events::leftovers_remain(key, left))
}
