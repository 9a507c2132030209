//! Program inside the pods of `verify`: one role connects to paths, the other answers.
//!
//! Neither role uses the Kubernetes API. The dialling role prints a line of JSON for each outcome;
//! the last line of a path counts.

mod dial;
mod names;
mod serve;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::net::NetError;
use serde::{Deserialize, Serialize};

use crate::args::{ProbeArgs, ProbeRole};
use crate::term::exit::{CommandError, ExitState, USAGE};
use crate::term::output::OutputError;

/// Port of the answering role.
pub(super) const PORT: u16 = 8474;
/// Timeout of a connection or a lookup. Linux sends a SYN after 0, 1 and 3 s.
const CONNECT_WITHIN: Duration = Duration::from_secs(4);
/// Timeout of the exchange with the answering role.
const EXCHANGE_WITHIN: Duration = Duration::from_secs(5);
/// Size in bytes that exceeds the usual MTU and requires multiple packets.
const LARGE: usize = 8 * 1024;
/// Answer of a program that is no pod of the run.
pub(super) const OTHER_PROGRAM: &str = "another program";
/// Placeholder for the domain of the cluster, which only a pod of the cluster can read.
pub(super) const CLUSTER_DOMAIN: &str = "$domain";

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

/// Port of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Port {
    pub address: IpAddr,
    pub port: u16,
    #[serde(default, skip_serializing_if = "Protocol::is_tcp")]
    pub protocol: Protocol,
}

impl Port {
    pub(super) fn new(address: impl Into<IpAddr>, port: u16, protocol: Protocol) -> Self {
        Self {
            address: address.into(),
            port,
            protocol,
        }
    }

    fn socket(&self) -> SocketAddr {
        (self.address, self.port).into()
    }
}

/// Path from a pod to a destination of a service name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub(crate) enum Path {
    /// Endpoint of a provider, at one of its ports.
    Endpoint {
        provider: String,
        #[serde(flatten)]
        at: Port,
    },
    /// Port of the Service itself.
    ClusterIp(Port),
    /// Name of the service, with the addresses that it should resolve to.
    Name { name: String, expected: Vec<IpAddr> },
    /// Pod in a provider that answers with the provider's name and echoes large data.
    Server {
        provider: String,
        #[serde(flatten)]
        at: Port,
    },
}

impl Path {
    /// Returns the destination of a path that works if a TCP connection is made.
    fn tcp_destination(&self) -> Option<SocketAddr> {
        match self {
            Self::Endpoint { at, .. } | Self::ClusterIp(at) if at.protocol.is_tcp() => {
                Some(at.socket())
            }
            _ => None,
        }
    }
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
    /// A connection is made to any address, so whether the destination accepts it is unknown.
    Intercepted,
    /// The connection was established and then ended.
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
            Self::NoAnswer | Self::Intercepted => None,
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
    #[error("cannot listen on port {PORT}: {0}")]
    Listen(io::Error),
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
            dial::all(run, services).await
        }
        ProbeRole::Serve { run, cluster } => serve::serve(run, cluster).await,
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endpoint { at, .. } | Self::Server { at, .. } => at.fmt(out),
            Self::ClusterIp(at) => write!(out, "ClusterIP {at}"),
            Self::Name { name, .. } => out.write_str(name),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.socket(), self.protocol)
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

    #[test]
    fn paths_of_tcp_have_the_form_of_earlier_versions() {
        let form = |protocol| {
            let at = Port::new([10, 1, 0, 1], 53, protocol);
            serde_json::to_value(Path::ClusterIp(at)).expect("JSON")
        };
        let tcp = serde_json::json!({"kind": "ClusterIp", "address": "10.1.0.1", "port": 53});
        assert_eq!(form(Protocol::Tcp), tcp);
        assert_eq!(form(Protocol::Dns)["protocol"], "DNS");
        let read: Path = serde_json::from_value(tcp).expect("a path");
        assert_eq!(read.to_string(), "ClusterIP 10.1.0.1:53");
    }
}
