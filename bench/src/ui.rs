//! `kubectl mcs ui`, as it is delivered, before a hub and members that are imitated: from a change
//! in a member to the event of the page.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use causeway_tests::Ui;
use causeway_tests::ui::Page;
use tokio::time::timeout;

use crate::controller::environment::Environment;
use crate::controller::load::Load;
use crate::controller::sim::slices::{namespace, service_name};
use crate::controller::sim::{Access, ServiceSpec, Simulation};
use crate::machine;
use crate::pairs::percentile;
use crate::report::Row;

const CONSUMERS: usize = 10;
/// Maximum milliseconds from a change to its event.
const LATENCY: f64 = 200.0;
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) fn run(quick: bool) -> anyhow::Result<Vec<Row>> {
    crate::runtime()?.block_on(measure(quick))
}

async fn measure(quick: bool) -> anyhow::Result<Vec<Row>> {
    let (members, services): (usize, u32) = if quick { (6, 20) } else { (100, 1000) };
    let (per_second, rest) = if quick { (20.0, 1) } else { (25.0, 10) };
    let specs = ServiceSpec::ring(members, CONSUMERS).into_iter().cycle();
    let specs = specs.take(services as usize).collect();
    let simulation = Simulation::serve(members, specs, Access::Plain).await?;
    let env = Environment::new()?;
    let kubeconfig = env.kubeconfig(&simulation)?;
    let args = ["--allow-insecure-members", "--lease="];
    let begun = Instant::now();
    let ui = Ui::start(&env.reaper, env.directory.path(), &kubeconfig, &args).await;
    let mut page = ui.page().await;
    let shown = async {
        while page.services.len() < services as usize || page.server["synced"] != true {
            page.next().await;
        }
    };
    let shown = timeout(PATIENCE, shown).await;
    shown.with_context(|| format!("not all is shown: {}", ui.process().log_tail(20)))?;
    let synced = begun.elapsed();
    let pid = ui.process().pid();
    let at_rest = machine::cpu_during(pid, Duration::from_secs(rest)).await?;
    let before = machine::cpu_time(pid)?;
    let load = Load::new(per_second, f64::from(services) / per_second);
    let latencies = latencies(&simulation, load, &mut page).await?;
    let of_changes = (machine::cpu_time(pid)? - before).as_secs_f64();
    let name = |what: &str| format!("ui, {members} clusters, {services} services: {what}");
    let row = |what: &str, value: f64, unit: &'static str| Row::new(name(what), value, unit);
    let percentile = |part| percentile(&latencies, 0, part);
    let per_change = of_changes * 1000.0 / f64::from(services);
    Ok(vec![
        row("from a change to its event, p50", percentile(0.5), "ms"),
        row("from a change to its event, p99", percentile(0.99), "ms").at_most(LATENCY),
        row("CPU of a change", per_change, "ms"),
        row("from the start to all shown", synced.as_secs_f64(), "s"),
        row("CPU at rest", at_rest, "% of a core"),
        row("resident", machine::memory(pid)?.resident, "MiB"),
    ])
}

/// Replaces a pod of each service, one after the other. Nobody copies the new one, so each row
/// changes.
async fn latencies(
    simulation: &Simulation,
    load: Load,
    page: &mut Page,
) -> anyhow::Result<Vec<Duration>> {
    let mut changed = Vec::new();
    let changes = load.make(simulation, |service| {
        changed.push(Instant::now());
        service
    });
    let keys = (0..load.changes()).map(|service| {
        let (namespace, name) = (namespace(service), service_name(service));
        (format!("MultiClusterService/{namespace}/{name}"), service)
    });
    let mut awaited: HashMap<_, _> = keys.collect();
    let mut shown = Vec::new();
    let all = async {
        while !awaited.is_empty() {
            let changed = page.next().await;
            let now = Instant::now();
            for key in changed {
                let row = page.services.get(&key);
                let mut consumers = row.into_iter().flat_map(|row| row["consumers"].as_array());
                let lacks = consumers.any(|all| all.iter().any(|one| one["missing"] == 1));
                if lacks && let Some(service) = awaited.remove(&key) {
                    shown.push((service, now));
                }
            }
        }
    };
    let ((), arrived) = tokio::join!(changes, timeout(PATIENCE, all));
    arrived.with_context(|| format!("{} changes were never shown", awaited.len()))?;
    let latency = |(service, at): (u32, Instant)| at.duration_since(changed[service as usize]);
    Ok(shown.into_iter().map(latency).collect())
}
