//! A start into five hundred clusters that are reached over TLS, what they cost at rest, and what
//! renewed tokens cost.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Extent;
use super::environment::{Environment, Subject};
use super::sim::seed::{renew_tokens, serve_over_tls};
use super::sim::simulation::Simulation;
use super::start::{SLICES, Started, shape, start};
use crate::pairs::row_of;
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
const PATIENCE: Duration = Duration::from_secs(60);
/// Seconds until every member was asked with its new token, at most: the next probe has it.
const RENEWED: f64 = 15.0;

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let (members, services) = extent.wide;
    let served = serve_over_tls(shape(members, services, CONSUMERS)).await?;
    let (mut rounds, mut at_rest, mut renewals) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..extent.starts {
        let (started, controller) = start(env, &served).await?;
        rounds.push(started);
        if at_rest.is_empty() {
            // What is left to be done after synced is not rest.
            sleep(extent.rest / 2).await;
            at_rest = percents_of_a_core(&controller, extent).await?;
            for round in 0..extent.starts {
                renewals.push(renewal(&served, &controller, &format!("token-{round}")).await?);
            }
        }
        controller.end().await;
    }
    let slices = services * usize::from(SLICES);
    let name = |what: &str| {
        format!("{members} members, {slices} slices each, {CONSUMERS} consumers: {what}")
    };
    let row = |what: &str, of: fn(&Started) -> f64, unit: &'static str| {
        row_of(rounds.iter().map(of), name(what), unit)
    };
    let renewal = |what: &str, of: fn(&Renewal) -> f64, unit: &'static str| {
        let name = name(&format!("all tokens renewed, {what}"));
        row_of(renewals.iter().map(of), name, unit)
    };
    let at_rest = row_of(at_rest.iter().copied(), name("CPU at rest"), "% of a core");
    Ok(vec![
        row(
            "to the first propagated change",
            |one| one.first_change,
            "s",
        )
        .below(FIRST_CHANGE),
        row("to synced", |one| one.synced, "s").below(SYNCED),
        row("CPU to synced", |one| one.cpu.as_secs_f64(), "s"),
        row("resident", |one| one.memory.resident, "MiB").below(MEMORY),
        row("resident at most", |one| one.memory.peak, "MiB"),
        at_rest.below(AT_REST),
        renewal("lists", |one| one.lists as f64, "").below(1.0),
        renewal("until in use", |one| one.in_use, "s").below(RENEWED),
        renewal("CPU until then", |one| one.cpu, "s"),
    ])
}

/// Costs of another token for every member at once.
struct Renewal {
    lists: usize,
    /// Seconds until every member was asked with it.
    in_use: f64,
    /// CPU seconds, probes included.
    cpu: f64,
}

async fn renewal(
    simulation: &Simulation,
    controller: &Subject,
    token: &str,
) -> anyhow::Result<Renewal> {
    let members = || (0..simulation.members()).map(|number| simulation.member(number));
    let lists = || members().map(|member| member.lists()).sum::<usize>();
    let (lists_before, cpu, begun) = (lists(), controller.cpu()?, Instant::now());
    renew_tokens(simulation, token)?;
    while !members().all(|member| member.was_asked_with(token)) {
        anyhow::ensure!(begun.elapsed() < PATIENCE, "the new tokens are not used");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(Renewal {
        lists: lists() - lists_before,
        in_use: begun.elapsed().as_secs_f64(),
        cpu: (controller.cpu()? - cpu).as_secs_f64(),
    })
}

/// In each half of the time of rest.
async fn percents_of_a_core(controller: &Subject, extent: &Extent) -> anyhow::Result<Vec<f64>> {
    let half = extent.rest / 2;
    let mut percents = Vec::new();
    for _ in 0..2 {
        let cpu = controller.cpu()?;
        sleep(half).await;
        let cpu = controller.cpu()? - cpu;
        percents.push(cpu.as_secs_f64() / half.as_secs_f64() * 100.0);
    }
    Ok(percents)
}
