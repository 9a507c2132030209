//! Observed state of a Cluster object.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::condition::{FALSE, READY, find};
use causeway::api::{self, bounds, labels};
use causeway::domain::{Declared, Network, is_routing_value};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use crate::model::{REGION_PROPERTY, TimePoint};
use crate::observed::finalizers::Finalizers;
use crate::observed::reach::DeclaredReach;
use crate::reasons::Reason;

/// A Cluster as it is stored.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// UID of its kube-system namespace, as `kubectl mcs join` or the controller records it.
    pub id: Option<Box<str>>,
    /// Its UID.
    pub uid: Box<str>,
    /// Its resourceVersion, which writes send back unchanged.
    pub resource_version: Box<str>,
    /// Its generation.
    pub generation: i64,
    /// Creation time. Of two Clusters that are the same cluster, the older one counts.
    pub created: Option<Timestamp>,
    /// Whether causeway serves it.
    pub takes_part: bool,
    /// Whether it is reached by causeway-tunnel ([`labels::TUNNEL`]).
    pub(crate) is_tunnelled: bool,
    /// Whether its agent gives the credentials ([`labels::CREDENTIALS`]).
    pub(crate) has_agent_credentials: bool,
    /// Whether the use of its endpoints and exports is stopped ([`labels::WITHDRAW`]).
    pub withdrawn: bool,
    /// Time at which a person confirmed the deletions that were suspended by then
    /// ([`labels::CONFIRM_DELETIONS`]).
    pub(crate) deletions_confirmed: Option<Timestamp>,
    /// Namespaces from which it may export ([`labels::EXPORT_NAMESPACES`]); `None` for all.
    pub(crate) export_namespaces: Option<BTreeSet<Box<str>>>,
    /// Whether causeway creates missing namespaces of exported services in it
    /// ([`labels::CREATE_EXPORTED_NAMESPACES`]).
    pub(crate) creates_namespaces: bool,
    /// Ranges of its endpoints' addresses ([`labels::ENDPOINT_CIDRS`]).
    pub declared: Declared,
    /// Network of its pods ([`labels::NETWORK`]).
    pub network: Network,
    /// Way by which clusters of other networks reach its pods ([`labels::REACH`]).
    pub reach: Option<DeclaredReach>,
    /// Whether causeway-agent reports the paths from it ([`labels::PATH_REPORTS`]).
    pub(crate) reports_paths: bool,
    /// EndpointSlices that are watched in it ([`labels::WATCH`]).
    pub(crate) watch: DeclaredWatch,
    /// Id of the member in its clusterset, as the controller recorded it ([`labels::CLUSTER_ID`]).
    pub(crate) cluster_id: Option<Box<str>>,
    /// Its labels, which are properties of it beside its name and region.
    labels: BTreeMap<String, String>,
    /// Spec as its ClusterProfile made it, if it was made of one.
    made_of_profile: Option<Box<api::ClusterSpec>>,
    /// Its region, if it has one.
    pub region: Option<Box<str>>,
    /// Value by which DNS routes clients to it ([`labels::HOSTNAME_ROUTING_VALUE`], otherwise its
    /// region); `None` without a usable one.
    pub(crate) routing_value: Option<Box<str>>,
    /// Its zones.
    pub zones: BTreeSet<Box<str>>,
    /// Whether its data plane uses standby endpoints: true unless [`labels::STANDBY`] is `false`.
    pub(crate) uses_standby: bool,
    /// Its finalizers.
    pub finalizers: Finalizers,
    /// Time at which it was first observed terminating or gone.
    pub(crate) removed_since: Option<TimePoint>,
    /// Whether the object is gone from the hub and only the member has still to be cleaned.
    pub is_removed: bool,
    /// Conditions of its status.
    pub conditions: Vec<Condition>,
    /// Version of its status.
    pub kubernetes_version: Option<String>,
}

/// Origin of a Cluster that was made of a ClusterProfile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeOf<'a> {
    /// Namespace of the profile.
    pub namespace: &'a str,
    /// UID of the hub whose controller made it; empty where somebody took it over.
    pub hub: &'a str,
    /// Its spec.
    pub spec: &'a api::ClusterSpec,
}

/// EndpointSlices that are watched in a cluster, as its annotation declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeclaredWatch {
    /// All.
    All,
    /// Those of exposed Services.
    Exposed,
    /// Another text, which is ignored: all are watched.
    Unreadable(Box<str>),
}

impl DeclaredWatch {
    /// The one value of the annotation.
    pub(crate) const EXPOSED: &str = "exposed";

    fn read(text: Option<&str>) -> Self {
        match text {
            None => Self::All,
            Some(Self::EXPOSED) => Self::Exposed,
            Some(text) => Self::Unreadable(bounds::foreign(text).into()),
        }
    }

    /// Returns the text of an annotation that has an unknown value.
    pub(crate) fn unreadable(&self) -> Option<&str> {
        match self {
            Self::All | Self::Exposed => None,
            Self::Unreadable(text) => Some(text),
        }
    }
}

impl ClusterView {
    pub(super) fn read(object: &api::Cluster, now: TimePoint) -> Option<Self> {
        let meta = &object.metadata;
        let status = object.status.clone().unwrap_or_default();
        let annotation = |name: &str| meta.annotations.as_ref().and_then(|all| all.get(name));
        Some(Self {
            id: said(object.spec.id.as_deref()),
            uid: meta.uid.as_deref()?.into(),
            resource_version: meta.resource_version.as_deref()?.into(),
            generation: meta.generation.unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            takes_part: object.takes_part(),
            is_tunnelled: annotation(labels::TUNNEL).is_some_and(|value| value == "true"),
            has_agent_credentials: object.has_agent_credentials(),
            withdrawn: annotation(labels::WITHDRAW).is_some_and(|value| value == "true"),
            deletions_confirmed: annotation(labels::CONFIRM_DELETIONS)
                .and_then(|time| time.parse().ok()),
            export_namespaces: annotation(labels::EXPORT_NAMESPACES).map(|names| {
                let names = names.split(',').map(str::trim);
                names
                    .filter(|name| !name.is_empty())
                    .map(Into::into)
                    .collect()
            }),
            creates_namespaces: annotation(labels::CREATE_EXPORTED_NAMESPACES)
                .is_some_and(|value| value == "true"),
            declared: annotation(labels::ENDPOINT_CIDRS)
                .map(|text| Declared::read(text))
                .unwrap_or_default(),
            network: annotation(labels::NETWORK)
                .map(|text| Network::read(text))
                .unwrap_or_default(),
            reach: annotation(labels::REACH).map(|text| DeclaredReach::read(text)),
            reports_paths: object.reports_paths(),
            watch: DeclaredWatch::read(annotation(labels::WATCH).map(String::as_str)),
            cluster_id: annotation(labels::CLUSTER_ID).map(|id| id.as_str().into()),
            labels: meta.labels.clone().unwrap_or_default(),
            made_of_profile: object
                .profile_namespace()
                .map(|_| object.spec.clone().into()),
            region: said(object.spec.region.as_deref()),
            routing_value: annotation(labels::HOSTNAME_ROUTING_VALUE)
                .or(object.spec.region.as_ref())
                .filter(|value| is_routing_value(value))
                .map(|value| value.as_str().into()),
            zones: object
                .spec
                .effective_zones()
                .iter()
                .filter_map(|zone| said(Some(zone)))
                .collect(),
            uses_standby: annotation(labels::STANDBY).is_none_or(|value| value != "false"),
            finalizers: Finalizers::read(meta),
            removed_since: meta.deletion_timestamp.is_some().then_some(now),
            is_removed: false,
            conditions: status.conditions,
            kubernetes_version: status.kubernetes_version,
        })
    }

    /// Returns the ClusterProfile that it was made of, if it was made of one.
    pub(crate) fn made_of(&self) -> Option<MadeOf<'_>> {
        let spec = self.made_of_profile.as_deref()?;
        let label = |key: &str| self.labels.get(key).map_or("", String::as_str);
        Some(MadeOf {
            namespace: label(labels::PROFILE_NAMESPACE),
            hub: label(labels::HUB),
            spec,
        })
    }

    /// Whether it was made of a ClusterProfile of that namespace.
    pub(crate) fn is_made_of(&self, namespace: &str) -> bool {
        self.made_of()
            .is_some_and(|made| made.namespace == namespace)
    }

    /// Returns the time since which the status records that the controller does not reach the
    /// cluster. On Karmada's hubs the status does not record it: Karmada's own controllers write
    /// other reasons.
    pub(crate) fn recorded_outage(&self) -> Option<Timestamp> {
        let ready = find(&self.conditions, READY)?;
        let is_lost = ready.status == FALSE && ready.reason == Reason::Unreachable;
        is_lost.then_some(ready.last_transition_time.0)
    }

    /// Returns a property of the cluster, besides its name: a label of the Cluster, or its region.
    pub(crate) fn property(&self, key: &str) -> Option<&str> {
        let label = self.labels.get(key).map(String::as_str);
        let region = || self.region.as_deref().filter(|_| key == REGION_PROPERTY);
        label.or_else(region)
    }

    /// Whether the hub allows it to export from that namespace.
    pub(crate) fn may_export_from(&self, namespace: &str) -> bool {
        self.export_namespaces
            .as_ref()
            .is_none_or(|names| names.contains(namespace))
    }

    pub(super) fn plans_like(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.id == other.id
            && self.takes_part == other.takes_part
            && self.withdrawn == other.withdrawn
            && self.export_namespaces == other.export_namespaces
            && self.creates_namespaces == other.creates_namespaces
            && self.declared == other.declared
            && self.network == other.network
            && self.reach == other.reach
            && self.reports_paths == other.reports_paths
            && self.cluster_id == other.cluster_id
            && self.labels == other.labels
            && self.region == other.region
            && self.routing_value == other.routing_value
            && self.zones == other.zones
            && self.uses_standby == other.uses_standby
            && self.removed_since.is_some() == other.removed_since.is_some()
            && self.is_removed == other.is_removed
    }
}

/// Returns the text unless it is empty.
fn said(text: Option<&str>) -> Option<Box<str>> {
    text.filter(|text| !text.is_empty()).map(Into::into)
}
