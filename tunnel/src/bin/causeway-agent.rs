//! `causeway-agent`.

use std::process::ExitCode;

use causeway::process::{self, Process};
use causeway_tunnel::agent::Agent;
use causeway_tunnel::args::{AgentArgs, AgentConfig};
use causeway_tunnel::limits::Limits;
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
    let tasks = &process.tasks;
    let credentials = config.credentials;
    tasks.spawn("certificate", credentials.clone().follow(tasks.shutdown()));
    let agent = Agent::new(
        config.peers,
        credentials,
        Shared::new(Limits::default(), &metrics),
        tasks.clone(),
    );
    let first = process.readiness.awaits("causeway-tunnel");
    let connected = agent.clone();
    tasks.spawn_job("first connection", async move {
        connected.connected().await;
        first.ready();
    });
    tasks.spawn("connections", agent.clone().run());
    Ok(process.run_lingering(agent.drain()).await?)
}
