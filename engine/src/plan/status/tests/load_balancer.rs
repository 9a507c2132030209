use causeway::api::condition as names;
use serde_json::{Value, json};

use super::foo;
use crate::fixtures::objects::{Kind, Object, cluster, mcs};
use crate::fixtures::{World, world};

fn balanced(ip: &str) -> Object {
    let part = json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"}]}}});
    foo().with(part)
}

fn addresses(world: &World) -> Vec<Value> {
    let ingress =
        world.mcs("foo").expect("it is there")["status"]["loadBalancer"]["ingress"].clone();
    ingress
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| one["ip"].clone())
        .collect()
}

/// Two members, each with a load balancer.
fn gathered() -> World {
    let mut world = world();
    world.member("member1").on("member1", balanced("192.0.2.1"));
    world.member("member2").on("member2", balanced("192.0.2.2"));
    world
        .on_hub(foo())
        .on_hub(mcs("foo").load_balancer())
        .settle();
    assert_eq!(addresses(&world), ["192.0.2.1", "192.0.2.2"]);
    world.forget_writes();
    world
}

#[test]
fn load_balancers_are_gathered_and_nothing_is_written_into_members() {
    let mut world = gathered();
    assert_eq!(
        world.says("foo", names::READY),
        "True Ready: the load balancers of 2 clusters are gathered"
    );
    assert_eq!(world.condition("foo", names::ENDPOINT_SLICE_APPLIED), None);
    world.on("member2", balanced("192.0.2.3")).settle();
    assert_eq!(addresses(&world), ["192.0.2.1", "192.0.2.3"]);
    world.off("member1", Kind::Service, "foo").settle();
    assert_eq!(addresses(&world), ["192.0.2.3"]);
    let message = "False ServiceAppliedFailed: 1 of 2 clusters: member1 has no Service shop/foo";
    assert_eq!(world.says("foo", names::READY), message);
    assert!(
        world.log().iter().all(|line| line.starts_with("hub")),
        "{:?}",
        world.log()
    );
    world.assert_at_rest();
}

#[test]
fn only_providers_load_balancers_are_gathered() {
    let mut world = gathered();
    world
        .on_hub(mcs("foo").load_balancer().providers(&["member2"]))
        .settle();
    assert_eq!(addresses(&world), ["192.0.2.2"]);
    let drained = cluster("member2")
        .with(json!({"metadata": {"annotations": {causeway::api::labels::WITHDRAW: "true"}}}));
    world
        .on_hub(mcs("foo").load_balancer())
        .on_hub(drained)
        .settle();
    assert_eq!(addresses(&world), ["192.0.2.1"]);
}

#[test]
fn the_load_balancer_of_a_cluster_that_cannot_be_asked_stays() {
    let mut world = gathered();
    world.lose("member1").settle();
    assert_eq!(addresses(&world), ["192.0.2.1", "192.0.2.2"]);
    world.forget_writes().restart().settle();
    assert_eq!(addresses(&world), ["192.0.2.1", "192.0.2.2"]);
    let patches = world.written.iter();
    let patches = patches.filter_map(|(_, write)| write.operation().patch());
    let mut statuses = patches.map(|patch| &patch["status"]);
    assert!(
        statuses.all(|status| status["loadBalancer"].is_null()),
        "not even in another order"
    );
    world
        .off("member1", Kind::Service, "foo")
        .on("member2", balanced("192.0.2.4"))
        .settle();
    assert_eq!(
        addresses(&world),
        ["192.0.2.1", "192.0.2.2", "192.0.2.4"],
        "nobody can tell which of them is gone"
    );
    world
        .identify("member1", "uid-of-member1", (1, 34))
        .list("member1")
        .settle();
    assert_eq!(addresses(&world), ["192.0.2.4"]);
}
