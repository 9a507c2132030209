//! What the clusters would come to hold: complete lists go into an index, the plan's writes are carried out on the lists, and
//! so on until nothing is left to be written. No API server is involved.

use std::collections::BTreeMap;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::diff::{Moment, diff};
use crate::index::Index;
use crate::index::member::Member;
use crate::model::served::Served;
use crate::model::slice::ObservedSlice;
use crate::model::{
    Failure, HubEvent, Identity, Lane, MemberEvent, Operation, ServiceWork, Signal, TimePoint,
};
use crate::plan::{Settings, plan};

/// How often writes lead to more writes: a namespace, then a Service, then its copies, then what is withdrawn for them.
const ROUNDS: usize = 10;

/// What the hub holds.
#[derive(Clone, Debug)]
pub struct HubLists {
    /// The UID of its kube-system namespace.
    pub uid: String,
    /// MultiClusterServices.
    pub multi_cluster_services: Vec<MultiClusterService>,
    /// The Services of their names.
    pub services: Vec<Service>,
    /// Every Cluster.
    pub clusters: Vec<Cluster>,
    /// Karmada's Works of these services; `None` where the hub serves none.
    pub works: Option<Vec<ServiceWork>>,
}

/// What a member holds, of the services that are looked at.
#[derive(Clone, Debug)]
pub struct MemberLists {
    /// Who it is.
    pub identity: Identity,
    /// What of the Multi-Cluster Services API it serves.
    pub served: Served,
    /// The Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Services, the derived ones too.
    pub services: Vec<Service>,
    /// EndpointSlices, sources and copies.
    pub slices: Vec<EndpointSlice>,
    /// ServiceExports.
    pub exports: Vec<ServiceExport>,
    /// ServiceImports.
    pub imports: Vec<ServiceImport>,
}

/// All members by name; one that could not be read with the reason.
pub type Members = BTreeMap<ClusterName, Result<MemberLists, Failure>>;

/// What the hub and the members would hold once the controller has nothing left to write for that service.
pub fn preview(
    mut hub: HubLists,
    mut members: Members,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
) -> (HubLists, Members) {
    hub.multi_cluster_services.iter_mut().for_each(identify);
    for _ in 0..ROUNDS {
        let index = Index::of_lists(&hub, &members, now);
        let desired = plan(&index, settings, key, now);
        let moment = Moment { now, busy: false };
        let mut changed = false;
        for (lane, writes) in diff(&desired, &index, key, moment).writes {
            for write in writes {
                changed |= match &lane {
                    Lane::Hub => hub.carry_out(write.operation()),
                    Lane::Member(name) => match members.get_mut(name) {
                        Some(Ok(member)) => member.carry_out(write.operation()),
                        _ => false,
                    },
                };
            }
        }
        if !changed {
            break;
        }
    }
    (hub, members)
}

impl Index {
    /// The index of a process that has read these lists, twice, so that what they lack is gone.
    pub fn of_lists(hub: &HubLists, members: &Members, now: TimePoint) -> Self {
        let mut index = Self::new(&hub.uid);
        let works = hub.works.clone();
        let mut events = vec![HubEvent::WorksServed(works.is_some())];
        events.extend(works.map(|works| HubEvent::Works(Signal::Listed(works))));
        events.extend([
            HubEvent::Services(Signal::Listed(hub.services.clone())),
            HubEvent::Services(Signal::Confirmed),
            HubEvent::Clusters(Signal::Listed(hub.clusters.clone())),
            HubEvent::Clusters(Signal::Confirmed),
            HubEvent::MultiClusterServices(Signal::Listed(hub.multi_cluster_services.clone())),
            HubEvent::MultiClusterServices(Signal::Confirmed),
        ]);
        for event in events {
            index.apply_hub(event, now);
        }
        for (name, member) in members {
            index.members.insert(name.clone(), Member::new(1));
            for event in member_events(member) {
                index.apply_member(name, event, now);
            }
            index.note_engagement(name);
        }
        index
    }
}

fn member_events(member: &Result<MemberLists, Failure>) -> Vec<MemberEvent> {
    let lists = match member {
        Err(failure) => return vec![MemberEvent::Probed(Err(failure.clone()))],
        Ok(lists) => lists.clone(),
    };
    let slices = lists.slices.iter().map(ObservedSlice::read).collect();
    vec![
        MemberEvent::Identified(lists.identity),
        MemberEvent::Served(lists.served),
        MemberEvent::Namespaces(Signal::Listed(lists.namespaces)),
        MemberEvent::Namespaces(Signal::Confirmed),
        MemberEvent::Services(Signal::Listed(lists.services)),
        MemberEvent::Services(Signal::Confirmed),
        MemberEvent::Slices(Signal::Listed(slices)),
        MemberEvent::Slices(Signal::Confirmed),
        MemberEvent::Exports(Signal::Listed(lists.exports)),
        MemberEvent::Exports(Signal::Confirmed),
        MemberEvent::Imports(Signal::Listed(lists.imports)),
        MemberEvent::Imports(Signal::Confirmed),
        MemberEvent::Namespaces(Signal::Connected),
        MemberEvent::Services(Signal::Connected),
        MemberEvent::Slices(Signal::Connected),
        MemberEvent::Exports(Signal::Connected),
        MemberEvent::Imports(Signal::Connected),
        MemberEvent::Probed(Ok(())),
    ]
}

impl HubLists {
    /// Carries out a write on the lists; whether that changed anything. Nothing but MultiClusterServices is written.
    fn carry_out(&mut self, operation: &Operation) -> bool {
        match operation {
            Operation::PatchMultiClusterService(key, patch) => {
                merge(&mut self.multi_cluster_services, &key.name, patch)
            }
            _ => false,
        }
    }
}

impl MemberLists {
    /// Carries out a write on the lists; whether that changed anything. What is said in a status is no object that clients use.
    fn carry_out(&mut self, operation: &Operation) -> bool {
        match operation {
            Operation::CreateNamespace(_, object) => create(&mut self.namespaces, object),
            Operation::CreateService(_, object) => create(&mut self.services, object),
            Operation::PatchService(key, patch) => merge(&mut self.services, &key.name, patch),
            Operation::DeleteService(key, _) => delete(&mut self.services, &key.name),
            Operation::CreateSlice(_, object) => create(&mut self.slices, object),
            Operation::ReplaceSlice(_, object) => replace(&mut self.slices, object),
            Operation::DeleteSlice(id, _) => delete(&mut self.slices, &id.name),
            Operation::CreateExport(_, _, object) => create(&mut self.exports, object),
            Operation::DeleteExport(_, key, _) => delete(&mut self.exports, &key.name),
            Operation::CreateImport(_, _, object) => create(&mut self.imports, object),
            Operation::PatchImport(_, key, patch) => merge(&mut self.imports, &key.name, patch),
            Operation::DeleteImport(_, key, _) => delete(&mut self.imports, &key.name),
            Operation::PatchExportStatus(..)
            | Operation::PatchImportStatus(..)
            | Operation::PatchMultiClusterService(..)
            | Operation::PatchMultiClusterServiceStatus(..)
            | Operation::PatchCluster(..)
            | Operation::PatchClusterStatus(..) => false,
        }
    }
}

/// The objects of one namespace, by name.
fn find<'a, K: Resource>(objects: &'a mut [K], name: &str) -> Option<&'a mut K> {
    let mut objects = objects.iter_mut();
    objects.find(|object| object.meta().name.as_deref() == Some(name))
}

fn create<K: Resource + Clone>(objects: &mut Vec<K>, object: &K) -> bool {
    let mut object = object.clone();
    let name = object.meta().name.clone().unwrap_or_default();
    if find(objects, &name).is_some() {
        return false;
    }
    identify(&mut object);
    objects.push(object);
    true
}

/// What an API server gives to each object, where it has not: that of a dry run has no version.
fn identify(object: &mut impl Resource) {
    let meta = object.meta_mut();
    let name = meta.name.clone().unwrap_or_default();
    meta.uid.get_or_insert_with(|| format!("uid-of-{name}"));
    meta.resource_version.get_or_insert_with(|| "1".to_owned());
}

fn replace<K: Resource + Clone + PartialEq>(objects: &mut [K], object: &K) -> bool {
    let mut object = object.clone();
    let name = object.meta().name.clone().unwrap_or_default();
    let Some(known) = find(objects, &name) else {
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

fn merge<K>(objects: &mut [K], name: &str, patch: &serde_json::Value) -> bool
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
