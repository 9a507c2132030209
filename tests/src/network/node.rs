//! The network of one node: its namespace, its kube-proxy, its cluster's DNS, its pods.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::binaries::Testbed;
use crate::control_plane::{ControlPlane, service_cidr, service_cidr_v6};
use crate::dns;
use crate::eventually::{START, eventually};
use crate::kubectl::{Command, Output};
use crate::network::{Network, OUTSIDE, Site, ip};
use crate::reaper::{Process, Program, Reaper, Undo, Undone};

/// The ports that every pod listens on.
const POD_PORTS: [u16; 2] = [80, 8080];

/// Router of the pods, for IPv4 and for IPv6; no device has these addresses.
const ROUTERS: [&str; 2] = ["169.254.1.1", "fe80::1"];
const ROUTER_MAC: &str = "02:00:00:00:00:01";

/// A node's part of the network.
pub(crate) struct NodeNetwork {
    network: Arc<Network>,
    namespace: String,
    site: Site,
    proxy_mode: &'static str,
    services: Mutex<Vec<Process>>,
}

impl NodeNetwork {
    /// Joins a namespace for the node at this site to the bridge; `all` are those of the fleet.
    pub(crate) fn new(network: &Arc<Network>, name: &str, site: Site, all: &[Site]) -> Self {
        let namespace = network.namespace(name);
        network.add_namespace(&namespace);
        let port = format!("m{}-{}", site.cluster, site.node);
        network.join_bridge(&port, "eth0", Some(&namespace));
        ip(["-n", &namespace, "link", "set", "eth0", "up"]);
        let node = Self {
            network: Arc::clone(network),
            namespace,
            site,
            proxy_mode: "nftables",
            services: Mutex::default(),
        };
        node.add_routes(all);
        node.write_resolv_conf(&node.namespace);
        node
    }

    /// Adds its addresses, and its routes to the other nodes' pods.
    fn add_routes(&self, all: &[Site]) {
        let Self {
            namespace, site, ..
        } = self;
        // Without a route packets to a Service would be refused before kube-proxy's rules see them.
        let services = [service_cidr(site.cluster), service_cidr_v6(site.cluster)];
        for ((address, length), services) in
            self.node_addresses().iter().zip(["24", "64"]).zip(services)
        {
            let address = format!("{address}/{length}");
            ip([
                "-n", namespace, "address", "add", &address, "dev", "eth0", "nodad",
            ]);
            ip(["-n", namespace, "route", "add", &services, "dev", "eth0"]);
        }
        let is_reached = |other: &&Site| {
            let is_near = other.cluster == site.cluster;
            is_near || !other.is_alone && !site.is_alone
        };
        let others = all.iter().filter(|other| *other != site);
        for other in others.filter(is_reached) {
            let routes = other.pods.iter().zip(self.network.node_addresses(other));
            for (pods, via) in routes.take(site.pods.len()) {
                ip(["-n", namespace, "route", "add", pods, "via", &via]);
            }
        }
        if all.iter().any(|site| site.is_alone) {
            masquerade(namespace, &site.pods);
        }
    }

    /// Has kube-proxy write rules of iptables, not of nftables.
    pub(crate) fn by_iptables(self) -> Self {
        Self {
            proxy_mode: "iptables",
            ..self
        }
    }

    /// Adds routes from this machine, and with it from the API servers, to the pods of the node and
    /// by the first node to the Services of its cluster. Pods of a separate network get none:
    /// others have their range too.
    pub(crate) fn route_here(&self) {
        let via = self.node_address();
        if !self.site.is_alone {
            ip(["route", "add", &self.site.pods[0], "via", &via]);
        }
        if self.site.node == 0 {
            let services = service_cidr(self.site.cluster);
            ip(["route", "add", &services, "via", &via]);
        }
    }

    /// Returns its place in the network.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The IPv4 address of the node.
    pub(crate) fn node_address(&self) -> String {
        self.network.node_address(&self.site).to_string()
    }

    /// Returns its addresses: of IPv4, then of IPv6 if its cluster has both.
    pub(crate) fn node_addresses(&self) -> Vec<String> {
        self.network.node_addresses(&self.site)
    }

    /// Starts kube-proxy and, on the first node of a cluster, CoreDNS, once the node is there, and
    /// waits until names are answered.
    pub(crate) async fn start(&self, cluster: &ControlPlane) {
        let mut programs = vec![(self.kube_proxy(cluster), "http://127.0.0.1:10256/healthz")];
        if self.site.node == 0 {
            dns::allow(cluster).await;
            programs.push((dns::core_dns(cluster), "http://127.0.0.1:8181/ready"));
        }
        for (program, ready) in programs {
            let process = cluster.reaper().run(program.in_network(&self.namespace));
            let name = process.log().display().to_string();
            eventually(&format!("what logs to {name} is ready"), START, || async {
                assert!(process.is_running(), "it ended:\n{}", process.log_tail(20));
                let answer = self.exec(cluster, "curl", ["-sSf", "-m2", ready]).await;
                let log = || format!("{}{}", answer.stderr, process.log_tail(20));
                answer.exit.success().then_some(()).ok_or_else(log)
            })
            .await;
            self.services.lock().push(process);
        }
    }

    /// Runs a program on the node.
    pub(crate) async fn exec<'a>(
        &self,
        cluster: &ControlPlane,
        program: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Output {
        exec(cluster, &self.namespace, program, args).await
    }

    /// A pod's namespace: it listens on ports 80 and 8080 of its addresses, at most one of each
    /// family, and answers every request with `text`.
    pub(crate) async fn add_pod(
        &self,
        cluster: &ControlPlane,
        addresses: &[String],
        text: &str,
    ) -> PodNetwork {
        let number = self.network.fresh_pod();
        let pod = self.network.namespace(&format!("pod{number}"));
        let link = format!("pod{number}");
        let undone = [
            self.network.add_namespace(&pod),
            self.write_resolv_conf(&pod),
        ];
        ip([
            "-n",
            &self.namespace,
            "link",
            "add",
            &link,
            "address",
            ROUTER_MAC,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            &pod,
        ]);
        ip(["-n", &self.namespace, "link", "set", &link, "up"]);
        ip(["-n", &pod, "link", "set", "eth0", "up"]);
        for address in addresses {
            let is_six = address.contains(':');
            let router = ROUTERS[usize::from(is_six)];
            let (family, length) = if is_six { ("-6", 128) } else { ("-4", 32) };
            let alone = format!("{address}/{length}");
            let inside = |args: &str| {
                let args = args.split(' ');
                ip([family, "-n", &pod].into_iter().chain(args));
            };
            inside(&format!("address add {alone} dev eth0 nodad"));
            inside(&format!("route add {router} dev eth0"));
            inside(&format!(
                "neighbour add {router} lladdr {ROUTER_MAC} dev eth0"
            ));
            inside(&format!("route add default via {router} dev eth0"));
            ip(["-n", &self.namespace, "route", "add", &alone, "dev", &link]);
        }

        let log = cluster.directory().join(format!("{link}.log"));
        let at = |address: &String| match address.contains(':') {
            true => POD_PORTS.map(|port| format!("[{address}]:{port}")),
            false => POD_PORTS.map(|port| format!("{address}:{port}")),
        };
        let serve = Program::new(Testbed::get().program("pod"), &log)
            .args(["serve", text])
            .args(addresses.iter().flat_map(at))
            .in_network(&pod);
        let serve = cluster.reaper().run(serve);
        eventually("the pod listens", START, || async {
            std::fs::read_to_string(&log).is_ok_and(|log| log.contains("listening"))
        })
        .await;
        PodNetwork {
            reaper: Arc::clone(&self.network.reaper),
            namespace: pod,
            serve,
            undone,
        }
    }

    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let services = self.services.lock();
        let logs = services.iter().map(|service| service.log().to_path_buf());
        logs.collect()
    }

    fn kube_proxy(&self, cluster: &ControlPlane) -> Program {
        let name = cluster.node_name_of(self.site.node);
        let log = cluster.directory().join(format!("kube-proxy-{name}.log"));
        Program::new(Testbed::get().program("kube-proxy"), log).args([
            format!(
                "--kubeconfig={}",
                cluster.kubeconfig_of("kube-proxy").display()
            ),
            format!("--proxy-mode={}", self.proxy_mode),
            format!("--hostname-override={name}"),
            format!("--cluster-cidr={}", cluster.pod_cidrs().join(",")),
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0".to_owned(),
            "--healthz-bind-address=127.0.0.1:10256".to_owned(),
            "--metrics-bind-address=127.0.0.1:10249".to_owned(),
        ])
    }

    /// Names are asked of the cluster's own DNS; `ip netns exec` shows this file as
    /// /etc/resolv.conf.
    fn write_resolv_conf(&self, namespace: &str) -> Undone {
        let directory = resolv_conf_directory(namespace);
        let undone = self
            .network
            .reaper
            .at_the_end(&Undo::Remove(directory.clone()));
        std::fs::create_dir_all(&directory).expect("a directory in /etc/netns");
        let content = format!(
            "nameserver {}\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
            self.node_address()
        );
        std::fs::write(directory.join("resolv.conf"), content).expect("a resolv.conf");
        undone
    }
}

/// Has packets of pods leave their network with the node's own address, as CNI plugins do.
fn masquerade(namespace: &str, pods: &[String]) {
    for ((family, pods), outside) in ["ip", "ip6"].into_iter().zip(pods).zip(OUTSIDE) {
        let rules = format!(
            "table {family} pods {{ chain leave {{ type nat hook postrouting priority srcnat; \
             {family} saddr {pods} {family} daddr {outside} masquerade; }}; }}"
        );
        ip(["netns", "exec", namespace, "nft", &rules]);
    }
}

fn resolv_conf_directory(namespace: &str) -> PathBuf {
    Path::new("/etc/netns").join(namespace)
}

/// The network of a pod. Dropping it ends the pod's server.
pub struct PodNetwork {
    reaper: Arc<Reaper>,
    namespace: String,
    serve: Process,
    undone: [Undone; 2],
}

impl PodNetwork {
    /// The name of its network namespace, for `ip netns exec`.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Runs a program in it.
    pub async fn exec<'a>(
        &self,
        cluster: &ControlPlane,
        program: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Output {
        exec(cluster, &self.namespace, program, args).await
    }

    /// Ends its server, as a pod that is killed: connections to it are refused.
    pub async fn kill(&self) {
        self.serve.kill().await;
    }

    /// Ends its server and removes its namespace.
    pub(crate) async fn remove(&self) {
        self.serve.kill().await;
        ip(["netns", "delete", &self.namespace]);
        let directory = resolv_conf_directory(&self.namespace);
        std::fs::remove_dir_all(&directory).expect("a directory in /etc/netns");
        for undone in self.undone {
            self.reaper.forget(undone);
        }
    }
}

async fn exec<'a>(
    cluster: &ControlPlane,
    namespace: &str,
    program: &str,
    args: impl IntoIterator<Item = &'a str>,
) -> Output {
    Command::new(cluster.reaper(), cluster.directory(), program)
        .args(args)
        .in_network(namespace)
        .run()
        .await
}
