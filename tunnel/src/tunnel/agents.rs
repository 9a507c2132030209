//! One connection of an agent, from its handshake to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use causeway::domain::ClusterName;
use causeway::process::supervise::with_causes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{Method, Request, StatusCode, Uri};
use k8s_openapi::jiff::Timestamp;
use rustls::server::Acceptor;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::enrolment::{Enrolment, Renewing};
use super::upgrade::{self, Socket};
use crate::enrolment::{ENROL_ALPN, RENEW_ALPN};
use crate::hello::{Answer, BODY_MAX, DRAIN, HELLO, HelloError};
use crate::identity::{Identity, IdentityError, Role, leaf};
use crate::keep_alive::{keep_alive, tracked};
use crate::limits::{HEADERS_MAX, Limits, RESET_KEPT, RESETS_KEPT, RESETS_MAX, SEND_BUFFER};
use crate::registry::{Agent, Origin, now};
use crate::splice::prepare;

/// Reason why a connection ended, or was refused.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error("not done in time")]
    Slow(#[from] Elapsed),
    #[error("handshake failed: {0}")]
    Handshake(#[from] std::io::Error),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("HTTP/2 failed: {0}")]
    Http(#[from] h2::Error),
    #[error("the answer to the introduction is not accepted: {0}")]
    Hello(#[from] HelloError),
    #[error("the agent answered {0} to the introduction")]
    Refused(StatusCode),
    #[error("the agent is connected to this replica already")]
    Duplicate,
    #[error("agents of this name have {0} connections, which is the maximum")]
    Full(u32),
    #[error("the agent did not answer a PING")]
    Silent,
}

impl AgentError {
    fn label(&self) -> &'static str {
        match self {
            Self::Slow(_) => "slow",
            Self::Handshake(_) => "handshake",
            Self::Identity(_) => "identity",
            Self::Http(_) => "http",
            Self::Hello(_) | Self::Refused(_) => "hello",
            Self::Duplicate => "duplicate",
            Self::Full(_) => "full",
            Self::Silent => "silent",
        }
    }
}

/// Places of a connection.
pub(super) struct Places {
    /// Among the agents.
    pub(super) place: OwnedSemaphorePermit,
    /// Among the handshakes.
    pub(super) handshake: OwnedSemaphorePermit,
}

/// A connection whose handshake is done, or has begun if it is to enrol.
enum Accepted {
    Agent(Proved),
    Enrols(StartHandshake<Socket>),
}

/// A member whose agent has proved who it is.
struct Proved {
    name: ClusterName,
    /// Id of the enrolment in its certificate.
    id: Option<String>,
    /// Whether the connection is to renew the certificate.
    renews: bool,
    tls: TlsStream<Socket>,
    /// End of its certificate.
    expires: Timestamp,
    /// Changes of the authorities since its handshake began.
    authorities: watch::Receiver<()>,
}

/// Serves an agent that dials this process, until the connection ends.
pub(super) async fn serve_dialled(
    tunnel: Arc<Inner>,
    socket: TcpStream,
    from: SocketAddr,
    places: Places,
    enrolment: Option<Arc<Enrolment>>,
) {
    match prepare(&socket) {
        Ok(()) => {
            let of = (Origin::Address(from), places);
            serve(tunnel, Either::Left(socket), of, enrolment).await;
        }
        Err(error) => tracing::debug!(peer = %from, %error, "agent not served"),
    }
}

/// Serves an agent that comes through the hub's API server, until the connection ends.
pub(super) async fn serve_upgraded(
    tunnel: Arc<Inner>,
    socket: TcpStream,
    from: SocketAddr,
    places: Places,
    enrolment: Option<Arc<Enrolment>>,
) {
    match upgrade::accept(socket, tunnel.shared.limits.handshake).await {
        Ok(socket) => {
            let of = (Origin::ApiServer, places);
            serve(tunnel, Either::Right(socket), of, enrolment).await;
        }
        Err(error) => {
            tunnel.shared.metrics.connection_failed(error.label());
            tracing::debug!(peer = %from, error = with_causes(&error), "upgrade refused");
        }
    }
}

/// Serves a connection until it ends.
async fn serve(
    tunnel: Arc<Inner>,
    socket: Socket,
    (from, places): (Origin, Places),
    enrolment: Option<Arc<Enrolment>>,
) {
    let metrics = &tunnel.shared.metrics;
    let limit = tunnel.shared.limits.handshake;
    // What is over leaves no room behind in the task of a connection that lasts for months.
    let proving = Box::pin(prove(&tunnel, socket, enrolment.is_some()));
    let accepted = timeout(limit, proving).await;
    let Places { place, handshake } = places;
    drop(handshake);
    let proved = match accepted.unwrap_or_else(|elapsed| Err(elapsed.into())) {
        Ok(Accepted::Agent(proved)) => proved,
        Ok(Accepted::Enrols(start)) => {
            drop(place);
            let place = tunnel.enrolments.clone().try_acquire_owned();
            match (enrolment, place) {
                (Some(enrolment), Ok(place)) => {
                    Box::pin(enrolment.enrol(&tunnel, start, from, place)).await;
                }
                _ => metrics.enrolment("full"),
            }
            return;
        }
        Err(error) => {
            metrics.connection_failed(error.label());
            tracing::debug!(peer = %from, error = with_causes(&error), "agent rejected");
            return;
        }
    };
    let name = proved.name.clone();
    let most = tunnel.shared.limits.connections_of_a_name();
    let Some(share) = tunnel.agents_of_names.take(&name, most) else {
        let error = AgentError::Full(most);
        metrics.connection_failed(error.label());
        tracing::debug!(cluster = %name, peer = %from, %error, "agent rejected");
        return;
    };
    if let (true, Some(enrolment)) = (proved.renews, enrolment) {
        let Proved { name, id, tls, .. } = proved;
        let renewing = Renewing { name, id, from };
        return Box::pin(enrolment.renew(&tunnel, tls, renewing)).await;
    }
    match Box::pin(connected(&tunnel, proved, from)).await {
        Ok(()) => tracing::info!(cluster = %name, peer = %from, "agent disconnected"),
        Err(AgentError::Duplicate) => metrics.connection_failed(AgentError::Duplicate.label()),
        Err(error) => {
            metrics.connection_failed(error.label());
            tracing::warn!(cluster = %name, peer = %from, error = with_causes(&error), "agent lost");
        }
    }
    drop((share, place));
}

async fn prove(tunnel: &Inner, socket: Socket, enrols: bool) -> Result<Accepted, AgentError> {
    let authorities = tunnel.credentials.authorities();
    let credentials = tunnel.credentials.current();
    let start = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
    let hello = start.client_hello();
    let is_to_enrol = hello
        .alpn()
        .is_some_and(|mut all| all.any(|one| one == ENROL_ALPN));
    if enrols && is_to_enrol {
        return Ok(Accepted::Enrols(start));
    }
    let tls = start.into_stream(credentials.config.clone()).await?;
    let (_, session) = tls.get_ref();
    let renews = session.alpn_protocol() == Some(RENEW_ALPN);
    let certificate = leaf(session.peer_certificates())?;
    let (identity, ends) = Identity::with_end(certificate)?;
    let id = Identity::enrolment(certificate);
    let expires = Timestamp::from_second(ends).unwrap_or(Timestamp::MAX);
    match identity.role {
        Role::Member(name) if identity.hub == credentials.own.hub => Ok(Accepted::Agent(Proved {
            name,
            id,
            renews,
            tls,
            expires,
            authorities,
        })),
        _ => Err(IdentityError::Foreign(identity, "a member of this hub").into()),
    }
}

/// Speaks HTTP/2 with an agent until either side ends the connection.
async fn connected(tunnel: &Arc<Inner>, proved: Proved, from: Origin) -> Result<(), AgentError> {
    let limits = &tunnel.shared.limits;
    let Proved {
        name,
        id,
        tls,
        expires,
        mut authorities,
        ..
    } = proved;
    let valid = expires.duration_since(Timestamp::now());
    let valid = Duration::try_from(valid).unwrap_or_default();
    let (tls, last_read) = tracked(tls);
    let handshake = http2(limits).handshake::<_, Bytes>(tls);
    let (requests, connection) = Box::pin(handshake).await?;
    let mut connection = Box::new(connection);
    let round_trip = Arc::new(AtomicU64::default());
    let silent = keep_alive(connection.ping_pong(), last_read, limits, |took| {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        round_trip.store(micros, Ordering::Relaxed);
    });
    let life = async {
        let answer = timeout(limits.answer, introduce(tunnel, requests.clone())).await??;
        let streams = usize::try_from(limits.streams).unwrap_or(Semaphore::MAX_PERMITS);
        let streams = Arc::new(Semaphore::new(streams));
        let replaced = CancellationToken::new();
        let version = answer.agent.clone();
        let agent = Agent {
            from,
            answer,
            since: now(),
            expires,
            renews: id.is_some(),
            requests: requests.clone(),
            streams: streams.clone(),
            round_trip: round_trip.clone(),
            replaced: replaced.clone(),
        };
        let registered = tunnel.registry.add(&name, agent, limits);
        tracing::info!(cluster = %name, peer = %from, version, "agent connected");
        let reason = drain_reason(tunnel, &replaced, valid, &mut authorities).await;
        tracing::info!(cluster = %name, peer = %from, reason, "draining agent");
        drop(registered);
        drain(requests.clone(), &streams, limits.streams, limits.drain).await;
        Ok(())
    };
    tokio::select! {
        // The agent has closed it.
        ended = connection => Ok(ended?),
        () = silent => Err(AgentError::Silent),
        ended = life => ended,
    }
}

/// Returns HTTP/2 as it is spoken with agents.
fn http2(limits: &Limits) -> h2::client::Builder {
    let mut http2 = h2::client::Builder::new();
    http2
        .enable_push(false)
        .initial_window_size(limits.window)
        .initial_connection_window_size(limits.connection_window())
        .max_header_list_size(HEADERS_MAX)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(RESETS_KEPT)
        .reset_stream_duration(RESET_KEPT)
        .max_local_error_reset_streams(Some(RESETS_MAX));
    http2
}

/// Waits until a connection is to be drained, and returns the reason.
async fn drain_reason(
    tunnel: &Inner,
    replaced: &CancellationToken,
    valid: Duration,
    authorities: &mut watch::Receiver<()>,
) -> &'static str {
    tokio::select! {
        () = tunnel.draining.cancelled() => "this replica ends",
        () = replaced.cancelled() => "newer connections take its place",
        () = sleep(valid) => "its certificate has expired",
        _ = authorities.changed() => "the authorities have changed",
    }
}

async fn introduce(tunnel: &Inner, requests: SendRequest<Bytes>) -> Result<Answer, AgentError> {
    let body = serde_json::to_vec(&tunnel.hello).map_err(HelloError::Json)?;
    let (status, mut answer) = post(requests, HELLO, body.into()).await?;
    match status {
        StatusCode::OK => {}
        StatusCode::CONFLICT => return Err(AgentError::Duplicate),
        other => return Err(AgentError::Refused(other)),
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = answer.data().await {
        let chunk = chunk?;
        if body.len() + chunk.len() > BODY_MAX {
            return Err(HelloError::TooLong.into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer::parse(&body)?)
}

async fn post(
    requests: SendRequest<Bytes>,
    path: &'static str,
    body: Bytes,
) -> Result<(StatusCode, RecvStream), h2::Error> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    // HTTP/2 requires a scheme and an authority.
    *request.uri_mut() = Uri::from_static(match path {
        HELLO => "https://agent/hello",
        _ => "https://agent/drain",
    });
    let mut requests = requests.ready().await?;
    let (answer, mut send) = requests.send_request(request, false)?;
    send.send_data(body, true)?;
    let answer = answer.await?;
    Ok((answer.status(), answer.into_body()))
}

/// Sends the agent elsewhere, and waits until its streams have ended, for `limit`.
async fn drain(requests: SendRequest<Bytes>, streams: &Semaphore, all: u32, limit: Duration) {
    let ended = async {
        if let Err(error) = post(requests, DRAIN, Bytes::new()).await {
            tracing::debug!(%error, "notice of the drain not delivered");
        }
        // Never closed.
        streams.acquire_many(all).await.is_ok()
    };
    if timeout(limit, ended).await.is_err() {
        tracing::info!("streams cut at the end of the drain");
    }
}
