//! `kubectl mcs ui`, as it is delivered, before a hub and a hundred members that are imitated: from a change in a member to the event
//! that the page is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use causeway_tests::Ui;
use causeway_tests::reaper::Reaper;
use causeway_tests::ui::Page;
use serde_json::{Value, json};
use tokio::time::{sleep, sleep_until, timeout};

use crate::controller::sim::seed::{Shape, serve};
use crate::controller::sim::services::ServiceSpec;
use crate::controller::sim::simulation::Simulation;
use crate::controller::sim::text::{SliceId, namespace, service_name};
use crate::report::Row;
use crate::{Common, proc};

const ENDPOINTS: u16 = 10;
const CONSUMERS: usize = 10;
/// Milliseconds from a change to its event, at most.
const LATENCY: f64 = 200.0;
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Measure nothing: print the address of the page, and change services until Ctrl-C
    #[arg(long)]
    pub(crate) serve: bool,
    /// Changes a second with --serve
    #[arg(long, default_value_t = 20.0, requires = "serve")]
    rate: f64,
}

/// How much is done.
struct Extent {
    members: usize,
    services: usize,
    /// Changes a second; each service is changed once.
    per_second: f64,
    rest: Duration,
}

const FULL: Extent = Extent {
    members: 100,
    services: 1000,
    per_second: 25.0,
    rest: Duration::from_secs(10),
};

const QUICK: Extent = Extent {
    members: 6,
    services: 20,
    per_second: 20.0,
    rest: Duration::from_secs(1),
};

/// The page, and what it is served from.
struct Served {
    simulation: Arc<Simulation>,
    ui: Ui,
    begun: Instant,
    _directory: tempfile::TempDir,
}

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    runtime()?.block_on(measure(args.extent()))
}

/// Serves the page, and changes services until it is interrupted.
pub(crate) fn serve_page(args: &Args) -> anyhow::Result<()> {
    runtime()?.block_on(change_for_ever(args.extent(), args.rate))
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build()
}

impl Args {
    fn extent(&self) -> &'static Extent {
        if self.common.quick { &QUICK } else { &FULL }
    }
}

/// Each member provides as many services as the others, each for the ten members that follow it.
async fn start(extent: &Extent) -> anyhow::Result<Served> {
    let members = extent.members;
    let number = |member: usize| u16::try_from(member % members).unwrap_or_default();
    let services = (0..extent.services).map(|service| ServiceSpec {
        provider: number(service),
        slices: 1,
        endpoints: ENDPOINTS,
        consumers: (1..=CONSUMERS.min(members - 1))
            .map(|step| number(service + step))
            .collect(),
    });
    let simulation = serve(Shape {
        members,
        services: services.collect(),
        dead: Vec::new(),
    });
    let simulation = Arc::new(simulation.await?);
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("hub.kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": simulation.hub_url()}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
        "users": [{"name": "hub", "user": {"token": "token"}}],
    });
    std::fs::write(&kubeconfig, text.to_string()).context("the kubeconfig of the hub")?;
    let args = ["--allow-insecure-members", "--lease="];
    let begun = Instant::now();
    let ui = Ui::start(&Reaper::start(), directory.path(), &kubeconfig, &args).await;
    Ok(Served {
        simulation,
        ui,
        begun,
        _directory: directory,
    })
}

/// The page, once all services are shown.
async fn all_shown(served: &Served, extent: &Extent) -> anyhow::Result<Page> {
    let mut page = served.ui.page().await;
    let shown = async {
        while page.services.len() < extent.services || page.server["synced"] != true {
            page.next().await;
        }
    };
    let shown = timeout(PATIENCE, shown).await;
    shown.with_context(|| {
        let (shown, all) = (page.services.len(), extent.services);
        let log = served.ui.process().log_tail(20);
        format!("{shown} of {all} services, {}\n{log}", page.server)
    })?;
    Ok(page)
}

async fn measure(extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let served = start(extent).await?;
    let mut page = all_shown(&served, extent).await?;
    let synced = served.begun.elapsed();
    let pid = served.ui.process().pid();
    let of_start = proc::cpu_time(pid)?;
    sleep(extent.rest).await;
    let at_rest = proc::cpu_time(pid)? - of_start;
    let rows = page.services.values();
    let bytes: usize = rows.map(|row| row.to_string().len()).sum();
    let before = proc::cpu_time(pid)?;
    let mut latencies = latencies(&served, extent, &mut page).await?;
    let of_changes = proc::cpu_time(pid)? - before;
    latencies.sort_unstable();
    let (members, services) = (extent.members, extent.services);
    let name = |what: &str| format!("ui, {members} clusters, {services} services: {what}");
    let row = |what: &str, value: f64, unit: &'static str| Row::new(name(what), value, unit);
    let milliseconds = |part: f64| {
        let place = (latencies.len() as f64 * part).ceil() as usize;
        let one = latencies.get(place.saturating_sub(1)).copied();
        one.unwrap_or_default().as_secs_f64() * 1000.0
    };
    let per_change = of_changes.as_secs_f64() * 1000.0 / latencies.len().max(1) as f64;
    let rest = at_rest.as_secs_f64() / extent.rest.as_secs_f64() * 100.0;
    Ok(vec![
        row("from a change to its event, p50", milliseconds(0.5), "ms"),
        row("from a change to its event, p99", milliseconds(0.99), "ms").below(LATENCY),
        row(
            "from a change to its event, at most",
            milliseconds(1.0),
            "ms",
        ),
        row("CPU of a change", per_change, "ms"),
        row("from the start to all shown", synced.as_secs_f64(), "s"),
        row("CPU of the start", of_start.as_secs_f64(), "s"),
        row("of a core at rest", rest, "%"),
        row("rows of services", bytes as f64 / 1e6, "MB"),
        row("resident", proc::memory(pid)?.resident, "MiB"),
    ])
}

/// Replaces a pod of each service, one after the other: nobody copies the new one, so each row changes.
async fn latencies(
    served: &Served,
    extent: &Extent,
    page: &mut Page,
) -> anyhow::Result<Vec<Duration>> {
    let services = u32::try_from(extent.services)?;
    let begun = tokio::time::Instant::now();
    let per_second = extent.per_second;
    let simulation = served.simulation.clone();
    let changes = tokio::spawn(async move {
        let mut changed = Vec::new();
        for service in 0..services {
            let since = Duration::from_secs_f64(f64::from(service) / per_second);
            sleep_until(begun + since).await;
            changed.push(Instant::now());
            simulation.replace_pod(SliceId { service, slice: 0 });
        }
        changed
    });
    let keys = (0..services).map(|service| {
        let (namespace, name) = (namespace(service), service_name(service));
        (format!("MultiClusterService/{namespace}/{name}"), service)
    });
    let mut awaited: HashMap<_, _> = keys.collect();
    let mut shown = vec![None; extent.services];
    let all = async {
        while !awaited.is_empty() {
            let changed = page.next().await;
            let now = Instant::now();
            for key in changed {
                let consumers = page.services.get(&key);
                let consumers = consumers.and_then(|row| row["consumers"].as_array());
                let lacks = |one: &Value| one["missing"] == 1;
                if consumers.is_some_and(|all| all.iter().any(lacks))
                    && let Some(service) = awaited.remove(&key)
                {
                    shown[service as usize] = Some(now);
                }
            }
        }
    };
    let arrived = timeout(PATIENCE, all).await;
    ensure!(
        arrived.is_ok(),
        "{} changes were never shown",
        awaited.len()
    );
    let changed = changes.await?;
    let both = shown.into_iter().zip(changed);
    let both = both.filter_map(|(shown, changed)| Some(shown?.duration_since(changed)));
    Ok(both.collect())
}

/// Serves a browser.
async fn change_for_ever(extent: &Extent, rate: f64) -> anyhow::Result<()> {
    let served = start(extent).await?;
    println!("{}", served.ui.url());
    let services = u32::try_from(extent.services)?;
    for number in 0.. {
        let service = number % services;
        tokio::select! {
            () = sleep(Duration::from_secs_f64(1.0 / rate)) => {}
            pressed = tokio::signal::ctrl_c() => return Ok(pressed?),
        }
        served.simulation.replace_pod(SliceId { service, slice: 0 });
    }
    Ok(())
}
