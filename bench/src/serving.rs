//! HTTP server as bare as hyper makes it.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Answers requests until it is dropped, which ends all connections.
pub(crate) async fn serve<F, R>(listener: TcpListener, tls: Option<TlsAcceptor>, respond: F)
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(accepted(stream, tls.clone(), respond.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves a connection. The client may end it at any time.
async fn accepted<F, R>(stream: TcpStream, tls: Option<TlsAcceptor>, respond: F)
where
    F: Fn(Request<Incoming>) -> R,
    R: Future<Output = Answer>,
{
    stream.set_nodelay(true).ok();
    let service = service_fn(|request| respond(request).map(Ok::<_, Infallible>));
    let server = http1::Builder::new();
    if let Some(tls) = tls {
        if let Ok(stream) = tls.accept(stream).await {
            let served = server.serve_connection(TokioIo::new(stream), service);
            served.await.ok();
        }
    } else {
        let served = server.serve_connection(TokioIo::new(stream), service);
        served.await.ok();
    }
}

/// Returns an acceptor with that certificate and key, as PEM.
pub(crate) fn acceptor(certificate: &[u8], key: &[u8]) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
