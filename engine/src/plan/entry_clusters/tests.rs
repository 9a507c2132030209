use std::collections::BTreeSet;
use std::time::Duration;

use causeway::api::condition as names;
use causeway::api::labels::{PREFER, UNREACHABLE};
use serde_json::{Value, json};

use crate::fixtures::objects::{Kind, Object, drained, foo, mcs, slice};
use crate::fixtures::{Environment, env, key, name};
use crate::messages::entry_clusters::diagnosis;
use crate::observed::Counted;
use crate::reasons::Reason;

const ENTRIES: [&str; 2] = ["east", "west"];

/// Addresses of the load balancers of providers.
const GATHERED: [&str; 2] = ["192.0.2.101", "192.0.2.102"];

fn pods(address: &str, ready: bool) -> Object {
    let endpoint = json!({"addresses": [address], "conditions": {"ready": ready}});
    slice("foo-abc", "foo")
        .port("http", 8080)
        .endpoint_with(endpoint)
}

fn entered() -> Object {
    mcs("foo")
        .load_balancer()
        .providers(&["member1", "member2"])
        .consumers(&ENTRIES)
}

fn addressed(ip: &str) -> Value {
    json!({"status": {"loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"}]}}})
}

/// Returns an environment of two providers and two entry clusters without an address.
fn requested(object: Object) -> Environment {
    let mut env = env();
    for (member, address) in [("member1", "10.1.0.5"), ("member2", "10.2.0.5")] {
        env.member(member);
        env.on(member, foo()).on(member, pods(address, true));
    }
    for entry in ENTRIES {
        env.member(entry);
    }
    env.on_hub(foo()).on_hub(object).settle();
    env
}

/// Returns an environment whose status lists the load balancers of two providers, and that has just
/// got two entry clusters.
fn gathered() -> Environment {
    let object = mcs("foo").load_balancer();
    let mut env = requested(object.providers(&["member1", "member2"]));
    for (member, ip) in [("member1", "192.0.2.101"), ("member2", "192.0.2.102")] {
        let typed = json!({"spec": {"type": "LoadBalancer"}});
        env.on(member, foo().with(typed).with(addressed(ip)));
    }
    env.settle();
    assert_eq!(status(&env), GATHERED);
    env.on_hub(entered()).settle();
    env
}

/// Returns an environment of two entry clusters, each with an address.
fn serving(object: Object) -> Environment {
    let mut env = requested(object);
    env.balance("east", &["192.0.2.1"]).settle();
    env.balance("west", &["192.0.2.2"]).settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.forget_writes();
    env
}

fn status(env: &Environment) -> Vec<String> {
    let ingress = &env.mcs("foo").expect("it is there")["status"]["loadBalancer"]["ingress"];
    let all = ingress.as_array().into_iter().flatten();
    all.filter_map(|one| Some(one["ip"].as_str()?.to_owned()))
        .collect()
}

fn spec(env: &Environment, cluster: &str) -> Value {
    env.service(cluster, "foo").expect("a Service")["spec"].clone()
}

fn copied(env: &Environment, cluster: &str) -> Vec<String> {
    env.addresses(cluster, "foo")
}

#[test]
fn entry_cluster_gets_a_load_balancer_with_all_endpoints() {
    let mut env = serving(entered());
    for entry in ENTRIES {
        let spec = spec(&env, entry);
        assert_eq!(spec["type"], "LoadBalancer");
        assert_eq!(spec["externalTrafficPolicy"], "Cluster");
        assert_eq!(copied(&env, entry), ["10.1.0.5", "10.2.0.5"]);
    }
    for provider in ["member1", "member2"] {
        assert_ne!(spec(&env, provider)["type"], "LoadBalancer");
    }
    assert_eq!(
        env.says("foo", names::READY),
        "True Ready: shop/foo has 2 of 2 entry clusters in its status, backed by 2 clusters"
    );
    env.assert_at_rest();
}

#[test]
fn new_entry_cluster_may_lack_an_address_for_30_seconds() {
    let mut env = requested(entered());
    assert_eq!(env.condition("foo", names::READY), None);
    env.pass(Duration::from_secs(40));
    let ready = env.condition("foo", names::READY).expect("a condition");
    assert_eq!(ready.reason, Reason::NoEntryAddress);
    env.index.note_counts(&key("foo"), BTreeSet::new());
    let counted = (Counted::NotReady("NoEntryAddress"), 0);
    assert!(env.index.drop_counts().contains(&counted));
    assert!(
        ready.message.starts_with(
            "no entry cluster of shop/foo has an address: no load balancer of entry cluster east has given Service \
             shop/foo an address since 2026-"
        ),
        "{}",
        ready.message
    );
    assert!(
        ready
            .message
            .contains("in east: kubectl -n shop describe service foo")
    );
    env.balance("west", &["192.0.2.2"]).settle();
    assert_eq!(status(&env), ["192.0.2.2"]);
    let ready = env.says("foo", names::READY);
    let start = "True Ready: shop/foo has 1 of 2 entry clusters in its status, backed by 2 clusters; \
                 no load balancer of entry cluster east";
    assert!(ready.starts_with(start), "{ready}");
}

#[test]
fn new_load_balancer_of_an_old_service_has_30_seconds() {
    let object = |entry: &str| {
        let object = mcs("foo").load_balancer().providers(&["member1"]);
        object.consumers(&[entry])
    };
    let mut env = env();
    env.member("member1").member("east");
    env.on("member1", pods("10.1.0.5", true));
    env.on_hub(foo()).on_hub(object("east")).settle();
    env.balance("east", &["192.0.2.1"])
        .pass(Duration::from_secs(3600));
    assert!(env.is_ready("foo"), "{}", env.says("foo", names::READY));
    assert_ne!(spec(&env, "member1")["type"], "LoadBalancer");
    env.on_hub(object("member1")).settle();
    assert_eq!(spec(&env, "member1")["type"], "LoadBalancer");
    assert!(env.is_ready("foo"), "{}", env.says("foo", names::READY));
    env.pass(Duration::from_secs(20));
    assert!(env.is_ready("foo"), "{}", env.says("foo", names::READY));
    env.pass(Duration::from_secs(20));
    let ready = env.condition("foo", names::READY).expect("a condition");
    assert_eq!(ready.reason, Reason::NoEntryAddress);
}

#[test]
fn lost_address_of_an_old_load_balancer_is_reported_at_once() {
    let mut env = serving(entered());
    env.pass(Duration::from_secs(3600));
    env.balance("east", &[]).balance("west", &[]).settle();
    let ready = env.condition("foo", names::READY).expect("a condition");
    assert_eq!(ready.reason, Reason::NoEntryAddress);
}

#[test]
fn address_follows_the_load_balancer() {
    let mut env = serving(entered());
    env.balance("east", &["192.0.2.9"]).settle();
    assert_eq!(status(&env), ["192.0.2.9", "192.0.2.2"]);
    env.off("east", Kind::Service, "foo").settle();
    assert_eq!(status(&env), ["192.0.2.2"], "its new Service has none yet");
    assert_eq!(spec(&env, "east")["type"], "LoadBalancer");
}

#[test]
fn addresses_of_providers_stay_until_an_entry_cluster_serves() {
    let mut env = gathered();
    assert_eq!(status(&env), GATHERED);
    env.pass(Duration::from_secs(40));
    assert_eq!(status(&env), GATHERED);
    let ready = env.condition("foo", names::READY).expect("a condition");
    assert_eq!(ready.reason, Reason::NoEntryAddress);
    env.restart().settle();
    assert_eq!(status(&env), GATHERED);
    env.balance("west", &["192.0.2.2"]).settle();
    assert_eq!(status(&env), ["192.0.2.2"]);
    env.balance("west", &[]).settle();
    assert_eq!(status(&env), Vec::<String>::new(), "they do not return");
}

#[test]
fn address_of_a_provider_leaves_by_evidence_alone() {
    type Event = fn(&mut Environment);
    let cases: [(&str, Event, &[&str]); 6] = [
        (
            "it has another address",
            |env| {
                env.balance("member1", &["192.0.2.109"]);
            },
            &["192.0.2.102"],
        ),
        (
            "its Service is deleted",
            |env| {
                env.off("member1", Kind::Service, "foo");
            },
            &["192.0.2.102"],
        ),
        (
            "it is drained",
            |env| {
                env.on_hub(drained("member1", true));
            },
            &["192.0.2.102"],
        ),
        (
            "it is no provider any more",
            |env| {
                env.on_hub(entered().providers(&["member2"]));
            },
            &["192.0.2.102"],
        ),
        (
            "it is unreachable",
            |env| {
                env.lose("member1");
            },
            &GATHERED,
        ),
        (
            "it is unknown",
            |env| {
                env.lose("member1").restart();
            },
            &GATHERED,
        ),
    ];
    for (case, event, expected) in cases {
        let mut env = gathered();
        event(&mut env);
        env.settle();
        assert_eq!(status(&env), expected, "{case}");
    }
}

#[test]
fn address_leaves_while_no_endpoint_is_usable() {
    let mut env = serving(entered());
    env.on("member1", pods("10.1.0.5", false)).settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.on("member2", pods("10.2.0.5", false)).settle();
    assert_eq!(status(&env), Vec::<String>::new());
    let ready = env.says("foo", names::READY);
    let why = "entry cluster east has no usable endpoint, so 192.0.2.1 is not in the status";
    assert!(ready.contains(why), "{ready}");
    env.on("member2", pods("10.2.0.5", true)).settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn unknown_providers_remove_no_address() {
    let mut env = serving(entered());
    env.lose("member1").lose("member2").settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.restart().settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.off("east", Kind::Service, "foo").settle();
    assert_eq!(status(&env), ["192.0.2.2"], "that is known");
}

#[test]
fn unreachable_entry_cluster_keeps_its_address() {
    let mut env = serving(entered());
    env.lose("east").settle().pass(Duration::from_secs(3600));
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.restart().settle();
    env.balance("west", &["192.0.2.9"]).settle();
    assert_eq!(
        status(&env),
        ["192.0.2.1", "192.0.2.2", "192.0.2.9"],
        "nobody can tell whose the old one is"
    );
    env.identify("east", "uid-of-east", (1, 34))
        .list("east")
        .settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.9"]);
}

#[test]
fn entry_cluster_of_which_services_alone_are_listed_keeps_its_address() {
    let mut env = serving(entered());
    env.lose("east").restart().settle();
    env.introduce("east")
        .list_kind("east", Kind::Service)
        .settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.list("east").settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn former_addresses_beside_an_unknown_entry_cluster_are_bounded() {
    let mut env = serving(entered());
    env.lose("east").restart().settle();
    for number in 1..=100 {
        let address = format!("198.51.100.{number}");
        env.balance("west", &[address.as_str()]).settle();
    }
    let all = status(&env);
    assert_eq!((all.len(), &*all[0]), (17, "192.0.2.1"));
    assert_eq!(all[16], "198.51.100.100");
}

#[test]
fn unreachable_entry_cluster_is_given_up_on_request_while_another_serves() {
    for policy in ["standby", "withdraw-after=1m"] {
        let part = json!({"metadata": {"annotations": {UNREACHABLE: policy}}});
        let mut env = serving(entered().with(part));
        env.lose("east").settle();
        assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"], "{policy}");
        env.pass(Duration::from_secs(120));
        assert_eq!(status(&env), ["192.0.2.2"], "{policy}");
        env.lose("west").pass(Duration::from_secs(120));
        assert_eq!(status(&env), ["192.0.2.2"], "{policy}: the last one stays");
        env.list("west").list("east").settle();
        assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"], "{policy}");
    }
}

#[test]
fn entry_cluster_unknown_since_a_restart_is_given_up_on_request() {
    let patience = Duration::from_secs(600);
    for policy in [json!("standby"), json!("withdraw-after=10m"), Value::Null] {
        let part = json!({"metadata": {"annotations": {UNREACHABLE: policy}}});
        let mut env = serving(entered().with(part));
        env.settings.provider_ttl = policy.is_null().then_some(patience);
        env.lose("east").settle().restart().settle();
        assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"], "{policy}");
        env.pass(patience);
        assert_eq!(status(&env), ["192.0.2.2"], "{policy}");
        let desired = env.plan("foo");
        let entries = desired.entry_clusters.as_ref().expect("entry clusters");
        let (foo, east) = (key("foo"), name("east"));
        let entry = entries.get(&east).expect("an entry cluster");
        assert_eq!(
            diagnosis(&foo, &east, entry).message,
            "entry cluster east is out of reach: its addresses are not in the status while \
             another entry cluster serves"
        );
        env.lose("west").pass(Duration::from_secs(1200));
        assert_eq!(status(&env), ["192.0.2.2"], "{policy}: the last one stays");
        env.list("west").introduce("east").list("east").settle();
        assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"], "{policy}");
    }
}

#[test]
fn entry_clusters_unknown_since_a_restart_keep_the_last_addresses() {
    let part = json!({"metadata": {"annotations": {UNREACHABLE: "withdraw-after=10m"}}});
    let mut env = serving(entered().with(part));
    env.lose("east").lose("west").restart();
    env.pass(Duration::from_secs(1200));
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn drained_entry_cluster_leaves_the_status() {
    let mut env = serving(entered());
    env.on_hub(drained("east", true)).settle();
    assert_eq!(status(&env), ["192.0.2.2"]);
    let ready = env.says("foo", names::READY);
    assert!(
        ready.contains("entry cluster east is not used (withdrawn)"),
        "{ready}"
    );
}

#[test]
fn entry_cluster_that_lost_its_credentials_keeps_its_address() {
    let mut env = env();
    let typed = json!({"spec": {"type": "LoadBalancer"}});
    for (entry, pod, ip) in [
        ("east", "10.1.0.5", "192.0.2.1"),
        ("west", "10.2.0.5", "192.0.2.2"),
    ] {
        let service = foo().with(typed.clone()).with(addressed(ip));
        env.member(entry);
        env.on(entry, service).on(entry, pods(pod, true));
    }
    let object = mcs("foo").load_balancer().providers(&ENTRIES);
    env.on_hub(foo())
        .on_hub(object.consumers(&ENTRIES))
        .settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.pull_without_credentials("east").settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    let pull = json!({"spec": {"syncMode": "Pull"}});
    env.on_hub(drained("east", true).with(pull)).settle();
    assert_eq!(status(&env), ["192.0.2.2"]);
}

#[test]
fn unjoined_entry_cluster_leaves_the_status() {
    let mut env = serving(entered());
    env.lose("east").settle();
    env.off_hub(Kind::Cluster, "east").settle();
    env.pass(Duration::from_secs(600));
    assert_eq!(status(&env), ["192.0.2.2"]);
    env.restart().settle();
    assert_eq!(status(&env), ["192.0.2.2"]);
}

#[test]
fn former_entry_cluster_is_cleaned_and_leaves_the_status() {
    let mut env = serving(entered());
    env.on_hub(entered().consumers(&["west"])).settle();
    assert_eq!(env.service("east", "foo"), None);
    assert_eq!(copied(&env, "east"), Vec::<String>::new());
    assert_eq!(status(&env), ["192.0.2.2"]);

    let mut env = serving(entered());
    env.off_hub(Kind::Mcs, "foo").settle();
    for entry in ENTRIES {
        assert_eq!(env.service(entry, "foo"), None);
        assert_eq!(copied(&env, entry), Vec::<String>::new());
    }
}

#[test]
fn preference_and_headlessness_of_the_hub_are_followed() {
    let part = json!({"metadata": {"annotations": {PREFER: "cluster/member2, any"}}});
    let mut env = requested(entered().with(part));
    env.on_hub(foo().headless()).settle();
    assert_eq!(spec(&env, "east")["type"], "LoadBalancer");
    assert_ne!(spec(&env, "east")["clusterIP"], "None");
    let copies = env.copies("east", "foo").into_iter();
    let ready = copies.flat_map(|copy| copy.endpoints);
    let ready = ready.filter(|one| one.conditions.as_ref().and_then(|one| one.ready) == Some(true));
    let ready: Vec<_> = ready.flat_map(|one| one.addresses).collect();
    assert_eq!(ready, ["10.2.0.5"]);
    for (member, address) in [("member1", "10.1.0.5"), ("member2", "10.2.0.5")] {
        let named =
            json!({"addresses": [address], "hostname": "foo-0", "conditions": {"ready": true}});
        let slice = slice("foo-abc", "foo").port("http", 8080);
        env.on(member, slice.endpoint_with(named));
    }
    env.balance("east", &["192.0.2.1"])
        .balance("west", &["192.0.2.2"])
        .settle();
    assert_eq!(
        env.says("foo", names::READY),
        "True Ready: shop/foo has 2 of 2 entry clusters in its status, backed by 2 clusters"
    );
}

#[test]
fn request_of_the_hub_reaches_the_load_balancer() {
    let hub = |ranges: Value| {
        foo().with(json!({
            "metadata": {"annotations": {
                "service.beta.kubernetes.io/aws-load-balancer-internal": "true",
                "argocd.argoproj.io/tracking-id": "shop",
            }},
            "spec": {
                "type": "LoadBalancer", "loadBalancerClass": "example.com/internal", "externalTrafficPolicy": "Local",
                "loadBalancerSourceRanges": ranges, "loadBalancerIP": "192.0.2.77",
            },
        }))
    };
    let mut env = requested(entered());
    env.on_hub(hub(json!(["10.0.0.0/8"]))).settle();
    let before = spec(&env, "east");
    assert_eq!(before["loadBalancerSourceRanges"], json!(["10.0.0.0/8"]));
    assert_eq!(before["loadBalancerClass"], Value::Null, "it cannot change");
    env.off("east", Kind::Service, "foo").settle();
    let made = env.service("east", "foo").expect("a Service").clone();
    let spec = &made["spec"];
    assert_eq!(spec["loadBalancerClass"], "example.com/internal");
    assert_eq!(spec["externalTrafficPolicy"], "Cluster");
    assert_eq!(spec["loadBalancerIP"], Value::Null);
    let annotations = made["metadata"]["annotations"]
        .as_object()
        .expect("annotations");
    assert_eq!(
        annotations["service.beta.kubernetes.io/aws-load-balancer-internal"],
        "true"
    );
    assert_eq!(annotations.len(), 2, "{annotations:?}");
    env.on_hub(hub(Value::Null)).settle();
    assert_eq!(
        self::spec(&env, "east")["loadBalancerSourceRanges"],
        Value::Null
    );
    let local = json!({"spec": {"externalTrafficPolicy": "Local"}});
    let kind = Kind::Service;
    env.on("east", Object { kind, value: made }.with(local))
        .settle();
    assert_eq!(self::spec(&env, "east")["externalTrafficPolicy"], "Cluster");
    env.assert_at_rest();
}

#[test]
fn service_of_another_writer_is_used_and_stays_as_it_is() {
    let mut env = requested(entered());
    env.on_hub(entered().consumers(&["east", "own"]))
        .member("own");
    env.on("own", foo()).settle();
    let before = env.service("own", "foo").cloned();
    env.balance("east", &["192.0.2.1"]).settle();
    let ready = env.says("foo", names::READY);
    let why = "Service shop/foo of entry cluster own was made by somebody else and is not of type LoadBalancer (in own: \
               kubectl -n shop patch service foo";
    assert!(ready.contains(why), "{ready}");
    assert_eq!(env.service("own", "foo").cloned(), before);
    assert_eq!(copied(&env, "own"), ["10.1.0.5", "10.2.0.5"]);
    let typed = json!({"spec": {"type": "LoadBalancer"}});
    env.on("own", foo().with(typed).with(addressed("192.0.2.3")))
        .settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.3"]);
    let typed = json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}});
    env.on("own", foo().with(typed).with(addressed("192.0.2.3")))
        .settle();
    assert_eq!(status(&env), ["192.0.2.1"]);
    let ready = env.says("foo", names::READY);
    assert!(
        ready.contains("its Service leads to its own pods alone; in own: kubectl"),
        "{ready}"
    );
}

#[test]
fn entry_cluster_that_provides_keeps_its_service() {
    let mut env = requested(entered());
    let typed = json!({"spec": {"type": "LoadBalancer"}});
    env.on("member1", foo().with(typed).with(addressed("192.0.2.4")));
    env.on_hub(entered().consumers(&["member1"])).settle();
    assert_eq!(status(&env), ["192.0.2.4"]);
    env.on("member2", pods("10.2.0.5", false)).settle();
    assert_eq!(status(&env), ["192.0.2.4"], "its own pods serve");
    let owner = &env.service("member1", "foo").expect("a Service")["metadata"]["labels"];
    assert_eq!(*owner, Value::Null);
}

#[test]
fn other_type_takes_the_load_balancer_away() {
    let hub = foo().with(
        json!({"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"]}}),
    );
    let mut env = requested(entered());
    env.on_hub(hub).settle();
    let cross = mcs("foo")
        .providers(&["member1", "member2"])
        .consumers(&ENTRIES);
    env.on_hub(cross).settle();
    let spec = spec(&env, "east");
    assert_eq!(spec["type"], "ClusterIP");
    assert_eq!(spec["loadBalancerSourceRanges"], Value::Null);
    assert_eq!(copied(&env, "east"), ["10.1.0.5", "10.2.0.5"]);
}

#[test]
fn removed_hub_service_is_held_for_the_grace_period() {
    let mut env = serving(entered());
    env.off_hub(Kind::Service, "foo").settle();
    assert_eq!(status(&env), ["192.0.2.1", "192.0.2.2"]);
    env.pass(Duration::from_secs(600));
    assert_eq!(status(&env), Vec::<String>::new());
    assert_eq!(env.service("east", "foo"), None);
}
