use serde_json::Value;

use super::*;
use crate::fixtures::objects::{Kind, Object, mcs, service, slice};
use crate::fixtures::{Environment, HUB_UID, env, key};
use crate::model::served::Served;

/// The lists of an environment, with the MultiClusterService as it would be stored.
fn lists(env: &Environment, object: Object) -> (HubLists, Members) {
    let all = |kind| env.hub.all(kind).cloned().collect();
    let hub = HubLists {
        uid: HUB_UID.to_owned(),
        multi_cluster_services: decode(vec![object.value]),
        services: decode(all(Kind::Service)),
        clusters: decode(all(Kind::Cluster)),
        works: Some(Vec::new()),
    };
    let members = env.members.iter().map(|(name, server)| {
        let all = |kind| server.all(kind).cloned().collect();
        let lists = MemberLists {
            identity: Identity {
                uid: format!("uid-of-{name}"),
                version: "v1.34.0".to_owned(),
                release: (1, 34),
            },
            served: Served::default(),
            namespaces: decode(all(Kind::Namespace)),
            services: decode(all(Kind::Service)),
            slices: decode(all(Kind::Slice)),
            exports: Vec::new(),
            imports: Vec::new(),
        };
        let name = ClusterName::try_from(name.as_str()).expect("a name");
        (name, Ok(lists))
    });
    (hub, members.collect())
}

fn decode<K: DeserializeOwned>(values: Vec<Value>) -> Vec<K> {
    let decode = |value| serde_json::from_value(value).expect("an object");
    values.into_iter().map(decode).collect()
}

/// What clients of a member reach: its Services, and the addresses behind each.
fn reached(services: &[Service], slices: &[EndpointSlice]) -> Vec<String> {
    let services = services.iter().map(|one| one.metadata.name.clone());
    let slices = slices.iter().flat_map(|slice| {
        let endpoints = slice.endpoints.iter();
        let addresses = endpoints.flat_map(|endpoint| endpoint.addresses.clone());
        let name = slice.metadata.name.clone().unwrap_or_default();
        addresses.map(move |address| Some(format!("{name} {address}")))
    });
    let mut all: Vec<_> = services.chain(slices).flatten().collect();
    all.sort();
    all
}

fn provided() -> Environment {
    let mut env = env();
    for (member, address) in [("member1", "10.1.0.5"), ("member2", "10.2.0.5")] {
        let source = slice("foo-abc", "foo").port("http", 8080).endpoint(address);
        env.member(member);
        env.on(member, service("foo").port("http", 80));
        env.on(member, source);
    }
    env.member("member3");
    env.on_hub(service("foo").port("http", 80)).settle();
    env
}

fn exposure(providers: &[&str], consumers: &[&str]) -> Object {
    mcs("foo").providers(providers).consumers(consumers)
}

#[test]
fn a_preview_shows_what_the_controller_then_does() {
    let mut env = provided();
    for (providers, consumers) in [
        (&["member1"][..], &["member3"][..]),
        (&["member1", "member2"], &["member3"]),
        (&["member2"], &["member1", "member3"]),
        (&["member2"], &["member1"]),
        (&["member1"], &["member2"]),
    ] {
        let wanted = exposure(providers, consumers);
        let (hub, members) = lists(&env, wanted.clone());
        let settings = Settings::default();
        let (_, after) = preview(hub, members, &settings, &key("foo"), env.now());
        env.on_hub(wanted.clone()).settle();
        let (_, then) = lists(&env, wanted);
        for (name, then) in then {
            let (then, after) = (then.expect("lists"), after[&name].as_ref().expect("lists"));
            assert_eq!(
                reached(&after.services, &after.slices),
                reached(&then.services, &then.slices),
                "{name} of {providers:?} to {consumers:?}"
            );
        }
    }
}
