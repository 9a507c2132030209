//! TLS: connections that are slow, idle or ended, and certificates that change under them.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use causeway::process::certificate::{self, Files};
use causeway_certs::{Authority, Leaf};
use causeway_webhook::hub::Hub;
use causeway_webhook::server::Server;
use causeway_webhook::tls;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::caller::{Called, create, webhook};
use crate::hub;

const NAME: &str = "causeway-webhook.causeway-system.svc";
const LONG: Duration = Duration::from_secs(30);

/// A directory as the kubelet keeps it: files behind a symlink behind `..data`.
struct Mounted {
    dir: tempfile::TempDir,
    authority: Authority,
    turn: u32,
}

impl Mounted {
    fn new() -> Self {
        let authority = Authority::new("test", Duration::from_secs(86_400), SystemTime::now())
            .expect("an authority");
        let mut mounted = Self {
            dir: tempfile::tempdir().expect("a directory"),
            authority,
            turn: 0,
        };
        mounted.renew();
        for file in ["tls.crt", "tls.key"] {
            symlink(
                Path::new("..data").join(file),
                mounted.dir.path().join(file),
            )
            .expect("a link");
        }
        mounted
    }

    fn renew(&mut self) {
        let leaf = Leaf {
            common_name: format!("turn-{}", self.turn),
            names: vec![NAME.to_owned()],
            validity: Duration::from_secs(3600 + u64::from(self.turn)),
            ..Leaf::default()
        };
        let issued = self
            .authority
            .issue(&leaf, SystemTime::now())
            .expect("a leaf");
        self.swap(&issued.certificate, &issued.key);
    }

    /// Swaps both files at once.
    fn swap(&mut self, certificate: &str, key: &str) {
        self.turn += 1;
        let path = |name: &str| -> PathBuf { self.dir.path().join(name) };
        let version = format!("..turn-{}", self.turn);
        std::fs::create_dir(path(&version)).expect("a directory");
        std::fs::write(path(&version).join("tls.crt"), certificate).expect("a file");
        std::fs::write(path(&version).join("tls.key"), key).expect("a file");
        symlink(&version, path("..data_tmp")).expect("a link");
        std::fs::rename(path("..data_tmp"), path("..data")).expect("a swap");
    }
}

struct Serving {
    called: Called,
    address: SocketAddr,
    mounted: Mounted,
    connector: TlsConnector,
}

async fn serving() -> Serving {
    serving_after(|_| {}).await
}

/// Serves a certificate whose files change before the first look for changes.
async fn serving_after(change: impl FnOnce(&mut Mounted)) -> Serving {
    let mut mounted = Mounted::new();
    let called = Called::new(hub::unreachable().await).await;
    let tasks = &called.process.tasks;
    let metrics = called.metrics.clone();
    let files = Files::read(mounted.dir.path()).expect("two files");
    let certificate = files.parse().expect("a certificate");
    let resolver = Arc::new(tls::Resolver::new(certificate, &metrics));
    change(&mut mounted);
    tasks.spawn(
        "certificate",
        tls::follow(
            mounted.dir.path().to_owned(),
            files,
            Arc::clone(&resolver),
            metrics.clone(),
            tasks.shutdown(),
        ),
    );
    let webhook = webhook(
        Hub::new(hub::unreachable().await),
        &metrics,
        &called.process,
    );
    let config = tls::server_config(resolver, None).expect("a TLS configuration");
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), config, webhook)
        .await
        .expect("a port");
    let address = server.address();
    tasks.spawn("server", server.run(tasks.clone()));
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(mounted.authority.pem().as_bytes()).expect("PEM");
    roots.add(root).expect("a root");
    let mut client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A resumed session would show the certificate that it began with.
    client.resumption = Resumption::disabled();
    Serving {
        called,
        address,
        mounted,
        connector: TlsConnector::from(Arc::new(client)),
    }
}

impl Serving {
    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let name = ServerName::try_from(NAME).expect("a name");
        self.connector
            .connect(name, stream)
            .await
            .expect("a handshake")
    }

    fn metric(&self, name: &str) -> i64 {
        let text = self.called.process.metrics.encode().expect("metrics");
        let values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values
            .filter_map(|value| value.parse::<i64>().ok())
            .max()
            .unwrap_or_default()
    }
}

fn request() -> Vec<u8> {
    let body = create(json!({"types": []})).to_string();
    format!(
        "POST /mutate HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends a request and reads the answer, whose body ends the way an answer does.
async fn send(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(&request()).await.expect("it reads");
    read_answer(stream).await
}

async fn read_answer(stream: &mut TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = timeout(LONG, stream.read(&mut buffer))
            .await
            .expect("in time")
            .expect("bytes");
        assert!(
            read > 0,
            "it broke off after {}",
            String::from_utf8_lossy(&answer)
        );
        answer.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse::<usize>()
                        .ok()
                })
                .expect("a length");
            if body.len() >= length {
                return text.into_owned();
            }
        }
    }
}

/// Returns the time until the peer closes a connection, and its last bytes.
async fn closed_after(mut stream: impl AsyncReadExt + Unpin) -> (Duration, String) {
    let begun = Instant::now();
    let mut rest = Vec::new();
    let ended = timeout(LONG, stream.read_to_end(&mut rest))
        .await
        .expect("it is closed");
    drop(ended);
    (begun.elapsed(), String::from_utf8_lossy(&rest).into_owned())
}

#[tokio::test]
async fn slow_request_is_closed_and_an_idle_connection_is_not() {
    let serving = serving().await;
    let no_handshake = TcpStream::connect(serving.address)
        .await
        .expect("it listens");
    let mut half_a_head = serving.connect().await;
    half_a_head
        .write_all(b"POST /mutate HTTP/1.1\r\nHost: ")
        .await
        .expect("it reads");
    let mut half_a_body = serving.connect().await;
    let whole = request();
    half_a_body
        .write_all(&whole[..whole.len() - 5])
        .await
        .expect("it reads");
    let mut unused = serving.connect().await;
    let mut idle = serving.connect().await;
    assert!(send(&mut idle).await.starts_with("HTTP/1.1 200"));
    let mut second_head = serving.connect().await;
    assert!(send(&mut second_head).await.starts_with("HTTP/1.1 200"));
    second_head.write_all(b"POST /mut").await.expect("it reads");

    let left_alone = async {
        sleep(Duration::from_secs(13)).await;
        [send(&mut idle).await, send(&mut unused).await]
    };
    let (handshake, head, body, second_head, answers) = tokio::join!(
        closed_after(no_handshake),
        closed_after(half_a_head),
        closed_after(half_a_body),
        closed_after(second_head),
        left_alone
    );
    for (what, (time, said), seconds, words) in [
        ("handshake", handshake, 8..16, ""),
        ("rest of a head", head, 8..16, ""),
        ("second head", second_head, 8..16, ""),
        (
            "rest of a body",
            body,
            4..11,
            "HTTP/1.1 408 Request Timeout",
        ),
    ] {
        let seconds = seconds.start..seconds.end;
        assert!(
            seconds.contains(&time.as_secs()),
            "the {what} was awaited for {time:?}"
        );
        assert!(
            said.starts_with(words) && said.is_empty() == words.is_empty(),
            "the {what}: {said}"
        );
    }
    for answer in answers {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// The serial number of the certificate that a new connection is given.
async fn certificate(serving: &Serving) -> Vec<u8> {
    let stream = serving.connect().await;
    let (_, connection) = stream.get_ref();
    connection.peer_certificates().expect("certificates")[0].to_vec()
}

async fn until(what: &str, mut met: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !met().await {
        assert!(Instant::now() < deadline, "still not: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn swapped_certificates_are_loaded_while_connections_go_on() {
    let mut serving = serving().await;
    let mut kept = serving.connect().await;
    for turn in 1..=3 {
        let before = certificate(&serving).await;
        let expiry = serving.metric("causeway_certificate_expiry_timestamp_seconds");
        serving.mounted.renew();
        until("a new certificate", async || {
            certificate(&serving).await != before
        })
        .await;
        assert!(
            send(&mut kept).await.starts_with("HTTP/1.1 200"),
            "on the old connection"
        );
        until("it is counted", async || {
            serving.metric("causeway_certificate_rotations_total") == turn
                && serving.metric("causeway_certificate_expiry_timestamp_seconds") != expiry
        })
        .await;
    }
}

#[tokio::test]
async fn certificate_renewed_during_the_start_is_loaded() {
    let serving = serving_after(Mounted::renew).await;
    let path = serving.mounted.dir.path();
    let renewed = certificate::read(path).expect("a certificate").chain;
    until("the renewed certificate", async || {
        certificate(&serving).await == renewed.cert[0].to_vec()
    })
    .await;
}

#[tokio::test]
async fn a_broken_certificate_leaves_the_last_good_one_in_use() {
    let mut serving = serving().await;
    let good = certificate(&serving).await;
    let other = Mounted::new();
    let foreign_key = std::fs::read_to_string(other.dir.path().join("tls.key")).expect("a key");
    let own =
        std::fs::read_to_string(serving.mounted.dir.path().join("tls.crt")).expect("a certificate");
    for (certificate_text, key) in [
        ("", ""),
        ("no PEM", "no PEM"),
        (own.as_str(), foreign_key.as_str()),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            foreign_key.as_str(),
        ),
    ] {
        serving.mounted.swap(certificate_text, key);
        let error = certificate::read(serving.mounted.dir.path()).expect_err("it is broken");
        assert!(!error.to_string().is_empty());
        // Longer than the interval in which the files are read.
        sleep(Duration::from_millis(1500)).await;
        assert_eq!(certificate(&serving).await, good);
    }
    serving.mounted.renew();
    until("a new certificate", async || {
        certificate(&serving).await != good
    })
    .await;
    until("one is counted", async || {
        serving.metric("causeway_certificate_rotations_total") == 1
    })
    .await;
}

#[tokio::test]
async fn a_request_in_flight_is_answered_before_the_end() {
    let serving = serving().await;
    let mut stream = serving.connect().await;
    let whole = request();
    stream
        .write_all(&whole[..whole.len() - 5])
        .await
        .expect("it reads");
    until("the request is in flight", async || {
        serving.metric("causeway_webhook_requests_in_flight") == 1
    })
    .await;
    serving.called.process.tasks.shutdown().cancel();
    until("new connections are refused", async || {
        TcpStream::connect(serving.address).await.is_err()
    })
    .await;
    stream
        .write_all(&whole[whole.len() - 5..])
        .await
        .expect("it still reads");
    let answer = read_answer(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.to_lowercase().contains("connection: close"),
        "{answer}"
    );
}

/// A certificate that nobody gets: the handshake panics.
#[derive(Debug)]
struct Panics;

impl ResolvesServerCert for Panics {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_panic_in_a_connection_ends_that_connection_and_is_counted() {
    let serving = serving().await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Panics));
    let called = &serving.called;
    let tasks = &called.process.tasks;
    let webhook = webhook(
        Hub::new(hub::unreachable().await),
        &called.metrics,
        &called.process,
    );
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), config, webhook)
        .await
        .expect("a port");
    let address = server.address();
    tasks.spawn("panicking server", server.run(tasks.clone()));
    for count in 1..=2 {
        let stream = TcpStream::connect(address).await.expect("it listens");
        let name = ServerName::try_from(NAME).expect("a name");
        let ended = serving.connector.connect(name, stream).await;
        assert!(ended.is_err());
        until("the panic is counted", async || {
            serving.metric("causeway_panics_total{task=\"connection\"}") == count
        })
        .await;
    }
    assert!(!tasks.shutdown().is_cancelled());
    let mut other = serving.connect().await;
    assert!(send(&mut other).await.starts_with("HTTP/1.1 200"));
}
