//! The objects that are made when they are asked for, from a few numbers.
//!
//! What a hub or a member would hold of a service whose copies stand already: byte for byte such that a controller finds nothing to write.

use causeway::api::labels;
use causeway::domain::short_hash;

/// A slice of a service, in its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SliceId {
    pub(crate) service: u32,
    pub(crate) slice: u16,
}

/// One version of the content of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    pub(crate) id: SliceId,
    pub(crate) endpoints: u16,
    /// How often it has changed.
    pub(crate) version: u32,
    /// The number of its first endpoint among all.
    pub(crate) first: u32,
}

/// The UID of the hub's kube-system.
pub(crate) const HUB_UID: &str = "0af77714-0000-4000-8000-000000000000";
pub(crate) const NAMESPACES: u32 = 50;
pub(crate) const CREATED: &str = "2026-01-01T00:00:00Z";

pub(crate) fn namespace(service: u32) -> String {
    format!("shop-{:02}", service % NAMESPACES)
}

pub(crate) fn service_name(service: u32) -> String {
    format!("service-{service:06}")
}

/// The number of the service of that name.
pub(crate) fn service_number(name: &str) -> Option<u32> {
    name.strip_prefix("service-")?.parse().ok()
}

pub(crate) fn member_name(member: usize) -> String {
    format!("member-{member:03}")
}

/// The UID of something that is the only one of its sort for those numbers.
pub(crate) fn uid(sort: u16, one: u32, other: u32) -> String {
    format!("{one:08x}-{sort:04x}-4000-8000-{other:012x}")
}

/// Sorts of UIDs.
pub(crate) mod sort {
    pub(crate) const SOURCE: u16 = 1;
    pub(crate) const COPY: u16 = 2;
    pub(crate) const SERVICE: u16 = 3;
    pub(crate) const MCS: u16 = 4;
    pub(crate) const MEMBER: u16 = 5;
    pub(crate) const CLUSTER: u16 = 6;
    pub(crate) const OTHER: u16 = 7;
}

impl SliceId {
    pub(crate) fn name(self) -> String {
        format!("{}-{:03}", service_name(self.service), self.slice)
    }

    /// The slice of that name; nothing else is called so.
    pub(crate) fn of_name(text: &str) -> Option<Self> {
        let (service, slice) = text.rsplit_once('-')?;
        Some(Self {
            service: service_number(service)?,
            slice: slice.parse().ok()?,
        })
    }

    pub(crate) fn uid(self) -> String {
        uid(sort::SOURCE, self.service, self.slice.into())
    }

    /// The slice of that UID.
    pub(crate) fn of_uid(text: &str) -> Option<Self> {
        let (service, rest) = text.split_once('-')?;
        let rest = rest.strip_prefix("0001-4000-8000-")?;
        Some(Self {
            service: u32::from_str_radix(service, 16).ok()?,
            slice: u16::from_str_radix(rest, 16).ok()?,
        })
    }

    /// The name of its copies, in any consumer.
    pub(crate) fn copy_name(self, provider: &str) -> String {
        let name = self.name();
        let hash = short_hash(["native", provider, &name, "IPv4"]);
        format!("{provider}-{name}-{hash}")
    }
}

/// The address of an endpoint: the first one moves with each version, as when a pod is replaced.
pub(super) fn address(content: Content, place: u16) -> [u8; 4] {
    let number = content.first.wrapping_add(place.into());
    if place > 0 || content.version == 0 {
        return (0x0a00_0000_u32.wrapping_add(number)).to_be_bytes();
    }
    let moved = content.version.wrapping_mul(2_654_435_761) ^ number;
    (0xac10_0000 | (moved & 0x000f_ffff)).to_be_bytes()
}

fn push_number(out: &mut Vec<u8>, number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    let mut left = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

pub(super) fn push_padded(out: &mut Vec<u8>, number: u32, width: u32) {
    for place in (0..width).rev() {
        let power = 10_u32.checked_pow(place);
        out.push(b'0' + (power.map_or(0, |power| number / power) % 10) as u8);
    }
}

pub(super) fn push_hex(out: &mut Vec<u8>, number: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for place in (0..8).rev() {
        out.push(DIGITS[(number >> (4 * place) & 15) as usize]);
    }
}

pub(super) fn push_address(out: &mut Vec<u8>, address: [u8; 4]) {
    for (place, byte) in address.into_iter().enumerate() {
        if place > 0 {
            out.push(b'.');
        }
        push_number(out, byte.into());
    }
}

/// The zone of an endpoint.
pub(super) fn zone(number: u32) -> [u8; 10] {
    let mut zone = *b"region-1-?";
    zone[9] = b'a' + (number % 3) as u8;
    zone
}

fn push_zone(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(b"\"zone\":\"");
    out.extend_from_slice(&zone(number));
    out.push(b'"');
}

const READY: &[u8] = b"\"],\"conditions\":{\"ready\":true,\"serving\":true,\"terminating\":false},";
const PORTS: &[u8] = b"],\"ports\":[{\"name\":\"http\",\"port\":8080,\"protocol\":\"TCP\"}]}";

/// What Kubernetes' own controller says that it manages of a slice.
pub(super) fn source_fields(owner: &str) -> String {
    format!(
        r#"{{"f:addressType":{{}},"f:endpoints":{{}},"f:metadata":{{"f:annotations":{{".":{{}},"f:endpoints.kubernetes.io/last-change-trigger-time":{{}}}},"f:generateName":{{}},"f:labels":{{".":{{}},"f:app":{{}},"f:endpointslice.kubernetes.io/managed-by":{{}},"f:kubernetes.io/service-name":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner}\"}}":{{}}}}}},"f:ports":{{}}}}"#
    )
}

/// What the controller is said to manage of a copy.
pub(super) fn copy_fields() -> &'static str {
    r#"{"f:addressType":{},"f:endpoints":{},"f:metadata":{"f:annotations":{".":{},"f:endpointslice.karmada.io/provision-cluster":{},"f:mcs.causeway.dev/owner":{},"f:mcs.causeway.dev/source":{}},"f:labels":{".":{},"f:app.kubernetes.io/managed-by":{},"f:endpointslice.kubernetes.io/managed-by":{},"f:kubernetes.io/service-name":{},"f:mcs.causeway.dev/hub":{},"f:multicluster.kubernetes.io/source-cluster":{}}},"f:ports":{}}"#
}

/// The slice as Kubernetes' own controller writes it, with all that this says of each pod.
pub(crate) fn push_source(out: &mut Vec<u8>, content: Content, resource_version: u64) {
    let SliceId { service, .. } = content.id;
    let (name, of, namespace) = (content.id.name(), service_name(service), namespace(service));
    let owner = uid(sort::SERVICE, service, 0);
    let head = format!(
        r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{{"name":"{name}","generateName":"{of}-","namespace":"{namespace}","uid":"{}","resourceVersion":"{resource_version}","generation":{},"creationTimestamp":"{CREATED}","labels":{{"app":"{of}","{}":"{}","{}":"{of}"}},"annotations":{{"endpoints.kubernetes.io/last-change-trigger-time":"{CREATED}"}},"ownerReferences":[{{"apiVersion":"v1","kind":"Service","name":"{of}","uid":"{owner}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"discovery.k8s.io/v1","time":"{CREATED}","fieldsType":"FieldsV1","fieldsV1":{}}}]}},"addressType":"IPv4","endpoints":["#,
        content.id.uid(),
        content.version + 1,
        labels::SLICE_MANAGED_BY,
        labels::SLICE_CONTROLLER,
        labels::SERVICE_NAME,
        source_fields(&owner),
    );
    out.extend_from_slice(head.as_bytes());
    for place in 0..content.endpoints {
        let number = content.first.wrapping_add(place.into());
        out.extend_from_slice(if place > 0 {
            b",{\"addresses\":[\""
        } else {
            b"{\"addresses\":[\""
        });
        push_address(out, address(content, place));
        out.extend_from_slice(READY);
        out.extend_from_slice(b"\"nodeName\":\"node-");
        push_padded(out, number % 1000, 4);
        out.extend_from_slice(
            b".compute.example\",\"targetRef\":{\"kind\":\"Pod\",\"namespace\":\"",
        );
        out.extend_from_slice(namespace.as_bytes());
        out.extend_from_slice(b"\",\"name\":\"");
        out.extend_from_slice(of.as_bytes());
        out.extend_from_slice(b"-6d4b75cb6d-");
        push_hex(out, number);
        out.extend_from_slice(b"\",\"uid\":\"");
        push_hex(out, number);
        out.extend_from_slice(b"-5f3c-4a6b-9d2e-");
        push_padded(out, number, 12);
        out.extend_from_slice(b"\"},");
        push_zone(out, number);
        out.push(b'}');
    }
    out.extend_from_slice(PORTS);
}

/// A copy in a consumer as the controller wrote it.
pub(crate) struct CopyText<'a> {
    pub(crate) content: Content,
    pub(crate) provider: &'a str,
    pub(crate) consumer: u32,
    /// The version of the source that it was made from.
    pub(crate) source_version: u64,
    pub(crate) resource_version: u64,
}

impl CopyText<'_> {
    pub(crate) fn uid(content: Content, consumer: u32) -> String {
        let SliceId { service, slice } = content.id;
        uid(sort::COPY, service, (u32::from(slice) << 16) | consumer)
    }

    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        let Self {
            content, provider, ..
        } = self;
        let id = content.id;
        let head = format!(
            r#"{{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{{"name":"{}","namespace":"{}","uid":"{}","resourceVersion":"{}","generation":{},"creationTimestamp":"{CREATED}","labels":{{"{}":"{}","{}":"{}","{}":"{provider}","{}":"{}","{}":"{HUB_UID}"}},"annotations":{{"{}":"{provider}","{}":"MultiClusterService/{}","{}":"{}/{}"}},"managedFields":[{{"manager":"causeway","operation":"Update","apiVersion":"discovery.k8s.io/v1","time":"{CREATED}","fieldsType":"FieldsV1","fieldsV1":{}}}]}},"addressType":"IPv4","endpoints":["#,
            id.copy_name(provider),
            namespace(id.service),
            Self::uid(*content, self.consumer),
            self.resource_version,
            content.version + 1,
            labels::SERVICE_NAME,
            service_name(id.service),
            labels::SLICE_MANAGED_BY,
            labels::SLICE_DISPATCHER,
            labels::SOURCE_CLUSTER,
            labels::MANAGED_BY,
            labels::MANAGER,
            labels::HUB,
            labels::PROVISION_CLUSTER,
            labels::OWNER,
            uid(sort::MCS, id.service, 0),
            labels::SOURCE,
            id.uid(),
            self.source_version,
            copy_fields(),
        );
        out.extend_from_slice(head.as_bytes());
        for place in 0..content.endpoints {
            out.extend_from_slice(if place > 0 {
                b",{\"addresses\":[\""
            } else {
                b"{\"addresses\":[\""
            });
            push_address(out, address(*content, place));
            out.extend_from_slice(READY);
            push_zone(out, content.first.wrapping_add(place.into()));
            out.push(b'}');
        }
        out.extend_from_slice(PORTS);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointSlice;

    use super::*;

    #[test]
    fn slices_and_copies_are_objects_with_the_same_addresses_one_of_which_moves_with_a_version() {
        let id = SliceId {
            service: 70_000,
            slice: 3,
        };
        let of = |version| {
            let content = Content {
                id,
                endpoints: 100,
                version,
                first: 4_000_000,
            };
            let (mut source, mut copy) = (Vec::new(), Vec::new());
            push_source(&mut source, content, 77);
            let text = CopyText {
                content,
                provider: "member-001",
                consumer: 2,
                source_version: 77,
                resource_version: 78,
            };
            text.push(&mut copy);
            [source, copy].map(|text| serde_json::from_slice::<EndpointSlice>(&text).unwrap())
        };
        let addresses = |slice: &EndpointSlice| -> Vec<String> {
            let all = slice.endpoints.iter();
            all.map(|endpoint| endpoint.addresses[0].clone()).collect()
        };
        let ([source, copy], [later, _]) = (of(0), of(1));
        assert_eq!(addresses(&source), addresses(&copy));
        let pairs = addresses(&source).into_iter().zip(addresses(&later));
        assert_eq!(pairs.filter(|(one, other)| one != other).count(), 1);
        assert_eq!(SliceId::of_uid(&source.metadata.uid.unwrap()), Some(id));
        assert_eq!(SliceId::of_uid(&copy.metadata.uid.unwrap()), None);
        assert_eq!(SliceId::of_name(&source.metadata.name.unwrap()), Some(id));
        assert_eq!(SliceId::of_name(&copy.metadata.name.unwrap()), None);
    }
}
