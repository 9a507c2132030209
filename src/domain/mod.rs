//! Types that hold their invariants, and the one parser of a MultiClusterService.
//!
//! The webhook and the controller both read an object through [`MultiClusterService::try_from`], so
//! that admission cannot accept what the controller cannot read.

mod consumers;
mod conversion;
mod deprecated;
mod duration;
pub mod enrolment;
mod exposure_type;
mod failover;
mod field;
mod hostname;
mod imported_slice;
mod kubernetes_version;
mod misplaced;
mod multi_cluster_service;
mod name;
mod network;
pub mod path;
mod port;
pub mod protected;
mod ranges;
mod selector;
mod share;

pub use consumers::{ConsumerSelector, Consumers};
pub use conversion::{Conversion, convert_deprecated};
pub use deprecated::{ClusterField, same_clusters};
pub use duration::{MalformedDuration, parse_duration};
pub use exposure_type::ExposureType;
pub use failover::{Failover, MalformedAnswer, Percentage, Preference, Tier, Unreachable};
pub use field::{FieldError, FieldErrors, Problem, quoted};
pub use hostname::{
    Hostnames, RequestedHostnames, canonical_name, is_dns_name, is_routing_value, read_routing,
};
pub use imported_slice::{KARMADA, imported_by};
pub use kubernetes_version::KubernetesVersion;
pub use misplaced::{ClustersetKind, misplaced};
pub use multi_cluster_service::{
    ClusterSelection, MultiClusterService, has_entry_clusters, only_cluster,
};
pub use name::{
    ClusterName, NameError, ServiceKey, dns1123_label, is_label_value, is_qualified, is_subdomain,
    short_hash,
};
pub use network::{Network, NodeAddress, Reach};
pub use port::{
    ExposedPort, ExposedPorts, PortId, Protocol, ServicePort, UnknownProtocol, describe_ports,
};
pub use ranges::{AddressRefusal, Declared, Ranges};
pub use selector::{ClusterSelector, SAME_AS_IMPORTER, SELECTORS_MAX};
pub use share::Share;
