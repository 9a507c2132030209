//! Cost of a change among few services and among many.

use std::time::Duration;

use tokio::time::sleep;

use super::environment::{Environment, Subject};
use super::load::Load;
use super::sim::{Access, ServiceSpec, Simulation};
use crate::pairs::Pairs;
use crate::report::Row;

const PER_SECOND: f64 = 100.0;
/// Maxima of the latency and of the CPU, as multiples of those with the fewest services.
const LATENCY: f64 = 1.1;
const CPU: f64 = 1.5;

/// Clusters with so many services, with their controller and rounds of changes.
struct Place {
    services: u32,
    served: Simulation,
    controller: Subject,
    rounds: Vec<Measured>,
}

#[derive(Clone, Copy)]
struct Measured {
    /// Milliseconds.
    p50: f64,
    /// CPU of a change, in microseconds.
    cpu: f64,
}

impl Place {
    async fn start(env: &Environment, services: u32) -> anyhow::Result<Self> {
        let specs = ServiceSpec::new(0, [1]).times(services);
        let served = Simulation::serve(2, specs, Access::Plain).await?;
        Ok(Self {
            controller: env.synced(&served, 0).await?,
            services,
            served,
            rounds: Vec::new(),
        })
    }

    /// Waits until the controller uses hardly any CPU, or for half a minute.
    async fn rest(&self) -> anyhow::Result<()> {
        for _ in 0..60 {
            let cpu = self.controller.cpu()?;
            sleep(Duration::from_millis(500)).await;
            if self.controller.cpu()? - cpu < Duration::from_millis(10) {
                break;
            }
        }
        Ok(())
    }

    /// Adds a round of other services than those of the round before.
    async fn measure(&mut self, seconds: f64) -> anyhow::Result<()> {
        let (warm_up, load) = (Load::new(PER_SECOND, 0.3), Load::new(PER_SECOND, seconds));
        let first = u32::try_from(self.rounds.len())? * (warm_up.changes() + load.changes());
        // All over the services.
        let step = (self.services / 1000).max(1) + 1;
        let pick = |number: u32| (first + number).wrapping_mul(step) % self.services;
        warm_up.run(&self.served, pick).await;
        let cpu = self.controller.cpu()?;
        let later = |number| pick(warm_up.changes() + number);
        let outcome = load.run(&self.served, later).await;
        let cpu = self.controller.cpu()? - cpu;
        self.rounds.push(Measured {
            p50: outcome.percentile(0.5),
            cpu: cpu.as_secs_f64() * 1e6 / outcome.arrived.len() as f64,
        });
        Ok(())
    }
}

pub(super) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (few, many) = if quick { (20, 100) } else { (1000, 100_000) };
    let (rounds, seconds) = if quick { (1, 0.4) } else { (9, 0.8) };
    let (mut few, mut many) = (
        Place::start(env, few).await?,
        Place::start(env, many).await?,
    );
    few.rest().await?;
    many.rest().await?;
    for _ in 0..rounds {
        few.measure(seconds).await?;
        many.measure(seconds).await?;
    }
    let name = |what: &str| {
        format!(
            "{} services, {PER_SECOND}/s: {what}, beside {}",
            many.services, few.services
        )
    };
    let row = |what: &str, of: fn(&Measured) -> f64, unit| {
        let rounds = few.rounds.iter().zip(&many.rounds);
        let pairs: Pairs = rounds.map(|(few, many)| (of(few), of(many))).collect();
        pairs.row(name(what), unit)
    };
    Ok(vec![
        row("p50", |one| one.p50, "ms").ratio_at_most(LATENCY),
        row("CPU of a change", |one| one.cpu, "us").ratio_at_most(CPU),
    ])
}
