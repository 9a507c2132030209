//! Paths of a service from one consumer, derived from the objects of the consumer. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway::api::ownership;
use causeway::domain::ServiceKey;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

use super::probe::{CLUSTER_DOMAIN, Path, Port, Protocol};
use crate::observe::service::{Held, OfService as _};

/// Maximum number of endpoints to connect to in each provider.
const MAX_ENDPOINTS: usize = 5;
/// Maximum number of ports to connect to in each service.
const MAX_PORTS: usize = 4;
/// Maximum number of addresses that a name is compared with.
const MAX_ADDRESSES: usize = 500;

/// Paths of one service from one consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paths {
    pub paths: Vec<Path>,
    /// Parts of the service without a path, with the reason.
    pub untried: Vec<String>,
}

impl Paths {
    /// Derives the paths of a service from the objects of a consumer.
    pub(super) fn of(held: &Held, key: &ServiceKey, consumer: &str) -> Self {
        let mut all = Self::default();
        let derived = key.derived();
        let mut endpoints: BTreeMap<String, Vec<(IpAddr, Vec<PortNumber>)>> = BTreeMap::new();
        // Address families of the serving endpoints that kube-proxy does not use, by provider.
        let mut unused = BTreeMap::new();
        let mut published = BTreeSet::new();
        for name in [&key.name, &derived.name] {
            let Some(service) = held.service(name) else {
                continue;
            };
            for slice in held.slices_of(name) {
                let provider = ownership::source_member(&slice.metadata);
                let provider = provider.unwrap_or(consumer).to_owned();
                let found = endpoints.entry(provider.clone()).or_default();
                if is_used(slice, service) {
                    found.extend(dialled(&provider, slice, &mut all.untried));
                } else if slice.endpoints.iter().any(is_serving) {
                    unused.insert(provider, slice.address_type.as_str());
                }
                let named = slice.endpoints.iter().filter(|one| is_published(one));
                let named = named.flat_map(|one| &one.addresses);
                published.extend(named.filter_map(|one| one.parse::<IpAddr>().ok()));
            }
            all.paths.extend(cluster_ips(service));
        }
        for (provider, found) in endpoints {
            if let Some(family) = unused.get(&provider).filter(|_| found.is_empty()) {
                all.untried.push(format!(
                    "endpoints of {provider} are {family}, which the Service has not"
                ));
            }
            all.paths.extend(sample(&provider, found));
        }
        all.paths
            .extend(names(held, key, &published, &mut all.untried));
        if all.paths.is_empty() && all.untried.is_empty() {
            let why = format!(
                "{consumer} has neither Service nor ServiceImport {key}; run kubectl mcs explain {} \
                 -n {}",
                key.name, key.namespace
            );
            all.untried.push(why);
        }
        all.untried.sort();
        all.untried.dedup();
        all
    }
}

/// Returns the names of a service. Names of a headless Service resolve to its `endpoints`. With
/// more than [`MAX_ADDRESSES`] the names are untried.
fn names(
    held: &Held,
    key: &ServiceKey,
    endpoints: &BTreeSet<IpAddr>,
    untried: &mut Vec<String>,
) -> Vec<Path> {
    let ServiceKey { namespace, name } = key;
    let mut all = Vec::new();
    if let Some(service) = held.service(name) {
        let own = own_addresses(service);
        all.push((format!("{name}.{namespace}"), own.clone()));
        all.push((format!("{name}.{namespace}.svc.{CLUSTER_DOMAIN}"), own));
    }
    if let Some(import) = held.imports.first() {
        let ips = import.spec.ips.iter();
        let ips: Vec<_> = ips.filter_map(|ip| ip.parse().ok()).collect();
        let name = format!("{name}.{namespace}.svc.clusterset.local");
        all.push((name, (!ips.is_empty()).then_some(ips)));
    }
    let is_compared = endpoints.len() <= MAX_ADDRESSES;
    let mut paths = Vec::new();
    for (name, own) in all {
        match own {
            Some(expected) => paths.push(Path::Name { name, expected }),
            None if is_compared => {
                let expected = endpoints.iter().copied().collect();
                paths.push(Path::Name { name, expected });
            }
            None => untried.push(format!(
                "names of {key} resolve to {} endpoints, and at most {MAX_ADDRESSES} are compared",
                endpoints.len()
            )),
        }
    }
    paths
}

/// Returns the addresses of a Service, or `None` if the Service is headless.
fn own_addresses(service: &Service) -> Option<Vec<IpAddr>> {
    let spec = service.spec.as_ref()?;
    let all = spec.cluster_ips.iter().flatten();
    let all: Vec<_> = all.filter_map(|ip| ip.parse().ok()).collect();
    (!all.is_empty()).then_some(all)
}

/// Number of a port, with the protocol by which the port is dialled.
type PortNumber = (u16, Protocol);

/// Returns each address of a Service with its ports of TCP and UDP.
fn cluster_ips(service: &Service) -> Vec<Path> {
    let addresses = own_addresses(service).unwrap_or_default();
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    let ports = ports.filter_map(|port| {
        let number = u16::try_from(port.port).ok()?;
        let names = [&port.name, &port.app_protocol];
        Some((number, protocol(port.protocol.as_deref(), number, names)?))
    });
    let paths = addresses.into_iter().flat_map(|address| {
        let ports = ports.clone().take(MAX_PORTS);
        ports.map(move |(port, protocol)| Path::ClusterIp(Port::new(address, port, protocol)))
    });
    paths.collect()
}

/// Whether a Service has the address family of a slice. kube-proxy uses no others.
fn is_used(slice: &EndpointSlice, service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let families = spec.and_then(|spec| spec.ip_families.as_ref());
    families.is_none_or(|families| families.contains(&slice.address_type))
}

/// Returns the addresses of a slice's serving endpoints, with the slice's ports of TCP and UDP.
fn dialled(
    provider: &str,
    slice: &EndpointSlice,
    untried: &mut Vec<String>,
) -> Vec<(IpAddr, Vec<PortNumber>)> {
    let has_port = slice.ports.iter().flatten().any(|port| port.port.is_some());
    if !has_port && slice.endpoints.iter().any(is_serving) {
        untried.push(format!("endpoints of {provider} have no port to dial"));
    }
    let mut ports = Vec::new();
    for port in slice.ports.iter().flatten() {
        let Some(number) = port.port.and_then(|port| u16::try_from(port).ok()) else {
            continue;
        };
        let names = [&port.name, &port.app_protocol];
        match protocol(port.protocol.as_deref(), number, names) {
            Some(protocol) => ports.push((number, protocol)),
            None => untried.push(format!(
                "port {number} is of {}, which is not dialled",
                port.protocol.as_deref().unwrap_or_default()
            )),
        }
    }
    ports.truncate(MAX_PORTS);
    let endpoints = slice.endpoints.iter().filter(|one| is_serving(one));
    let addresses = endpoints.filter_map(|one| one.addresses.first()?.parse().ok());
    addresses.map(|address| (address, ports.clone())).collect()
}

/// Returns paths to at most [`MAX_ENDPOINTS`] endpoints of a provider, evenly spread.
fn sample(provider: &str, mut endpoints: Vec<(IpAddr, Vec<PortNumber>)>) -> Vec<Path> {
    endpoints.sort();
    endpoints.dedup();
    let count = endpoints.len().min(MAX_ENDPOINTS);
    let spread = (0..count).filter_map(|one| endpoints.get(one * endpoints.len() / count));
    let found = spread.flat_map(|(address, ports)| {
        ports.iter().map(|&(port, protocol)| Path::Endpoint {
            provider: provider.to_owned(),
            at: Port::new(*address, port, protocol),
        })
    });
    // EndpointSlices may share an endpoint. Each path has one outcome.
    let mut paths = Vec::new();
    for path in found {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Whether DNS has the address of an endpoint if its Service is headless. Endpoints of a Service
/// with `publishNotReadyAddresses` are ready and may not serve.
fn is_published(endpoint: &Endpoint) -> bool {
    let ready = endpoint.conditions.as_ref().and_then(|all| all.ready);
    ready != Some(false) || is_serving(endpoint)
}

fn is_serving(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|all| all.ready);
    let serving = conditions.and_then(|all| all.serving);
    serving.or(ready).unwrap_or(true)
}

/// Returns the protocol by which a port is dialled, or `None` if it is not. A port of UDP serves
/// DNS if its number, its name or its `appProtocol` is that of DNS; a name may have a suffix, as in
/// `dns-tcp`.
fn protocol(transport: Option<&str>, port: u16, names: [&Option<String>; 2]) -> Option<Protocol> {
    const DNS: u16 = 53;
    let is_dns = |name: &String| name.split('-').next() == Some("dns");
    match transport.unwrap_or("TCP") {
        "TCP" => Some(Protocol::Tcp),
        "UDP" if port == DNS || names.into_iter().flatten().any(is_dns) => Some(Protocol::Dns),
        "UDP" => Some(Protocol::Udp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use serde_json::json;

    use super::*;

    fn key() -> ServiceKey {
        ServiceKey::new("shop", "foo")
    }

    fn slice(
        service: &str,
        provider: Option<&str>,
        addresses: &[&str],
        protocol: &str,
    ) -> EndpointSlice {
        let endpoints = addresses.iter().map(|one| json!({"addresses": [one]}));
        let mut metadata = json!({"labels": {labels::SERVICE_NAME: service}});
        if let Some(provider) = provider {
            metadata["labels"][labels::SOURCE_CLUSTER] = json!(provider);
        }
        let slice = json!({
            "metadata": metadata,
            "addressType": "IPv4",
            "ports": [{"port": 8080, "protocol": protocol}],
            "endpoints": endpoints.collect::<Vec<_>>(),
        });
        serde_json::from_value(slice).expect("a slice")
    }

    fn service(name: &str, ip: &str) -> Vec<Service> {
        let spec = json!({"clusterIP": ip, "clusterIPs": [ip], "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": name}, "spec": spec});
        vec![serde_json::from_value(service).expect("a Service")]
    }

    fn held(services: Vec<Service>, slices: Vec<EndpointSlice>) -> Held {
        Held {
            services,
            slices,
            ..Held::default()
        }
    }

    fn shown(held: &Held) -> Vec<String> {
        let paths = Paths::of(held, &key(), "member2");
        let paths = paths.paths.iter().map(|path| match path {
            Path::Endpoint { provider, .. } => format!("{provider} {path}"),
            Path::Name { expected, .. } => format!("{path} {expected:?}"),
            _ => path.to_string(),
        });
        paths.collect()
    }

    #[test]
    fn paths_lead_to_each_provider_the_service_and_its_names() {
        let slices = vec![
            slice("foo", None, &["10.2.0.1"], "TCP"),
            slice("foo", Some("member1"), &["10.1.0.1"], "TCP"),
        ];
        assert_eq!(
            shown(&held(service("foo", "10.66.0.7"), slices)),
            [
                "ClusterIP 10.66.0.7:80",
                "member1 10.1.0.1:8080",
                "member2 10.2.0.1:8080",
                "foo.shop [10.66.0.7]",
                "foo.shop.svc.$domain [10.66.0.7]",
            ]
        );
    }

    #[test]
    fn paths_have_the_address_families_of_the_consumers_service() {
        let mut other = slice("foo", Some("member1"), &["fd00::1"], "TCP");
        other.address_type = "IPv6".to_owned();
        let slices = vec![slice("foo", Some("member1"), &["10.1.0.1"], "TCP"), other];
        for (addresses, families, expected) in [
            (
                vec!["10.66.0.7"],
                vec!["IPv4"],
                &["ClusterIP 10.66.0.7:80", "member1 10.1.0.1:8080"][..],
            ),
            (
                vec!["10.66.0.7", "fd66::7"],
                vec!["IPv4", "IPv6"],
                &[
                    "ClusterIP 10.66.0.7:80",
                    "ClusterIP [fd66::7]:80",
                    "member1 10.1.0.1:8080",
                    "member1 [fd00::1]:8080",
                ],
            ),
        ] {
            let mut services = service("foo", addresses[0]);
            let spec = services[0].spec.as_mut().expect("a spec");
            let owned = |all: &[&str]| Some(all.iter().map(|&one| one.to_owned()).collect());
            spec.cluster_ips = owned(&addresses);
            spec.ip_families = owned(&families);
            let shown = shown(&held(services, slices.clone()));
            let dialled: Vec<_> = shown
                .iter()
                .filter(|one| !one.starts_with("foo."))
                .collect();
            assert_eq!(dialled, expected, "{families:?}");
        }
    }

    #[test]
    fn provider_of_unused_address_families_alone_is_untried() {
        let mut services = service("foo", "10.66.0.7");
        let spec = services[0].spec.as_mut().expect("a spec");
        spec.ip_families = Some(vec!["IPv4".to_owned()]);
        let used = slice("foo", Some("member1"), &["10.1.0.1"], "TCP");
        let mut unused = slice("foo", Some("member1"), &["fd00::1"], "TCP");
        unused.address_type = "IPv6".to_owned();
        let none = slice("foo", Some("member1"), &[], "TCP");
        let untried = "endpoints of member1 are IPv6, which the Service has not";
        for (slices, expected) in [
            (vec![unused.clone()], &[untried][..]),
            (vec![unused.clone(), none], &[untried]),
            (vec![unused, used], &[]),
        ] {
            let held = held(services.clone(), slices);
            assert_eq!(Paths::of(&held, &key(), "member2").untried, expected);
        }
    }

    #[test]
    fn endpoints_without_a_port_are_untried() {
        let untried = "endpoints of member1 have no port to dial";
        for (addresses, ports, expected) in [
            (&["10.1.0.1"][..], json!([]), &[untried][..]),
            (&["10.1.0.1"], json!([{}]), &[untried]),
            (&[], json!([]), &[]),
        ] {
            let mut slice = slice("foo", Some("member1"), addresses, "TCP");
            slice.ports = serde_json::from_value(ports).expect("ports");
            let held = held(service("foo", "None"), vec![slice]);
            assert_eq!(Paths::of(&held, &key(), "member2").untried, expected);
        }
    }

    #[test]
    fn names_of_a_headless_service_have_the_addresses_of_endpoints() {
        let slice = slice("foo", Some("member1"), &["10.1.0.1", "10.1.0.2"], "TCP");
        let shown = shown(&held(service("foo", "None"), vec![slice]));
        assert!(
            shown.contains(&"foo.shop [10.1.0.1, 10.1.0.2]".to_owned()),
            "{shown:?}"
        );
    }

    #[test]
    fn endpoints_that_are_published_without_serving_are_expected_by_name() {
        let conditions = |ready: bool, serving: bool| {
            let all = json!({"ready": ready, "serving": serving});
            serde_json::from_value(all).expect("conditions")
        };
        let all = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"];
        let mut slice = slice("foo", Some("member1"), &all, "TCP");
        slice.endpoints[1].conditions = Some(conditions(true, false));
        slice.endpoints[2].conditions = Some(conditions(false, true));
        slice.endpoints[3].conditions = Some(conditions(false, false));
        assert_eq!(
            shown(&held(service("foo", "None"), vec![slice]))[..3],
            [
                "member1 10.1.0.1:8080",
                "member1 10.1.0.3:8080",
                "foo.shop [10.1.0.1, 10.1.0.2, 10.1.0.3]",
            ]
        );
    }

    #[test]
    fn names_with_many_addresses_are_untried() {
        let all = |count: u16| -> Vec<_> {
            let numbers = 0..count;
            numbers
                .map(|n| format!("10.1.{}.{}", n / 200, n % 200))
                .collect()
        };
        for (count, names, untried) in [(500, 2, 0), (501, 0, 1)] {
            let all = all(count);
            let all: Vec<_> = all.iter().map(String::as_str).collect();
            let slices = vec![slice("foo", Some("member1"), &all, "TCP")];
            let held = held(service("foo", "None"), slices);
            let paths = Paths::of(&held, &key(), "member2");
            let found = paths.paths.iter();
            let found = found.filter(|path| matches!(path, Path::Name { .. }));
            assert_eq!(found.count(), names, "{count}");
            assert_eq!(paths.untried.len(), untried, "{:?}", paths.untried);
        }
    }

    #[test]
    fn endpoint_of_two_slices_is_one_path() {
        let mut second = slice("foo", Some("member1"), &["10.1.0.1"], "TCP");
        let ports = second.ports.as_mut().expect("ports");
        ports[0].port = Some(9090);
        let mut both = slice("foo", Some("member1"), &["10.1.0.1"], "TCP");
        both.ports.as_mut().expect("ports").extend(ports.clone());
        let held = held(service("foo", "None"), vec![second, both]);
        assert_eq!(
            shown(&held)[..2],
            ["member1 10.1.0.1:8080", "member1 10.1.0.1:9090"]
        );
        assert_eq!(shown(&held).len(), 4);
    }

    #[test]
    fn imports_are_looked_up_in_the_zone_of_the_clusterset() {
        let import = json!({
            "metadata": {},
            "spec": {"type": "ClusterSetIP", "ips": ["10.66.0.9"], "ports": []},
        });
        let derived = key().derived().name.to_string();
        let slices = vec![slice(&derived, Some("member1"), &["10.1.0.1"], "TCP")];
        let held = Held {
            imports: vec![serde_json::from_value(import).expect("an import")],
            ..held(service(&derived, "10.66.0.9"), slices)
        };
        assert_eq!(
            shown(&held),
            [
                "ClusterIP 10.66.0.9:80",
                "member1 10.1.0.1:8080",
                "foo.shop.svc.clusterset.local [10.66.0.9]",
            ]
        );
    }

    #[test]
    fn many_endpoints_are_sampled_over_the_whole_range() {
        let all: Vec<_> = (0..100).map(|n| format!("10.1.0.{n}")).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        let slices = vec![slice("foo", Some("member1"), &all, "TCP")];
        let shown = shown(&held(service("foo", "None"), slices));
        let dialled = shown.iter().filter(|one| one.starts_with("member1 "));
        let dialled: Vec<_> = dialled.map(String::as_str).collect();
        assert_eq!(
            dialled,
            [
                "member1 10.1.0.0:8080",
                "member1 10.1.0.20:8080",
                "member1 10.1.0.40:8080",
                "member1 10.1.0.60:8080",
                "member1 10.1.0.80:8080"
            ]
        );
    }

    #[test]
    fn ports_of_udp_are_dialled_and_those_of_dns_queried() {
        let (plain, by_name) = (None, Some("dns".to_owned()));
        let (suffix, other) = (Some("dns-cache".to_owned()), Some("dnstap".to_owned()));
        for (transport, port, names, expected) in [
            (None, 53, [&plain, &plain], Some(Protocol::Tcp)),
            (Some("TCP"), 53, [&by_name, &plain], Some(Protocol::Tcp)),
            (Some("UDP"), 53, [&plain, &plain], Some(Protocol::Dns)),
            (Some("UDP"), 1053, [&by_name, &plain], Some(Protocol::Dns)),
            (Some("UDP"), 1053, [&suffix, &plain], Some(Protocol::Dns)),
            (Some("UDP"), 1053, [&plain, &by_name], Some(Protocol::Dns)),
            (Some("UDP"), 1053, [&other, &plain], Some(Protocol::Udp)),
            (Some("SCTP"), 53, [&by_name, &plain], None),
        ] {
            let found = protocol(transport, port, names);
            assert_eq!(found, expected, "{transport:?} {port} {names:?}");
        }
        let mut foo = service("foo", "10.66.0.7");
        let spec = foo[0].spec.as_mut().expect("a spec");
        spec.ports.as_mut().expect("ports")[0].protocol = Some("UDP".to_owned());
        let slices = vec![slice("foo", Some("member1"), &["10.1.0.1"], "UDP")];
        let shown = shown(&held(foo, slices));
        assert_eq!(
            shown[..2],
            ["ClusterIP 10.66.0.7:80/UDP", "member1 10.1.0.1:8080/UDP"]
        );
    }

    #[test]
    fn ports_of_sctp_and_absent_services_are_untried() {
        let slices = vec![slice("foo", Some("member1"), &["10.1.0.1"], "SCTP")];
        let held = held(service("foo", "None"), slices);
        let paths = Paths::of(&held, &key(), "member2");
        assert_eq!(
            paths.untried,
            ["port 8080 is of SCTP, which is not dialled"]
        );
        let nothing = Paths::of(&Held::default(), &key(), "member2");
        assert_eq!(nothing.paths, []);
        assert_eq!(nothing.untried.len(), 1);
        assert!(nothing.untried[0].contains("kubectl mcs explain foo -n shop"));
    }
}
