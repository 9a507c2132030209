//! Whether a change costs the same however many services there are.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::Extent;
use super::environment::{Environment, Subject};
use super::load::Load;
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;
use crate::pairs::{Pairs, row_of};
use crate::report::Row;

const ENDPOINTS: u16 = 10;
const PER_SECOND: f64 = 100.0;
/// Of the latency and of the CPU with the fewest services, at most.
const LATENCY: f64 = 1.1;
const CPU: f64 = 1.5;

/// Clusters with so many services, and the controller that keeps them.
struct Place {
    services: u32,
    served: Simulation,
    controller: Subject,
}

/// Changes of the first so many services of a place.
struct Case<'a> {
    place: &'a Place,
    among: u32,
    rounds: Vec<Measured>,
}

/// Milliseconds, and microseconds of CPU for each change.
#[derive(Clone, Copy)]
struct Measured {
    p50: f64,
    p99: f64,
    cpu: f64,
}

impl Place {
    async fn new(env: &Environment, services: usize) -> anyhow::Result<Self> {
        let consumers: Arc<[u16]> = Arc::new([1]);
        let spec = ServiceSpec {
            provider: 0,
            slices: 1,
            endpoints: ENDPOINTS,
            consumers,
        };
        let served = serve(Shape {
            members: 2,
            services: vec![spec; services],
            dead: Vec::new(),
        });
        let served = served.await?;
        let controller = env.controller(&served)?;
        controller.synced(served.members()).await?;
        Ok(Self {
            services: u32::try_from(services)?,
            served,
            controller,
        })
    }
}

/// Waits until a controller has nothing to do any more: what it knows is only just synced.
async fn rest(controller: &Subject) -> anyhow::Result<()> {
    const WHILE: Duration = Duration::from_millis(500);
    const HARDLY_ANY: Duration = Duration::from_millis(10);
    const AT_MOST: usize = 60;
    for _ in 0..AT_MOST {
        let cpu = controller.cpu()?;
        sleep(WHILE).await;
        if controller.cpu()? - cpu < HARDLY_ANY {
            break;
        }
    }
    Ok(())
}

impl<'a> Case<'a> {
    fn new(place: &'a Place, among: u32) -> Self {
        Self {
            place,
            among,
            rounds: Vec::new(),
        }
    }

    /// Another round, of other services than the one before.
    async fn measure(&mut self, seconds: f64) -> anyhow::Result<()> {
        const WARM_UP: f64 = 0.3;
        let Place {
            served, controller, ..
        } = self.place;
        let (warm_up, load) = (
            Load::new(PER_SECOND, WARM_UP),
            Load::new(PER_SECOND, seconds),
        );
        let each = warm_up.changes() + load.changes();
        let first = u32::try_from(self.rounds.len())? * each;
        // All over the services.
        let step = (self.among / 1000).max(1) + 1;
        let pick = |number: u32| SliceId {
            service: (first + number).wrapping_mul(step) % self.among,
            slice: 0,
        };
        warm_up.run(served, pick).await;
        let cpu = controller.cpu()?;
        let later = |number| pick(warm_up.changes() + number);
        let outcome = load.run(served, later).await;
        let cpu = controller.cpu()? - cpu;
        self.rounds.push(Measured {
            p50: outcome.percentile(0.5),
            p99: outcome.percentile(0.99),
            cpu: cpu.as_secs_f64() * 1e6 / outcome.arrived.len() as f64,
        });
        Ok(())
    }

    fn name(&self) -> String {
        let all = format!("{} services, {PER_SECOND}/s", self.place.services);
        match self.among == self.place.services {
            true => all,
            false => format!("{all} among {} of them", self.among),
        }
    }
}

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let mut places = Vec::new();
    for services in extent.growth {
        places.push(Place::new(env, *services).await?);
    }
    for place in &places {
        rest(&place.controller).await?;
    }
    let mut cases: Vec<_> = places
        .iter()
        .map(|place| Case::new(place, place.services))
        .collect();
    if let [fewest, .., most] = places.as_slice() {
        cases.push(Case::new(most, fewest.services));
    }
    for _ in 0..extent.growth_rounds {
        for case in &mut cases {
            case.measure(extent.growth_seconds).await?;
        }
    }
    let Some((fewest, others)) = cases.split_first() else {
        return Ok(Vec::new());
    };
    let rows = rows_of_fewest(fewest).into_iter();
    Ok(rows
        .chain(others.iter().flat_map(|case| rows_beside(case, fewest)))
        .collect())
}

const P50: &str = "p50, beside the fewest";
const P99: &str = "p99, beside the fewest";
const CPU_OF_CHANGE: &str = "CPU of a change, beside the fewest";

fn rows_of_fewest(fewest: &Case<'_>) -> [Row; 3] {
    let row = |what: &str, of: fn(&Measured) -> f64, unit| {
        let name = format!("{}: {what}", fewest.name());
        row_of(fewest.rounds.iter().map(of), name, unit)
    };
    [
        row(P50, |one| one.p50, "ms"),
        row(P99, |one| one.p99, "ms"),
        row(CPU_OF_CHANGE, |one| one.cpu, "us"),
    ]
}

fn rows_beside(case: &Case<'_>, fewest: &Case<'_>) -> [Row; 3] {
    let row = |what: &str, of: fn(&Measured) -> f64, unit| {
        let rounds = fewest.rounds.iter().zip(&case.rounds);
        let pairs: Pairs = rounds.map(|(few, many)| (of(few), of(many))).collect();
        pairs.row(format!("{}: {what}", case.name()), unit)
    };
    [
        row(P50, |one| one.p50, "ms").ratio_at_most(LATENCY),
        // The tail is as the machine is; that it is flat is seen in the other two.
        row(P99, |one| one.p99, "ms"),
        row(CPU_OF_CHANGE, |one| one.cpu, "us").ratio_at_most(CPU),
    ]
}
