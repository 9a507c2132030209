//! A fleet behind proxies with causeway at work, a Prometheus that scrapes it, and a person's terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_tests::causeway::Launch;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::log_pipe::LogPipe;
use causeway_tests::prometheus::{ActiveAlert, Prometheus};
use causeway_tests::reaper::Program;
use causeway_tests::{
    Cluster, Fleet, Installation, Proxy, Running, SOON, Space, binaries, eventually,
    multi_cluster_service, service,
};

use crate::rules::short_rules;
use crate::runbooks::{Pods, Terminal};

/// As often as shortened times need it; a scrape takes no longer on a busy machine.
const SCRAPED_EVERY: &str = "2s";
const EVALUATED_EVERY: &str = "1s";
/// More than so few that their deletions count at once.
const CROWD: usize = 16;
/// Services whose endpoints change in turn.
pub(crate) const MOVING: [&str; 3] = ["foo-0", "foo-1", "foo-2"];
/// For an alert to be pending, and then to fire: a fault that is noticed by a probe, the longest hold, and a busy machine.
const NOTICED: Duration = Duration::from_secs(120);

pub(crate) struct Stage {
    pub(crate) controller: Running,
    pub(crate) webhook: Running,
    pub(crate) panicking: Option<Running>,
    panicking_admin: u16,
    pub(crate) tunnel: Option<Running>,
    tunnel_admin: u16,
    pub(crate) log: LogPipe,
    pub(crate) proxies: BTreeMap<String, Proxy>,
    pub(crate) prometheus: Prometheus,
    pub(crate) terminal: Terminal,
    pub(crate) installation: Installation,
    space: String,
    pub(crate) fleet: Fleet,
}

/// A port that nobody listens on now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Stage {
    pub(crate) async fn start(programs: &Path) -> Self {
        let fleet = Fleet::builder().members(4).start().await;
        let installation = Installation::new(&fleet).await;
        let mut proxies = BTreeMap::new();
        for cluster in fleet.clusters() {
            proxies.insert(cluster.name().to_owned(), Proxy::before(cluster).await);
        }
        let directory = fleet.directory().join("monitoring");
        std::fs::create_dir_all(&directory).expect("a directory");
        let webhook = installation.webhook_through(fleet.hub(), &proxies["hub"].url());
        let webhook = webhook.start().await;
        installation.register(&webhook).await;
        let log = LogPipe::new(&directory);
        let controller = installation
            .controller()
            .arg("--log=info,kube_client=off,causeway_controller::controller=debug")
            .log_to(log.pipe())
            .start()
            .await;
        crowd(fleet.member("member2")).await;
        for member in fleet.members() {
            installation
                .join_at(member, &proxies[member.name()].url())
                .await;
        }
        let [panicking_admin, tunnel_admin] = [free_port(), free_port()];
        let admins = [
            controller.admin(),
            webhook.admin(),
            &format!("127.0.0.1:{panicking_admin}"),
            &format!("127.0.0.1:{tunnel_admin}"),
        ];
        let configuration = configuration(&directory, &admins);
        let reaper = fleet.reaper();
        let prometheus = Prometheus::start(reaper, programs, &directory, &configuration).await;
        let pods = Pods {
            controller_log: log.log().to_path_buf(),
            webhook_log: webhook.process().log().to_path_buf(),
            other_log: directory.join("panicking.log"),
            leader: controller.admin().to_owned(),
        };
        let terminal = Terminal::open(&directory, fleet.hub().kubeconfig(), &pods);
        let space = fleet.space("shop").await.name().to_owned();
        Self {
            controller,
            webhook,
            panicking: None,
            panicking_admin,
            tunnel: None,
            tunnel_admin,
            log,
            proxies,
            prometheus,
            terminal,
            installation,
            space,
            fleet,
        }
    }

    pub(crate) fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    pub(crate) fn space(&self) -> Space<'_> {
        Space::existing(&self.fleet, &self.space)
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.fleet.directory().join("monitoring")
    }

    /// Exposes a service of member3 to member4, and waits until it is Ready: the pods behind it.
    pub(crate) async fn expose(&self, name: &str) -> Vec<RunningPod> {
        let space = self.space();
        service(name)
            .port("http", 80)
            .create(self.hub(), &space)
            .await;
        multi_cluster_service(name)
            .providers(["member3"])
            .consumers(["member4"])
            .create(&space)
            .await;
        let backends = space.backends(name).count(2);
        let pods = backends.create(self.fleet.member("member3")).await;
        self.is_ready(name).await;
        pods
    }

    async fn is_ready(&self, name: &str) {
        let space = self.space();
        let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        eventually(&format!("{name} is Ready"), SOON * 2, async || {
            let get = ["get", "mcs", name, "-n", space.name(), "-o", path];
            let seen = self.hub().kubectl(get).await.stdout;
            (seen == "True").then_some(()).ok_or(seen)
        })
        .await;
    }

    /// Starts the process that panics.
    pub(crate) fn panic(&mut self) {
        let program = binaries::causeway("panicking");
        let program = Program::new(program, self.directory().join("panicking.log"));
        let reaper = std::sync::Arc::clone(self.fleet.reaper());
        let launch = Launch::new(reaper, program, self.panicking_admin);
        self.panicking = Some(launch.start_unready());
    }

    /// Starts a causeway-tunnel with the certificate of that directory.
    pub(crate) fn tunnel(&mut self, tls: &Path) {
        let program = binaries::causeway("causeway-tunnel");
        let program = Program::new(program, self.directory().join("tunnel.log"))
            .args(["--agents-bind=127.0.0.1:0", "--front-bind=127.0.0.1:0"])
            .arg(format!("--tls-dir={}", tls.display()));
        let reaper = std::sync::Arc::clone(self.fleet.reaper());
        let launch = Launch::new(reaper, program, self.tunnel_admin);
        self.tunnel = Some(launch.start_unready());
    }

    /// Waits until the alert is pending or fires.
    pub(crate) async fn is_active(&self, alert: &str) {
        self.until(&format!("{alert} is pending"), |active| {
            active.iter().any(|one| one.name() == alert)
        })
        .await;
    }

    /// Waits until the alert fires.
    pub(crate) async fn fires(&self, alert: &str) {
        self.until(&format!("{alert} fires"), |active| {
            active
                .iter()
                .any(|one| one.name() == alert && one.is_firing())
        })
        .await;
    }

    /// Waits until Prometheus has scraped both programs and no alert is active. Before its first scrape, which it makes
    /// seconds after it is ready, nothing is there, and that is what some alerts are about.
    pub(crate) async fn nothing_is_wrong(&self) {
        let query = "max(causeway_webhook_ready) * max(causeway_controller_leader) == 1";
        eventually("Prometheus scrapes", NOTICED, async || {
            let scraped = self.prometheus.number(query).await;
            scraped.ok_or_else(|| format!("nothing for {query}"))
        })
        .await;
        self.until("no alert is active", <[ActiveAlert]>::is_empty)
            .await;
    }

    /// Waits until none of these alerts is pending or fires.
    pub(crate) async fn are_resolved(&self, alerts: &[&str]) {
        self.until("the alerts are resolved", |active| {
            !active.iter().any(|one| alerts.contains(&one.name()))
        })
        .await;
    }

    async fn until(&self, what: &str, is_so: impl Fn(&[ActiveAlert]) -> bool) {
        eventually(what, NOTICED, async || {
            let active = self.prometheus.alerts().await;
            let log = || self.webhook.process().log_tail(10);
            is_so(&active)
                .then_some(())
                .ok_or_else(|| format!("{active:?}\n{}", log()))
        })
        .await;
    }
}

/// Services and slices that a store can lose all at once.
async fn crowd(cluster: &Cluster) {
    let mut objects = "apiVersion: v1\nkind: Namespace\nmetadata: {name: crowd}\n".to_owned();
    for number in 0..CROWD {
        write!(
            objects,
            "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: crowd-{number}, namespace: crowd, labels: {{kubernetes.io/service-name: crowd-{number}}}}}\n\
             addressType: IPv4\nendpoints: [{{addresses: [10.200.0.{number}]}}]\nports: [{{port: 80}}]\n"
        )
        .expect("a text");
    }
    cluster.apply(&objects).await.ok();
}

/// A configuration of Prometheus that scrapes these admin servers, with the short rules.
fn configuration(directory: &Path, admins: &[&str]) -> String {
    std::fs::write(directory.join("rules.yaml"), short_rules()).expect("the rules");
    let targets = admins.join("\", \"");
    format!(
        "global: {{scrape_interval: {SCRAPED_EVERY}, scrape_timeout: {SCRAPED_EVERY}, evaluation_interval: {EVALUATED_EVERY}}}\n\
         rule_files: [rules.yaml]\n\
         scrape_configs:\n\
         - job_name: causeway\n  \
           static_configs: [{{targets: [\"{targets}\"]}}]\n"
    )
}
