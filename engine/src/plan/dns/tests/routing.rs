//! Names with one record for each value of a routing property.

use std::time::Duration;

use causeway::api::labels;
use serde_json::{Value, json};

use super::{NAME, drained, endpoints, named, ready, two};
use crate::fixtures::objects::{Kind, Object, cluster};
use crate::fixtures::{Environment, hub_event};
use crate::model::{HubEvent, Signal};

fn routed(property: &str) -> Object {
    named(json!({ labels::HOSTNAME: NAME, labels::HOSTNAME_ROUTING: property }))
}

/// Returns a Cluster with a region and a value of the routing property.
fn place(name: &str, region: Value, value: Value) -> Object {
    let annotations = json!({ labels::HOSTNAME_ROUTING_VALUE: value });
    let part = json!({ "metadata": { "annotations": annotations }, "spec": { "region": region } });
    cluster(name).with(part)
}

fn no_place(name: &str) -> Object {
    place(name, Value::Null, Value::Null)
}

/// Returns two members of the regions eu and us, with a name that is routed by region.
fn regions() -> Environment {
    let mut env = two();
    env.on_hub(place("member1", json!("eu"), Value::Null))
        .on_hub(place("member2", json!("us"), Value::Null))
        .on_hub(routed("aws/region"))
        .settle();
    env
}

/// Lists the records: identifier, property, value, targets.
fn records(env: &Environment) -> Vec<String> {
    let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo");
    let all = object.map(|object| object["spec"]["endpoints"].clone());
    let all = all.unwrap_or_default();
    let text = |one: &Value| {
        assert_eq!(
            (&one["dnsName"], &one["recordType"]),
            (&json!(NAME), &json!("A"))
        );
        let of = &one["providerSpecific"][0];
        let words = [&one["setIdentifier"], &of["name"], &of["value"]];
        let words = words.into_iter().filter_map(Value::as_str);
        let targets = one["targets"].as_array().expect("targets");
        let words = words.chain(targets.iter().filter_map(Value::as_str));
        words.collect::<Vec<_>>().join(" ")
    };
    all.as_array().into_iter().flatten().map(text).collect()
}

const EU: &str = "eu aws/region eu 192.0.2.1";
const US: &str = "us aws/region us 192.0.2.2";

#[test]
fn each_region_has_a_record_while_it_can_serve() {
    let mut env = regions();
    assert_eq!(records(&env), [EU, US]);
    let leads = "foo.example.com leads to 192.0.2.1 (member1: eu), 192.0.2.2 (member2: us)";
    assert!(ready(&env).ends_with(leads), "{}", ready(&env));
    env.assert_at_rest();
    env.on("member1", endpoints(false)).settle();
    assert_eq!(records(&env), [US]);
    env.on("member1", endpoints(true)).settle();
    assert_eq!(records(&env), [EU, US]);
}

#[test]
fn last_record_of_a_routed_name_stays() {
    let mut env = regions();
    env.on("member1", endpoints(false)).settle();
    env.on("member2", endpoints(false)).settle();
    assert_eq!(records(&env), [US]);
    let held = "leads to 192.0.2.2 (member2: us) still, although no cluster has a ready endpoint";
    assert!(ready(&env).contains(held), "{}", ready(&env));
    env.on_hub(drained("member2", true)).settle();
    assert_eq!(records(&env), [US]);
    env.on("member1", endpoints(true)).settle();
    assert_eq!(records(&env), [EU]);
}

#[test]
fn annotations_decide_property_and_value() {
    let mut env = regions();
    let country = "aws/geolocation-country-code";
    env.on_hub(routed(country))
        .on_hub(place("member1", json!("eu"), json!("*")))
        .on_hub(place("member2", json!("us"), json!("*")))
        .settle();
    let both = format!("* {country} * 192.0.2.1 192.0.2.2");
    assert_eq!(records(&env), std::slice::from_ref(&both));
    env.on("member1", endpoints(false)).settle();
    assert_eq!(records(&env), [format!("* {country} * 192.0.2.2")]);
    env.on("member1", endpoints(true)).settle();
    // A mistake withdraws nothing.
    env.on_hub(routed("country")).settle();
    assert_eq!(records(&env), [both]);
    env.on_hub(named(json!({ labels::HOSTNAME: NAME })))
        .settle();
    assert_eq!(records(&env), ["192.0.2.1 192.0.2.2"]);
    env.assert_at_rest();
}

#[test]
fn cluster_without_a_value_is_in_no_record() {
    let unusable = place("member2", json!("us"), json!("eu west"));
    for without in [no_place("member2"), unusable] {
        let mut env = regions();
        env.on_hub(without).settle();
        assert_eq!(records(&env), [EU]);
        let why = "foo.example.com leads to 192.0.2.1 (member1: eu); foo.example.com does not lead \
                   to member2 (no value for aws/region): kubectl annotate --overwrite cluster \
                   member2 mcs.causeway.dev/hostname-routing-value=VALUE";
        assert!(ready(&env).contains(why), "{}", ready(&env));
        env.assert_at_rest();
        env.on_hub(place("member2", Value::Null, json!("us")))
            .settle();
        assert_eq!(records(&env), [EU, US]);
    }
}

#[test]
fn records_stay_while_no_cluster_has_a_value() {
    let mut env = two();
    env.on_hub(routed("aws/region")).settle();
    assert_eq!(records(&env), ["192.0.2.1 192.0.2.2"]);
    let why = "no record of foo.example.com changes, because no cluster with a value for aws/region \
               can serve (without a value: member1, member2): kubectl annotate --overwrite cluster \
               member1 mcs.causeway.dev/hostname-routing-value=VALUE";
    assert!(ready(&env).contains(why), "{}", ready(&env));
    let mut env = regions();
    for name in ["member1", "member2"] {
        env.on_hub(no_place(name));
    }
    env.settle();
    assert_eq!(records(&env), [EU, US]);
    env.on("member1", endpoints(false)).settle();
    assert_eq!(records(&env), [EU, US]);
    env.assert_at_rest();
}

/// Starts another process, which reads the DNSEndpoint.
fn restart(env: &mut Environment) {
    let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
    env.restart()
        .observe_hub(HubEvent::DnsEndpointsServed(true));
    let listed = Signal::Listed(object.into_iter().collect());
    env.observe_hub(hub_event(Kind::DnsEndpoint, listed));
}

#[test]
fn restart_keeps_the_record_of_an_unreachable_cluster() {
    let mut env = regions();
    env.lose("member1").pass(Duration::from_secs(300));
    assert_eq!(records(&env), [EU, US]);
    let before = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
    restart(&mut env);
    env.pass(Duration::from_secs(300));
    assert_eq!(
        env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned(),
        before
    );
    // Its value is that of its Cluster, although nothing else is known of it.
    env.on_hub(place("member1", json!("eu"), json!("ap")))
        .settle();
    assert_eq!(records(&env), ["ap aws/region ap 192.0.2.1", US]);
}

#[test]
fn cluster_that_may_be_lost_keeps_its_record() {
    let mut env = regions();
    let both = ["member1", "member2"];
    env.on_hub(routed("aws/region").providers(&both).consumers(&both))
        .settle();
    env.balance("member1", &["192.0.2.1"])
        .balance("member2", &["192.0.2.2"])
        .settle();
    assert_eq!(records(&env), [EU, US]);
    // The first list after a restart lacks the second Cluster, of which member1 holds a copy.
    env.forgets("hub", Kind::Cluster, 1);
    restart(&mut env);
    env.introduce("member1").list("member1").work();
    let suspected = env.index.suspected_clusters();
    assert!(suspected.iter().any(|name| name.as_str() == "member2"));
    let wanted = env.plan("foo").name;
    let wanted = wanted.wanted().expect("a name");
    let values = wanted
        .records
        .iter()
        .map(|one| one.set_identifier.as_deref());
    assert_eq!(values.collect::<Vec<_>>(), [Some("eu"), Some("us")]);
}
