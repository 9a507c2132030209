//! EndpointSlices are decoded and encoded as other implementations do it: `k8s-openapi` with
//! `serde_json`, and `prost` with messages after Kubernetes' own definitions.

mod messages;

use std::net::{Ipv4Addr, Ipv6Addr};

use causeway_wire::protobuf::{enveloped, object};
use causeway_wire::{
    ContentHash, Object, PageReader, Places, RawSlice, SliceManager, SourceSlice, encode, message,
};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use prost::Message as _;

use self::messages::{ListMessage, SliceMessage};

/// Labels and annotations whose values are hashed.
const HASHED: [&str; 2] = ["a", "b"];

/// Content that a caller takes from a slice.
#[derive(Debug, PartialEq)]
struct Content {
    meta: ObjectMeta,
    labels: [Option<String>; 2],
    annotations: [Option<String>; 2],
    source: Option<SourceSlice>,
    hash: Option<ContentHash>,
}

fn content(object: Object<'_>) -> Option<Content> {
    let message = message(object).ok()?;
    let slice = RawSlice::decode(&message).ok()?;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let labels = HASHED.map(|name| slice.label(name));
    let annotations = HASHED.map(|name| slice.annotation(name));
    let hash = slice.content_hash(labels.into_iter().chain(annotations));
    Some(Content {
        labels: labels.map(owned),
        annotations: annotations.map(owned),
        source: slice.source(SliceManager::Other, &mut Places::default()),
        hash: hash.ok(),
        meta: slice.into_meta(),
    })
}

/// Returns addresses, host name, zone, node and conditions of the endpoints whose addresses are of
/// the slice's type, straight from the typed object.
fn endpoints(slice: &EndpointSlice) -> Vec<String> {
    let is_usable = |address: &String| match &*slice.address_type {
        "IPv4" => address.parse::<Ipv4Addr>().is_ok(),
        "IPv6" => address.parse::<Ipv6Addr>().is_ok(),
        _ => false,
    };
    let usable = slice.endpoints.iter().filter(|endpoint| {
        !endpoint.addresses.is_empty() && endpoint.addresses.iter().all(is_usable)
    });
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    usable
        .map(|endpoint| {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            format!(
                "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                endpoint.addresses,
                text(&endpoint.hostname),
                text(&endpoint.zone),
                text(&endpoint.node_name),
                conditions.ready,
                conditions.serving,
                conditions.terminating,
            )
        })
        .collect()
}

fn compact_endpoints(source: &SourceSlice) -> Vec<String> {
    let texts = source.endpoints().map(|endpoint| {
        let addresses: Vec<_> = endpoint.addresses().map(|one| one.to_string()).collect();
        let [ready, serving, terminating] = endpoint.conditions;
        format!(
            "{addresses:?} {:?} {:?} {:?} {ready:?} {serving:?} {terminating:?}",
            endpoint.hostname.unwrap_or_default(),
            endpoint.zone.unwrap_or_default(),
            endpoint.node.unwrap_or_default(),
        )
    });
    texts.collect()
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z]{1,4}",
        1 => Just("ä\"\\\n".to_owned()),
        1 => Just("x".repeat(300)),
    ]
}

fn any_address() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => any::<Ipv4Addr>().prop_map(|address| address.to_string()),
        3 => any::<Ipv6Addr>().prop_map(|address| address.to_string()),
        1 => any_text(),
    ]
}

prop_compose! {
    fn any_hints()(
        zones in of(vec(any_text(), 0..3)), nodes in of(vec(any_text(), 0..3)),
    ) -> EndpointHints {
        EndpointHints {
            for_zones: zones.map(|all| all.into_iter().map(|name| ForZone { name }).collect()),
            for_nodes: nodes.map(|all| all.into_iter().map(|name| ForNode { name }).collect()),
        }
    }
}

prop_compose! {
    fn any_endpoint()(
        addresses in vec(any_address(), 0..3),
        conditions in of(any::<[Option<bool>; 3]>()),
        [hostname, node_name, zone] in [of(any_text()), of(any_text()), of(any_text())],
        topology in of(btree_map(any_text(), any_text(), 1..3)),
        hints in of(any_hints()),
        target in of(any_text()),
    ) -> Endpoint {
        Endpoint {
            addresses,
            conditions: conditions.map(|[ready, serving, terminating]| {
                EndpointConditions { ready, serving, terminating }
            }),
            deprecated_topology: topology,
            hints,
            hostname,
            node_name,
            target_ref: target.map(|name| ObjectReference {
                kind: Some("Pod".to_owned()),
                name: Some(name),
                ..ObjectReference::default()
            }),
            zone,
        }
    }
}

prop_compose! {
    fn any_port()(
        name in of(any_text()),
        port in of(any::<i32>()),
        protocol in of(prop_oneof![Just("TCP".to_owned()), Just("UDP".to_owned()), any_text()]),
        app_protocol in of(any_text()),
    ) -> EndpointPort {
        EndpointPort { app_protocol, name, port, protocol }
    }
}

prop_compose! {
    fn any_owner()(
        [api_version, kind, name, uid] in [any_text(), any_text(), any_text(), any_text()],
        controller in of(any::<bool>()),
    ) -> OwnerReference {
        OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion: None }
    }
}

prop_compose! {
    fn any_slice()(
        [name, namespace, uid] in [any_text(), any_text(), any_text()],
        version in any::<u64>(),
        labels in of(btree_map("[a-c]", any_text(), 1..4)),
        annotations in of(btree_map("[a-c]", any_text(), 1..4)),
        owners in of(vec(any_owner(), 1..3)),
        finalizers in of(vec(any_text(), 1..2)),
        address_type in prop_oneof![4 => Just("IPv4"), 2 => Just("IPv6"), 1 => Just("FQDN")],
        endpoints in vec(any_endpoint(), 0..5),
        ports in of(vec(any_port(), 1..4)),
    ) -> EndpointSlice {
        EndpointSlice {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                uid: Some(uid),
                resource_version: Some(version.to_string()),
                labels,
                annotations,
                owner_references: owners,
                finalizers,
                ..ObjectMeta::default()
            },
            address_type: address_type.to_owned(),
            endpoints,
            ports,
        }
    }
}

proptest! {
    #[test]
    fn slice_is_decoded_alike_from_every_encoding(slice in any_slice()) {
        let json = serde_json::to_string(&slice).expect("JSON");
        let prost = SliceMessage::from(&slice).encode_to_vec();
        let of_prost = content(Object::Protobuf(&prost)).expect("a slice");
        for object in [Object::Json(&json), Object::Protobuf(&encode(&slice))] {
            let decoded = content(object);
            prop_assert_eq!(decoded.as_ref(), Some(&of_prost));
        }
        prop_assert!(of_prost.hash.is_some());
        let source = of_prost.source.expect("a source");
        prop_assert_eq!(compact_endpoints(&source), endpoints(&slice));
        let odd = slice.endpoints.len() - source.len();
        let is_ip = slice.address_type != "FQDN";
        prop_assert_eq!(source.odd as usize, if is_ip { odd } else { 0 });
    }

    #[test]
    fn encoded_slice_is_what_prost_decodes(slice in any_slice()) {
        let decoded = SliceMessage::decode(&*encode(&slice)).expect("a message");
        prop_assert_eq!(&EndpointSlice::from(decoded), &without_empty_lists(slice.clone()));
    }

    #[test]
    fn page_of_prost_is_read_in_parts_of_any_size(
        slices in vec(any_slice(), 0..4), part in 1_usize..2000, token in "[a-z]{0,4}",
    ) {
        let encoded = |slice| SliceMessage::from(slice).encode_to_vec();
        let items: Vec<_> = slices.iter().map(encoded).collect();
        let list = ListMessage::new("77", &token, items.clone()).encode_to_vec();
        let answer = enveloped("discovery.k8s.io/v1", "EndpointSliceList", &list);
        prop_assert_eq!(object(&answer), Ok(&*list));
        let (mut buffer, mut read) = (Vec::new(), Vec::new());
        let mut reader = PageReader::new(usize::MAX, usize::MAX, &mut buffer);
        for mut part in answer.chunks(part) {
            while let Some(object) = reader.next(&mut part).expect("a page") {
                match object {
                    Object::Protobuf(message) => read.push(message.to_vec()),
                    Object::Json(text) => panic!("JSON: {text}"),
                }
            }
        }
        let (page, rest) = reader.finish().expect("a page");
        let next = page.token.as_deref().unwrap_or_default();
        prop_assert_eq!((&*page.version, next), ("77", &*token));
        prop_assert!(rest.is_empty());
        prop_assert_eq!(read, items);
    }
}

/// Returns the slice as protobuf can represent it, which has no empty lists.
fn without_empty_lists(mut slice: EndpointSlice) -> EndpointSlice {
    let hints = slice.endpoints.iter_mut().flat_map(|one| &mut one.hints);
    for EndpointHints {
        for_nodes,
        for_zones,
    } in hints
    {
        *for_nodes = for_nodes.take().filter(|all| !all.is_empty());
        *for_zones = for_zones.take().filter(|all| !all.is_empty());
    }
    slice
}
