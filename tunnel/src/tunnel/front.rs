//! The fronts: CONNECT of HTTP/1.1 for clients, with and without authentication.

use std::sync::Arc;

use causeway::domain::ClusterName;
use http::header::{ALLOW, PROXY_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::Inner;
use super::shares::Share;
use crate::hello::REASON;
use crate::limits::{READ, REQUEST_HEAD_MAX};
use crate::member;
use crate::passwords::{Admission, PASSWORD_MIN, PasswordFile};
use crate::registry::{Destination, Opened};
use crate::serving::Serving;
use crate::splice::{prepare, splice};
use crate::tokens::AGENT_HOST;

/// Configuration of the authenticated front. Clones share it.
#[derive(Clone)]
pub struct AuthenticatedFront {
    /// Passwords of clients.
    pub passwords: Arc<PasswordFile>,
    /// Its certificate; `None` for clients without TLS.
    pub certificate: Option<Arc<Serving>>,
}

/// A connection of a client.
pub(super) struct Client {
    /// Place among the clients of its front.
    #[expect(dead_code, reason = "it is occupied until the connection ends")]
    pub(super) place: OwnedSemaphorePermit,
    /// Passwords, one of which the client has to give.
    pub(super) passwords: Option<Arc<PasswordFile>>,
}

/// Admission of a client that gave a password.
struct Admitted {
    passwords: Arc<PasswordFile>,
    admission: Admission,
    share: Share,
}

/// Clients without a valid password are more than may wait for a refusal.
#[derive(Debug, thiserror::Error)]
#[error("too many refusals")]
struct TooManyRefusals;

/// Serves a client of the authenticated front, whose handshake comes first.
pub(super) async fn serve_authenticated(
    tunnel: Arc<Inner>,
    socket: TcpStream,
    front: AuthenticatedFront,
    place: OwnedSemaphorePermit,
    handshake: OwnedSemaphorePermit,
) {
    let client = Client {
        place,
        passwords: Some(front.passwords),
    };
    let Some(certificate) = front.certificate else {
        drop(handshake);
        return serve_plain(tunnel, socket, client).await;
    };
    if let Err(error) = prepare(&socket) {
        tracing::debug!(%error, "client not served");
        return;
    }
    let acceptor = TlsAcceptor::from(certificate.current());
    let accepted = timeout(tunnel.shared.limits.handshake, acceptor.accept(socket)).await;
    drop(handshake);
    match accepted {
        Ok(Ok(mut tls)) => {
            // Encrypted bytes that a slow client does not take are held beside those that are
            // counted.
            tls.get_mut().1.set_buffer_limit(Some(READ));
            serve(tunnel, tls, client).await;
        }
        Ok(Err(_)) => tunnel.shared.metrics.client_refused("handshake"),
        Err(_) => tunnel.shared.metrics.client_refused("slow"),
    }
}

/// Serves a client without TLS.
pub(super) async fn serve_plain(tunnel: Arc<Inner>, socket: TcpStream, client: Client) {
    match prepare(&socket) {
        Ok(()) => serve(tunnel, socket, client).await,
        Err(error) => tracing::debug!(%error, "client not served"),
    }
}

/// Serves a client: one CONNECT, and the stream after it.
async fn serve<S>(tunnel: Arc<Inner>, socket: S, client: Client)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = Arc::new(client);
    let service = service_fn(|request| {
        let (tunnel, client) = (tunnel.clone(), client.clone());
        async move { answer::<S>(&tunnel, request, client).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(tunnel.shared.limits.handshake)
        .max_buf_size(REQUEST_HEAD_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "client connection failed");
        if client.passwords.is_some() {
            let metrics = &tunnel.shared.metrics;
            match (error.is_timeout(), error.is_parse()) {
                (true, _) => metrics.client_refused("slow"),
                (_, true) => metrics.client_refused("malformed"),
                _ => {}
            }
        }
    }
}

async fn answer<S>(
    tunnel: &Arc<Inner>,
    request: Request<Incoming>,
    client: Arc<Client>,
) -> Result<Response<String>, TooManyRefusals>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if request.method() != Method::CONNECT {
        let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "only CONNECT is served");
        let allow = HeaderValue::from_static("CONNECT");
        answer.headers_mut().insert(ALLOW, allow);
        return Ok(answer);
    }
    let credentials = member::credentials(request.headers());
    let (name, admitted) = match (&client.passwords, credentials) {
        (None, Some(credentials)) => (credentials.member, None),
        (None, None) => {
            let reason = "name the member as the user: http://MEMBER@HOST:PORT";
            return Ok(unauthenticated(reason, "Basic realm=\"member\""));
        }
        (Some(passwords), credentials) => {
            let admission = credentials.and_then(|credentials| passwords.admit(credentials));
            let Some(admission) = admission else {
                return refuse_password(tunnel).await;
            };
            let name = admission.member.clone();
            let most = tunnel.shared.limits.authenticated_streams;
            let Some(share) = tunnel.shares.take(&name, most) else {
                tunnel.shared.metrics.client_refused("busy");
                let reason = format!("clients have {most} streams open to it, the maximum");
                return Ok(refused(StatusCode::SERVICE_UNAVAILABLE, &reason));
            };
            let passwords = passwords.clone();
            let admitted = Admitted {
                passwords,
                admission,
                share,
            };
            (name, Some(admitted))
        }
    };
    Ok(open::<S>(tunnel, request, (name, admitted), client).await)
}

/// Opens the stream that a client asks for, and joins it to the client.
async fn open<S>(
    tunnel: &Arc<Inner>,
    mut request: Request<Incoming>,
    (name, admitted): (ClusterName, Option<Admitted>),
    client: Arc<Client>,
) -> Response<String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let host = request.uri().authority();
    let destination = match host.is_some_and(|host| host == AGENT_HOST) && admitted.is_none() {
        true => Destination::Agent,
        false => Destination::ApiServer,
    };
    let opened = tunnel
        .registry
        .open(&name, destination, &tunnel.shared.limits);
    match opened.await {
        Ok(opened) => {
            let upgrade = hyper::upgrade::on(&mut request);
            let joined = Joined {
                name,
                opened,
                admitted,
                client,
            };
            tunnel.spawn(join::<S>(tunnel.clone(), upgrade, joined));
            Response::new(String::new())
        }
        Err(refusal) => {
            tunnel.shared.metrics.stream_failed(refusal.label());
            let reason = refusal.to_string();
            tracing::debug!(cluster = %name, reason, "stream refused");
            refused(refusal.status(), &reason)
        }
    }
}

/// Refuses a client without a valid password, after a pause. Nothing that it sent is logged.
async fn refuse_password(tunnel: &Inner) -> Result<Response<String>, TooManyRefusals> {
    tunnel.shared.metrics.client_refused("password");
    let place = tunnel.refusals.try_acquire().map_err(|_| TooManyRefusals)?;
    sleep(tunnel.shared.limits.refusal).await;
    drop(place);
    let reason = format!(
        "give the member as the user, and one of its passwords, of {PASSWORD_MIN} bytes or more"
    );
    Ok(unauthenticated(&reason, "Basic realm=\"causeway-tunnel\""))
}

fn unauthenticated(reason: &str, challenge: &'static str) -> Response<String> {
    let mut answer = refused(StatusCode::PROXY_AUTHENTICATION_REQUIRED, reason);
    let challenge = HeaderValue::from_static(challenge);
    answer.headers_mut().insert(PROXY_AUTHENTICATE, challenge);
    answer
}

fn refused(status: StatusCode, reason: &str) -> Response<String> {
    let mut answer = Response::new(format!("{reason}\n"));
    *answer.status_mut() = status;
    if let Ok(reason) = HeaderValue::from_str(reason) {
        answer.headers_mut().insert(REASON, reason);
    }
    answer
}

/// A client, and the stream that it is given.
struct Joined {
    name: ClusterName,
    opened: Opened,
    admitted: Option<Admitted>,
    client: Arc<Client>,
}

async fn join<S>(tunnel: Arc<Inner>, upgrade: OnUpgrade, joined: Joined)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Joined {
        name,
        opened,
        admitted,
        client,
    } = joined;
    let Opened { stream, place } = opened;
    let socket = upgrade.await.map(Upgraded::downcast::<TokioIo<S>>);
    let Ok(Ok(parts)) = socket else {
        tracing::debug!(cluster = %name, "client gone before its stream began");
        return;
    };
    let (input, output) = split(parts.io.into_inner());
    let spliced = splice(input, output, parts.read_buf, stream, &tunnel.shared);
    let revoked = async {
        match &admitted {
            Some(admitted) => admitted.passwords.revoked(&admitted.admission).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = spliced => {
            if let Err(error) = ended {
                tracing::debug!(cluster = %name, %error, "stream reset");
            }
        }
        () = revoked => {
            tunnel.shared.metrics.client_refused("revoked");
            tracing::info!(cluster = %name, "stream closed, its password was removed");
        }
    }
    let share = admitted.map(|admitted| admitted.share);
    drop((share, place, client));
}
