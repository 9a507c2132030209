//! Plans the writes that move a service from Karmada to causeway, and the objects to wait for.
//! Pure.

use std::collections::BTreeSet;

use causeway::api::labels;
use causeway::domain::{ClusterField, ClusterName};
use causeway_engine::messages::REPORT_SECRETS;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;

use super::evidence;
use crate::cluster::karmada::{self, Work};
use crate::commands::moving::outcome::{Left, Plan};
use crate::commands::moving::step::{Step, Target};
use crate::observe::service::{Held, OfService as _, Snapshot};

/// Plans the writes that are allowed now.
///
/// The plan holds one kind of write, and the next kind follows once no write of the previous kind
/// remains: those of [`freeing`], Karmada's slices in the consumers that causeway's copies replace,
/// Karmada's finalizer of the MultiClusterService.
///
/// The plan holds no write while a Work is the only record of a slice in a member that could not be
/// read. causeway manages the service once no Work is left, so until then a part of the move would
/// leave slices that neither updates.
pub(super) fn plan(snapshot: &Snapshot) -> Plan {
    if !recorded(snapshot).is_empty() {
        let left = unread(snapshot).collect();
        return Plan {
            steps: Vec::new(),
            left,
        };
    }
    let mut kinds = freeing(snapshot).into_iter();
    if let Some(steps) = kinds.find(|steps| !steps.is_empty()) {
        return Plan::steps(steps);
    }
    let (gone, left) = orphans(snapshot);
    if !gone.is_empty() || !left.is_empty() {
        return Plan { steps: gone, left };
    }
    Plan::steps(release(snapshot).into_iter().collect())
}

/// Plans all writes of the move, as if every consumer held causeway's copies. Slices that
/// finalizers retain are left.
pub(super) fn whole(snapshot: &Snapshot) -> Plan {
    let freeing = freeing(snapshot).into_iter().flatten();
    let slices = dispatched(snapshot)
        .filter(|(member, _, slice)| may_consume(snapshot, member) && retained(slice).is_none());
    let steps = freeing
        .chain(slices.map(slice_step))
        .chain(release(snapshot));
    let left = dispatched(snapshot)
        .filter_map(|(member, _, slice)| Some(Left::slice(member, slice, retained(slice)?)));
    Plan {
        steps: steps.collect(),
        left: left.chain(unread(snapshot)).collect(),
    }
}

/// Plans the writes that leave the service no Work, by kind.
///
/// The Work of a former consumer is the only record of its slices, and is removed after them. It is
/// deleted with its finalizer, which retains it. Karmada does not create the slices of a Work in
/// deletion again. The slices are deleted next, then the finalizer is removed. A slice in deletion
/// is deleted already, and what retains it is not causeway's. Any other Work loses its
/// finalizers first, because Karmada's execution controller deletes the content of a Work in
/// deletion from the member.
fn freeing(snapshot: &Snapshot) -> [Vec<Step>; 4] {
    let (former, others): (Vec<_>, Vec<_>) =
        works(snapshot).partition(|work| is_of_former_consumer(snapshot, work));
    let former = former.into_iter();
    let to_end = former.filter(|work| work.0.deletion_timestamp.is_none());
    let unneeded = dispatched(snapshot).filter(|(member, _, slice)| {
        !may_consume(snapshot, member) && slice.metadata.deletion_timestamp.is_none()
    });
    let owned = others.into_iter().filter(|work| work.others().is_none());
    [
        to_end.map(delete).collect(),
        unneeded.map(slice_step).collect(),
        works(snapshot).filter_map(free).collect(),
        owned.map(delete).collect(),
    ]
}

/// Lists the members to which Karmada dispatched slices, by their Works and slices.
pub(super) fn holders(snapshot: &Snapshot) -> BTreeSet<String> {
    let works = snapshot.works.iter().flatten();
    let works = works.filter(|work| is_dispatched(work)).map(Work::member);
    let slices = dispatched(snapshot).map(|(member, ..)| member);
    works.chain(slices).map(str::to_owned).collect()
}

/// Returns the reason that causeway would not serve what Karmada serves once Karmada's objects are
/// deleted.
pub(super) fn obstacle(snapshot: &Snapshot) -> Option<String> {
    ignored_fields(snapshot).or_else(|| pulled_member(snapshot))
}

/// Returns the reason for deprecated fields that alone name the clusters of a role. Karmada has
/// ignored them since 1.9 and serves all clusters (`GetProviderClusters` and `GetConsumerClusters`
/// in `pkg/util/helper/mcs.go`). The plan would delete its slices outside of the named clusters.
fn ignored_fields(snapshot: &Snapshot) -> Option<String> {
    let object = snapshot.mcs.as_ref()?;
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let spec = &object.spec;
    let roles = ClusterField::ROLES.into_iter();
    let ignored = roles.filter(|role| role.effective(spec) != *role);
    let remedies = ignored.map(|role| {
        let deprecated = role.with_deprecated().skip(1);
        let filled = deprecated.filter(|field| field.name(spec, 0).is_some());
        let filled: Vec<_> = filled.map(ClusterField::path).collect();
        let (old, new) = (filled.join(" and "), role.path());
        format!(
            "remove {old} to keep them; to keep those of some clusters alone, also list these \
             clusters in {new}"
        )
    });
    let remedies: Vec<_> = remedies.collect();
    (!remedies.is_empty()).then(|| {
        format!(
            "Karmada ignores deprecated fields and uses all clusters; causeway would use only \
             those that the fields name, and endpoints that Karmada serves would be lost. First, \
             in one edit: {}",
            remedies.join("; ")
        )
    })
}

/// Returns the reason for a cluster in Pull mode without credentials.
fn pulled_member(snapshot: &Snapshot) -> Option<String> {
    let works = snapshot.works.iter().flatten();
    let mut members = works.map(Work::member);
    let pulled = members.find(|member| {
        let cluster = snapshot.cluster(member);
        cluster.is_some_and(|cluster| !cluster.takes_part())
    });
    pulled.map(|member| {
        format!(
            "{member} takes part in it and is in Pull mode without credentials: its endpoints would \
             never be updated; {REPORT_SECRETS}, or name other clusters in spec.providerClusters \
             and spec.consumerClusters"
        )
    })
}

/// Lists the Works of the service that may be deleted.
fn works(snapshot: &Snapshot) -> impl Iterator<Item = &Work> {
    let works = snapshot.works.iter().flatten();
    works.filter(|work| !is_only_record(snapshot, work))
}

/// Returns the members in which a Work is the only record of a slice.
fn recorded(snapshot: &Snapshot) -> BTreeSet<&str> {
    let works = snapshot.works.iter().flatten();
    let records = works.filter(|work| is_only_record(snapshot, work));
    records.map(Work::member).collect()
}

/// Whether Karmada dispatches slices to the member by the Work.
fn is_dispatched(work: &Work) -> bool {
    work.manages_service() && !work.holds_service()
}

/// Whether Karmada may have left a slice in a member that no other object names: the member could
/// not be read, and is no consumer any more.
fn is_only_record(snapshot: &Snapshot, work: &Work) -> bool {
    let is_unread = matches!(snapshot.members.get(work.member()), Some(Err(_)));
    is_unread && is_of_former_consumer(snapshot, work)
}

/// Whether Karmada dispatched slices by the Work to a member that is no consumer any more. The
/// member of a removed Cluster is not looked for.
fn is_of_former_consumer(snapshot: &Snapshot, work: &Work) -> bool {
    let member = work.member();
    let is_member = snapshot.members.contains_key(member);
    is_dispatched(work) && is_member && !may_consume(snapshot, member)
}

/// Removes the finalizers of a Work. A Work that also belongs to ServiceExports loses only the
/// labels of the MultiClusterService.
fn free(work: &Work) -> Option<Step> {
    let version = work.0.resource_version.clone().unwrap_or_default();
    let metadata = match work.others() {
        Some(others) => json!({
            "finalizers": work.others_finalizers(),
            "labels": {
                labels::WORK_SERVICE_NAMESPACE: null,
                labels::WORK_SERVICE_NAME: null,
                labels::WORK_COLLECTED_BY: others,
            },
            "resourceVersion": version,
        }),
        None if work.0.finalizers.as_ref().is_none_or(Vec::is_empty) => return None,
        None => json!({ "finalizers": null, "resourceVersion": version }),
    };
    let patch = json!({ "metadata": metadata });
    Some(Step::PatchWork(Target::of(&work.0), patch))
}

fn delete(work: &Work) -> Step {
    Step::DeleteWork(Target::of(&work.0))
}

/// Slice that Karmada dispatched, with its member and the objects of that member.
type Dispatched<'a> = (&'a str, &'a Held, &'a EndpointSlice);

fn dispatched(snapshot: &Snapshot) -> impl Iterator<Item = Dispatched<'_>> {
    let read = snapshot.members.iter();
    let read = read.filter_map(|(name, held)| Some((name.as_str(), held.as_ref().ok()?)));
    read.flat_map(|(name, held)| {
        let slices = held.slices_of(&snapshot.key.name);
        let dispatched = slices.filter(|slice| karmada::is_dispatched(slice));
        dispatched.map(move |slice| (name, held, slice))
    })
}

fn slice_step((member, _, slice): Dispatched<'_>) -> Step {
    Step::DeleteSlice(member.to_owned(), Target::of(&slice.metadata))
}

/// Sorts Karmada's slices in the consumers into deletions and retained slices with the reason.
fn orphans(snapshot: &Snapshot) -> (Vec<Step>, Vec<Left>) {
    let (mut steps, mut left) = (Vec::new(), Vec::new());
    for (member, held, slice) in dispatched(snapshot) {
        let why = evidence::may_go(snapshot, member, held, slice).err();
        match why.or_else(|| retained(slice)) {
            None => steps.push(slice_step((member, held, slice))),
            Some(why) => left.push(Left::slice(member, slice, why)),
        }
    }
    left.extend(unread(snapshot));
    (steps, left)
}

/// Returns the reason that a slice in deletion still exists; `None` for any other slice. Another
/// deletion would change nothing.
fn retained(slice: &EndpointSlice) -> Option<String> {
    slice.metadata.deletion_timestamp.as_ref()?;
    let finalizers = slice.metadata.finalizers.as_deref().unwrap_or_default();
    Some(format!(
        "it is being deleted, and its finalizers retain it: {}",
        finalizers.join(", ")
    ))
}

/// Lists the consumers that could not be read, and the members of which a Work is the only record.
fn unread(snapshot: &Snapshot) -> impl Iterator<Item = Left> {
    let recorded = recorded(snapshot);
    let members = snapshot.members.iter();
    let concerned = members
        .filter(move |(name, _)| may_consume(snapshot, name) || recorded.contains(name.as_str()));
    concerned.filter_map(move |(name, held)| {
        let why = held.as_ref().err()?;
        Some(Left::unread(snapshot, name, "Karmada", why))
    })
}

fn may_consume(snapshot: &Snapshot, member: &str) -> bool {
    let (Some(desired), Ok(member)) = (snapshot.desired(), ClusterName::try_from(member)) else {
        return true;
    };
    desired.consumers.includes(&member)
}

/// Removes Karmada's finalizer and the probe annotation from the MultiClusterService.
fn release(snapshot: &Snapshot) -> Option<Step> {
    let object = snapshot.mcs.as_ref()?;
    let karmadas = karmada::finalizers(object);
    Step::release(object, |one| karmadas.contains(&one))
}

#[cfg(test)]
mod tests;
