//! Complete lists of the objects that the hub and the members hold of some services, and the index
//! of a process that has read them.

mod reported;

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, DNSEndpoint, MultiClusterService, labels, ownership};
use causeway::domain::path::PathLease;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::model::object::key_of;
use crate::model::served::Served;
use crate::model::slice::ObservedSlice;
use crate::model::{
    Failure, HubEvent, HubImport, HubNamespace, Identity, MemberEvent, ObservedNode, ServiceWork,
    Signal, TimePoint,
};
use crate::observed::Index;
use crate::observed::hub::ClusterView;

/// Objects on the hub.
#[derive(Clone, Debug)]
pub struct HubLists {
    /// UID of its kube-system namespace.
    pub uid: String,
    /// MultiClusterServices.
    pub multi_cluster_services: Vec<MultiClusterService>,
    /// Services of the names of these, and those that Karmada derives for imports.
    pub services: Vec<Service>,
    /// All Clusters, shared between callers.
    pub clusters: Arc<Vec<Cluster>>,
    /// Karmada's Works of these services; `None` if the hub does not serve the kind.
    pub works: Option<Vec<ServiceWork>>,
    /// ServiceImports on the hub itself, or the reason why they could not be read.
    pub imports: Result<Vec<ServiceKey>, Failure>,
    /// Namespaces of these MultiClusterServices, or the reason why they could not be read.
    pub namespaces: Result<Vec<HubNamespace>, Failure>,
    /// Names in DNS.
    pub names: NameLists,
}

impl HubLists {
    /// Returns the reason why annotations of a MultiClusterService are unknown: its Namespace,
    /// which may have defaults for those that it lacks, could not be read.
    pub fn unread_defaults(&self, key: &ServiceKey) -> Option<&Failure> {
        let mut services = self.multi_cluster_services.iter();
        let service = services.find(|one| key_of(&one.metadata).as_ref() == Some(key))?;
        let has = |name: &&str| {
            let annotations = service.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(*name))
        };
        let failure = self.namespaces.as_ref().err();
        failure.filter(|_| !labels::OF_SERVICES.iter().all(has))
    }

    /// Returns the reason why it is unknown whether Karmada imports an exported service: its
    /// ServiceImports on the hub could not be read, and the hub has the Service that Karmada
    /// derives for one.
    pub fn unread_import(&self, key: &ServiceKey) -> Option<&Failure> {
        let derived = key.derived();
        let is_derived = |service: &Service| {
            let meta = &service.metadata;
            key_of(meta).as_ref() == Some(&derived) && ownership::managing_hub(meta).is_none()
        };
        let failure = self.imports.as_ref().err();
        failure.filter(|_| self.services.iter().any(is_derived))
    }
}

/// DNSEndpoints on the hub, which publish names in DNS.
#[derive(Clone, Debug, Default)]
pub enum NameLists {
    /// The caller does not read them. No state of a name is reported.
    #[default]
    NotRead,
    /// The hub serves no DNSEndpoints.
    NotServed,
    /// They, or the services that request the same names, cannot be read.
    Unreadable(Failure),
    /// They were read.
    Listed {
        /// DNSEndpoints of the services, and all others that causeway wrote.
        endpoints: Vec<DNSEndpoint>,
        /// Other MultiClusterServices, which may request the same names.
        rivals: Vec<MultiClusterService>,
    },
}

/// Objects in a member, of the services in question.
#[derive(Clone, Debug, Default)]
pub struct MemberLists {
    /// Identity of the member.
    pub identity: Identity,
    /// Versions and fields of the Multi-Cluster Services API that it serves.
    pub served: Served,
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Services, including the derived ones and the companions.
    pub services: Vec<Service>,
    /// EndpointSlices, sources and copies.
    pub slices: Vec<EndpointSlice>,
    /// ServiceExports.
    pub exports: Vec<ServiceExport>,
    /// ServiceImports.
    pub imports: Vec<ServiceImport>,
    /// Nodes, or the reason why they could not be read; `None` if they were not read.
    pub nodes: Option<Result<Vec<Node>, Failure>>,
    /// Reports of causeway-agent on paths to other clusters.
    pub paths: Vec<PathLease>,
}

/// Lists of all members by name, or the reason why a member could not be read.
pub type Members = BTreeMap<ClusterName, Result<MemberLists, Failure>>;

/// Returns the members whose Nodes are needed to plan with these lists.
pub fn need_nodes(hub: &HubLists, members: &Members, now: TimePoint) -> Vec<ClusterName> {
    let index = Index::of_lists(hub, members, now);
    let names = members.keys().filter(|name| index.needs_nodes(name));
    names.cloned().collect()
}

impl Index {
    /// Returns the index of a process that has read these lists twice, so that objects that they
    /// lack are deleted. State that only the controller has is taken from the conditions and copies
    /// that it writes.
    pub(crate) fn of_lists(hub: &HubLists, members: &Members, now: TimePoint) -> Self {
        let mut index = Self::new(&hub.uid);
        for event in hub_events(hub) {
            index.apply_hub(event, now);
        }
        let ids = hub.clusters.iter().filter_map(|cluster| {
            let id = cluster.spec.id.clone().filter(|id| !id.is_empty())?;
            Some((cluster.metadata.name.as_deref()?, id))
        });
        let ids: BTreeMap<_, _> = ids.collect();
        for (name, member) in members {
            let ttl_expired = index.reports_expired_ttl(name);
            let recorded_uid = ids.get(name.as_str()).cloned();
            index.engage_listed(name, recorded_uid, ttl_expired);
            match member {
                Ok(lists) => {
                    for event in member_events(lists.clone()) {
                        index.apply_member(name, event, now);
                    }
                }
                Err(failure) => index.lose(name, failure.clone(), now),
            }
        }
        index.apply_copied_addresses(members);
        index
    }

    /// Applies the outages that the controller reports of members that the caller has read.
    pub(crate) fn apply_reported_outages(&mut self, members: &Members, now: TimePoint) {
        for (name, _) in members.iter().filter(|(_, member)| member.is_ok()) {
            let cluster = self.cluster(name);
            if cluster.and_then(ClusterView::recorded_outage).is_some() {
                self.lose(name, Failure::timeout(), now);
            }
        }
    }

    /// Applies a failed probe, which lasts since the outage that the controller reports.
    fn lose(&mut self, name: &ClusterName, failure: Failure, now: TimePoint) {
        let outage = self.cluster(name).and_then(ClusterView::recorded_outage);
        let since = outage.map_or(now, |since| now.back_to_wall(since));
        self.apply_member(name, MemberEvent::Probed(Err(failure)), since);
    }
}

fn hub_events(hub: &HubLists) -> Vec<HubEvent> {
    let works = hub.works.clone();
    let served = works.is_some();
    let mut events = vec![
        HubEvent::WorksServed(served),
        HubEvent::ImportsServed(served),
    ];
    if let Some(works) = works {
        let imports = hub
            .imports
            .iter()
            .flatten()
            .cloned()
            .map(|key| HubImport(Some(key)))
            .collect();
        events.push(HubEvent::Works(Signal::Listed(works)));
        events.push(HubEvent::Imports(Signal::Listed(imports)));
    }
    let mut services = hub.multi_cluster_services.clone();
    match &hub.names {
        NameLists::NotRead => {}
        NameLists::NotServed => events.push(HubEvent::DnsEndpointsServed(false)),
        NameLists::Unreadable(failure) => events.extend([
            HubEvent::DnsEndpointsServed(true),
            HubEvent::DnsEndpoints(Signal::Failed(failure.clone())),
        ]),
        NameLists::Listed { endpoints, rivals } => {
            events.extend([
                HubEvent::DnsEndpointsServed(true),
                HubEvent::DnsEndpoints(Signal::Listed(endpoints.clone())),
            ]);
            services.extend(rivals.iter().cloned());
        }
    }
    events.extend([
        HubEvent::Services(Signal::Listed(hub.services.clone())),
        HubEvent::Services(Signal::Confirmed),
        HubEvent::Clusters(Signal::Listed(hub.clusters.to_vec())),
        HubEvent::Clusters(Signal::Confirmed),
        HubEvent::Namespaces(Signal::Listed(hub.namespaces.clone().unwrap_or_default())),
        HubEvent::Namespaces(Signal::Confirmed),
        HubEvent::MultiClusterServices(Signal::Listed(services)),
        HubEvent::MultiClusterServices(Signal::Confirmed),
    ]);
    events
}

fn member_events(lists: MemberLists) -> Vec<MemberEvent> {
    let slices = lists.slices.iter().map(ObservedSlice::read).collect();
    let nodes = lists.nodes.map(|nodes| match nodes {
        Ok(nodes) => Signal::Listed(nodes.into_iter().map(ObservedNode::read).collect()),
        Err(failure) => Signal::Failed(failure),
    });
    let mut events = vec![
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
    ];
    // Whether they are needed depends on exports too.
    events.extend(nodes.map(MemberEvent::Nodes));
    let paths = lists.paths.into_iter().map(Some).collect();
    events.push(MemberEvent::Paths(Signal::Listed(paths)));
    events
}
