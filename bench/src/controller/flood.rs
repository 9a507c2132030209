//! A provider that rewrites everything all the time, and the service of another one.

use std::sync::Arc;
use std::time::Duration;

use super::Extent;
use super::environment::{Environment, Subject};
use super::load::{Load, Outcome, settle};
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;
use crate::pairs::Pairs;
use crate::report::Row;

const ENDPOINTS: u16 = 10;
/// Slices of the one provider, which are rewritten one after the other.
const FLOODING: u32 = 1000;
/// Services of the other provider.
const OTHERS: u32 = 200;
const PER_SECOND: f64 = 25.0;
const OF_ANOTHER: &str = "p99 of another's service, beside without";
/// Of the other's p99 without the flood, at most.
const FLOOD_RATIO: f64 = 2.0;

/// Two providers with one consumer.
async fn simulation() -> anyhow::Result<Simulation> {
    let spec = |provider, count: u32| {
        let consumers: Arc<[u16]> = Arc::new([2]);
        let spec = ServiceSpec {
            provider,
            slices: 1,
            endpoints: ENDPOINTS,
            consumers,
        };
        std::iter::repeat_n(spec, count as usize)
    };
    let services = spec(0, FLOODING).chain(spec(1, OTHERS)).collect();
    serve(Shape {
        members: 3,
        services,
        dead: Vec::new(),
    })
    .await
}

fn of_other(number: u32) -> SliceId {
    SliceId {
        service: FLOODING + number % OTHERS,
        slice: 0,
    }
}

fn of_flood(number: u32) -> SliceId {
    SliceId {
        service: number % FLOODING,
        slice: 0,
    }
}

/// Rounds of the other's changes, alone and during a flood: the p99 of both in milliseconds, and what became of the floods.
async fn rounds(simulation: &Simulation, extent: &Extent) -> (Pairs, Outcome) {
    /// Seconds for which a flood lasts before the other's changes begin, and after they end.
    const MARGIN: f64 = 0.25;
    let load = Load::new(PER_SECOND, extent.flood_seconds);
    let flood = Load::new(extent.flood_per_second, extent.flood_seconds + 2.0 * MARGIN);
    Load::new(PER_SECOND, 1.0).run(simulation, of_other).await;
    let (mut pairs, mut floods) = (Pairs::default(), Outcome::default());
    for _ in 0..extent.flood_rounds {
        let alone = load.run(simulation, of_other).await;
        tokio::join!(flood.make(simulation, of_flood), async {
            tokio::time::sleep(Duration::from_secs_f64(MARGIN)).await;
            load.make(simulation, of_other).await;
        });
        let mut mixed = settle(simulation).await;
        floods.extend(mixed.take_services(0..FLOODING));
        pairs.note(alone.percentile(0.99), mixed.percentile(0.99));
    }
    (pairs, floods)
}

pub(crate) async fn measure(env: &mut Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let rate = extent.flood_per_second;
    let mut rows = Vec::new();
    let flags = env.flags.clone();
    for (limit, flags) in [
        ("", flags.clone()),
        (", --member-qps as it is by default", Vec::new()),
    ] {
        env.flags = flags;
        let served = simulation().await?;
        let controller: Subject = env.controller(&served)?;
        controller.synced(served.members()).await?;
        let (pairs, flood) = rounds(&served, extent).await;
        let name = |what: &str| format!("during a flood of {rate}/s{limit}: {what}");
        let row = |what: &str, value: f64, unit| Row::new(name(what), value, unit);
        rows.extend([
            pairs.row(name(OF_ANOTHER), "ms").ratio_at_most(FLOOD_RATIO),
            row("p99 of what floods", flood.percentile(0.99), "ms"),
            row("part of it that is superseded", flood.superseded(), ""),
        ]);
    }
    env.flags = flags;
    Ok(rows)
}
