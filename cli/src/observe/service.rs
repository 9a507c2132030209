//! Stored objects of one service on the hub and in the members.
//!
//! Explanations, previews and moves read them. The engine takes them as complete lists
//! ([`Snapshot::lists`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use causeway::api::condition;
use causeway::api::multicluster::Version;
use causeway::api::{Cluster, MultiClusterService, labels, ownership};
use causeway::domain::{self, ClusterName, ServiceKey, imported_by};
use causeway_engine::lists::{HubLists, MemberLists, Members, NameLists};
use causeway_engine::model::served::{ImportFields, Served, ServedImports};
use causeway_engine::model::{Failure, FailureKind, HubNamespace, ServiceWork, TimePoint};
use causeway_engine::reasons::Reason;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt as _};

use super::connect::ConnectError;
use crate::cluster::conditions::Conditions as _;
use crate::cluster::karmada::binding::Unapplied;
use crate::cluster::karmada::{self, Work};

/// Objects of a service in all clusters.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Key of the service.
    pub key: ServiceKey,
    /// UID of the hub's namespace kube-system. `None` if the user may not read it.
    pub hub_uid: Option<String>,
    pub mcs: Option<MultiClusterService>,
    /// Service on the hub.
    pub service: Option<Service>,
    /// Service that Karmada derives on the hub for an import.
    pub derived: Option<Service>,
    /// Keys of the ServiceImports on the hub.
    pub imports: HubImports,
    /// Namespace of the service on the hub.
    pub namespaces: HubNamespaces,
    pub clusters: Arc<Vec<Cluster>>,
    /// Karmada's Works of the service. `None` if the user may not list them.
    pub works: Option<Vec<Work>>,
    /// Failure of Karmada's own propagation of the Service.
    pub unapplied: Option<Unapplied>,
    /// DNSEndpoints of the hub, and other services that request names.
    pub names: NameLists,
    /// Objects of the service in each member, or the error of the read.
    pub members: BTreeMap<String, Result<Held, ConnectError>>,
}

/// Namespaces of the hub, or the reason that the user may not read them.
pub(crate) type HubNamespaces = Result<Vec<HubNamespace>, String>;

/// Keys of the ServiceImports of the hub, or the reason that the user may not list them.
pub(crate) type HubImports = Result<Vec<ServiceKey>, String>;

/// Objects of the clusterset in each member, or the error of the read, by name of the member.
pub(crate) type Readings = BTreeMap<String, Result<Held, ConnectError>>;

/// Objects in a member in the form of the engine: the Service, the derived Service and the
/// companion, with the slices of the first two.
pub(crate) type Held = MemberLists;

/// Objects of one service in a member, as they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberRead {
    pub held: Held,
    /// Refusal of the list of exports or imports. The lists that were refused are empty.
    pub clusterset_unread: Option<ConnectError>,
}

/// Reads of members, or the error of the read, by name of the member.
pub(super) type MemberReads = BTreeMap<String, Result<MemberRead, ConnectError>>;

impl Snapshot {
    /// Adds the objects of the members. A member with a refused list of exports or imports counts
    /// as not read if the service is in the clusterset, or if the hub has no MultiClusterService:
    /// the unread export may then be the only exposure.
    pub(super) fn with_members(mut self, read: MemberReads) -> Self {
        let mut lists = read.values().flatten().map(|member| &member.held);
        let in_clusterset = self.mcs.is_none()
            || self.imports.iter().any(|all| !all.is_empty())
            || lists.any(|held| self.is_in_clusterset(held));
        let members = read.into_iter().map(|(name, read)| {
            let held = read.and_then(|member| match member.clusterset_unread {
                Some(why) if in_clusterset => Err(why),
                _ => Ok(member.held),
            });
            (name, held)
        });
        self.members = members.collect();
        self
    }

    /// Whether a member exports the service, or has a ServiceImport or a derived Service that
    /// causeway wrote.
    fn is_in_clusterset(&self, held: &Held) -> bool {
        let derived = held.service(&self.key.derived().name);
        !held.exports.is_empty()
            || held.imports.iter().any(|import| self.is_ours(import))
            || derived.is_some_and(|service| self.is_ours(service))
    }

    /// Returns the Cluster of that name.
    pub(crate) fn cluster(&self, name: &str) -> Option<&Cluster> {
        let mut clusters = self.clusters.iter();
        clusters.find(|cluster| cluster.name_any() == name)
    }

    /// Returns the valid MultiClusterService.
    pub(crate) fn desired(&self) -> Option<domain::MultiClusterService> {
        domain::MultiClusterService::try_from(self.mcs.as_ref()?).ok()
    }

    /// Returns the controller's report on the MultiClusterService: `Reason (message)`.
    pub(crate) fn reported(&self) -> Option<String> {
        let ready = self.mcs.as_ref()?.condition(condition::READY)?;
        Some(format!("{} ({})", ready.reason, ready.message))
    }

    /// Returns complete lists for the engine.
    pub(crate) fn lists(&self) -> (HubLists, Members) {
        let members = self.members.iter().filter_map(|(name, held)| {
            let name = ClusterName::try_from(name.as_str()).ok()?;
            let lists = held.clone();
            let lists = lists.map_err(|why| Failure::new(FailureKind::Other, why.to_string()));
            Some((name, lists))
        });
        (self.hub_lists(), members.collect())
    }

    /// Returns complete lists of the hub. An unknown hub UID is taken from causeway's objects in
    /// the members. Unreadable Works are inferred from the controller's conditions.
    fn hub_lists(&self) -> HubLists {
        let works = match &self.works {
            Some(works) => works.iter().map(of_work).collect(),
            None => self.reported_work().into_iter().collect(),
        };
        HubLists {
            uid: self
                .hub_uid
                .clone()
                .or_else(|| self.any_hub())
                .unwrap_or_default(),
            multi_cluster_services: self.mcs.iter().cloned().collect(),
            services: self.service.iter().chain(&self.derived).cloned().collect(),
            clusters: self.clusters.clone(),
            works: Some(works),
            imports: self.imports.clone().map_err(forbidden),
            namespaces: self.namespaces.clone().map_err(forbidden),
            names: self.names.clone(),
        }
    }

    /// Returns the reason that annotations of the MultiClusterService are unknown: the user may not
    /// read its Namespace, which may have defaults.
    pub(crate) fn unread_defaults(&self) -> Option<String> {
        let lists = self.hub_lists();
        let why = lists.unread_defaults(&self.key)?;
        Some(format!("{}: {why}", Reason::NamespaceNotRead))
    }

    /// Returns a placeholder for unreadable Works if the controller reports that Karmada manages
    /// the service.
    fn reported_work(&self) -> Option<ServiceWork> {
        let reported = self.reported()?;
        reported
            .starts_with(Reason::ManagedByKarmada.as_str())
            .then(|| ServiceWork {
                id: "which you may not list".into(),
                service: Some(self.key.clone()),
            })
    }

    /// Returns the UID of a hub that is recorded in the Services of a member.
    fn any_hub(&self) -> Option<String> {
        let read = self.members.values().flatten();
        let services = read.flat_map(|held| &held.services);
        let mut hubs = services.filter_map(|service| ownership::managing_hub(&service.metadata));
        hubs.next().map(ToOwned::to_owned)
    }

    /// Returns the command by which causeway takes the service over.
    pub(crate) fn adopt(&self) -> String {
        format!(
            "kubectl mcs adopt {} -n {}",
            self.key.name, self.key.namespace
        )
    }

    /// Returns the slices of a provider that Karmada dispatched into a member.
    pub(crate) fn dispatched<'a>(
        &'a self,
        held: &'a Held,
        provider: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        let slices = held.slices_of(&self.key.name);
        slices.filter(move |slice| {
            let from = slice.annotations().get(labels::PROVISION_CLUSTER);
            karmada::is_dispatched(slice) && from.is_some_and(|from| from == provider)
        })
    }

    /// Whether causeway wrote the object for this hub. Without a known hub UID, every hub counts.
    pub(crate) fn is_ours<K: Resource>(&self, object: &K) -> bool {
        let hub = ownership::managing_hub(object.meta());
        hub.is_some_and(|hub| self.hub_uid.as_ref().is_none_or(|own| own == hub))
    }

    /// Returns the copies of `service` from `provider` in a member.
    pub(crate) fn copies<'a>(
        &'a self,
        held: &'a Held,
        service: &'a str,
        provider: &'a str,
    ) -> impl Iterator<Item = &'a EndpointSlice> {
        held.slices_of(service).filter(move |slice| {
            is_copy(slice)
                && self.is_ours(*slice)
                && ownership::source_member(slice.meta()) == Some(provider)
        })
    }
}

fn forbidden(why: String) -> Failure {
    Failure::new(FailureKind::Forbidden, why)
}

fn of_work(work: &Work) -> ServiceWork {
    ServiceWork {
        id: work.id().into(),
        service: work.manages_service().then(|| work.service()).flatten(),
    }
}

/// Lookup of a Service and its slices among the objects of a member.
pub(crate) trait OfService {
    /// Returns the Service of that name.
    fn service(&self, name: &str) -> Option<&Service>;

    /// Returns the slices of the Service of that name.
    fn slices_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a EndpointSlice>;

    /// Returns the slices with the cluster's own endpoints of the Service of that name.
    fn sources<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices_of(service).filter(|slice| is_source(slice))
    }
}

impl OfService for MemberLists {
    fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|one| one.name_any() == name)
    }

    fn slices_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a EndpointSlice> {
        self.slices.iter().filter(move |slice| {
            slice.labels().get(labels::SERVICE_NAME).map(String::as_str) == Some(service)
        })
    }
}

/// Returns the clusterset's API of a member that serves its kinds in these versions. The command
/// does not read the definitions, and assumes all fields of ServiceImports.
pub(super) fn served(exports: Option<Version>, imports: Option<Version>) -> Served {
    Served {
        exports,
        export_clusters: false,
        imports: imports.map(|version| ServedImports {
            version,
            fields: ImportFields::ALL,
        }),
    }
}

/// Returns the key of the service with the name of a stored object.
pub(crate) fn key_of(object: &impl kube::ResourceExt) -> ServiceKey {
    ServiceKey::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns the current time of both clocks.
pub(crate) fn now() -> TimePoint {
    TimePoint {
        instant: Instant::now(),
        wall: Timestamp::now(),
    }
}

/// Whether an endpoint is ready. An endpoint without the condition is ready.
pub(crate) fn is_ready(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|all| all.ready).unwrap_or(true)
}

/// Whether a slice has an endpoint with equal addresses.
pub(crate) fn has(slice: &EndpointSlice, endpoint: &Endpoint) -> bool {
    let mut all = slice.endpoints.iter();
    all.any(|one| one.addresses == endpoint.addresses)
}

/// Whether the slice has endpoints of its own cluster: no multi-cluster controller imported it.
pub(crate) fn is_source(slice: &EndpointSlice) -> bool {
    fn value<'a>(all: &'a BTreeMap<String, String>) -> impl Fn(&str) -> Option<&'a str> {
        move |name| all.get(name).map(String::as_str)
    }
    imported_by(value(slice.labels()), value(slice.annotations())).is_none()
}

/// Whether the label of the managing controller marks the slice as a copy.
pub(crate) fn is_copy(slice: &EndpointSlice) -> bool {
    let manager = slice.labels().get(labels::SLICE_MANAGED_BY);
    manager.is_some_and(|manager| manager == labels::SLICE_DISPATCHER)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{export, import};
    use crate::observe::fixtures::healthy;

    /// Changes to what member a holds, and to the snapshot; and whether member b counts as read.
    type Case = (fn(&mut Held), fn(&mut Snapshot), bool);

    #[test]
    fn refused_exports_hide_a_member_only_of_a_service_in_the_clusterset() {
        let exported = |held: &mut Held| held.exports.push(export("foo", json!([])));
        let imported = |held: &mut Held| held.imports.push(import("foo", &[], &["a"]));
        let foreign = |held: &mut Held| {
            let mut import = import("foo", &[], &["a"]);
            import.metadata.labels = None;
            held.imports.push(import);
        };
        let unchanged = |_: &mut Held| {};
        let of_hub = |snapshot: &mut Snapshot| snapshot.imports = Ok(vec![snapshot.key.clone()]);
        let unexposed = |snapshot: &mut Snapshot| snapshot.mcs = None;
        let same = |_: &mut Snapshot| {};
        let cases: [Case; 6] = [
            (unchanged, same, true),
            (foreign, same, true),
            (exported, same, false),
            (imported, same, false),
            (unchanged, of_hub, false),
            (unchanged, unexposed, false),
        ];
        for (case, (change_a, change, is_read)) in cases.into_iter().enumerate() {
            let mut snapshot = healthy();
            change_a(snapshot.member("a"));
            change(&mut snapshot);
            let why = ConnectError::NotAllowed("serviceexports is forbidden".to_owned());
            let members = std::mem::take(&mut snapshot.members).into_iter();
            let members = members.map(|(name, held)| {
                let read = held.map(|held| MemberRead {
                    held,
                    clusterset_unread: (name == "b").then(|| why.clone()),
                });
                (name, read)
            });
            let read = members.collect();
            let snapshot = snapshot.with_members(read);
            assert!(snapshot.members["a"].is_ok(), "case {case}");
            let hidden = snapshot.members["b"].as_ref().err();
            assert_eq!(hidden, Some(&why).filter(|_| !is_read), "case {case}");
        }
    }
}
