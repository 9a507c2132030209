//! Names that several MultiClusterServices request.

use std::time::Duration;

use causeway::api::labels;
use serde_json::{Value, json};

use super::{balanced, endpoints};
use crate::fixtures::objects::{Kind, Object, mcs, namespace, service};
use crate::fixtures::{Environment, env, hub_event};
use crate::model::{HubEvent, Signal};

const NAME: &str = "shared.example.com";

fn named(name: &str, hostnames: Value) -> Object {
    let annotations = json!({ labels::HOSTNAME: hostnames });
    let object = mcs(name).load_balancer();
    object.with(json!({ "metadata": { "annotations": annotations } }))
}

fn rename(object: Object, name: &str, service: &str) -> Object {
    let labels = json!({ "kubernetes.io/service-name": service });
    object.with(json!({ "metadata": { "name": name, "labels": labels } }))
}

/// Returns a hub whose services foo and bar have load balancers in member1.
fn both() -> Environment {
    let mut env = env();
    env.member("member1");
    env.on_hub(namespace("shop"));
    for (name, address) in [("foo", "192.0.2.1"), ("bar", "192.0.2.2")] {
        let own = balanced(json!([{ "ip": address }]));
        let own = own.with(json!({ "metadata": { "name": name } }));
        env.on("member1", own)
            .on(
                "member1",
                rename(endpoints(true), &format!("{name}-abc"), name),
            )
            .on_hub(service(name).port("http", 80));
    }
    env.observe_hub(HubEvent::DnsEndpointsServed(true))
        .observe_hub(HubEvent::DnsEndpoints(Signal::Listed(Vec::new())));
    env
}

/// Lets the services request the name, a minute apart.
fn request(env: &mut Environment, order: &[&str]) {
    for name in order {
        env.on_hub(named(name, json!(NAME)));
        env.pass(Duration::from_secs(60));
    }
}

fn put(env: &mut Environment, name: &str, change: Value) {
    let value = env.hub.get(Kind::DnsEndpoint, "shop", name).cloned();
    let kind = Kind::DnsEndpoint;
    let value = value.expect("a DNSEndpoint");
    env.on_hub(Object { kind, value }.with(change)).settle();
}

/// Returns the names that the DNSEndpoint of a service publishes.
fn published(env: &Environment, name: &str) -> Vec<String> {
    let object = env.hub.get(Kind::DnsEndpoint, "shop", name);
    let records = object.map(|object| object["spec"]["endpoints"].clone());
    let records = records.unwrap_or_default();
    let names = records.as_array().into_iter().flatten();
    let names = names.filter_map(|record| record["dnsName"].as_str());
    names.map(ToOwned::to_owned).collect()
}

#[track_caller]
fn assert_owner(env: &mut Environment, owner: &str, what: &str) {
    let other = if owner == "foo" { "bar" } else { "foo" };
    assert_eq!(published(env, owner), [NAME], "{what}: {owner}");
    assert_eq!(
        env.hub.get(Kind::DnsEndpoint, "shop", other),
        None,
        "{what}"
    );
    env.assert_at_rest();
}

/// Case: description, the requests and what happens to them, and the owner.
type Case = (&'static str, fn(&mut Environment), &'static str);

/// Name of a change that frees a name, and the change.
type Release = (&'static str, fn(&mut Environment));

#[test]
fn name_belongs_to_its_publisher_then_to_the_oldest() {
    let cases: [Case; 8] = [
        (
            "foo publishes it",
            |env| request(env, &["foo", "bar"]),
            "foo",
        ),
        (
            "bar publishes it",
            |env| request(env, &["bar", "foo"]),
            "bar",
        ),
        (
            "bar is older, and requests it later",
            |env| {
                env.on_hub(mcs("bar").load_balancer());
                env.pass(Duration::from_secs(60));
                request(env, &["foo", "bar"]);
            },
            "foo",
        ),
        (
            "the older one has not published it yet",
            |env| {
                env.observe_hub(HubEvent::DnsEndpointsServed(false));
                request(env, &["foo", "bar"]);
                serve(env, Vec::new());
            },
            "foo",
        ),
        (
            "both are of the same age",
            |env| {
                env.on_hub(named("foo", json!(NAME)));
                env.on_hub(named("bar", json!(NAME))).settle();
            },
            "bar",
        ),
        (
            "both publish it",
            |env| publish_both(env, &["foo", "bar"]),
            "foo",
        ),
        (
            "the publisher is known after a restart",
            |env| {
                env.on_hub(mcs("bar").load_balancer());
                env.pass(Duration::from_secs(60));
                request(env, &["foo", "bar"]);
                let stored = env.hub.all(Kind::DnsEndpoint).cloned().collect();
                env.restart().settle();
                serve(env, stored);
            },
            "foo",
        ),
        (
            "the publisher's object is deleted, and the other one is older",
            |env| {
                env.on_hub(mcs("bar").load_balancer());
                env.pass(Duration::from_secs(60));
                request(env, &["foo", "bar"]);
                env.off_hub(Kind::DnsEndpoint, "foo").settle();
            },
            "bar",
        ),
    ];
    for (what, change, owner) in cases {
        let mut env = both();
        change(&mut env);
        env.settle();
        assert_owner(&mut env, owner, what);
    }
}

fn serve(env: &mut Environment, stored: Vec<Value>) {
    env.observe_hub(HubEvent::DnsEndpointsServed(true));
    env.observe_hub(hub_event(Kind::DnsEndpoint, Signal::Listed(stored)))
        .settle();
}

/// Plays a controller that does not compare names: both services publish the name.
fn publish_both(env: &mut Environment, order: &[&str]) {
    for name in order {
        env.on_hub(named(name, json!(format!("{name}.example.com"))));
        env.pass(Duration::from_secs(60));
    }
    env.observe_hub(HubEvent::DnsEndpointsServed(false));
    request(env, &["bar", "foo"]);
    let stored = env.hub.all(Kind::DnsEndpoint).cloned();
    let renamed = stored.map(|mut object| {
        object["spec"]["endpoints"][0]["dnsName"] = json!(NAME);
        object
    });
    let renamed: Vec<_> = renamed.collect();
    for value in renamed.clone() {
        let kind = Kind::DnsEndpoint;
        env.on_hub(Object { kind, value });
    }
    let stored = env.hub.all(Kind::DnsEndpoint).cloned().collect();
    serve(env, stored);
}

#[test]
fn next_service_gets_a_name_that_its_owner_gives_up() {
    let cases: [Release; 5] = [
        ("the annotation goes", |env| {
            env.on_hub(named("foo", Value::Null));
        }),
        ("another name is requested", |env| {
            env.on_hub(named("foo", json!("other.example.com")));
        }),
        ("the type changes", |env| {
            let object = named("foo", json!(NAME));
            env.on_hub(object.with(json!({ "spec": { "types": ["CrossCluster"] } })));
        }),
        ("the object is deleted", |env| {
            env.off_hub(Kind::Mcs, "foo");
        }),
        (
            "the object is deleted, and somebody else's finalizer holds it",
            |env| {
                let object = named("foo", json!(NAME));
                env.on_hub(object.with(json!({ "metadata": { "finalizers": ["x.example/y"] } })))
                    .settle();
                env.off_hub(Kind::Mcs, "foo");
            },
        ),
    ];
    for (what, give_up) in cases {
        let mut env = both();
        request(&mut env, &["foo", "bar"]);
        assert_owner(&mut env, "foo", what);
        give_up(&mut env);
        env.work();
        assert_eq!(published(&env, "bar"), [NAME], "{what}");
        env.settle();
        assert_ne!(published(&env, "foo"), [NAME], "{what}");
    }
}

#[test]
fn unreadable_annotation_keeps_the_published_name() {
    let mut env = both();
    request(&mut env, &["foo", "bar"]);
    env.on_hub(named("foo", json!("not a name"))).settle();
    assert_owner(&mut env, "foo", "unreadable");
}

#[test]
fn names_are_compared_as_dns_does() {
    for published in ["Shared.Example.COM", "shared.example.com."] {
        let mut env = both();
        env.on_hub(mcs("bar").load_balancer());
        env.pass(Duration::from_secs(60));
        request(&mut env, &["foo"]);
        // The DNSEndpoint of an unreadable annotation stays as a person wrote it.
        env.on_hub(named("foo", json!("not a name"))).settle();
        let record = json!({ "dnsName": published, "targets": ["192.0.2.1"] });
        put(
            &mut env,
            "foo",
            json!({ "spec": { "endpoints": [record] } }),
        );
        request(&mut env, &["bar"]);
        let other = env.hub.get(Kind::DnsEndpoint, "shop", "bar");
        assert_eq!(other, None, "{published}");
        // Its deletion alone leads to the next service.
        env.off_hub(Kind::DnsEndpoint, "foo").settle();
        assert_owner(&mut env, "bar", published);
    }
}

#[test]
fn foreign_object_makes_no_owner() {
    for foreign in [
        json!({ "metadata": { "ownerReferences": [] } }),
        json!({ "metadata": { "labels": { labels::MANAGED_BY: "somebody" } } }),
    ] {
        let mut env = both();
        env.on_hub(mcs("bar").load_balancer());
        env.pass(Duration::from_secs(60));
        request(&mut env, &["foo", "bar"]);
        put(&mut env, "foo", foreign.clone());
        assert_eq!(published(&env, "bar"), [NAME], "{foreign}");
    }
}

#[test]
fn service_publishes_the_names_that_are_left() {
    let mut env = both();
    request(&mut env, &["bar"]);
    env.on_hub(named("foo", json!(format!("foo.example.com,{NAME}"))))
        .settle();
    assert_eq!(published(&env, "foo"), ["foo.example.com"]);
    assert_eq!(
        env.says("foo", "Ready"),
        "True Ready: the load balancers of 1 cluster are gathered; foo.example.com leads to \
         192.0.2.1 (member1); shared.example.com is not published: MultiClusterService shop/bar \
         has the name: kubectl -n shop annotate --overwrite mcs foo \
         mcs.causeway.dev/hostname=OTHER-NAME, or give the name up there: kubectl -n shop annotate \
         --overwrite mcs bar mcs.causeway.dev/hostname-"
    );
    env.off_hub(Kind::Mcs, "bar").settle();
    assert_eq!(published(&env, "foo"), ["foo.example.com", NAME]);
    assert!(!env.says("foo", "Ready").contains("not published"));
}
