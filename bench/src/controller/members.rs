//! A start into five hundred clusters that are reached over TLS, and what they cost at rest.

use super::Extent;
use super::environment::Environment;
use super::sim::seed::serve_over_tls;
use super::start::{SLICES, Started, shape, start};
use crate::report::Row;

/// In how many other members there are copies of each slice.
const CONSUMERS: usize = 5;
/// Seconds to the first change and to synced, at most.
const FIRST_CHANGE: f64 = 5.0;
const SYNCED: f64 = 30.0;
/// MiB.
const MEMORY: f64 = 1536.0;
/// Percent of a core.
const AT_REST: f64 = 1.0;

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let (members, services) = extent.wide;
    let served = serve_over_tls(shape(members, services, CONSUMERS)).await?;
    let (started, controller) = start(env, &served).await?;
    // What is left to be done after synced is not rest.
    tokio::time::sleep(extent.rest / 2).await;
    let cpu = controller.cpu()?;
    tokio::time::sleep(extent.rest).await;
    let at_rest = (controller.cpu()? - cpu).as_secs_f64() / extent.rest.as_secs_f64();
    let slices = services * usize::from(SLICES);
    let row = |what: &str, value: f64, unit: &'static str| {
        let of_each = format!("{members} members, {slices} slices each, {CONSUMERS} consumers");
        Row::new(format!("{of_each}: {what}"), value, unit)
    };
    let Started {
        first_change,
        synced,
        cpu,
        memory,
        ..
    } = started;
    Ok(vec![
        row("to the first propagated change", first_change, "s").below(FIRST_CHANGE),
        row("to synced", synced, "s").below(SYNCED),
        row("CPU to synced", cpu.as_secs_f64(), "s"),
        row("resident", memory.resident, "MiB").below(MEMORY),
        row("resident at most", memory.peak, "MiB"),
        row("CPU at rest", at_rest * 100.0, "% of a core").below(AT_REST),
    ])
}
