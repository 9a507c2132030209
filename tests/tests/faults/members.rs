//! Members that cannot be reached, and come back.

use std::time::Duration;

use causeway_tests::SOON;
use causeway_tests::eventually::{eventually, throughout};
use causeway_tests::{multi_cluster_service, service};

use super::{Environment, NOTICED, cleaned, own_objects, reaches, says};

#[tokio::test]
async fn unreachable_provider_keeps_its_slices_over_a_restart() {
    let env = Environment::start(2, &[]).await;
    let (space, addresses) = env.foo("gone").await;
    env.member("member1").stop().await;
    let message = eventually("the refused connection is named", NOTICED, async || {
        let message = says(&space, "Ready", "False|ServiceAppliedFailed|", NOTICED).await;
        let named = message.ends_with("(connection refused)");
        if named { Ok(message) } else { Err(message) }
    })
    .await;
    assert!(
        message.starts_with("1 of 2 clusters: member1 unreachable since 20"),
        "{message}"
    );
    env.controller.restart().await;
    throughout(
        "member2 reaches both pods",
        Duration::from_secs(5),
        async || space.ready_addresses(env.member("member2"), "foo").await == addresses,
    )
    .await;
    env.member("member1").start().await;
    says(&space, "Ready", "True|Ready|", NOTICED).await;
    let more = space
        .backends("foo")
        .count(1)
        .create(env.member("member1"))
        .await;
    let mut all = addresses.clone();
    all.push(more[0].ip().to_owned());
    all.sort();
    reaches(&space, env.member("member2"), &all, SOON).await;
}

#[tokio::test]
async fn a_hanging_consumer_delays_no_other_and_catches_up() {
    let env = Environment::start(3, &[]).await;
    let space = env.fleet.space("hang").await;
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2", "member3"])
        .create(&space)
        .await;
    let pods = space
        .backends("foo")
        .count(2)
        .create(env.member("member1"))
        .await;
    let mut both: Vec<_> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
    both.sort();
    reaches(&space, env.member("member2"), &both, SOON).await;
    reaches(&space, env.member("member3"), &both, SOON).await;
    env.member("member2").pause();
    pods[0].delete().await;
    let one = [pods[1].ip().to_owned()];
    reaches(&space, env.member("member3"), &one, Duration::from_secs(5)).await;
    let message = says(
        &space,
        "EndpointSliceDispatched",
        "False|EndpointSliceDispatchedFailed|",
        NOTICED,
    )
    .await;
    assert!(
        message.starts_with("1 of 2 consumers: member2 "),
        "{message}"
    );
    env.member("member2").resume();
    reaches(&space, env.member("member2"), &one, NOTICED).await;
    says(&space, "Ready", "True|Ready|", NOTICED).await;
}

#[tokio::test]
async fn unreachable_member_never_blocks_a_deletion() {
    let env = Environment::start(2, &[]).await;
    let (space, _) = env.foo("away").await;
    assert_ne!(
        own_objects(&space, env.member("member2")).await,
        Vec::<String>::new()
    );
    env.member("member2").stop().await;
    says(&space, "Ready", "False|ServiceAppliedFailed|", NOTICED).await;
    env.hub()
        .kubectl(["delete", "mcs", "foo", "-n", space.name(), "--timeout=20s"])
        .await
        .ok();
    cleaned(&space, env.member("member1"), SOON).await;
    env.controller.restart().await;
    env.member("member2").start().await;
    cleaned(&space, env.member("member2"), NOTICED).await;
}

#[tokio::test]
async fn the_grace_for_a_service_that_is_gone_from_the_hub_ends() {
    let env = Environment::start(2, &["--service-grace=3s"]).await;
    let (space, addresses) = env.foo("grace").await;
    env.hub()
        .kubectl(["delete", "svc", "foo", "-n", space.name()])
        .await
        .ok();
    let message = says(&space, "Ready", "False|ServiceNotFound|", SOON).await;
    assert!(message.contains("is kept until"), "{message}");
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );
    for member in ["member1", "member2"] {
        cleaned(&space, env.member(member), SOON).await;
    }
    let message = says(&space, "Ready", "False|ServiceNotFound|", SOON).await;
    assert!(
        message.ends_with("nothing of it is offered to other clusters"),
        "{message}"
    );
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    reaches(&space, env.member("member2"), &addresses, SOON).await;
}
