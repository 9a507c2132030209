//! `causeway-tunnel`.

use std::process::ExitCode;
use std::sync::Arc;

use axum::routing::get;
use axum::{Json, Router};
use causeway::process::kube_client::hub_client;
use causeway::process::metrics::ComputedGauge;
use causeway::process::{self, Process, open_files};
use causeway_tunnel::args::{TunnelArgs, TunnelConfig};
use causeway_tunnel::registry::Registry;
use causeway_tunnel::splice::Shared;
use causeway_tunnel::tunnel::{Enrolment, Tunnel, bind};
use clap::Parser;

fn main() -> ExitCode {
    process::main(TunnelArgs::parse().check(), run)
}

async fn run(config: TunnelConfig) -> anyhow::Result<()> {
    open_files::raise();
    let metrics = config.metrics;
    let shared = Shared::new(config.limits, &metrics);
    let registry = Registry::new(&metrics);
    let shown = (registry.clone(), shared.limits.clone());
    let tunnels = move || async move { Json(shown.0.shown(&shown.1)) };
    let routes = Router::new().route("/tunnels", get(tunnels));
    let process = Process::start_with(config.admin, routes).await?;
    let budget = shared.budget.clone();
    let held = ComputedGauge::new(move || Some(budget.used() as f64));
    let first_end = |renews| {
        let agents = registry.clone();
        ComputedGauge::new(move || agents.first_end(renews).map(|at| at as f64))
    };
    let computed = [held, first_end(false), first_end(true)];
    let register = |registry: &mut _| metrics.register_tunnel(registry, computed);
    process.metrics.register(register);

    let tasks = &process.tasks;
    let agents = bind(config.agents).await?;
    let clients = bind(config.front).await?;
    tracing::info!(
        address = %agents.local_addr()?,
        front = %clients.local_addr()?,
        "causeway-tunnel listening"
    );
    let credentials = config.credentials;
    tasks.spawn("certificate", credentials.clone().follow(tasks.shutdown()));
    let tunnel = Tunnel::new(config.hello, credentials, shared, registry, tasks.clone());
    let enrolment = match config.enrolment {
        Some((signer, access)) => {
            let hub = hub_client(&access, "causeway-tunnel")?;
            Some(Arc::new(Enrolment::new(signer, hub)))
        }
        None => None,
    };
    tasks.spawn("agents", tunnel.clone().serve_agents(agents, enrolment));
    if let Some(address) = config.upgraded_agents {
        let agents = bind(address).await?;
        tracing::info!(address = %agents.local_addr()?, "listening for the API server");
        let served = tunnel.clone().serve_upgraded_agents(agents);
        tasks.spawn("agents of the API server", served);
    }
    tasks.spawn("front", tunnel.clone().serve_clients(clients));
    if let Some((address, front)) = config.authenticated {
        let clients = bind(address).await?;
        tracing::info!(front = %clients.local_addr()?, "authenticated front listening");
        tasks.spawn(
            "passwords",
            front.passwords.clone().follow(tasks.shutdown()),
        );
        if let Some(certificate) = front.certificate.clone() {
            tasks.spawn("front certificate", certificate.follow(tasks.shutdown()));
        }
        let served = tunnel.clone().serve_authenticated(clients, front);
        tasks.spawn("authenticated front", served);
    }
    Ok(process.run_lingering(tunnel.drain()).await?)
}
