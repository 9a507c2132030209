//! Latency of a service while another consumer fails, or another provider floods.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::environment::{Environment, FAST};
use super::load::{Load, Outcome};
use super::sim::{Access, ServiceSpec, Simulation};
use crate::pairs::Pairs;
use crate::report::Row;

/// Changes a second of a crowd of consumers.
const CROWD: f64 = 5.0;
/// Maximum by which the last consumer has a change later than with the floor, in milliseconds.
const LATER: f64 = 100.0;
/// Maximum of the p99, as a multiple of that without a failure.
const FAILING_RATIO: f64 = 1.5;

/// Services of a provider that are rewritten one after the other.
const FLOODING: u32 = 1000;
/// Services of the other provider, and their changes a second.
const OTHERS: u32 = 200;
const OF_OTHERS: f64 = 25.0;
/// Seconds of a flood before the other's changes begin, and after they end.
const MARGIN: f64 = 0.25;
/// Maximum of the other's p99, as a multiple of that without the flood.
const FLOOD_RATIO: f64 = 2.0;

/// Measures consumers of one provider, one of which hangs or is dead.
pub(super) async fn crowd(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let last: u16 = if quick { 6 } else { 100 };
    let services: u32 = if quick { 20 } else { 500 };
    let load = Load::new(CROWD, if quick { 0.4 } else { 6.0 });
    let serve = |access| {
        let services = ServiceSpec::new(0, 1..=last).times(services);
        Simulation::serve(usize::from(last) + 1, services, access)
    };
    let run = async |simulation: &Simulation| {
        let pick = |number: u32| number % services;
        Load::new(CROWD, 1.0).run(simulation, pick).await;
        load.run(simulation, pick).await
    };
    let served = serve(Access::Plain).await?;
    let program = env.floor(&served, services, &[last]).await?;
    let floor = run(&served).await.percentile(0.99);
    drop(program);

    let served = serve(Access::Plain).await?;
    let controller = env.synced(&served, 0, FAST).await?;
    let well = run(&served).await;
    served.hang(last);
    let hanging = run(&served).await.percentile(0.99);
    drop(controller);

    let served = serve(Access::Dead(last.into())).await?;
    served.hang(last);
    let controller = env.synced(&served, 1, FAST).await?;
    // The controller reports a dead member for each service.
    loop {
        let since = Instant::now();
        sleep(Duration::from_secs(1)).await;
        if served.journal.writes_since(since).is_empty() {
            break;
        }
    }
    let dead = run(&served).await.percentile(0.99);
    drop(controller);

    let name = |what: &str| format!("{last} consumers, {CROWD}/s: {what}");
    let p99 = well.percentile(0.99);
    let failing = |what: &str, value: f64| {
        let row = Row::new(name(what), value, "ms").beside(p99);
        row.ratio_at_most(FAILING_RATIO)
    };
    let all = Row::new(name("p99 to the last of them"), p99, "ms");
    Ok(vec![
        Row::new(name("p50 to the last of them"), well.percentile(0.5), "ms"),
        all.beside(floor).at_most(floor + LATER),
        failing("p99 with one of them hanging, beside without", hanging),
        failing("p99 with one of them dead, beside without", dead),
    ])
}

/// Measures rounds of a provider's changes, alone and while another provider floods. The limit of
/// writes is the default.
pub(super) async fn flood(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let rate = if quick { 50.0 } else { 1000.0 };
    let (rounds, seconds) = if quick { (1, 0.4) } else { (5, 3.0) };
    let services = [(0, FLOODING), (1, OTHERS)];
    let services = services.map(|(provider, count)| ServiceSpec::new(provider, [2]).times(count));
    let served = Simulation::serve(3, services.concat(), Access::Plain).await?;
    let _controller = env.synced(&served, 0, &[]).await?;
    let of_other = |number: u32| FLOODING + number % OTHERS;
    let load = Load::new(OF_OTHERS, seconds);
    let flood = Load::new(rate, seconds + 2.0 * MARGIN);
    Load::new(OF_OTHERS, 1.0).run(&served, of_other).await;
    let mut pairs = Pairs::default();
    for _ in 0..rounds {
        let alone = load.run(&served, of_other).await;
        tokio::join!(flood.make(&served, |number| number % FLOODING), async {
            sleep(Duration::from_secs_f64(MARGIN)).await;
            load.make(&served, of_other).await;
        });
        let mut mixed = Outcome::of(&served.journal).await;
        mixed.arrived.retain(|one| one.service >= FLOODING);
        pairs.note(alone.percentile(0.99), mixed.percentile(0.99));
    }
    let name = format!("during a flood of {rate}/s: p99 of another's service, beside without");
    Ok(vec![pairs.row(name, "ms").ratio_at_most(FLOOD_RATIO)])
}
