//! One replica of causeway-tunnel and its agents, on the loopback.

use super::written;
use crate::eventually::{START, eventually};
use crate::reaper::{Process, Program};
use crate::{Cluster, Fleet, binaries, http, ports};

/// Addresses of a replica that may not run yet.
pub struct IssuedTunnel {
    agents: u16,
    front: u16,
    admin: u16,
}

impl IssuedTunnel {
    /// Chooses free ports.
    #[expect(clippy::new_without_default, reason = "each one takes other ports")]
    pub fn new() -> Self {
        Self {
            agents: ports::fresh(),
            front: ports::fresh(),
            admin: ports::fresh(),
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

    /// Starts the replica with the certificate of Secret `causeway-tunnel`, and waits until it is
    /// ready.
    pub async fn start(&self, fleet: &Fleet) -> Process {
        let directory = written(fleet, fleet.hub(), "causeway-tunnel").await;
        let log = fleet.directory().join("causeway-tunnel.log");
        fleet.add_log(&log);
        let program = Program::new(binaries::causeway("causeway-tunnel"), log)
            .arg(format!("--agents-bind=127.0.0.1:{}", self.agents))
            .arg(format!("--front-bind=127.0.0.1:{}", self.front))
            .arg(format!("--admin-bind=127.0.0.1:{}", self.admin))
            .arg(format!("--tls-dir={}", directory.display()));
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
