mod owner;
mod routing;

use causeway::api::{condition, labels};
use serde_json::{Value, json};

use super::TARGETS_MAX;
use crate::fixtures::objects::{Kind, Object, drained, mcs, service, slice};
use crate::fixtures::{Environment, env, hub_event};
use crate::model::{Failure, FailureKind, HubEvent, Signal};

const NAME: &str = "foo.example.com";

/// Returns a Service with a load balancer.
fn balanced(ingress: Value) -> Object {
    let status = json!({"loadBalancer": {"ingress": ingress}});
    let part = json!({"spec": {"type": "LoadBalancer"}, "status": status});
    service("foo").port("http", 80).with(part)
}

fn endpoints(ready: bool) -> Object {
    let endpoint = json!({"addresses": ["10.1.0.5"], "conditions": {"ready": ready}});
    slice("foo-abc", "foo")
        .port("http", 8080)
        .endpoint_with(endpoint)
}

fn named(annotations: Value) -> Object {
    let foo = mcs("foo").load_balancer();
    foo.with(json!({ "metadata": { "annotations": annotations } }))
}

/// Returns an environment of two members with a ready endpoint and a load balancer each.
fn of(ingress: [Value; 2]) -> Environment {
    let mut env = env();
    for (member, ingress) in ["member1", "member2"].into_iter().zip(ingress) {
        env.member(member)
            .on(member, balanced(ingress))
            .on(member, endpoints(true));
    }
    env.observe_hub(HubEvent::DnsEndpointsServed(true))
        .observe_hub(HubEvent::DnsEndpoints(Signal::Listed(Vec::new())))
        .on_hub(crate::fixtures::objects::namespace("shop"))
        .on_hub(service("foo").port("http", 80))
        .on_hub(named(json!({ labels::HOSTNAME: NAME })))
        .settle();
    env
}

fn two() -> Environment {
    of([json!([{"ip": "192.0.2.1"}]), json!([{"ip": "192.0.2.2"}])])
}

fn records(env: &Environment) -> Vec<String> {
    let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo");
    let all = object.map(|object| object["spec"]["endpoints"].clone());
    let all = all.unwrap_or_default();
    let text = |one: &Value| {
        assert_eq!(one["recordTTL"], json!(30), "{one}");
        let targets = one["targets"].as_array().expect("targets");
        let targets: Vec<_> = targets.iter().filter_map(Value::as_str).collect();
        let (name, type_) = (one["dnsName"].as_str(), one["recordType"].as_str());
        let (name, type_) = (name.unwrap_or_default(), type_.unwrap_or_default());
        format!("{name} {type_} {}", targets.join(" "))
    };
    all.as_array().into_iter().flatten().map(text).collect()
}

fn a(targets: &str) -> Vec<String> {
    vec![format!("{NAME} A {targets}")]
}

fn ready(env: &Environment) -> String {
    env.says("foo", condition::READY)
}

#[test]
fn name_leads_to_clusters_that_can_serve() {
    let mut env = two();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
    assert_eq!(
        ready(&env),
        "True Ready: the load balancers of 2 clusters are gathered; foo.example.com leads to \
         192.0.2.1 (member1), 192.0.2.2 (member2)"
    );
    let object = env
        .hub
        .get(Kind::DnsEndpoint, "shop", "foo")
        .expect("it is there");
    let owner = &object["metadata"]["ownerReferences"][0];
    let mcs = env.mcs("foo").expect("it is there");
    assert_eq!(owner["uid"], mcs["metadata"]["uid"]);
    assert_eq!(
        object["metadata"]["labels"][labels::MANAGED_BY],
        labels::MANAGER
    );
    env.assert_at_rest();
    env.on("member1", endpoints(false)).settle();
    assert_eq!(records(&env), a("192.0.2.2"));
    env.on("member1", endpoints(true)).settle();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
}

#[test]
fn terminating_service_leaves_the_name_and_the_status() {
    let mut env = two();
    let held = json!({"metadata": {"finalizers": ["x.example/y"]}});
    env.amend("member1", Kind::Service, "foo", held)
        .off("member1", Kind::Service, "foo")
        .settle();
    assert!(env.service("member1", "foo").is_some(), "it terminates");
    assert_eq!(records(&env), a("192.0.2.2"));
    let mcs = env.mcs("foo").expect("it is there");
    let ingress = &mcs["status"]["loadBalancer"]["ingress"];
    assert_eq!(*ingress, json!([{"ip": "192.0.2.2"}]));
    assert_eq!(
        ready(&env),
        "False ServiceAppliedFailed: 1 of 2 clusters: member1 is deleting its Service shop/foo"
    );
}

#[test]
fn name_leads_to_the_entry_clusters_that_serve() {
    let mut env = two();
    env.member("east").member("west");
    let foo = named(json!({ labels::HOSTNAME: NAME }));
    let foo = foo.providers(&["member1", "member2"]);
    env.on_hub(foo.consumers(&["east", "west"])).settle();
    // The addresses of the providers were the last ones.
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
    env.balance("east", &["192.0.2.11"]).settle();
    assert_eq!(records(&env), a("192.0.2.11"));
    env.balance("west", &["192.0.2.12"]).settle();
    assert_eq!(records(&env), a("192.0.2.11 192.0.2.12"));
    env.on("member1", endpoints(false)).settle();
    assert_eq!(records(&env), a("192.0.2.11 192.0.2.12"));
    env.on_hub(drained("west", true)).settle();
    assert_eq!(records(&env), a("192.0.2.11"));
    env.on_hub(drained("west", false)).settle();
    assert_eq!(records(&env), a("192.0.2.11 192.0.2.12"));
    env.on("member2", endpoints(false)).settle();
    assert_eq!(records(&env), a("192.0.2.11 192.0.2.12"));
    assert!(ready(&env).contains(" still, although "), "{}", ready(&env));
    env.on("member2", endpoints(true)).settle();
    assert_eq!(records(&env), a("192.0.2.11 192.0.2.12"));
    env.assert_at_rest();
}

#[test]
fn last_targets_stay_although_no_cluster_can_serve() {
    let mut env = two();
    env.on("member1", endpoints(false)).settle();
    env.on("member2", endpoints(false)).settle();
    assert_eq!(records(&env), a("192.0.2.2"));
    assert!(
        ready(&env).contains(
            "foo.example.com leads to 192.0.2.2 (member2) still, although no cluster has a ready \
             endpoint: kubectl -n shop get services,endpointslices, in the providers"
        ),
        "{}",
        ready(&env)
    );
    env.on_hub(drained("member2", true)).settle();
    assert_eq!(records(&env), a("192.0.2.2"));
    env.on("member1", endpoints(true)).settle();
    assert_eq!(records(&env), a("192.0.2.1"));
}

#[test]
fn unreachable_cluster_keeps_its_targets_unless_requested() {
    for (answer, expected) in [
        (Value::Null, "192.0.2.1 192.0.2.2"),
        (json!("standby"), "192.0.2.2"),
        (json!("withdraw-after=60s"), "192.0.2.2"),
    ] {
        let mut env = two();
        env.on_hub(named(
            json!({ labels::HOSTNAME: NAME, labels::UNREACHABLE: answer }),
        ))
        .settle();
        env.lose("member1")
            .pass(std::time::Duration::from_secs(300));
        assert_eq!(records(&env), a(expected), "{answer}");
        // Another process has never observed member1.
        let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
        env.restart()
            .observe_hub(HubEvent::DnsEndpointsServed(true));
        let listed = Signal::Listed(object.into_iter().collect());
        env.observe_hub(hub_event(Kind::DnsEndpoint, listed))
            .pass(std::time::Duration::from_secs(300));
        assert_eq!(records(&env), a(expected), "{answer} after a restart");
    }
}

#[test]
fn drained_cluster_without_credentials_leaves_the_name() {
    let mut env = two();
    env.pull_without_credentials("member1").settle();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
    let pull = json!({"spec": {"syncMode": "Pull"}});
    env.on_hub(drained("member1", true).with(pull)).settle();
    assert_eq!(records(&env), a("192.0.2.2"));
}

#[test]
fn former_provider_without_credentials_leaves_the_name() {
    let mut env = two();
    env.pull_without_credentials("member1").settle();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
    // All clusters are consumers still.
    let named = named(json!({ labels::HOSTNAME: NAME }));
    env.on_hub(named.providers(&["member2"])).settle();
    assert_eq!(records(&env), a("192.0.2.2"));
}

#[test]
fn former_entry_cluster_without_credentials_leaves_the_name() {
    let mut env = two();
    let both = ["member1", "member2"];
    let named = |consumers: &[&str]| {
        let named = named(json!({ labels::HOSTNAME: NAME }));
        named.providers(&both).consumers(consumers)
    };
    env.on_hub(named(&both)).settle();
    env.balance("member1", &["192.0.2.1"])
        .balance("member2", &["192.0.2.2"])
        .settle();
    env.pull_without_credentials("member1").settle();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
    env.on_hub(named(&["member2"])).settle();
    assert_eq!(records(&env), a("192.0.2.2"));
}

#[test]
fn standby_cluster_is_used_while_no_other_can_serve() {
    let mut env = two();
    env.on_hub(named(
        json!({ labels::HOSTNAME: NAME, labels::UNREACHABLE: "standby" }),
    ))
    .settle();
    env.lose("member1")
        .pass(std::time::Duration::from_secs(300));
    env.on("member2", endpoints(false)).settle();
    assert_eq!(records(&env), a("192.0.2.1"));
}

#[test]
fn records_follow_the_kinds_of_addresses() {
    for (ingress, expected) in [
        (
            [
                json!([{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]),
                json!([{"ip": "192.0.2.2"}]),
            ],
            vec![
                "foo.example.com A 192.0.2.1 192.0.2.2",
                "foo.example.com AAAA 2001:db8::1",
            ],
        ),
        // Two hostnames count by their addresses.
        (
            [
                json!([{"hostname": "One.example.net"}]),
                json!([{"hostname": "two.example.net."}]),
            ],
            vec!["foo.example.com A 198.51.100.1"],
        ),
        (
            [
                json!([{"hostname": "one.example.net"}]),
                json!([{"ip": "192.0.2.2"}]),
            ],
            vec!["foo.example.com A 192.0.2.2 198.51.100.1"],
        ),
        (
            [json!([{"ip": "127.0.0.1"}, {"hostname": "a b"}]), json!([])],
            vec![],
        ),
    ] {
        let mut env = of(ingress.clone());
        let address = [198, 51, 100, 1].into();
        env.index.apply_resolved("one.example.net", [address]);
        env.settle();
        assert_eq!(records(&env), expected, "{ingress:?}");
    }
}

#[test]
fn targets_beside_a_hostname_without_an_address_are_bounded() {
    let ingress =
        |last: usize| json!([{"hostname": "a.example"}, {"ip": format!("192.0.2.{last}")}]);
    let mut env = of([ingress(1), json!([])]);
    for last in 2..=TARGETS_MAX + 36 {
        env.on("member1", balanced(ingress(last))).settle();
        let targets = records(&env).concat();
        let count = targets.split_whitespace().skip(2).count();
        assert_eq!(count, last.min(TARGETS_MAX), "{targets}");
        let newest = format!(" 192.0.2.{last}");
        assert!(format!("{targets} ").contains(&format!("{newest} ")));
    }
}

#[test]
fn only_entry_with_a_hostname_becomes_a_cname() {
    let mut env = two();
    let host = balanced(json!([{"hostname": "one.example.net"}]));
    env.on("member1", host)
        .on_hub(
            named(json!({ labels::HOSTNAME: "foo.example.com, bar.example.com" }))
                .providers(&["member1"]),
        )
        .settle();
    assert_eq!(
        records(&env),
        [
            "foo.example.com CNAME one.example.net",
            "bar.example.com CNAME one.example.net"
        ]
    );
}

#[test]
fn name_of_the_service_is_no_target_of_its_own() {
    let own = json!([{ "hostname": "FOO.example.com" }]);
    let mut env = of([own.clone(), json!([])]);
    env.on_hub(named(json!({ labels::HOSTNAME: NAME })).providers(&["member1"]))
        .settle();
    assert_eq!(records(&env), Vec::<String>::new());
    let why = "an address other than foo.example.com, which is a name of the service itself";
    assert!(ready(&env).contains(why), "{}", ready(&env));
    assert_eq!(env.index.take_hostnames(), None);
    let mut env = of([own, json!([{ "hostname": "one.example.net" }])]);
    let needed = env.index.take_hostnames();
    assert_eq!(needed, Some(["one.example.net".into()].into()));
}

#[test]
fn record_that_leads_to_a_name_of_the_service_is_deleted() {
    let named = |name: &str| named(json!({ labels::HOSTNAME: name })).providers(&["member1"]);
    let other = "one.example.net";
    let to = |host: &str| balanced(json!([{ "hostname": host }]));
    for host in [other, NAME] {
        let mut env = of([json!([{ "hostname": other }]), json!([])]);
        env.on_hub(named(NAME)).settle();
        assert_eq!(records(&env), ["foo.example.com CNAME one.example.net"]);
        let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
        let mut value = object.expect("it is there");
        value["spec"]["endpoints"][0]["targets"] = json!([host]);
        let targets = json!({ "member1": [host] }).to_string();
        value["metadata"]["annotations"][labels::TARGETS] = json!(targets);
        let kind = Kind::DnsEndpoint;
        env.on("member1", to(host))
            .on_hub(Object { kind, value })
            .on_hub(named(host))
            .settle();
        assert_eq!(env.hub.get(kind, "shop", "foo"), None, "{host}");
        env.assert_at_rest();
    }
}

/// Restarts the controller, which does not reach a member then.
fn restart_without(env: &mut Environment, member: &str) {
    let known = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
    let listed = Signal::Listed(known.into_iter().collect());
    env.lose(member)
        .restart()
        .observe_hub(HubEvent::DnsEndpointsServed(true))
        .observe_hub(hub_event(Kind::DnsEndpoint, listed))
        .settle();
}

#[test]
fn hostname_stays_the_target_until_its_addresses_are_known() {
    let balancer = |ingress: Value| balanced(json!([ingress]));
    let cname = ["foo.example.com CNAME one.example.net"];
    for (answer, expected) in [
        ([198, 51, 100, 1], "192.0.2.2 198.51.100.1"),
        // It leads nowhere, but is an answer.
        ([127, 0, 0, 1], "192.0.2.2"),
    ] {
        let mut env = of([json!([{"hostname": "one.example.net"}]), json!([])]);
        // member1 is the only provider, then member2 is another one, with an address.
        let named = || named(json!({ labels::HOSTNAME: NAME }));
        env.on_hub(named().providers(&["member1"])).settle();
        assert_eq!(records(&env), cname);
        env.on("member2", balancer(json!({"ip": "192.0.2.2"})))
            .on_hub(named().providers(&["member1", "member2"]))
            .settle();
        assert_eq!(records(&env), cname);
        let expected_words = "leads to one.example.net (member1), and to other clusters once \
                              one.example.net has an address";
        assert!(ready(&env).contains(expected_words), "{}", ready(&env));
        // Nothing is known of member1 after a restart, and the hostname is looked up all the same.
        restart_without(&mut env, "member1");
        assert_eq!(records(&env), cname);
        env.index.apply_resolved("one.example.net", [answer.into()]);
        env.settle();
        assert_eq!(records(&env), a(expected));
    }
}

#[test]
fn addresses_beside_a_hostname_that_no_record_had_stay() {
    let mut env = two();
    let targets = json!({"member1": ["one.example.net"], "member2": ["192.0.2.2"]});
    let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
    let mut object = object.expect("it is there");
    object["metadata"]["annotations"][labels::TARGETS] = json!(targets.to_string());
    object["spec"]["endpoints"][0]["targets"] = json!(["192.0.2.2"]);
    env.lose("member2").on_hub(Object {
        kind: Kind::DnsEndpoint,
        value: object,
    });
    restart_without(&mut env, "member1");
    assert_eq!(records(&env), a("192.0.2.2"));
}

#[test]
fn annotation_decides_whether_the_object_exists() {
    let mut env = two();
    // A mistake is no reason to withdraw a name.
    env.on_hub(named(json!({ labels::HOSTNAME: "foo" })))
        .settle();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
    env.on_hub(named(json!({ labels::HOSTNAME: null })))
        .settle();
    assert_eq!(env.hub.get(Kind::DnsEndpoint, "shop", "foo"), None);
    env.assert_at_rest();
}

#[test]
fn edited_object_is_repaired_and_a_foreign_one_stays() {
    let mut env = two();
    let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
    let mut object = object.expect("it is there");
    object["spec"]["endpoints"][0]["targets"] = json!(["203.0.113.9"]);
    let put = |value: &Value| Object {
        kind: Kind::DnsEndpoint,
        value: value.clone(),
    };
    env.on_hub(put(&object)).settle();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
    object["spec"]["endpoints"][0]["targets"] = json!(["203.0.113.9"]);
    object["spec"]["endpoints"][0]["recordTTL"] = json!(30);
    object["metadata"]["ownerReferences"] = json!([]);
    env.on_hub(put(&object)).settle();
    assert_eq!(records(&env), a("203.0.113.9"));
    assert!(
        ready(&env).contains(
            "foo.example.com is not published: DNSEndpoint shop/foo is not causeway's: kubectl -n \
             shop delete dnsendpoint foo"
        ),
        "{}",
        ready(&env)
    );
}

/// Versions of a restored hub are lower than those that were seen.
#[test]
fn object_that_was_created_again_is_known_whatever_its_version() {
    let mut env = two();
    let object = env.hub.get(Kind::DnsEndpoint, "shop", "foo").cloned();
    let mut object = object.expect("it is there");
    object["metadata"]["uid"] = json!("another");
    object["metadata"]["resourceVersion"] = json!("1");
    object["metadata"]["ownerReferences"] = json!([]);
    env.observe_hub(hub_event(Kind::DnsEndpoint, Signal::Applied(object)));
    env.settle();
    let why = "DNSEndpoint shop/foo is not causeway's";
    assert!(ready(&env).contains(why), "{}", ready(&env));
}

#[test]
fn ready_reports_why_a_name_is_not_published() {
    let mut env = two();
    env.off_hub(Kind::DnsEndpoint, "foo");
    let failure = Failure::new(FailureKind::Forbidden, "dnsendpoints is forbidden");
    for (events, expected) in [
        (
            vec![HubEvent::DnsEndpointsServed(false)],
            "the hub has no definition of DNSEndpoint (externaldns.k8s.io/v1alpha1): kubectl apply -f ",
        ),
        (
            vec![
                HubEvent::DnsEndpointsServed(true),
                HubEvent::DnsEndpoints(Signal::Failed(failure)),
            ],
            "DNSEndpoints of the hub cannot be read (dnsendpoints is forbidden): ",
        ),
    ] {
        for event in events {
            env.observe_hub(event);
        }
        env.settle();
        let said = format!(
            "True Ready: the load balancers of 2 clusters are gathered; foo.example.com is not published: {expected}"
        );
        assert!(ready(&env).starts_with(&said), "{}", ready(&env));
    }
    env.observe_hub(HubEvent::DnsEndpoints(Signal::Listed(Vec::new())))
        .settle();
    assert_eq!(records(&env), a("192.0.2.1 192.0.2.2"));
}
