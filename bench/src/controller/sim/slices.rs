//! EndpointSlices that are made from a few numbers when they are requested.
//!
//! Metadata is made from typed objects. Endpoints come from a few blocks, which are encoded once.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use causeway::api::labels;
use causeway::domain::short_hash;
use causeway_wire::encode;
use causeway_wire::protobuf::{Fields, Message as _};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::ServiceSpec;

/// UID of the hub's namespace kube-system.
pub(crate) const HUB_UID: &str = "0af77714-0000-4000-8000-000000000000";
pub(crate) const NAMESPACES: u32 = 50;
pub(crate) const CREATED: &str = "2026-01-01T00:00:00Z";
/// [`CREATED`] in seconds of Unix time.
const CREATED_SECONDS: u64 = 1_767_225_600;
/// Number of different lists of endpoints.
const BLOCKS: u32 = 512;
/// Managed fields, as long as real ones.
const FIELDS: &str = r#"{"f:addressType":{},"f:endpoints":{},"f:metadata":{"f:annotations":{".":{},"f:endpointslice.karmada.io/provision-cluster":{},"f:mcs.causeway.dev/owner":{},"f:mcs.causeway.dev/source":{}},"f:labels":{".":{},"f:app.kubernetes.io/managed-by":{},"f:endpointslice.kubernetes.io/managed-by":{},"f:kubernetes.io/service-name":{},"f:mcs.causeway.dev/hub":{},"f:multicluster.kubernetes.io/source-cluster":{}}},"f:ports":{}}"#;

/// Encoding of an EndpointSlice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
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

/// Returns the number of the service of that name.
pub(crate) fn service_number(name: &str) -> Option<u32> {
    name.strip_prefix("service-")?.parse().ok()
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

    /// Returns the slice of that name; `None` if the name is not that of a source.
    pub(crate) fn of_name(text: &str) -> Option<Self> {
        let (service, slice) = text.rsplit_once('-')?;
        Some(Self {
            service: service_number(service)?,
            slice: slice.parse().ok()?,
        })
    }

    pub(crate) fn uid(self) -> String {
        uid(UidOf::Source, self.service, self.slice.into())
    }

    /// Returns the slice of that UID.
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
    pub(crate) fn copy_uid(self, consumer: usize) -> String {
        let place = u32::try_from(consumer).unwrap_or_default();
        uid(
            UidOf::Copy,
            self.service,
            u32::from(self.slice) << 16 | place,
        )
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
    let random = [2 * number, 2 * number + 1].map(|number| scattered(number.into()));
    let pod = || ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some("shop-00".to_owned()),
        name: Some(format!(
            "frontend-service-6d4b75cb6d-{:05x}",
            random[0] >> 44
        )),
        uid: Some(format!(
            "{:08x}-5f3c-4{:03x}-9d2e-{:012x}",
            random[0] as u32,
            random[1] & 0xfff,
            random[1] >> 16
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

/// Returns a step of SplitMix64.
fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Appends an endpoint as it is within a slice; in JSON with a comma before it.
fn push_endpoint(encoding: Encoding, endpoint: Endpoint, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Json => {
            out.push(b',');
            serde_json::to_writer(out, &endpoint).expect("an Endpoint");
        }
        Encoding::Protobuf => {
            let slice = encode(&EndpointSlice {
                endpoints: vec![endpoint],
                ..EndpointSlice::default()
            });
            out.bytes(2, field(&slice, 2));
        }
    }
}

fn field(message: &[u8], number: u32) -> &[u8] {
    let mut fields = Fields::of(message).flatten();
    let found = fields.find(|field| field.0 == number);
    found.map_or(&[], |(_, value)| value.bytes())
}

/// Returns encoded endpoints of the first version, from a cache.
fn block(encoding: Encoding, is_source: bool, numbers: Range<u32>) -> Bytes {
    type Blocks = HashMap<(Encoding, bool, Range<u32>), Bytes>;
    static BLOCKS: LazyLock<Mutex<Blocks>> = LazyLock::new(Mutex::default);
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let encoded = blocks.entry((encoding, is_source, numbers.clone()));
    let encoded = encoded.or_insert_with(|| {
        let mut out = Vec::new();
        for number in numbers {
            push_endpoint(encoding, endpoint(is_source, number, 0), &mut out);
        }
        out.into()
    });
    encoded.clone()
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

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> Option<BTreeMap<String, String>> {
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
    consumer: usize,
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
            ..metadata
        },
        is_source: false,
        endpoints: first..first + u32::from(spec.endpoints),
        version: 0,
    }
}

impl Draft {
    /// Returns the slice.
    pub(crate) fn encode(&self, encoding: Encoding) -> Vec<u8> {
        let (mut endpoints, mut numbers) = (Vec::new(), self.endpoints.clone());
        if self.version > 0
            && let Some(first) = numbers.next()
        {
            let first = endpoint(self.is_source, first, self.version);
            push_endpoint(encoding, first, &mut endpoints);
        }
        endpoints.extend_from_slice(&block(encoding, self.is_source, numbers));
        let manager = if self.is_source {
            "kube-controller-manager"
        } else {
            labels::MANAGER
        };
        match encoding {
            Encoding::Json => self.json(manager, &endpoints),
            Encoding::Protobuf => self.protobuf(manager, &endpoints),
        }
    }

    fn json(&self, manager: &str, endpoints: &[u8]) -> Vec<u8> {
        let metadata = serde_json::to_string(&self.metadata).expect("metadata");
        let metadata = metadata.strip_suffix('}').unwrap_or_default();
        let head = format!(
            r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{metadata},"generation":{},"creationTimestamp":"{CREATED}","managedFields":[{{"manager":"{manager}","operation":"Update","apiVersion":"discovery.k8s.io/v1","time":"{CREATED}","fieldsType":"FieldsV1","fieldsV1":{FIELDS}}}]}},"addressType":"IPv4","ports":[{{"name":"http","port":8080,"protocol":"TCP"}}],"endpoints":["#,
            self.version + 1,
        );
        let endpoints = endpoints.get(1..).unwrap_or_default();
        [head.as_bytes(), endpoints, b"]}"].concat()
    }

    fn protobuf(&self, manager: &str, endpoints: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(endpoints.len() + 2048);
        let metadata = encode(&EndpointSlice {
            metadata: self.metadata.clone(),
            ..EndpointSlice::default()
        });
        out.message(1, |out| {
            out.extend_from_slice(field(&metadata, 1));
            out.number(7, u64::from(self.version) + 1);
            push_created(out, 8);
            out.message(17, |out| {
                out.bytes(1, manager.as_bytes());
                out.bytes(2, b"Update");
                out.bytes(3, b"discovery.k8s.io/v1");
                push_created(out, 4);
                out.bytes(6, b"FieldsV1");
                out.message(7, |out| out.bytes(1, FIELDS.as_bytes()));
            });
        });
        out.extend_from_slice(endpoints);
        out.message(3, |out| {
            out.bytes(1, b"http");
            out.bytes(2, b"TCP");
            out.number(3, 8080);
        });
        out.bytes(4, b"IPv4");
        out
    }
}

/// Adds the time at which everything was created.
pub(crate) fn push_created(out: &mut Vec<u8>, field: u32) {
    out.message(field, |out| out.number(1, CREATED_SECONDS));
}

#[cfg(test)]
mod tests {
    use causeway_engine::model::slice::{ObservedSlice, SliceDecoder};
    use causeway_wire::Object;

    use super::*;

    #[test]
    fn both_encodings_say_the_same() {
        let id = SliceId {
            service: 70_000,
            slice: 3,
        };
        let spec = ServiceSpec::new(1, [2]).slices(4, 100);
        for draft in [source(id, &spec, 1, 77), copy(id, &spec, 2, 77, 78)] {
            let [json, message] = [Encoding::Json, Encoding::Protobuf].map(|one| draft.encode(one));
            let json = str::from_utf8(&json).unwrap();
            let objects = [Object::Json(json), Object::Protobuf(&message)];
            let [json, message] = objects.map(|object| {
                let decoded = SliceDecoder::default().decode(object).unwrap();
                format!("{:?}", ObservedSlice::from(decoded))
            });
            assert_eq!(json, message);
        }
    }

    #[test]
    fn version_moves_one_address() {
        let (id, spec) = (SliceId::first(7), ServiceSpec::new(0, [1]));
        let [before, after] = [0, 1].map(|version| {
            let json = source(id, &spec, version, 5).encode(Encoding::Json);
            serde_json::from_slice::<EndpointSlice>(&json).unwrap()
        });
        let pairs = before.endpoints.iter().zip(&after.endpoints);
        let moved = pairs.filter(|(one, other)| one.addresses != other.addresses);
        assert_eq!(moved.count(), 1);
        assert_eq!(SliceId::of_name(&id.name()), Some(id));
        assert_eq!(SliceId::of_uid(&id.uid()), Some(id));
        assert_eq!(SliceId::of_name(&id.copy_name("member-000")), None);
        assert_eq!(SliceId::of_uid(&id.copy_uid(1)), None);
    }
}
