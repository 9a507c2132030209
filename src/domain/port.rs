use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::core::v1 as core;

use super::name::dns1123_label;

/// Maximum number of ports that a message names.
const DESCRIBED_MAX: usize = 20;

/// The transport protocol of a Service port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP, the default.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A protocol that no Service port has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol {0:?}; known are TCP, UDP and SCTP")]
pub struct UnknownProtocol(String);

impl Protocol {
    /// The protocol as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(text: &str) -> Result<Self, UnknownProtocol> {
        match text {
            "TCP" => Ok(Self::Tcp),
            "UDP" => Ok(Self::Udp),
            "SCTP" => Ok(Self::Sctp),
            other => Err(UnknownProtocol(other.to_owned())),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Identity of a port of a Service across clusters; its name may differ from cluster to cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId {
    /// The protocol.
    pub protocol: Protocol,
    /// The Service port number.
    pub number: u16,
}

impl fmt::Display for PortId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.protocol)
    }
}

/// A port of a Service, as far as exposure is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePort {
    /// Protocol and number.
    pub id: PortId,
    /// The name; empty where a Service has one port without a name.
    pub name: Box<str>,
}

impl ServicePort {
    /// Reads a port of a Service; `None` where number, protocol or name break the rules of core/v1.
    /// No API server stores such a port, but a hostile member may report one, and the Service of
    /// every member that got it would be refused.
    pub fn read(port: &core::ServicePort) -> Option<Self> {
        let protocol = match &port.protocol {
            Some(text) => text.parse().ok()?,
            None => Protocol::Tcp,
        };
        let number = u16::try_from(port.port).ok().filter(|one| *one > 0)?;
        let name = port.name.as_deref().unwrap_or_default();
        let is_valid = name.is_empty() || dns1123_label(name).is_ok();
        is_valid.then(|| Self {
            id: PortId { protocol, number },
            name: name.into(),
        })
    }
}

impl fmt::Display for ServicePort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            self.id.fmt(out)
        } else {
            write!(out, "{} {}", self.name, self.id)
        }
    }
}

/// One entry of `spec.ports`: a port of the Service by name and number, or every port of that
/// number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExposedPort {
    /// The name in the Service, where one is given.
    pub name: Option<Box<str>>,
    /// The number in the Service.
    pub number: u16,
}

impl ExposedPort {
    /// Whether this entry means that port.
    pub fn means(&self, port: &ServicePort) -> bool {
        self.number == port.id.number && self.name.as_ref().is_none_or(|name| *name == port.name)
    }
}

impl fmt::Display for ExposedPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(out, "{name} {}", self.number),
            None => write!(out, "{}", self.number),
        }
    }
}

/// Exposed ports of the Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExposedPorts {
    /// All that the Service has.
    All,
    /// Those that are named, in the order given; never empty.
    Listed(Vec<ExposedPort>),
}

impl ExposedPorts {
    /// Whether that port is exposed.
    pub fn include(&self, port: &ServicePort) -> bool {
        match self {
            Self::All => true,
            Self::Listed(entries) => entries.iter().any(|entry| entry.means(port)),
        }
    }

    /// The entries that none of these ports is meant by.
    pub fn missing_from<'a>(
        &'a self,
        ports: &'a [ServicePort],
    ) -> impl Iterator<Item = &'a ExposedPort> {
        let entries = match self {
            Self::All => [].as_slice(),
            Self::Listed(entries) => entries,
        };
        entries
            .iter()
            .filter(|entry| !ports.iter().any(|port| entry.means(port)))
    }
}

/// The ports of a Service in a message: `http 80/TCP, metrics 9090/TCP`; of many the first.
pub fn describe_ports<'a>(ports: impl IntoIterator<Item = &'a ServicePort>) -> String {
    let mut ports = ports.into_iter();
    let shown: Vec<_> = ports
        .by_ref()
        .take(DESCRIBED_MAX)
        .map(ToString::to_string)
        .collect();
    match (shown.is_empty(), ports.count()) {
        (true, _) => "no ports".to_owned(),
        (false, 0) => shown.join(", "),
        (false, rest) => format!("{} and {rest} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, number: u16) -> ServicePort {
        ServicePort {
            id: PortId {
                protocol: Protocol::Tcp,
                number,
            },
            name: name.into(),
        }
    }

    #[test]
    fn a_number_alone_means_every_port_of_that_number() {
        let alone = ExposedPort {
            name: None,
            number: 53,
        };
        let named = ExposedPort {
            name: Some("dns".into()),
            number: 53,
        };
        assert!(
            alone.means(&port("dns", 53))
                && alone.means(&port("dns-tcp", 53))
                && !alone.means(&port("dns", 54))
        );
        assert!(named.means(&port("dns", 53)) && !named.means(&port("dns-tcp", 53)));
    }

    #[test]
    fn ports_that_no_service_has_are_not_read() {
        let long = "x".repeat(64);
        for (name, number, protocol, is_read) in [
            (Some("http"), 80, Some("TCP"), true),
            (Some("1-a"), 65_535, Some("SCTP"), true),
            (Some(&long[1..]), 1, Some("UDP"), true),
            (Some(""), 80, None, true),
            (None, 80, None, true),
            (Some("http"), 0, None, false),
            (Some("http"), -1, None, false),
            (Some("http"), 65_536, None, false),
            (Some("HTTP"), 80, None, false),
            (Some("a b"), 80, None, false),
            (Some("a.b"), 80, None, false),
            (Some("-a"), 80, None, false),
            (Some(&*long), 80, None, false),
            (Some("http"), 80, Some("tcp"), false),
        ] {
            let port = core::ServicePort {
                name: name.map(str::to_owned),
                port: number,
                protocol: protocol.map(str::to_owned),
                ..core::ServicePort::default()
            };
            assert_eq!(ServicePort::read(&port).is_some(), is_read, "{port:?}");
        }
    }

    #[test]
    fn ports_are_described_by_name_number_and_protocol() {
        assert_eq!(
            describe_ports(&[port("http", 80), port("", 9090)]),
            "http 80/TCP, 9090/TCP"
        );
        assert_eq!(describe_ports(&[]), "no ports");
        let many: Vec<_> = (1..=1000).map(|number| port("", number)).collect();
        assert!(describe_ports(&many).ends_with("19/TCP, 20/TCP and 980 more"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let exposed = ExposedPorts::Listed(vec![
            ExposedPort {
                name: Some("http".into()),
                number: 80,
            },
            ExposedPort {
                name: None,
                number: 81,
            },
        ]);
        let ports = [port("http", 80)];
        assert_eq!(
            exposed
                .missing_from(&ports)
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            ["81"]
        );
        assert_eq!(ExposedPorts::All.missing_from(&ports).count(), 0);
    }
}
