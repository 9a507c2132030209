//! Messages of `k8s.io/api/discovery/v1`, `k8s.io/api/core/v1` and
//! `k8s.io/apimachinery/pkg/apis/meta/v1`, after their generated.proto.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use prost::Message;

/// EndpointSliceList whose items are encoded already.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMetaMessage>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    items: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct ListMetaMessage {
    #[prost(string, optional, tag = "1")]
    self_link: Option<String>,
    #[prost(string, optional, tag = "2")]
    resource_version: Option<String>,
    #[prost(string, optional, tag = "3")]
    continue_: Option<String>,
    #[prost(int64, optional, tag = "4")]
    remaining_item_count: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SliceMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<MetaMessage>,
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<EndpointMessage>,
    #[prost(message, repeated, tag = "3")]
    ports: Vec<PortMessage>,
    #[prost(string, optional, tag = "4")]
    address_type: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct MetaMessage {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    generate_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    namespace: Option<String>,
    #[prost(string, optional, tag = "5")]
    uid: Option<String>,
    #[prost(string, optional, tag = "6")]
    resource_version: Option<String>,
    #[prost(int64, optional, tag = "7")]
    generation: Option<i64>,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<TimeMessage>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    owner_references: Vec<OwnerMessage>,
    #[prost(string, repeated, tag = "14")]
    finalizers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeMessage {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    nanos: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct OwnerMessage {
    #[prost(string, optional, tag = "1")]
    kind: Option<String>,
    #[prost(string, optional, tag = "3")]
    name: Option<String>,
    #[prost(string, optional, tag = "4")]
    uid: Option<String>,
    #[prost(string, optional, tag = "5")]
    api_version: Option<String>,
    #[prost(bool, optional, tag = "6")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    block_owner_deletion: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointMessage {
    #[prost(string, repeated, tag = "1")]
    addresses: Vec<String>,
    #[prost(message, optional, tag = "2")]
    conditions: Option<ConditionsMessage>,
    #[prost(string, optional, tag = "3")]
    hostname: Option<String>,
    #[prost(message, optional, tag = "4")]
    target_ref: Option<ReferenceMessage>,
    #[prost(btree_map = "string, string", tag = "5")]
    deprecated_topology: BTreeMap<String, String>,
    #[prost(string, optional, tag = "6")]
    node_name: Option<String>,
    #[prost(string, optional, tag = "7")]
    zone: Option<String>,
    #[prost(message, optional, tag = "8")]
    hints: Option<HintsMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ConditionsMessage {
    #[prost(bool, optional, tag = "1")]
    ready: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    serving: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    terminating: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct ReferenceMessage {
    #[prost(string, optional, tag = "1")]
    kind: Option<String>,
    #[prost(string, optional, tag = "3")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct HintsMessage {
    #[prost(message, repeated, tag = "1")]
    for_zones: Vec<NameMessage>,
    #[prost(message, repeated, tag = "2")]
    for_nodes: Vec<NameMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct NameMessage {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct PortMessage {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    protocol: Option<String>,
    #[prost(int32, optional, tag = "3")]
    port: Option<i32>,
    #[prost(string, optional, tag = "4")]
    app_protocol: Option<String>,
}

impl ListMessage {
    /// Returns a list of that version, with the token of its next page.
    pub(crate) fn new(version: &str, token: &str, items: Vec<Vec<u8>>) -> Self {
        let metadata = ListMetaMessage {
            self_link: Some(String::new()),
            resource_version: Some(version.to_owned()),
            continue_: Some(token.to_owned()),
            remaining_item_count: Some(7),
        };
        Self {
            metadata: Some(metadata),
            items,
        }
    }
}

impl From<&EndpointSlice> for SliceMessage {
    fn from(slice: &EndpointSlice) -> Self {
        let slice = slice.clone();
        let meta = slice.metadata;
        let owners = meta.owner_references.unwrap_or_default().into_iter();
        let time = TimeMessage {
            seconds: Some(1_767_225_600),
            nanos: Some(0),
        };
        Self {
            metadata: Some(MetaMessage {
                name: meta.name,
                generate_name: Some(String::new()),
                namespace: meta.namespace,
                uid: meta.uid,
                resource_version: meta.resource_version,
                generation: Some(3),
                creation_timestamp: Some(time),
                labels: meta.labels.unwrap_or_default(),
                annotations: meta.annotations.unwrap_or_default(),
                owner_references: owners.map(Into::into).collect(),
                finalizers: meta.finalizers.unwrap_or_default(),
            }),
            endpoints: slice.endpoints.into_iter().map(Into::into).collect(),
            ports: slice
                .ports
                .unwrap_or_default()
                .into_iter()
                .map(Into::into)
                .collect(),
            address_type: Some(slice.address_type),
        }
    }
}

impl From<OwnerReference> for OwnerMessage {
    fn from(owner: OwnerReference) -> Self {
        Self {
            kind: Some(owner.kind),
            name: Some(owner.name),
            uid: Some(owner.uid),
            api_version: Some(owner.api_version),
            controller: owner.controller,
            block_owner_deletion: owner.block_owner_deletion,
        }
    }
}

impl From<Endpoint> for EndpointMessage {
    fn from(endpoint: Endpoint) -> Self {
        let named = |name| NameMessage { name: Some(name) };
        Self {
            addresses: endpoint.addresses,
            conditions: endpoint.conditions.map(|given| ConditionsMessage {
                ready: given.ready,
                serving: given.serving,
                terminating: given.terminating,
            }),
            hostname: endpoint.hostname,
            target_ref: endpoint.target_ref.map(|target| ReferenceMessage {
                kind: target.kind,
                name: target.name,
            }),
            deprecated_topology: endpoint.deprecated_topology.unwrap_or_default(),
            node_name: endpoint.node_name,
            zone: endpoint.zone,
            hints: endpoint.hints.map(|hints| {
                let zones = hints.for_zones.unwrap_or_default().into_iter();
                let nodes = hints.for_nodes.unwrap_or_default().into_iter();
                HintsMessage {
                    for_zones: zones.map(|zone| named(zone.name)).collect(),
                    for_nodes: nodes.map(|node| named(node.name)).collect(),
                }
            }),
        }
    }
}

impl From<EndpointPort> for PortMessage {
    fn from(port: EndpointPort) -> Self {
        Self {
            name: port.name,
            protocol: port.protocol,
            port: port.port,
            app_protocol: port.app_protocol,
        }
    }
}

fn given<C: IntoIterator + Default + PartialEq>(all: C) -> Option<C> {
    (all != C::default()).then_some(all)
}

impl From<SliceMessage> for EndpointSlice {
    fn from(message: SliceMessage) -> Self {
        let meta = message.metadata.unwrap_or_default();
        let owners = meta.owner_references.into_iter().map(Into::into).collect();
        let ports = message.ports.into_iter().map(Into::into).collect();
        Self {
            metadata: ObjectMeta {
                name: meta.name,
                generate_name: meta.generate_name,
                namespace: meta.namespace,
                uid: meta.uid,
                resource_version: meta.resource_version,
                generation: meta.generation,
                labels: given(meta.labels),
                annotations: given(meta.annotations),
                owner_references: given(owners),
                finalizers: given(meta.finalizers),
                ..ObjectMeta::default()
            },
            address_type: message.address_type.unwrap_or_default(),
            endpoints: message.endpoints.into_iter().map(Into::into).collect(),
            ports: given(ports),
        }
    }
}

impl From<OwnerMessage> for OwnerReference {
    fn from(message: OwnerMessage) -> Self {
        Self {
            api_version: message.api_version.unwrap_or_default(),
            block_owner_deletion: message.block_owner_deletion,
            controller: message.controller,
            kind: message.kind.unwrap_or_default(),
            name: message.name.unwrap_or_default(),
            uid: message.uid.unwrap_or_default(),
        }
    }
}

impl From<EndpointMessage> for Endpoint {
    fn from(message: EndpointMessage) -> Self {
        let name = |message: NameMessage| message.name.unwrap_or_default();
        Self {
            addresses: message.addresses,
            conditions: message.conditions.map(|given| EndpointConditions {
                ready: given.ready,
                serving: given.serving,
                terminating: given.terminating,
            }),
            deprecated_topology: given(message.deprecated_topology),
            hints: message.hints.map(|hints| {
                let zones = hints.for_zones.into_iter().map(name);
                let nodes = hints.for_nodes.into_iter().map(name);
                EndpointHints {
                    for_zones: given(zones.map(|name| ForZone { name }).collect()),
                    for_nodes: given(nodes.map(|name| ForNode { name }).collect()),
                }
            }),
            hostname: message.hostname,
            node_name: message.node_name,
            target_ref: message.target_ref.map(|target| ObjectReference {
                kind: target.kind,
                name: target.name,
                ..ObjectReference::default()
            }),
            zone: message.zone,
        }
    }
}

impl From<PortMessage> for EndpointPort {
    fn from(message: PortMessage) -> Self {
        Self {
            app_protocol: message.app_protocol,
            name: message.name,
            port: message.port,
            protocol: message.protocol,
        }
    }
}
