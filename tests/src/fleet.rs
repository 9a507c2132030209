//! A hub and its members.

mod idle;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::future::join_all;
use parking_lot::Mutex;

use self::idle::Origin;
use crate::cluster::Cluster;
use crate::control_plane::{Plan, Role, pod_block};
use crate::kubeconfig;
use crate::network::{CLUSTERS, Host, Network, NodeNetwork, SHARED_BLOCK, Site, endpoint_address};
use crate::reaper::{Reaper, Undo};
use crate::registry::Registry;
use crate::store::Store;

/// A hub and its members, on ports and in a directory of their own. Dropping it ends all of it, or
/// leaves the clusters to the next test of the program; see [`Builder::start`].
///
/// The tests of one binary share one:
/// ```no_run
/// use causeway_tests::Fleet;
/// use tokio::sync::OnceCell;
///
/// async fn fleet() -> &'static Fleet {
///     static FLEET: OnceCell<Fleet> = OnceCell::const_new();
///     FLEET.get_or_init(|| Fleet::builder().members(3).start()).await
/// }
/// ```
pub struct Fleet {
    /// `None` once it is dropped.
    clusters: Option<Clusters>,
    /// Number of the members, the first of `clusters`.
    members: usize,
    logs: Logs,
    /// Directory of what this use of the clusters leaves.
    directory: PathBuf,
}

/// The clusters of a fleet, and what they need.
struct Clusters {
    hub: Cluster,
    members: Vec<Cluster>,
    directory: PathBuf,
    registry: Option<Registry>,
    network: Option<Arc<Network>>,
    reaper: Arc<Reaper>,
    store: Store,
    endpoint_address: OnceLock<Result<IpAddr, String>>,
    /// Number of fleets that they have been.
    uses: u32,
    /// Content of the store at the start. `None` where another fleet would not be as a new one.
    origin: Option<Origin>,
}

const HUB: &str = "hub";

/// Configuration of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Builder {
    members: Vec<String>,
    dual_stack: BTreeSet<String>,
    packets: bool,
    separate: BTreeSet<String>,
    iptables: BTreeSet<String>,
    proxies: BTreeMap<String, u8>,
    spare_nodes: BTreeSet<String>,
    clusterset: bool,
    flags: Vec<(String, String)>,
    own_stores: BTreeSet<String>,
    nodes: BTreeMap<String, u8>,
}

impl Builder {
    /// This many members, called member1, member2, ...
    #[must_use]
    pub fn members(self, count: usize) -> Self {
        self.named_members((1..=count).map(|number| format!("member{number}")))
    }

    /// Members of these names.
    #[must_use]
    pub fn named_members<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.members = names.into_iter().map(Into::into).collect();
        self
    }

    /// This cluster has IPv6 beside IPv4.
    #[must_use]
    pub fn dual_stack(mut self, name: &str) -> Self {
        self.dual_stack.insert(name.to_owned());
        self
    }

    /// Real packets: see [`crate::network`]. Ask [`crate::network::prerequisites`] before.
    #[must_use]
    pub fn packets(mut self) -> Self {
        self.packets = true;
        self
    }

    /// No other cluster has a route to the pods of this one, and it has none to theirs. All such
    /// clusters have one range of pods' addresses. The fleet has real packets then.
    #[must_use]
    pub fn separate_network(mut self, name: &str) -> Self {
        self.separate.insert(name.to_owned());
        self.packets()
    }

    /// The kube-proxy of this cluster writes rules of iptables, not of nftables.
    #[must_use]
    pub fn iptables(mut self, name: &str) -> Self {
        self.iptables.insert(name.to_owned());
        self
    }

    /// This cluster has so many nodes, up to four, each with a kube-proxy and without a kubelet.
    /// The fleet has real packets then.
    #[must_use]
    pub fn proxies(mut self, name: &str, count: u8) -> Self {
        self.proxies.insert(name.to_owned(), count);
        self.packets()
    }

    /// This cluster, with more than one kube-proxy, gets its last node by
    /// [`Cluster::add_spare_node`].
    #[must_use]
    pub fn spare_node(mut self, name: &str) -> Self {
        self.spare_nodes.insert(name.to_owned());
        self
    }

    /// The members serve ServiceExport and ServiceImport from the start, and the DNS of each
    /// answers for `clusterset.local` too; see [`Cluster::dig`].
    #[must_use]
    pub fn clusterset(mut self) -> Self {
        self.clusterset = true;
        self
    }

    /// This cluster has a store of its own, that can be restored: see
    /// [`crate::control_plane::ControlPlane::restore`].
    #[must_use]
    pub fn own_store(mut self, name: &str) -> Self {
        self.own_stores.insert(name.to_owned());
        self
    }

    /// This cluster has so many real nodes, up to four, with pods from images: see
    /// [`crate::machine`]. The fleet has real packets then and a [`Fleet::registry`]; one such
    /// fleet at a time runs on a machine. Ask [`crate::machine::prerequisites`] before.
    #[must_use]
    pub fn nodes(mut self, name: &str, count: u8) -> Self {
        self.nodes.insert(name.to_owned(), count);
        self.packets()
    }

    /// The hub's API server gets this flag too.
    #[must_use]
    pub fn hub_flag(self, flag: impl Into<String>) -> Self {
        self.flag(HUB, flag)
    }

    /// The API server of the cluster of that name gets this flag too.
    #[must_use]
    pub fn flag(mut self, cluster: &str, flag: impl Into<String>) -> Self {
        self.flags.push((cluster.to_owned(), flag.into()));
        self
    }

    /// Starts it and waits until every API server is ready.
    ///
    /// A fleet of members alone, with nothing more asked for, takes the clusters of a fleet that a
    /// test of this program has dropped, if there is one. Their stores are as they were at the
    /// start.
    pub async fn start(self) -> Fleet {
        let known = self.members.len() < usize::from(CLUSTERS);
        assert!(known, "a fleet has fewer than {CLUSTERS} members");
        let members = self.members.len();
        let used = match self.is_plain() {
            true => idle::take(&self).await,
            false => None,
        };
        let mut clusters = match used {
            Some(clusters) => clusters,
            None => self.start_new().await,
        };
        clusters.uses += 1;
        let directory = clusters.directory.join(format!("use-{}", clusters.uses));
        std::fs::create_dir_all(&directory).expect("a directory for a fleet");
        Fleet {
            clusters: Some(clusters),
            members,
            logs: Logs::default(),
            directory,
        }
    }

    /// Whether only members are asked for.
    fn is_plain(&self) -> bool {
        let plain = Self::default().named_members(self.members.clone());
        *self == plain
    }

    async fn start_new(&self) -> Clusters {
        let reaper = Reaper::start();
        let directory = tempfile::Builder::new()
            .prefix("causeway-fleet-")
            .tempdir()
            .expect("a temporary directory")
            .keep();
        reaper.at_the_end(&Undo::Remove(directory.clone()));
        let store = Store::start(&reaper, &directory);
        let network = self.packets.then(|| Arc::new(Network::new(&reaper)));
        let address = network
            .as_ref()
            .map_or(Ipv4Addr::LOCALHOST.into(), |network| network.host_address());
        let registry = match self.nodes.is_empty() {
            true => None,
            false => Some(Registry::start(&reaper, &directory, address).await),
        };
        let names = std::iter::once(HUB.to_owned()).chain(self.members.iter().cloned());
        let sites: Vec<_> = names
            .zip(0..)
            .map(|(name, number)| self.sites(name, number))
            .collect();
        let all: Vec<_> = sites.iter().flat_map(|(_, sites)| sites.clone()).collect();
        let clusters = sites.into_iter().zip(0..).map(|((name, sites), number)| {
            let networks = sites.into_iter().zip(network.iter().cycle());
            let networks = networks.map(|(site, network)| {
                let namespace = match site.node {
                    0 => name.clone(),
                    node => format!("{name}-{node}"),
                };
                let node = NodeNetwork::new(network, &namespace, site, &all);
                match self.iptables.contains(&name) {
                    true => node.by_iptables(),
                    false => node,
                }
            });
            let networks: Vec<_> = networks.collect();
            let mut plan = self.plan(&name, number, &directory, &store);
            plan.address = address;
            plan.nodes = networks.iter().map(|network| network.site().node).collect();
            let registry = registry.as_ref().filter(|_| self.nodes.contains_key(&name));
            plan.registry = registry.map(Registry::address);
            plan.clusterset = self.clusterset && (number > 0 || registry.is_some());
            Cluster::start_new(&reaper, plan, networks)
        });
        let mut clusters = join_all(clusters).await.into_iter();
        let hub = clusters.next().expect("the hub");
        let origin = match self.is_plain() {
            true => Some(Origin::of(&hub, &store).await),
            false => None,
        };
        Clusters {
            hub,
            members: clusters.collect(),
            directory,
            registry,
            network,
            reaper,
            store,
            endpoint_address: OnceLock::new(),
            uses: 0,
            origin,
        }
    }

    /// Returns the plan of a cluster whose nodes are only objects.
    fn plan(&self, name: &str, number: u8, directory: &Path, store: &Store) -> Plan {
        let flags = self.flags.iter().filter(|(cluster, _)| cluster == name);
        Plan {
            name: name.to_owned(),
            role: if number == 0 { Role::Hub } else { Role::Member },
            flags: flags.map(|(_, flag)| flag.clone()).collect(),
            number,
            pod_block: self.pod_block(name, number),
            dual_stack: self.dual_stack.contains(name),
            clusterset: false,
            directory: directory.join(name),
            etcd: store.url().to_owned(),
            own_store: self.own_stores.contains(name),
            address: Ipv4Addr::LOCALHOST.into(),
            nodes: Vec::new(),
            spare_node: self.spare_nodes.contains(name),
            registry: None,
        }
    }

    /// A cluster by its name and number, with the sites of its nodes: real ones, or the one that
    /// every member has.
    fn sites(&self, name: String, number: u8) -> (String, Vec<Site>) {
        let usual = u8::from(self.packets && number > 0);
        let nodes = self.nodes.get(&name).or_else(|| self.proxies.get(&name));
        let nodes = nodes.copied().unwrap_or(usual);
        let pod_block = self.pod_block(&name, number);
        let dual_stack = self.dual_stack.contains(&name);
        (name, Site::of_cluster(number, nodes, pod_block, dual_stack))
    }

    fn pod_block(&self, name: &str, number: u8) -> u8 {
        match self.separate.contains(name) {
            true => SHARED_BLOCK,
            false => pod_block(number),
        }
    }
}

impl Fleet {
    /// A fleet to be described.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn inner(&self) -> &Clusters {
        self.clusters.as_ref().expect("it is not dropped yet")
    }

    /// The cluster that holds the MultiClusterServices.
    pub fn hub(&self) -> &Cluster {
        &self.inner().hub
    }

    /// The member of this name. It wakes, if it sleeps.
    pub fn member(&self, name: &str) -> &Cluster {
        let found = self.members().iter().find(|member| member.name() == name);
        let member = found.unwrap_or_else(|| panic!("the fleet has no member {name:?}"));
        member.wake();
        member
    }

    /// Stops the programs of the members until [`Fleet::member`] asks for each. For a fleet of
    /// which each test uses a member or two.
    pub fn let_members_sleep(&self) {
        self.members().iter().for_each(|member| member.sleep());
    }

    /// All members.
    pub fn members(&self) -> &[Cluster] {
        &self.inner().members[..self.members]
    }

    /// The hub and all members.
    pub fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(self.hub()).chain(self.members())
    }

    /// Returns the hub and the members that do not sleep.
    pub(crate) fn awake(&self) -> impl Iterator<Item = &Cluster> {
        self.inner().awake()
    }

    /// Returns the registry of its real nodes. Only in a fleet with real nodes.
    pub fn registry(&self) -> &Registry {
        let registry = self.inner().registry.as_ref();
        registry.expect("a fleet with real nodes has a registry")
    }

    /// Adds a machine that is part of no cluster. Once, and only in a fleet with packets.
    pub fn add_host(&self) -> Host {
        let network = self.inner().network.as_ref();
        Host::new(network.expect("a fleet with packets"))
    }

    /// A kubeconfig file with all rights: one context for each cluster, the hub's the current one.
    pub fn kubeconfig(&self) -> PathBuf {
        let all: Vec<_> = self
            .clusters()
            .map(|cluster| cluster.admin_access())
            .collect();
        let path = self.directory.join("kubeconfig");
        std::fs::write(&path, kubeconfig::with_tokens(&all)).expect("a kubeconfig");
        path
    }

    /// An address of this machine that may stand in an EndpointSlice, so that API servers reach
    /// through a Service what listens there. As root it is one of the fleet's own, else one that
    /// the machine has.
    ///
    /// # Errors
    /// What is missing: for a line that says what is skipped.
    pub fn endpoint_address(&self) -> Result<IpAddr, String> {
        let clusters = self.inner();
        let found = || endpoint_address(|| Network::new(&clusters.reaper));
        clusters.endpoint_address.get_or_init(found).clone()
    }

    /// Its directory, removed when its clusters end.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the reaper, whose processes end with the clusters at the latest.
    pub fn reaper(&self) -> &Arc<Reaper> {
        &self.inner().reaper
    }

    /// The logs of all programs, those added by [`Fleet::add_log`] first.
    pub fn logs(&self) -> Vec<PathBuf> {
        let mut logs = self.logs.all();
        logs.extend(self.clusters().flat_map(Cluster::logs));
        logs.push(self.inner().store.log().to_path_buf());
        let registry = self.inner().registry.iter();
        logs.extend(registry.map(|registry| registry.log().to_path_buf()));
        logs
    }

    /// Has the end of this log printed when a test fails.
    pub fn add_log(&self, log: &Path) {
        self.logs.add(log);
    }

    pub(crate) fn more_logs(&self) -> Logs {
        self.logs.clone()
    }
}

/// Logs of programs that are started later.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Mutex<Vec<PathBuf>>>);

impl Logs {
    pub(crate) fn add(&self, log: &Path) {
        let mut logs = self.0.lock();
        if !logs.iter().any(|known| known == log) {
            logs.push(log.to_path_buf());
        }
    }

    fn all(&self) -> Vec<PathBuf> {
        self.0.lock().clone()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(clusters) = self.clusters.take() {
            idle::give_back(clusters);
        }
    }
}

impl Drop for Clusters {
    fn drop(&mut self) {
        self.reaper.close();
    }
}
