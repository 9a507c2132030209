//! Names in DNS, from the DNSEndpoints that a person reads.

use causeway::api::labels;
use serde_json::json;

use super::{all, explain, explained, foo, source};
use crate::fixtures::objects::{Kind, Object, mcs, namespace};
use crate::fixtures::{Change, Environment, env, key};
use crate::lists::NameLists;
use crate::model::{Failure, FailureKind, HubEvent, Signal};
use crate::plan::Settings;
use crate::reasons::Reason;

fn named(name: &str) -> Object {
    let annotations = json!({ labels::HOSTNAME: "foo.example.com" });
    let object = mcs(name).load_balancer().providers(&["a"]);
    object.with(json!({ "metadata": { "annotations": annotations } }))
}

/// Returns `shop/foo`, which a provides, with a published name.
fn published() -> Environment {
    let mut env = env();
    env.keeps_clusters = true;
    env.member("a").member("b");
    let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } });
    let balanced = json!({ "spec": { "type": "LoadBalancer" }, "status": ingress });
    env.on("a", foo().with(balanced))
        .on("a", source(&["10.1.0.1"]))
        .on_hub(foo())
        .on_hub(namespace("shop"))
        .observe_hub(HubEvent::DnsEndpointsServed(true))
        .observe_hub(HubEvent::DnsEndpoints(Signal::Listed(Vec::new())))
        .on_hub(named("foo"))
        .settle();
    env
}

fn edit(env: &mut Environment, change: serde_json::Value) -> &mut Environment {
    let value = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
    let kind = Kind::DnsEndpoint;
    let value = value.expect("a DNSEndpoint");
    env.on_hub(Object { kind, value }.with(change))
}

/// Case: description, change, reason, and a part of message and remedy.
type Case = (&'static str, Change, Reason, &'static str);

#[test]
fn state_of_a_name_is_that_of_its_object() {
    let cases: [Case; 6] = [
        (
            "published",
            |env| env,
            Reason::NamePublished,
            "leads to 192.0.2.1 (a)",
        ),
        (
            "entry cluster",
            |env| {
                env.on_hub(named("foo").consumers(&["b"]))
                    .settle()
                    .balance("b", &["192.0.2.9"])
                    .settle()
            },
            Reason::NamePublished,
            "leads to 192.0.2.9 (b)",
        ),
        (
            "held",
            |env| env.on("a", source(&[])).settle(),
            Reason::NameHeld,
            "192.0.2.1 (a) still, although no cluster has a ready endpoint",
        ),
        (
            "deleted",
            |env| env.off_hub(Kind::DnsEndpoint, "foo"),
            Reason::NameNotPublished,
            "DNSEndpoint shop/foo is still to be written -> kubectl mcs status foo -n shop",
        ),
        (
            "edited",
            |env| {
                let record = json!({ "dnsName": "foo.example.com", "targets": ["203.0.113.9"] });
                edit(env, json!({ "spec": { "endpoints": [record] } }))
            },
            Reason::NameNotPublished,
            "DNSEndpoint shop/foo is still to be written",
        ),
        (
            "foreign",
            |env| {
                edit(
                    env,
                    json!({ "metadata": { "labels": { labels::MANAGED_BY: "x" } } }),
                )
            },
            Reason::NameNotPublished,
            "DNSEndpoint shop/foo is not causeway's -> kubectl -n shop delete dnsendpoint foo",
        ),
    ];
    for (what, change, reason, part) in cases {
        let mut env = published();
        change(&mut env);
        let diagnoses = all(&explained(&env));
        let texts = diagnoses.iter().filter(|one| one.reason == reason);
        let mut texts = texts.map(|one| {
            let remedy = one.remedy.as_deref().unwrap_or_default();
            format!("{} -> {remedy}", one.message)
        });
        assert!(
            texts.any(|text| text.contains(part)),
            "{what}: {diagnoses:#?}"
        );
    }
}

#[test]
fn unread_names_are_unknown_and_never_good() {
    let env = published();
    let forbidden = Failure::new(FailureKind::Forbidden, "dnsendpoints is forbidden");
    for (names, reason, only_unread) in [
        (NameLists::NotRead, None, false),
        (NameLists::NotServed, Some(Reason::NameNotPublished), false),
        (
            NameLists::Unreadable(forbidden),
            Some(Reason::NameNotRead),
            true,
        ),
    ] {
        let (hub, members) = env.lists();
        let hub = crate::lists::HubLists { names, ..hub };
        let settings = Settings::reported(&hub, &members, &key("foo"));
        let explanation = explain(&hub, &members, &settings, &key("foo"), env.now());
        let is_name = |reason: &Reason| reason.as_str().starts_with("Name");
        let diagnoses = all(&explanation);
        let mut reasons = diagnoses.iter().map(|one| one.reason).filter(is_name);
        assert_eq!(reasons.next(), reason, "{diagnoses:#?}");
        assert_eq!(explanation.is_wrong_only_where_unread(), only_unread);
        assert_eq!(explanation.ready, reason.is_none(), "{diagnoses:#?}");
    }
}
