//! EndpointSlices that are made from a few numbers when they are requested.
//!
//! Metadata is made from typed objects. Endpoints come from a few blocks, which are encoded once.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::LazyLock;

use bytes::Bytes;
use causeway::api::labels;
use causeway::domain::short_hash;
use causeway_wire::encode;
use causeway_wire::protobuf::Fields;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use parking_lot::Mutex;

use super::ServiceSpec;

/// UID of the hub's namespace kube-system.
pub(crate) const HUB_UID: &str = "0af77714-0000-4000-8000-000000000000";
pub(crate) const NAMESPACES: u32 = 50;
pub(crate) const CREATED: &str = "2026-01-01T00:00:00Z";
/// Number of different lists of endpoints.
const BLOCKS: u32 = 512;
/// Length of a text in place of managed fields, which all readers pass over too.
const FILLER: usize = 500;

/// Encoding of an EndpointSlice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// Slice of a service, in its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SliceId {
    pub(crate) service: u32,
    pub(crate) slice: u16,
}

/// Kind of a UID.
#[derive(Clone, Copy)]
pub(crate) enum UidOf {
    Source = 1,
    Copy,
    Service,
    MultiClusterService,
    Member,
    Cluster,
    Other,
}

pub(crate) fn namespace(service: u32) -> String {
    format!("shop-{:02}", service % NAMESPACES)
}

pub(crate) fn service_name(service: u32) -> String {
    format!("service-{service:06}")
}

pub(crate) fn member_name(member: impl Into<usize>) -> String {
    format!("member-{:03}", member.into())
}

/// Returns a UID that only one object of its kind has.
pub(crate) fn uid(of: UidOf, one: u32, other: u32) -> String {
    format!("{one:08x}-{:04x}-4000-8000-{other:012x}", of as u8)
}

impl SliceId {
    pub(crate) fn first(service: u32) -> Self {
        Self { service, slice: 0 }
    }

    pub(crate) fn name(self) -> String {
        format!("{}-{:03}", service_name(self.service), self.slice)
    }

    pub(crate) fn uid(self) -> String {
        uid(UidOf::Source, self.service, self.slice.into())
    }

    /// Returns the slice of that UID; `None` if the UID is not that of a source.
    pub(crate) fn of_uid(text: &str) -> Option<Self> {
        let (service, rest) = text.split_once("-0001-4000-8000-")?;
        Some(Self {
            service: u32::from_str_radix(service, 16).ok()?,
            slice: u16::from_str_radix(rest, 16).ok()?,
        })
    }

    /// Returns the name of its copies.
    pub(crate) fn copy_name(self, provider: &str) -> String {
        let name = self.name();
        let hash = short_hash(["native", provider, &name, "IPv4"]);
        format!("{provider}-{name}-{hash}")
    }

    /// Returns the UID of its copy in a consumer.
    pub(crate) fn copy_uid(self, consumer: u32) -> String {
        let place = u32::from(self.slice) << 16 | consumer;
        uid(UidOf::Copy, self.service, place)
    }
}

/// Returns an endpoint as an API server sends it. Names and UIDs of pods look random, so that they
/// are no easier to compress than real ones.
fn endpoint(is_source: bool, number: u32, version: u32) -> Endpoint {
    let address = match version {
        0 => 0x0a00_0000 + number,
        // Another pod has another address.
        _ => 0xac10_0000 | (version.wrapping_mul(2_654_435_761) ^ number) & 0x000f_ffff,
    };
    let zone = ["region-1-a", "region-1-b", "region-1-c"][number as usize % 3];
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let [one, two] = [(number, 0), (number, 1)].map(|seed| hasher.hash_one(seed));
    let (low, version) = (one as u32, two & 0xfff);
    let pod = || ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("shop-00".to_owned()),
        name: Some(format!("frontend-service-6d4b75cb6d-{:05x}", one >> 44)),
        uid: Some(format!(
            "{low:08x}-5f3c-4{version:03x}-9d2e-{:012x}",
            two >> 16
        )),
        ..ObjectReference::default()
    };
    Endpoint {
        addresses: vec![Ipv4Addr::from(address).to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            serving: Some(true),
            terminating: Some(false),
        }),
        node_name: is_source.then(|| format!("node-{:04}.compute.example", number % 1000)),
        target_ref: is_source.then(pod),
        zone: Some(zone.to_owned()),
        ..Endpoint::default()
    }
}

/// Encodes endpoints as they are within a slice, in JSON with a comma after each.
fn encoded(encoding: Encoding, endpoints: Vec<Endpoint>) -> Vec<u8> {
    if encoding == Encoding::Json {
        let list = serde_json::to_string(&endpoints).expect("endpoints");
        return format!("{},", &list[1..list.len() - 1]).into_bytes();
    }
    let slice = encode(&EndpointSlice {
        endpoints,
        ..EndpointSlice::default()
    });
    // Empty metadata is before them, and an empty type of addresses after them.
    slice[2..slice.len() - 2].to_vec()
}

/// Returns encoded endpoints of the first version, from a cache.
fn block(encoding: Encoding, is_source: bool, numbers: Range<u32>) -> Bytes {
    type Blocks = HashMap<(Encoding, bool, Range<u32>), Bytes>;
    static BLOCKS: LazyLock<Mutex<Blocks>> = LazyLock::new(Mutex::default);
    let mut blocks = BLOCKS.lock();
    let block = blocks.entry((encoding, is_source, numbers.clone()));
    let block = block.or_insert_with(|| {
        let endpoints = numbers.map(|number| endpoint(is_source, number, 0));
        encoded(encoding, endpoints.collect()).into()
    });
    block.clone()
}

/// EndpointSlice before it is encoded.
pub(crate) struct Draft {
    metadata: ObjectMeta,
    /// Whether it bears what Kubernetes' controller says of each pod, which copies lack.
    is_source: bool,
    /// Numbers of its endpoints.
    endpoints: Range<u32>,
    /// Number of changes.
    version: u32,
}

/// Returns labels or annotations.
pub(crate) fn texts<const N: usize>(pairs: [(&str, &str); N]) -> Option<BTreeMap<String, String>> {
    let owned = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(owned.into())
}

/// Returns the slice of a provider, a pod of which was replaced `version` times.
pub(crate) fn source(id: SliceId, spec: &ServiceSpec, version: u32, stored: u64) -> Draft {
    let of = service_name(id.service);
    let metadata = ObjectMeta {
        name: Some(id.name()),
        uid: Some(id.uid()),
        labels: texts([
            ("app", &of),
            (labels::SLICE_MANAGED_BY, labels::SLICE_CONTROLLER),
            (labels::SERVICE_NAME, &of),
        ]),
        annotations: texts([("endpoints.kubernetes.io/last-change-trigger-time", CREATED)]),
        owner_references: Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            uid: uid(UidOf::Service, id.service, 0),
            name: of,
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    };
    Draft {
        is_source: true,
        version,
        ..draft(id, spec, stored, metadata)
    }
}

/// Returns the copy of the first version of a slice in a consumer, as causeway wrote it.
pub(crate) fn copy(
    id: SliceId,
    spec: &ServiceSpec,
    consumer: u32,
    source_version: u64,
    stored: u64,
) -> Draft {
    let provider = member_name(spec.provider);
    let owner = uid(UidOf::MultiClusterService, id.service, 0);
    let metadata = ObjectMeta {
        name: Some(id.copy_name(&provider)),
        uid: Some(id.copy_uid(consumer)),
        labels: texts([
            (labels::SERVICE_NAME, &service_name(id.service)),
            (labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER),
            (labels::SOURCE_CLUSTER, &provider),
            (labels::MANAGED_BY, labels::MANAGER),
            (labels::HUB, HUB_UID),
        ]),
        annotations: texts([
            (labels::PROVISION_CLUSTER, &provider),
            (labels::OWNER, &format!("MultiClusterService/{owner}")),
            (labels::SOURCE, &format!("{}/{source_version}", id.uid())),
        ]),
        ..ObjectMeta::default()
    };
    draft(id, spec, stored, metadata)
}

/// Adds what sources and copies have in common. `stored` is the resourceVersion.
fn draft(id: SliceId, spec: &ServiceSpec, stored: u64, metadata: ObjectMeta) -> Draft {
    let number = id.service.wrapping_mul(10) + u32::from(id.slice);
    let first = number % BLOCKS * 100;
    Draft {
        metadata: ObjectMeta {
            namespace: Some(namespace(id.service)),
            resource_version: Some(stored.to_string()),
            generate_name: Some("-".repeat(FILLER)),
            ..metadata
        },
        is_source: false,
        endpoints: first..first + u32::from(spec.endpoints),
        version: 0,
    }
}

impl Draft {
    pub(crate) fn encode(self, encoding: Encoding) -> Vec<u8> {
        const EMPTY: &str = r#""endpoints":["#;
        let (mut endpoints, mut numbers) = (Vec::new(), self.endpoints);
        if self.version > 0
            && let Some(first) = numbers.next()
        {
            let first = endpoint(self.is_source, first, self.version);
            endpoints = encoded(encoding, vec![first]);
        }
        endpoints.extend_from_slice(&block(encoding, self.is_source, numbers));
        let port = EndpointPort {
            name: Some("http".to_owned()),
            port: Some(8080),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        };
        let slice = EndpointSlice {
            metadata: self.metadata,
            address_type: "IPv4".to_owned(),
            ports: Some(vec![port]),
            endpoints: Vec::new(),
        };
        let (mut out, at) = match encoding {
            Encoding::Json => {
                endpoints.pop();
                let text = serde_json::to_string(&slice).expect("an EndpointSlice");
                let at = text.find(EMPTY).expect("a list") + EMPTY.len();
                (text.into_bytes(), at)
            }
            Encoding::Protobuf => {
                let message = encode(&slice);
                let mut fields = Fields::of(&message);
                fields.next();
                let at = message.len() - fields.rest().len();
                (message, at)
            }
        };
        out.splice(at..at, endpoints);
        out
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::{Object, RawSlice};

    use super::*;

    #[test]
    fn both_encodings_say_the_same() {
        let id = SliceId {
            service: 70_000,
            slice: 3,
        };
        let spec = ServiceSpec::new(1, [2]).slices(4, 100);
        let labels = [labels::SERVICE_NAME, labels::SOURCE, labels::HUB];
        let drafts = || [source(id, &spec, 1, 77), copy(id, &spec, 2, 77, 78)];
        let [json, protobuf] =
            [Encoding::Json, Encoding::Protobuf].map(|one| drafts().map(|draft| draft.encode(one)));
        for (json, message) in json.iter().zip(&protobuf) {
            let json = str::from_utf8(json).unwrap();
            let objects = [Object::Json(json), Object::Protobuf(message)];
            let [json, message] = objects.map(|object| {
                let message = causeway_wire::message(object).unwrap();
                let slice = RawSlice::decode(&message).unwrap();
                let values = labels.map(|name| slice.label(name).or(slice.annotation(name)));
                slice.content_hash(values.into_iter()).unwrap()
            });
            assert_eq!(json, message);
        }
    }
}
