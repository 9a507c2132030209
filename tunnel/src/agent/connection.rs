//! One connection to a replica of causeway-tunnel: the agent is the server of HTTP/2, and answers.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use causeway::process::supervise::with_causes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::io::{duplex, split};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::client::TlsStream;

use super::Inner;
use super::dial::Socket;
use super::servers::Connected;
use crate::hello::{
    AGENT, API, Answer, BODY_MAX, DRAIN, HELLO, Hello, HelloError, REASON, printable,
};
use crate::keep_alive::{keep_alive, tracked};
use crate::limits::{HEADERS_MAX, Limits, READ, RESET_KEPT, RESETS_KEPT, RESETS_MAX, SEND_BUFFER};
use crate::splice::{Stream, prepare, splice};

/// Reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("HTTP/2 failed: {0}")]
    Http(#[from] h2::Error),
    #[error("causeway-tunnel did not introduce itself in time")]
    NotIntroduced,
    #[error("causeway-tunnel did not answer a PING")]
    Silent,
    #[error("streams were cut at the end of the drain")]
    Cut,
}

impl ConnectionError {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::NotIntroduced => "hello",
            Self::Silent => "silent",
            Self::Cut => "cut",
        }
    }
}

/// State of a connection that its streams share.
struct Link {
    agent: Arc<Inner>,
    /// Taken by the introduction: true unless the replica is connected already.
    introduced: Mutex<Option<oneshot::Sender<bool>>>,
    server: Mutex<Option<Connected>>,
}

/// Returns HTTP/2 as it is spoken with causeway-tunnel.
fn http2(limits: &Limits) -> h2::server::Builder {
    let mut http2 = h2::server::Builder::new();
    http2
        .initial_window_size(limits.window)
        .initial_connection_window_size(limits.connection_window())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(HEADERS_MAX)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(RESETS_KEPT)
        .reset_stream_duration(RESET_KEPT)
        .max_local_error_reset_streams(Some(RESETS_MAX))
        // Clients may give up streams that wait here to be accepted.
        .max_pending_accept_reset_streams(RESETS_KEPT);
    http2
}

/// Serves a connection until it ends. Sends whether it is kept once causeway-tunnel has introduced
/// itself. Another takes its place once `certificate` changes.
pub(super) async fn serve(
    agent: Arc<Inner>,
    tls: TlsStream<Socket>,
    mut certificate: watch::Receiver<()>,
    introduced: oneshot::Sender<bool>,
) -> Result<(), ConnectionError> {
    let limits = agent.shared.limits.clone();
    let ending = agent.ending.clone();
    let (tls, last_read) = tracked(tls);
    let handshake = http2(&limits).handshake::<_, Bytes>(tls);
    let handshake = timeout(limits.handshake, handshake).await;
    let mut connection = handshake.map_err(|_| ConnectionError::NotIntroduced)??;
    let silent = keep_alive(connection.ping_pong(), last_read, &limits, |_| {});
    let mut silent = std::pin::pin!(silent);
    let link = Arc::new(Link {
        agent,
        introduced: Mutex::new(Some(introduced)),
        server: Mutex::default(),
    });
    let mut streams = JoinSet::new();
    let mut deadline = Instant::now() + limits.answer;
    let mut is_ending = false;
    loop {
        let is_timed = is_ending || link.introduced.lock().is_some();
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    streams.spawn(link.clone().serve(request, respond));
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            Some(_) = streams.join_next() => {}
            () = &mut silent => return Err(ConnectionError::Silent),
            () = sleep_until(deadline), if is_timed => return Err(match is_ending {
                true => ConnectionError::Cut,
                false => ConnectionError::NotIntroduced,
            }),
            () = ending.cancelled(), if !is_ending => {
                is_ending = true;
                deadline = Instant::now() + limits.drain;
                connection.graceful_shutdown();
            }
            // The tunnel knows a connection by the certificate that it began with. Its streams end
            // by themselves.
            Ok(()) = certificate.changed(), if !is_timed => {
                if let Some(server) = &*link.server.lock() {
                    server.closes();
                }
                connection.graceful_shutdown();
            }
        }
    }
}

impl Link {
    async fn serve(self: Arc<Self>, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let tasks = self.agent.tasks.clone();
        let served = tasks.catch_panic("stream", self.answer(request, respond));
        if let Ok(Err(error)) = served.await {
            tracing::debug!(%error, "stream failed");
        }
    }

    async fn answer(
        &self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let (head, body) = request.into_parts();
        match (&head.method, head.uri.path()) {
            (&Method::CONNECT, _) if head.uri.authority().is_some_and(|to| to == API) => {
                self.join(body, respond).await
            }
            (&Method::CONNECT, _) if head.uri.authority().is_some_and(|to| to == AGENT) => {
                self.give_credentials(body, respond).await
            }
            (&Method::POST, HELLO) => self.introduced(body, respond).await,
            (&Method::POST, DRAIN) => {
                if let Some(server) = &*self.server.lock() {
                    server.drains();
                }
                respond.send_response(Response::new(()), true).map(drop)
            }
            _ => refuse(respond, StatusCode::FORBIDDEN, "not served"),
        }
    }

    async fn introduced(
        &self,
        body: RecvStream,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let hello = match read(body).await? {
            Ok(hello) => hello,
            Err(error) => {
                tracing::warn!(%error, "introduction of causeway-tunnel not accepted");
                return refuse(respond, StatusCode::BAD_REQUEST, &error.to_string());
            }
        };
        let Some(introduced) = self.introduced.lock().take() else {
            return refuse(respond, StatusCode::FORBIDDEN, "introduced already");
        };
        let connected = self.agent.servers.add(&hello);
        let is_new = connected.is_some();
        *self.server.lock() = connected;
        if introduced.send(is_new).is_err() {
            tracing::debug!("the agent ends");
        }
        if !is_new {
            return refuse(respond, StatusCode::CONFLICT, "connected already");
        }
        let Hello {
            server, replicas, ..
        } = hello;
        tracing::info!(server, replicas, "connected to causeway-tunnel");
        let answer = Answer {
            agent: env!("CARGO_PKG_VERSION").to_owned(),
            api: self.agent.peers.api.clone(),
        };
        let Ok(answer) = serde_json::to_vec(&answer) else {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        };
        let mut send = respond.send_response(Response::new(()), false)?;
        send.send_data(answer.into(), true)
    }

    /// Gives the controller credentials of the member, inside TLS of both.
    async fn give_credentials(
        &self,
        receive: RecvStream,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let Some(issuer) = &self.agent.peers.tokens else {
            let reason = "it gives no credentials: start it with --token-account";
            return refuse(respond, StatusCode::NOT_IMPLEMENTED, reason);
        };
        let Some(place) = issuer.place() else {
            let reason = "other requests for credentials are not answered yet";
            return refuse(respond, StatusCode::SERVICE_UNAVAILABLE, reason);
        };
        let shared = &self.agent.shared;
        let send = respond.send_response(Response::new(()), false)?;
        let stream = Stream { send, receive };
        let (near, far) = duplex(READ);
        let (input, output) = split(far);
        let own = self.agent.credentials.current();
        let served = async {
            issuer.serve(near, &own, shared.limits.credentials).await;
            drop(place);
        };
        let spliced = splice(input, output, Bytes::new(), stream, shared);
        if let ((), Err(error)) = tokio::join!(served, spliced) {
            tracing::debug!(%error, "stream reset");
        }
        Ok(())
    }

    /// Joins a stream to the API server.
    async fn join(
        &self,
        receive: RecvStream,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let shared = &self.agent.shared;
        let socket = async {
            let socket = TcpStream::connect(&self.agent.peers.api).await?;
            prepare(&socket)?;
            Ok::<_, std::io::Error>(socket)
        };
        let failed = match timeout(shared.limits.dial, socket).await {
            Ok(Ok(mut socket)) => {
                let send = respond.send_response(Response::new(()), false)?;
                let stream = Stream { send, receive };
                let (input, output) = socket.split();
                if let Err(error) = splice(input, output, Bytes::new(), stream, shared).await {
                    tracing::debug!(%error, "stream reset");
                }
                return Ok(());
            }
            Ok(Err(error)) => with_causes(&error),
            Err(_) => format!("no connection within {}s", shared.limits.dial.as_secs()),
        };
        shared.metrics.stream_failed("dial");
        let api = &self.agent.peers.api;
        let reason = format!("the API server {api} cannot be reached: {failed}");
        tracing::warn!(api, error = failed, "API server not reached");
        refuse(respond, StatusCode::BAD_GATEWAY, &reason)
    }
}

async fn read(mut body: RecvStream) -> Result<Result<Hello, HelloError>, h2::Error> {
    let mut read = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        if read.len() + chunk.len() > BODY_MAX {
            return Ok(Err(HelloError::TooLong));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(Hello::parse(&read))
}

fn refuse(
    mut respond: SendResponse<Bytes>,
    status: StatusCode,
    reason: &str,
) -> Result<(), h2::Error> {
    let mut answer = Response::new(());
    *answer.status_mut() = status;
    if let Ok(reason) = HeaderValue::from_str(&printable(reason)) {
        answer.headers_mut().insert(REASON, reason);
    }
    respond.send_response(answer, true).map(drop)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    /// Types of frames, and flags (RFC 9113, section 6).
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    const ACK: u8 = 1;
    const END_HEADERS: u8 = 4;
    const CANCEL: [u8; 4] = [0, 0, 0, 8];

    fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("a short frame");
        let stream = stream.to_be_bytes();
        [&[0, 0, length, kind, flags][..], &stream, content].concat()
    }

    /// Encodes the headers of CONNECT without compression (RFC 7541, section 6.2.2): names by their
    /// indices, values as they are.
    fn connect_headers() -> Vec<u8> {
        let fields = [(2, "CONNECT"), (1, API)].map(|(name, value)| {
            let length = u8::try_from(value.len()).expect("a short value");
            [&[name, length][..], value.as_bytes()].concat()
        });
        fields.concat()
    }

    #[tokio::test]
    async fn many_aborted_streams_in_one_read_leave_the_connection() {
        let mut sent = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        for stream in (1..128).step_by(2) {
            sent.extend(frame(HEADERS, END_HEADERS, stream, &connect_headers()));
            sent.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        }
        sent.extend(frame(PING, 0, 0, &[7; 8]));
        let (near, mut far) = duplex(1 << 16);
        far.write_all(&sent).await.expect("room");
        let handshake = http2(&Limits::default()).handshake::<_, Bytes>(near).await;
        let mut connection = handshake.expect("HTTP/2");
        let mut accepted = 0;
        let accepting = async {
            while let Some(stream) = connection.accept().await {
                drop(stream.expect("a stream"));
                accepted += 1;
            }
        };
        let answered = async {
            loop {
                let mut head = [0; 9];
                far.read_exact(&mut head).await.expect("a frame");
                let [_, high, low, kind, flags, ..] = head;
                let mut content = vec![0; usize::from(u16::from_be_bytes([high, low]))];
                far.read_exact(&mut content).await.expect("its content");
                assert_ne!(kind, GOAWAY, "{content:?}");
                if (kind, flags) == (PING, ACK) {
                    return;
                }
            }
        };
        tokio::select! {
            () = accepting => panic!("the connection ended"),
            () = answered => {}
        }
        assert_eq!(accepted, 64);
    }
}
