//! Two replicas of causeway-tunnel behind relays of TCP, on the loopback: one for agents, which can
//! be cut, and one for the controllers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{agent, replica, written};
use crate::causeway::{Installation, Running};
use crate::reaper::Process;
use crate::relay::Relay;
use crate::{Cluster, Fleet, ports};

/// Two replicas, the first of which may not run yet, behind relays.
pub struct RelayedTunnel {
    /// Relay between agents and replicas.
    pub agents: Relay,
    front: Relay,
    ports: [[u16; 3]; 2],
}

impl RelayedTunnel {
    /// Chooses free ports, and starts the relays.
    pub async fn new() -> Self {
        let ports = [(); 2].map(|()| [(); 3].map(|()| ports::fresh()));
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let to = |number: usize| ports.map(|ports| local(ports[number]));
        Self {
            agents: Relay::balance(to(0), Duration::ZERO).await,
            front: Relay::balance(to(1), Duration::ZERO).await,
            ports,
        }
    }

    /// Its front, as the flag of a controller.
    pub fn flag(&self) -> String {
        format!("--tunnel-front=http://{}", self.front.address())
    }

    /// Issues the certificate, and starts both replicas.
    pub async fn start(&self, fleet: &Fleet, installation: &Installation) -> [Process; 2] {
        let address = self.agents.address().to_string();
        let install = ["install", "--external", "--skip-crds", "--tunnel", &address];
        installation.kubectl_mcs(install).await.ok();
        let directory = written(fleet, fleet.hub(), "causeway-tunnel").await;
        let replicas = self.ports.map(|ports| {
            let launch = replica(fleet, &directory, "127.0.0.1", ports);
            launch.arg("--replicas=2").start_unready()
        });
        for replica in &replicas {
            replica.ready().await;
        }
        replicas.map(Running::into_process)
    }

    /// Joins a member whose API server the agent reaches at `url`, and starts the agent.
    pub async fn join(
        &self,
        fleet: &Fleet,
        installation: &Installation,
        member: &Cluster,
        url: &str,
    ) -> Process {
        let address = self.agents.address().to_string();
        let through = ["--api-endpoint", url, "--pull", "--tunnel", &address];
        let joined = installation.join_with(member, &through);
        let agent = async {
            let api = url.trim_start_matches("https://");
            let launch = agent(fleet, member, &address, api).await;
            launch.start_unready().into_process()
        };
        let ((), agent) = tokio::join!(joined, agent);
        agent
    }
}
