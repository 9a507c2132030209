//! The request that becomes the connection of an agent, as the hub's API server passes it on.
//!
//! The Service proxy of the API server removes `Authorization` and authenticates no agent to this
//! process. TLS inside does.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use http::header::{ALLOW, CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_util::either::Either;

use crate::hello;
use crate::limits::REQUEST_HEAD_MAX;
use crate::splice::prepare;

/// Connection that TLS of an agent runs in: dialled, or upgraded.
pub(super) type Socket = Either<TcpStream, TokioIo<Upgraded>>;

/// Reason why a connection was not upgraded.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpgradeError {
    #[error("not done in time")]
    Slow(#[from] Elapsed),
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    #[error("HTTP/1.1 failed")]
    Http(#[from] hyper::Error),
    #[error("the client asked for something else")]
    Refused,
}

impl UpgradeError {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Slow(_) => "slow",
            Self::Socket(_) | Self::Http(_) | Self::Refused => "upgrade",
        }
    }
}

/// Serves a connection until a request becomes the connection of an agent, for `limit`.
pub(super) async fn accept(
    socket: TcpStream,
    limit: Duration,
) -> Result<TokioIo<Upgraded>, UpgradeError> {
    prepare(&socket)?;
    let upgrade = Mutex::new(None);
    let service = service_fn(|request| {
        let answer = answer(request, &upgrade);
        async { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .max_buf_size(REQUEST_HEAD_MAX)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    timeout(limit, served).await??;
    let upgrade = upgrade.lock().take().ok_or(UpgradeError::Refused)?;
    Ok(TokioIo::new(upgrade.await?))
}

fn answer(mut request: Request<Incoming>, upgrade: &Mutex<Option<OnUpgrade>>) -> Response<String> {
    if request.uri().path() != hello::UPGRADE_PATH {
        let only = format!("only {} is served", hello::UPGRADE_PATH);
        return refused(StatusCode::NOT_FOUND, &only);
    }
    if request.method() != Method::GET {
        let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is served");
        let allow = HeaderValue::from_static("GET");
        answer.headers_mut().insert(ALLOW, allow);
        return answer;
    }
    let protocol = request.headers().get(UPGRADE);
    if protocol.is_none_or(|protocol| protocol != hello::UPGRADE) {
        let only = format!("only an upgrade to {} is served", hello::UPGRADE);
        return upgrading(refused(StatusCode::UPGRADE_REQUIRED, &only));
    }
    if !request.body().is_end_stream() {
        return refused(StatusCode::BAD_REQUEST, "the request has a body");
    }
    *upgrade.lock() = Some(hyper::upgrade::on(&mut request));
    let mut answer = Response::new(String::new());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    upgrading(answer)
}

/// Adds the headers that name the protocol.
fn upgrading(mut answer: Response<String>) -> Response<String> {
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(hello::UPGRADE));
    answer
}

fn refused(status: StatusCode, reason: &str) -> Response<String> {
    let mut answer = Response::new(format!("{reason}\n"));
    *answer.status_mut() = status;
    answer
}
