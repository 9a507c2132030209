//! The serving certificate, which changes while connections go on.
//!
//! The kubelet renews a mounted Secret by swapping a symlink, which a watch of the files misses, so
//! the webhook reads the files once a second. A handshake takes the current certificate. An
//! unusable certificate leaves the last valid one in place.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use causeway::process::certificate::{Certificate, Files, TlsError};
use causeway::process::reload::reload;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use crate::callers::Callers;
use crate::metrics::Metrics;

/// Gives each handshake the current certificate. Without one handshakes fail.
#[derive(Debug, Default)]
pub struct Resolver(ArcSwapOption<CertifiedKey>);

impl Resolver {
    /// Creates a resolver with a first certificate.
    pub fn new(certificate: Certificate, metrics: &Metrics) -> Self {
        let resolver = Self::default();
        resolver.swap(certificate, metrics);
        resolver
    }

    /// Replaces the certificate.
    pub(crate) fn swap(&self, certificate: Certificate, metrics: &Metrics) {
        metrics.certificate_is_valid(certificate.begins, certificate.ends);
        if self.0.swap(Some(certificate.chain)).is_some() {
            metrics.certificate_rotated();
        }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// Returns the configuration of TLS 1.2 and 1.3, for HTTP/1.1, and for any client or permitted
/// ones.
///
/// Sessions are not resumed: API servers do not request it, and a resumed session would not verify
/// the client's certificate.
///
/// # Errors
/// [`rustls::Error`] if the crypto provider does not suffice.
pub fn server_config(
    resolver: Arc<Resolver>,
    callers: Option<Arc<Callers>>,
) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let builder = match callers {
        Some(callers) => builder.with_client_cert_verifier(callers),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Loads changed certificates of a directory until the shutdown. The resolver gives `first` before.
/// Reads the two small files in place, without a blocking thread: a mounted Secret is in memory.
pub async fn follow(
    dir: PathBuf,
    first: Files,
    resolver: Arc<Resolver>,
    metrics: Metrics,
    shutdown: CancellationToken,
) {
    let failed = |_: &TlsError| metrics.certificate_rotation_failed();
    let read = || Files::read(&dir).inspect_err(failed);
    let apply = |files: &Files| {
        let certificate = files.parse().inspect_err(failed)?;
        let not_after = certificate.not_after();
        resolver.swap(certificate, &metrics);
        tracing::info!(not_after, "serving certificate reloaded");
        Ok(())
    };
    reload("serving certificate", first, read, apply, shutdown).await;
}
