//! Agents with a valid certificate that misbehave.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use causeway_tunnel::credentials::Credentials;
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use h2::server::Connection;
use http::{Response, StatusCode};
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::environment::{
    Hub, Member, Replica, SOON, api, connect, echo, echoing, eventually, limits,
};

const ANSWER: &str = r#"{"agent":"0.2.0","api":"10.96.0.1:443"}"#;

/// Connects with a certificate, as far as that goes.
pub(crate) async fn handshake(
    files: &Path,
    to: SocketAddr,
) -> std::io::Result<TlsStream<TcpStream>> {
    handshake_on(files, TcpStream::connect(to).await?).await
}

/// Begins TLS on a connection.
pub(crate) async fn handshake_on(
    files: &Path,
    socket: TcpStream,
) -> std::io::Result<TlsStream<TcpStream>> {
    let credentials = Credentials::<ClientConfig>::read(files, &Metrics::default());
    let config: Arc<ClientConfig> = credentials.expect("credentials").current().config.clone();
    let to = socket.peer_addr()?;
    let connector = TlsConnector::from(config);
    connector.connect(to.ip().into(), socket).await
}

pub(crate) async fn connection(
    hub: &Hub,
    name: &str,
    to: SocketAddr,
) -> Connection<TlsStream<TcpStream>, Bytes> {
    let files = hub.files(&hub.member_leaf(name), SystemTime::now());
    let tls = handshake(files.path(), to).await.expect("a connection");
    http2(tls).await
}

/// Speaks HTTP/2 as an agent does, with windows that limit nothing.
pub(crate) async fn http2(tls: TlsStream<TcpStream>) -> Connection<TlsStream<TcpStream>, Bytes> {
    let mut builder = h2::server::Builder::new();
    let builder = builder
        .initial_window_size(1 << 30)
        .initial_connection_window_size(1 << 30);
    builder.handshake(tls).await.expect("HTTP/2")
}

/// Answers the introduction, and then each CONNECT as `act` does.
pub(crate) fn serve<F, A>(
    mut connection: Connection<TlsStream<TcpStream>, Bytes>,
    act: A,
) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
    A: Fn(h2::RecvStream, h2::server::SendResponse<Bytes>) -> F + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            if request.uri().path() == "/hello" {
                let answered = respond.send_response(Response::new(()), false);
                let mut send = answered.expect("an answer");
                send.send_data(ANSWER.into(), true).expect("a body");
                continue;
            }
            tokio::spawn(act(request.into_body(), respond));
        }
    })
}

#[tokio::test]
async fn agent_that_accepts_and_hangs_keeps_its_places_only() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let hanging = connection(&hub, "bad", replica.agents).await;
    let _serving = serve(hanging, |body, mut respond| async move {
        let sent = respond.send_response(Response::new(()), false);
        let _kept = (sent.expect("an answer"), body);
        std::future::pending().await
    });
    let _member = Member::start(&hub, "good", replica.agents, api().await).await;
    replica.connected("bad").await;
    replica.connected("good").await;
    let mut hung = connect(replica.front, "bad").await.expect("a stream");
    hung.write_all(b"hello").await.expect("it is written");
    echoing(replica.front, "good").await;
    drop(hung);
    eventually("its place is free", || replica.streams("bad") == 0).await;
}

#[tokio::test]
async fn agent_that_answers_no_connect_is_not_waited_for() {
    let hub = Hub::new();
    let answer = Duration::from_secs(1);
    let replica = Replica::start(&hub, Limits { answer, ..limits() }).await;
    let silent = connection(&hub, "bad", replica.agents).await;
    let _serving = serve(silent, |body, respond| async move {
        let _kept = (respond, body);
        std::future::pending().await
    });
    replica.connected("bad").await;
    let refused = timeout(SOON, connect(replica.front, "bad"))
        .await
        .expect("in time");
    let (status, reason) = refused.expect_err("no answer");
    assert_eq!(
        (status, reason.as_str()),
        (504, "its agent did not answer within 1s")
    );
    eventually("its place is free", || replica.streams("bad") == 0).await;
}

#[tokio::test]
async fn refusal_of_an_agent_is_quoted_within_bounds() {
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let refusing = connection(&hub, "bad", replica.agents).await;
    let _serving = serve(refusing, |_, mut respond| async move {
        let reason = http::HeaderValue::from_bytes(&[b"\xff".as_slice(), &[b'a'; 3000]].concat());
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::IM_A_TEAPOT;
        answer
            .headers_mut()
            .insert("x-causeway-reason", reason.expect("a value"));
        respond.send_response(answer, true).expect("an answer");
    });
    replica.connected("bad").await;
    let (status, reason) = connect(replica.front, "bad").await.expect_err("refused");
    assert_eq!(status, 502);
    assert!(
        reason.starts_with("its agent answered 418") && reason.len() < 400,
        "{reason}"
    );
}

#[tokio::test]
async fn agent_that_reads_nothing_is_closed() {
    let hub = Hub::new();
    let ping_answer = Duration::from_millis(500);
    let replica = Replica::start(
        &hub,
        Limits {
            ping_answer,
            ..limits()
        },
    )
    .await;
    let mut stopped = connection(&hub, "bad", replica.agents).await;
    let (_, mut respond) = stopped.accept().await.expect("a request").expect("hello");
    let mut send = respond
        .send_response(Response::new(()), false)
        .expect("an answer");
    send.send_data(ANSWER.into(), true).expect("a body");
    // Sends what it has, and then neither reads nor writes.
    timeout(Duration::from_millis(100), stopped.accept())
        .await
        .ok();
    eventually("it was connected", || !replica.shown("bad").is_null()).await;
    eventually("it is closed", || replica.connections("bad") == 0).await;
    assert_eq!(replica.failed("silent"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn endless_bytes_reach_only_their_client() {
    let hub = Hub::new();
    let held = 1024 * 1024;
    let replica = Replica::start(&hub, Limits { held, ..limits() }).await;
    let flooding = connection(&hub, "bad", replica.agents).await;
    let _serving = serve(flooding, |_, mut respond| async move {
        let sent = respond.send_response(Response::new(()), false);
        let mut send = sent.expect("an answer");
        // Small frames: each costs more than its content. The window alone would allow them.
        loop {
            send.reserve_capacity(100);
            let capacity = std::future::poll_fn(|context| send.poll_capacity(context)).await;
            let (Some(Ok(_)), Ok(())) = (
                capacity,
                send.send_data(Bytes::from_static(&[b'x'; 100]), false),
            ) else {
                return;
            };
            tokio::task::yield_now().await;
        }
    });
    let _member = Member::start(&hub, "good", replica.agents, api().await).await;
    replica.connected("bad").await;
    replica.connected("good").await;
    let unread = connect(replica.front, "bad").await.expect("a stream");
    let mut good = echoing(replica.front, "good").await;
    let full = "causeway_tunnel_streams_failed_total{reason=\"full\"}";
    eventually("the flood is ended", || {
        assert!(replica.shared.budget.used() <= held);
        replica.metric(full) + replica.failed("http") > 0
    })
    .await;
    echo(&mut good).await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_control_frames_leave_others_responsive() {
    // Length, type, flags, stream, content: PING, and SETTINGS with one setting.
    let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[1; 8]].concat();
    let settings = [&[0, 0, 6, 4, 0, 0, 0, 0, 0][..], &[0, 4, 0, 1, 0, 0]].concat();
    let hub = Hub::new();
    let replica = Replica::start(&hub, limits()).await;
    let _member = Member::start(&hub, "good", replica.agents, api().await).await;
    replica.connected("good").await;
    let mut good = echoing(replica.front, "good").await;
    for frame in [ping, settings] {
        let files = hub.files(&hub.member_leaf("bad"), SystemTime::now());
        let tls = handshake(files.path(), replica.agents)
            .await
            .expect("a connection");
        let (mut input, mut output) = tokio::io::split(tls);
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while matches!(input.read(&mut buffer).await, Ok(1..)) {}
        });
        let flood = tokio::spawn(async move {
            // Empty SETTINGS first, as HTTP/2 requires.
            output.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.ok();
            let many = frame.repeat(4096);
            while output.write_all(&many).await.is_ok() {}
        });
        for _ in 0..200 {
            echo(&mut good).await;
        }
        flood.abort();
        reading.abort();
    }
    assert_eq!(replica.connections("good"), 1);
}

#[tokio::test]
async fn agent_that_is_slow_to_introduce_itself_is_closed() {
    let hub = Hub::new();
    let answer = Duration::from_millis(300);
    let replica = Replica::start(&hub, Limits { answer, ..limits() }).await;
    let mut silent = connection(&hub, "bad", replica.agents).await;
    let _driving = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Some(Ok(request)) = silent.accept().await {
            kept.push(request);
        }
    });
    eventually("it is closed", || replica.failed("slow") == 1).await;
    assert_eq!(replica.connections("bad"), 0);
}

#[tokio::test]
async fn unfinished_handshakes_leave_room_for_agents() {
    let hub = Hub::new();
    let limits = Limits {
        handshakes: 4,
        handshake: Duration::from_millis(500),
        ..limits()
    };
    let replica = Replica::start(&hub, limits).await;
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(TcpStream::connect(replica.agents).await.expect("a socket"));
    }
    eventually("further ones are closed", || replica.failed("full") >= 4).await;
    let _member = Member::start(&hub, "good", replica.agents, api().await).await;
    replica.connected("good").await;
}
