//! ServiceExports, ServiceImports and Namespaces of the hub, of which only the metadata is read,
//! and DNSEndpoints.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{DNSEndpoint, DnsRecord, labels};
use causeway::domain::{ClusterName, ServiceKey, canonical_name};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;

use super::defaults::{self, Annotations};
use super::object::key_of;

/// ServiceExport on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubExport {
    /// Its namespace and name; `None` if one is missing, which no API server sends.
    pub(crate) key: Option<ServiceKey>,
    pub(crate) uid: Box<str>,
}

/// ServiceImport on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubImport(pub(crate) Option<ServiceKey>);

impl HubExport {
    /// Reads the metadata of a ServiceExport.
    pub fn read(export: PartialObjectMeta<ServiceExport>) -> Self {
        Self {
            key: key_of(&export.metadata),
            uid: export.metadata.uid.unwrap_or_default().into(),
        }
    }
}

impl HubImport {
    /// Reads the metadata of a ServiceImport.
    pub fn read(import: PartialObjectMeta<ServiceImport>) -> Self {
        Self(key_of(&import.metadata))
    }
}

/// Namespace of the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubNamespace {
    pub(crate) name: Box<str>,
    /// Annotations of each MultiClusterService in it that does not have them itself
    /// ([`labels::OF_SERVICES`]).
    pub(crate) defaults: Annotations,
}

impl HubNamespace {
    /// Reads the metadata of a Namespace.
    pub fn read(namespace: PartialObjectMeta<Namespace>) -> Self {
        let meta = namespace.metadata;
        let annotations = meta.annotations.unwrap_or_default();
        Self {
            name: meta.name.unwrap_or_default().into(),
            defaults: defaults::named(&annotations, &labels::OF_SERVICES),
        }
    }

    /// Whether it has defaults for MultiClusterServices.
    pub fn has_defaults(&self) -> bool {
        !self.defaults.is_empty()
    }
}

/// DNSEndpoint on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubDnsEndpoint {
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: Box<str>,
    /// Whether it is terminating.
    pub(crate) deleting: bool,
    /// UID of the MultiClusterService of its name that owns it. Without one, or without causeway's
    /// label, it is foreign.
    pub(crate) owner: Option<Box<str>>,
    pub(crate) records: Box<[DnsRecord]>,
    /// Annotation [`labels::TARGETS`].
    pub(crate) recorded: Box<str>,
}

/// Targets of each cluster, as texts.
pub(crate) type RecordedTargets = BTreeMap<ClusterName, BTreeSet<Box<str>>>;

impl HubDnsEndpoint {
    /// Reads a DNSEndpoint.
    pub(crate) fn read(object: &DNSEndpoint) -> Self {
        let meta = &object.metadata;
        let recorded = meta.annotations.as_ref();
        let recorded = recorded.and_then(|all| all.get(labels::TARGETS));
        Self {
            owner: owner(meta).map(Into::into),
            recorded: recorded.map(String::as_str).unwrap_or_default().into(),
            deleting: meta.deletion_timestamp.is_some(),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
            records: object.spec.endpoints.as_slice().into(),
        }
    }

    /// Lists the names of the records, in their canonical form.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let records = self.records.iter();
        records.map(|record| canonical_name(&record.dns_name))
    }

    /// Returns the targets that causeway recorded for each cluster; none if somebody made them
    /// unreadable.
    pub(crate) fn targets(&self) -> RecordedTargets {
        let read: BTreeMap<String, BTreeSet<Box<str>>> =
            serde_json::from_str(&self.recorded).unwrap_or_default();
        let named = read.into_iter().filter_map(|(name, targets)| {
            let name = ClusterName::try_from(&*name).ok()?;
            Some((name, targets))
        });
        named.collect()
    }
}

fn owner(meta: &ObjectMeta) -> Option<&str> {
    let managed_by = meta.labels.as_ref()?.get(labels::MANAGED_BY)?;
    if managed_by != labels::MANAGER {
        return None;
    }
    let mut owners = meta.owner_references.iter().flatten();
    let own = owners.find(|owner| {
        owner.kind == "MultiClusterService" && Some(&owner.name) == meta.name.as_ref()
    });
    own.map(|owner| &*owner.uid)
}
