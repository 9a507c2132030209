//! Clients of the authenticated front, over TLS.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::process::certificate::authorities;
use causeway_tunnel::limits::Limits;
use causeway_tunnel::passwords::PasswordFile;
use causeway_tunnel::serving::Serving;
use causeway_tunnel::tokens::AGENT_HOST;
use causeway_tunnel::tunnel::{AuthenticatedFront, bind};
use ring::digest::{SHA256, digest};
use rustls::ClientConfig;
use rustls::crypto::ring as provider;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::environment::{
    Hub, LOCAL, Member, Replica, SOON, api, echoing, eventually, limits, read_answer,
};

const OF_EDGE1: &str = "password of edge1";
const OF_ALL: &str = "password of all members";
const BULK: usize = 4 * 1024 * 1024;

/// A replica with an authenticated front, and a member edge1.
struct Stage {
    hub: Hub,
    replica: Replica,
    _member: Member,
    address: SocketAddr,
    files: tempfile::TempDir,
}

fn line(members: &str, password: &str) -> String {
    let mut line = format!("{members} sha256:");
    for byte in digest(&SHA256, password.as_bytes()).as_ref() {
        write!(line, "{byte:02x}").expect("a text");
    }
    line + "\n"
}

impl Stage {
    async fn start(limits: Limits) -> Self {
        Self::start_with(limits, true).await
    }

    async fn start_with(limits: Limits, has_tls: bool) -> Self {
        let hub = Hub::new();
        let replica = Replica::start(&hub, limits).await;
        let member = Member::start(&hub, "edge1", replica.agents, api().await).await;
        replica.connected("edge1").await;
        let files = hub.files(&hub.tunnel_leaf(), SystemTime::now());
        let path = files.path().join("passwords");
        let lines = [line("edge1,edge3", OF_EDGE1), line("*", OF_ALL)].concat();
        std::fs::write(&path, lines).expect("a file");
        let passwords = PasswordFile::read(&path).expect("passwords");
        let serving = Serving::read(files.path(), &replica.shared.metrics);
        let serving = serving.expect("a certificate");
        let tasks = &replica.process.tasks;
        tasks.spawn("passwords", passwords.clone().follow(tasks.shutdown()));
        tasks.spawn("its certificate", serving.clone().follow(tasks.shutdown()));
        let listener = bind(LOCAL.into()).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let front = AuthenticatedFront {
            passwords,
            certificate: has_tls.then_some(serving),
        };
        let served = replica.tunnel.clone().serve_authenticated(listener, front);
        tasks.spawn("authenticated", served);
        Self {
            hub,
            replica,
            _member: member,
            address,
            files,
        }
    }

    async fn tls(&self) -> TlsStream<TcpStream> {
        let roots = authorities(self.hub.authority.pem().as_bytes()).expect("authorities");
        let config = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("TLS");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        // As clients of Go offer them.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let socket = TcpStream::connect(self.address).await.expect("the front");
        let name = "localhost".try_into().expect("a name");
        let tls = TlsConnector::from(Arc::new(config)).connect(name, socket);
        tls.await.expect("a handshake")
    }

    /// Connects by the credentials, and returns status and head of the answer.
    async fn connect(&self, credentials: &str) -> (u16, String, TlsStream<TcpStream>) {
        let mut tls = self.tls().await;
        let (status, head) = connect(&mut tls, credentials).await;
        (status, head, tls)
    }

    async fn opened(&self, credentials: &str) -> TlsStream<TcpStream> {
        let (status, head, mut tls) = self.connect(credentials).await;
        assert_eq!(status, 200, "{head}");
        tls.write_all(b"E?").await.expect("it is written");
        let echoed = timeout(SOON, tls.read_u8()).await.expect("in time");
        assert_eq!(echoed.expect("an answer"), b'?');
        tls
    }

    fn refused(&self, reason: &str) -> u64 {
        let name = format!("causeway_tunnel_clients_refused_total{{reason=\"{reason}\"}}");
        self.replica.metric(&name)
    }
}

async fn connect(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: &str,
) -> (u16, String) {
    connect_to(socket, credentials, "10.96.0.1:443").await
}

async fn connect_to(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: &str,
    host: &str,
) -> (u16, String) {
    let header = match credentials {
        "" => String::new(),
        text => format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(text)),
    };
    let head = format!("CONNECT {host} HTTP/1.1\r\nHost: x\r\n{header}\r\n");
    socket.write_all(head.as_bytes()).await.expect("it reads");
    timeout(SOON, read_answer(socket)).await.expect("in time")
}

/// Waits until the front closes a connection.
async fn closed(socket: &mut (impl AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let read = timeout(SOON, socket.read_to_end(&mut rest)).await;
    drop(read.expect("in time"));
    assert_eq!(String::from_utf8_lossy(&rest), "");
}

fn quick() -> Limits {
    Limits {
        refusal: Duration::from_millis(10),
        ..limits()
    }
}

#[tokio::test]
async fn password_opens_the_members_of_its_line() {
    let stage = Stage::start(quick()).await;
    for credentials in [format!("edge1:{OF_EDGE1}"), format!("edge1:{OF_ALL}")] {
        stage.opened(&credentials).await;
    }
    let refused = [
        String::new(),
        "edge1:".to_owned(),
        "edge1".to_owned(),
        format!("edge1:{OF_EDGE1}."),
        format!("edge2:{OF_EDGE1}"),
        format!(":{OF_ALL}"),
    ];
    let mut heads = Vec::new();
    for credentials in &refused {
        let (status, head, _) = stage.connect(credentials).await;
        assert_eq!(status, 407, "{credentials:?}: {head}");
        assert!(head.contains("proxy-authenticate: Basic"), "{head}");
        assert!(head.len() < 1024, "{head}");
        let without_date = head.lines().filter(|line| !line.starts_with("date"));
        heads.push(without_date.map(str::to_owned).collect::<Vec<_>>());
    }
    heads.dedup();
    assert_eq!(heads.len(), 1, "refusals differ: {heads:?}");
    assert_eq!(stage.refused("password"), refused.len() as u64);
    // The member is allowed, and not connected.
    let (status, head, _) = stage.connect(&format!("edge3:{OF_EDGE1}")).await;
    assert_eq!(status, 503, "{head}");
}

#[tokio::test]
async fn bytes_pass_both_ways_within_tls() {
    let stage = Stage::start(quick()).await;
    let tls = stage.opened(&format!("edge1:{OF_EDGE1}")).await;
    let (mut input, mut output) = split(tls);
    let sent = tokio::spawn(async move {
        for _ in 0..BULK / 16384 {
            output.write_all(&[3; 16384]).await.expect("it is read");
        }
        output.flush().await.expect("it is read");
        output
    });
    let mut received = vec![0; BULK];
    let read = timeout(SOON, input.read_exact(&mut received)).await;
    read.expect("in time").expect("all bytes");
    assert!(received.iter().all(|byte| *byte == 3));
    let mut output = sent.await.expect("sent");
    output.shutdown().await.expect("closed");
    closed(&mut input).await;
    let replica = &stage.replica;
    eventually("the stream has ended", || replica.streams("edge1") == 0).await;
}

#[tokio::test]
async fn refusals_take_time_and_are_few() {
    let refusal = Duration::from_millis(500);
    let stage = Stage::start(Limits {
        refusal,
        refusals: 1,
        ..limits()
    });
    let stage = stage.await;
    let begun = Instant::now();
    let wrong = || async {
        let mut tls = stage.tls().await;
        let head = "CONNECT a:443 HTTP/1.1\r\nHost: x\r\n\r\n";
        tls.write_all(head.as_bytes()).await.expect("it reads");
        let mut answer = Vec::new();
        let read = timeout(SOON, tls.read_to_end(&mut answer)).await;
        drop(read.expect("in time"));
        String::from_utf8(answer).expect("text")
    };
    let answers = tokio::join!(wrong(), wrong(), wrong(), wrong());
    assert!(begun.elapsed() >= refusal);
    let answers = [answers.0, answers.1, answers.2, answers.3];
    let waited = answers
        .iter()
        .filter(|text| text.starts_with("HTTP/1.1 407"));
    assert_eq!(waited.count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|text| text.is_empty()).count(), 3);
    assert_eq!(stage.refused("password"), 4);
    // Others are served meanwhile and afterwards.
    stage.opened(&format!("edge1:{OF_EDGE1}")).await;
}

#[tokio::test]
async fn slow_and_malformed_clients_are_closed_and_counted() {
    let stage = Stage::start(Limits {
        handshake: Duration::from_millis(300),
        ..quick()
    });
    let stage = stage.await;
    let mut silent = TcpStream::connect(stage.address).await.expect("the front");
    closed(&mut silent).await;
    let mut slow = stage.tls().await;
    slow.write_all(b"CONNECT a:443").await.expect("it reads");
    closed(&mut slow).await;
    let mut idle = stage.tls().await;
    closed(&mut idle).await;
    eventually("they are counted", || stage.refused("slow") == 3).await;
    let mut plain = TcpStream::connect(stage.address).await.expect("the front");
    plain
        .write_all(b"CONNECT a:443 HTTP/1.1\r\n\r\n")
        .await
        .expect("it reads");
    let mut alert = Vec::new();
    let read = timeout(SOON, plain.read_to_end(&mut alert)).await;
    drop(read.expect("in time"));
    eventually("it is counted", || stage.refused("handshake") == 1).await;
    let mut long = stage.tls().await;
    let head = format!(
        "CONNECT a:443 HTTP/1.1\r\nX: {}\r\n\r\n",
        "a".repeat(64 * 1024)
    );
    // The front may close before it has read all.
    long.write_all(head.as_bytes()).await.ok();
    let (status, _) = timeout(SOON, read_answer(&mut long))
        .await
        .expect("in time");
    assert_eq!(status, 431);
    eventually("it is counted", || stage.refused("malformed") == 1).await;
    let mut get = stage.tls().await;
    let head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    get.write_all(head).await.expect("it reads");
    let (status, _) = timeout(SOON, read_answer(&mut get)).await.expect("in time");
    assert_eq!(status, 405);
}

#[tokio::test]
async fn removed_password_ends_its_streams_alone() {
    let stage = Stage::start(quick()).await;
    let mut removed = stage.opened(&format!("edge1:{OF_EDGE1}")).await;
    let mut kept = stage.opened(&format!("edge1:{OF_ALL}")).await;
    let path = stage.files.path().join("passwords");
    // An invalid file changes nothing.
    std::fs::write(&path, "edge1 secret\n").expect("a file");
    std::fs::write(&path, line("*", OF_ALL)).expect("a file");
    closed(&mut removed).await;
    assert_eq!(stage.refused("revoked"), 1);
    kept.write_all(b"!").await.expect("it is written");
    let echoed = timeout(SOON, kept.read_u8()).await.expect("in time");
    assert_eq!(echoed.expect("an answer"), b'!');
    let (status, head, _) = stage.connect(&format!("edge1:{OF_EDGE1}")).await;
    assert_eq!(status, 407, "{head}");
}

#[tokio::test]
async fn clients_with_passwords_leave_streams_to_the_controller() {
    let stage = Stage::start(Limits {
        authenticated_streams: 2,
        ..quick()
    });
    let stage = stage.await;
    let credentials = format!("edge1:{OF_EDGE1}");
    let first = stage.opened(&credentials).await;
    let second = stage.opened(&credentials).await;
    let (status, head, third) = stage.connect(&credentials).await;
    assert_eq!(status, 503, "{head}");
    assert!(head.contains("clients have 2 streams open"), "{head}");
    drop(third);
    eventually("it is counted", || stage.refused("busy") == 1).await;
    echoing(stage.replica.front, "edge1").await;
    drop(second);
    let replica = &stage.replica;
    eventually("one is left", || replica.streams("edge1") <= 1).await;
    let again = stage.opened(&credentials).await;
    drop((first, again));
}

#[tokio::test]
async fn full_authenticated_front_leaves_the_other_alone() {
    let stage = Stage::start(Limits {
        authenticated_clients: 2,
        ..quick()
    });
    let stage = stage.await;
    let idle = (stage.tls().await, stage.tls().await);
    let mut further = TcpStream::connect(stage.address).await.expect("the front");
    closed(&mut further).await;
    assert_eq!(stage.refused("full"), 1);
    echoing(stage.replica.front, "edge1").await;
    drop(idle);
}

#[tokio::test]
async fn slow_receiver_over_tls_is_bounded_and_goes_on() {
    let held = 2 * 1024 * 1024;
    let stage = Stage::start(Limits { held, ..quick() }).await;
    let (status, head, mut slow) = stage.connect(&format!("edge1:{OF_EDGE1}")).await;
    assert_eq!(status, 200, "{head}");
    slow.write_all(b"F").await.expect("it is written");
    let budget = &stage.replica.shared.budget;
    // Its window is used up: the other side sends no more. h2 returns a window of 1 MiB by halves,
    // and 64 KiB are not counted.
    eventually("it is stuck", || {
        assert!(budget.used() <= held);
        budget.used() > 400 * 1024
    })
    .await;
    stage.opened(&format!("edge1:{OF_ALL}")).await;
    let mut buffer = vec![0; BULK];
    let read = timeout(SOON, slow.read_exact(&mut buffer)).await;
    read.expect("in time").expect("its bytes");
    assert!(buffer.iter().all(|byte| *byte == 7));
    drop(slow);
    eventually("all is given back", || budget.used() == 0).await;
}

#[tokio::test]
async fn new_certificate_of_the_front_is_served() {
    let stage = Stage::start(quick()).await;
    let of = |tls: &TlsStream<TcpStream>| {
        let chain = tls.get_ref().1.peer_certificates().expect("a chain");
        chain.first().expect("a certificate").to_vec()
    };
    let first = of(&stage.tls().await);
    let leaf = stage.hub.tunnel_leaf();
    stage
        .hub
        .write(stage.files.path(), &leaf, SystemTime::now());
    let deadline = Instant::now() + SOON;
    while of(&stage.tls().await) == first {
        assert!(Instant::now() < deadline, "it is not loaded");
    }
    stage.opened(&format!("edge1:{OF_EDGE1}")).await;
}

#[tokio::test]
async fn front_without_tls_verifies_passwords_too() {
    let stage = Stage::start_with(quick(), false).await;
    let dial = || TcpStream::connect(stage.address);
    let mut socket = dial().await.expect("the front");
    let (status, head) = connect(&mut socket, "edge1:").await;
    assert_eq!(status, 407, "{head}");
    let mut socket = dial().await.expect("the front");
    let (status, head) = connect(&mut socket, &format!("edge1:{OF_EDGE1}")).await;
    assert_eq!(status, 200, "{head}");
}

#[tokio::test]
async fn passwords_open_no_stream_to_the_agent() {
    let stage = Stage::start(limits()).await;
    let mut tls = stage.tls().await;
    let credentials = format!("edge1:{OF_EDGE1}");
    let (status, head) = connect_to(&mut tls, &credentials, AGENT_HOST).await;
    assert_eq!(status, 200, "{head}");
    // The API server is there, as for each host.
    tls.write_all(b"E?").await.expect("it is written");
    let echoed = timeout(SOON, tls.read_u8()).await.expect("in time");
    assert_eq!(echoed.expect("an answer"), b'?');
}
