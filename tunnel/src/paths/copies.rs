//! Copies in the member, as far as probes need them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::SocketAddr;

use causeway::api::{labels, ownership};
use causeway::domain::ClusterName;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::runtime::watcher::Event;

/// Maximum number of endpoints of a slice that are probed in turn.
pub(super) const MOST_TARGETS: usize = 16;
/// Maximum number of endpoints of a cluster that are probed in one round.
const PROBED: usize = 3;
/// Maximum number of copies. Others are not probed.
const MOST_COPIES: usize = 250_000;

/// Identity of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CopyId {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Service in the member to which the copy belongs.
    pub(super) service: String,
    /// Cluster that it comes from.
    pub(super) source: ClusterName,
}

/// Address family and names of the ports at which a slice has endpoints.
#[derive(Debug)]
pub(super) struct Offer {
    family: String,
    ports: Vec<String>,
}

#[derive(Debug)]
struct Copy {
    id: CopyId,
    offer: Offer,
    targets: Vec<SocketAddr>,
    /// Whether an endpoint serves, according to its conditions.
    serves: bool,
    has_ready: bool,
    /// Whether the controller made its ready endpoints standby endpoints.
    is_standby: bool,
    is_lowered: bool,
    /// Whether its Service is headless. DNS has no standby endpoints.
    is_headless: bool,
}

/// Copies by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Copies {
    all: HashMap<(String, String), Copy>,
    /// Copies of a list that has not ended.
    listed: HashMap<(String, String), Copy>,
}

impl Copies {
    /// Applies an event of the watch.
    pub(super) fn apply(&mut self, event: Event<EndpointSlice>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(slice) => put(&mut self.listed, &slice),
            Event::InitDone => self.all = std::mem::take(&mut self.listed),
            Event::Apply(slice) => put(&mut self.all, &slice),
            Event::Delete(slice) => {
                if let Some(place) = place(&slice) {
                    self.all.remove(&place);
                }
            }
        }
    }

    /// Returns the endpoints to probe in a round, by the cluster that they come from: other ones in
    /// each round, from all over its copies. Endpoints that the controller made not ready are only
    /// probed if the path to the cluster is `bad` and it has no others.
    pub(super) fn targets(
        &self,
        round: usize,
        bad: &BTreeSet<ClusterName>,
    ) -> BTreeMap<ClusterName, Vec<SocketAddr>> {
        let copies = || self.all.values().filter(|copy| !copy.targets.is_empty());
        let serving = copies().filter(|copy| copy.serves);
        let serving: BTreeSet<_> = serving.map(|copy| &copy.id.source).collect();
        let mut all = BTreeMap::<ClusterName, Vec<SocketAddr>>::new();
        let is_probed = |copy: &&Copy| {
            let source = &copy.id.source;
            copy.serves || bad.contains(source) && !serving.contains(source)
        };
        for copy in copies().filter(is_probed) {
            let targets = all.entry(copy.id.source.clone()).or_default();
            targets.extend(&copy.targets);
        }
        for targets in all.values_mut() {
            targets.sort_unstable();
            targets.dedup();
            let count = targets.len();
            let chosen =
                (0..PROBED.min(count)).map(|n| (round + n * count / PROBED.min(count)) % count);
            *targets = chosen
                .filter_map(|index| targets.get(index).copied())
                .collect();
        }
        all
    }

    /// Returns the clusters of which the member holds copies, whether these have targets or not.
    pub(super) fn sources(&self) -> BTreeSet<ClusterName> {
        let copies = self.all.values();
        copies.map(|copy| copy.id.source.clone()).collect()
    }

    /// Lists the copies from a cluster that have ready endpoints, except those of headless
    /// Services.
    pub(super) fn ready(&self, source: &ClusterName) -> impl Iterator<Item = CopyId> {
        self.of(source, |copy| copy.has_ready && !copy.is_headless)
    }

    /// Lists the copies from a cluster that this program has lowered, except those of headless
    /// Services.
    pub(super) fn lowered(&self, source: &ClusterName) -> impl Iterator<Item = CopyId> {
        self.of(source, |copy| copy.is_lowered && !copy.is_headless)
    }

    fn of(&self, source: &ClusterName, is: fn(&Copy) -> bool) -> impl Iterator<Item = CopyId> {
        let copies = self.all.values();
        let copies = copies.filter(move |copy| copy.id.source == *source && is(copy));
        copies.map(|copy| copy.id.clone())
    }

    /// Lists the other clusters from which the service of a copy has ready endpoints.
    pub(super) fn others(&self, copy: &CopyId) -> Vec<&ClusterName> {
        self.others_that(copy, |_| true)
    }

    /// Lists the other clusters from which the service of a copy has ready endpoints of the same
    /// address family, at all ports of the copy.
    pub(super) fn substitutes(&self, copy: &CopyId) -> Vec<&ClusterName> {
        let Some(known) = self.all.get(&(copy.namespace.clone(), copy.name.clone())) else {
            return Vec::new();
        };
        self.others_that(copy, |other| other.offer.covers(&known.offer))
    }

    fn others_that(&self, copy: &CopyId, is: impl Fn(&Copy) -> bool) -> Vec<&ClusterName> {
        let others = self.of_others(copy);
        let others = others.filter(|other| other.has_ready && is(other));
        others.map(|other| &other.id.source).collect()
    }

    /// Lists the copies from other clusters of the service of a copy whose endpoints are standby
    /// endpoints by the controller: those of a lower preference.
    pub(super) fn standby(&self, copy: &CopyId) -> impl Iterator<Item = &CopyId> {
        let others = self.of_others(copy).filter(|other| other.is_standby);
        others.map(|other| &other.id)
    }

    /// Lists the copies from other clusters of the service of a copy.
    fn of_others(&self, copy: &CopyId) -> impl Iterator<Item = &Copy> {
        self.all.values().filter(move |other| {
            let id = &other.id;
            let is_same = (&id.namespace, &id.service) == (&copy.namespace, &copy.service);
            is_same && id.source != copy.source
        })
    }
}

impl Offer {
    /// Returns the offer of a slice.
    pub(super) fn of(slice: &EndpointSlice) -> Self {
        let ports = slice.ports.iter().flatten();
        Self {
            family: slice.address_type.clone(),
            ports: ports
                .map(|port| port.name.clone().unwrap_or_default())
                .collect(),
        }
    }

    /// Whether it has the family and all ports of another offer. A proxy uses standby endpoints of
    /// a family and port that has no ready endpoint, whatever others have.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut ports = other.ports.iter();
        self.family == other.family && ports.all(|port| self.ports.contains(port))
    }
}

fn put(copies: &mut HashMap<(String, String), Copy>, slice: &EndpointSlice) {
    let Some(place) = place(slice) else { return };
    match read(slice, &place) {
        Some(copy) if copies.len() < MOST_COPIES || copies.contains_key(&place) => {
            copies.insert(place, copy);
        }
        _ => drop(copies.remove(&place)),
    }
}

fn place(slice: &EndpointSlice) -> Option<(String, String)> {
    let meta = &slice.metadata;
    Some((meta.namespace.clone()?, meta.name.clone()?))
}

fn read(slice: &EndpointSlice, (namespace, name): &(String, String)) -> Option<Copy> {
    let meta = &slice.metadata;
    let annotations = meta.annotations.as_ref();
    let has = |name: &str| annotations.is_some_and(|all| all.contains_key(name));
    let mut targets: Vec<_> = addresses(slice).take(MOST_TARGETS).collect();
    let serves = !targets.is_empty();
    // Without standby endpoints in the member (`mcs.causeway.dev/standby: "false"`) the controller
    // makes all endpoints of a bad path not ready. Only further probes find that it is good again.
    if !serves && has(labels::STANDBY) {
        targets.extend(addresses_of(slice, |_| true).take(MOST_TARGETS));
    }
    let labels = meta.labels.as_ref()?;
    Some(Copy {
        id: CopyId {
            namespace: namespace.clone(),
            name: name.clone(),
            service: labels.get(labels::SERVICE_NAME)?.clone(),
            source: ClusterName::try_from(ownership::source_member(meta)?).ok()?,
        },
        offer: Offer::of(slice),
        targets,
        serves,
        has_ready: has_ready(slice),
        is_standby: serves && has(labels::STANDBY) && !has(labels::LOWERED),
        is_lowered: has(labels::LOWERED),
        is_headless: labels.contains_key(labels::HEADLESS_SERVICE),
    })
}

/// Whether an endpoint of the slice is ready.
pub(super) fn has_ready(slice: &EndpointSlice) -> bool {
    let mut conditions = slice.endpoints.iter().map(|one| one.conditions.as_ref());
    conditions.any(|one| one.and_then(|one| one.ready) != Some(false))
}

/// Lists the addresses of endpoints that serve, at the first TCP port of the slice. A slice without
/// one has none.
pub(super) fn addresses(slice: &EndpointSlice) -> impl Iterator<Item = SocketAddr> {
    addresses_of(slice, |endpoint| {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        conditions.ready != Some(false) || conditions.serving == Some(true)
    })
}

/// Lists the addresses of the endpoints that `is` selects, at the first TCP port of the slice.
fn addresses_of(
    slice: &EndpointSlice,
    is: fn(&Endpoint) -> bool,
) -> impl Iterator<Item = SocketAddr> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports.find(|port| port.protocol.as_deref().is_none_or(|name| name == "TCP"));
    let port = port.and_then(|port| u16::try_from(port.port?).ok());
    let endpoints = slice.endpoints.iter();
    let selected = endpoints.filter(move |endpoint| is(endpoint));
    selected.filter_map(move |endpoint| {
        let address = endpoint.addresses.first()?.parse().ok()?;
        Some(SocketAddr::new(address, port?))
    })
}

impl fmt::Display for CopyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(
        name: &str,
        source: &str,
        addresses: std::ops::Range<u8>,
        more: Value,
    ) -> EndpointSlice {
        let endpoints = addresses.map(|n| json!({"addresses": [format!("10.0.0.{n}")]}));
        let mut value = json!({
            "metadata": {
                "name": name, "namespace": "shop",
                "labels": {labels::SERVICE_NAME: "foo", labels::SOURCE_CLUSTER: source, labels::HUB: "hub"},
                "annotations": {},
            },
            "addressType": "IPv4",
            "endpoints": endpoints.collect::<Vec<_>>(),
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "http", "port": 80, "protocol": "TCP"}],
        });
        json_patch::merge(&mut value, &more);
        serde_json::from_value(value).expect("a slice")
    }

    fn copies(slices: impl IntoIterator<Item = EndpointSlice>) -> Copies {
        let mut copies = Copies::default();
        copies.apply(Event::Init);
        slices
            .into_iter()
            .for_each(|slice| copies.apply(Event::InitApply(slice)));
        copies.apply(Event::InitDone);
        copies
    }

    fn name(text: &str) -> ClusterName {
        ClusterName::try_from(text).expect("a name")
    }

    #[test]
    fn three_endpoints_of_each_cluster_are_probed_and_all_in_turn() {
        let two = copies([
            slice("a", "one", 0..7, json!({})),
            slice("b", "two", 10..12, json!({})),
        ]);
        let mut seen = std::collections::BTreeSet::new();
        for round in 0..7 {
            let targets = two.targets(round, &BTreeSet::new());
            let counts: Vec<_> = targets.values().map(Vec::len).collect();
            assert_eq!(counts, [3, 2], "{targets:?}");
            let distinct: std::collections::BTreeSet<_> =
                targets[&name("one")].iter().copied().collect();
            assert_eq!(distinct.len(), 3);
            seen.extend(distinct);
        }
        assert_eq!(seen.len(), 7);
        assert!(seen.iter().all(|target| target.port() == 80));
    }

    #[test]
    fn slices_without_tcp_and_endpoints_that_serve_nothing_are_not_probed() {
        let down = json!({"endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
        ]});
        let all = copies([
            slice(
                "a",
                "one",
                0..3,
                json!({"ports": [{"port": 53, "protocol": "UDP"}]}),
            ),
            slice("b", "two", 0..0, down),
            slice(
                "c",
                "three",
                0..3,
                json!({"metadata": {"labels": {labels::SOURCE_CLUSTER: null}}}),
            ),
        ]);
        let targets = all.targets(0, &BTreeSet::new());
        assert_eq!(targets.len(), 1, "{targets:?}");
        assert_eq!(
            targets[&name("two")],
            ["10.0.0.2:80".parse().expect("an address")]
        );
    }

    #[test]
    fn endpoints_made_not_ready_by_the_controller_are_probed() {
        let down = |address: &str, standby: Value| {
            json!({
                "metadata": {"annotations": {labels::STANDBY: standby}},
                "endpoints": [
                    {"addresses": [address], "conditions": {"ready": false, "serving": false}},
                ],
            })
        };
        let mut all = copies([
            slice("a", "one", 0..0, down("10.0.0.1", json!("true"))),
            slice("b", "two", 0..0, down("10.0.0.2", Value::Null)),
            slice("c", "three", 0..0, down("10.0.0.3", json!("true"))),
            slice("d", "three", 4..5, json!({})),
        ]);
        let bad = BTreeSet::from(["one", "two", "three"].map(name));
        assert!(!all.targets(0, &BTreeSet::new()).contains_key(&name("one")));
        let targets = all.targets(0, &bad);
        let address = |text: &str| -> SocketAddr { text.parse().expect("an address") };
        assert_eq!(targets[&name("one")], [address("10.0.0.1:80")]);
        assert!(!targets.contains_key(&name("two")), "{targets:?}");
        assert_eq!(targets[&name("three")], [address("10.0.0.4:80")]);
        all.apply(Event::Delete(slice("d", "three", 4..5, json!({}))));
        assert_eq!(
            all.targets(0, &bad)[&name("three")],
            [address("10.0.0.3:80")]
        );
    }

    #[test]
    fn standby_copies_are_those_of_the_controller_that_serve() {
        let down = |address: &str, serving: bool, marks: Value| {
            let conditions = json!({"ready": false, "serving": serving, "terminating": true});
            json!({
                "metadata": {"annotations": marks},
                "endpoints": [{"addresses": [address], "conditions": conditions}],
            })
        };
        let standby = || json!({labels::STANDBY: "true"});
        let lowered = json!({labels::STANDBY: "true", labels::LOWERED: "causeway-agent"});
        let all = copies([
            slice("a", "one", 0..1, json!({})),
            slice("b", "two", 0..0, down("10.0.0.2", true, standby())),
            slice("c", "three", 0..0, down("10.0.0.3", false, standby())),
            slice("d", "four", 0..0, down("10.0.0.4", true, json!({}))),
            slice("e", "five", 0..0, down("10.0.0.5", true, lowered)),
            slice("f", "one", 0..0, down("10.0.0.6", true, standby())),
        ]);
        let one = all.ready(&name("one")).next().expect("a copy");
        assert!(all.others(&one).is_empty());
        let standby: Vec<_> = all.standby(&one).map(|copy| &copy.source).collect();
        assert_eq!(standby, [&name("two")]);
    }

    #[test]
    fn copies_of_headless_services_are_probed_and_not_changed() {
        let headless = json!({"metadata": {
            "labels": {labels::HEADLESS_SERVICE: ""},
            "annotations": {labels::LOWERED: "causeway-agent"},
        }});
        let all = copies([slice("a", "one", 0..1, headless)]);
        assert_eq!(all.targets(0, &BTreeSet::new()).len(), 1);
        assert_eq!(all.ready(&name("one")).count(), 0);
        assert_eq!(all.lowered(&name("one")).count(), 0);
    }

    #[test]
    fn clusters_are_known_by_copies_without_targets() {
        let udp = json!({"ports": [{"port": 53, "protocol": "UDP"}]});
        let mut all = copies([slice("a", "one", 0..3, udp)]);
        assert!(all.targets(0, &BTreeSet::new()).is_empty());
        assert_eq!(all.sources(), BTreeSet::from([name("one")]));
        all.apply(Event::Delete(slice("a", "one", 0..3, json!({}))));
        assert!(all.sources().is_empty());
    }

    #[test]
    fn others_are_clusters_with_ready_endpoints_for_the_same_service() {
        let not_ready =
            json!({"endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": false}}]});
        let elsewhere = json!({"metadata": {"labels": {labels::SERVICE_NAME: "bar"}}});
        let lowered = json!({"metadata": {"annotations": {labels::LOWERED: "causeway-agent"}}});
        let mut all = copies([
            slice("a", "one", 0..1, json!({})),
            slice("b", "two", 1..2, json!({})),
            slice("c", "three", 2..2, not_ready),
            slice("d", "four", 3..4, elsewhere),
            slice("e", "five", 4..5, lowered),
        ]);
        let one = all.ready(&name("one")).next().expect("a copy");
        let mut others = all.others(&one);
        others.sort();
        assert_eq!(others, [&name("five"), &name("two")]);
        assert_eq!(all.lowered(&name("five")).count(), 1);
        assert_eq!(all.ready(&name("three")).count(), 0);
        all.apply(Event::Delete(slice("b", "two", 1..2, json!({}))));
        assert_eq!(all.others(&one), [&name("five")]);
    }

    #[test]
    fn substitutes_have_the_address_family_and_all_ports() {
        let ipv6 = json!({"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]});
        let http = json!({"name": "http", "port": 80, "protocol": "TCP"});
        let dns = json!({"name": "dns", "port": 53, "protocol": "UDP"});
        let more = json!({"ports": [http, {"name": "grpc", "port": 81}, dns]});
        let all = copies([
            slice("a", "one", 0..1, json!({})),
            slice("b", "two", 1..2, ipv6),
            slice("c", "three", 2..3, json!({"ports": [http]})),
            slice("d", "four", 3..4, more),
        ]);
        let one = all.ready(&name("one")).next().expect("a copy");
        assert_eq!(all.others(&one).len(), 3);
        assert_eq!(all.substitutes(&one), [&name("four")]);
        let three = all.ready(&name("three")).next().expect("a copy");
        let mut substitutes = all.substitutes(&three);
        substitutes.sort();
        assert_eq!(substitutes, [&name("four"), &name("one")]);
    }
}
