//! Type of a MultiClusterService.

use crate::api::MultiClusterServiceSpec;

/// Type of exposure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExposureType {
    /// Other clusters reach it under its own name.
    CrossCluster,
    /// Load balancers lead to it from outside the clusters.
    LoadBalancer,
}

impl ExposureType {
    /// Returns the type of a spec that has exactly one valid type.
    pub fn of(spec: &MultiClusterServiceSpec) -> Option<Self> {
        let (first, others) = spec.types.split_first()?;
        let is_one = others.iter().all(|other| other == first);
        is_one.then(|| Self::named(first)).flatten()
    }

    /// Returns the type of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "CrossCluster" => Some(Self::CrossCluster),
            "LoadBalancer" => Some(Self::LoadBalancer),
            _ => None,
        }
    }
}
