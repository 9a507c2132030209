//! The network of one node: its namespace, its kube-proxy, its cluster's DNS, its pods.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::binaries::Testbed;
use crate::control_plane::{ControlPlane, service_cidr};
use crate::dns;
use crate::eventually::{START, eventually};
use crate::kubectl::{Command, Output};
use crate::network::{NODES, Network, Site, ip};
use crate::reaper::{Process, Program, Reaper, Undo, Undone};

/// The ports that every pod listens on.
const POD_PORTS: [u16; 2] = [80, 8080];

/// Router of the pods; no device has that address.
const ROUTER: &str = "169.254.1.1";
const ROUTER_MAC: &str = "02:00:00:00:00:01";

/// A node's part of the network.
pub(crate) struct NodeNetwork {
    network: Arc<Network>,
    namespace: String,
    site: Site,
    proxy_mode: &'static str,
    services: Vec<Process>,
}

impl NodeNetwork {
    /// Joins a namespace for the node at this site to the bridge; `all` are those of the fleet.
    pub(crate) fn new(network: &Arc<Network>, name: &str, site: Site, all: &[Site]) -> Self {
        let namespace = network.namespace(name);
        network.add_namespace(&namespace);
        let port = format!("m{}-{}", site.cluster, site.node);
        network.join_bridge(&port, "eth0", Some(&namespace));
        let address = format!("{}/24", network.node_address(&site));
        ip(["-n", &namespace, "address", "add", &address, "dev", "eth0"]);
        ip(["-n", &namespace, "link", "set", "eth0", "up"]);
        // Without a route packets to a Service would be refused before kube-proxy's rules see them.
        ip([
            "-n",
            &namespace,
            "route",
            "add",
            &service_cidr(site.cluster),
            "dev",
            "eth0",
        ]);
        let is_reached = |other: &&Site| {
            let is_near = other.cluster == site.cluster;
            is_near || !other.is_alone && !site.is_alone
        };
        let others = all.iter().filter(|other| **other != site);
        for other in others.filter(is_reached) {
            let via = network.node_address(other).to_string();
            ip(["-n", &namespace, "route", "add", &other.pods, "via", &via]);
        }
        if all.iter().any(|site| site.is_alone) {
            masquerade(&namespace, &site.pods);
        }
        let node = Self {
            network: Arc::clone(network),
            namespace,
            site,
            proxy_mode: "nftables",
            services: Vec::new(),
        };
        node.write_resolv_conf(&node.namespace);
        node
    }

    /// Has kube-proxy write rules of iptables, not of nftables.
    pub(crate) fn by_iptables(self) -> Self {
        Self {
            proxy_mode: "iptables",
            ..self
        }
    }

    /// Lets this machine, and so the API servers, reach the pods of the node and through it the Services of its cluster.
    pub(crate) fn route_here(&self) {
        let via = self.node_address();
        ip(["route", "add", &self.site.pods, "via", &via]);
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

    /// The address of the node.
    pub(crate) fn node_address(&self) -> String {
        self.network.node_address(&self.site).to_string()
    }

    /// Starts kube-proxy and, on the first node of a cluster, CoreDNS, once the node is there, and waits until names are answered.
    pub(crate) async fn start(&mut self, cluster: &ControlPlane) {
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
            self.services.push(process);
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

    /// A pod's namespace: it listens on ports 80 and 8080 and answers every request with `text`.
    pub(crate) async fn add_pod(
        &self,
        cluster: &ControlPlane,
        address: &str,
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
        ip([
            "-n",
            &pod,
            "address",
            "add",
            &format!("{address}/32"),
            "dev",
            "eth0",
        ]);
        ip(["-n", &pod, "route", "add", ROUTER, "dev", "eth0"]);
        ip([
            "-n",
            &pod,
            "neighbour",
            "add",
            ROUTER,
            "lladdr",
            ROUTER_MAC,
            "dev",
            "eth0",
        ]);
        ip(["-n", &pod, "route", "add", "default", "via", ROUTER]);
        ip([
            "-n",
            &self.namespace,
            "route",
            "add",
            &format!("{address}/32"),
            "dev",
            &link,
        ]);

        let log = cluster.directory().join(format!("{link}.log"));
        let addresses = POD_PORTS.map(|port| format!("{address}:{port}"));
        let serve = Program::new(Testbed::get().program("pod"), &log)
            .args(["serve", text])
            .args(addresses)
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
        self.services
            .iter()
            .map(|service| service.log().to_path_buf())
            .collect()
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
            format!("--cluster-cidr={}", cluster.pod_cidr()),
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0".to_owned(),
            "--healthz-bind-address=127.0.0.1:10256".to_owned(),
            "--metrics-bind-address=127.0.0.1:10249".to_owned(),
        ])
    }

    /// Names are asked of the cluster's own DNS; `ip netns exec` shows this file as /etc/resolv.conf.
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

/// Has packets of pods go to nodes with the node's own address, as CNI plugins do.
fn masquerade(namespace: &str, pods: &str) {
    let rules = format!(
        "table ip pods {{ chain leave {{ type nat hook postrouting priority srcnat; ip saddr {pods} ip daddr {NODES} masquerade\n}}\n}}"
    );
    let script = format!("printf '{rules}\\n' | nft -f -");
    ip(["netns", "exec", namespace, "sh", "-c", &script]);
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
