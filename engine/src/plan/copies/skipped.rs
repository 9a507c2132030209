//! Reasons why a slice of a provider, or a port of it, is not copied.

use std::fmt;
use std::sync::Arc;

use causeway::domain::ServicePort;

use super::port_fit::MissingPort;
use super::template::CopyTemplate;
use crate::model::slice::{AddressType, SourceSlice};

/// Maximum number of slices of one service and provider that are copied. Slices of Kubernetes hold
/// a hundred endpoints each.
pub(in crate::plan) const MOST_SLICES: usize = 1000;
/// Maximum number of endpoints of a slice (discovery.k8s.io/v1).
const MOST_ENDPOINTS: usize = 1000;

/// Reason why nothing of a slice is copied.
#[derive(Clone, Debug)]
pub enum Skipped {
    /// Its addresses are hostnames, or of an unknown newer type.
    AddressType,
    /// It cannot be read.
    Unreadable,
    /// It has more endpoints than a slice may have.
    TooManyEndpoints,
    /// Its provider has more slices of the service than are copied.
    TooManySlices,
    /// Slices that Kubernetes keeps hold all of its endpoints, and may disagree on their readiness.
    Redundant(Option<Disagreement>),
    /// Its controllers have not caught up with a change of the Service's ports: an existing copy
    /// stays.
    Behind,
    /// None of its ports is exposed.
    NoPort(MissingPorts),
}

/// Slice that Kubernetes maintains and that differs from a redundant one on the readiness of an
/// endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disagreement {
    /// Name of the slice that Kubernetes keeps. Its readiness is what consumers get.
    pub kept: Arc<str>,
}

/// Ports that a consumer's Service offers and a slice lacks. They are computed on request.
#[derive(Clone, Debug)]
pub struct MissingPorts {
    pub(super) template: Arc<CopyTemplate>,
    pub(super) source: Arc<SourceSlice>,
}

impl Skipped {
    /// Returns the reason why the slice cannot be copied, whatever is exposed.
    pub(super) fn of(source: &SourceSlice) -> Option<Self> {
        match source.address_type {
            AddressType::Other => Some(Self::AddressType),
            AddressType::Unread => Some(Self::Unreadable),
            AddressType::Ipv4 | AddressType::Ipv6 => {
                (source.len() > MOST_ENDPOINTS).then_some(Self::TooManyEndpoints)
            }
        }
    }
}

impl MissingPorts {
    /// Returns one gap for each port that is missing.
    pub fn list(&self) -> Vec<MissingPort> {
        self.template.fit().gaps(&self.source).collect()
    }

    /// Returns the ports of the provider's Service.
    pub fn provider_ports(&self) -> &[ServicePort] {
        self.template.fit().provider
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressType => out.write_str("its addressType is neither IPv4 nor IPv6"),
            Self::Unreadable => out.write_str("it cannot be read; copies made of it before stay"),
            Self::TooManyEndpoints => write!(
                out,
                "it has more than {MOST_ENDPOINTS} endpoints; copies made of it before stay"
            ),
            Self::TooManySlices => {
                write!(out, "no more than {MOST_SLICES} of a service are copied")
            }
            Self::Redundant(_) => {
                out.write_str("slices that Kubernetes keeps hold the same endpoints")
            }
            Self::Behind => out.write_str("its ports are not those of its Service yet"),
            Self::NoPort(_) => out.write_str("none of its ports is exposed"),
        }
    }
}
