//! Certificates, API servers that echo, replicas and agents.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::process::Process;
use causeway_certs::{Authority, Leaf, Purpose};
use causeway_tunnel::agent::{Agent, Peers, Route};
use causeway_tunnel::credentials::Credentials;
use causeway_tunnel::hello::Hello;
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use causeway_tunnel::registry::Registry;
use causeway_tunnel::splice::Shared;
use causeway_tunnel::tokens::Issuer;
use causeway_tunnel::tunnel::{Enrolment, Signer, Tunnel, bind};
use hyper_util::client::proxy::matcher::Matcher;
use kube::Client;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

pub(crate) const HUB: &str = "0b6e3c1e-93cb-4e0f-8f0e-6f0a4c9d1a55";
/// Deadline for what takes moments on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);
pub(crate) const LOCAL: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {SOON:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Limits with short times.
pub(crate) fn limits() -> Limits {
    Limits {
        ping_every: Duration::from_millis(200),
        ping_answer: Duration::from_secs(2),
        half_closed: Duration::from_secs(1),
        drain: Duration::from_secs(5),
        credentials: Duration::from_secs(3),
        ..Limits::default()
    }
}

/// Certificates of one hub.
pub(crate) struct Hub {
    pub(crate) uid: String,
    pub(crate) authority: Authority,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self::of(HUB)
    }

    pub(crate) fn of(uid: &str) -> Self {
        let authority = Authority::new("causeway-tunnel", 10 * DAY, SystemTime::now());
        Self {
            uid: uid.to_owned(),
            authority: authority.expect("an authority"),
        }
    }

    /// Returns the hub with this UID that has the same authority.
    pub(crate) fn with(uid: &str, authority: &Authority) -> Self {
        let same = Authority::from_pem(authority.pem(), &authority.key_pem());
        Self {
            uid: uid.to_owned(),
            authority: same.expect("the same authority"),
        }
    }

    pub(crate) fn tunnel_leaf(&self) -> Leaf {
        Leaf {
            common_name: "causeway-tunnel".to_owned(),
            names: vec!["localhost".to_owned()],
            addresses: vec![[127, 0, 0, 1].into()],
            uris: vec![format!("causeway://{}/tunnel", self.uid)],
            validity: DAY,
            ..Leaf::default()
        }
    }

    pub(crate) fn member_leaf(&self, name: &str) -> Leaf {
        Leaf {
            common_name: name.to_owned(),
            uris: vec![format!("causeway://{}/member/{name}", self.uid)],
            validity: DAY,
            purpose: Purpose::Client,
            ..Leaf::default()
        }
    }

    pub(crate) fn controller_leaf(&self) -> Leaf {
        Leaf {
            common_name: "causeway-controller".to_owned(),
            uris: vec![format!("causeway://{}/controller", self.uid)],
            validity: DAY,
            purpose: Purpose::Client,
            ..Leaf::default()
        }
    }

    /// Issues a certificate as of `now`, into a directory with the authority.
    pub(crate) fn files(&self, leaf: &Leaf, now: SystemTime) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        self.write(directory.path(), leaf, now);
        directory
    }

    pub(crate) fn write(&self, directory: &Path, leaf: &Leaf, now: SystemTime) {
        let issued = self.authority.issue(leaf, now).expect("a certificate");
        for (name, text) in [
            ("tls.key", issued.key.as_str()),
            ("tls.crt", issued.certificate.as_str()),
            ("ca.crt", self.authority.pem()),
        ] {
            std::fs::write(directory.join(name), text).expect("a file");
        }
    }
}

/// One replica of causeway-tunnel.
pub(crate) struct Replica {
    pub(crate) process: Process,
    pub(crate) tunnel: Tunnel,
    pub(crate) registry: Registry,
    pub(crate) shared: Shared,
    pub(crate) agents: SocketAddr,
    /// Address for the API server.
    pub(crate) upgraded: SocketAddr,
    pub(crate) front: SocketAddr,
    pub(crate) files: tempfile::TempDir,
}

impl Replica {
    pub(crate) async fn start(hub: &Hub, limits: Limits) -> Self {
        Self::start_as(hub, limits, "tunnel-0", 1).await
    }

    pub(crate) async fn start_as(hub: &Hub, limits: Limits, server: &str, replicas: u32) -> Self {
        Self::start_with(hub, limits, (server, replicas), None).await
    }

    /// Starts a replica that enrols agents by that authority, which reads Secrets of that API
    /// server.
    pub(crate) async fn start_with(
        hub: &Hub,
        limits: Limits,
        (server, replicas): (&str, u32),
        enrolment: Option<(Signer, Client)>,
    ) -> Self {
        let files = hub.files(&hub.tunnel_leaf(), SystemTime::now());
        let life = limits.certificate;
        let enrolled = enrolment.as_ref().map(|(signer, _)| signer.enrolled(life));
        let enrolment = enrolment.map(|(signer, hub)| Arc::new(Enrolment::new(signer, hub)));
        let process = Process::start(LOCAL.into()).await.expect("a process");
        let metrics = Metrics::default();
        let credentials = Credentials::read_trusting(files.path(), enrolled, &metrics);
        let credentials = credentials.expect("credentials");
        let shared = Shared::new(limits, &metrics);
        let registry = Registry::new(&metrics);
        let hello = Hello {
            server: server.to_owned(),
            replicas,
            protocol: 1,
        };
        let tasks = process.tasks.clone();
        tasks.spawn("certificate", credentials.clone().follow(tasks.shutdown()));
        let tunnel = Tunnel::new(hello, credentials, shared.clone(), registry.clone(), tasks);
        let agents = bind(LOCAL.into()).await.expect("a port");
        let upgraded = bind(LOCAL.into()).await.expect("a port");
        let clients = bind(LOCAL.into()).await.expect("a port");
        let addresses = [&agents, &upgraded, &clients];
        let addresses = addresses.map(|of| of.local_addr().expect("an address"));
        let tasks = &process.tasks;
        let served = tunnel.clone().serve_upgraded_agents(upgraded);
        tasks.spawn("agents of the API server", served);
        tasks.spawn("agents", tunnel.clone().serve_agents(agents, enrolment));
        tasks.spawn("front", tunnel.clone().serve_clients(clients));
        Self {
            process,
            tunnel,
            registry,
            shared,
            agents: addresses[0],
            upgraded: addresses[1],
            front: addresses[2],
            files,
        }
    }

    /// Number of connections of a member's agents.
    pub(crate) fn connections(&self, member: &str) -> usize {
        self.shown(member)["connections"]
            .as_array()
            .map_or(0, Vec::len)
    }

    /// Streams of a member.
    pub(crate) fn streams(&self, member: &str) -> u64 {
        let shown = self.shown(member);
        let connections = shown["connections"].as_array().cloned().unwrap_or_default();
        let streams = connections.iter().map(|one| one["streams"].as_u64());
        streams.map(Option::unwrap_or_default).sum()
    }

    /// The member as `/tunnels` shows it.
    pub(crate) fn shown(&self, member: &str) -> serde_json::Value {
        let shown = self.registry.shown(&self.shared.limits);
        let shown = serde_json::to_value(shown).expect("JSON");
        let all = shown.as_array().expect("a list").iter();
        let found = all.clone().find(|one| one["name"] == member);
        found.cloned().unwrap_or_default()
    }

    pub(crate) async fn connected(&self, member: &str) {
        eventually("the agent is connected", || self.connections(member) > 0).await;
    }

    /// A metric, by its name with labels.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let metrics = causeway::process::metrics::Metrics::default();
        let budget = self.shared.budget.clone();
        let held = move || Some(budget.used() as f64);
        let held = causeway::process::metrics::ComputedGauge::new(held);
        let first_end = |renews| {
            let agents = self.registry.clone();
            let first_end = move || agents.first_end(renews).map(|at| at as f64);
            causeway::process::metrics::ComputedGauge::new(first_end)
        };
        let computed = [held, first_end(false), first_end(true)];
        metrics.register(|registry| self.shared.metrics.register_tunnel(registry, computed));
        let text = metrics.encode_text().expect("metrics");
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_default()
    }

    /// Number of connections of agents that failed for this reason.
    pub(crate) fn failed(&self, reason: &str) -> u64 {
        let name = format!("causeway_tunnel_connections_failed_total{{reason=\"{reason}\"}}");
        self.metric(&name)
    }

    /// Ends the replica at once, as a crash does.
    pub(crate) fn kill(&self) {
        self.process.tasks.shutdown().cancel();
    }
}

/// An agent with its process.
pub(crate) struct Member {
    pub(crate) process: Process,
    pub(crate) agent: Agent,
}

impl Member {
    /// Starts the agent of a member whose API server is at `api`.
    pub(crate) async fn start(hub: &Hub, name: &str, tunnel: SocketAddr, api: SocketAddr) -> Self {
        let files = hub.files(&hub.member_leaf(name), SystemTime::now());
        let proxies = Matcher::builder().build();
        Self::start_by(files.path(), &tunnel.to_string(), api, proxies).await
    }

    /// Starts the agent with these files.
    pub(crate) async fn of(files: &Path, replica: &Replica) -> Self {
        let proxies = Matcher::builder().build();
        let tunnel = replica.agents.to_string();
        Self::start_by(files, &tunnel, api().await, proxies).await
    }

    pub(crate) async fn start_by(
        files: &Path,
        tunnel: &str,
        api: SocketAddr,
        proxies: Matcher,
    ) -> Self {
        Self::start_with(files, tunnel, api, proxies, None).await
    }

    /// Starts an agent that issues tokens.
    pub(crate) async fn issuing(
        files: &Path,
        tunnel: SocketAddr,
        api: SocketAddr,
        tokens: Issuer,
    ) -> Self {
        let proxies = Matcher::builder().build();
        Self::start_with(files, &tunnel.to_string(), api, proxies, Some(tokens)).await
    }

    async fn start_with(
        files: &Path,
        tunnel: &str,
        api: SocketAddr,
        proxies: Matcher,
        tokens: Option<Issuer>,
    ) -> Self {
        let process = Process::start(LOCAL.into()).await.expect("a process");
        let metrics = Metrics::default();
        let peers = Peers {
            route: Route::Dialled(tunnel.parse().expect("an address")),
            proxies,
            api: api.to_string(),
            tokens,
        };
        let credentials = Credentials::read(files, &metrics).expect("credentials");
        let shutdown = process.tasks.shutdown();
        process
            .tasks
            .spawn("certificate", credentials.clone().follow(shutdown));
        let shared = Shared::new(limits(), &metrics);
        let agent = Agent::new(peers, credentials, shared, process.tasks.clone());
        process.tasks.spawn("connections", agent.clone().run());
        Self { process, agent }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.process.tasks.shutdown().cancel();
    }
}

/// An API server: the first byte of a connection chooses its behaviour.
///
/// `E` echoes. `F` sends without end. `I` sends nothing and reads nothing.
pub(crate) async fn api() -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(LOCAL))
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    address
}

async fn serve(mut socket: TcpStream) {
    match socket.read_u8().await {
        Ok(b'E') => {
            let (mut input, mut output) = socket.split();
            tokio::io::copy(&mut input, &mut output).await.ok();
        }
        Ok(b'F') => while socket.write_all(&[7; 16 * 1024]).await.is_ok() {},
        _ => std::future::pending().await,
    }
}

/// A refusal of the front: status and reason.
pub(crate) type Refusal = (u16, String);

/// Connects to the API server of a member.
pub(crate) async fn connect(front: SocketAddr, member: &str) -> Result<TcpStream, Refusal> {
    connect_to(front, member, "10.96.0.1:443").await
}

/// Opens a stream to a member, to that host.
pub(crate) async fn connect_to(
    front: SocketAddr,
    member: &str,
    host: &str,
) -> Result<TcpStream, Refusal> {
    let user = STANDARD.encode(format!("{member}:"));
    let head =
        format!("CONNECT {host} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic {user}\r\n\r\n");
    // A small buffer of the system, so that unread bytes are soon those of causeway-tunnel.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("a size");
    let mut socket = socket.connect(front).await.expect("the front");
    socket.write_all(head.as_bytes()).await.expect("it reads");
    match read_answer(&mut socket).await {
        (200, _) => Ok(socket),
        (status, head) => {
            let reason = head
                .lines()
                .find_map(|line| line.strip_prefix("x-causeway-reason: "));
            Err((status, reason.unwrap_or_default().to_owned()))
        }
    }
}

/// Reads the head of a request or an answer.
pub(crate) async fn read_head(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.expect("a head"));
    }
    String::from_utf8(head).expect("text")
}

/// Reads the head of an answer, and returns its status too.
pub(crate) async fn read_answer(socket: &mut (impl AsyncRead + Unpin)) -> (u16, String) {
    let head = read_head(socket).await;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.expect("a status"), head)
}

/// Sends a byte to an API server that echoes, and waits for it.
pub(crate) async fn echo(socket: &mut TcpStream) {
    socket.write_all(b"?").await.expect("it is written");
    let answered = timeout(SOON, socket.read_u8()).await;
    assert_eq!(answered.expect("in time").expect("an answer"), b'?');
}

/// Opens a stream to an API server that echoes.
pub(crate) async fn echoing(front: SocketAddr, member: &str) -> TcpStream {
    let mut socket = connect(front, member).await.expect("a stream");
    socket.write_all(b"E").await.expect("it is written");
    echo(&mut socket).await;
    socket
}
