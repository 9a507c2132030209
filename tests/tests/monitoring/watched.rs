//! A fleet behind proxies with causeway at work, a Prometheus that scrapes it, and a person's
//! terminal.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_tests::causeway::{Launch, Running};
use causeway_tests::fixtures::{RunningPod, crowd};
use causeway_tests::log_pipe::LogPipe;
use causeway_tests::prometheus::{ActiveAlert, Prometheus};
use causeway_tests::reaper::Program;
use causeway_tests::{Environment, Fleet, LONG, Space, binaries, eventually};

use crate::rules::short_rules;
use crate::runbooks::{Pods, Terminal};

/// As often as shortened times need it; a scrape takes no longer on a busy machine.
const SCRAPED_EVERY: &str = "2s";
const EVALUATED_EVERY: &str = "1s";
/// Services whose endpoints change in turn.
pub(crate) const MOVING: [&str; 3] = ["foo-0", "foo-1", "foo-2"];
/// For an alert to be pending, and then to fire: a fault that is noticed by a probe, the longest
/// hold, and a busy machine.
const NOTICED: Duration = Duration::from_secs(120);

pub(crate) struct Watched {
    pub(crate) env: Environment,
    pub(crate) panicking: Option<Running>,
    panicking_admin: u16,
    pub(crate) tunnel: Option<Running>,
    pub(crate) agent: Option<Running>,
    tunnel_admin: u16,
    tunnel_agents: u16,
    pub(crate) log: LogPipe,
    pub(crate) prometheus: Prometheus,
    pub(crate) terminal: Terminal,
    space: String,
}

impl Deref for Watched {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.env
    }
}

/// A port that nobody listens on now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

impl Watched {
    pub(crate) async fn start(programs: &Path) -> Self {
        let fleet = Fleet::builder().members(4).start().await;
        let directory = fleet.directory().join("monitoring");
        std::fs::create_dir_all(&directory).expect("a directory");
        crowd(fleet.member("member2")).await;
        let log = LogPipe::new(&directory);
        let pipe = log.pipe().to_path_buf();
        let env = Environment::builder().webhook().proxies().direct();
        let env = env.flag("--log=info,kube_client=off,causeway_controller::controller=debug");
        let tls = format!(
            "--tunnel-tls-dir={}",
            directory.join("controller").display()
        );
        let env = env.controller(move |launch| launch.log_to(&pipe).arg(&tls));
        let env = env.start(fleet).await;
        let (controller, webhook, fleet) = (&env.controller, env.webhook(), &env.fleet);
        let ports = [free_port(), free_port(), free_port()];
        let [panicking_admin, tunnel_admin, tunnel_agents] = ports;
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
            tunnel: format!("127.0.0.1:{tunnel_admin}"),
        };
        let terminal = Terminal::open(&directory, fleet.hub().kubeconfig(), &pods);
        let space = fleet.space("shop").await.name().to_owned();
        Self {
            env,
            panicking: None,
            panicking_admin,
            tunnel: None,
            agent: None,
            tunnel_admin,
            tunnel_agents,
            log,
            prometheus,
            terminal,
            space,
        }
    }

    pub(crate) fn space(&self) -> Space<'_> {
        Space::existing(&self.fleet, &self.space).patient(LONG)
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.fleet.directory().join("monitoring")
    }

    /// Exposes a service of member3 to member4, and waits until it is Ready: the pods behind it.
    pub(crate) async fn expose(&self, name: &str) -> Vec<RunningPod> {
        let space = self.space();
        space.expose(name, ["member3"], ["member4"]).await;
        let pods = space.pods(name, "member3", 2).await;
        space.says(name, "Ready", "True|").await;
        pods
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
            .arg(format!("--agents-bind=127.0.0.1:{}", self.tunnel_agents))
            .arg("--front-bind=127.0.0.1:0")
            .arg(format!("--tls-dir={}", tls.display()));
        let reaper = std::sync::Arc::clone(self.fleet.reaper());
        let launch = Launch::new(reaper, program, self.tunnel_admin);
        self.tunnel = Some(launch.start_unready());
    }

    /// Starts a causeway-agent with the certificate of that directory.
    pub(crate) fn agent(&mut self, tls: &Path) {
        let program = binaries::causeway("causeway-agent");
        let program = Program::new(program, self.directory().join("agent.log"))
            .arg(format!("--tunnel=127.0.0.1:{}", self.tunnel_agents))
            .arg("--api-server=127.0.0.1:1")
            .arg(format!("--tls-dir={}", tls.display()));
        let reaper = std::sync::Arc::clone(self.fleet.reaper());
        let launch = Launch::new(reaper, program, free_port());
        self.agent = Some(launch.start_unready());
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

    /// Waits until Prometheus has scraped both programs and no alert is active. Before its first
    /// scrape, which it makes seconds after it is ready, nothing is there, and that is what some
    /// alerts are about.
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
            let log = || self.webhook().process().log_tail(10);
            is_so(&active)
                .then_some(())
                .ok_or_else(|| format!("{active:?}\n{}", log()))
        })
        .await;
    }
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
