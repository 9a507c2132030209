//! How long a change takes from its provider to its consumers, and what is written for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Extent;
use super::environment::{Environment, Subject};
use super::load::{Load, Outcome};
use super::sim::journal::Write;
use super::sim::kind::Kind;
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;
use crate::report::Row;

const ENDPOINTS: u16 = 10;
const CONSUMERS: [u16; 2] = [1, 10];
/// Of the floor's p99, at most.
const LATENCY_RATIO: f64 = 1.5;
const CHANGES_FOR_CPU: f64 = 10_000.0;

/// One row of loads.
struct Case {
    consumers: u16,
    per_second: f64,
    controller: Measured,
    floor: Measured,
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
    let mut cases: Vec<Case> = Vec::new();
    for (per_second, _) in extent.rates {
        cases.extend(CONSUMERS.map(|consumers| Case {
            consumers,
            per_second: *per_second,
            controller: Measured::default(),
            floor: Measured::default(),
        }));
    }
    let (mut at_rest, mut refused) = (Vec::new(), 0);
    for round in 0..extent.rounds {
        let served = simulation(extent).await?;
        let controller = env.controller(&served)?;
        controller.synced(served.members()).await?;
        if round == 0 {
            let since = Instant::now();
            tokio::time::sleep(extent.rest).await;
            at_rest = served.journal.writes_since(since);
            if !at_rest.is_empty() {
                eprintln!("at rest: {}", served.journal.summary(&at_rest));
            }
        }
        for case in &mut cases {
            let measured = one(
                &served,
                &controller,
                case.consumers,
                case.per_second,
                extent,
            )
            .await?;
            case.controller.extend(measured);
        }
        refused += served.journal.refusals();
        drop(controller);
        let served = simulation(extent).await?;
        let floor = env.floor(&served).await?;
        for case in &mut cases {
            let measured = one(&served, &floor, case.consumers, case.per_second, extent).await?;
            case.floor.extend(measured);
        }
    }
    Ok(rows(&cases, at_rest.len(), refused, extent))
}

fn rows(cases: &[Case], at_rest: usize, refused: usize, extent: &Extent) -> Vec<Row> {
    let mut rows: Vec<_> = cases.iter().flat_map(Case::rows).collect();
    let seconds = extent.rest.as_secs_f64();
    rows.push(
        Row::new(
            format!("at rest for {seconds:.0} s: writes, Leases aside"),
            at_rest as f64,
            "",
        )
        .at_most(0.0),
    );
    let lost: usize = cases.iter().map(|case| case.controller.outcome.lost).sum();
    rows.push(
        Row::new(
            "changes that did not arrive within a minute",
            lost as f64,
            "",
        )
        .at_most(0.0),
    );
    rows.push(Row::new("writes that were refused", refused as f64, "").at_most(0.0));
    rows
}

async fn one(
    simulation: &Simulation,
    subject: &Subject,
    consumers: u16,
    per_second: f64,
    extent: &Extent,
) -> anyhow::Result<Measured> {
    let services = u32::try_from(extent.services)?;
    let first = if consumers == CONSUMERS[0] {
        0
    } else {
        services
    };
    let seconds = extent.seconds(per_second) / extent.rounds as f64;
    let pick = |number: u32| SliceId {
        service: first + number % services,
        slice: 0,
    };
    // A connection, a thread and a page of memory that are used for the first time are no part of it.
    Load::new(100.0, 0.2).run(simulation, pick).await;
    let (since, cpu) = (Instant::now(), subject.cpu()?);
    let outcome = Load::new(per_second, seconds).run(simulation, pick).await;
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
    fn extend(&mut self, other: Self) {
        self.outcome.extend(other.outcome);
        self.cpu += other.cpu;
        self.writes += other.writes;
        self.hub_writes += other.hub_writes;
    }

    fn changes(&self) -> f64 {
        self.outcome.arrived.len() as f64
    }
}

impl Case {
    fn rows(&self) -> Vec<Row> {
        let Self {
            consumers,
            per_second,
            controller,
            floor,
        } = self;
        let noun = if *consumers == 1 {
            "consumer"
        } else {
            "consumers"
        };
        let row = |what: &str, value: f64, unit: &'static str| {
            Row::new(
                format!("{per_second}/s, {consumers} {noun}: {what}"),
                value,
                unit,
            )
        };
        let percentile = |what: &str, part: f64| {
            row(what, controller.outcome.percentile(part), "ms")
                .beside(floor.outcome.percentile(part))
        };
        let per_change = |count: usize| count as f64 / controller.changes();
        let of_floor = floor.writes as f64 / floor.changes();
        let cpu =
            |measured: &Measured| measured.cpu.as_secs_f64() / measured.changes() * CHANGES_FOR_CPU;
        let mut rows = vec![
            percentile("p50", 0.5),
            percentile("p99", 0.99).ratio_at_most(LATENCY_RATIO),
            row("copies written a change", per_change(controller.writes), "")
                .beside(of_floor)
                .at_most(f64::from(*consumers)),
            row("hub writes a change", per_change(controller.hub_writes), "").at_most(0.0),
        ];
        if *per_second == 50.0 {
            rows.insert(
                2,
                row("p99 in all", controller.outcome.percentile(0.99), "ms").below(100.0),
            );
        }
        if *per_second > 1.0 {
            rows.push(row("CPU of 10,000 changes", cpu(controller), "s").beside(cpu(floor)));
            rows.push(row("superseded", controller.outcome.superseded(), ""));
        }
        rows
    }
}
