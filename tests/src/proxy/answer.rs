//! Answers of a proxy: those of the API server, or faults.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::lookups::Lookups;
use super::{Fault, old};
use crate::cluster::Cluster;
use crate::kubeconfig::der;

pub(super) type Body = BoxBody<Bytes, io::Error>;

/// The API server behind a proxy.
pub(super) struct Upstream {
    authority: String,
    tls: TlsConnector,
    pub(super) lookups: Lookups,
    /// Bytes of answers about EndpointSlices.
    pub(super) slice_bytes: Arc<AtomicU64>,
}

impl Upstream {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from(der(cluster.ca_pem()));
        roots.add(root).expect("the authority of a cluster");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let authority = cluster.url().trim_start_matches("https://").to_owned();
        Self {
            authority,
            tls: TlsConnector::from(Arc::new(config)),
            lookups: Lookups::default(),
            slice_bytes: Arc::default(),
        }
    }

    /// # Errors
    /// Where the connection is to break off.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        fault: Fault,
    ) -> io::Result<Response<Body>> {
        let is_read = request.method() == Method::GET;
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|pair| pair.starts_with("watch="));
        let request = match fault {
            Fault::Forgetful | Fault::Restored => without_protobuf(request),
            _ => request,
        };
        match fault {
            Fault::Reset | Fault::Refused => Err(io::ErrorKind::ConnectionReset.into()),
            Fault::Answers(code) => Ok(status(code)),
            Fault::NotFound => Ok(page(StatusCode::NOT_FOUND)),
            Fault::Forgetful | Fault::Restored | Fault::Expired if watches => Ok(status(410)),
            Fault::Forgetful if is_read => empty(self.forward(request).await?, None).await,
            Fault::Restored if is_read => empty(self.forward(request).await?, Some("2")).await,
            Fault::Kubernetes121 if request.uri().path() == "/version" => {
                edited(self.forward(request).await?, old::name).await
            }
            // What it drops can be seen in JSON alone.
            Fault::Kubernetes121 if is_protobuf(&request) => Ok(status(415)),
            Fault::Kubernetes121 if !is_read => {
                self.forward(old::without_gated(request).await?).await
            }
            Fault::Backdates if request.uri().path().contains("/serviceexports") => {
                let (head, body) = self.forward(request).await?.into_parts();
                let body = StreamBody::new(BodyStream::new(body).map(backdated));
                Ok(Response::from_parts(head, BodyExt::boxed(body)))
            }
            Fault::Torn => {
                let (head, body) = self.forward(request).await?.into_parts();
                let broken = stream::once(async { Err(io::ErrorKind::ConnectionAborted.into()) });
                let first = BodyStream::new(body).take(1).map(halved);
                let body = StreamBody::new(first.chain(broken));
                Ok(Response::from_parts(head, BodyExt::boxed(body)))
            }
            _ => self.forward(request).await,
        }
    }

    async fn forward<B>(&self, request: Request<B>) -> io::Result<Response<Body>>
    where
        B: hyper::body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
    {
        let stream = TcpStream::connect(&self.authority).await?;
        let (host, _) = self.authority.rsplit_once(':').unwrap_or_default();
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.tls.connect(name, stream).await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let counts = request.uri().path().ends_with("/endpointslices");
        let response = sender.send_request(request).await;
        let (head, body) = response.map_err(io::Error::other)?.into_parts();
        let slice_bytes = self.slice_bytes.clone();
        let body = body.map_err(io::Error::other).map_frame(move |frame| {
            let bytes = frame.data_ref().filter(|_| counts).map_or(0, Bytes::len);
            slice_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            frame
        });
        Ok(Response::from_parts(head, BodyExt::boxed(body)))
    }
}

fn halved(frame: io::Result<Frame<Bytes>>) -> io::Result<Frame<Bytes>> {
    Ok(frame?.map_data(|data| data.slice(..data.len() / 2)))
}

/// An answer or an event of a watch, which come whole; what it says is as long as before.
fn backdated(frame: io::Result<Frame<Bytes>>) -> io::Result<Frame<Bytes>> {
    const MADE: &str = r#""creationTimestamp":"20"#;
    let edit = |data: Bytes| match std::str::from_utf8(&data) {
        Ok(text) => {
            let years = text
                .split(MADE)
                .enumerate()
                .map(|(number, part)| match number {
                    0 => part.to_owned(),
                    _ => format!("01{}", &part[2..]),
                });
            Bytes::from(years.collect::<Vec<_>>().join(MADE))
        }
        Err(_) => data,
    };
    Ok(frame?.map_data(edit))
}

fn is_protobuf<B>(request: &Request<B>) -> bool {
    let sent = request.headers().get(CONTENT_TYPE);
    let sent = sent.and_then(|sent| sent.to_str().ok());
    sent.is_some_and(|sent| sent.contains("protobuf"))
}

/// The same request, answered as JSON where it would rather have protobuf.
fn without_protobuf<B>(mut request: Request<B>) -> Request<B> {
    let accepted = request.headers().get(ACCEPT);
    let accepts = accepted.and_then(|accepted| accepted.to_str().ok());
    if accepts.is_some_and(|accepts| accepts.contains("protobuf")) {
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, json);
    }
    request
}

/// A list without its items, of that version where one is given; another object as it is.
async fn empty(response: Response<Body>, version: Option<&str>) -> io::Result<Response<Body>> {
    let edit = |object: &mut Value| {
        if object["items"].is_array() {
            object["items"] = json!([]);
            object["metadata"]["continue"] = json!("");
            if let Some(version) = version {
                object["metadata"]["resourceVersion"] = json!(version);
            }
        }
    };
    edited(response, edit).await
}

/// The answer, changed where it is an object.
async fn edited(
    response: Response<Body>,
    edit: impl FnOnce(&mut Value),
) -> io::Result<Response<Body>> {
    let (mut head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut object: Value = match serde_json::from_slice(&body) {
        Ok(object) => object,
        Err(_) => return Ok(Response::from_parts(head, whole(body))),
    };
    edit(&mut object);
    head.headers.remove(http::header::CONTENT_LENGTH);
    Ok(Response::from_parts(head, whole(object.to_string().into())))
}

fn status(code: u16) -> Response<Body> {
    let reason = match code {
        401 => "Unauthorized",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "as the test says", "reason": reason, "code": code,
    });
    let mut response = Response::new(whole(body.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// An answer of a web server that is no API server.
fn page(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(whole("<html><h1>404 Not Found</h1></html>".into()));
    *response.status_mut() = code;
    let html = HeaderValue::from_static("text/html");
    response.headers_mut().insert(CONTENT_TYPE, html);
    response
}

pub(super) fn whole(body: Bytes) -> Body {
    let body = Full::new(body).map_err(|never| match never {});
    BodyExt::boxed(body)
}
