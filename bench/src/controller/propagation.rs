//! How long a change takes from its provider to its consumers, and what is written for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::environment::{Environment, Subject};
use super::load::{Load, Outcome};
use super::sim::journal::Write;
use super::sim::kind::Kind;
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;
use super::{Extent, Rate};
use crate::pairs::Pairs;
use crate::report::Row;

const ENDPOINTS: u16 = 10;
const CONSUMERS: [u16; 2] = [1, 10];
/// Of the floor's p99, at most.
const LATENCY_RATIO: f64 = 1.5;
/// Of the floor's CPU at the highest rate, at most.
const CPU_RATIO: f64 = 2.0;
const CHANGES_FOR_CPU: f64 = 10_000.0;

/// One row of loads: rounds of the floor and of the controller.
struct Case {
    consumers: u16,
    rate: Rate,
    rounds: Vec<[Measured; 2]>,
}

#[derive(Default)]
struct Measured {
    outcome: Outcome,
    cpu: Duration,
    writes: usize,
    hub_writes: usize,
}

/// So many services of the first member that are consumed by one other, and as many that are consumed by ten.
async fn simulation(extent: &Extent) -> anyhow::Result<Simulation> {
    let services = CONSUMERS.iter().flat_map(|consumers| {
        let consumers: Arc<[u16]> = (1..=*consumers).collect();
        let spec = ServiceSpec {
            provider: 0,
            slices: 1,
            endpoints: ENDPOINTS,
            consumers,
        };
        std::iter::repeat_n(spec, extent.services)
    });
    let services = services.collect();
    serve(Shape {
        members: 11,
        services,
        dead: Vec::new(),
    })
    .await
}

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    // Each has clusters of its own, and rests while the other is measured.
    let (relayed, controlled) = (simulation(extent).await?, simulation(extent).await?);
    let controller = env.controller(&controlled)?;
    controller.synced(controlled.members()).await?;
    let at_rest = at_rest(&controlled, extent).await;
    let floor = env.floor(&relayed).await?;
    let mut cases = Vec::new();
    for rate in extent.rates {
        for consumers in CONSUMERS {
            let mut case = Case::new(consumers, *rate);
            let both = [(&relayed, &floor), (&controlled, &controller)];
            case.measure(both, extent).await?;
            cases.push(case);
        }
    }
    let refused = controlled.journal.refusals();
    Ok(rows(&cases, at_rest, refused, extent))
}

/// How much is written while nothing happens.
async fn at_rest(simulation: &Simulation, extent: &Extent) -> usize {
    let since = Instant::now();
    tokio::time::sleep(extent.rest).await;
    let written = simulation.journal.writes_since(since);
    if !written.is_empty() {
        eprintln!("at rest: {}", simulation.journal.summary(&written));
    }
    written.len()
}

fn rows(cases: &[Case], at_rest: usize, refused: usize, extent: &Extent) -> Vec<Row> {
    let mut rows: Vec<_> = cases.iter().flat_map(Case::rows).collect();
    let seconds = extent.rest.as_secs_f64();
    let lost = cases.iter().map(|case| case.sum(|one| one.outcome.lost));
    for (name, count) in [
        (
            format!("at rest for {seconds:.0} s: writes, Leases aside"),
            at_rest,
        ),
        (
            "changes that did not arrive within a minute".to_owned(),
            lost.sum(),
        ),
        ("writes that were refused".to_owned(), refused),
    ] {
        rows.push(Row::new(name, count as f64, "").at_most(0.0));
    }
    rows
}

async fn one(
    simulation: &Simulation,
    subject: &Subject,
    consumers: u16,
    rate: Rate,
    extent: &Extent,
) -> anyhow::Result<Measured> {
    let services = u32::try_from(extent.services)?;
    let first = if consumers == CONSUMERS[0] {
        0
    } else {
        services
    };
    let pick = |number: u32| SliceId {
        service: first + number % services,
        slice: 0,
    };
    // A connection, a thread and a page of memory that are used for the first time are no part of it. Other slices than those
    // that are measured, for a copy is written ten times a second at most.
    let others = |number: u32| pick(services - 1 - number % services);
    Load::new(100.0, 0.2).run(simulation, others).await;
    let (since, cpu) = (Instant::now(), subject.cpu()?);
    let load = Load::new(rate.per_second, rate.seconds);
    let outcome = load.run(simulation, pick).await;
    let writes = simulation.journal.writes_since(since);
    let on_hub = |write: &&Write| write.cluster == 0;
    Ok(Measured {
        outcome,
        cpu: subject.cpu()? - cpu,
        hub_writes: writes.iter().filter(on_hub).count(),
        writes: writes
            .iter()
            .filter(|write| write.cluster > 0 && write.kind == Kind::EndpointSlice)
            .count(),
    })
}

impl Measured {
    fn changes(&self) -> usize {
        self.outcome.arrived.len()
    }

    /// CPU seconds of ten thousand changes.
    fn cpu_of_many(&self) -> f64 {
        self.cpu.as_secs_f64() / self.changes() as f64 * CHANGES_FOR_CPU
    }
}

impl Case {
    fn new(consumers: u16, rate: Rate) -> Self {
        Self {
            consumers,
            rate,
            rounds: Vec::new(),
        }
    }

    /// Measures the floor and the controller in turns; the other one begins in every other round.
    async fn measure(
        &mut self,
        both: [(&Simulation, &Subject); 2],
        extent: &Extent,
    ) -> anyhow::Result<()> {
        for round in 0..self.rate.rounds {
            let mut measured = [Measured::default(), Measured::default()];
            let mut order = [0, 1];
            order.rotate_left(round % 2);
            for turn in order {
                let (simulation, subject) = both[turn];
                let one = one(simulation, subject, self.consumers, self.rate, extent);
                measured[turn] = one.await?;
            }
            self.rounds.push(measured);
        }
        Ok(())
    }

    /// Of all rounds of the controller.
    fn sum(&self, of: impl Fn(&Measured) -> usize) -> usize {
        self.rounds
            .iter()
            .map(|[_, controller]| of(controller))
            .sum()
    }

    fn row(&self, what: &str, of: impl Fn(&Measured) -> f64, unit: &'static str) -> Row {
        let mut pairs = Pairs::default();
        for [floor, controller] in &self.rounds {
            pairs.note(of(floor), of(controller));
        }
        pairs.row(self.name(what), unit)
    }

    fn name(&self, what: &str) -> String {
        let (consumers, per_second) = (self.consumers, self.rate.per_second);
        let noun = if consumers == 1 {
            "consumer"
        } else {
            "consumers"
        };
        format!("{per_second}/s, {consumers} {noun}: {what}")
    }

    fn rows(&self) -> Vec<Row> {
        let per_second = self.rate.per_second;
        let percentile = |what: &str, part: f64| {
            self.row(what, |measured| measured.outcome.percentile(part), "ms")
        };
        let p99 = percentile("p99", 0.99).ratio_at_most(LATENCY_RATIO);
        let changes = self.sum(Measured::changes) as f64;
        let per_change = |what: &str, of: fn(&Measured) -> usize| {
            Row::new(self.name(what), self.sum(of) as f64 / changes, "")
        };
        let mut rows = vec![percentile("p50", 0.5)];
        if per_second == 50.0 {
            rows.push(Row::new(self.name("p99 in all"), p99.value, "ms").below(100.0));
        }
        rows.push(p99);
        let copies = per_change("copies written a change", |measured| measured.writes);
        let on_hub = per_change("hub writes a change", |measured| measured.hub_writes);
        rows.push(copies.at_most(f64::from(self.consumers)));
        rows.push(on_hub.at_most(0.0));
        if per_second > 1.0 {
            let cpu = self.row("CPU of 10,000 changes", Measured::cpu_of_many, "s");
            rows.push(match per_second >= 500.0 {
                true => cpu.ratio_at_most(CPU_RATIO),
                false => cpu,
            });
            let superseded = |measured: &Measured| measured.outcome.count_superseded();
            rows.push(per_change("superseded", superseded));
        }
        rows
    }
}
