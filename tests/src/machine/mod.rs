//! Real nodes: containerd, runc and a kubelet, and pods from images, each node in a network
//! namespace and a cgroup of its own. Needs root on Linux.

mod cgroup;
mod prerequisites;
mod settings;

pub use prerequisites::prerequisites;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use self::cgroup::Cgroup;
use crate::binaries;
use crate::control_plane::ControlPlane;
use crate::eventually::{START, eventually};
use crate::kubectl::Command;
use crate::network::NodeNetwork;
use crate::reaper::{Process, Program, Undo};

/// Parameters of the kernel that every kubelet sets for the whole machine.
const SYSCTLS: [&str; 4] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
];

/// A real node of a cluster. What runs on it ends with the fleet.
pub(crate) struct Machine {
    name: String,
    containerd: Process,
    kubelet: Process,
}

impl Machine {
    /// Starts it, and waits until the API server knows it. It is ready a while later:
    /// [`Machine::ready`].
    pub(crate) async fn start(
        cluster: &ControlPlane,
        network: &NodeNetwork,
        registry: SocketAddr,
    ) -> Self {
        let name = cluster.node_name_of(network.site().node);
        let directory = cluster.directory().join(&name);
        std::fs::create_dir_all(&directory).expect("a directory for a node");
        let reaper = cluster.reaper();
        let cgroup = Cgroup::new(reaper, network.namespace(), &directory);
        restore_sysctls(cluster);
        settings::write(&directory, cluster, network, &cgroup, registry);
        let on_it = |program: Program| program.on_machine(&cgroup.processes(), network.namespace());
        let containerd = Program::new("containerd", directory.join("containerd.log"))
            .args(["--config".to_owned(), path(&directory, "containerd.toml")]);
        let containerd = reaper.run(on_it(containerd));
        let socket = settings::socket(&directory);
        eventually(&format!("containerd of {name} listens"), START, || async {
            assert!(
                containerd.is_running(),
                "it ended:\n{}",
                containerd.log_tail(20)
            );
            let version = Command::new(reaper, &directory, "ctr").args([
                "--address",
                &socket.display().to_string(),
                "version",
            ]);
            let version = version.run().await;
            version
                .exit
                .success()
                .then_some(())
                .ok_or(containerd.log_tail(20))
        })
        .await;
        let kubelet =
            Program::new(binaries::node("kubelet"), directory.join("kubelet.log")).args([
                format!("--config={}", path(&directory, "kubelet.json")),
                format!("--kubeconfig={}", cluster.kubeconfig_of(&name).display()),
                format!("--root-dir={}", path(&directory, "kubelet")),
                format!("--hostname-override={name}"),
                format!("--node-ip={}", network.node_address()),
                format!(
                    "--node-labels=topology.kubernetes.io/zone={}",
                    cluster.zone()
                ),
                "--v=2".to_owned(),
            ]);
        let machine = Self {
            kubelet: reaper.run(on_it(kubelet)),
            containerd,
            name,
        };
        let registered = ["get", "node", machine.name.as_str()];
        machine.says(cluster, "registered", &registered).await;
        machine
    }

    /// Waits until pods can run on it.
    pub(crate) async fn ready(&self, cluster: &ControlPlane) {
        let node = format!("node/{}", self.name);
        let wait = ["wait", "--for=condition=Ready", "--timeout=1s", &node];
        self.says(cluster, "ready", &wait).await;
    }

    pub(crate) fn logs(&self) -> [PathBuf; 2] {
        [&self.containerd, &self.kubelet].map(|process| process.log().to_path_buf())
    }

    async fn says(&self, cluster: &ControlPlane, what: &str, kubectl: &[&str]) {
        eventually(&format!("{} is {what}", self.name), START, || async {
            assert!(
                self.kubelet.is_running(),
                "its kubelet ended:\n{}",
                self.kubelet.log_tail(20)
            );
            let asked = cluster.kubectl(kubectl.iter().copied()).await;
            let seen = || format!("{}{}", asked.stderr, self.kubelet.log_tail(10));
            asked.exit.success().then_some(()).ok_or_else(seen)
        })
        .await;
    }
}

/// The scheduler of a cluster with real nodes, whose files are in that directory.
pub(crate) fn scheduler(directory: &Path) -> Program {
    let kubeconfig = path(directory, "kube-scheduler.kubeconfig");
    Program::new(
        binaries::node("kube-scheduler"),
        directory.join("kube-scheduler.log"),
    )
    .args([
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--profiling=false".to_owned(),
    ])
}

/// Makes the Service by which pods find the CoreDNS that listens at this address.
pub(crate) async fn publish_dns(cluster: &ControlPlane, address: &str) {
    let service = format!(
        "apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system}}
spec:
  clusterIP: {}
  ports: [{{name: dns, port: 53, protocol: UDP}}, {{name: dns-tcp, port: 53, protocol: TCP}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {{kubernetes.io/service-name: kube-dns, endpointslice.kubernetes.io/managed-by: testbed}}
addressType: IPv4
ports: [{{name: dns, port: 53, protocol: UDP}}, {{name: dns-tcp, port: 53, protocol: TCP}}]
endpoints: [{{addresses: ['{address}'], conditions: {{ready: true}}}}]
",
        settings::dns_address(cluster)
    );
    cluster.apply(&service).await.ok();
}

/// Puts back at the end what kubelets set for the whole machine.
fn restore_sysctls(cluster: &ControlPlane) {
    for name in SYSCTLS {
        let file = format!("/proc/sys/{name}");
        let value = std::fs::read_to_string(&file).expect("a parameter of the kernel");
        let restore = format!("echo {} > {file}", value.trim());
        let restore = ["sh", "-c", &restore].map(str::to_owned);
        cluster.reaper().at_the_end(&Undo::Run(restore.to_vec()));
    }
}

fn path(directory: &Path, file: &str) -> String {
    directory.join(file).display().to_string()
}
