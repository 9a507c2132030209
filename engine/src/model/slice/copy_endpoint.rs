//! An endpoint as a copy is to have it.

use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, ForNode, ForZone,
};

use super::source::SourceEndpoint;

/// An endpoint of a copy that is wanted.
#[derive(Clone, Debug)]
pub struct CopyEndpoint<'a> {
    /// What is carried of its source, as the copy has it.
    pub carried: SourceEndpoint<'a>,
    /// For which zone and for which node it is meant, where it bears hints.
    pub hints: Option<[Option<&'a str>; 2]>,
}

impl From<CopyEndpoint<'_>> for Endpoint {
    fn from(endpoint: CopyEndpoint<'_>) -> Self {
        let carried = endpoint.carried;
        let [ready, serving, terminating] = carried.conditions;
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        let addresses = carried.addresses();
        Self {
            addresses: addresses.map(|address| address.to_string()).collect(),
            conditions: Some(EndpointConditions {
                ready,
                serving,
                terminating,
            }),
            hostname: owned(carried.hostname),
            zone: owned(carried.zone),
            node_name: owned(carried.node),
            hints: endpoint.hints.map(|[zone, node]| EndpointHints {
                for_zones: owned(zone).map(|name| vec![ForZone { name }]),
                for_nodes: owned(node).map(|name| vec![ForNode { name }]),
            }),
            ..Self::default()
        }
    }
}
