use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::labels;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::objects::{Kind, Object, cluster, export, foo, mcs, service, slice, source};
use crate::fixtures::{Environment, env, name};

mod unfit;
mod writers;

/// Returns an environment in which member1 provides `foo` with one port to member2 by these slices.
fn provided(hub_service: Object, slices: impl IntoIterator<Item = Object>) -> Environment {
    let mut env = env();
    env.member("member1").member("member2").on_hub(hub_service);
    for slice in slices {
        env.on("member1", slice);
    }
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
        .settle();
    env
}

fn abc() -> Object {
    slice("foo-abc", "foo").port("http", 8080)
}

#[test]
fn the_cache_keeps_nothing_of_a_service_that_has_no_copies_any_more() {
    let mut env = provided(foo(), [abc().endpoint("10.1.0.5")]);
    assert!(!env.copy_cache.is_empty());
    env.off_hub(Kind::Mcs, "foo").settle();
    assert_eq!(env.copies("member2", "foo"), []);
    assert!(env.copy_cache.is_empty());
}

fn json_of(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

#[test]
fn a_copy_keeps_addresses_hostname_zone_conditions_and_ports_alone() {
    let endpoint = json!({
        "addresses": ["10.1.0.5"], "hostname": "foo-0", "zone": "a", "nodeName": "node1",
        "conditions": {"ready": false, "serving": true, "terminating": true},
        "targetRef": {"kind": "Pod", "name": "foo-0"}, "hints": {"forZones": [{"name": "b"}]},
        "deprecatedTopology": {"x": "y"},
    });
    let source = abc().endpoint_with(endpoint).with(
        json!({"ports": [{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"}]}),
    );
    let env = provided(foo(), [source]);
    let copy = env.only_copy();
    let kept = json!([{
        "addresses": ["10.1.0.5"], "hostname": "foo-0", "zone": "a",
        "conditions": {"ready": false, "serving": true, "terminating": true},
    }]);
    assert_eq!(json_of(&copy.endpoints), kept);
    let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"}]);
    assert_eq!(
        (json_of(&copy.ports), copy.address_type.as_str()),
        (ports, "IPv4")
    );
}

#[test]
fn a_copy_says_where_it_comes_from_and_on_whose_behalf() {
    let env = provided(foo(), [abc().endpoint("10.1.0.5")]);
    let meta = env.only_copy().metadata;
    let source = env.members["member1"]
        .get(crate::fixtures::objects::Kind::Slice, "shop", "foo-abc")
        .expect("a source");
    let version = |field: &str| source["metadata"][field].as_str().expect("text").to_owned();
    let owner = format!(
        "MultiClusterService/{}",
        env.mcs("foo").expect("it is there")["metadata"]["uid"]
            .as_str()
            .expect("a UID")
    );
    let expected = json!({
        "kubernetes.io/service-name": "foo",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io",
        "multicluster.kubernetes.io/source-cluster": "member1",
        "app.kubernetes.io/managed-by": "causeway",
        "mcs.causeway.dev/hub": "hub-uid",
    });
    assert_eq!(json_of(&meta.labels), expected);
    let expected = json!({
        "endpointslice.karmada.io/provision-cluster": "member1",
        "mcs.causeway.dev/owner": owner,
        "mcs.causeway.dev/source": format!("{}/{}", version("uid"), version("resourceVersion")),
    });
    assert_eq!(json_of(&meta.annotations), expected);
}

#[test]
fn copies_of_a_headless_service_are_labelled() {
    for (service, expected) in [(foo(), None), (foo().headless(), Some(""))] {
        let mut env = provided(service, [abc().endpoint("10.1.0.5")]);
        let labels = env.only_copy().metadata.labels.expect("labels");
        let label = labels.get(labels::HEADLESS_SERVICE);
        assert_eq!(label.map(String::as_str), expected);
        env.assert_at_rest();
    }
}

#[test]
fn a_name_is_made_of_provider_slice_and_hash_and_fits() {
    let long = "x".repeat(253);
    let dotted = format!("{}.{}", "x".repeat(195), "y".repeat(40));
    let provider = name(&"p".repeat(48));
    for (provider, slice) in [
        (&name("member1"), "foo-abc"),
        (&name("member1"), "f"),
        (&provider, &*long),
        (&provider, &*dotted),
    ] {
        let made = copy_name(Exposure::Native, provider, slice, AddressType::Ipv4);
        assert!(
            made.len() <= 253 && made.starts_with(&format!("{provider}-")),
            "{made}"
        );
        let (rest, hash) = made.rsplit_once('-').expect("a hash");
        assert!(
            hash.len() == 8 && hash.chars().all(|c| c.is_ascii_hexdigit()),
            "{made}"
        );
        assert!(
            rest.ends_with(|c: char| c.is_ascii_alphanumeric()),
            "{made}"
        );
    }
    assert_eq!(
        copy_name(Exposure::Native, &name("member1"), &long, AddressType::Ipv4).len(),
        253
    );
    assert_eq!(
        &*copy_name(
            Exposure::Native,
            &name("member1"),
            "foo-abc",
            AddressType::Ipv4
        ),
        &*copy_name(
            Exposure::Native,
            &name("member1"),
            "foo-abc",
            AddressType::Ipv4
        )
    );
    assert!(
        copy_name(
            Exposure::Native,
            &name("member1"),
            "foo-abc",
            AddressType::Ipv4
        )
        .starts_with("member1-foo-abc-")
    );
}

#[test]
fn whatever_tells_two_sources_apart_tells_their_copies_apart() {
    let long = "x".repeat(250);
    let names = [
        copy_name(Exposure::Native, &name("a"), "b-c", AddressType::Ipv4),
        copy_name(Exposure::Native, &name("a-b"), "c", AddressType::Ipv4),
        copy_name(Exposure::Native, &name("a"), "b-c", AddressType::Ipv6),
        copy_name(
            Exposure::Native,
            &name("a"),
            &format!("{long}y"),
            AddressType::Ipv4,
        ),
        copy_name(
            Exposure::Native,
            &name("a"),
            &format!("{long}z"),
            AddressType::Ipv4,
        ),
    ];
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}

#[test]
fn whoever_keeps_a_slice_it_is_a_source_unless_a_multi_cluster_controller_imported_it() {
    let by = |manager: &str| {
        abc()
            .endpoint("10.1.0.5")
            .with(json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: manager}}}))
    };
    let bare = abc()
        .endpoint("10.1.0.5")
        .with(json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: null}}}));
    let foreign = by(labels::SLICE_CONTROLLER)
        .with(json!({"metadata": {"labels": {labels::SOURCE_CLUSTER: "elsewhere"}}}));
    for (source, copies) in [
        (by(labels::SLICE_CONTROLLER), 1),
        (by(labels::SLICE_MIRRORING_CONTROLLER), 1),
        (by("somebody"), 1),
        (bare, 1),
        (by(labels::SLICE_DISPATCHER), 0),
        (by("endpointslice-mesh-controller.cilium.io"), 0),
        (foreign, 0),
        (
            by(labels::SLICE_CONTROLLER).with(json!({"addressType": "FQDN"})),
            0,
        ),
        (by("somebody").with(json!({"addressType": "FQDN"})), 0),
    ] {
        let native = provided(foo(), [source.clone()]);
        assert_eq!(native.copies("member2", "foo").len(), copies, "{source:?}");
        let mut exported = env();
        exported.member("member1").member("member2");
        exported
            .on("member1", foo())
            .on("member1", source.clone())
            .on("member1", export("foo"))
            .settle();
        let imported = exported.copies("member2", "derived-foo");
        assert_eq!(imported.len(), copies, "{source:?}");
    }
}

#[test]
fn what_somebody_wrote_as_endpoints_and_as_a_slice_too_is_carried_once() {
    let mirrored = abc()
        .endpoint("10.1.0.5")
        .endpoint("10.1.0.6")
        .with(json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: labels::SLICE_MIRRORING_CONTROLLER}}}));
    let by_hand = |address: &str, port| {
        let slice = slice("foo-by-hand", "foo").port("http", port);
        let bare = json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: null}}});
        slice.endpoint("10.1.0.5").endpoint(address).with(bare)
    };
    for (other, copies) in [
        (by_hand("10.1.0.6", 8080), 1),
        (by_hand("10.1.0.7", 8080), 2),
        (by_hand("10.1.0.6", 8081), 2),
    ] {
        let mut env = provided(foo(), [mirrored.clone(), other.clone()]);
        assert_eq!(env.copies("member2", "foo").len(), copies, "{other:?}");
        env.off("member1", Kind::Slice, "foo-abc").settle();
        assert_eq!(env.copies("member2", "foo").len(), 1, "{other:?}");
        env.assert_at_rest();
    }
}

#[test]
fn copies_are_no_sources_though_everybody_provides_and_consumes() {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    env.on_hub(foo()).on_hub(mcs("foo"));
    for (member, address) in [
        ("member1", "10.1.0.5"),
        ("member2", "10.2.0.5"),
        ("member3", "10.3.0.5"),
    ] {
        env.on(member, source(address));
    }
    env.settle();
    let sorted = |cluster| {
        let mut all = env.addresses(cluster, "foo");
        all.sort();
        all
    };
    assert_eq!(sorted("member1"), ["10.2.0.5", "10.3.0.5"]);
    assert_eq!(sorted("member2"), ["10.1.0.5", "10.3.0.5"]);
    assert_eq!(sorted("member3"), ["10.1.0.5", "10.2.0.5"]);
    env.assert_at_rest();
}

#[test]
fn ports_fit_by_protocol_and_number_and_bear_the_consumers_names() {
    let mut env = env();
    env.member("member1").member("member2").member("member3");
    let hub_service = service("foo")
        .protocol_port("dns", 53, "UDP")
        .protocol_port("dns-tcp", 53, "TCP");
    env.on(
        "member1",
        service("foo")
            .protocol_port("u", 53, "UDP")
            .protocol_port("t", 53, "TCP")
            .port("extra", 99),
    );
    env.on(
        "member2",
        service("foo")
            .protocol_port("tcp", 53, "TCP")
            .protocol_port("udp", 53, "UDP"),
    );
    let source = slice("foo-abc", "foo")
        .protocol_port("u", 5353, "UDP")
        .protocol_port("t", 5354, "TCP")
        .port("extra", 9999);
    env.on("member1", source.endpoint("10.1.0.5"))
        .on_hub(hub_service);
    env.on_hub(
        mcs("foo")
            .providers(&["member1"])
            .consumers(&["member2", "member3"]),
    )
    .settle();
    let ports = |cluster| {
        let copies = env.copies(cluster, "foo");
        let ports = copies[0].ports.clone().unwrap_or_default();
        ports
            .into_iter()
            .map(|port| (port.name.unwrap_or_default(), port.port.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ports("member2"),
        [("udp".to_owned(), 5353), ("tcp".to_owned(), 5354)]
    );
    assert_eq!(
        ports("member3"),
        [("dns".to_owned(), 5353), ("dns-tcp".to_owned(), 5354)]
    );
}

#[test]
fn slices_without_an_exposed_port_are_not_copied_but_empty_ones_are() {
    let hub_service = foo().port("grpc", 81);
    let mut env = env();
    env.member("member1").member("member2").on_hub(hub_service);
    env.on("member1", service("foo").port("http", 80).port("grpc", 81));
    env.on(
        "member1",
        slice("foo-http", "foo")
            .port("http", 8080)
            .endpoint("10.1.0.5"),
    );
    env.on(
        "member1",
        slice("foo-both", "foo")
            .port("http", 8080)
            .port("grpc", 8081)
            .endpoint("10.1.0.6"),
    );
    env.on(
        "member1",
        slice("foo-grpc", "foo")
            .port("grpc", 8081)
            .endpoint("10.1.0.7"),
    );
    env.on("member1", slice("foo-none", "foo"));
    env.on_hub(
        mcs("foo")
            .port("http", 80)
            .providers(&["member1"])
            .consumers(&["member2"]),
    )
    .settle();
    let mut addresses = env.addresses("member2", "foo");
    addresses.sort();
    assert_eq!(addresses, ["10.1.0.5", "10.1.0.6"]);
    let copies = env.copies("member2", "foo");
    assert_eq!(copies.len(), 3);
    assert!(copies.iter().all(|copy| {
        copy.ports
            .iter()
            .flatten()
            .all(|port| port.name.as_deref() == Some("http"))
    }));
}

#[test]
fn the_only_port_may_have_no_name() {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .on_hub(service("foo").port("", 80));
    env.on(
        "member1",
        slice("foo-abc", "foo").port("", 8080).endpoint("10.1.0.5"),
    );
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
        .settle();
    assert_eq!(
        json_of(&env.only_copy().ports),
        json!([{"name": "", "port": 8080, "protocol": "TCP"}])
    );
    env.assert_at_rest();
}

#[test]
fn under_a_preference_every_endpoint_bears_hints_of_its_own() {
    let source = || {
        abc().endpoint_with(json!({"addresses": ["10.1.0.5"], "zone": "a", "hints": {"forZones": [{"name": "foreign"}]}}))
            .endpoint_with(json!({"addresses": ["10.1.0.6"]}))
            .endpoint_with(json!({"addresses": ["10.1.0.7"], "zone": "rack 7/a"}))
    };
    let remote = json!([{"name": "member1.remote"}]);
    let zones = [json!([{"name": "a"}]), remote.clone(), remote.clone()];
    for (preference, for_zones, for_nodes) in [
        (
            Value::Null,
            [Value::Null, Value::Null, Value::Null],
            Value::Null,
        ),
        (json!("PreferClose"), zones.clone(), Value::Null),
        (json!("PreferSameZone"), zones.clone(), Value::Null),
        (json!("PreferSameNode"), zones.clone(), remote),
    ] {
        let mut env = provided(
            foo().with(json!({"spec": {"trafficDistribution": preference}})),
            [source()],
        );
        let endpoints = json_of(&env.only_copy().endpoints);
        for (index, for_zones) in for_zones.iter().enumerate() {
            assert_eq!(
                endpoints[index]["hints"]["forZones"], *for_zones,
                "{preference}"
            );
            assert_eq!(
                endpoints[index]["hints"]["forNodes"], for_nodes,
                "{preference}"
            );
        }
        env.assert_at_rest();
    }
}

#[test]
fn hints_follow_the_preference_of_the_consumers_own_service() {
    let mut env = env();
    env.member("member1").member("member2").on_hub(foo());
    env.on(
        "member2",
        foo().with(json!({"spec": {"trafficDistribution": "PreferClose"}})),
    );
    env.on("member1", abc().endpoint("10.1.0.5"));
    env.on_hub(mcs("foo").providers(&["member1"]).consumers(&["member2"]))
        .settle();
    assert_eq!(
        json_of(&env.only_copy().endpoints[0].hints),
        json!({"forZones": [{"name": "member1.remote"}]})
    );
}

#[test]
fn an_address_that_no_consumer_may_be_given_is_dropped_and_said() {
    let mut env = provided(foo(), [abc().endpoint("127.0.0.1").endpoint("10.1.0.5")]);
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    let copied = "True Ready: shop/foo can be reached from 1 cluster, backed by 1 cluster";
    let refused = "some endpoints of member1 (an address does not lead to another node)";
    let said = format!("{copied}; not copied: {refused}");
    assert_eq!(env.says("foo", "Ready"), said);
    let ranges = json!({"metadata": {"annotations": {labels::ENDPOINT_CIDRS: "10.1.1.0/24"}}});
    env.on_hub(cluster("member1").with(ranges)).settle();
    env.pass(Duration::from_secs(1));
    assert_eq!(env.addresses("member2", "foo"), [""; 0]);
    assert_eq!(env.says("foo", "Ready"), said);
    let source = abc().endpoint("10.1.0.5").endpoint("10.1.1.5");
    env.on("member1", source).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.1.5"]);
}

#[test]
fn range_is_reserved_within_its_network_alone() {
    let mut env = provided(foo(), [abc().endpoint("10.1.0.5")]);
    let range = json!({labels::ENDPOINT_CIDRS: "10.1.0.0/16"});
    let member3 = || cluster("member3").annotated(&range);
    let elsewhere = member3().annotated(&json!({labels::NETWORK: "edge"}));
    env.member("member3").on_hub(elsewhere).settle();
    assert_eq!(env.addresses("member2", "foo"), ["10.1.0.5"]);
    let copied = "True Ready: shop/foo can be reached from 1 cluster, backed by 1 cluster";
    assert_eq!(env.says("foo", "Ready"), copied);
    env.on_hub(member3()).settle();
    env.pass(Duration::from_secs(1));
    assert_eq!(env.addresses("member2", "foo"), [""; 0]);
    let refused = "some endpoints of member1 (an address is in the endpoint-cidrs of member3)";
    let ready = env.says("foo", "Ready");
    assert!(ready.contains(refused), "{ready}");
}

#[test]
fn change_of_refused_endpoints_writes_nothing() {
    let range = json!({labels::ENDPOINT_CIDRS: "10.1.0.0/16"});
    let of = |refused: &[&str]| {
        let all = refused.iter();
        all.fold(abc().endpoint("10.1.0.5"), |slice, one| slice.endpoint(one))
    };
    let mut env = provided(foo(), [of(&["127.0.0.1", "172.16.0.1"])]);
    env.on_hub(cluster("member1").annotated(&range)).settle();
    env.pass(Duration::from_secs(1));
    let others = of(&["10.2.0.1", "127.0.0.2", "127.0.0.3"]);
    env.forget_writes().on("member1", others).settle();
    env.pass(Duration::from_secs(1));
    assert_eq!(env.log(), [""; 0]);
}

#[test]
fn one_changed_endpoint_costs_one_write_in_each_consumer_and_none_elsewhere() {
    let mut env = env();
    env.member("member1")
        .member("member2")
        .member("member3")
        .on_hub(foo());
    env.on("member1", abc().endpoint("10.1.0.5")).on(
        "member1",
        slice("foo-other", "foo")
            .port("http", 8080)
            .endpoint("10.1.0.9"),
    );
    env.on_hub(
        mcs("foo")
            .providers(&["member1"])
            .consumers(&["member2", "member3"]),
    )
    .settle();
    env.forget_writes()
        .on("member1", abc().endpoint("10.1.0.6"))
        .settle();
    assert_eq!(
        env.log(),
        [
            "member2 update EndpointSlice",
            "member3 update EndpointSlice"
        ]
    );
    assert!(
        env.addresses("member3", "foo")
            .contains(&"10.1.0.6".to_owned())
    );
}

#[test]
fn a_new_version_of_a_source_that_says_nothing_new_costs_nothing() {
    let mut env = provided(foo(), [abc().endpoint("10.1.0.5")]);
    env.forget_writes().on(
        "member1",
        abc()
            .endpoint("10.1.0.5")
            .with(json!({"metadata": {"annotations": {"touched": "yes"}}})),
    );
    env.settle();
    assert_eq!(env.log(), Vec::<String>::new());
}
