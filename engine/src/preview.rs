//! Preview of the objects in all clusters. An index is built from complete lists, the writes of the
//! plan are carried out on the lists, and this repeats until the plan has no writes. No API server
//! is involved.

use causeway::api::DNSEndpoint;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::diff::{Moment, diff, name_write};
use crate::lists::{HubLists, MemberLists, Members, NameLists};
use crate::messages::{Diagnosis, name};
use crate::model::object::key_of;
use crate::model::{ObjectId, Operation, TargetCluster, TimePoint, Write};
use crate::observed::Index;
use crate::plan::entry::{EntryUnknown, NoEntry};
use crate::plan::tiers::HOLD;
use crate::plan::{CopyCache, Desired, Settings, plan};
use crate::reasons::Reason;

/// Maximum number of rounds, as writes lead to more writes: a namespace, then a Service, then its
/// copies, then the deletions that follow.
const ROUNDS: usize = 10;

/// Node port in a preview which the cluster chooses once the Service exists.
pub const CHOSEN_LATER: i32 = -1;

/// Objects in the members once the controller has nothing left to write for a service.
#[derive(Debug)]
pub struct Preview {
    /// Objects by member.
    pub members: Members,
    /// DNSEndpoints on the hub.
    pub names: NameLists,
    /// Names that ExternalDNS would not get, or not with all clusters, with the reason.
    pub unpublished: Vec<Diagnosis>,
    /// Providers whose endpoints a consumer of another network does not get.
    pub unreached: Vec<Unreached>,
}

/// Provider whose endpoints a consumer of another network does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// The consumer.
    pub consumer: ClusterName,
    /// The provider.
    pub provider: ClusterName,
    /// The reason, in words.
    pub message: String,
    /// What a person can do about it.
    pub remedy: String,
    /// Whether the consumer may get endpoints without another change.
    pub is_pending: bool,
    /// Whether the reason is that Nodes of the provider were not read.
    pub is_unread: bool,
}

/// Returns the objects that the members would hold once the controller has nothing left to write
/// for that service. A node port that the cluster has still to choose is [`CHOSEN_LATER`].
pub fn preview(
    mut hub: HubLists,
    mut members: Members,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
) -> Preview {
    let (mut unreached, mut unpublished) = (Vec::new(), Vec::new());
    hub.multi_cluster_services.iter_mut().for_each(identify);
    let mut cache = CopyCache::default();
    for _ in 0..ROUNDS {
        let mut index = Index::of_lists(&hub, &members, now);
        // What is given up only after a while is given up too.
        let desired = plan(&index, settings, key, now, &mut cache);
        let changes = desired.possible_changes();
        index.possible_changes.note(key, changes, now);
        let now = now.after(HOLD);
        let desired = plan(&index, settings, key, now, &mut cache);
        unreached = unreached_in(&desired, key);
        unpublished = unpublished_in(&desired, &index, key);
        let moment = Moment { now, busy: false };
        let mut changed = false;
        if let Some(write) = name_write(&desired, &index, key) {
            changed |= hub.names.carry_out(key, &write);
        }
        for (cluster, writes) in diff(&desired, &index, key, moment).writes {
            for write in writes {
                changed |= match &cluster {
                    TargetCluster::Hub => hub.carry_out(&write),
                    TargetCluster::Member(name) => match members.get_mut(name) {
                        Some(Ok(member)) => member.carry_out(&write),
                        _ => false,
                    },
                };
            }
        }
        if !changed {
            break;
        }
    }
    Preview {
        members,
        names: hub.names,
        unpublished,
        unreached,
    }
}

/// Lists the names that ExternalDNS would not get, or not with all clusters, although DNSEndpoints
/// were read.
fn unpublished_in(desired: &Desired, index: &Index, key: &ServiceKey) -> Vec<Diagnosis> {
    let unpublished = [Reason::NameNotPublished, Reason::NoRoutingValue];
    let mut all = name::diagnoses(index, key, &desired.name);
    all.retain(|one| unpublished.contains(&one.reason));
    all
}

fn unreached_in(desired: &Desired, key: &ServiceKey) -> Vec<Unreached> {
    let copies = desired.each_copies();
    let unreached = copies.flat_map(|(_, consumer, copies)| {
        // A provider that has no endpoint yet counts too.
        let unreached = copies.not_entered();
        unreached.map(move |(provider, why)| {
            let (message, remedy) = why.words(key, provider);
            Unreached {
                consumer: consumer.clone(),
                provider: provider.clone(),
                message,
                remedy,
                is_pending: matches!(why, NoEntry::Unknown(_)),
                is_unread: matches!(
                    why,
                    NoEntry::Unknown(EntryUnknown::Nodes(_) | EntryUnknown::Node(_))
                ),
            }
        })
    });
    unreached.collect()
}

impl HubLists {
    /// Carries out a write on the lists. Returns whether it changed anything. Only
    /// MultiClusterServices are written.
    fn carry_out(&mut self, write: &Write) -> bool {
        matches!(write.object(), ObjectId::MultiClusterService(_))
            && carry_out(&mut self.multi_cluster_services, write)
    }
}

impl NameLists {
    /// Carries out the write of the DNSEndpoint of a service on the lists. Returns whether it
    /// changed anything.
    fn carry_out(&mut self, key: &ServiceKey, write: &Write) -> bool {
        let Self::Listed { endpoints, .. } = self else {
            return false;
        };
        let is_own = |one: &DNSEndpoint| key_of(&one.metadata).as_ref() == Some(key);
        let mut own: Vec<_> = endpoints.extract_if(.., |one| is_own(one)).collect();
        let changed = carry_out(&mut own, write);
        endpoints.extend(own);
        changed
    }
}

impl MemberLists {
    /// Carries out a write on the lists. Returns whether it changed anything. Statuses are not
    /// written: clients do not use them.
    fn carry_out(&mut self, write: &Write) -> bool {
        match write.object() {
            ObjectId::Namespace(_) => carry_out(&mut self.namespaces, write),
            ObjectId::Service(key) => {
                let changed = carry_out(&mut self.services, write);
                if let Some(service) = find(&mut self.services, &key.name) {
                    add_node_ports(service);
                }
                changed
            }
            ObjectId::Slice(_) => carry_out(&mut self.slices, write),
            ObjectId::ServiceExport(..) => carry_out(&mut self.exports, write),
            ObjectId::ServiceImport(..) => carry_out(&mut self.imports, write),
            ObjectId::ServiceExportStatus(..)
            | ObjectId::ServiceImportStatus(..)
            | ObjectId::MultiClusterService(_)
            | ObjectId::MultiClusterServiceStatus(_)
            | ObjectId::DnsEndpoint(_)
            | ObjectId::Cluster(_)
            | ObjectId::ClusterStatus(_) => false,
        }
    }
}

/// Sets each node port that the API server has still to assign to [`CHOSEN_LATER`].
fn add_node_ports(service: &mut Service) {
    let types = [Some("NodePort"), Some("LoadBalancer")];
    if let Some(spec) = &mut service.spec
        && types.contains(&spec.type_.as_deref())
    {
        for port in spec.ports.iter_mut().flatten() {
            port.node_port.get_or_insert(CHOSEN_LATER);
        }
    }
}

/// Carries out a write on the objects of its kind. Returns whether it changed anything.
fn carry_out<K>(objects: &mut Vec<K>, write: &Write) -> bool
where
    K: Resource + PartialEq + Serialize + DeserializeOwned,
{
    let name = write.object().name();
    match write.operation() {
        Operation::Create(manifest) => create(objects, name, manifest.clone()),
        Operation::CreateSlice(slice, _) => create(objects, name, json!(slice)),
        Operation::ReplaceSlice(slice, _) => replace(objects, name, json!(slice)),
        Operation::Patch(patch) => merge(objects, name, patch),
        Operation::Delete(_) | Operation::DeleteResidue(..) => delete(objects, name),
    }
}

/// Returns the object of that name. All `objects` are of one namespace.
fn find<'a, K: Resource>(objects: &'a mut [K], name: &str) -> Option<&'a mut K> {
    let mut objects = objects.iter_mut();
    objects.find(|object| object.meta().name.as_deref() == Some(name))
}

fn create<K: Resource + DeserializeOwned>(
    objects: &mut Vec<K>,
    name: &str,
    manifest: Value,
) -> bool {
    let decoded = serde_json::from_value::<K>(manifest);
    let (None, Ok(mut object)) = (find(objects, name), decoded) else {
        return false;
    };
    identify(&mut object);
    objects.push(object);
    true
}

/// Sets the UID and the resourceVersion that an API server assigns, if they are missing: an object
/// of a dry run has no version.
fn identify(object: &mut impl Resource) {
    let meta = object.meta_mut();
    let name = meta.name.clone().unwrap_or_default();
    meta.uid.get_or_insert_with(|| format!("uid-of-{name}"));
    meta.resource_version.get_or_insert_with(|| "1".to_owned());
}

fn replace<K>(objects: &mut [K], name: &str, manifest: Value) -> bool
where
    K: Resource + PartialEq + DeserializeOwned,
{
    let decoded = serde_json::from_value::<K>(manifest);
    let (Some(known), Ok(mut object)) = (find(objects, name), decoded) else {
        return false;
    };
    let kept = known.meta().clone();
    let meta = object.meta_mut();
    meta.creation_timestamp = kept.creation_timestamp;
    meta.generation = kept.generation;
    meta.managed_fields = kept.managed_fields;
    let changed = *known != object;
    *known = object;
    changed
}

fn merge<K>(objects: &mut [K], name: &str, patch: &Value) -> bool
where
    K: Resource + PartialEq + Serialize + DeserializeOwned,
{
    let Some(known) = find(objects, name) else {
        return false;
    };
    let merged = serde_json::to_value(&*known).and_then(|mut value| {
        json_patch::merge(&mut value, patch);
        serde_json::from_value::<K>(value)
    });
    match merged {
        Ok(merged) if merged != *known => {
            *known = merged;
            true
        }
        _ => false,
    }
}

fn delete<K: Resource>(objects: &mut Vec<K>, name: &str) -> bool {
    let before = objects.len();
    objects.retain(|object| object.meta().name.as_deref() != Some(name));
    objects.len() < before
}

#[cfg(test)]
mod tests;
