//! Cost of scraped metrics and of traces. Rounds with a collector take turns with rounds without.

use std::time::Duration;

use anyhow::ensure;
use causeway_tests::Running;
use causeway_tests::otlp::Collector;
use tokio::time::sleep;

use crate::controller::environment::Environment as Programs;
use crate::controller::load::Load as Changes;
use crate::controller::sim::{Access, ServiceSpec, Simulation};
use crate::machine;
use crate::pairs::{Pairs, in_turns};
use crate::report::Row;
use crate::webhook::environment::{Environment, nothing_was_refused};
use crate::webhook::load::Load;
use crate::webhook::reviews::{self, Call, SMALL};

/// Minima of the requests a second, as parts of those without metrics or traces.
const SCRAPED_RATIO: f64 = 0.98;
const TRACED_RATIO: f64 = 0.95;
/// Maximum of the p50 of changes, as a multiple of that without metrics.
const CHANGE_RATIO: f64 = 1.02;

/// Measures the webhook and the controller.
pub(crate) fn run(quick: bool) -> anyhow::Result<Vec<Row>> {
    crate::runtime()?.block_on(async {
        let mut rows = webhook(quick).await?;
        rows.push(controller(quick).await?);
        Ok(rows)
    })
}

/// Scrapes metrics every second, as Prometheus does, while something else is done.
async fn scraped<T>(program: &Running, work: impl Future<Output = T>) -> T {
    let scraping = async {
        loop {
            program.openmetrics().await;
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = scraping => unreachable!("scraping does not end"),
        done = work => done,
    }
}

async fn webhook(quick: bool) -> anyhow::Result<Vec<Row>> {
    let (services, turns) = if quick { (50, 2) } else { (1000, 8) };
    let collector = Collector::start().await;
    let env = Environment::start(services).await?;
    let traced = env.installation.webhook().on_core(machine::SERVER);
    let traced = traced.arg(format!("--otlp-endpoint={}", collector.url()));
    let traced = traced.start().await;
    let plain_load = load(&env, &env.webhook, services, quick)?;
    let traced_load = load(&env, &traced, services, quick)?;
    let (mut of_scraped, mut of_traced) = (Pairs::default(), Pairs::default());
    for turn in 0..turns {
        env.wake_hub();
        // Plain, scraped and traced rounds.
        let (mut rates, mut order) = ([0.0; 3], [0, 1, 2]);
        order.rotate_left(turn % 3);
        for kind in order {
            let round = match kind {
                0 => plain_load.run().await,
                1 => scraped(&env.webhook, plain_load.run()).await,
                _ => traced_load.run().await,
            };
            rates[kind] = round?.per_second();
        }
        let [plain, scraped, traced] = rates;
        of_scraped.note(plain, scraped);
        of_traced.note(plain, traced);
    }
    env.fleet.hub().resume();
    nothing_was_refused(&env.webhook).await?;
    nothing_was_refused(&traced).await?;
    drop((traced, env));
    ensure!(quick || collector.connections() > 0, "no traces arrived");
    let scraped = "validate, metrics scraped every second: requests";
    let traced = "validate, 1 % of the traces sampled: requests";
    Ok(vec![
        of_scraped.row(scraped, "1/s").ratio_at_least(SCRAPED_RATIO),
        of_traced.row(traced, "1/s").ratio_at_least(TRACED_RATIO),
    ])
}

/// Returns requests as an API server sends them that makes traces, of which it samples 1 %.
fn load(
    env: &Environment,
    webhook: &Running,
    services: usize,
    quick: bool,
) -> anyhow::Result<Load> {
    let connections = if quick { 2 } else { 32 };
    let times = if quick { [20, 100] } else { [300, 1500] };
    let bodies = reviews::bodies(Call::Validate, SMALL, services);
    let requests = bodies.iter().zip(1..).map(|(body, number)| {
        let sampled = u8::from(number % 100 == 0);
        let trace = format!("traceparent: 00-{number:032x}-{number:016x}-{sampled:02}\r\n");
        reviews::request("/validate?timeout=5s", webhook.bind(), &trace, body)
    });
    let server = (webhook.bind(), webhook.process().pid());
    env.load(server, requests, connections, times)
}

async fn controller(quick: bool) -> anyhow::Result<Row> {
    let (services, turns): (u32, _) = if quick { (50, 2) } else { (1000, 8) };
    let (per_second, seconds) = if quick { (20.0, 0.3) } else { (100.0, 2.0) };
    let changes = Changes::new(per_second, seconds);
    let specs = ServiceSpec::new(0, 1..=10).times(services);
    let served = Simulation::serve(11, specs, Access::Plain).await?;
    let env = Programs::new()?;
    let controller = env.synced(&served, 0).await?;
    let pick = |number: u32| number % services;
    changes.run(&served, pick).await;
    let outcomes = in_turns(turns, async |kind| {
        let changes = changes.run(&served, pick);
        Ok(match kind {
            0 => changes.await,
            _ => scraped(&controller.0, changes).await,
        })
    });
    let p50 = Pairs::of(&outcomes.await?, |outcome| outcome.percentile(0.5));
    let name = format!("{per_second}/s, 10 consumers, metrics scraped every second: p50");
    Ok(p50.row(name, "ms").ratio_at_most(CHANGE_RATIO))
}
