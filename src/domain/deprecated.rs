//! Deprecated cluster lists of a MultiClusterService, read as one with their successors.

use std::collections::BTreeSet;

use super::exposure_type::ExposureType;
use super::field::{FieldError, quoted};
use crate::api::{ClusterSelector, MultiClusterServiceSpec};

/// Maximum number of clusters that a message names.
const NAMES_MAX: usize = 20;

/// A field of the spec that lists clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClusterField {
    /// `spec.providerClusters`.
    Providers,
    /// `spec.consumerClusters`.
    Consumers,
    /// `spec.range.clusterNames`, deprecated for the consumers. Valid for type CrossCluster only.
    Range,
    /// `spec.serviceProvisionClusters`, deprecated for the providers.
    ServiceProvision,
    /// `spec.serviceConsumptionClusters`, deprecated for the consumers.
    ServiceConsumption,
}

impl ClusterField {
    /// The deprecated fields, in the order in which they are checked.
    pub const DEPRECATED: [Self; 3] = [
        Self::Range,
        Self::ServiceProvision,
        Self::ServiceConsumption,
    ];

    /// The fields for the two roles of a cluster.
    pub const ROLES: [Self; 2] = [Self::Providers, Self::Consumers];

    /// Returns all fields, each of [`ClusterField::ROLES`] before its deprecated fields.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ROLES.into_iter().flat_map(Self::with_deprecated)
    }

    /// Returns the path of the list.
    pub fn path(self) -> &'static str {
        match self {
            Self::Providers => "spec.providerClusters",
            Self::Consumers => "spec.consumerClusters",
            Self::Range => "spec.range.clusterNames",
            Self::ServiceProvision => "spec.serviceProvisionClusters",
            Self::ServiceConsumption => "spec.serviceConsumptionClusters",
        }
    }

    /// Returns the path of entry `index` of the list.
    pub fn entry_path(self, index: usize) -> String {
        match self {
            Self::Providers | Self::Consumers => format!("{}[{index}].name", self.path()),
            _ => format!("{}[{index}]", self.path()),
        }
    }

    /// The field that took this one's place; itself where it is not deprecated.
    pub fn successor(self) -> Self {
        match self {
            Self::Providers | Self::ServiceProvision => Self::Providers,
            Self::Consumers | Self::Range | Self::ServiceConsumption => Self::Consumers,
        }
    }

    /// Returns the names in the field, in the order given. A range has none for type LoadBalancer:
    /// it has no effect.
    pub fn names(self, spec: &MultiClusterServiceSpec) -> Vec<&str> {
        match self.has_effect(spec) {
            true => self.written(spec),
            false => Vec::new(),
        }
    }

    /// Returns the names in the field, even if it has no effect.
    fn written(self, spec: &MultiClusterServiceSpec) -> Vec<&str> {
        let (selectors, plain) = self.lists(spec);
        let selected = selectors.iter().map(|cluster| cluster.name.as_str());
        selected.chain(plain.iter().map(String::as_str)).collect()
    }

    /// Returns the name of that index in [`ClusterField::names`].
    pub fn name(self, spec: &MultiClusterServiceSpec, index: usize) -> Option<&str> {
        let (selectors, plain) = self.lists(spec);
        let selected = selectors.get(index).map(|cluster| cluster.name.as_str());
        let name = selected.or_else(|| plain.get(index).map(String::as_str));
        name.filter(|_| self.has_effect(spec))
    }

    /// Returns the list of the field as selectors or as plain names, and an empty one of the other.
    fn lists(self, spec: &MultiClusterServiceSpec) -> (&[ClusterSelector], &[String]) {
        let plain = match self {
            Self::Providers => return (&spec.provider_clusters, &[]),
            Self::Consumers => return (&spec.consumer_clusters, &[]),
            Self::Range => spec
                .range
                .as_ref()
                .and_then(|range| range.cluster_names.as_ref()),
            Self::ServiceProvision => spec.service_provision_clusters.as_ref(),
            Self::ServiceConsumption => spec.service_consumption_clusters.as_ref(),
        };
        (&[], plain.map(Vec::as_slice).unwrap_or_default())
    }

    /// Whether the field has an effect for the type of the spec: `spec.range` is valid for type
    /// CrossCluster only.
    fn has_effect(self, spec: &MultiClusterServiceSpec) -> bool {
        self != Self::Range || ExposureType::of(spec) != Some(ExposureType::LoadBalancer)
    }

    /// Whether the field names clusters without effect.
    pub(super) fn is_ignored(self, spec: &MultiClusterServiceSpec) -> bool {
        !self.has_effect(spec) && !self.written(spec).is_empty()
    }

    /// Whether the field is a range without a list, as every program sends it that uses Karmada's
    /// types: `Range` of its `MultiClusterServiceSpec` is no pointer, and Go never omits it.
    pub(super) fn is_bare(self, spec: &MultiClusterServiceSpec) -> bool {
        let range = spec.range.as_ref();
        self == Self::Range && range.is_some_and(|range| range.cluster_names.is_none())
    }

    /// Whether a deprecated field is present. Its successor always is.
    pub(super) fn is_present(self, spec: &MultiClusterServiceSpec) -> bool {
        match self {
            Self::Providers | Self::Consumers => true,
            Self::Range => spec.range.is_some(),
            Self::ServiceProvision => spec.service_provision_clusters.is_some(),
            Self::ServiceConsumption => spec.service_consumption_clusters.is_some(),
        }
    }

    /// Removes the field.
    pub(super) fn clear(self, spec: &mut MultiClusterServiceSpec) {
        match self {
            Self::Providers => spec.provider_clusters.clear(),
            Self::Consumers => spec.consumer_clusters.clear(),
            Self::Range => spec.range = None,
            Self::ServiceProvision => spec.service_provision_clusters = None,
            Self::ServiceConsumption => spec.service_consumption_clusters = None,
        }
    }

    /// Returns the list of the field's successor.
    pub fn selectors(self, spec: &MultiClusterServiceSpec) -> &[ClusterSelector] {
        match self.successor() {
            Self::Providers => &spec.provider_clusters,
            _ => &spec.consumer_clusters,
        }
    }

    pub(super) fn selectors_mut(
        self,
        spec: &mut MultiClusterServiceSpec,
    ) -> &mut Vec<ClusterSelector> {
        match self.successor() {
            Self::Providers => &mut spec.provider_clusters,
            _ => &mut spec.consumer_clusters,
        }
    }

    /// Returns the field that names the clusters of this one's role: the field itself, or else the
    /// first deprecated one that is not empty.
    pub fn effective(self, spec: &MultiClusterServiceSpec) -> Self {
        let filled = |field: &Self| field.name(spec, 0).is_some();
        self.with_deprecated().find(filled).unwrap_or(self)
    }

    /// The field and the deprecated ones whose place it took.
    pub fn with_deprecated(self) -> impl Iterator<Item = Self> {
        let stand_ins = Self::DEPRECATED.into_iter();
        std::iter::once(self).chain(stand_ins.filter(move |field| field.successor() == self))
    }
}

/// Whether two lists name the same clusters, whatever the order and the repetitions.
pub fn same_clusters(one: &[&str], other: &[&str]) -> bool {
    one.iter().collect::<BTreeSet<_>>() == other.iter().collect::<BTreeSet<_>>()
}

/// A deprecated field that disagrees with what takes its place.
pub(super) fn disagreements(spec: &MultiClusterServiceSpec) -> impl Iterator<Item = FieldError> {
    ClusterField::DEPRECATED.into_iter().filter_map(|field| {
        field.name(spec, 0)?;
        let names = field.names(spec);
        let effective = field.successor().effective(spec);
        let others = effective.names(spec);
        if same_clusters(&names, &others) {
            return None;
        }
        let detail = format!(
            "deprecated, and disagrees with {} {}; remove {} and list the clusters in {}",
            effective.path(),
            listed(&others),
            field.path(),
            field.successor().path(),
        );
        Some(FieldError::invalid(field.path(), names, detail))
    })
}

/// The names in a message; of many the first.
fn listed(names: &[&str]) -> String {
    let shown: Vec<_> = names
        .iter()
        .take(NAMES_MAX)
        .map(|name| quoted(name))
        .collect();
    match names.len().saturating_sub(NAMES_MAX) {
        0 => format!("{shown:?}"),
        rest => format!("{shown:?} and {rest} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repetition_do_not_make_another_set() {
        assert!(same_clusters(&["a", "b", "a"], &["b", "a"]));
        assert!(!same_clusters(&["a"], &["a", "b"]));
    }
}
