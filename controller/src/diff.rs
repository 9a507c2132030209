//! From what should be and what is, to the writes between them. Every decision to delete is made here.
//!
//! A copy goes only if its source's cluster was seen without the source, or the hub was seen to want it no more;
//! a member that is not synced is written to by nobody, for what it holds is not known.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::apply::{Action, ObjectId};
use crate::index::member::{Member, NamespaceState, Written};
use crate::index::service::ServiceView;
use crate::index::slice::CopiedSlice;
use crate::index::{Index, Standing};
use crate::outbox::{Announcement, Lane, Write};
use crate::plan::copy::WantedCopy;
use crate::plan::service::{OwnService, ServiceWish};
use crate::plan::{Desired, MemberWish, Members};

/// What is to be written for one service, per cluster, the hub's status aside.
#[derive(Debug, Default, PartialEq)]
pub struct Diff {
    /// The writes.
    pub writes: BTreeMap<Lane, Vec<Write>>,
    /// Something bears causeway's label and no MultiClusterService is known that wants it: the hub has to be asked outright.
    pub ask_hub: bool,
}

/// Compares. `busy` says whether writes for the service are under way: until they are answered its finalizer stays.
pub fn diff(desired: &Desired, index: &Index, key: &ServiceKey, busy: bool) -> Diff {
    let mut diff = Diff::default();
    let mcs = index.hub.multi_cluster_services.get(key);
    if mcs.is_none() && !index.hub.confirmed_gone.contains(key) {
        diff.ask_hub = index.owns_any(key);
        return diff;
    }
    if let (Members::Wanted(_), Some(mcs)) = (&desired.members, mcs)
        && !mcs.deleting
        && !mcs.finalizers.have_ours()
    {
        let patch = mcs.finalizers.with_ours(&mcs.resource_version);
        diff.writes.insert(Lane::Hub, vec![hub_write(key, patch)]);
        return diff;
    }
    if let Members::Wanted(wishes) = &desired.members {
        for (name, member) in &index.members {
            if index.standing(name) == Standing::Synced {
                let writes = member_writes(name, wishes.get(name), member, &index.hub.uid, key);
                diff.writes.insert(Lane::Member(name.clone()), writes);
            }
        }
    }
    if let Some(mcs) = mcs.filter(|mcs| mcs.deleting && mcs.finalizers.have_ours())
        && !busy
        && is_cleaned(index, key)
    {
        let patch = mcs.finalizers.without_ours(&mcs.resource_version);
        diff.writes.insert(Lane::Hub, vec![hub_write(key, patch)]);
    }
    diff
}

/// Whether no member that answers holds anything of the service. One that does not answer never blocks a deletion.
fn is_cleaned(index: &Index, key: &ServiceKey) -> bool {
    index
        .members
        .iter()
        .all(|(name, member)| match index.standing(name) {
            Standing::Synced => !member.owns_any(key, &index.hub.uid),
            Standing::Syncing => false,
            Standing::Unreachable { .. }
            | Standing::Refused(_)
            | Standing::LeftOut(_)
            | Standing::NotJoined => true,
        })
}

fn hub_write(key: &ServiceKey, patch: Value) -> Write {
    Write::new(
        ObjectId::MultiClusterService(key.clone()),
        Action::Merge(patch),
    )
}

fn member_writes(
    name: &ClusterName,
    wish: Option<&MemberWish>,
    member: &Member,
    hub: &str,
    key: &ServiceKey,
) -> Vec<Write> {
    let mut writes = Vec::new();
    let mut makes = false;
    match wish {
        Some(wish) => {
            writes.extend(service_write(name, &wish.service, member, hub, key));
            writes.extend(copy_writes(wish, member, hub, key));
            makes = writes.iter().any(|write| write.action.verb() == "create");
        }
        None => {
            writes
                .extend(own_service(member, hub, key).map(|service| delete_service(key, service)));
        }
    }
    let not_wanted = |name: &Arc<str>, copy: &CopiedSlice| match wish {
        None => true,
        Some(wish) => !wish.copies.contains_key(name) && !is_held(wish, name, copy),
    };
    for (name, copy) in own_copies(member, hub, key) {
        if not_wanted(name, &copy.view) {
            writes.push(delete_copy(key, name, &copy.view));
        }
    }
    match member.namespace(&key.namespace) {
        NamespaceState::Active => writes,
        NamespaceState::Missing if makes => vec![create_namespace(&key.namespace)],
        NamespaceState::Missing | NamespaceState::Terminating => Vec::new(),
    }
}

/// Whether it is unknown what the copy should be, so that a missing source proves nothing.
fn is_held(wish: &MemberWish, name: &Arc<str>, copy: &CopiedSlice) -> bool {
    let of_unknown = |cluster: &ClusterName| wish.held.clusters.contains(cluster);
    wish.held.copies.contains(name) || copy.source_cluster.as_ref().is_some_and(of_unknown)
}

fn own_service<'a>(member: &'a Member, hub: &str, key: &ServiceKey) -> Option<&'a ServiceView> {
    member
        .service(key)
        .filter(|service| service.hub.as_deref() == Some(hub) && !service.deleting)
}

fn own_copies<'a>(
    member: &'a Member,
    hub: &'a str,
    key: &ServiceKey,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Written<CopiedSlice>)> {
    member
        .copies(key)
        .filter(move |(_, copy)| &*copy.view.hub == hub)
}

fn service_write(
    name: &ClusterName,
    wish: &ServiceWish,
    member: &Member,
    hub: &str,
    key: &ServiceKey,
) -> Option<Write> {
    let ServiceWish::Own(own) = wish else {
        return None;
    };
    match member.services.get(key) {
        None => Some(Write::new(
            ObjectId::Service(key.clone()),
            Action::CreateService(own.object(key, hub).into()),
        )),
        // A Service that is on its way out is made anew once it is seen gone.
        Some(known) if known.deleted || known.view.deleting => None,
        Some(known) if own.is_met_by(&known.view) => None,
        Some(known) if own.can_become(&known.view) => Some(Write::new(
            ObjectId::Service(key.clone()),
            Action::Merge(own.patch(&known.view, hub)),
        )),
        Some(known) => Some(replace_service(name, key, own, &known.view)),
    }
}

/// An address cannot be given to a Service or taken from it: it has to be made anew, which is said.
fn replace_service(
    name: &ClusterName,
    key: &ServiceKey,
    own: &OwnService,
    observed: &ServiceView,
) -> Write {
    let note = format!(
        "Service {key} of {name} is made anew: it was {} and is to be {}",
        observed.shape.kind, own.shape.kind
    );
    let announcement = Announcement {
        warning: true,
        reason: "ServiceRecreated".to_owned(),
        note,
    };
    Write {
        announcements: vec![announcement],
        ..delete_service(key, observed)
    }
}

fn copy_writes(wish: &MemberWish, member: &Member, hub: &str, key: &ServiceKey) -> Vec<Write> {
    let mut writes = Vec::new();
    for (name, wanted) in &wish.copies {
        let object = ObjectId::Slice(key.clone(), name.clone());
        match member.copy(key, name) {
            None => writes.push(Write::new(
                object,
                Action::CreateSlice(wanted.slice.clone().into()),
            )),
            // A copy that is on its way out is made anew once it is seen gone.
            Some(known) if known.deleted => {}
            Some(known) if &*known.view.hub != hub || !needs_update(wanted, &known.view) => {}
            Some(known) => writes.push(Write::new(
                object,
                Action::ReplaceSlice(update(wanted, &known.view).into()),
            )),
        }
    }
    writes
}

/// Older never replaces newer: where the copy was made from a later version of the source, this index is behind.
fn needs_update(wanted: &WantedCopy, observed: &CopiedSlice) -> bool {
    let behind = observed
        .source
        .as_ref()
        .is_some_and(|source| source.is_newer_than(&wanted.source));
    wanted.content != observed.content && !behind
}

fn update(
    wanted: &WantedCopy,
    observed: &CopiedSlice,
) -> k8s_openapi::api::discovery::v1::EndpointSlice {
    let mut slice = wanted.slice.clone();
    slice.metadata.uid = Some(observed.uid.to_string());
    slice.metadata.resource_version = Some(observed.resource_version.to_string());
    slice
}

fn delete_service(key: &ServiceKey, service: &ServiceView) -> Write {
    Write::new(
        ObjectId::Service(key.clone()),
        delete(&service.uid, &service.resource_version),
    )
}

fn delete_copy(key: &ServiceKey, name: &Arc<str>, copy: &CopiedSlice) -> Write {
    Write::new(
        ObjectId::Slice(key.clone(), name.clone()),
        delete(&copy.uid, &copy.resource_version),
    )
}

fn delete(uid: &str, resource_version: &str) -> Action {
    Action::Delete {
        uid: uid.into(),
        resource_version: resource_version.into(),
    }
}

fn create_namespace(name: &Arc<str>) -> Write {
    let metadata = ObjectMeta {
        name: Some(name.to_string()),
        labels: Some([(labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    Write::new(
        ObjectId::Namespace(name.clone()),
        Action::CreateNamespace(namespace.into()),
    )
}

#[cfg(test)]
mod tests;
