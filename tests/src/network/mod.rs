//! Real packets: a network namespace per node, and mostly one node per member, joined by a bridge;
//! a pod is one more namespace behind its node's. Needs root on Linux.
//!
//! ```text
//!   this machine            <fleet>-net            <fleet>-member1           <fleet>-pod3
//!   198.18.N.1 --veth--  bridge "clusters"  --veth--  198.18.N.11   --veth--  10.129.0.12
//!   API servers             (one more veth             kube-proxy              serve
//!                            per member)               CoreDNS
//! ```

mod address;
mod host;
mod node;
mod prerequisites;

pub use host::Host;
pub use node::PodNetwork;
pub use prerequisites::{dig, prerequisites};

pub(crate) use address::endpoint_address;
pub(crate) use node::NodeNetwork;
use prerequisites::is_root;
pub(crate) use prerequisites::{have, have_file, have_unstarted};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::control_plane::{pod_cidr, pod_cidr_v6, secret};
use crate::reaper::{Reaper, Undo, Undone};

/// A fleet has fewer clusters than that.
pub(crate) const CLUSTERS: u8 = 60;

/// Ranges outside the networks of pods, of IPv4 and of IPv6: addresses of nodes, of load balancers
/// (RFC 5737), and of Services.
const OUTSIDE: [&str; 2] = [
    "{ 198.18.0.0/15, 203.0.113.0/24, 10.64.0.0/10 }",
    "{ fd00:18::/32 }",
];

/// Settings of the kernel in each network namespace. A client that sends 500 requests per second
/// has used all its ports after a minute, unless it uses those of closed connections again.
const SETTINGS: &str = "cd /proc/sys/net
echo 1 > ipv4/ip_forward
echo 1 > ipv4/tcp_tw_reuse
echo 0 > ipv4/conf/all/rp_filter
echo 0 > ipv4/conf/default/rp_filter
[ -d ipv6 ] || exit 0
echo 1 > ipv6/conf/all/forwarding
echo 0 > ipv6/conf/default/accept_dad
";

/// Second number of the addresses of pods in all clusters without a route to each other's pods.
pub(crate) const SHARED_BLOCK: u8 = 244;

/// Place of a node in the network of its fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The number of its cluster, below [`CLUSTERS`].
    pub(crate) cluster: u8,
    /// Its own in the cluster, from 0 to 3.
    pub(crate) node: u8,
    /// Ranges of its pods' addresses: of IPv4, then of IPv6 if the cluster has both.
    pub(crate) pods: Vec<String>,
    /// Whether no other cluster has a route to its pods, whose range others may have too.
    pub(crate) is_alone: bool,
}

impl Site {
    /// Returns the sites of so many nodes of a cluster. More than one share the ranges of its pods.
    pub(crate) fn of_cluster(cluster: u8, nodes: u8, pod_block: u8, dual_stack: bool) -> Vec<Self> {
        let pods = |node: u8| {
            let [four, six] = match nodes {
                1 => [pod_cidr(pod_block), pod_cidr_v6(pod_block)],
                _ => [
                    format!("10.{pod_block}.{}.0/18", 64 * node),
                    format!("fd00:{pod_block}:{node}::/48"),
                ],
            };
            std::iter::once(four).chain(dual_stack.then_some(six))
        };
        let site = |node| Self {
            cluster,
            node,
            pods: pods(node).collect(),
            is_alone: pod_block == SHARED_BLOCK,
        };
        (0..nodes).map(site).collect()
    }
}

/// The network of one fleet: names and addresses that no other fleet has.
pub(crate) struct Network {
    reaper: Arc<Reaper>,
    /// Begins the names of all its namespaces and interfaces.
    name: String,
    /// The third number of its addresses, 198.18.N.x (RFC 2544: no real network is there).
    subnet: u8,
    next_pod: AtomicU32,
}

impl Network {
    /// Makes the bridge and joins this machine to it.
    pub(crate) fn new(reaper: &Arc<Reaper>) -> Self {
        let name = format!("cw{}", &secret()[..6]);
        let network = Self {
            reaper: Arc::clone(reaper),
            subnet: free_subnet(),
            next_pod: AtomicU32::new(1),
            name,
        };
        let bridge = network.namespace("net");
        network.add_namespace(&bridge);
        ip(["-n", &bridge, "link", "add", "clusters", "type", "bridge"]);
        ip(["-n", &bridge, "link", "set", "clusters", "up"]);
        let host = network.name.clone();
        // The kernel would take its time to remove it with the bridge's namespace.
        let delete = ["ip", "link", "delete", &host].map(str::to_owned);
        reaper.at_the_end(&Undo::Run(delete.to_vec()));
        network.join_bridge("host", &host, None);
        let address = format!("{}/24", network.host_address());
        ip(["address", "add", &address, "dev", &host]);
        ip(["link", "set", &host, "up"]);
        network
    }

    /// The address of this machine: what API servers listen on.
    pub(crate) fn host_address(&self) -> IpAddr {
        IpAddr::V4(self.address(1))
    }

    pub(crate) fn node_address(&self, site: &Site) -> Ipv4Addr {
        self.address(10 + CLUSTERS * site.node + site.cluster)
    }

    fn node_address_v6(&self, site: &Site) -> Ipv6Addr {
        let [.., last] = self.node_address(site).octets();
        Ipv6Addr::new(0xfd00, 0x18, self.subnet.into(), 0, 0, 0, 0, last.into())
    }

    /// Returns the addresses of a node: of IPv4, then of IPv6 if its cluster has both.
    fn node_addresses(&self, site: &Site) -> Vec<String> {
        let four = self.node_address(site).to_string();
        let both = [four, self.node_address_v6(site).to_string()];
        both.into_iter().take(site.pods.len()).collect()
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.subnet, last)
    }

    fn namespace(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    fn fresh_pod(&self) -> u32 {
        self.next_pod.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a namespace that goes with the fleet.
    fn add_namespace(&self, namespace: &str) -> Undone {
        let delete = ["ip", "netns", "delete", namespace].map(str::to_owned);
        let undone = self.reaper.at_the_end(&Undo::Run(delete.to_vec()));
        ip(["netns", "add", namespace]);
        ip(["-n", namespace, "link", "set", "lo", "up"]);
        ip(["netns", "exec", namespace, "sh", "-ec", SETTINGS]);
        undone
    }

    /// A link from the bridge to `inside`, in this namespace or on the machine itself.
    fn join_bridge(&self, port: &str, inside: &str, namespace: Option<&str>) {
        let bridge = self.namespace("net");
        // Made in the bridge's namespace, so that the link goes with it whatever happens in
        // between.
        let mut make = vec![
            "-n", &bridge, "link", "add", port, "type", "veth", "peer", "name", inside,
        ];
        let own = std::process::id().to_string();
        make.extend(["netns", namespace.unwrap_or(&own)]);
        ip(make);
        ip([
            "-n", &bridge, "link", "set", port, "master", "clusters", "up",
        ]);
    }
}

/// A subnet that this machine has no address in.
fn free_subnet() -> u8 {
    let known = ip(["-brief", "address", "show"]);
    let random = u8::from_str_radix(&secret()[..2], 16).unwrap_or_default();
    (0..=u8::MAX)
        .map(|step| random.wrapping_add(step))
        .find(|subnet| !known.contains(&format!(" 198.18.{subnet}.")))
        .expect("a free subnet in 198.18.0.0/16")
}

/// Runs `ip`, and returns what it prints.
fn ip<'a>(args: impl IntoIterator<Item = &'a str>) -> String {
    let args: Vec<&str> = args.into_iter().collect();
    let output = Command::new("ip")
        .args(&args)
        .output()
        .unwrap_or_else(|e| panic!("cannot run ip: {e}"));
    assert!(
        output.status.success(),
        "`ip {}` failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
