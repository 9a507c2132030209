//! The front: CONNECT of HTTP/1.1 for clients on the hub.

use std::convert::Infallible;
use std::sync::Arc;

use causeway::domain::ClusterName;
use http::header::{ALLOW, PROXY_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::Inner;
use crate::hello::REASON;
use crate::member;
use crate::registry::Opened;
use crate::splice::{prepare, splice};

/// Maximum size of the head of a request, in bytes.
const HEAD_MAX: usize = 16 * 1024;

/// Serves a client: one CONNECT, and the stream after it.
pub(super) async fn serve(tunnel: Arc<Inner>, socket: TcpStream, place: OwnedSemaphorePermit) {
    if let Err(error) = prepare(&socket) {
        tracing::debug!(%error, "client not served");
        return;
    }
    let place = Arc::new(place);
    let service = service_fn(|request| {
        let (tunnel, place) = (tunnel.clone(), place.clone());
        async move { Ok::<_, Infallible>(answer(&tunnel, request, place).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(tunnel.shared.limits.handshake)
        .max_buf_size(HEAD_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "client connection failed");
    }
}

async fn answer(
    tunnel: &Arc<Inner>,
    mut request: Request<Incoming>,
    place: Arc<OwnedSemaphorePermit>,
) -> Response<String> {
    if request.method() != Method::CONNECT {
        let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "only CONNECT is served");
        let allow = HeaderValue::from_static("CONNECT");
        answer.headers_mut().insert(ALLOW, allow);
        return answer;
    }
    let Some(name) = member::named(request.headers()) else {
        let reason = "name the member as the user: http://MEMBER@HOST:PORT";
        let mut answer = refused(StatusCode::PROXY_AUTHENTICATION_REQUIRED, reason);
        let basic = HeaderValue::from_static("Basic realm=\"member\"");
        answer.headers_mut().insert(PROXY_AUTHENTICATE, basic);
        return answer;
    };
    match tunnel.registry.open(&name, &tunnel.shared.limits).await {
        Ok(opened) => {
            let upgrade = hyper::upgrade::on(&mut request);
            tunnel.spawn(join(tunnel.clone(), name, upgrade, opened, place));
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

fn refused(status: StatusCode, reason: &str) -> Response<String> {
    let mut answer = Response::new(format!("{reason}\n"));
    *answer.status_mut() = status;
    if let Ok(reason) = HeaderValue::from_str(reason) {
        answer.headers_mut().insert(REASON, reason);
    }
    answer
}

async fn join(
    tunnel: Arc<Inner>,
    name: ClusterName,
    upgrade: OnUpgrade,
    opened: Opened,
    client: Arc<OwnedSemaphorePermit>,
) {
    let Opened { stream, place } = opened;
    let socket = upgrade.await.map(Upgraded::downcast::<TokioIo<TcpStream>>);
    let Ok(Ok(parts)) = socket else {
        tracing::debug!(cluster = %name, "client gone before its stream began");
        return;
    };
    let (socket, early) = (parts.io.into_inner(), parts.read_buf);
    if let Err(error) = splice(socket, early, stream, &tunnel.shared).await {
        tracing::debug!(cluster = %name, %error, "stream reset");
    }
    drop((place, client));
}
