//! Time of a change from its provider to its consumers, and the writes for it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::environment::{Environment, FAST};
use super::load::{Load, Outcome};
use super::sim::{Access, ServiceSpec, Simulation};
use crate::machine::cpu_time;
use crate::pairs::{Pairs, in_turns};
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

/// Round of the floor or of the controller.
struct Measured {
    outcome: Outcome,
    cpu: Duration,
    writes: usize,
    hub_writes: usize,
}

pub(crate) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let services: u32 = if quick { 20 } else { 2000 };
    let rest = if quick { 1 } else { 20 };
    // Each program has clusters of its own, and rests while the other is measured.
    let (relayed, controlled) = (simulation(services).await?, simulation(services).await?);
    let controller = env.synced(&controlled, 0, FAST).await?;
    let resting = Instant::now();
    sleep(Duration::from_secs(rest)).await;
    let at_rest = controlled.journal.writes_since(resting).len();
    let floor = env.floor(&relayed, services, &CONSUMERS).await?;
    let pids = [floor.pid(), controller.process().pid()];
    let (mut rows, mut lost) = (Vec::new(), 0);
    for (load, rounds) in if quick { QUICK } else { FULL } {
        for (place, consumers) in (0..).zip(CONSUMERS) {
            let pick = |number: u32| place * services + number % services;
            let measured = in_turns(*rounds, async |turn| {
                let simulation = [&relayed, &controlled][turn];
                // Warms up with other slices than those that are measured: a copy is written ten
                // times a second at most.
                let others = |number: u32| pick(services - 1 - number % services);
                Load::new(100.0, 0.2).run(simulation, others).await;
                one(simulation, pids[turn], pick, *load).await
            });
            let measured = measured.await?;
            let sum = |of: fn(&Measured) -> usize| -> usize {
                let controller = measured.iter().map(|[_, controller]| of(controller));
                controller.sum()
            };
            lost += sum(|one| one.outcome.lost);
            let changes = sum(|one| one.outcome.arrived.len()) as f64;
            let per_second = load.per_second;
            let name = |what: &str| {
                let plural = if consumers == 1 { "" } else { "s" };
                format!("{per_second}/s, {consumers} consumer{plural}: {what}")
            };
            let row = |what: &str, unit, of: fn(&Measured) -> f64| {
                Pairs::of(&measured, of).row(name(what), unit)
            };
            let per_change = |what: &str, of: fn(&Measured) -> usize, most: f64| {
                Row::new(name(what), sum(of) as f64 / changes, "").at_most(most)
            };
            let p99 =
                row("p99", "ms", |one| one.outcome.percentile(0.99)).ratio_at_most(LATENCY_RATIO);
            if per_second == 50.0 {
                rows.push(Row::new(name("p99 in all"), p99.value, "ms").at_most(100.0));
            }
            rows.extend([
                row("p50", "ms", |one| one.outcome.percentile(0.5)),
                p99,
                per_change(
                    "copies written a change",
                    |one| one.writes,
                    consumers.into(),
                ),
                per_change("hub writes a change", |one| one.hub_writes, 0.0),
            ]);
            if per_second >= 500.0 {
                let cpu = row("CPU of 10,000 changes", "s", |one| one.cpu_of(10_000.0));
                rows.push(cpu.ratio_at_most(CPU_RATIO));
            }
        }
    }
    let resting = format!("at rest for {rest} s: writes, Leases aside");
    let refused = controlled.journal.refused.load(Relaxed);
    let none = |name: &str, count: usize| Row::new(name, count as f64, "").at_most(0.0);
    rows.extend([
        none(&resting, at_rest),
        none("changes that did not arrive within a minute", lost),
        none("writes that were refused", refused),
    ]);
    Ok(rows)
}

/// Serves so many services with one consumer, and as many with ten.
async fn simulation(services: u32) -> anyhow::Result<Simulation> {
    let specs = CONSUMERS.map(|consumers| ServiceSpec::new(0, 1..=consumers).times(services));
    Simulation::serve(11, specs.concat(), Access::Plain).await
}

async fn one(
    simulation: &Simulation,
    pid: u32,
    pick: impl Fn(u32) -> u32,
    load: Load,
) -> anyhow::Result<Measured> {
    let (since, cpu) = (Instant::now(), cpu_time(pid)?);
    let outcome = load.run(simulation, pick).await;
    let cpu = cpu_time(pid)? - cpu;
    let writes = simulation.journal.writes_since(since);
    Ok(Measured {
        outcome,
        cpu,
        hub_writes: writes.iter().filter(|write| write.on_hub).count(),
        writes: writes.iter().filter(|write| write.is_slice).count(),
    })
}

impl Measured {
    /// Returns the CPU seconds of so many changes.
    fn cpu_of(&self, changes: f64) -> f64 {
        self.cpu.as_secs_f64() / self.outcome.arrived.len() as f64 * changes
    }
}

/// Measures changes among few services and among many.
pub(super) async fn growth(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let sizes: [u32; 2] = if quick { [20, 100] } else { [1000, 100_000] };
    let (rounds, seconds) = if quick { (1, 0.4) } else { (9, 0.8) };
    let (warm_up, load) = (Load::new(PER_SECOND, 0.3), Load::new(PER_SECOND, seconds));
    let mut places = Vec::new();
    for services in sizes {
        let specs = ServiceSpec::new(0, [1]).times(services);
        let served = Simulation::serve(2, specs, Access::Plain).await?;
        let controller = env.synced(&served, 0, FAST).await?;
        places.push((services, served, controller));
    }
    // A controller that has just synced is not at rest yet.
    sleep(Duration::from_secs(if quick { 0 } else { 10 })).await;
    let mut measured = Vec::new();
    for round in 0..rounds {
        // Other services than those of the round before, all over the services.
        let first = round * (warm_up.changes() + load.changes());
        let measure = async |place: usize| {
            let &(services, ref served, ref controller) = &places[place];
            let step = (services / 1000).max(1) + 1;
            let pick = |number: u32| (first + number).wrapping_mul(step) % services;
            warm_up.run(served, pick).await;
            let later = |number| pick(warm_up.changes() + number);
            one(served, controller.process().pid(), later, load).await
        };
        measured.push([measure(0).await?, measure(1).await?]);
    }
    let [least, most] = sizes;
    let name = |what: &str| format!("{most} services, {PER_SECOND}/s: {what}, beside {least}");
    let row =
        |what: &str, unit, of: fn(&Measured) -> f64| Pairs::of(&measured, of).row(name(what), unit);
    Ok(vec![
        row("p50", "ms", |one| one.outcome.percentile(0.5)).ratio_at_most(GROWN_LATENCY),
        row("CPU of a change", "us", |one| one.cpu_of(1e6)).ratio_at_most(GROWN_CPU),
    ])
}
