//! The objects of the API servers, as they are on the wire.
//!
//! These types accept whatever the API servers store; what they mean, and whether it makes sense,
//! is [`crate::domain`]'s to say.
#![allow(
    clippy::duplicated_attributes,
    reason = "every printcolumn of kube's derive names a type_ and a json_path of its own"
)]

pub mod absence;
pub mod bounds;
pub mod cluster;
pub mod cluster_profile;
pub mod condition;
pub mod crds;
pub mod discovery;
mod dns_endpoint;
pub mod karmada;
pub mod labels;
pub mod lists;
pub mod multicluster;
mod multicluster_service;
pub mod ownership;

pub use cluster::{Cluster, ClusterSpec, ClusterStatus, SecretReference, SyncMode};
pub use cluster_profile::ClusterProfile;
pub use dns_endpoint::{DNSEndpoint, DNSEndpointSpec, DnsProperty, DnsRecord};
pub use multicluster_service::{
    ClusterSelector, ExposurePort, ExposureRange, MultiClusterService, MultiClusterServiceSpec,
};
