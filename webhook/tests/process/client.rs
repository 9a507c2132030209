//! A client that speaks TLS and says anything.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::running::{LONG, Webhook};

pub(crate) const UID: &str = "0c9a8d74-9cb7-44dd-b98e-09fd62def2f4";

/// An answer, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Whether the object of the request was accepted.
    pub(crate) fn is_allowed(&self) -> bool {
        self.code == 200 && self.json()["response"]["allowed"] == json!(true)
    }
}

/// Client of a webhook.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    connector: TlsConnector,
}

impl Client {
    /// Trusts the authority of the webhook's files.
    pub(crate) fn new(webhook: &Webhook, files: &Path) -> Self {
        Self::with(webhook, files, None)
    }

    /// Shows a certificate too: PEM of it and of its key.
    pub(crate) fn with(webhook: &Webhook, files: &Path, own: Option<(&str, &str)>) -> Self {
        causeway::process::kube_client::install_crypto_provider();
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(files.join("ca.crt")).expect("PEM");
        roots.add(authority).expect("an authority");
        let config = ClientConfig::builder().with_root_certificates(roots);
        let config = match own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
                let config = config.with_client_auth_cert(vec![chain], key);
                config.expect("a client certificate")
            }
        };
        Self {
            address: webhook.address,
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    /// A connection without a handshake.
    pub(crate) async fn plain(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    pub(crate) async fn try_connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TcpStream::connect(self.address).await?;
        self.connector.connect(name, stream).await
    }

    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        self.try_connect().await.expect("a handshake")
    }

    /// Sends bytes over a new connection and reads one answer.
    pub(crate) async fn say(&self, bytes: &[u8]) -> Answer {
        self.try_say(bytes).await.unwrap_or_else(|| {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(500)]);
            panic!("no answer to {shown}")
        })
    }

    /// The same; `None` where there is no connection, or no answer over it.
    pub(crate) async fn try_say(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.try_connect().await.ok()?;
        let (mut from, mut to) = tokio::io::split(&mut stream);
        // Where the answer comes first, the rest need not be taken.
        let saying = async { to.write_all(bytes).await.and(to.flush().await) };
        let (_, answer) = tokio::join!(saying, read_answer(&mut from));
        answer
    }

    /// Sends a usual request over a new connection.
    pub(crate) async fn send_usual(&self) {
        let answer = self.say(&post("/mutate", &fine().to_string())).await;
        assert!(answer.is_allowed(), "{answer:?}");
    }
}

/// Sends a usual request over a connection that stands.
pub(crate) async fn send(stream: &mut TlsStream<TcpStream>) -> Answer {
    let request = post("/mutate", &fine().to_string());
    stream.write_all(&request).await.expect("it reads");
    let answer = read_answer(stream).await.expect("an answer");
    assert!(answer.is_allowed(), "{answer:?}");
    answer
}

/// Reads one answer; `None` where the connection ends before.
pub(crate) async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> Option<Answer> {
    let mut read = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head_lines = head.to_lowercase();
            let mut lines = head_lines.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(usize::MAX) {
                return Some(answer(head, body));
            }
        }
        let more = timeout(LONG, stream.read(&mut buffer)).await;
        match more.expect("in time") {
            Ok(more) if more > 0 => read.extend_from_slice(&buffer[..more]),
            _ => {
                let (head, body) = text.split_once("\r\n\r\n")?;
                return Some(answer(head, body));
            }
        }
    }
}

fn answer(head: &str, body: &str) -> Answer {
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer {
        code: code.unwrap_or_else(|| panic!("no status line: {head}")),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// Returns the time until the webhook closes.
pub(crate) async fn closed(mut stream: impl AsyncRead + Unpin) -> Duration {
    let begun = std::time::Instant::now();
    let mut ignored = Vec::new();
    let reading = stream.read_to_end(&mut ignored);
    // Closed kindly or not.
    timeout(LONG, reading).await.expect("it is closed").ok();
    begun.elapsed()
}

/// A POST of JSON.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    post_bytes(path, body.as_bytes())
}

pub(crate) fn post_bytes(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A review of a creation, which the mutation allows and the validation refuses, both without
/// sending the hub.
pub(crate) fn fine() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": UID, "operation": "CREATE", "name": "a.b", "namespace": "kube-system",
            "kind": {"group": "networking.karmada.io", "version": "v1alpha1", "kind": "MultiClusterService"},
            "resource": {"group": "networking.karmada.io", "version": "v1alpha1", "resource": "multiclusterservices"},
            "userInfo": {}, "dryRun": false, "oldObject": null,
            "object": {
                "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
                "metadata": {"name": "a.b", "namespace": "kube-system"}, "spec": {"types": []},
            },
        },
    })
}
