//! Dialling role: connects to paths, and prints the outcome of each.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::names::Names;
use super::serve::Greeting;
use super::{
    CONNECT_WITHIN, Dialled, EXCHANGE_WITHIN, LARGE, OTHER_PROGRAM, Outcome, Path, ProbeError,
    Protocol,
};
use crate::term::exit::ExitState;
use crate::term::output;

/// Pause after which a node reports "host unreachable" again.
const PAUSE: Duration = Duration::from_secs(3);
/// Maximum number of providers that are dialled again. Each takes up to [`PAUSE`] and
/// [`CONNECT_WITHIN`].
const MAX_RETRIED: usize = 3;
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
/// Maximum number of concurrent connections of the dialling role.
const AT_ONCE: usize = 16;
/// Addresses of no server, reserved for documentation (RFC 5737, RFC 3849).
const NOWHERE_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const NOWHERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// Timeout of a connection to an address of no server. A proxy of the pod accepts it at once.
const ACCEPTED_WITHIN: Duration = Duration::from_millis(500);
/// Maximum number of connections to addresses of no server.
const MAX_NOWHERE: usize = 8;
/// Maximum length in bytes of the greeting of the answering role.
const MAX_GREETING: u64 = 256;

/// Dials the paths of each service, and prints each outcome at once. A path whose outcome changes
/// has a second line. Returns [`ExitState::Problem`] if one does not work, and
/// [`ExitState::Unknown`] without any path.
pub(super) async fn all(run: &str, services: Vec<Vec<Path>>) -> Result<ExitState, ProbeError> {
    let names = &Names::of_pod()?;
    let paths = services.into_iter().enumerate();
    let paths = paths.flat_map(|(service, paths)| {
        let paths = paths.into_iter().map(|path| names.complete(path));
        paths.map(move |path| (service, path))
    });
    let dial = async |path: &Path| dial(run, names, path).await;
    let dialled = dial_each(paths.collect(), dial, nowhere, print).await?;
    let none_fails = dialled.iter().all(|one| one.outcome.works() != Some(false));
    Ok(ExitState::new(none_fails, !dialled.is_empty()))
}

/// Dials each path, numbered by its service, and prints each outcome at once, and again if it
/// changes. Only a path that timed out changes. `nowhere` returns an address of no server for a
/// destination of TCP.
async fn dial_each(
    paths: Vec<(usize, Path)>,
    dial: impl AsyncFn(&Path) -> Outcome,
    nowhere: impl Fn(SocketAddr) -> SocketAddr,
    mut print: impl FnMut(&Dialled) -> Result<(), ProbeError>,
) -> Result<Vec<Dialled>, ProbeError> {
    let destinations = paths.iter().filter_map(|(_, path)| path.tcp_destination());
    let accepted = accepted(destinations.map(&nowhere).collect()).await;
    let is_accepted = &|destination: SocketAddr| accepted.contains(&nowhere(destination));
    let dial = &dial;
    let dialled = stream::iter(paths).map(|(service, path)| async move {
        let begun = Instant::now();
        let outcome = match dial(&path).await {
            Outcome::Works if path.tcp_destination().is_some_and(is_accepted) => {
                Outcome::Intercepted
            }
            outcome => outcome,
        };
        let milliseconds = begun.elapsed().as_millis();
        Dialled {
            service,
            path,
            outcome,
            milliseconds: u64::try_from(milliseconds).unwrap_or(u64::MAX),
        }
    });
    let mut dialling = pin!(dialled.buffer_unordered(AT_ONCE));
    let mut dialled = Vec::new();
    while let Some(one) = dialling.next().await {
        print(&one)?;
        dialled.push(one);
    }
    find_missing_routes(&mut dialled, PAUSE, dial, print).await?;
    Ok(dialled)
}

fn print(one: &Dialled) -> Result<(), ProbeError> {
    Ok(output::result(serde_json::to_string(one)?)?)
}

/// Returns an address of no server, with the family and the port of a destination.
fn nowhere(destination: SocketAddr) -> SocketAddr {
    let address: IpAddr = match destination {
        SocketAddr::V4(_) => NOWHERE_V4.into(),
        SocketAddr::V6(_) => NOWHERE_V6.into(),
    };
    (address, destination.port()).into()
}

/// Returns those of the first [`MAX_NOWHERE`] destinations to which a connection is made. If there
/// is one, also returns the destinations beyond these: a connection to them may be made, too.
async fn accepted(destinations: BTreeSet<SocketAddr>) -> BTreeSet<SocketAddr> {
    let connected = destinations.iter().take(MAX_NOWHERE);
    let connected = connected.map(|&destination| async move {
        let connected = timeout(ACCEPTED_WITHIN, TcpStream::connect(destination)).await;
        matches!(connected, Ok(Ok(_))).then_some(destination)
    });
    let connected = join_all(connected).await.into_iter().flatten();
    let mut accepted: BTreeSet<_> = connected.collect();
    if !accepted.is_empty() {
        accepted.extend(destinations.into_iter().skip(MAX_NOWHERE));
    }
    accepted
}

/// Retries one path to each of [`MAX_RETRIED`] providers that timed out, alone and after `pause`.
/// Prints the outcomes that change. A node limits the rate of "host unreachable" to about one in
/// two seconds for each pod (Linux: ip_error and icmp_ratelimit). Among many paths without a route,
/// most therefore time out.
async fn find_missing_routes(
    dialled: &mut [Dialled],
    pause: Duration,
    dial: impl AsyncFn(&Path) -> Outcome,
    mut print: impl FnMut(&Dialled) -> Result<(), ProbeError>,
) -> Result<(), ProbeError> {
    let providers = dialled.iter().filter_map(Dialled::silent_provider);
    let providers: BTreeSet<_> = providers.map(ToOwned::to_owned).collect();
    for provider in providers.into_iter().take(MAX_RETRIED) {
        let is_silent = |one: &Dialled| one.silent_provider() == Some(provider.as_str());
        let Some(first) = dialled.iter().find(|one| is_silent(one)) else {
            continue;
        };
        tokio::time::sleep(pause).await;
        if dial(&first.path).await == Outcome::NoRoute {
            for one in dialled.iter_mut().filter(|one| is_silent(one)) {
                one.outcome = Outcome::NoRoute;
                print(one)?;
            }
        }
    }
    Ok(())
}

async fn dial(run: &str, names: &Names, path: &Path) -> Outcome {
    match path {
        Path::Endpoint { at, .. } | Path::ClusterIp(at) => {
            dial_port(at.socket(), at.protocol).await
        }
        Path::Name { name, expected } => names.look_up(name, expected).await,
        Path::Server { provider, at } => match connect(at.socket()).await {
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
        Ok(Ok(0)) => return Outcome::Reset,
        Ok(Ok(_)) => {}
    }
    let seen = match Greeting::read(&greeting, run) {
        Some(greeting) if greeting.cluster == provider => greeting.seen,
        other => {
            let answered = other.map_or(OTHER_PROGRAM, |greeting| greeting.cluster);
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::super::{Port, serve};
    use super::*;

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
            ("", Outcome::Reset),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tokio::spawn(async move {
                let (stream, _) = listener.accept().await?;
                match greeting {
                    "" => Ok(()),
                    greeting => serve::echo(stream, greeting).await,
                }
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

    #[tokio::test]
    async fn connection_that_something_accepts_for_any_address_is_unknown() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let open = listener.local_addr().expect("an address");
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let refused = closed.local_addr().expect("an address");
        drop(closed);
        let accepting = accepted([open, refused].into()).await;
        assert_eq!(accepting, BTreeSet::from([open]));
        assert_eq!(Outcome::Intercepted.works(), None);

        let others = |first: u16| {
            let ports = first..=9;
            ports.map(|port| SocketAddr::from((Ipv6Addr::LOCALHOST, port)))
        };
        let none = accepted(others(1).collect()).await;
        assert_eq!(none, BTreeSet::new());
        let some = accepted(others(1).chain([open]).collect()).await;
        let expected: BTreeSet<_> = others(8).chain([open]).collect();
        assert_eq!(some, expected);
    }

    #[tokio::test]
    async fn proxy_that_accepts_any_address_makes_paths_unknown() {
        let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let accepting = proxy.local_addr().expect("an address");
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let refusing = closed.local_addr().expect("an address");
        drop(closed);
        let nowhere = |destination: SocketAddr| match destination.port() {
            80 | 82 => accepting,
            _ => refusing,
        };
        let path = |port, protocol| {
            let at = Port::new(Ipv4Addr::LOCALHOST, port, protocol);
            (0, Path::ClusterIp(at))
        };
        let paths = vec![
            path(80, Protocol::Tcp),
            path(81, Protocol::Tcp),
            path(80, Protocol::Udp),
            path(82, Protocol::Tcp),
        ];
        let dial = async |path: &Path| match path.tcp_destination() {
            Some(destination) if destination.port() == 82 => Outcome::Refused,
            _ => Outcome::Works,
        };
        let mut printed = Vec::new();
        let print = |one: &Dialled| {
            printed.push(one.clone());
            Ok(())
        };
        let dialled = dial_each(paths, dial, nowhere, print).await;
        let dialled = dialled.expect("printed");
        let unknown = dialled.iter().filter(|one| one.outcome.works().is_none());
        let shown: Vec<_> = unknown.map(|one| one.path.to_string()).collect();
        assert_eq!(shown, ["ClusterIP 127.0.0.1:80"]);
        assert_eq!(dialled.len(), 4);
        assert_eq!(printed, dialled);
    }

    #[tokio::test]
    async fn three_providers_without_a_route_are_found_by_a_retry() {
        let silent = |provider: usize| Dialled {
            service: 0,
            path: Path::Server {
                provider: format!("member{provider}"),
                at: Port::new(Ipv4Addr::LOCALHOST, 1, Protocol::Tcp),
            },
            outcome: Outcome::TimedOut,
            milliseconds: 1,
        };
        let mut dialled: Vec<_> = [0, 0, 1, 2, 3, 4].map(silent).into();
        let mut printed = Vec::new();
        let no_route = async |_: &Path| Outcome::NoRoute;
        let print = |one: &Dialled| {
            printed.push(one.clone());
            Ok(())
        };
        let found = find_missing_routes(&mut dialled, Duration::ZERO, no_route, print).await;
        found.expect("printed");
        assert_eq!(printed, dialled[..4]);
        let outcomes = dialled.iter().map(|one| &one.outcome);
        let changed = outcomes.filter(|one| **one == Outcome::NoRoute);
        assert_eq!(changed.count(), 4);
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
}
