//! `causeway-webhook`.

use std::process::ExitCode;
use std::sync::Arc;

use causeway::process::{self, Process, kube_client};
use causeway_webhook::args::{Args, CertificateSource, Config};
use causeway_webhook::certificates;
use causeway_webhook::hub::Hub;
use causeway_webhook::limits::BODY_MAX;
use causeway_webhook::metrics::Metrics;
use causeway_webhook::server::Server;
use causeway_webhook::service::Webhook;
use causeway_webhook::tls;
use clap::Parser;

fn main() -> ExitCode {
    process::main(Args::parse().check(), run)
}

/// Makes the allocator keep the memory of a body for the next one.
///
/// glibc returns free memory beyond twice the largest block that it has mapped and freed
/// (mallopt(3), M_TRIM_THRESHOLD), which is 256 KiB at first. A large body would be mapped and
/// cleared again page by page.
fn keep_freed_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BODY_MAX)));
}

async fn run(config: Config) -> anyhow::Result<()> {
    keep_freed_memory();
    let mut process = Process::start(config.admin).await?;
    let tracer = process.trace("causeway-webhook", &config.traces)?;
    let tasks = &process.tasks;
    let metrics = process.metrics.register(Metrics::register);
    let ready = process.readiness.gauge();
    process
        .metrics
        .register(|registry| Metrics::register_readiness(registry, ready));

    let client = kube_client::hub_client(&config.hub, "causeway-webhook")?;
    let hub = Hub::new(client.clone());
    hub.watch(tasks, &process.readiness, &metrics);

    let resolver = match config.certificate {
        CertificateSource::Directory { path, files, first } => {
            let resolver = Arc::new(tls::Resolver::new(first, &metrics));
            let renewal = tls::follow(
                path,
                files,
                Arc::clone(&resolver),
                metrics.clone(),
                tasks.shutdown(),
            );
            tasks.spawn("certificate", renewal);
            resolver
        }
        CertificateSource::SelfManaged(managed) => {
            let resolver = Arc::new(tls::Resolver::default());
            certificates::rotate(managed, client, Arc::clone(&resolver), &metrics, &process);
            resolver
        }
    };

    let limits = config.limits.within_open_files().within_memory();
    let webhook = Webhook::new(hub, config.policy, &limits, metrics, tasks.clone()).traced(tracer);
    if let Some(callers) = &config.callers {
        let following = Arc::clone(callers).follow(tasks.shutdown());
        tasks.spawn("client authorities", following);
    }
    let tls = tls::server_config(resolver, config.callers)?;
    let server = Server::bind(config.bind, tls, webhook).await?;
    tracing::info!(address = %server.address(), "webhook listening");
    let drain = server.drain();
    tasks.spawn("server", server.run(tasks.clone()));
    Ok(process.run_lingering(drain.completed()).await?)
}
