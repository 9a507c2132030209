//! EndpointSlices that are made from a few numbers when they are requested.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use causeway::api::labels;
use causeway::domain::short_hash;
use causeway_wire::encode;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::ServiceSpec;

/// UID of the hub's namespace kube-system.
pub(crate) const HUB_UID: &str = "0af77714-0000-4000-8000-000000000000";
pub(crate) const NAMESPACES: u32 = 50;
pub(crate) const CREATED: &str = "2026-01-01T00:00:00Z";
/// Number of different lists of endpoints.
const BLOCKS: u32 = 512;
/// Length of a text in place of managed fields, which all readers pass over too.
const FILLER: usize = 500;
/// Length of an empty field of a message.
const EMPTY: usize = 2;

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
    /// Returns the first slice of a service.
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

/// Returns an endpoint as an API server sends it; that of a copy has no version. Names and UIDs of
/// pods look random, so that they are no easier to compress than real ones.
fn endpoint(number: u32, version: Option<u32>) -> Endpoint {
    let address = match version {
        None | Some(0) => 0x0a00_0000 + number,
        // Another pod has another address.
        Some(version) => 0xac10_0000 | (version.wrapping_mul(2_654_435_761) ^ number) & 0x000f_ffff,
    };
    let zone = ["region-1-a", "region-1-b", "region-1-c"][number as usize % 3];
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let [one, two] = [(number, 0), (number, 1)].map(|seed| hasher.hash_one(seed));
    let (low, middle) = (one as u32, two & 0xfff);
    let pod = |_| ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("shop-00".to_owned()),
        name: Some(format!("frontend-service-6d4b75cb6d-{:05x}", one >> 44)),
        uid: Some(format!(
            "{low:08x}-5f3c-4{middle:03x}-9d2e-{:012x}",
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
        node_name: version.map(|_| format!("node-{:04}.compute.example", number % 1000)),
        target_ref: version.map(pod),
        zone: Some(zone.to_owned()),
        ..Endpoint::default()
    }
}

/// EndpointSlice before it is encoded.
pub(crate) struct Draft {
    metadata: ObjectMeta,
    content: Content,
}

/// Everything of an EndpointSlice but its metadata.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Content {
    /// Numbers of its endpoints.
    endpoints: Range<u32>,
    /// Number of times that the pod of the first endpoint was replaced. A copy has none: it lacks
    /// the nodes and pods of its source.
    version: Option<u32>,
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
    draft((id, spec), stored, metadata, Some(version))
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
    draft((id, spec), stored, metadata, None)
}

/// Adds what sources and copies have in common. `stored` is the resourceVersion; `version` is that
/// of a source.
fn draft(
    (id, spec): (SliceId, &ServiceSpec),
    stored: u64,
    metadata: ObjectMeta,
    version: Option<u32>,
) -> Draft {
    let number = id.service.wrapping_mul(10) + u32::from(id.slice);
    let first = number % BLOCKS * 100;
    Draft {
        metadata: ObjectMeta {
            namespace: Some(namespace(id.service)),
            resource_version: Some(stored.to_string()),
            generate_name: Some("-".repeat(FILLER)),
            ..metadata
        },
        content: Content {
            endpoints: first..first + u32::from(spec.endpoints),
            version,
        },
    }
}

impl Draft {
    /// Returns the slice.
    pub(crate) fn slice(self) -> EndpointSlice {
        EndpointSlice {
            metadata: self.metadata,
            ..self.content.slice()
        }
    }

    /// Returns the slice in that encoding. Only protobuf is requested of many slices.
    pub(crate) fn encode(self, encoding: Encoding) -> Vec<u8> {
        if encoding == Encoding::Json {
            return serde_json::to_vec(&self.slice()).expect("an EndpointSlice");
        }
        let mut out = encode(&EndpointSlice {
            metadata: self.metadata,
            ..EndpointSlice::default()
        });
        // An empty type of addresses follows the metadata.
        out.truncate(out.len() - EMPTY);
        out.extend_from_slice(&self.content.encoded());
        out
    }
}

impl Content {
    /// Returns a slice without metadata.
    fn slice(&self) -> EndpointSlice {
        let others = self.version.and(Some(0));
        let mut endpoints = self.endpoints.clone();
        let first = endpoints.next().map(|first| endpoint(first, self.version));
        let endpoints = first
            .into_iter()
            .chain(endpoints.map(|other| endpoint(other, others)));
        let port = EndpointPort {
            name: Some("http".to_owned()),
            port: Some(8080),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        };
        EndpointSlice {
            endpoints: endpoints.collect(),
            address_type: "IPv4".to_owned(),
            ports: Some(vec![port]),
            ..EndpointSlice::default()
        }
    }

    /// Returns the fields of the message after the metadata; those of a first version come from a
    /// cache, as many slices share them.
    fn encoded(&self) -> Arc<[u8]> {
        static ENCODED: LazyLock<Mutex<HashMap<Content, Arc<[u8]>>>> =
            LazyLock::new(Mutex::default);
        let encoded = || encode(&self.slice())[EMPTY..].into();
        if self.version > Some(0) {
            return encoded();
        }
        let mut all = ENCODED.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(self.clone()).or_insert_with(encoded).clone()
    }
}
