//! `causeway-agent`.

use std::process::ExitCode;
use std::time::Duration;

use causeway::process::kube_client::hub_client;
use causeway::process::{self, Process};
use causeway_tunnel::agent::Agent;
use causeway_tunnel::args::{AgentArgs, AgentConfig, AgentTunnel, own_name};
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use causeway_tunnel::paths::Paths;
use causeway_tunnel::splice::Shared;
use clap::Parser;

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
        let client = hub_client(access, "causeway-agent").await?;
        let paths = Paths::new(client, own_name(), metrics.clone());
        let copies = process.readiness.awaits("EndpointSlices");
        process
            .tasks
            .spawn("paths", paths.run(move || copies.ready()));
    }
    match config.tunnel {
        Some(tunnel) => {
            let agent = connect(&process, tunnel, &metrics);
            Ok(process.run_lingering(agent.drain()).await?)
        }
        None => Ok(process.run(Duration::ZERO).await?),
    }
}

/// Starts to keep the connections to causeway-tunnel.
fn connect(process: &Process, tunnel: AgentTunnel, metrics: &Metrics) -> Agent {
    let AgentTunnel { peers, credentials } = tunnel;
    let tasks = &process.tasks;
    tasks.spawn("certificate", credentials.clone().follow(tasks.shutdown()));
    let shared = Shared::new(Limits::default(), metrics);
    let agent = Agent::new(peers, credentials, shared, tasks.clone());
    let first = process.readiness.awaits("causeway-tunnel");
    let connected = agent.clone();
    tasks.spawn_job("first connection", async move {
        connected.connected().await;
        first.ready();
    });
    tasks.spawn("connections", agent.clone().run());
    agent
}
