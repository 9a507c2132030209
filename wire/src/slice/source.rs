//! Compact form of source slices: a controller may hold hundreds of thousands, of a hundred
//! endpoints each.
//!
//! An endpoint with one IPv4 address takes 8 bytes: its address, and the index of its place in a
//! table that slices of a cluster share. If the endpoints of a slice have different conditions,
//! each takes one byte more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use causeway::domain::Protocol;
use k8s_openapi::api::discovery::v1 as discovery;
use string_cache::DefaultAtom;

use super::address::ipv4;
use super::endpoint::{ADDRESSES_MAX, WireAddresses, WireEndpoint};
use super::place::{PlaceTexts, Places, SlicePlaces, present};
use super::uid::SourceVersion;

/// Maximum number of ports of a slice that are read: ports are compared in pairs.
pub(super) const PORTS_MAX: usize = 4096;

/// Slice that a provider's own controllers, or a person, wrote.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceSlice {
    /// UID and version of the object.
    pub version: SourceVersion,
    /// Type of its addresses.
    pub address_type: AddressType,
    /// Manager of the slice.
    pub manager: SliceManager,
    /// Its ports; `None` for a number means every port.
    pub ports: Box<[SlicePort]>,
    /// Number of endpoints that are skipped: they have no address of the slice's type.
    pub odd: u32,
    /// Hub of which Kubernetes copied the label from the Service to the slice. Set only if the
    /// slice has no endpoint.
    pub copied_hub: Option<DefaultAtom>,
    endpoints: Endpoints,
}

/// Type of the addresses of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressType {
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Names, or a newer type: causeway cannot copy them.
    Other,
    /// The slice cannot be read.
    Unread,
}

/// Manager of a source slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceManager {
    /// Kubernetes, from pods: its port names are those of the Service, except for the moment in
    /// which they change.
    Pods,
    /// Kubernetes, from an Endpoints object.
    Mirroring,
    /// Any other manager.
    Other,
}

/// Content of an endpoint that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceEndpoint<'a> {
    /// Its first address, which clients use.
    pub address: IpAddr,
    /// Its other addresses, each with the index of the endpoint in the slice.
    pub more: &'a [(u32, IpAddr)],
    /// Its host name within a headless service.
    pub hostname: Option<&'a str>,
    /// Zone of the endpoint.
    pub zone: Option<&'a str>,
    /// Node of the endpoint.
    pub node: Option<&'a str>,
    /// Ready, serving and terminating, each as observed.
    pub conditions: [Option<bool>; 3],
}

/// Port of a slice: the name is that of the port in the same cluster's Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlicePort {
    /// Name; empty for the only, unnamed port.
    pub name: DefaultAtom,
    /// Protocol.
    pub protocol: Protocol,
    /// Number on which the pods listen.
    pub number: Option<i32>,
    /// Application protocol.
    pub app_protocol: Option<DefaultAtom>,
}

/// Endpoints as parallel arrays, with rare fields in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoints {
    addresses: Addresses,
    places: SlicePlaces,
    /// Conditions of all endpoints, unless they differ.
    conditions: Conditions,
    rare: Option<Box<Rare>>,
}

/// Fields of endpoints that few slices have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rare {
    /// Addresses beyond an endpoint's first, in the order of the endpoints.
    more: Box<[(u32, IpAddr)]>,
    /// Host name of each endpoint; empty if none has one.
    hostnames: Box<[Box<str>]>,
    /// Conditions of each endpoint, if they differ.
    conditions: Box<[Conditions]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Addresses<V4 = Box<[Ipv4Addr]>, V6 = Box<[Ipv6Addr]>> {
    V4(V4),
    V6(V6),
}

/// Two bits for each of ready, serving and terminating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Conditions(u8);

impl SourceSlice {
    /// Maximum number of endpoints of a slice (discovery.k8s.io/v1). Of a slice with more, one more
    /// is read.
    pub const ENDPOINTS_MAX: usize = 1000;

    /// Returns a slice that `manager` manages and that cannot be read.
    pub(super) fn unread(version: SourceVersion, manager: SliceManager) -> Self {
        let empty = SourceDraft::new("", 0);
        Self {
            address_type: AddressType::Unread,
            ..empty.finish(version, manager, &[], &mut Places::default())
        }
    }

    /// Returns a slice that no object has: `endpoints` with one address each, of the type.
    ///
    /// `version` is that of the object from which it follows. Endpoints whose address is of another
    /// type are left out.
    pub fn made<'a>(
        version: SourceVersion,
        address_type: AddressType,
        ports: Box<[SlicePort]>,
        endpoints: impl Iterator<Item = SourceEndpoint<'a>>,
    ) -> Self {
        let mut draft = SourceDraft::new(address_type.as_str(), 0);
        for endpoint in endpoints {
            match (endpoint.address, &mut draft.addresses) {
                (IpAddr::V4(address), Addresses::V4(all)) => all.push(address),
                (IpAddr::V6(address), Addresses::V6(all)) => all.push(address),
                _ => continue,
            }
            let place = [endpoint.node, endpoint.zone].map(Option::unwrap_or_default);
            draft.places.push(place[0], place[1]);
            draft.conditions.push(Conditions::new(endpoint.conditions));
        }
        Self {
            ports,
            ..draft.finish(version, SliceManager::Other, &[], &mut Places::default())
        }
    }

    /// Returns the number of its endpoints, without the odd ones.
    pub fn len(&self) -> usize {
        self.endpoints.places.len()
    }

    /// Whether it has no endpoint, the odd ones aside.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any endpoint has a host name.
    pub fn has_hostnames(&self) -> bool {
        let rare = self.endpoints.rare.as_deref();
        rare.is_some_and(|rare| !rare.hostnames.is_empty())
    }

    /// Returns its endpoints, in their order.
    pub fn endpoints(&self) -> impl Iterator<Item = SourceEndpoint<'_>> {
        let Endpoints {
            addresses,
            places,
            conditions: of_all,
            rare,
        } = &self.endpoints;
        let rare = rare.as_deref();
        let mut more = rare.map_or(&[][..], |rare| &rare.more);
        let hostnames = rare.map_or(&[][..], |rare| &rare.hostnames);
        let conditions = rare.map_or(&[][..], |rare| &rare.conditions);
        places
            .each()
            .enumerate()
            .filter_map(move |(number, (node, zone))| {
                let own = more
                    .iter()
                    .take_while(|(of, _)| *of as usize == number)
                    .count();
                let (own, others) = more.split_at(own);
                more = others;
                let conditions = conditions.get(number).unwrap_or(of_all);
                Some(SourceEndpoint {
                    address: addresses.get(number)?,
                    more: own,
                    hostname: hostnames.get(number).and_then(|name| present(name)),
                    zone,
                    node,
                    conditions: conditions.each(),
                })
            })
    }
}

impl SourceEndpoint<'_> {
    /// Returns all its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(self.address).chain(self.more.iter().map(|(_, address)| *address))
    }

    /// Whether it receives traffic. An endpoint without the condition is ready
    /// (discovery.k8s.io/v1, EndpointConditions).
    pub fn is_ready(&self) -> bool {
        self.conditions[0].unwrap_or(true)
    }
}

impl AddressType {
    /// Returns the name of the type in the API; empty for a slice that cannot be read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Other => "FQDN",
            Self::Unread => "",
        }
    }

    fn read(text: &str) -> Self {
        match text {
            "IPv4" => Self::Ipv4,
            "IPv6" => Self::Ipv6,
            _ => Self::Other,
        }
    }
}

/// Slice whose endpoints are being read.
pub(super) struct SourceDraft {
    address_type: AddressType,
    addresses: Addresses<Vec<Ipv4Addr>, Vec<Ipv6Addr>>,
    more: Vec<(u32, IpAddr)>,
    hostnames: Vec<Box<str>>,
    places: PlaceTexts,
    conditions: Vec<Conditions>,
    odd: u32,
}

impl SourceDraft {
    /// Returns a slice of that addressType without endpoints, with room for `likely` ones.
    pub(super) fn new(address_type: &str, likely: usize) -> Self {
        let address_type = AddressType::read(address_type);
        let likely = likely.min(SourceSlice::ENDPOINTS_MAX + 1);
        Self {
            address_type,
            addresses: match address_type {
                AddressType::Ipv6 => Addresses::V6(Vec::with_capacity(likely)),
                _ => Addresses::V4(Vec::with_capacity(likely)),
            },
            more: Vec::new(),
            hostnames: Vec::new(),
            places: PlaceTexts::with_capacity(likely),
            conditions: Vec::with_capacity(likely),
            odd: 0,
        }
    }

    /// Adds the next endpoint. Skips one without an address of the slice's type and counts it as
    /// odd. Skips all beyond one more than [`SourceSlice::ENDPOINTS_MAX`].
    pub(super) fn add(&mut self, endpoint: &WireEndpoint<'_>) {
        if self.places.len() > SourceSlice::ENDPOINTS_MAX {
            return;
        }
        let added = match (self.address_type, &mut self.addresses) {
            (AddressType::Ipv4, Addresses::V4(first)) => {
                add(&endpoint.addresses, ipv4, first, &mut self.more)
            }
            (AddressType::Ipv6, Addresses::V6(first)) => {
                let ipv6 = |text: &str| text.parse().ok();
                add(&endpoint.addresses, ipv6, first, &mut self.more)
            }
            _ => return,
        };
        if !added {
            self.odd += 1;
            return;
        }
        if let Some(hostname) = endpoint.hostname {
            self.hostnames.resize(self.places.len(), Box::default());
            self.hostnames.push(hostname.into());
        }
        let place = [endpoint.node_name, endpoint.zone].map(Option::unwrap_or_default);
        self.places.push(place[0], place[1]);
        self.conditions.push(Conditions::new(endpoint.conditions));
    }

    /// Returns the slice.
    pub(super) fn finish(
        self,
        version: SourceVersion,
        manager: SliceManager,
        ports: &[discovery::EndpointPort],
        places: &mut Places,
    ) -> SourceSlice {
        let mut conditions = self.conditions;
        let of_all = conditions.first().copied().unwrap_or_default();
        if conditions.iter().all(|one| *one == of_all) {
            conditions.clear();
        }
        let rare = Rare {
            more: self.more.into(),
            hostnames: fitted(self.hostnames),
            conditions: fitted(conditions),
        };
        let endpoints = Endpoints {
            addresses: match self.addresses {
                Addresses::V4(all) => Addresses::V4(fitted(all)),
                Addresses::V6(all) => Addresses::V6(fitted(all)),
            },
            places: places.of_slice(&self.places),
            conditions: of_all,
            rare: (rare != Rare::default()).then(|| rare.into()),
        };
        SourceSlice {
            version,
            address_type: self.address_type,
            manager,
            ports: ports.iter().take(PORTS_MAX).filter_map(port).collect(),
            odd: self.odd,
            copied_hub: None,
            endpoints,
        }
    }
}

/// Adds the addresses of the next endpoint, at most [`ADDRESSES_MAX`]. Returns false and adds none
/// if there is none, or one of them is not of that type.
fn add<A: Into<IpAddr>>(
    texts: &WireAddresses<'_>,
    read: impl Fn(&str) -> Option<A>,
    first: &mut Vec<A>,
    more: &mut Vec<(u32, IpAddr)>,
) -> bool {
    let others = texts.more.iter().take(ADDRESSES_MAX - 1);
    let others = others.map(|text| read(text));
    let Some(others) = others.collect::<Option<Vec<_>>>() else {
        return false;
    };
    let Some(address) = texts.first.and_then(read) else {
        return false;
    };
    let number = u32::try_from(first.len()).unwrap_or(u32::MAX);
    more.extend(others.into_iter().map(|other| (number, other.into())));
    first.push(address);
    true
}

impl Addresses {
    fn get(&self, number: usize) -> Option<IpAddr> {
        match self {
            Self::V4(all) => all.get(number).copied().map(IpAddr::V4),
            Self::V6(all) => all.get(number).copied().map(IpAddr::V6),
        }
    }
}

impl Conditions {
    fn new(given: [Option<bool>; 3]) -> Self {
        let [ready, serving, terminating] = given.map(|condition| match condition {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        });
        Self(ready | serving << 2 | terminating << 4)
    }

    fn each(self) -> [Option<bool>; 3] {
        [self.0, self.0 >> 2, self.0 >> 4].map(|bits| match bits & 3 {
            1 => Some(false),
            2 => Some(true),
            _ => None,
        })
    }
}

/// Returns the elements in memory of exactly their size. Shrinking does not suffice: allocators
/// leave a block that is still half full as it is.
fn fitted<T>(mut all: Vec<T>) -> Box<[T]> {
    all.drain(..).collect()
}

/// Returns the compact form of a port; `None` if its protocol is unknown.
fn port(port: &discovery::EndpointPort) -> Option<SlicePort> {
    let protocol = match port.protocol.as_deref() {
        None => Protocol::Tcp,
        Some(text) => text.parse().ok()?,
    };
    Some(SlicePort {
        name: port.name.as_deref().unwrap_or_default().into(),
        protocol,
        number: port.port,
        app_protocol: port.app_protocol.as_deref().map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::slice::{RawSlice, encode};

    fn read(address_type: &str, endpoints: Value) -> SourceSlice {
        let slice = serde_json::from_value(json!({
            "metadata": {"name": "foo-x", "namespace": "shop", "uid": "u", "resourceVersion": "7"},
            "addressType": address_type,
            "endpoints": endpoints,
        }));
        let message = encode(&slice.expect("a slice decodes"));
        let slice = RawSlice::decode(&message).expect("a slice");
        let source = slice.source(SliceManager::Pods, &mut Places::default());
        source.expect("a version")
    }

    #[test]
    fn endpoint_is_returned_as_it_was_read() {
        let slice = read(
            "IPv4",
            json!([
                {"addresses": ["10.0.0.1"]},
                {"addresses": ["10.0.0.2", "10.0.0.3"], "hostname": "b", "zone": "z", "nodeName": "n",
                 "conditions": {"ready": true, "serving": false}},
                {"addresses": ["10.0.0.4"], "zone": "", "nodeName": "a-node-with-a-long-name",
                 "conditions": {"terminating": true}},
            ]),
        );
        let endpoints: Vec<_> = slice.endpoints().collect();
        let addresses = |number: usize| -> Vec<String> {
            let all = endpoints[number].addresses();
            all.map(|address| address.to_string()).collect()
        };
        assert_eq!(
            [addresses(0), addresses(1), addresses(2)],
            [
                vec!["10.0.0.1"],
                vec!["10.0.0.2", "10.0.0.3"],
                vec!["10.0.0.4"]
            ]
        );
        let rest = |number: usize| {
            let SourceEndpoint {
                hostname,
                zone,
                node,
                conditions,
                ..
            } = endpoints[number];
            (hostname, zone, node, conditions)
        };
        assert_eq!(rest(0), (None, None, None, [None, None, None]));
        let conditions = [Some(true), Some(false), None];
        assert_eq!(rest(1), (Some("b"), Some("z"), Some("n"), conditions));
        let (node, conditions) = (Some("a-node-with-a-long-name"), [None, None, Some(true)]);
        assert_eq!(rest(2), (None, None, node, conditions));
    }

    #[test]
    fn endpoint_with_an_address_of_another_type_is_skipped() {
        let odd = json!([
            {"addresses": ["fd00::1"]}, {"addresses": []}, {"addresses": ["10.0.0.1"], "hostname": "a"},
            {"addresses": ["10.0.0.2", "foo.example"]},
        ]);
        let copied = |address_type: &str| -> Vec<_> {
            let slice = read(address_type, odd.clone());
            let endpoints = slice.endpoints();
            endpoints
                .map(|endpoint| {
                    (
                        endpoint.address.to_string(),
                        endpoint.hostname.map(str::to_owned),
                    )
                })
                .collect()
        };
        assert_eq!(
            copied("IPv4"),
            [("10.0.0.1".to_owned(), Some("a".to_owned()))]
        );
        assert_eq!(copied("IPv6"), [("fd00::1".to_owned(), None)]);
        assert_eq!(copied("FQDN"), []);
    }

    #[test]
    fn endpoints_and_addresses_beyond_their_maximum_are_not_stored() {
        let mut addresses = vec!["10.0.0.1"; ADDRESSES_MAX];
        addresses.resize(150, "foo.example");
        for (endpoints, expected) in [(1000, 1000), (1001, 1001), (1100, 1001)] {
            let endpoints = vec![json!({"addresses": addresses}); endpoints];
            let slice = read("IPv4", Value::Array(endpoints));
            assert_eq!((slice.len(), slice.odd), (expected, 0));
            for endpoint in slice.endpoints() {
                assert_eq!(endpoint.addresses().count(), ADDRESSES_MAX);
            }
        }
        // Odd endpoints displace no others.
        let mut endpoints = vec![json!({"addresses": []}); 1500];
        endpoints.resize(3000, json!({"addresses": ["10.0.0.1"]}));
        let slice = read("IPv4", Value::Array(endpoints));
        assert_eq!((slice.len(), slice.odd), (1001, 1500));
    }
}
