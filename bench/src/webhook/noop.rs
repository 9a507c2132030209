//! The floor: a TLS server of the webhook's own stack that reads a request and answers 200, no more.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// The path, followed by a number: that many bytes are the answer.
pub(crate) const FIXED: &str = "/fixed/";
/// The path where every object is admitted.
pub(crate) const ADMIT: &str = "/admit";
/// The path that says how many objects were admitted.
pub(crate) const ADMITTED: &str = "/admitted";

const LONGEST: usize = 64 * 1024;
static ANSWER: [u8; LONGEST] = [b'x'; LONGEST];
static COUNT: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it serves, over TLS
    #[arg(long)]
    bind: SocketAddr,
    /// The directory of tls.crt and tls.key
    #[arg(long)]
    tls_dir: PathBuf,
}

/// Serves until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Args) -> anyhow::Result<()> {
    let tls = TlsAcceptor::from(Arc::new(server_config(&args.tls_dir)?));
    let listener = TcpListener::bind(args.bind)
        .await
        .with_context(|| format!("cannot listen on {}", args.bind))?;
    tokio::spawn(accept(listener, tls)).await?
}

async fn accept(listener: TcpListener, tls: TlsAcceptor) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let tls = tls.clone();
        tokio::spawn(async move {
            if let Err(error) = connection(stream, tls).await {
                eprintln!("connection ended: {error}");
            }
        });
    }
}

async fn connection(stream: TcpStream, tls: TlsAcceptor) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let stream = tls.accept(stream).await?;
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(respond))
        .await?;
    Ok(())
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let answer = match path.strip_prefix(FIXED).map(str::parse::<usize>) {
        Some(Ok(length)) if length <= LONGEST => {
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.frame().await {}
            Bytes::from_static(&ANSWER[..length])
        }
        _ if path == ADMIT => admit(request).await,
        _ if path == ADMITTED => COUNT.load(Ordering::Relaxed).to_string().into(),
        _ => {
            let mut response = Response::new(Full::default());
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok(response);
        }
    };
    let mut response = Response::new(Full::new(answer));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

/// An API server takes only an answer that bears the uid of its request: the first one that the body names.
async fn admit(request: Request<Incoming>) -> Bytes {
    let body = match request.into_body().collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(_) => return Bytes::new(),
    };
    COUNT.fetch_add(1, Ordering::Relaxed);
    let uid = first_uid(&body).unwrap_or_default();
    let answer = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true}}}}"#
    );
    answer.into()
}

fn first_uid(body: &[u8]) -> Option<&str> {
    const BEFORE: &[u8] = br#""uid":""#;
    let start = body
        .windows(BEFORE.len())
        .position(|window| window == BEFORE)?
        + BEFORE.len();
    let length = body[start..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&body[start..start + length]).ok()
}

fn server_config(directory: &Path) -> anyhow::Result<ServerConfig> {
    let certificate = directory.join("tls.crt");
    let chain: Vec<_> = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read {}", certificate.display()))?;
    let key = directory.join("tls.key");
    let key = PrivateKeyDer::from_pem_file(&key)
        .with_context(|| format!("cannot read {}", key.display()))?;
    Ok(ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uid_is_the_first_one() {
        let body = br#"{"kind":"AdmissionReview","request":{"uid":"a-1","object":{"uid":"b"}}}"#;
        assert_eq!(first_uid(body), Some("a-1"));
        assert_eq!(first_uid(b"{}"), None);
        assert_eq!(first_uid(br#"{"uid":"a"#), None);
    }
}
