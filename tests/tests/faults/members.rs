//! Members that cannot be reached, and come back.

use std::time::Duration;

use causeway_tests::causeway::Lent;
use causeway_tests::{LONG, addresses, eventually, service, throughout};

#[tokio::test]
async fn unreachable_provider_keeps_its_slices_over_a_restart() {
    let env = Lent::take().await;
    let (space, mut addresses) = env.foo("gone").await;
    env.member("member1").stop().await;
    let message = eventually("the refused connection is named", LONG, async || {
        let message = space
            .says("foo", "Ready", "False|ServiceAppliedFailed|")
            .await;
        let named = message.ends_with("(connection refused)");
        if named { Ok(message) } else { Err(message) }
    })
    .await;
    assert!(
        message.starts_with("1 of 2 clusters: member1 unreachable since 20"),
        "{message}"
    );
    env.controller.restart_in_order().await;
    throughout(
        "member2 reaches both pods",
        Duration::from_secs(5),
        async || space.ready_addresses(env.member("member2"), "foo").await == addresses,
    )
    .await;
    env.member("member1").start().await;
    space.says("foo", "Ready", "True|Ready|").await;
    space.grows(&mut addresses).await;
}

#[tokio::test]
async fn a_hanging_consumer_delays_no_other_and_catches_up() {
    let env = Lent::take().await;
    let space = env.space("hang").await;
    space
        .expose("foo", ["member1"], ["member2", "member3"])
        .await;
    let pods = space.pods("foo", "member1", 2).await;
    let both = addresses(&pods);
    space.reaches("member2", "foo", &both).await;
    space.reaches("member3", "foo", &both).await;
    env.member("member2").pause();
    pods[0].delete().await;
    let one = [pods[1].ip().to_owned()];
    let promptly = space.within(Duration::from_secs(8));
    promptly.reaches("member3", "foo", &one).await;
    let message = space
        .says(
            "foo",
            "EndpointSliceDispatched",
            "False|EndpointSliceDispatchedFailed|",
        )
        .await;
    assert!(
        message.starts_with("1 of 2 consumers: member2 "),
        "{message}"
    );
    env.member("member2").resume();
    space.reaches("member2", "foo", &one).await;
    space.says("foo", "Ready", "True|Ready|").await;
}

#[tokio::test]
async fn unreachable_member_never_blocks_a_deletion() {
    let env = Lent::take().await;
    let (space, _) = env.foo("away").await;
    assert_ne!(space.own_objects("member2").await, Vec::<String>::new());
    env.member("member2").stop().await;
    space
        .says("foo", "Ready", "False|ServiceAppliedFailed|")
        .await;
    space.delete("foo").await;
    space.is_clean("member1").await;
    env.controller.restart_in_order().await;
    env.member("member2").start().await;
    space.is_clean("member2").await;
}

#[tokio::test]
async fn the_grace_for_a_service_that_is_gone_from_the_hub_ends() {
    let env = Lent::with_flags(&["--service-grace=3s"]).await;
    let (space, addresses) = env.foo("grace").await;
    env.hub()
        .kubectl(["delete", "svc", "foo", "-n", space.name()])
        .await
        .ok();
    let message = space.says("foo", "Ready", "False|ServiceNotFound|").await;
    assert!(message.contains("is kept until"), "{message}");
    assert_eq!(
        space.ready_addresses(env.member("member2"), "foo").await,
        addresses
    );
    for member in ["member1", "member2"] {
        space.is_clean(member).await;
    }
    let message = space.says("foo", "Ready", "False|ServiceNotFound|").await;
    assert!(
        message.ends_with("nothing of it is offered to other clusters"),
        "{message}"
    );
    service("foo")
        .port("http", 80)
        .create(env.hub(), &space)
        .await;
    space.reaches("member2", "foo", &addresses).await;
}
