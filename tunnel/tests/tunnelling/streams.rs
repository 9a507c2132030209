//! Streams of agents that behave.

use std::time::{Duration, Instant};

use bytes::Bytes;
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use causeway_tunnel::splice::{Shared, Stream, splice};
use http::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, duplex, split};
use tokio::time::timeout;

use crate::environment::{
    Hub, Member, Replica, SOON, api, connect, echo, echoing, eventually, limits,
};

#[tokio::test]
async fn stream_carries_all_bytes_both_ways_and_ends() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let _member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let socket = echoing(replica.front, "edge1").await;
    let (mut input, mut output) = socket.into_split();
    // More than all windows and buffers on the way.
    let sent: Vec<u8> = (0..8_000_003_u32)
        .map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1])
        .collect();
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        output.write_all(&sent).await.expect("it is written");
        output.shutdown().await.expect("it is ended");
    });
    let mut received = Vec::new();
    let read = timeout(SOON, input.read_to_end(&mut received)).await;
    read.expect("in time").expect("the end of the stream");
    writing.await.expect("all was written");
    assert!(received == expected, "{} bytes came back", received.len());
    eventually("its place is free", || replica.streams("edge1") == 0).await;
    assert_eq!(replica.metric("causeway_tunnel_streams"), 0);
    assert!(replica.metric("causeway_tunnel_sent_bytes_total") > 8_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stuck_streams_leave_others_responsive() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let _member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let mut stuck = Vec::new();
    for _ in 0..16 {
        let mut socket = connect(replica.front, "edge1").await.expect("a stream");
        socket.write_all(b"F").await.expect("it is written");
        stuck.push(socket);
    }
    // Each has used up its window: neither side has more to do.
    let held = || replica.shared.budget.used() > 16 * 700 * 1024;
    eventually("all are stuck", held).await;
    let mut socket = echoing(replica.front, "edge1").await;
    let begun = Instant::now();
    for _ in 0..100 {
        echo(&mut socket).await;
    }
    let each = begun.elapsed() / 100;
    assert!(
        each < Duration::from_millis(50),
        "{each:?} for a round trip"
    );
    // They go on where they are read.
    for socket in &mut stuck {
        let mut buffer = vec![0; 4 * 1024 * 1024];
        let read = timeout(SOON, socket.read_exact(&mut buffer)).await;
        read.expect("in time").expect("its bytes");
    }
}

#[tokio::test]
async fn bytes_for_slow_receivers_are_bounded_over_all_streams() {
    let hub = Hub::new();
    let held = 2 * 1024 * 1024;
    let replica = Replica::start(&hub, Limits { held, ..limits() }).await;
    let _member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let mut socket = connect(replica.front, "edge1").await.expect("a stream");
        socket.write_all(b"F").await.expect("it is written");
        stuck.push(socket);
    }
    let full = "causeway_tunnel_streams_failed_total{reason=\"full\"}";
    eventually("streams beyond the bound are reset", || {
        assert!(replica.shared.budget.used() <= held);
        replica.metric(full) >= 4
    })
    .await;
    // A stream that is read needs none of it.
    let mut socket = echoing(replica.front, "edge1").await;
    for _ in 0..100 {
        echo(&mut socket).await;
    }
    drop(stuck);
    eventually("all is given back", || replica.shared.budget.used() == 0).await;
}

#[tokio::test]
async fn further_streams_than_the_maximum_are_refused() {
    let hub = Hub::new();
    let limits = Limits {
        streams: 3,
        ..limits()
    };
    let replica = Replica::start(&hub, limits).await;
    let _member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(echoing(replica.front, "edge1").await);
    }
    let (status, reason) = connect(replica.front, "edge1").await.expect_err("no place");
    assert_eq!(status, 503);
    assert_eq!(reason, "its agent has 3 streams open, which is the maximum");
    open.pop();
    eventually("a place is free", || replica.streams("edge1") == 2).await;
    echoing(replica.front, "edge1").await;
}

#[tokio::test]
async fn unreachable_api_server_is_reported_to_the_client() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    let _member = Member::start(&hub, "edge1", replica.agents, closed).await;
    replica.connected("edge1").await;
    let (status, reason) = connect(replica.front, "edge1")
        .await
        .expect_err("no server");
    assert_eq!(status, 502);
    let expected =
        format!("its agent answered 502 Bad Gateway: the API server {closed} cannot be reached");
    assert!(reason.starts_with(&expected), "{reason}");
}

#[tokio::test]
async fn client_that_goes_away_closes_the_stream() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let _member = Member::start(&hub, "edge1", replica.agents, api().await).await;
    replica.connected("edge1").await;
    let mut idle = connect(replica.front, "edge1").await.expect("a stream");
    // The API server never ends its side.
    idle.write_all(b"I").await.expect("it is written");
    drop(idle);
    eventually("its place is free", || replica.streams("edge1") == 0).await;
    let half_closed = "causeway_tunnel_streams_failed_total{reason=\"half_closed\"}";
    assert_eq!(replica.metric(half_closed), 1);
}

#[tokio::test]
async fn bytes_are_flushed_though_nothing_follows_them() {
    let (near, far) = duplex(64 * 1024);
    tokio::spawn(async move {
        let mut server = h2::server::handshake(far).await.expect("HTTP/2");
        let (_body, mut respond) = server.accept().await.expect("a request").expect("one");
        let answer = respond.send_response(Response::new(()), false);
        let mut send = answer.expect("it is open");
        let sent = send.send_data(Bytes::from_static(b"?"), false);
        sent.expect("it is open");
        // Polls the connection until its end.
        while server.accept().await.is_some() {}
    });
    let (mut requests, connection) = h2::client::handshake(near).await.expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::get("http://a/").body(()).expect("a request");
    let (answer, send) = requests.send_request(request, false).expect("it is open");
    let receive = answer.await.expect("an answer").into_body();
    let (mut client, socket) = duplex(1024);
    tokio::spawn(async move {
        let (input, output) = split(socket);
        // It holds bytes back until they are flushed, as TLS may.
        let output = BufWriter::new(output);
        let shared = Shared::new(limits(), &Metrics::default());
        let stream = Stream { send, receive };
        splice(input, output, Bytes::new(), stream, &shared).await
    });
    let byte = timeout(SOON, client.read_u8()).await;
    assert_eq!(byte.expect("in time").expect("a byte"), b'?');
}
