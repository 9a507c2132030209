//! The address at which agents reach causeway-tunnel.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rustls::pki_types::DnsName;

/// Port of an address without one.
const PORT: u16 = 443;

/// Error of an address that is neither `HOST` nor `HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write it as tunnel.example, tunnel.example:443 or [2001:db8::1]:443")]
pub(crate) struct MalformedAddress;

/// Host and port at which agents reach causeway-tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TunnelAddress {
    pub host: Host,
    pub port: u16,
}

/// DNS name, in lower case, or IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Ip(IpAddr),
}

impl FromStr for TunnelAddress {
    type Err = MalformedAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(MalformedAddress)?;
                let host = host.parse().map_err(|_| MalformedAddress)?;
                let port = port.strip_prefix(':').or((port.is_empty()).then_some(""));
                (Host::Ip(IpAddr::V6(host)), port.ok_or(MalformedAddress)?)
            }
            None => {
                let (host, port) = text.split_once(':').unwrap_or((text, ""));
                (Host::parse(host)?, port)
            }
        };
        let port = match port {
            "" if text.ends_with(':') => return Err(MalformedAddress),
            "" => PORT,
            port => port.parse().map_err(|_| MalformedAddress)?,
        };
        (port != 0)
            .then_some(Self { host, port })
            .ok_or(MalformedAddress)
    }
}

impl Host {
    fn parse(text: &str) -> Result<Self, MalformedAddress> {
        if let Ok(ip) = text.parse() {
            return Ok(Self::Ip(IpAddr::V4(ip)));
        }
        let name = DnsName::try_from(text).map_err(|_| MalformedAddress)?;
        Ok(Self::Name(name.as_ref().to_ascii_lowercase()))
    }
}

impl fmt::Display for TunnelAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match &self.host {
            Host::Name(name) => write!(out, "{name}:{port}"),
            Host::Ip(IpAddr::V4(ip)) => write!(out, "{ip}:{port}"),
            Host::Ip(IpAddr::V6(ip)) => write!(out, "[{ip}]:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_a_host_and_a_port() {
        for (text, expected) in [
            ("tunnel.example", "tunnel.example:443"),
            ("Tunnel.Example:8443", "tunnel.example:8443"),
            ("192.0.2.1", "192.0.2.1:443"),
            ("192.0.2.1:7443", "192.0.2.1:7443"),
            ("[2001:db8::1]", "[2001:db8::1]:443"),
            ("[2001:db8::1]:7443", "[2001:db8::1]:7443"),
        ] {
            let address: TunnelAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), expected);
        }
    }

    #[test]
    fn other_text_is_no_address() {
        for text in [
            "",
            ":443",
            "tunnel.example:",
            "tunnel.example:0",
            "tunnel.example:65536",
            "tunnel.example:443/",
            "https://tunnel.example",
            "a@tunnel.example",
            "a b",
            "2001:db8::1",
            "[2001:db8::1",
            "[2001:db8::1]443",
            "[2001:db8::1]:",
            "[tunnel.example]:443",
        ] {
            let read = text.parse::<TunnelAddress>();
            assert_eq!(read, Err(MalformedAddress), "{text}");
        }
    }
}
