//! Time of a change from its provider to its consumers, and the writes for it.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::environment::Environment;
use super::load::{Load, Round, Side};
use super::sim::{Access, ServiceSpec, Simulation};
use crate::report::Row;

const CONSUMERS: [u16; 2] = [1, 10];
/// Maximum of the p99, as a multiple of the floor's.
const LATENCY_RATIO: f64 = 1.5;
/// Maximum of the CPU at the highest rate, as a multiple of the floor's.
const CPU_RATIO: f64 = 2.0;

const PER_SECOND: f64 = 100.0;
/// Maxima of the latency and of the CPU, as multiples of those with the fewest services.
const GROWN_LATENCY: f64 = 1.1;
const GROWN_CPU: f64 = 1.5;

/// Loads, with the numbers of rounds.
const FULL: &[(Load, usize)] = &[
    (Load::new(1.0, 3.0), 3),
    (Load::new(50.0, 2.0), 5),
    (Load::new(500.0, 1.0), 7),
];
const QUICK: &[(Load, usize)] = &[(Load::new(20.0, 0.5), 1)];

pub(crate) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let services: u32 = if quick { 20 } else { 2000 };
    let rest = if quick { 1 } else { 20 };
    // As many services with one consumer as with ten. Each program has clusters of its own, and
    // rests while the other is measured.
    let specs = CONSUMERS.map(|consumers| ServiceSpec::new(0, 1..=consumers).times(services));
    let serve = || Simulation::serve(11, specs.concat(), Access::Plain);
    let (served, relayed) = (serve().await?, serve().await?);
    let controller = Side {
        program: env.synced(&served, 0).await?,
        served,
    };
    let resting = Instant::now();
    sleep(Duration::from_secs(rest)).await;
    let at_rest = controller.served.journal.writes_since(resting).len();
    let floor = Side {
        program: env.floor(&relayed).await?,
        served: relayed,
    };
    let (mut rows, mut lost) = (Vec::new(), 0);
    for (load, rounds) in if quick { QUICK } else { FULL } {
        for (place, consumers) in (0..).zip(CONSUMERS) {
            let pick = |_, number| place * services + number % services;
            let compared = load.compare([&floor, &controller], *rounds, pick).await?;
            let count = |of: fn(&Round) -> usize| -> usize {
                compared
                    .0
                    .iter()
                    .map(|[_, controller]| of(controller))
                    .sum()
            };
            lost += count(|round| round.outcome.lost);
            let changes = count(|round| round.outcome.arrived.len());
            let per_second = load.per_second;
            let name = |what: &str| {
                let plural = if consumers == 1 { "" } else { "s" };
                format!("{per_second}/s, {consumers} consumer{plural}: {what}")
            };
            let per_change = |what: &str, count: usize, most: f64| {
                Row::new(name(what), count as f64 / changes as f64, "").at_most(most)
            };
            let p99 = compared.percentile(0.99).row(name("p99"), "ms");
            if per_second == 50.0 {
                rows.push(Row::new(name("p99 in all"), p99.value, "ms").at_most(100.0));
            }
            let writes = count(|round| round.writes);
            let hub_writes = count(|round| round.hub_writes);
            rows.extend([
                compared.percentile(0.5).row(name("p50"), "ms"),
                p99.ratio_at_most(LATENCY_RATIO),
                per_change("copies written a change", writes, consumers.into()),
                per_change("hub writes a change", hub_writes, 0.0),
            ]);
            if per_second >= 500.0 {
                let cpu = compared.cpu_of(10_000.0);
                let cpu = cpu.row(name("CPU of 10,000 changes"), "s");
                rows.push(cpu.ratio_at_most(CPU_RATIO));
            }
        }
    }
    let resting = format!("at rest for {rest} s: writes, Leases aside");
    let refused = controller.served.journal.state().refused;
    let none = |name: &str, count: usize| Row::new(name, count as f64, "").at_most(0.0);
    rows.extend([
        none(&resting, at_rest),
        none("changes that did not arrive within a minute", lost),
        none("writes that were refused", refused),
    ]);
    Ok(rows)
}

/// Measures changes among few services and among many.
pub(super) async fn growth(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let [few, many] = if quick { [20, 100] } else { [1000, 100_000] };
    let (rounds, seconds) = if quick { (1, 0.4) } else { (9, 0.8) };
    let start = async |services| {
        let specs = ServiceSpec::new(0, [1]).times(services);
        let served = Simulation::serve(2, specs, Access::Plain).await?;
        let program = env.synced(&served, 0).await?;
        anyhow::Ok(Side { served, program })
    };
    let sides = [&start(few).await?, &start(many).await?];
    // A controller that has just synced is not at rest yet.
    sleep(Duration::from_secs(if quick { 0 } else { 10 })).await;
    let pick = |side: usize, number: u32| {
        let services = [few, many][side];
        // All over the services.
        let step = (services / 1000).max(1) + 1;
        number.wrapping_mul(step) % services
    };
    let load = Load::new(PER_SECOND, seconds);
    let compared = load.compare(sides, rounds, pick).await?;
    let name = |what: &str| format!("{many} services, {PER_SECOND}/s: {what}, beside {few}");
    let (p50, cpu) = (compared.percentile(0.5), compared.cpu_of(1e6));
    Ok(vec![
        p50.row(name("p50"), "ms").ratio_at_most(GROWN_LATENCY),
        cpu.row(name("CPU of a change"), "us")
            .ratio_at_most(GROWN_CPU),
    ])
}
