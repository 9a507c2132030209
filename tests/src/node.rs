//! Node objects.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::control_plane::ControlPlane;
use crate::write::merge_status;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A node with Linux that is ready.
pub fn node(name: &str) -> NodeFixture {
    NodeFixture {
        name: name.to_owned(),
        labels: BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())]),
        addresses: Vec::new(),
    }
}

/// See [`node`].
#[derive(Clone, Debug)]
pub struct NodeFixture {
    name: String,
    labels: BTreeMap<String, String>,
    addresses: Vec<String>,
}

impl NodeFixture {
    /// Is in this zone.
    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.labels.insert(ZONE.to_owned(), zone.to_owned());
        self
    }

    /// Has this internal address, beside others named so; without one it gets one of the pod range.
    #[must_use]
    pub fn address(mut self, address: &str) -> Self {
        self.addresses.push(address.to_owned());
        self
    }

    /// Makes it in a cluster.
    pub async fn create(mut self, cluster: &ControlPlane) {
        if self.addresses.is_empty() {
            self.addresses.push(cluster.fresh_pod_ip());
        }
        let internal = |address| NodeAddress {
            type_: "InternalIP".to_owned(),
            address,
        };
        let api = Api::<Node>::all(cluster.client());
        let node = Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels),
                ..ObjectMeta::default()
            },
            ..Node::default()
        };
        let made = api.create(&PostParams::default(), &node).await;
        made.unwrap_or_else(|e| panic!("cannot make node {}: {e}", self.name));
        let status = NodeStatus {
            addresses: Some(self.addresses.into_iter().map(internal).collect()),
            conditions: Some(vec![NodeCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                ..NodeCondition::default()
            }]),
            ..NodeStatus::default()
        };
        merge_status(&api, &self.name, json!({ "status": status })).await;
    }
}
