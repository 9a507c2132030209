use causeway::api::condition as names;
use causeway::api::labels::PREFER;
use serde_json::{Value, json};

use super::foo;
use crate::fixtures::objects::{Kind, Object, drained, mcs, slice};
use crate::fixtures::{Environment, env};

fn balanced(ip: &str) -> Object {
    balanced_by(&json!([{"ip": ip, "ipMode": "VIP"}]))
}

fn balanced_by(ingress: &Value) -> Object {
    let status = json!({"loadBalancer": {"ingress": ingress}});
    foo().with(json!({"spec": {"type": "LoadBalancer"}, "status": status}))
}

fn stored(env: &Environment) -> &Value {
    &env.mcs("foo").expect("it is there")["status"]["loadBalancer"]["ingress"]
}

fn addresses(env: &Environment) -> Vec<Value> {
    stored(env)
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
    env.assert_writes(|line| line.starts_with("hub"));
    env.assert_at_rest();
}

#[test]
fn status_has_16_addresses_of_a_provider() {
    let mut env = gathered();
    let ingress = (0..1000).map(|one| json!({"ip": format!("10.9.{}.{}", one / 250, one % 250)}));
    env.on("member2", balanced_by(&ingress.collect())).settle();
    let all = addresses(&env);
    assert_eq!((all.len(), &all[0]), (17, &json!("192.0.2.1")));
    env.lose("member1").restart().settle();
    assert_eq!(addresses(&env), all);
    env.assert_at_rest();
}

#[test]
fn status_has_addresses_without_ports_and_no_other_text() {
    let mut env = gathered();
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    let reported = json!([
        {"ip": "192.0.2.1", "ipMode": "VIP", "ports": ports},
        {"ip": "127.0.0.1"},
        {"ip": "169.254.169.254"},
        {"hostname": "x y"},
        {"hostname": "x".repeat(1024 * 1024)},
        {"hostname": "lb.example", "ports": ports},
    ]);
    env.on("member1", balanced_by(&reported)).settle();
    let expected = json!([
        {"ip": "192.0.2.1", "ipMode": "VIP"},
        {"hostname": "lb.example"},
        {"ip": "192.0.2.2", "ipMode": "VIP"},
    ]);
    assert_eq!(stored(&env), &expected);
    env.assert_at_rest();
}

#[test]
fn stored_ports_of_an_address_go_by_one_write() {
    for is_lost in [false, true] {
        let mut env = gathered();
        let expected = stored(&env).clone();
        let mut value = env.mcs("foo").cloned().expect("it is there");
        let ports = json!([{"port": 80, "protocol": "TCP", "error": "Quota"}]);
        value["status"]["loadBalancer"]["ingress"][0]["ports"] = ports;
        let kind = Kind::Mcs;
        env.on_hub(Object { kind, value });
        if is_lost {
            env.lose("member1").restart();
        }
        env.settle();
        assert_eq!(stored(&env), &expected, "{is_lost}");
        let patches = env.written.iter();
        let patches = patches.filter_map(|(_, write)| write.operation().patch());
        let of_ingress = patches.filter(|patch| !patch["status"]["loadBalancer"].is_null());
        assert_eq!(of_ingress.count(), 1, "{is_lost}");
    }
}

#[test]
fn only_providers_are_named_where_load_balancers_are_gathered() {
    let mut env = gathered();
    env.pull_without_credentials("member9");
    let gathering = |providers: &[&str]| {
        let object = mcs("foo").load_balancer().providers(providers);
        object.annotated(&json!({PREFER: "region, any"}))
    };
    env.on_hub(gathering(&["member1", "member2"])).settle();
    assert_eq!(
        env.says("foo", names::READY),
        "True Ready: the load balancers of 2 clusters are gathered"
    );
    env.on_hub(gathering(&["member9"])).settle();
    assert_eq!(
        env.says("foo", names::READY),
        "False NoProviders: no cluster backs shop/foo: member9 (Pull mode without credentials)"
    );
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
    env.on_hub(mcs("foo").load_balancer())
        .on_hub(drained("member2", true))
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
