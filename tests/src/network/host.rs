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
        self.nft(&rules);
    }

    /// Spreads connections to a port over two ports of this machine, as a load balancer without
    /// health checks does.
    pub fn balance(&self, from: u16, to: [u16; 2]) {
        let [one, other] = to;
        let chain = |name: &str, hook: &str| {
            format!(
                "chain {name} {{ type nat hook {hook} priority -100; \
                 tcp dport {from} redirect to :numgen inc mod 2 map {{ 0 : {one}, 1 : {other} }}; }}; "
            )
        };
        let chains = [chain("outside", "prerouting"), chain("inside", "output")].concat();
        self.nft(&format!("table ip balance{from} {{ {chains}}}"));
    }

    /// Drops all packets from and to an address, in silence, until [`Host::heal`].
    pub fn cut(&self, address: &str) {
        self.nft(&format!(
            "table ip cut {{ \
             chain from {{ type filter hook input priority -10; ip saddr {address} drop; }}; \
             chain to {{ type filter hook output priority -10; ip daddr {address} drop; }}; }}"
        ));
    }

    /// Ends a cut.
    pub fn heal(&self) {
        self.nft("delete table ip cut");
    }

    fn nft(&self, rules: &str) {
        ip(["netns", "exec", &self.namespace, "nft", rules]);
    }
}
