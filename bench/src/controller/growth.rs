//! Whether a change costs the same however many services there are.

use std::sync::Arc;

use super::Extent;
use super::environment::Environment;
use super::load::Load;
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;
use crate::report::Row;

const ENDPOINTS: u16 = 10;
const PER_SECOND: f64 = 100.0;
/// Of what it is with the fewest services, at most.
const FLAT: f64 = 1.5;

async fn simulation(services: usize) -> anyhow::Result<Simulation> {
    let consumers: Arc<[u16]> = Arc::new([1]);
    let spec = ServiceSpec {
        provider: 0,
        slices: 1,
        endpoints: ENDPOINTS,
        consumers,
    };
    serve(Shape {
        members: 2,
        services: vec![spec; services],
        dead: Vec::new(),
    })
    .await
}

struct Point {
    services: usize,
    p50: f64,
    p99: f64,
    /// Microseconds of a change.
    cpu: f64,
}

async fn point(env: &Environment, extent: &Extent, services: usize) -> anyhow::Result<Point> {
    let served = simulation(services).await?;
    let controller = env.controller(&served)?;
    controller.synced(served.members()).await?;
    // All over the services.
    let step = u32::try_from(services / 1000)?.max(1) + 1;
    let count = u32::try_from(services)?;
    let pick = |number: u32| SliceId {
        service: number.wrapping_mul(step) % count,
        slice: 0,
    };
    Load::new(PER_SECOND, 1.0).run(&served, pick).await;
    let cpu = controller.cpu()?;
    let outcome = Load::new(PER_SECOND, extent.load_seconds)
        .run(&served, pick)
        .await;
    let cpu = controller.cpu()? - cpu;
    Ok(Point {
        services,
        p50: outcome.percentile(0.5),
        p99: outcome.percentile(0.99),
        cpu: cpu.as_secs_f64() * 1e6 / outcome.arrived.len() as f64,
    })
}

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let mut points: Vec<Point> = Vec::new();
    for services in extent.growth {
        points.push(point(env, extent, *services).await?);
    }
    let Some(fewest) = points.first() else {
        return Ok(Vec::new());
    };
    let rows = points.iter().flat_map(|point| {
        let row = |what: &str, value: f64, unit: &'static str, beside: f64| {
            let row = Row::new(
                format!("{} services, {PER_SECOND}/s: {what}", point.services),
                value,
                unit,
            );
            match point.services == fewest.services {
                true => row,
                false => row.beside(beside).ratio_at_most(FLAT),
            }
        };
        let mut rows = [
            row("p50, beside the fewest", point.p50, "ms", fewest.p50),
            row("p99, beside the fewest", point.p99, "ms", fewest.p99),
            row(
                "CPU of a change, beside the fewest",
                point.cpu,
                "us",
                fewest.cpu,
            ),
        ];
        // The tail is as the machine is; that it is flat is seen in the other two.
        rows[1].goal = None;
        rows[1].met = None;
        rows
    });
    Ok(rows.collect())
}
