//! The certificate of the authenticated front, which changes while connections go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use causeway::process::certificate::{Files, TlsError};
use causeway::process::reload::reload;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tokio_util::sync::CancellationToken;

use crate::credentials::server_config;
use crate::metrics::Metrics;

/// Protocol inside. A client that offers HTTP/2 too must not choose it.
const HTTP1: &[u8] = b"http/1.1";

/// `tls.crt` and `tls.key` of a directory, ready for handshakes that authenticate no client.
pub struct Serving {
    directory: PathBuf,
    first: Files,
    current: ArcSwap<ServerConfig>,
    metrics: Metrics,
}

impl Serving {
    /// Reads a directory.
    ///
    /// # Errors
    /// [`TlsError`] if its files cannot be used.
    pub fn read(directory: &Path, metrics: &Metrics) -> Result<Arc<Self>, TlsError> {
        let first = Files::read(directory)?;
        let (config, _) = load(&first, metrics)?;
        Ok(Arc::new(Self {
            directory: directory.to_owned(),
            first,
            current: ArcSwap::from_pointee(config),
            metrics: metrics.clone(),
        }))
    }

    /// Returns TLS with the current certificate.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Loads changed files until the shutdown.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        let what = "certificate of the authenticated front";
        let read = || Files::read(&self.directory);
        let apply = |files: &Files| {
            let (config, not_after) = load(files, &self.metrics)?;
            self.current.store(Arc::new(config));
            tracing::info!(not_after, "{what} reloaded");
            Ok(())
        };
        reload(what, self.first.clone(), read, apply, shutdown).await;
    }
}

/// Returns TLS with the files, and the end of the certificate's validity.
fn load(files: &Files, metrics: &Metrics) -> Result<(ServerConfig, String), TlsError> {
    let certificate = files.parse()?;
    let config = server_config(&certificate, WebPkiClientVerifier::no_client_auth(), HTTP1)?;
    metrics.front_certificate_ends(certificate.ends);
    Ok((config, certificate.not_after()))
}
