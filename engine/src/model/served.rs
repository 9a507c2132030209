//! Versions and fields of the Multi-Cluster Services API that a member serves: definitions are
//! created and deleted while it runs, and older ones lack fields.

use causeway::api::multicluster::Version;

/// Versions and fields of the Multi-Cluster Services API that a member serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Version in which ServiceExports are served, if they are.
    pub exports: Option<Version>,
    /// `status.clusters` of ServiceExports (kubernetes/enhancements, PR 6329).
    pub export_clusters: bool,
    /// Version and fields in which ServiceImports are served, if they are.
    pub imports: Option<ServedImports>,
}

impl Served {
    /// Returns the versions in which ServiceExports and ServiceImports are watched.
    pub fn versions(&self) -> [Option<Version>; 2] {
        [self.exports, self.imports.map(|imports| imports.version)]
    }
}

/// Version and fields in which a member serves ServiceImports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedImports {
    /// Version of the API.
    pub version: Version,
    /// Fields of the definition: the API server drops others when an object is written.
    pub fields: ImportFields,
}

/// Fields of a ServiceImport that not every definition has. The first definition has none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportFields {
    /// `spec.ips` takes two addresses.
    pub two_ips: bool,
    /// `spec.ipFamilies`.
    pub ip_families: bool,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic_policy: bool,
    /// `spec.trafficDistribution`.
    pub traffic_distribution: bool,
    /// `spec.clusterSelectors`.
    pub cluster_selectors: bool,
    /// `status.clusterSelectorResults`.
    pub cluster_selector_results: bool,
    /// `status.observedGeneration`.
    pub observed_generation: bool,
    /// `status.conditions`.
    pub conditions: bool,
    /// `status.endpointSliceObjects`.
    pub endpoint_slice_objects: bool,
}

impl ImportFields {
    /// All fields, as in the newest definition.
    pub const ALL: Self = Self {
        two_ips: true,
        ip_families: true,
        internal_traffic_policy: true,
        traffic_distribution: true,
        cluster_selectors: true,
        cluster_selector_results: true,
        observed_generation: true,
        conditions: true,
        endpoint_slice_objects: true,
    };
}
