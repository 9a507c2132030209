//! Routing of clients among the records of a name.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::DnsRecord;
use causeway::domain::ClusterName;

use crate::model::HubDnsEndpoint;
use crate::observed::Index;

/// Property by which DNS chooses among the records of a name, with the values of clusters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Routing {
    /// Provider-specific property of ExternalDNS.
    pub property: Box<str>,
    /// Clusters in use without a value: no record has their targets.
    pub without_value: BTreeSet<ClusterName>,
    /// Values of the other clusters in use, and of those with recorded targets.
    pub values: BTreeMap<ClusterName, Box<str>>,
}

impl Routing {
    /// Reads the values of the clusters in use, and of those with recorded targets. One of which
    /// the hub has no Cluster keeps the value with which the DNSEndpoint publishes its targets.
    pub(super) fn of<'a>(
        property: &str,
        index: &Index,
        known: Option<&HubDnsEndpoint>,
        in_use: impl Iterator<Item = &'a ClusterName>,
    ) -> Self {
        let recorded = known.map(HubDnsEndpoint::targets).unwrap_or_default();
        let published = |name| {
            let targets = recorded.get(name)?;
            let is_of = |one: &&DnsRecord| one.targets.iter().any(|one| targets.contains(&**one));
            let record = known?.records.iter().find(is_of)?;
            let mut properties = record.provider_specific.iter();
            let property = properties.find(|one| *one.name == *property)?;
            Some(property.value.as_str().into())
        };
        let value = |name| match index.cluster(name) {
            Some(cluster) => cluster.routing_value.clone(),
            None => published(name),
        };
        let mut without_value: BTreeSet<ClusterName> = in_use.cloned().collect();
        let names = without_value.iter().chain(recorded.keys());
        let values = names.filter_map(|name| Some((name.clone(), value(name)?)));
        let values: BTreeMap<_, _> = values.collect();
        without_value.retain(|name| !values.contains_key(name));
        Self {
            property: property.into(),
            without_value,
            values,
        }
    }

    /// Returns the property with the value of a cluster.
    pub(super) fn property_of(&self, name: &ClusterName) -> Option<(&str, &str)> {
        Some((&*self.property, &**self.values.get(name)?))
    }
}
