//! Certificates: who is an agent, and of which member.

use std::time::{Duration, SystemTime};

use causeway_certs::{Leaf, Purpose};
use causeway_tests::relay::Relay;

use crate::environment::{Hub, Member, Replica, api, connect, echo, echoing, eventually, limits};

#[tokio::test]
async fn agent_without_a_valid_certificate_is_rejected() {
    let hub = Hub::new();
    let now = SystemTime::now();
    let day = Duration::from_secs(24 * 3600);
    let other = Hub::new();
    let foreign = Hub::of("11111111-2222-3333-4444-555555555555");
    // Issued by the authority of the hub, with the UID of another one.
    let misnamed = hub.files(&foreign.member_leaf("edge1"), now);
    // Issued by another authority; the agent trusts that of the hub.
    let untrusted = other.files(&other.member_leaf("edge1"), now);
    std::fs::write(untrusted.path().join("ca.crt"), hub.authority.pem()).expect("a file");
    let expired = Leaf {
        validity: Duration::from_secs(60),
        ..hub.member_leaf("edge1")
    };
    let expired = hub.files(&expired, now - day);
    let server = Leaf {
        purpose: Purpose::Server,
        ..hub.member_leaf("edge1")
    };
    let server = hub.files(&server, now);
    for (files, reason) in [
        (misnamed, "identity"),
        (untrusted, "handshake"),
        (expired, "handshake"),
        (server, "handshake"),
    ] {
        let replica = Replica::start(&hub, limits()).await;
        // Its own check of the hub is not what rejects it.
        let raw = crate::hostile::handshake(files.path(), replica.agents).await;
        eventually(reason, || replica.failed(reason) == 1).await;
        assert_eq!(replica.connections("edge1"), 0);
        drop(raw);
    }
}

#[tokio::test]
async fn agent_rejects_the_tunnel_of_another_hub() {
    let hub = Hub::new();
    let foreign = Hub::with("11111111-2222-3333-4444-555555555555", &hub.authority);
    let replica = Replica::start(&foreign, limits()).await;
    let own = Replica::start(&hub, limits()).await;
    let relay = Relay::balance([replica.agents, own.agents], Duration::ZERO).await;
    let _member = Member::start(&hub, "edge1", relay.address(), api().await).await;
    own.connected("edge1").await;
    assert_eq!(replica.connections("edge1"), 0);
    // It reached the foreign one first, and closed the connection.
    eventually("it closed", || {
        replica.failed("identity") + replica.failed("http") > 0
    })
    .await;
}

#[tokio::test]
async fn member_is_named_by_its_certificate_alone() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let leaf = Leaf {
        // A certificate of another use may have any common name.
        common_name: "edge2".to_owned(),
        names: vec!["edge2".to_owned()],
        ..hub.member_leaf("edge1")
    };
    let files = hub.files(&leaf, SystemTime::now());
    let _member = Member::of(files.path(), &replica).await;
    replica.connected("edge1").await;
    let (status, _) = connect(replica.front, "edge2").await.expect_err("no agent");
    assert_eq!(status, 503);
    echoing(replica.front, "edge1").await;
}

#[tokio::test]
async fn expired_certificate_ends_a_connection() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let leaf = Leaf {
        validity: Duration::from_secs(5),
        ..hub.member_leaf("edge1")
    };
    let files = hub.files(&leaf, SystemTime::now());
    let _member = Member::of(files.path(), &replica).await;
    replica.connected("edge1").await;
    eventually("it is gone", || replica.connections("edge1") == 0).await;
    eventually("it is not let in again", || replica.failed("handshake") > 0).await;
}

#[tokio::test]
async fn changed_authorities_apply_to_connected_agents() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let files = hub.files(&hub.member_leaf("edge1"), SystemTime::now());
    let _member = Member::of(files.path(), &replica).await;
    replica.connected("edge1").await;
    let mut socket = echoing(replica.front, "edge1").await;
    let next = Hub::new();
    next.write(replica.files.path(), &next.tunnel_leaf(), SystemTime::now());
    eventually("it is gone", || replica.connections("edge1") == 0).await;
    // Its streams have the time of the drain.
    echo(&mut socket).await;
    let (status, _) = connect(replica.front, "edge1").await.expect_err("no agent");
    assert_eq!(status, 503);
}

#[tokio::test]
async fn agent_connects_again_with_a_renewed_certificate_and_cuts_no_stream() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let files = hub.files(&hub.member_leaf("edge1"), SystemTime::now());
    let _member = Member::of(files.path(), &replica).await;
    replica.connected("edge1").await;
    let mut before = echoing(replica.front, "edge1").await;
    let expiry = || {
        let shown = replica.shown("edge1");
        let connections = shown["connections"].as_array().cloned().unwrap_or_default();
        connections
            .last()
            .map(|one| one["certificateExpires"].clone())
    };
    let first = expiry();
    let renewed = Leaf {
        validity: Duration::from_secs(2 * 24 * 3600),
        ..hub.member_leaf("edge1")
    };
    hub.write(files.path(), &renewed, SystemTime::now());
    eventually("the renewed certificate is shown", || {
        expiry().is_some_and(|now| Some(now) != first)
    })
    .await;
    echo(&mut before).await;
    echoing(replica.front, "edge1").await;
    drop(before);
    eventually("the first connection has ended", || {
        replica.connections("edge1") == 1
    })
    .await;
    assert_ne!(expiry(), first);
    echoing(replica.front, "edge1").await;
}
