//! The HTTP client of the collector: the one that reaches API servers, so that nothing else speaks
//! HTTP and TLS in these processes.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::{Client, Config};
use opentelemetry_http::{HttpClient, HttpError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::runtime::Handle;

use crate::process::kube_client::harden;
use crate::process::supervise::with_causes;

/// More of an answer is not read. A collector says in a few bytes that it took everything.
const ANSWER_MAX: usize = 64 * 1024;

/// Sends spans from whatever thread, and says in the log when that begins to fail and when it works
/// again.
pub(super) struct Collector {
    client: Client,
    runtime: Handle,
    endpoint: Uri,
    timeout: Duration,
    fails: Arc<AtomicBool>,
}

/// Error of spans that did not arrive.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the answer was {0}")]
    Status(StatusCode),
}

impl fmt::Debug for Collector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Collector").field(&self.endpoint).finish()
    }
}

impl Collector {
    /// Sends within the runtime of the caller. Certificates of the collector are verified by the
    /// authorities in that file of PEM, else by those of the system.
    ///
    /// # Errors
    /// Where the file cannot be read, or holds no certificate.
    pub(super) fn new(
        endpoint: &Uri,
        certificate: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut parts = endpoint.clone().into_parts();
        // The path comes with each request.
        parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        let mut config = Config::new(Uri::from_parts(parts)?);
        harden(&mut config);
        config.root_cert = match certificate {
            Some(file) => Some(authorities(file)?),
            None if endpoint.scheme_str() == Some("http") => Some(Vec::new()),
            None => None,
        };
        Ok(Self {
            client: Client::try_from(config)?,
            runtime: Handle::current(),
            endpoint: endpoint.clone(),
            timeout,
            fails: Arc::default(),
        })
    }

    /// Whether the last spans did not arrive, which was logged.
    pub(super) fn fails(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.fails)
    }

    fn note(&self, error: Option<&(dyn Error + 'static)>) {
        let fails = error.is_some();
        if self.fails.swap(fails, Ordering::Relaxed) == fails {
            return;
        }
        let endpoint = &self.endpoint;
        match error {
            Some(error) => {
                let error = with_causes(error);
                tracing::warn!(%endpoint, error, "traces not sent, spans are dropped");
            }
            None => tracing::info!(%endpoint, "traces sent again"),
        }
    }
}

fn authorities(file: &str) -> Result<Vec<Vec<u8>>, Box<dyn Error + Send + Sync>> {
    let unreadable = |error| format!("OTEL_EXPORTER_OTLP_CERTIFICATE {file}: {error}");
    let certificates = CertificateDer::pem_file_iter(file).map_err(unreadable)?;
    let certificates: Result<Vec<_>, _> = certificates.collect();
    let certificates = certificates.map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(format!("OTEL_EXPORTER_OTLP_CERTIFICATE {file}: holds no certificate").into());
    }
    Ok(certificates
        .iter()
        .map(|certificate| certificate.to_vec())
        .collect())
}

async fn exchange(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let request = request.map(|body| Body::from(body.to_vec()));
    let (head, body) = client.send(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

impl HttpClient for Collector {
    // As async_trait writes it.
    fn send_bytes<'client, 'sending>(
        &'client self,
        request: Request<Bytes>,
    ) -> BoxFuture<'sending, Result<Response<Bytes>, HttpError>>
    where
        'client: 'sending,
        Self: 'sending,
    {
        Box::pin(async move {
            let exchange = exchange(self.client.clone(), request);
            let timeout = self.timeout;
            // The caller's thread knows no clock of Tokio's.
            let sent = self
                .runtime
                .spawn(async move { tokio::time::timeout(timeout, exchange).await });
            let answered = match sent.await? {
                Ok(answered) => answered,
                Err(_) => Err(SendError::Timeout(timeout).into()),
            };
            match &answered {
                Ok(answer) if answer.status().is_success() => self.note(None),
                Ok(answer) => self.note(Some(&SendError::Status(answer.status()))),
                Err(error) => self.note(Some(error.as_ref())),
            }
            answered
        })
    }
}
