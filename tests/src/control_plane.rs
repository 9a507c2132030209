//! Control plane of a cluster: an API server and a controller manager, on an etcd that is shared by
//! prefix.

mod launch;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_certs::Authority;
use k8s_openapi::api::core::v1::Namespace;
use kube::config::Kubeconfig;
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use tokio::runtime::{self, Handle};
use tokio::sync::Semaphore;

use self::launch::{
    VALIDITY, api_server, controller_manager, node_name, write_certificates, write_users,
};
use crate::eventually::{START, eventually};
use crate::kubeconfig::{self, Access};
use crate::ports;
use crate::reaper::{Process, Reaper};
use crate::store::{Snapshot, Store};

pub(crate) use self::launch::{
    AUDIT_LOG, Plan, pod_block, pod_cidr, pod_cidr_v6, service_cidr, service_cidr_v6,
};

/// Purpose of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds MultiClusterService, Service and Cluster objects; runs no workloads.
    Hub,
    /// Runs workloads.
    Member,
}

/// Limits concurrent starts. An API server exits if its own first requests take more than half a
/// minute, as they do if thirty start together on two cores.
static STARTS: Semaphore = Semaphore::const_new(4);

/// Control plane that runs.
pub struct ControlPlane {
    name: String,
    role: Role,
    number: u8,
    pod_block: u8,
    directory: PathBuf,
    authority: Authority,
    admin_token: String,
    url: String,
    dual_stack: bool,
    clusterset: bool,
    reaper: Arc<Reaper>,
    store: Option<Store>,
    api_server: Process,
    controllers: Process,
    next_address: AtomicU32,
    clients: Mutex<HashMap<runtime::Id, Client>>,
    /// Number of its nodes with a network.
    nodes: u8,
    /// Whether a test has ended or stopped its API server, or may have.
    is_touched: AtomicBool,
    /// Whether [`ControlPlane::sleep`] has stopped its programs.
    is_asleep: AtomicBool,
    /// Bytes of its audit log that are of earlier fleets.
    earlier_audit: AtomicUsize,
}

impl ControlPlane {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start_new(reaper: &Arc<Reaper>, mut plan: Plan) -> Self {
        let turn = STARTS.acquire().await.expect("it is never closed");
        std::fs::create_dir_all(&plan.directory).expect("a directory for a cluster");
        let now = SystemTime::now();
        let authority = Authority::new(&format!("{} CA", plan.name), VALIDITY, now)
            .expect("a certificate authority");
        let port = ports::fresh();
        let url = format!("https://{}:{port}", plan.address);
        write_certificates(&plan, &authority, now);
        let admin_token = write_users(&plan, &url, &authority);

        let store = plan
            .own_store
            .then(|| Store::start(reaper, &plan.directory));
        if let Some(store) = &store {
            store.url().clone_into(&mut plan.etcd);
        }
        let api_server = reaper.run(api_server(&plan, port));
        wait_ready(&plan.name, &url, &authority, &admin_token, &api_server).await;
        drop(turn);
        let controllers = reaper.run(controller_manager(&plan));
        Self {
            store,
            api_server,
            controllers,
            reaper: Arc::clone(reaper),
            name: plan.name,
            role: plan.role,
            number: plan.number,
            pod_block: plan.pod_block,
            directory: plan.directory,
            authority,
            admin_token,
            url,
            dual_stack: plan.dual_stack,
            clusterset: plan.clusterset,
            next_address: AtomicU32::new(10),
            clients: Mutex::default(),
            nodes: u8::try_from(plan.nodes.len()).unwrap_or(u8::MAX),
            is_touched: AtomicBool::new(false),
            is_asleep: AtomicBool::new(false),
            earlier_audit: AtomicUsize::new(0),
        }
    }

    /// Its name: `hub`, or the member's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the purpose of the cluster.
    pub fn role(&self) -> Role {
        self.role
    }

    /// A client with all rights. Each Tokio runtime has one, because the tasks of a client run in
    /// the runtime that it was made in, and every `#[tokio::test]` has its own.
    pub fn client(&self) -> Client {
        let new = || self.client_with_token(&self.admin_token);
        self.clients
            .lock()
            .entry(Handle::current().id())
            .or_insert_with(new)
            .clone()
    }

    /// A client with all rights that sends every request once: what kube's own repeats is to be
    /// seen.
    pub fn unrepeating_client(&self) -> Client {
        let mut config = self.config();
        config.default_retry = false;
        Client::try_from(config).expect("a client")
    }

    /// Returns the configuration of a client with all rights, for any runtime.
    pub(crate) fn config(&self) -> Config {
        client_config(&self.url, &self.authority, &self.admin_token)
    }

    /// A client with this bearer token.
    pub fn client_with_token(&self, token: &str) -> Client {
        client(&self.url, &self.authority, token)
    }

    /// A kubeconfig file with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("admin")
    }

    /// The kubeconfig file of one of its users: admin, manager, kube-proxy or coredns.
    pub(crate) fn kubeconfig_of(&self, user: &str) -> PathBuf {
        self.directory.join(format!("{user}.kubeconfig"))
    }

    /// A new kubeconfig file in the fleet's directory, for this bearer token.
    pub fn kubeconfig_with_token(&self, file: &str, token: &str) -> PathBuf {
        let path = self.directory.join(file);
        let content = kubeconfig::with_tokens(&[self.access(token)]);
        std::fs::write(&path, content).expect("a kubeconfig");
        path
    }

    /// A new kubeconfig file with all rights in that directory, for its API server at `url` through
    /// an `https://` proxy. It names the proxy's authority too, as kubectl needs it.
    pub fn kubeconfig_through(
        &self,
        directory: &Path,
        url: &str,
        proxy: &str,
        proxy_ca: &str,
    ) -> PathBuf {
        let access = Access {
            url,
            ..self.admin_access()
        };
        let text = kubeconfig::with_tokens(&[access]);
        let mut kubeconfig = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
        let cluster = kubeconfig.clusters[0].cluster.as_mut().expect("a cluster");
        let both = format!("{}{proxy_ca}", self.ca_pem());
        cluster.certificate_authority_data = Some(STANDARD.encode(both));
        cluster.proxy_url = Some(proxy.to_owned());
        let file = directory.join(format!("{}-proxied.kubeconfig", self.name));
        let text = serde_json::to_string(&kubeconfig).expect("JSON");
        std::fs::write(&file, text).expect("a kubeconfig");
        file
    }

    fn access<'b>(&'b self, token: &'b str) -> Access<'b> {
        Access {
            cluster: &self.name,
            url: &self.url,
            ca_pem: self.authority.pem(),
            token,
        }
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the content of the administrator's kubeconfig.
    pub(crate) fn admin_access(&self) -> Access<'_> {
        self.access(&self.admin_token)
    }

    /// The URL of its API server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the host and the port of its API server.
    pub fn address(&self) -> (&str, &str) {
        let authority = self.url.trim_start_matches("https://");
        authority.rsplit_once(':').expect("a URL with a port")
    }

    /// The certificate of its own authority, which signed the API server's.
    pub fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The range of its pods' IPv4 addresses.
    pub fn pod_cidr(&self) -> String {
        pod_cidr(self.pod_block)
    }

    /// Returns the ranges of its pods' addresses, one for each family that it has.
    pub(crate) fn pod_cidrs(&self) -> Vec<String> {
        let six = self.dual_stack.then(|| pod_cidr_v6(self.pod_block));
        std::iter::once(self.pod_cidr()).chain(six).collect()
    }

    /// The range of its Services' IPv4 addresses.
    pub fn service_cidr(&self) -> String {
        service_cidr(self.number)
    }

    /// Returns the UID of namespace kube-system, by which causeway knows a cluster.
    pub async fn uid(&self) -> String {
        let namespaces = Api::<Namespace>::all(self.client());
        let system = namespaces.get("kube-system").await.expect("kube-system");
        system.metadata.uid.expect("its UID")
    }

    /// A pod address that was not given out before.
    pub fn fresh_pod_ip(&self) -> String {
        self.fresh_pod_ip_on(&self.node_name())
    }

    /// Returns addresses for a pod on that node that were not given out before: of IPv4, then of
    /// IPv6 if the cluster has both.
    pub(crate) fn fresh_pod_ips_on(&self, node: &str) -> Vec<String> {
        let four = self.fresh_pod_ip_on(node);
        let mut numbers = four.split('.').skip(2);
        let [third, fourth] = [numbers.next(), numbers.next()].map(Option::unwrap_or_default);
        let (block, number) = (self.pod_block, self.node_number(node));
        let six = format!("fd00:{block}:{number}::{third}:{fourth}");
        std::iter::once(four)
            .chain(self.dual_stack.then_some(six))
            .collect()
    }

    /// Returns an IPv4 address for a pod on that node that was not given out before.
    pub(crate) fn fresh_pod_ip_on(&self, node: &str) -> String {
        // The nodes of a cluster share its range evenly: see `Site::of_cluster`.
        let first = match self.nodes {
            0 | 1 => 0,
            _ => 64 * self.node_number(node),
        };
        let [_, _, third, fourth] = self
            .next_address
            .fetch_add(1, Ordering::Relaxed)
            .to_be_bytes();
        format!("10.{}.{}.{fourth}", self.pod_block, first + third)
    }

    /// Returns the number of its node of that name; 0 for a node that is only an object.
    pub(crate) fn node_number(&self, name: &str) -> u8 {
        let mut numbers = 1..self.nodes.max(1);
        numbers
            .find(|number| self.node_name_of(*number) == name)
            .unwrap_or_default()
    }

    /// Whether it takes part in a clusterset from the start.
    pub(crate) fn is_in_clusterset(&self) -> bool {
        self.clusterset
    }

    /// The first of its nodes, which every member has from the start.
    pub fn node_name(&self) -> String {
        self.node_name_of(0)
    }

    /// The name of its node of this number.
    pub fn node_name_of(&self, number: u8) -> String {
        node_name(&self.name, number)
    }

    /// The zone of [`ControlPlane::node_name`].
    pub fn zone(&self) -> String {
        format!("zone-{}", self.name)
    }

    /// The API server's process.
    pub fn api_server(&self) -> &Process {
        self.touch();
        &self.api_server
    }

    fn touch(&self) {
        self.is_touched.store(true, Ordering::Relaxed);
    }

    /// Whether no test has asked for its API server's process, and its programs run.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.is_touched.load(Ordering::Relaxed)
            && self.api_server.is_running()
            && self.controllers.is_running()
    }

    /// Stops its programs (SIGSTOP) until [`ControlPlane::wake`]: at rest, too, they would take
    /// CPU.
    pub(crate) fn sleep(&self) {
        if !self.is_asleep.swap(true, Ordering::Relaxed) {
            self.controllers.pause();
            self.api_server.pause();
        }
    }

    /// Ends [`ControlPlane::sleep`].
    pub(crate) fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::Relaxed) {
            self.api_server.resume();
            self.controllers.resume();
        }
    }

    /// Whether nobody has woken it since [`ControlPlane::sleep`].
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Ordering::Relaxed)
    }

    /// Ends its controllers, so that nobody but its API server writes into the store.
    pub(crate) async fn rest(&self) {
        self.controllers.kill().await;
    }

    /// Starts its controllers for another fleet, and forgets what the one before has left.
    pub(crate) async fn begin_again(&self) {
        let audit = std::fs::metadata(self.directory.join(AUDIT_LOG));
        let length = audit.map_or(0, |audit| usize::try_from(audit.len()).unwrap_or(0));
        self.earlier_audit.store(length, Ordering::Relaxed);
        match std::fs::remove_dir_all(self.kubectl_cache()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => panic!("kubectl's cache: {e}"),
            _ => self.controllers.restart().await,
        }
    }

    /// Returns the offset in its audit log at which this fleet begins, in bytes.
    pub(crate) fn earlier_audit(&self) -> usize {
        self.earlier_audit.load(Ordering::Relaxed)
    }

    /// Returns the directory in which kubectl keeps what the API server serves.
    pub(crate) fn kubectl_cache(&self) -> PathBuf {
        self.directory.join("kubectl-cache")
    }

    /// Ends the API server with SIGKILL, as a machine that is switched off. Its data stays.
    pub async fn stop(&self) {
        self.touch();
        self.api_server.kill().await;
    }

    /// Starts the API server again after [`ControlPlane::stop`], on the same port, waits until it
    /// is ready, and starts the cluster's controllers again: after an outage their informers pause
    /// for up to 30 s.
    pub async fn start(&self) {
        self.api_server.restart().await;
        self.is_back().await;
    }

    /// Waits until the API server is ready after a restart. No client keeps its connections.
    async fn is_back(&self) {
        self.clients.lock().clear();
        self.ready().await;
        self.controllers.restart().await;
    }

    /// Returns a snapshot of its store. Only for a cluster with its own store.
    pub fn snapshot(&self) -> Snapshot {
        self.own_store().snapshot()
    }

    /// Puts its store back to what it held then, as from a backup: UIDs are what they were, and
    /// versions run lower than those that were seen since. The API server and the controllers of
    /// the cluster are killed and start on it.
    pub async fn restore(&self, snapshot: &Snapshot) {
        self.controllers.kill().await;
        self.stop().await;
        self.own_store().restore(snapshot).await;
        self.start().await;
    }

    fn own_store(&self) -> &Store {
        let store = self.store.as_ref();
        store.unwrap_or_else(|| panic!("{} has no store of its own", self.name))
    }

    /// Has the API server behave like this release, such as 1.33, until it is started again: what
    /// an upgrade, or the way back, looks like from outside.
    pub async fn start_as(&self, release: &str) {
        self.touch();
        let flag = format!("--emulated-version={release}");
        self.api_server.restart_with(&[&flag]).await;
        self.is_back().await;
    }

    /// The API server keeps its connections and answers nothing: what a severed network looks like.
    pub fn pause(&self) {
        self.touch();
        self.api_server.pause();
    }

    /// Ends [`ControlPlane::pause`].
    pub fn resume(&self) {
        self.api_server.resume();
    }

    /// Waits until the API server is ready.
    pub async fn ready(&self) {
        wait_ready(
            &self.name,
            &self.url,
            &self.authority,
            &self.admin_token,
            &self.api_server,
        )
        .await;
    }

    /// The directory of its files: credentials, logs.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the logs of its programs.
    pub(crate) fn own_logs(&self) -> Vec<PathBuf> {
        let own = [self.api_server.log(), self.controllers.log()];
        let mut logs: Vec<PathBuf> = own.map(Path::to_path_buf).into();
        logs.extend(self.store.iter().map(|store| store.log().to_path_buf()));
        logs
    }

    pub(crate) fn reaper(&self) -> &Arc<Reaper> {
        &self.reaper
    }
}

/// Unguessable: tokens are valid on a port that other users of the machine can reach.
pub(crate) fn secret() -> String {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .expect("random bytes");
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn client(url: &str, authority: &Authority, token: &str) -> Client {
    Client::try_from(client_config(url, authority, token)).expect("a client")
}

fn client_config(url: &str, authority: &Authority, token: &str) -> Config {
    let mut config = Config::new(url.parse().expect("the URL of an API server"));
    config.root_cert = Some(vec![kubeconfig::der(authority.pem())]);
    config.auth_info = serde_json::from_value(serde_json::json!({ "token": token }))
        .expect("credentials with a token");
    // A machine that is busy may need seconds for a handshake.
    config.connect_timeout = Some(Duration::from_secs(20));
    config
}

async fn wait_ready(name: &str, url: &str, authority: &Authority, token: &str, process: &Process) {
    let client = client(url, authority, token);
    eventually(&format!("{name} is ready"), START, || async {
        assert!(
            process.is_running(),
            "the API server of {name} ended: {:?}\n{}",
            process.exit(),
            process.log_tail(30)
        );
        let ready = http::Request::get("/readyz")
            .body(Vec::new())
            .expect("a request");
        client
            .request_text(ready)
            .await
            .map_err(|e| e.to_string())?;
        let namespaces = Api::<Namespace>::all(client.clone());
        for system in ["kube-system", "default"] {
            namespaces.get(system).await.map_err(|e| e.to_string())?;
        }
        Ok::<(), String>(())
    })
    .await;
}
