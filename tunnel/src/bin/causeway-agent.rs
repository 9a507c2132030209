//! `causeway-agent`.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use causeway::process::kube_client::hub_client;
use causeway::process::{self, Process};
use causeway_tunnel::agent::{Agent, Enrolment};
use causeway_tunnel::args::{AgentArgs, AgentCertificate, AgentConfig, AgentTunnel, own_name};
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use causeway_tunnel::paths::Paths;
use causeway_tunnel::splice::Shared;
use clap::Parser;
use kube::Api;

fn main() -> ExitCode {
    process::main(AgentArgs::parse().check(), run)
}

async fn run(config: AgentConfig) -> anyhow::Result<()> {
    let process = Process::start(config.admin).await?;
    let metrics = config.metrics;
    process
        .metrics
        .register(|registry| metrics.register_agent(registry));
    if let Some(access) = &config.paths {
        let client = hub_client(access, "causeway-agent")?;
        let ttl = config.provider_ttl;
        let paths = Paths::new(client, own_name(), ttl, metrics.clone());
        let copies = process.readiness.awaits("EndpointSlices");
        let shutdown = process.tasks.shutdown();
        process.tasks.spawn("paths", async move {
            let run = paths.run(move || copies.ready());
            shutdown.run_until_cancelled(run).await;
        });
    }
    match config.tunnel {
        Some(tunnel) => {
            let agent = connect(&process, tunnel, &metrics).await?;
            let drained = async move {
                if let Some(agent) = agent.get() {
                    agent.clone().drain().await;
                }
            };
            Ok(process.run_lingering(drained).await?)
        }
        None => Ok(process.run(Duration::ZERO).await?),
    }
}

/// Starts to keep the connections to causeway-tunnel, once there is a certificate.
async fn connect(
    process: &Process,
    tunnel: AgentTunnel,
    metrics: &Metrics,
) -> anyhow::Result<Arc<OnceLock<Agent>>> {
    let tasks = process.tasks.clone();
    let peers = Arc::new(tunnel.peers);
    let shared = Shared::new(Limits::default(), metrics);
    let first = process.readiness.awaits("causeway-tunnel");
    let started = Arc::<OnceLock<Agent>>::default();
    let start = {
        let (peers, shared) = (peers.clone(), shared.clone());
        let (tasks, started) = (tasks.clone(), started.clone());
        move |credentials| {
            let agent = Agent::new(peers, credentials, shared, tasks.clone());
            let agent = started.get_or_init(|| agent);
            let (connected, shutdown) = (agent.clone(), tasks.shutdown());
            tasks.spawn_job("first connection", async move {
                shutdown.run_until_cancelled(connected.connected()).await;
                first.ready();
            });
            tasks.spawn("connections", agent.clone().run());
        }
    };
    match tunnel.certificate {
        AgentCertificate::Files(credentials) => {
            tasks.spawn("certificate", credentials.clone().follow(tasks.shutdown()));
            start(credentials);
        }
        AgentCertificate::Enrolment {
            namespace,
            secret,
            access,
        } => {
            let member = hub_client(&access, "causeway-agent")?;
            let secrets = Api::namespaced(member, &namespace);
            let enrolment = Enrolment::new(peers, secrets, secret, shared);
            let shutdown = tasks.shutdown();
            tasks.spawn("enrolment", async move {
                let kept = async {
                    let credentials = enrolment.credentials().await;
                    start(credentials.clone());
                    enrolment.renew(credentials).await;
                };
                shutdown.run_until_cancelled(kept).await;
            });
        }
    }
    Ok(started)
}
