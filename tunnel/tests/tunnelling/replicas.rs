//! Replicas that come and go, and connections that are cut.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use causeway_tests::Fault;
use causeway_tests::relay::Relay;
use causeway_tunnel::limits::Limits;

use crate::environment::{
    Hub, Member, Replica, SOON, api, connect, echo, echoing, eventually, limits,
};

#[tokio::test]
async fn agent_connects_to_each_replica_once() {
    let hub = Hub::new();
    let one = Replica::start_as(&hub, limits(), "tunnel-0", 2).await;
    let two = Replica::start_as(&hub, limits(), "tunnel-1", 2).await;
    // Two connections in a row reach the first.
    let targets = [one.agents, one.agents, two.agents];
    let relay = Relay::balance(targets, Duration::ZERO).await;
    let _member = Member::start(&hub, "edge1", relay.address(), api().await).await;
    one.connected("edge1").await;
    two.connected("edge1").await;
    assert_eq!((one.connections("edge1"), two.connections("edge1")), (1, 1));
    assert_eq!(one.failed("duplicate"), 1);
    for replica in [&one, &two] {
        echoing(replica.front, "edge1").await;
    }
}

#[tokio::test]
async fn draining_replica_keeps_its_streams_until_the_agent_has_another() {
    let hub = Hub::new();
    let one = Replica::start_as(&hub, limits(), "tunnel-0", 1).await;
    let relay = Relay::start(one.agents, Duration::ZERO).await;
    let _member = Member::start(&hub, "edge1", relay.address(), api().await).await;
    one.connected("edge1").await;
    let mut socket = echoing(one.front, "edge1").await;
    let two = Replica::start_as(&hub, limits(), "tunnel-1", 1).await;
    relay.redirect(two.agents);
    let drain = tokio::spawn(one.tunnel.clone().drain());
    two.connected("edge1").await;
    echo(&mut socket).await;
    echoing(two.front, "edge1").await;
    let (status, _) = connect(one.front, "edge1").await.expect_err("it drains");
    assert_eq!(status, 503);
    assert!(!drain.is_finished(), "a stream is open");
    drop(socket);
    timeout(SOON, drain)
        .await
        .expect("in time")
        .expect("no panic");
}

#[tokio::test]
async fn drain_ends_streams_at_its_limit() {
    let hub = Hub::new();
    let drain = Duration::from_millis(300);
    let replica = Replica::start(&hub, Limits { drain, ..limits() }).await;
    let _member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let mut socket = echoing(replica.front, "edge1").await;
    let ended = timeout(SOON, replica.tunnel.clone().drain()).await;
    ended.expect("in time");
    let read = timeout(SOON, socket.read_u8()).await.expect("in time");
    read.expect_err("the stream is cut");
}

#[tokio::test]
async fn cut_connection_is_noticed_and_made_again() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let relay = Relay::start(replica.agents, Duration::ZERO).await;
    let _member = Member::start(&hub, "edge1", relay.address(), api().await).await;
    replica.connected("edge1").await;
    let mut socket = echoing(replica.front, "edge1").await;
    let first = replica.shown("edge1")["connections"][0]["from"].clone();
    relay.set(Fault::Frozen);
    let read = timeout(SOON, socket.read_u8()).await.expect("in time");
    read.expect_err("the stream is cut");
    eventually("the agent is connected again", || {
        let shown = replica.shown("edge1");
        shown["connections"][0]["from"].is_string() && shown["connections"][0]["from"] != first
    })
    .await;
    echoing(replica.front, "edge1").await;
}

#[tokio::test]
async fn agent_connects_to_the_successor_of_a_killed_replica() {
    let hub = Hub::new();
    let one = Replica::start_as(&hub, limits(), "tunnel-0/1", 1).await;
    let relay = Relay::start(one.agents, Duration::ZERO).await;
    let _member = Member::start(&hub, "edge1", relay.address(), api().await).await;
    one.connected("edge1").await;
    one.kill();
    let two = Replica::start_as(&hub, limits(), "tunnel-0/2", 1).await;
    relay.redirect(two.agents);
    two.connected("edge1").await;
    echoing(two.front, "edge1").await;
}

#[tokio::test]
async fn ending_agent_lets_its_streams_end() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let mut socket = echoing(replica.front, "edge1").await;
    let drain = tokio::spawn(member.agent.clone().drain());
    let refused = async {
        while connect(replica.front, "edge1").await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, refused).await.expect("it takes no more");
    echo(&mut socket).await;
    assert!(!drain.is_finished(), "a stream is open");
    drop(socket);
    timeout(SOON, drain)
        .await
        .expect("in time")
        .expect("no panic");
}

#[tokio::test]
async fn newest_of_too_many_agents_of_a_name_stay() {
    let hub = Hub::new();
    let agents_of_a_name = 2;
    let replica = Replica::start(
        &hub,
        Limits {
            agents_of_a_name,
            ..limits()
        },
    )
    .await;
    let relay = Relay::start(replica.agents, Duration::ZERO).await;
    let mut members = Vec::new();
    for count in 1..=3 {
        members.push(Member::start(&hub, "edge1", relay.address(), api().await).await);
        let expected = count.min(agents_of_a_name);
        eventually("it is connected", || {
            replica.connections("edge1") == expected
        })
        .await;
    }
    echoing(replica.front, "edge1").await;
    // The one that is replaced pauses before it replaces another.
    let before = relay.accepted();
    sleep(Duration::from_secs(5)).await;
    let redials = relay.accepted() - before;
    assert!((1..=20).contains(&redials), "{redials}");
}
