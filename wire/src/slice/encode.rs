//! Encoder of slices: the fields of `k8s.io/api/discovery/v1/generated.proto`, by their numbers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use crate::protobuf::Message;

/// Number of the field of a slice's endpoints.
pub(super) const ENDPOINTS: u32 = 2;

/// Returns the message `k8s.io.api.discovery.v1.EndpointSlice` of a slice. Of the fields of the
/// metadata that only API servers set, it has UID, resourceVersion and time of deletion.
pub fn encode(slice: &EndpointSlice) -> Vec<u8> {
    let EndpointSlice {
        metadata,
        endpoints,
        ports,
        address_type,
    } = slice;
    let mut out = Vec::with_capacity(512 + 64 * endpoints.len());
    out.message(1, |out| push_metadata(out, metadata));
    for endpoint in endpoints {
        out.message(ENDPOINTS, |out| push_endpoint(out, endpoint));
    }
    for port in ports.iter().flatten() {
        out.message(3, |out| push_port(out, port));
    }
    out.bytes(4, address_type.as_bytes());
    out
}

/// Adds a text, if there is one.
pub(super) fn push_text(out: &mut Vec<u8>, field: u32, text: Option<&str>) {
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

pub(super) fn push_metadata(out: &mut Vec<u8>, metadata: &ObjectMeta) {
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
        deletion_timestamp,
        creation_timestamp: _,
        deletion_grace_period_seconds: _,
        generation: _,
        managed_fields: _,
        self_link: _,
    } = metadata;
    push_text(out, 1, name.as_deref());
    push_text(out, 2, generate_name.as_deref());
    push_text(out, 3, namespace.as_deref());
    push_text(out, 5, uid.as_deref());
    push_text(out, 6, resource_version.as_deref());
    if let Some(Time(time)) = deletion_timestamp {
        // Rounded down, as in JSON.
        let seconds = time.as_second() - i64::from(time.subsec_nanosecond() < 0);
        out.message(9, |out| out.number(1, seconds.cast_unsigned()));
    }
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

pub(super) fn push_endpoint(out: &mut Vec<u8>, endpoint: &Endpoint) {
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
        let EndpointConditions {
            ready,
            serving,
            terminating,
        } = *conditions;
        push_conditions(out, [ready, serving, terminating]);
    }
    push_text(out, 3, hostname.as_deref());
    if let Some(target) = target_ref {
        out.message(4, |out| push_reference(out, target));
    }
    push_map(out, 5, deprecated_topology.as_ref());
    push_text(out, 6, node_name.as_deref());
    push_text(out, 7, zone.as_deref());
    if let Some(hints) = hints {
        let EndpointHints {
            for_nodes,
            for_zones,
        } = hints;
        let zones = for_zones.iter().flatten().map(|zone| &*zone.name);
        let nodes = for_nodes.iter().flatten().map(|node| &*node.name);
        push_hints(out, zones, nodes);
    }
}

/// Adds the conditions of an endpoint: ready, serving and terminating.
pub(super) fn push_conditions(out: &mut Vec<u8>, conditions: [Option<bool>; 3]) {
    out.message(2, |out| {
        for (field, given) in (1..).zip(conditions) {
            push_flag(out, field, given);
        }
    });
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
        push_text(out, field, text.as_deref());
    }
}

/// Adds the names of the zones and of the nodes in the hints of an endpoint.
pub(super) fn push_hints<'a>(
    out: &mut Vec<u8>,
    zones: impl Iterator<Item = &'a str>,
    nodes: impl Iterator<Item = &'a str>,
) {
    let push = |out: &mut Vec<u8>, field, name: &str| {
        out.message(field, |out| out.bytes(1, name.as_bytes()));
    };
    out.message(8, |out| {
        zones.for_each(|zone| push(out, 1, zone));
        nodes.for_each(|node| push(out, 2, node));
    });
}

pub(super) fn push_port(out: &mut Vec<u8>, port: &EndpointPort) {
    let EndpointPort {
        app_protocol,
        name,
        port,
        protocol,
    } = port;
    push_text(out, 1, name.as_deref());
    push_text(out, 2, protocol.as_deref());
    if let Some(number) = port {
        out.number(3, i64::from(*number).cast_unsigned());
    }
    push_text(out, 4, app_protocol.as_deref());
}
