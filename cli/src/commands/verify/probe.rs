//! Program inside the pods of `verify`: one role connects to paths, the other answers.
//!
//! Neither role uses the Kubernetes API. The dialling role prints one line of JSON for each path.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::system_conf::read_system_conf;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::args::{ProbeArgs, ProbeRole};
use crate::term::exit::{CommandError, ExitState, USAGE};
use crate::term::output::{self, OutputError};

/// Port of the answering role.
pub(super) const PORT: u16 = 8474;
/// Timeout of a connection or a lookup. Linux sends a SYN after 0, 1 and 3 s.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// Pause after which a node reports "host unreachable" again.
const PAUSE: Duration = Duration::from_secs(3);
/// Times after which a datagram is sent again. Their sum is [`CONNECT_WITHIN`].
const RESEND_AFTER: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(1),
];
/// Datagram for a server of an unknown protocol: an empty line, which servers of text ignore.
const PLAIN_DATAGRAM: &[u8] = b"\n";
/// Query for the name servers of the root (RFC 1035, 4.1). It desires no recursion, so that the
/// server answers by itself.
const DNS_QUERY: &[u8] = b"mc\0\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";
/// Maximum size in bytes of an answer that is read. The kernel drops the rest of a datagram.
const MAX_DATAGRAM: usize = 512;
/// Timeout of the exchange with the answering role.
const EXCHANGE_WITHIN: Duration = Duration::from_secs(5);
/// Size in bytes that exceeds the usual MTU and requires multiple packets.
const LARGE: usize = 8 * 1024;
/// Maximum number of concurrent connections of the dialling role.
const AT_ONCE: usize = 16;
/// Maximum number of concurrent connections of the answering role.
const SERVED_AT_ONCE: usize = 64;
/// Maximum length in bytes of the greeting of the answering role.
const MAX_GREETING: u64 = 256;
const GREETING: &str = "causeway-verify/1";

/// Protocol by which a port is dialled.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Protocol {
    /// A TCP connection is made.
    #[default]
    Tcp,
    /// A UDP datagram is sent.
    Udp,
    /// A DNS query is sent by UDP.
    Dns,
}

impl Protocol {
    fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

/// Path from a pod to a destination of a service name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub(crate) enum Path {
    /// Endpoint of a provider, at one of its ports.
    Endpoint {
        provider: String,
        address: IpAddr,
        port: u16,
        #[serde(default, skip_serializing_if = "Protocol::is_tcp")]
        protocol: Protocol,
    },
    /// Port of the Service itself.
    ClusterIp {
        address: IpAddr,
        port: u16,
        #[serde(default, skip_serializing_if = "Protocol::is_tcp")]
        protocol: Protocol,
    },
    /// Name of the service, with the addresses that it should resolve to.
    Name { name: String, expected: Vec<IpAddr> },
    /// Pod in a provider that answers with the provider's name and echoes large data.
    Server {
        provider: String,
        address: IpAddr,
        port: u16,
    },
}

/// Outcome of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result")]
pub(crate) enum Outcome {
    Works,
    /// The provider's pod answers, and observes another source address than the pod's own.
    WorksThroughNat {
        seen: IpAddr,
    },
    /// The destination refused the connection.
    Refused,
    /// A router or the node's own kernel has no route.
    NoRoute,
    TimedOut,
    /// No answer to a datagram. UDP does not tell a server that ignores it from a lost packet.
    NoAnswer,
    /// The connection was established and then reset.
    Reset,
    NameNotFound,
    /// The nameserver did not respond, or returned an error.
    NameserverFailed {
        error: String,
    },
    /// The name resolves to addresses outside of the service.
    WrongAddress {
        found: Vec<IpAddr>,
    },
    /// A pod of another cluster answered.
    WrongCluster {
        answered: String,
    },
    /// Small packets arrive, and large packets are lost.
    LargePacketsLost,
    /// Another error of the kernel.
    Failed {
        error: String,
    },
}

impl Outcome {
    /// Whether clients can use the path. `None` if that is unknown.
    pub(crate) fn works(&self) -> Option<bool> {
        match self {
            Self::Works | Self::WorksThroughNat { .. } => Some(true),
            Self::NoAnswer => None,
            _ => Some(false),
        }
    }
}

/// Path with its outcome: one line of the dialling role's output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dialled {
    /// Index of the service in the arguments.
    pub service: usize,
    pub path: Path,
    pub outcome: Outcome,
    pub milliseconds: u64,
}

impl Dialled {
    /// Returns the provider if the path to it timed out.
    fn silent_provider(&self) -> Option<&str> {
        match (&self.path, &self.outcome) {
            (
                Path::Endpoint { provider, .. } | Path::Server { provider, .. },
                Outcome::TimedOut,
            ) => Some(provider),
            _ => None,
        }
    }
}

/// Failed program in the pod.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    #[error("paths of a service cannot be read: {0}")]
    Paths(#[from] serde_json::Error),
    #[error("cannot listen on port {0}: {1}")]
    Listen(u16, io::Error),
    #[error("cannot read /etc/resolv.conf: {0}")]
    ResolvConf(NetError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl CommandError for ProbeError {
    fn exit_code(&self) -> u8 {
        USAGE
    }
}

/// Runs one role. The dialling role returns [`ExitState::Problem`] if a path does not work.
///
/// # Errors
/// [`ProbeError`] if the arguments are malformed, or if the pod lacks the required network setup.
pub(crate) async fn run(args: &ProbeArgs) -> Result<ExitState, ProbeError> {
    match &args.role {
        ProbeRole::Dial { run, services } => {
            let services = services.iter().map(|paths| serde_json::from_str(paths));
            let services: Vec<Vec<Path>> = services.collect::<Result<_, _>>()?;
            dial_all(run, services).await
        }
        ProbeRole::Serve { run, cluster } => serve(run, cluster, PORT).await,
    }
}

async fn dial_all(run: &str, services: Vec<Vec<Path>>) -> Result<ExitState, ProbeError> {
    let names = Names::of_pod()?;
    let (run, names) = (&run, &names);
    let paths = services.into_iter().enumerate();
    let paths = paths.flat_map(|(service, paths)| {
        let paths = paths.into_iter().map(|path| names.complete(path));
        paths.map(move |path| (service, path))
    });
    let dialled = stream::iter(paths).map(|(service, path)| async move {
        let begun = Instant::now();
        let outcome = dial(run, names, &path).await;
        let milliseconds = begun.elapsed().as_millis();
        Dialled {
            service,
            path,
            outcome,
            milliseconds: u64::try_from(milliseconds).unwrap_or(u64::MAX),
        }
    });
    let mut dialled: Vec<Dialled> = dialled.buffer_unordered(AT_ONCE).collect().await;
    find_missing_routes(run, names, &mut dialled).await;
    for one in &dialled {
        output::result(serde_json::to_string(one)?)?;
    }
    let none_fails = dialled.iter().all(|one| one.outcome.works() != Some(false));
    Ok(ExitState::new(none_fails, true))
}

/// Retries one path to each provider that timed out, alone and after a pause. A node limits the
/// rate of "host unreachable" to about one in two seconds for each pod (Linux: ip_error and
/// icmp_ratelimit). Among many paths without a route, most therefore time out.
async fn find_missing_routes(run: &str, names: &Names, dialled: &mut [Dialled]) {
    let providers = dialled.iter().filter_map(Dialled::silent_provider);
    let providers: BTreeSet<_> = providers.map(ToOwned::to_owned).collect();
    for provider in providers {
        let is_silent = |one: &Dialled| one.silent_provider() == Some(provider.as_str());
        let Some(first) = dialled.iter().find(|one| is_silent(one)) else {
            continue;
        };
        tokio::time::sleep(PAUSE).await;
        if dial(run, names, &first.path).await == Outcome::NoRoute {
            let silent = dialled.iter_mut().filter(|one| is_silent(one));
            silent.for_each(|one| one.outcome = Outcome::NoRoute);
        }
    }
}

async fn dial(run: &str, names: &Names, path: &Path) -> Outcome {
    match path {
        Path::Endpoint {
            address,
            port,
            protocol,
            ..
        }
        | Path::ClusterIp {
            address,
            port,
            protocol,
        } => dial_port((*address, *port).into(), *protocol).await,
        Path::Name { name, expected } => names.look_up(name, expected).await,
        Path::Server {
            provider,
            address,
            port,
        } => match connect((*address, *port).into()).await {
            Ok(stream) => exchange(stream, run, provider).await,
            Err(failed) => failed,
        },
    }
}

async fn dial_port(address: SocketAddr, protocol: Protocol) -> Outcome {
    let outcome = match protocol {
        Protocol::Tcp => connect(address).await.map(|_| Outcome::Works),
        Protocol::Udp => ask(address, PLAIN_DATAGRAM).await.map(|_| Outcome::Works),
        Protocol::Dns => ask(address, DNS_QUERY).await.map(of_dns),
    };
    outcome.unwrap_or_else(|failed| failed)
}

/// Sends a datagram up to three times, and returns the first answer. An ICMP message "port
/// unreachable" is an error of a connected socket (RFC 1122, 4.1.3.3).
async fn ask(address: SocketAddr, datagram: &[u8]) -> Result<Vec<u8>, Outcome> {
    let own: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let failed = |error: io::Error| outcome_of(&error);
    let socket = UdpSocket::bind((own, 0)).await.map_err(failed)?;
    socket.connect(address).await.map_err(failed)?;
    let mut answer = [0; MAX_DATAGRAM];
    for pause in RESEND_AFTER {
        socket.send(datagram).await.map_err(failed)?;
        if let Ok(received) = timeout(pause, socket.recv(&mut answer)).await {
            let length = received.map_err(failed)?;
            return Ok(answer.get(..length).unwrap_or_default().to_vec());
        }
    }
    Err(Outcome::NoAnswer)
}

/// Returns the outcome of an answer to [`DNS_QUERY`]. Any response is one of a DNS server, with an
/// error too.
fn of_dns(answer: Vec<u8>) -> Outcome {
    const HEADER: usize = 12;
    const IS_RESPONSE: u8 = 0x80;
    let is_ours = answer.len() >= HEADER && answer.get(..2) == DNS_QUERY.get(..2);
    let is_response = answer.get(2).is_some_and(|flags| flags & IS_RESPONSE != 0);
    match is_ours && is_response {
        true => Outcome::Works,
        false => Outcome::Failed {
            error: "its answer is no DNS response".to_owned(),
        },
    }
}

async fn connect(address: SocketAddr) -> Result<TcpStream, Outcome> {
    match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
        Ok(connected) => connected.map_err(|error| outcome_of(&error)),
        Err(_) => Err(Outcome::TimedOut),
    }
}

fn outcome_of(error: &io::Error) -> Outcome {
    match error.kind() {
        ErrorKind::ConnectionRefused => Outcome::Refused,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Outcome::NoRoute,
        ErrorKind::TimedOut => Outcome::TimedOut,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
            Outcome::Reset
        }
        _ => Outcome::Failed {
            error: error.to_string(),
        },
    }
}

/// Reads the greeting of the answering role, and then requests an echo of large data.
async fn exchange(stream: TcpStream, run: &str, provider: &str) -> Outcome {
    let mut stream = BufReader::new(stream);
    let mut greeting = String::new();
    let mut bounded = (&mut stream).take(MAX_GREETING);
    let greeted = bounded.read_line(&mut greeting);
    match timeout(EXCHANGE_WITHIN, greeted).await {
        Err(_) => return Outcome::TimedOut,
        Ok(Err(error)) => return outcome_of(&error),
        Ok(Ok(_)) => {}
    }
    let seen = match Greeting::read(&greeting, run) {
        Some(greeting) if greeting.cluster == provider => greeting.seen,
        other => {
            let answered = other.map_or("another program", |greeting| greeting.cluster);
            return Outcome::WrongCluster {
                answered: answered.to_owned(),
            };
        }
    };
    let own = stream.get_ref().local_addr().map(|own| own.ip());
    let echoed = async {
        stream.write_all(&[0; LARGE]).await?;
        let mut answer = [0; LARGE];
        stream.read_exact(&mut answer).await
    };
    match timeout(EXCHANGE_WITHIN, echoed).await {
        Ok(Ok(_)) if own.is_ok_and(|own| own != seen) => Outcome::WorksThroughNat { seen },
        Ok(Ok(_)) => Outcome::Works,
        Ok(Err(error)) => outcome_of(&error),
        Err(_) => Outcome::LargePacketsLost,
    }
}

/// First line of the answering role: `causeway-verify/1 RUN CLUSTER ADDRESS`.
struct Greeting<'a> {
    cluster: &'a str,
    /// Address of the dialling pod, as observed by the answering role.
    seen: IpAddr,
}

impl<'a> Greeting<'a> {
    /// Parses a greeting. Returns `None` for a greeting of another run or another program.
    fn read(line: &'a str, run: &str) -> Option<Self> {
        let mut words = line.trim_end().split(' ');
        let is_ours = words.next() == Some(GREETING) && words.next() == Some(run);
        let (cluster, seen) = is_ours.then(|| words.next().zip(words.next())).flatten()?;
        let seen = seen.parse().ok()?;
        Some(Self { cluster, seen })
    }
}

/// Answers until the pod is deleted.
async fn serve(run: &str, cluster: &str, port: u16) -> Result<ExitState, ProbeError> {
    // A node without IPv6 has no `::`.
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(_) => TcpListener::bind(("0.0.0.0", port)).await,
        bound => bound,
    };
    let listener = listener.map_err(|error| ProbeError::Listen(port, error))?;
    let greeting: Arc<str> = format!("{GREETING} {run} {cluster}").into();
    let free = Arc::new(Semaphore::new(SERVED_AT_ONCE));
    loop {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else {
            return Ok(ExitState::Good);
        };
        let Ok((stream, caller)) = listener.accept().await else {
            continue;
        };
        let greeting = Arc::clone(&greeting);
        tokio::spawn(async move {
            // The dialling role reports a broken connection at its own end.
            let seen = caller.ip().to_canonical();
            let greeting = format!("{greeting} {seen}\n");
            timeout(2 * EXCHANGE_WITHIN, echo(stream, &greeting))
                .await
                .ok();
            drop(permit);
        });
    }
}

async fn echo(mut stream: TcpStream, greeting: &str) -> io::Result<()> {
    stream.write_all(greeting.as_bytes()).await?;
    let mut data = [0; LARGE];
    stream.read_exact(&mut data).await?;
    stream.write_all(&data).await?;
    stream.shutdown().await
}

/// DNS configuration of a pod.
struct Names {
    resolver: TokioResolver,
    /// Domain of the cluster, for example `cluster.local`.
    domain: String,
}

impl Names {
    /// Reads the resolver configuration of the pod (Kubernetes, "DNS for Services and Pods").
    fn of_pod() -> Result<Self, ProbeError> {
        let (config, mut options) = read_system_conf().map_err(ProbeError::ResolvConf)?;
        let search = config.search().iter().map(ToString::to_string);
        let domain = cluster_domain(search);
        options.timeout = CONNECT_WITHIN;
        options.attempts = 1;
        // Each lookup must reach the nameserver.
        options.cache_size = 0;
        let resolver = TokioResolver::builder_with_config(config, Default::default());
        let resolver = resolver.with_options(options).build();
        Ok(Self {
            resolver: resolver.map_err(ProbeError::ResolvConf)?,
            domain,
        })
    }

    /// Replaces the placeholder of the cluster's domain in a name.
    fn complete(&self, path: Path) -> Path {
        match path {
            Path::Name { name, expected } => Path::Name {
                name: name.replace(CLUSTER_DOMAIN, &self.domain),
                expected,
            },
            other => other,
        }
    }

    /// Resolves a name and compares its addresses with those of the service.
    async fn look_up(&self, name: &str, expected: &[IpAddr]) -> Outcome {
        let found = match timeout(2 * CONNECT_WITHIN, self.resolver.lookup_ip(name)).await {
            Ok(found) => found,
            Err(_) => return Outcome::TimedOut,
        };
        let found: Vec<_> = match found {
            Ok(found) => found.iter().collect(),
            Err(error) if error.is_no_records_found() || error.is_nx_domain() => {
                return Outcome::NameNotFound;
            }
            Err(error) => {
                return Outcome::NameserverFailed {
                    error: error.to_string(),
                };
            }
        };
        compare(found, expected)
    }
}

/// Placeholder for the domain of the cluster, which only a pod of the cluster can read.
pub(super) const CLUSTER_DOMAIN: &str = "$domain";

/// Returns the domain of the cluster from the search path of its pods.
fn cluster_domain(search: impl Iterator<Item = String>) -> String {
    const DEFAULT: &str = "cluster.local";
    let mut search = search.map(|name| name.trim_end_matches('.').to_owned());
    let domain = search.find_map(|name| name.strip_prefix("svc.").map(ToOwned::to_owned));
    domain.unwrap_or_else(|| DEFAULT.to_owned())
}

/// Compares resolved addresses with those of the service. A subset is correct, because resolvers
/// query both address families and servers truncate answers.
fn compare(found: Vec<IpAddr>, expected: &[IpAddr]) -> Outcome {
    if found.is_empty() {
        Outcome::NameNotFound
    } else if found.iter().all(|address| expected.contains(address)) {
        Outcome::Works
    } else {
        Outcome::WrongAddress { found }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint {
                address,
                port,
                protocol,
                ..
            } => write!(out, "{}{protocol}", SocketAddr::from((*address, *port))),
            Self::Server { address, port, .. } => SocketAddr::from((*address, *port)).fmt(out),
            Self::ClusterIp {
                address,
                port,
                protocol,
            } => {
                let address = SocketAddr::from((*address, *port));
                write!(out, "ClusterIP {address}{protocol}")
            }
            Self::Name { name, .. } => out.write_str(name),
        }
    }
}

/// Writes the suffix of a port that is not dialled by TCP.
impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tcp => "",
            Self::Udp => "/UDP",
            Self::Dns => "/UDP (DNS)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(all: &[&str]) -> Vec<IpAddr> {
        let all = all.iter();
        all.map(|one| one.parse().expect("an address")).collect()
    }

    #[test]
    fn names_are_compared_with_the_addresses_of_the_service() {
        for (found, expected, outcome) in [
            (&["10.0.0.1"][..], &["10.0.0.1"][..], Outcome::Works),
            (&["10.0.0.1"], &["10.0.0.1", "fd00::1"], Outcome::Works),
            (&[], &["10.0.0.1"], Outcome::NameNotFound),
            (
                &["10.0.0.1", "10.0.0.2"],
                &["10.0.0.1"],
                Outcome::WrongAddress {
                    found: addresses(&["10.0.0.1", "10.0.0.2"]),
                },
            ),
        ] {
            let compared = compare(addresses(found), &addresses(expected));
            assert_eq!(compared, outcome, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn cluster_domain_is_read_from_the_search_path() {
        for (search, domain) in [
            (
                &[
                    "shop.svc.corp.example.",
                    "svc.corp.example.",
                    "corp.example.",
                ][..],
                "corp.example",
            ),
            (&["example.com."], "cluster.local"),
            (&[], "cluster.local"),
        ] {
            let search = search.iter().map(|one| (*one).to_owned());
            assert_eq!(cluster_domain(search), domain);
        }
    }

    #[test]
    fn greetings_of_other_runs_and_programs_name_no_cluster() {
        for (greeting, cluster) in [
            ("causeway-verify/1 r1 member1 10.0.0.1\n", Some("member1")),
            ("causeway-verify/1 r2 member1 10.0.0.1\n", None),
            ("causeway-verify/1 r1 member1 nowhere\n", None),
            ("HTTP/1.1 400 Bad Request\r\n", None),
            ("", None),
        ] {
            let read = Greeting::read(greeting, "r1");
            assert_eq!(read.map(|one| one.cluster), cluster, "{greeting:?}");
        }
    }

    #[tokio::test]
    async fn outcomes_of_an_answering_and_a_closed_port_differ() {
        let nat = "192.0.2.1".parse().expect("an address");
        let wrong = |answered: &str| Outcome::WrongCluster {
            answered: answered.to_owned(),
        };
        for (greeting, outcome) in [
            ("causeway-verify/1 r1 member1 127.0.0.1\n", Outcome::Works),
            (
                "causeway-verify/1 r1 member1 192.0.2.1\n",
                Outcome::WorksThroughNat { seen: nat },
            ),
            ("causeway-verify/1 r1 member2 127.0.0.1\n", wrong("member2")),
            ("220 mail.example ESMTP\n", wrong("another program")),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tokio::spawn(async move {
                let (stream, _) = listener.accept().await?;
                echo(stream, greeting).await
            });
            let stream = connect(address).await.expect("a connection");
            assert_eq!(exchange(stream, "r1", "member1").await, outcome);
        }
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = closed.local_addr().expect("an address");
        drop(closed);
        assert_eq!(
            connect(address).await.expect_err("closed"),
            Outcome::Refused
        );
    }

    /// Starts a UDP server that sends an answer to each datagram, unless the answer is empty.
    async fn served(answer: &'static [u8]) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let address = socket.local_addr().expect("an address");
        tokio::spawn(async move {
            let mut datagram = [0; 64];
            while let Ok((_, caller)) = socket.recv_from(&mut datagram).await {
                if !answer.is_empty() {
                    socket.send_to(answer, caller).await.expect("sent");
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn silence_of_a_udp_port_is_neither_good_nor_bad() {
        const REFUSED: &[u8] = b"mc\x80\x05\0\0\0\0\0\0\0\0";
        let no_dns = Outcome::Failed {
            error: "its answer is no DNS response".to_owned(),
        };
        let cases = [
            (Protocol::Udp, &b"pong"[..], Outcome::Works),
            (Protocol::Udp, &[7; 4 * MAX_DATAGRAM], Outcome::Works),
            (Protocol::Udp, b"", Outcome::NoAnswer),
            (Protocol::Dns, REFUSED, Outcome::Works),
            (Protocol::Dns, DNS_QUERY, no_dns.clone()),
            (Protocol::Dns, b"pong", no_dns),
            (Protocol::Dns, b"", Outcome::NoAnswer),
        ];
        let cases = cases.map(|(protocol, answer, outcome)| async move {
            let dialled = dial_port(served(answer).await, protocol).await;
            assert_eq!(dialled, outcome, "{protocol:?} {answer:?}");
        });
        futures::future::join_all(cases).await;
        for (outcome, works) in [
            (Outcome::Works, Some(true)),
            (Outcome::NoAnswer, None),
            (Outcome::Refused, Some(false)),
        ] {
            assert_eq!(outcome.works(), works, "{outcome:?}");
        }
    }

    #[tokio::test]
    async fn closed_udp_port_refuses_by_icmp() {
        for own in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no ::1.
            let Ok(closed) = UdpSocket::bind(own).await else {
                continue;
            };
            let address = closed.local_addr().expect("an address");
            drop(closed);
            for protocol in [Protocol::Udp, Protocol::Dns] {
                assert_eq!(
                    dial_port(address, protocol).await,
                    Outcome::Refused,
                    "{own}"
                );
            }
        }
    }

    #[test]
    fn paths_of_tcp_have_the_form_of_earlier_versions() {
        let form = |protocol| {
            let address = [10, 1, 0, 1].into();
            let port = 53;
            serde_json::to_value(Path::ClusterIp {
                address,
                port,
                protocol,
            })
            .expect("JSON")
        };
        let tcp = serde_json::json!({"kind": "ClusterIp", "address": "10.1.0.1", "port": 53});
        assert_eq!(form(Protocol::Tcp), tcp);
        assert_eq!(form(Protocol::Dns)["protocol"], "DNS");
        let read: Path = serde_json::from_value(tcp).expect("a path");
        assert_eq!(read.to_string(), "ClusterIP 10.1.0.1:53");
    }
}
