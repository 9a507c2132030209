//! A hundred consumers of one service, one of which may fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Extent;
use super::environment::{Environment, Subject};
use super::load::{Load, Outcome};
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;
use crate::report::Row;

const ENDPOINTS: u16 = 10;
const PER_SECOND: f64 = 5.0;
/// How much later than the floor the last consumer may have a change, in milliseconds.
const LATER: f64 = 100.0;
/// Of the p99 where nobody fails, at most: the same, but for what differs from run to run.
const FAILING_RATIO: f64 = 1.5;

/// One provider, and the other members as consumers of everything.
async fn simulation(extent: &Extent, dead: Vec<usize>) -> anyhow::Result<Simulation> {
    let consumers: Arc<[u16]> = (1..=u16::try_from(extent.members)?).collect();
    let spec = ServiceSpec {
        provider: 0,
        slices: 1,
        endpoints: ENDPOINTS,
        consumers,
    };
    serve(Shape {
        members: extent.members + 1,
        services: vec![spec; extent.services.min(500)],
        dead,
    })
    .await
}

async fn load(simulation: &Simulation, extent: &Extent) -> anyhow::Result<Outcome> {
    let services = u32::try_from(simulation.services.all().count())?;
    let pick = |number: u32| SliceId {
        service: number % services,
        slice: 0,
    };
    Load::new(PER_SECOND, 1.0).run(simulation, pick).await;
    Ok(Load::new(PER_SECOND, extent.load_seconds)
        .run(simulation, pick)
        .await)
}

/// Waits until nothing was written for a while: that a member is dead is said of every service.
async fn quiet(simulation: &Simulation) {
    const WHILE: Duration = Duration::from_secs(1);
    loop {
        let since = Instant::now();
        tokio::time::sleep(WHILE).await;
        if simulation.journal.writes_since(since).is_empty() {
            return;
        }
    }
}

async fn controlled(
    env: &Environment,
    simulation: &Simulation,
    members: usize,
) -> anyhow::Result<Subject> {
    let controller = env.controller(simulation)?;
    controller.synced(members).await?;
    quiet(simulation).await;
    Ok(controller)
}

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let last = extent.members;
    let served = simulation(extent, Vec::new()).await?;
    let subject = env.floor(&served).await?;
    let floor = load(&served, extent).await?.percentile(0.99);
    drop(subject);

    let served = simulation(extent, Vec::new()).await?;
    let controller = controlled(env, &served, served.members()).await?;
    let well = load(&served, extent).await?;
    served.member(last).hang(true);
    let hanging = load(&served, extent).await?.percentile(0.99);
    drop(controller);

    let served = simulation(extent, vec![last]).await?;
    served.member(last).hang(true);
    let controller = controlled(env, &served, served.members() - 1).await?;
    let dead = load(&served, extent).await?.percentile(0.99);
    drop(controller);

    let name = |what: &str| format!("{last} consumers, {PER_SECOND}/s: {what}");
    let p99 = well.percentile(0.99);
    let failing = |what: &str, value: f64| {
        let row = Row::new(name(what), value, "ms").beside(p99);
        row.ratio_at_most(FAILING_RATIO)
    };
    Ok(vec![
        Row::new(name("p50 to the last of them"), well.percentile(0.5), "ms"),
        Row::new(name("p99 to the last of them"), p99, "ms")
            .beside(floor)
            .below(floor + LATER),
        failing("p99 with one of them hanging, beside without", hanging),
        failing("p99 with one of them dead, beside without", dead),
    ])
}
