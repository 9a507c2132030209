//! Nodes of a member, as far as clusters of other networks reach services by them.

use std::net::IpAddr;

use causeway::domain::NodeAddress;
use k8s_openapi::api::core::v1::{Node, NodeStatus};

/// Maximum number of addresses of a node that are read.
const ADDRESSES_MAX: usize = 16;
/// Label of the zone of a node (well-known label of Kubernetes).
const ZONE: &str = "topology.kubernetes.io/zone";
/// Label of a node that load balancers leave out (well-known label of Kubernetes).
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Taint of a node that the cluster autoscaler is about to delete.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Node of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedNode {
    /// Its name.
    pub name: Box<str>,
    /// Whether it is ready and is not terminating.
    pub is_ready: bool,
    /// Whether Kubernetes leaves it out of the nodes of load balancers (KEP-3458).
    pub is_left_out: bool,
    /// Its zone, if it has one.
    pub zone: Option<Box<str>>,
    addresses: Box<[(NodeAddress, IpAddr)]>,
}

impl ObservedNode {
    /// Reads a Node from the wire. Addresses that are no IP addresses, and those beyond the
    /// sixteenth, are ignored.
    pub fn read(node: Node) -> Self {
        let meta = node.metadata;
        let status = node.status.unwrap_or_default();
        let labels = meta.labels.as_ref();
        let zone = labels.and_then(|labels| labels.get(ZONE));
        let zone = zone.filter(|zone| !zone.is_empty());
        let taints = node.spec.and_then(|spec| spec.taints);
        let mut taints = taints.iter().flatten();
        let is_going = taints.any(|taint| taint.key == TO_BE_DELETED);
        Self {
            name: meta.name.unwrap_or_default().into(),
            is_ready: meta.deletion_timestamp.is_none() && is_ready(&status),
            is_left_out: is_going || labels.is_some_and(|labels| labels.contains_key(EXCLUDED)),
            zone: zone.map(|zone| zone.as_str().into()),
            addresses: addresses(&status),
        }
    }

    /// Returns its first address of that kind and family (NodeStatus: the first one is preferred).
    pub fn address(&self, kind: NodeAddress, is_ipv6: bool) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter();
        let found = addresses.find(|(of, address)| *of == kind && address.is_ipv6() == is_ipv6);
        found.map(|(_, address)| *address)
    }
}

fn is_ready(status: &NodeStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn addresses(status: &NodeStatus) -> Box<[(NodeAddress, IpAddr)]> {
    let addresses = status.addresses.iter().flatten();
    let read = addresses.filter_map(|address| {
        let kind = match address.type_.as_str() {
            "InternalIP" => NodeAddress::Internal,
            "ExternalIP" => NodeAddress::External,
            _ => return None,
        };
        Some((kind, address.address.parse().ok()?))
    });
    read.take(ADDRESSES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn node_gives_its_first_address_of_each_kind_and_family() {
        let node = serde_json::from_value(json!({
            "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}},
            "status": {
                "addresses": [
                    {"type": "Hostname", "address": "n1"},
                    {"type": "InternalIP", "address": "fd00::1"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "InternalIP", "address": "10.0.0.2"},
                    {"type": "ExternalIP", "address": "203.0.113.7"},
                ],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }));
        let node = ObservedNode::read(node.expect("a node decodes"));
        assert!(node.is_ready);
        assert_eq!(node.zone.as_deref(), Some("z1"));
        let text = |kind, is_ipv6| node.address(kind, is_ipv6).map(|ip| ip.to_string());
        let (internal, external) = (NodeAddress::Internal, NodeAddress::External);
        assert_eq!(text(internal, false).as_deref(), Some("10.0.0.1"));
        assert_eq!(text(internal, true).as_deref(), Some("fd00::1"));
        assert_eq!(text(external, false).as_deref(), Some("203.0.113.7"));
        assert_eq!(text(external, true), None);
    }

    #[test]
    fn node_that_load_balancers_leave_out_is_read_by_label_or_taint() {
        let label = json!({"metadata": {"labels": {EXCLUDED: ""}}});
        let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
        for (node, is_left_out) in [
            (json!({"metadata": {"name": "n"}}), false),
            (taint("dedicated"), false),
            (taint(TO_BE_DELETED), true),
            (label, true),
        ] {
            let read = serde_json::from_value(node.clone()).expect("a node decodes");
            assert_eq!(ObservedNode::read(read).is_left_out, is_left_out, "{node}");
        }
    }

    #[test]
    fn terminating_or_unready_node_is_not_ready() {
        let read = |meta, status| {
            let node = json!({"metadata": meta, "status": {"conditions": [{"type": "Ready", "status": status}]}});
            let node = serde_json::from_value(node).expect("a node decodes");
            ObservedNode::read(node).is_ready
        };
        assert!(read(json!({"name": "n"}), "True"));
        assert!(!read(json!({"name": "n"}), "Unknown"));
        let deleting = json!({"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!read(deleting, "True"));
    }
}
