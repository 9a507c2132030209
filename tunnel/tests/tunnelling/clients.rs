//! Clients of the front, and agents behind a proxy.

use std::time::{Duration, SystemTime};

use causeway_tunnel::limits::Limits;
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::environment::{
    Hub, Member, Replica, SOON, api, connect, echoing, limits, read_answer, read_head,
};

/// Sends a text to the front, and returns the head of the answer.
async fn send(replica: &Replica, text: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(replica.front).await.expect("the front");
    socket.write_all(text.as_bytes()).await.expect("it reads");
    timeout(SOON, read_answer(&mut socket))
        .await
        .expect("in time")
}

#[tokio::test]
async fn front_serves_only_connect_with_a_member() {
    let replica = Replica::start(&Hub::new(), limits()).await;
    let (status, head) = send(&replica, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(status == 405 && head.contains("allow: CONNECT"), "{head}");
    let (status, head) = send(&replica, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n").await;
    assert_eq!(status, 407);
    assert!(head.contains("proxy-authenticate: Basic"), "{head}");
    let (status, _) = send(&replica, "nonsense\r\n\r\n").await;
    assert_eq!(status, 400);
    let long = format!(
        "CONNECT a:443 HTTP/1.1\r\nHost: {}\r\n\r\n",
        "a".repeat(64 * 1024)
    );
    let (status, _) = send(&replica, &long).await;
    assert_eq!(status, 431);
}

#[tokio::test]
async fn client_that_sends_no_head_is_closed() {
    let handshake = Duration::from_millis(200);
    let replica = Replica::start(
        &Hub::new(),
        Limits {
            handshake,
            ..limits()
        },
    )
    .await;
    let mut socket = TcpStream::connect(replica.front).await.expect("the front");
    socket.write_all(b"CONNECT a:443").await.expect("it reads");
    let mut rest = Vec::new();
    let read = timeout(SOON, socket.read_to_end(&mut rest)).await;
    read.expect("in time").expect("the end");
}

#[tokio::test]
async fn further_clients_than_the_maximum_are_closed() {
    let replica = Replica::start(
        &Hub::new(),
        Limits {
            clients: 2,
            ..limits()
        },
    )
    .await;
    let connect = || TcpStream::connect(replica.front);
    let (one, two) = (connect().await, connect().await);
    let mut third = connect().await.expect("the front");
    let read = timeout(SOON, third.read_u8()).await.expect("in time");
    read.expect_err("it is closed");
    drop((one, two));
}

#[tokio::test]
async fn refusal_names_the_disconnect_and_the_last_address() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let (status, reason) = connect(replica.front, "edge1").await.expect_err("no agent");
    assert_eq!(status, 503);
    assert_eq!(
        reason,
        "its agent is not connected to causeway-tunnel: not since its start"
    );
    let member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    drop(member);
    crate::environment::eventually("it is gone", || replica.connections("edge1") == 0).await;
    let (status, reason) = connect(replica.front, "edge1").await.expect_err("no agent");
    assert_eq!(status, 503);
    let since = replica.shown("edge1")["disconnectedSince"].clone();
    let since = since.as_str().expect("a time");
    let expected = format!(
        "its agent is not connected to causeway-tunnel: since {since}, last from 127.0.0.1"
    );
    assert_eq!(reason, expected);
}

#[tokio::test]
async fn agent_connects_by_the_proxy_of_its_environment() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = listener.local_addr().expect("an address");
    let target = replica.agents;
    let proxied = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let head = read_head(&mut socket).await;
        let mut to = TcpStream::connect(target).await.expect("the tunnel");
        socket
            .write_all(b"HTTP/1.1 200 OK\r\n\r\n")
            .await
            .expect("it reads");
        tokio::spawn(async move { copy_bidirectional(&mut socket, &mut to).await.ok() });
        head
    });
    let files = hub.files(&hub.member_leaf("edge1"), SystemTime::now());
    let proxies = Matcher::builder()
        .https(format!("http://user:secret@{proxy}"))
        .build();
    // The proxy alone knows the name.
    let tunnel = format!("localhost:{}", target.port());
    let _member = Member::start_by(files.path(), &tunnel, api().await, proxies).await;
    replica.connected("edge1").await;
    echoing(replica.front, "edge1").await;
    let head = proxied.await.expect("a head");
    assert!(
        head.starts_with(&format!("CONNECT {tunnel} HTTP/1.1\r\n")),
        "{head}"
    );
    assert!(
        head.to_lowercase().contains("proxy-authorization: basic"),
        "{head}"
    );
}
