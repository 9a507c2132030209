//! One replica of causeway-tunnel and its agents, on the loopback.

use std::path::Path;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use sha2::{Digest as _, Sha256};

use super::written;
use crate::causeway::NAMESPACE;
use crate::eventually::{START, eventually};
use crate::metrics::Metrics;
use crate::reaper::{Process, Program};
use crate::{Cluster, Fleet, binaries, http, ports};

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
        let directory = written(fleet, fleet.hub(), "causeway-tunnel").await;
        let log = fleet.directory().join("causeway-tunnel.log");
        fleet.add_log(&log);
        let program = Program::new(binaries::causeway("causeway-tunnel"), log)
            .arg(format!("--agents-bind=127.0.0.1:{}", self.agents))
            .arg(format!("--front-bind=127.0.0.1:{}", self.front))
            .arg(format!("--admin-bind=127.0.0.1:{}", self.admin))
            .arg(format!("--tls-dir={}", directory.display()))
            .arg(format!(
                "--auth-front-bind=127.0.0.1:{}",
                self.authenticated
            ))
            .arg(format!("--auth-front-passwords={}", passwords(&directory)));
        let process = fleet.reaper().run(program);
        eventually("causeway-tunnel is ready", START, || async {
            assert!(process.is_running(), "it ended:\n{}", process.log_tail(20));
            match http::get(&self.admin(), "/readyz").await {
                Ok((200, _)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        process
    }

    /// Starts the agent of a member, once its Secret `causeway-agent` is there.
    pub async fn agent(&self, fleet: &Fleet, member: &Cluster) -> Process {
        let directory = written(fleet, member, "causeway-agent").await;
        let log = directory.with_extension("log");
        fleet.add_log(&log);
        let (address, port) = member.address();
        let program = Program::new(binaries::causeway("causeway-agent"), log)
            .arg(format!("--tunnel={}", self.address()))
            .arg(format!("--tls-dir={}", directory.display()))
            .arg(format!("--api-server={address}:{port}"))
            .arg(format!("--admin-bind=127.0.0.1:{}", ports::fresh()));
        fleet.reaper().run(program)
    }
}
