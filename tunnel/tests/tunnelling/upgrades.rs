//! The listener for agents that come through the hub's API server.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use causeway_tunnel::limits::Limits;
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::environment::{Hub, Replica, SOON, connect, eventually, limits, read_answer};
use crate::hostile::{handshake_on, http2, serve};

/// Request as the Service proxy of an API server passes it on.
const UPGRADE: &str = "GET /connect HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                       Upgrade: causeway-tunnel\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n";

/// Sends a text, and returns the connection and the head of the answer.
async fn send(replica: &Replica, text: &str) -> (TcpStream, u16, String) {
    let socket = TcpStream::connect(replica.upgraded).await;
    let mut socket = socket.expect("the listener");
    socket.write_all(text.as_bytes()).await.expect("it reads");
    let answered = timeout(SOON, read_answer(&mut socket)).await;
    let (status, head) = answered.expect("in time");
    (socket, status, head)
}

#[tokio::test]
async fn upgraded_connection_is_that_of_an_agent() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let (socket, status, head) = send(&replica, UPGRADE).await;
    assert_eq!(status, 101, "{head}");
    let has = |header: &str| head.to_lowercase().contains(header);
    assert!(has("connection: upgrade\r\n"), "{head}");
    assert!(has("upgrade: causeway-tunnel\r\n"), "{head}");
    let files = hub.files(&hub.member_leaf("edge1"), SystemTime::now());
    let tls = handshake_on(files.path(), socket).await;
    let agent = http2(tls.expect("a handshake")).await;
    let serving = serve(agent, |_, mut respond| async move {
        let mut send = respond.send_response(Response::new(()), false).expect("it");
        send.send_data(Bytes::from_static(b"hello"), true)
            .expect("it");
    });
    replica.connected("edge1").await;
    let mut stream = connect(replica.front, "edge1").await.expect("a stream");
    let mut read = [0; 5];
    let answered = timeout(SOON, stream.read_exact(&mut read)).await;
    answered.expect("in time").expect("bytes");
    assert_eq!(&read, b"hello");
    // The header of a proxy is not trusted.
    let from = replica.shown("edge1")["connections"][0]["from"].clone();
    assert_eq!(from, "through the API server");
    serving.abort();
    eventually("it is gone", || replica.connections("edge1") == 0).await;
    let (_, reason) = connect(replica.front, "edge1").await.expect_err("no agent");
    assert!(
        reason.ends_with(", last through the API server"),
        "{reason}"
    );
}

#[tokio::test]
async fn only_the_request_of_an_agent_is_upgraded() {
    let replica = Replica::start(&Hub::new(), limits()).await;
    let endless = format!("GET /connect HTTP/1.1\r\nHost: {}", "a".repeat(64 * 1024));
    for (request, expected) in [
        (UPGRADE.replace("/connect", "/"), 404),
        (UPGRADE.replace("/connect", "/connect/more"), 404),
        (UPGRADE.replace("/connect", "http://other/tunnels"), 404),
        (UPGRADE.replace("GET", "POST"), 405),
        (UPGRADE.replace("GET", "HEAD"), 405),
        (
            UPGRADE.replace("Upgrade: causeway-tunnel", "Upgrade: websocket"),
            426,
        ),
        (UPGRADE.replace("Upgrade: causeway-tunnel", "X: y"), 426),
        (
            UPGRADE.replace("Host: a", "Host: a\r\nContent-Length: 1000000"),
            400,
        ),
        (
            UPGRADE.replace("Host: a", "Host: a\r\nTransfer-Encoding: chunked"),
            400,
        ),
        (endless, 431),
        ("nonsense\r\n\r\n".to_owned(), 400),
    ] {
        let (_, status, head) = send(&replica, &request).await;
        assert_eq!(status, expected, "{request:.80}: {head}");
    }
    eventually("all are closed", || replica.failed("upgrade") == 11).await;
}

#[tokio::test]
async fn slow_upgrade_is_cut_and_takes_a_place_of_the_handshakes() {
    let limits = Limits {
        handshakes: 1,
        handshake: Duration::from_secs(1),
        ..limits()
    };
    let replica = Replica::start(&Hub::new(), limits).await;
    // After 101 the handshake of TLS has to come in time, too.
    let (mut silent, status, head) = send(&replica, UPGRADE).await;
    assert_eq!(status, 101, "{head}");
    let _other = TcpStream::connect(replica.agents).await.expect("a socket");
    eventually("another has no place", || replica.failed("full") == 1).await;
    let read = timeout(SOON, silent.read_u8()).await.expect("in time");
    read.expect_err("it is closed");
    eventually("it is counted", || replica.failed("slow") == 1).await;
    let mut slow = TcpStream::connect(replica.upgraded).await.expect("it");
    slow.write_all(b"GET /connect HTTP/1.1\r\n")
        .await
        .expect("it");
    let read = timeout(SOON, slow.read_u8()).await.expect("in time");
    read.expect_err("it is closed");
    eventually("both are counted", || replica.failed("slow") == 2).await;
}
