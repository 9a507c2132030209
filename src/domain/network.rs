//! Networks of clusters, and the ways by which a cluster is reached from another network.

use std::fmt;

use super::failover::Failover;
use super::field::FieldError;
use super::name::dns1123_label;
use crate::api::{bounds, labels};

/// Network of a cluster's pods: clusters of one network reach each other's pods.
///
/// Two networks are the same if their texts are equal, whether or not these are DNS labels, so that
/// one typing error in all clusters separates none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Network(Option<Box<str>>);

/// Way by which clusters of other networks reach a provider's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reach {
    /// By a port of the nodes on which the endpoints are.
    NodePorts(NodeAddress),
    /// By the addresses of the Service's load balancer.
    LoadBalancer,
    /// By the virtual addresses of the Service.
    ClusterIp,
}

/// Kind of the addresses of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeAddress {
    /// InternalIP.
    Internal,
    /// ExternalIP.
    External,
}

impl Network {
    /// Reads the annotation. An empty one names the network of all clusters without it. Text beyond
    /// 63 bytes is cut.
    pub fn read(text: &str) -> Self {
        let text = text.trim();
        let end = text.floor_char_boundary(bounds::LABEL);
        Self((!text.is_empty()).then(|| text[..end].into()))
    }

    /// Whether its name is a DNS label, or it is the network of all clusters without a name.
    pub fn is_valid(&self) -> bool {
        let name = self.0.as_deref();
        name.is_none_or(|name| dns1123_label(name).is_ok())
    }

    /// Returns its name; `None` for the network of all clusters without one.
    pub fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl Reach {
    /// All ways.
    pub const ALL: [Self; 4] = [
        Self::NodePorts(NodeAddress::Internal),
        Self::NodePorts(NodeAddress::External),
        Self::LoadBalancer,
        Self::ClusterIp,
    ];

    /// Values of the annotation, in the order of [`Reach::ALL`].
    pub const VALUES: [&str; 4] = [
        "node-ports",
        "node-ports=external",
        "load-balancer",
        "cluster-ip",
    ];

    /// Reads the annotation; `None` for a text that is none of [`Reach::VALUES`].
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let mut ways = Self::ALL.into_iter();
        ways.find(|way| way.as_str() == text)
    }

    /// Reads the value of a service's annotation.
    ///
    /// # Errors
    /// The text is none of [`Reach::VALUES`].
    pub fn of_annotation(text: &str) -> Result<Self, FieldError> {
        let path = Failover::path(labels::REACH);
        Self::read(text).ok_or_else(|| FieldError::not_supported(path, text, &Self::VALUES))
    }

    /// Whether it leads over ports of nodes.
    pub fn is_by_node_ports(self) -> bool {
        matches!(self, Self::NodePorts(_))
    }

    /// Returns the value of the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NodePorts(NodeAddress::Internal) => Self::VALUES[0],
            Self::NodePorts(NodeAddress::External) => Self::VALUES[1],
            Self::LoadBalancer => Self::VALUES[2],
            Self::ClusterIp => Self::VALUES[3],
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reach_is_read_from_its_value() {
        for (way, value) in Reach::ALL.into_iter().zip(Reach::VALUES) {
            assert_eq!(way.to_string(), value);
            assert_eq!(Reach::read(&format!(" {value} ")), Some(way));
        }
        for text in ["", "nodeports", "node-ports=internal", "LoadBalancer"] {
            assert_eq!(Reach::read(text), None, "{text}");
        }
    }

    #[test]
    fn empty_network_is_that_of_all_without_one() {
        assert_eq!(Network::read("  "), Network::default());
        assert_eq!(Network::read(" edge "), Network::read("edge"));
        assert_ne!(Network::read("edge"), Network::default());
        assert!(Network::default().is_valid() && Network::read("edge").is_valid());
        assert!(!Network::read("Edge_1").is_valid());
        assert_eq!(
            Network::read(&"ä".repeat(40)).name().map(str::len),
            Some(62)
        );
    }
}
