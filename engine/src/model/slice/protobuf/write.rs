//! A slice as it is written. What only API servers set of an object's metadata is left out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::model::protobuf::Message;

/// The message of a slice.
pub fn slice_message(slice: &EndpointSlice) -> Vec<u8> {
    let EndpointSlice {
        metadata,
        endpoints,
        ports,
        address_type,
    } = slice;
    let mut out = Vec::with_capacity(512 + 64 * endpoints.len());
    out.message(1, |out| push_metadata(out, metadata));
    for endpoint in endpoints {
        out.message(2, |out| push_endpoint(out, endpoint));
    }
    for port in ports.iter().flatten() {
        out.message(3, |out| push_port(out, port));
    }
    out.bytes(4, address_type.as_bytes());
    out
}

fn push_text(out: &mut Vec<u8>, field: u32, text: Option<&String>) {
    if let Some(text) = text {
        out.bytes(field, text.as_bytes());
    }
}

fn push_map(out: &mut Vec<u8>, field: u32, map: Option<&BTreeMap<String, String>>) {
    for (name, value) in map.into_iter().flatten() {
        out.message(field, |out| {
            out.bytes(1, name.as_bytes());
            out.bytes(2, value.as_bytes());
        });
    }
}

fn push_flag(out: &mut Vec<u8>, field: u32, flag: Option<bool>) {
    if let Some(flag) = flag {
        out.number(field, flag.into());
    }
}

fn push_metadata(out: &mut Vec<u8>, metadata: &ObjectMeta) {
    let ObjectMeta {
        name,
        generate_name,
        namespace,
        uid,
        resource_version,
        labels,
        annotations,
        owner_references,
        finalizers,
        creation_timestamp: _,
        deletion_grace_period_seconds: _,
        deletion_timestamp: _,
        generation: _,
        managed_fields: _,
        self_link: _,
    } = metadata;
    push_text(out, 1, name.as_ref());
    push_text(out, 2, generate_name.as_ref());
    push_text(out, 3, namespace.as_ref());
    push_text(out, 5, uid.as_ref());
    push_text(out, 6, resource_version.as_ref());
    push_map(out, 11, labels.as_ref());
    push_map(out, 12, annotations.as_ref());
    for owner in owner_references.iter().flatten() {
        out.message(13, |out| push_owner(out, owner));
    }
    for finalizer in finalizers.iter().flatten() {
        out.bytes(14, finalizer.as_bytes());
    }
}

fn push_owner(out: &mut Vec<u8>, owner: &OwnerReference) {
    let OwnerReference {
        api_version,
        block_owner_deletion,
        controller,
        kind,
        name,
        uid,
    } = owner;
    out.bytes(1, kind.as_bytes());
    out.bytes(3, name.as_bytes());
    out.bytes(4, uid.as_bytes());
    out.bytes(5, api_version.as_bytes());
    push_flag(out, 6, *controller);
    push_flag(out, 7, *block_owner_deletion);
}

fn push_endpoint(out: &mut Vec<u8>, endpoint: &Endpoint) {
    let Endpoint {
        addresses,
        conditions,
        deprecated_topology,
        hints,
        hostname,
        node_name,
        target_ref,
        zone,
    } = endpoint;
    for address in addresses {
        out.bytes(1, address.as_bytes());
    }
    if let Some(conditions) = conditions {
        out.message(2, |out| push_conditions(out, conditions));
    }
    push_text(out, 3, hostname.as_ref());
    if let Some(target) = target_ref {
        out.message(4, |out| push_reference(out, target));
    }
    push_map(out, 5, deprecated_topology.as_ref());
    push_text(out, 6, node_name.as_ref());
    push_text(out, 7, zone.as_ref());
    if let Some(hints) = hints {
        out.message(8, |out| push_hints(out, hints));
    }
}

fn push_conditions(out: &mut Vec<u8>, conditions: &EndpointConditions) {
    let EndpointConditions {
        ready,
        serving,
        terminating,
    } = conditions;
    push_flag(out, 1, *ready);
    push_flag(out, 2, *serving);
    push_flag(out, 3, *terminating);
}

fn push_reference(out: &mut Vec<u8>, target: &ObjectReference) {
    let ObjectReference {
        api_version,
        field_path,
        kind,
        name,
        namespace,
        resource_version,
        uid,
    } = target;
    for (field, text) in [
        (1, kind),
        (2, namespace),
        (3, name),
        (4, uid),
        (5, api_version),
        (6, resource_version),
        (7, field_path),
    ] {
        push_text(out, field, text.as_ref());
    }
}

fn push_hints(out: &mut Vec<u8>, hints: &EndpointHints) {
    let EndpointHints {
        for_nodes,
        for_zones,
    } = hints;
    for zone in for_zones.iter().flatten() {
        out.message(1, |out| out.bytes(1, zone.name.as_bytes()));
    }
    for node in for_nodes.iter().flatten() {
        out.message(2, |out| out.bytes(1, node.name.as_bytes()));
    }
}

fn push_port(out: &mut Vec<u8>, port: &EndpointPort) {
    let EndpointPort {
        app_protocol,
        name,
        port,
        protocol,
    } = port;
    push_text(out, 1, name.as_ref());
    push_text(out, 2, protocol.as_ref());
    if let Some(number) = port {
        out.number(3, i64::from(*number).cast_unsigned());
    }
    push_text(out, 4, app_protocol.as_ref());
}
