use causeway::api::condition as names;
use serde_json::{Value, json};

use super::foo;
use crate::fixtures::objects::{Kind, Object, cluster, mcs, slice};
use crate::fixtures::{Environment, env};

fn balanced(ip: &str) -> Object {
    let part = json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"}]}}});
    foo().with(part)
}

fn addresses(env: &Environment) -> Vec<Value> {
    let ingress = env.mcs("foo").expect("it is there")["status"]["loadBalancer"]["ingress"].clone();
    ingress
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| one["ip"].clone())
        .collect()
}

/// Returns an environment of two members, each with a load balancer.
fn gathered() -> Environment {
    let mut env = env();
    env.member("member1").on("member1", balanced("192.0.2.1"));
    env.member("member2").on("member2", balanced("192.0.2.2"));
    env.on_hub(foo())
        .on_hub(mcs("foo").load_balancer())
        .settle();
    assert_eq!(addresses(&env), ["192.0.2.1", "192.0.2.2"]);
    env.forget_writes();
    env
}

#[test]
fn load_balancers_are_gathered_and_nothing_is_written_into_members() {
    let mut env = gathered();
    assert_eq!(
        env.says("foo", names::READY),
        "True Ready: the load balancers of 2 clusters are gathered"
    );
    assert_eq!(env.condition("foo", names::ENDPOINT_SLICE_APPLIED), None);
    env.on("member2", balanced("192.0.2.3")).settle();
    assert_eq!(addresses(&env), ["192.0.2.1", "192.0.2.3"]);
    env.off("member1", Kind::Service, "foo").settle();
    assert_eq!(addresses(&env), ["192.0.2.3"]);
    let message = "False ServiceAppliedFailed: 1 of 2 clusters: member1 has no Service shop/foo";
    assert_eq!(env.says("foo", names::READY), message);
    assert!(
        env.log().iter().all(|line| line.starts_with("hub")),
        "{:?}",
        env.log()
    );
    env.assert_at_rest();
}

#[test]
fn status_has_16_addresses_of_a_provider() {
    let mut env = gathered();
    let ingress = (0..1000).map(|one| json!({"ip": format!("10.9.{}.{}", one / 250, one % 250)}));
    let ingress: Vec<_> = ingress.collect();
    let many = json!({
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": ingress}},
    });
    env.on("member2", foo().with(many)).settle();
    let all = addresses(&env);
    assert_eq!((all.len(), &all[0]), (17, &json!("192.0.2.1")));
    env.lose("member1").restart().settle();
    assert_eq!(addresses(&env), all);
    env.assert_at_rest();
}

#[test]
fn former_addresses_beside_an_unknown_provider_are_bounded() {
    let mut env = gathered();
    env.lose("member1").restart().settle();
    for number in 1..=100 {
        env.on("member2", balanced(&format!("198.51.100.{number}")))
            .settle();
    }
    let all = addresses(&env);
    assert_eq!((all.len(), &all[0]), (17, &json!("192.0.2.1")));
    assert_eq!(all[16], "198.51.100.100");
}

#[test]
fn only_providers_load_balancers_are_gathered() {
    let mut env = gathered();
    env.on_hub(mcs("foo").load_balancer().providers(&["member2"]))
        .settle();
    assert_eq!(addresses(&env), ["192.0.2.2"]);
    let drained = cluster("member2")
        .with(json!({"metadata": {"annotations": {causeway::api::labels::WITHDRAW: "true"}}}));
    env.on_hub(mcs("foo").load_balancer())
        .on_hub(drained)
        .settle();
    assert_eq!(addresses(&env), ["192.0.2.1"]);
}

#[test]
fn known_address_of_a_former_provider_leaves_while_another_provider_is_unknown() {
    let mut env = gathered();
    env.member("member3").on("member3", balanced("192.0.2.3"));
    env.settle().lose("member1").restart().settle();
    assert_eq!(addresses(&env), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let left = ["member1", "member2"];
    env.on_hub(mcs("foo").load_balancer().providers(&left))
        .settle();
    assert_eq!(addresses(&env), ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn conditions_about_slices_go_with_the_consumers() {
    let mut env = env();
    let pods = slice("foo-abc", "foo").port("http", 8080);
    env.member("member1")
        .member("member2")
        .on("member1", balanced("192.0.2.1"))
        .on("member1", pods.endpoint("10.1.0.5"));
    let exposed = mcs("foo").providers(&["member1"]);
    env.on_hub(foo()).on_hub(exposed).settle();
    for present in [true, false] {
        for type_ in [
            names::ENDPOINT_SLICE_DISPATCHED,
            names::ENDPOINT_SLICE_APPLIED,
        ] {
            let found = env.condition("foo", type_);
            assert_eq!(found.is_some(), present, "{found:?}");
        }
        env.on_hub(mcs("foo").load_balancer()).settle();
    }
}

#[test]
fn the_load_balancer_of_a_cluster_that_cannot_be_asked_stays() {
    let mut env = gathered();
    env.lose("member1").settle();
    assert_eq!(addresses(&env), ["192.0.2.1", "192.0.2.2"]);
    env.forget_writes().restart().settle();
    assert_eq!(addresses(&env), ["192.0.2.1", "192.0.2.2"]);
    let patches = env.written.iter();
    let patches = patches.filter_map(|(_, write)| write.operation().patch());
    let mut statuses = patches.map(|patch| &patch["status"]);
    assert!(
        statuses.all(|status| status["loadBalancer"].is_null()),
        "not even in another order"
    );
    env.off("member1", Kind::Service, "foo")
        .on("member2", balanced("192.0.2.4"))
        .settle();
    assert_eq!(
        addresses(&env),
        ["192.0.2.1", "192.0.2.2", "192.0.2.4"],
        "nobody can tell which of them is gone"
    );
    env.identify("member1", "uid-of-member1", (1, 34))
        .list("member1")
        .settle();
    assert_eq!(addresses(&env), ["192.0.2.4"]);
}
