//! One replica of causeway-tunnel and its agents, on the loopback.

use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use sha2::{Digest as _, Sha256};

use super::{agent, files, replica, written};
use crate::causeway::NAMESPACE;
use crate::eventually::{LONG, eventually};
use crate::metrics::Metrics;
use crate::reaper::{Process, Program};
use crate::{Cluster, Fleet, binaries, http, ports};

const AGENTS: &str = "causeway_tunnel_agents";
/// Secret with the certificate of the controller for agents.
const CONTROLLER: &str = "causeway-controller-tunnel";

/// Password of clients for member edge.
pub const PASSWORD: &str = "correct-horse-battery-staple";

/// Writes the file of the passwords.
fn passwords(directory: &Path) -> String {
    let file = directory.join("passwords");
    let digest = Sha256::digest(PASSWORD);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&file, format!("edge sha256:{hex}\n")).expect("a file");
    file.display().to_string()
}

/// Writes a kubeconfig of an account of causeway.
async fn kubeconfig_of(cluster: &Cluster, account: &str) -> String {
    let create = ["create", "token", account, "-n", NAMESPACE];
    let token = cluster.kubectl(create).await.ok();
    let file = format!("{account}-{}.kubeconfig", cluster.name());
    let kubeconfig = cluster.kubeconfig_with_token(&file, token.trim());
    kubeconfig.display().to_string()
}

/// Addresses of a replica that may not run yet.
pub struct IssuedTunnel {
    agents: u16,
    front: u16,
    admin: u16,
    authenticated: u16,
}

impl IssuedTunnel {
    /// Chooses free ports.
    #[expect(clippy::new_without_default, reason = "each one takes other ports")]
    pub fn new() -> Self {
        Self {
            agents: ports::fresh(),
            front: ports::fresh(),
            admin: ports::fresh(),
            authenticated: ports::fresh(),
        }
    }

    /// The address for agents, as `--tunnel` takes it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.agents)
    }

    /// The address for clients, as `--tunnel-front` takes it.
    pub fn front(&self) -> String {
        format!("http://127.0.0.1:{}", self.front)
    }

    /// The address of the admin server, without a scheme.
    pub fn admin(&self) -> String {
        format!("127.0.0.1:{}", self.admin)
    }

    /// Its metrics.
    pub async fn metrics(&self) -> Metrics {
        let (_, metrics) = http::get(&self.admin(), "/metrics").await.expect("metrics");
        Metrics::parse(&metrics)
    }

    /// Waits until it has one connection of that member.
    pub async fn is_connected_to(&self, member: &str) {
        eventually("the agent is connected", LONG, async || {
            let answered = http::get(&self.admin(), "/metrics").await;
            let (_, text) = answered.map_err(|error| error.to_string())?;
            let agents = Metrics::parse(&text).get(AGENTS, &[("cluster", member)]);
            (agents == Some(1.0)).then_some(()).ok_or(text)
        })
        .await;
    }

    /// The address of the authenticated front.
    pub fn authenticated(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.authenticated)
    }

    /// The URL of the authenticated front, for a client with these credentials.
    pub fn proxy(&self, member: &str, password: &str) -> String {
        let port = self.authenticated;
        format!("https://{member}:{password}@127.0.0.1:{port}")
    }

    /// Writes a kubeconfig of a member by which kubectl uses this proxy. Its API server is at
    /// `url`.
    pub async fn kubeconfig(
        &self,
        fleet: &Fleet,
        member: &Cluster,
        [url, proxy]: [&str; 2],
    ) -> String {
        let secrets = Api::<Secret>::namespaced(fleet.hub().client(), NAMESPACE);
        let secret = secrets.get("causeway-tunnel").await.expect("a certificate");
        let data = secret.data.expect("data");
        let authority = std::str::from_utf8(&data["ca.crt"].0).expect("PEM");
        let file = member.kubeconfig_through(fleet.directory(), url, proxy, authority);
        file.display().to_string()
    }

    /// Starts the replica with the certificate of Secret `causeway-tunnel`, and waits until it is
    /// ready. Its authenticated front has [`PASSWORD`] for member edge.
    pub async fn start(&self, fleet: &Fleet) -> Process {
        self.start_with(fleet, &[]).await
    }

    /// Starts the replica as [`start`](Self::start) does, with the authority of Secret
    /// `causeway-tunnel-enrolment`, and the rights of its account.
    pub async fn start_enrolling(&self, fleet: &Fleet) -> Process {
        let authority = written(fleet, fleet.hub(), "causeway-tunnel-enrolment").await;
        let kubeconfig = kubeconfig_of(fleet.hub(), "causeway-tunnel").await;
        let flags = [
            format!("--enrolment-dir={}", authority.display()),
            format!("--kubeconfig={kubeconfig}"),
        ];
        self.start_with(fleet, &flags.each_ref().map(String::as_str))
            .await
    }

    /// [`Self::start`], with these flags too.
    pub async fn start_with(&self, fleet: &Fleet, flags: &[&str]) -> Process {
        let directory = written(fleet, fleet.hub(), "causeway-tunnel").await;
        let ports = [self.agents, self.front, self.admin];
        let authenticated = self.authenticated;
        let launch = replica(fleet, &directory, "127.0.0.1", ports)
            .arg(format!("--auth-front-bind=127.0.0.1:{authenticated}"))
            .arg(format!("--auth-front-passwords={}", passwords(&directory)));
        let launch = flags.iter().fold(launch, |launch, flag| launch.arg(*flag));
        launch.start().await.into_process()
    }

    /// Starts the agent of a member with the flags of its Deployment, and the rights of its
    /// account.
    pub async fn deployed_agent(&self, fleet: &Fleet, member: &Cluster) -> Process {
        let log = format!("causeway-agent-{}.log", member.name());
        let log = fleet.directory().join(log);
        fleet.add_log(&log);
        let deployments = Api::<Deployment>::namespaced(member.client(), NAMESPACE);
        let deployment = deployments.get("causeway-agent").await.expect("an agent");
        let pod = deployment.spec.expect("a spec").template.spec;
        let container = pod.expect("a pod").containers.remove(0);
        let mut flags = container.args.expect("flags");
        flags.retain(|flag| !flag.starts_with("--admin-bind="));
        let kubeconfig = kubeconfig_of(member, "causeway-agent").await;
        let (address, port) = member.address();
        let program = Program::new(binaries::causeway("causeway-agent"), log)
            .args(flags)
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--api-server={address}:{port}"))
            .arg(format!("--admin-bind=127.0.0.1:{}", ports::fresh()));
        fleet.reaper().run(program)
    }

    /// Returns the directory that `--tunnel-tls-dir` of a controller names.
    pub fn controller_files(fleet: &Fleet) -> PathBuf {
        files(fleet, fleet.hub(), CONTROLLER)
    }

    /// Writes the certificate of Secret `causeway-controller-tunnel` there.
    pub async fn certify_controller(&self, fleet: &Fleet) {
        written(fleet, fleet.hub(), CONTROLLER).await;
    }

    /// Returns the directory with the certificate of a member's agent.
    pub fn agent_files(fleet: &Fleet, member: &Cluster) -> PathBuf {
        files(fleet, member, "causeway-agent")
    }

    /// Starts the agent of a member, once its Secret `causeway-agent` is there. It comes through
    /// the hub's API server if the Secret has a kubeconfig.
    pub async fn agent(&self, fleet: &Fleet, member: &Cluster) -> Process {
        self.agent_with(fleet, member, &[]).await
    }

    /// The same with further flags.
    pub async fn agent_with(&self, fleet: &Fleet, member: &Cluster, flags: &[String]) -> Process {
        let (address, port) = member.address();
        let api = format!("{address}:{port}");
        let launch = agent(fleet, member, &self.address(), &api).await;
        let launch = flags.iter().fold(launch, |launch, flag| launch.arg(flag));
        launch.start_unready().into_process()
    }
}
