//! A machine in the network of a fleet that belongs to no cluster.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::network::{Network, ip};

/// Last number of its address, above those of all nodes.
const NUMBER: u8 = 250;

/// A machine of its own in the network of a fleet: a network namespace without a node.
pub struct Host {
    namespace: String,
    address: Ipv4Addr,
}

impl Host {
    /// Joins its namespace to the bridge.
    pub(crate) fn new(network: &Arc<Network>) -> Self {
        let namespace = network.namespace("host");
        let address = network.address(NUMBER);
        network.add_namespace(&namespace);
        network.join_bridge("outside", "eth0", Some(&namespace));
        let own = format!("{address}/24");
        ip(["-n", &namespace, "address", "add", &own, "dev", "eth0"]);
        ip(["-n", &namespace, "link", "set", "eth0", "up"]);
        Self { namespace, address }
    }

    /// The name of its network namespace, for `ip netns exec`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        self.address.into()
    }

    /// Has every connection refused that it opens, except to the hosts and ports of these URLs.
    /// Connections to it are accepted: the others are to it as if behind NAT.
    pub fn dial_only<'a>(&self, urls: impl IntoIterator<Item = &'a str>) {
        let accept = urls.into_iter().map(|url| {
            let authority = url.trim_start_matches("https://");
            let (host, port) = authority.rsplit_once(':').expect("a URL with a port");
            format!("ip daddr {host} tcp dport {port} accept; ")
        });
        let rules = format!(
            "table inet nat {{ chain dialled {{ type filter hook output priority filter; \
             oif lo accept; ct state established,related accept; {} \
             meta l4proto tcp reject with tcp reset; meta l4proto udp reject; }}; }}",
            accept.collect::<String>()
        );
        ip(["netns", "exec", &self.namespace, "nft", &rules]);
    }
}
