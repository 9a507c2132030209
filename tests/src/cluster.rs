//! One cluster: a control plane, its nodes and its DNS.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::control_plane::{ControlPlane, Plan, Role};
use crate::dns::{Answer, Nameserver, question};
use crate::kubectl::Output;
use crate::machine::{self, Machine};
use crate::network::{NodeNetwork, PodNetwork};
use crate::node::node;
use crate::reaper::{Process, Reaper};

/// The slice of Service `kubernetes` that an API server makes, so that no list of slices is empty.
const API_SERVER: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kubernetes
  namespace: default
  labels: {kubernetes.io/service-name: kubernetes}
addressType: IPv4
endpoints: []
ports: [{name: https, port: 6443}]
";

/// A cluster that runs.
pub struct Cluster {
    plane: ControlPlane,
    networks: Vec<NodeNetwork>,
    machines: Vec<Machine>,
    scheduler: Option<Process>,
    nameserver: Option<Nameserver>,
    pods: Mutex<Vec<Arc<PodNetwork>>>,
}

impl Deref for Cluster {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.plane
    }
}

impl Cluster {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start_new(
        reaper: &Arc<Reaper>,
        plan: Plan,
        networks: Vec<NodeNetwork>,
    ) -> Self {
        let joined = networks.len() - usize::from(plan.spare_node);
        let registry = plan.registry;
        let scheduler = registry.map(|_| machine::scheduler(&plan.directory));
        let mut cluster = Self {
            plane: ControlPlane::start_new(reaper, plan).await,
            networks: Vec::new(),
            machines: Vec::new(),
            scheduler: scheduler.map(|scheduler| reaper.run(scheduler)),
            nameserver: None,
            pods: Mutex::default(),
        };
        if cluster.is_in_clusterset() {
            cluster.serve_clusterset().await;
        }
        match registry {
            Some(registry) => cluster.start_machines(&networks, registry).await,
            None => cluster.add_nodes(&networks[..joined]).await,
        }
        if networks.is_empty() && cluster.is_in_clusterset() {
            cluster.nameserver = Some(Nameserver::start(&cluster).await);
        }
        for network in &networks[..joined] {
            network.start(&cluster).await;
        }
        cluster.networks = networks;
        for machine in &cluster.machines {
            machine.ready(&cluster).await;
        }
        cluster
    }

    /// Starts a real node in each of these networks, and waits until they have registered.
    async fn start_machines(&mut self, networks: &[NodeNetwork], registry: SocketAddr) {
        if let Some(first) = networks.first() {
            machine::publish_dns(self, &first.node_address()).await;
        }
        for network in networks {
            network.route_here();
            let machine = Machine::start(self, network, registry).await;
            self.machines.push(machine);
        }
    }

    /// Adds an object for each of its nodes; a member without packets has one as well.
    async fn add_nodes(&self, networks: &[NodeNetwork]) {
        if self.role() == Role::Hub {
            return;
        }
        self.apply(API_SERVER).await.ok();
        if networks.is_empty() {
            return node(&self.node_name())
                .zone(&self.zone())
                .create(self)
                .await;
        }
        for network in networks {
            let node = node(&self.node_name_of(network.site().node)).zone(&self.zone());
            let addresses = network.node_addresses();
            let node = addresses.iter().fold(node, |node, one| node.address(one));
            node.create(self).await;
        }
    }

    /// Adds its spare node ([`crate::fleet::Builder::spare_node`]) and returns the name.
    pub async fn add_spare_node(&self) -> String {
        let spare = self.networks.last().expect("a fleet with packets");
        self.add_nodes(std::slice::from_ref(spare)).await;
        spare.start(self).await;
        self.node_name_of(spare.site().node)
    }

    /// The logs of its programs.
    pub fn logs(&self) -> Vec<PathBuf> {
        let mut logs = self.own_logs();
        logs.extend(self.networks.iter().flat_map(NodeNetwork::logs));
        let scheduler = self.scheduler.iter();
        logs.extend(scheduler.map(|process| process.log().to_path_buf()));
        logs.extend(self.machines.iter().flat_map(Machine::logs));
        let names = self.nameserver.iter().map(Nameserver::process);
        logs.extend(names.map(|process| process.log().to_path_buf()));
        logs
    }

    /// Runs a program on its node: in its network, with its DNS. Only in a fleet with packets.
    pub async fn exec<'a>(&self, program: &str, args: impl IntoIterator<Item = &'a str>) -> Output {
        let network = self.networks.first();
        let network = network.unwrap_or_else(|| panic!("{} has no network", self.name()));
        network.exec(self, program, args).await
    }

    /// The name of its network namespace, for `ip netns exec`; `None` in a fleet without packets.
    pub fn network_namespace(&self) -> Option<&str> {
        self.networks.first().map(NodeNetwork::namespace)
    }

    /// Returns the networks of its nodes: none in a fleet without packets.
    pub(crate) fn node_networks(&self) -> &[NodeNetwork] {
        &self.networks
    }

    /// Returns the address of its first node; `None` in a fleet without packets.
    pub fn node_address(&self) -> Option<String> {
        self.networks.first().map(NodeNetwork::node_address)
    }

    /// `curl` on its node, with three seconds of patience.
    pub async fn curl(&self, url: &str) -> Output {
        self.exec("curl", ["-sS", "--max-time", "3", url]).await
    }

    /// Returns the answer of the cluster's DNS to a query of that name and type, such as SRV.
    /// Requires `dig` ([`crate::network::dig`]) and a fleet with packets or with a clusterset.
    pub async fn dig(&self, name: &str, type_: &str) -> Answer {
        match &self.nameserver {
            Some(nameserver) => nameserver.dig(self, name, type_).await,
            None => Answer::parse(&self.exec("dig", question(name, type_)).await.stdout),
        }
    }

    /// Has a pod of these addresses listen, where there are packets.
    pub(crate) async fn connect_pod(
        &self,
        node: &str,
        addresses: &[String],
        text: &str,
    ) -> Option<Arc<PodNetwork>> {
        let network = self.networks.get(usize::from(self.node_number(node)))?;
        let pod = Arc::new(network.add_pod(self, addresses, text).await);
        self.pods.lock().push(Arc::clone(&pod));
        Some(pod)
    }

    /// Removes the network of a pod.
    pub(crate) async fn disconnect_pod(&self, pod: &Arc<PodNetwork>) {
        pod.remove().await;
        self.pods.lock().retain(|known| !Arc::ptr_eq(known, pod));
    }
}
