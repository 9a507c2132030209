//! Endpoint of a desired copy.

use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, ForNode, ForZone,
};

use super::address::text;
use super::source::SourceEndpoint;

/// Endpoint of a desired copy.
#[derive(Clone, Debug)]
pub struct CopyEndpoint<'a> {
    /// Content from its source, as the copy has it.
    pub carried: SourceEndpoint<'a>,
    /// Zone and node of its hints, if it has any.
    pub hints: Option<[Option<&'a str>; 2]>,
}

impl From<CopyEndpoint<'_>> for Endpoint {
    fn from(endpoint: CopyEndpoint<'_>) -> Self {
        let carried = endpoint.carried;
        let [ready, serving, terminating] = carried.conditions;
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        let addresses = carried.addresses();
        Self {
            addresses: addresses.map(text).collect(),
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
