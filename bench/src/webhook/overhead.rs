//! The webhook while its metrics are scraped, and while it makes traces of one request in a hundred.

use anyhow::ensure;
use bytes::Bytes;
use causeway_tests::Running;

use super::environment::Environment;
use super::load::{Load, Round};
use super::nothing_was_refused;
use super::reviews::{self, Call, SMALL};
use crate::collectors::{Extent, Scraper, Sink};
use crate::cores;
use crate::pairs::Pairs;
use crate::report::Row;

/// One request in so many is part of a sampled trace.
const SAMPLED: usize = 100;
/// Of the requests per second without: with metrics scraped, and with traces.
const SCRAPED_RATIO: f64 = 0.98;
const TRACED_RATIO: f64 = 0.95;

/// What is done in a round.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Scraped,
    Traced,
}

/// Each beside rounds without: requests per second, and CPU time of a request.
#[derive(Default)]
struct Compared {
    scraped: [Pairs; 2],
    traced: [Pairs; 2],
}

pub(crate) fn measure(extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let sink = Sink::start()?;
    let (env, traced) = runtime.block_on(async {
        let env = Environment::start(extent.services).await?;
        let launch = env.installation.webhook().on_core(cores::SERVER);
        let endpoint = format!("--otlp-endpoint={}", sink.url());
        anyhow::Ok((env, launch.arg(endpoint).start().await))
    })?;
    let compared = compare(&env, &traced, extent);
    env.fleet.hub().resume();
    // Whatever came of it, what was started ends within its runtime.
    runtime.block_on(async {
        let compared = compared?;
        nothing_was_refused(&env.webhook).await?;
        nothing_was_refused(&traced).await?;
        drop((traced, env));
        let arrived = sink.batches() > 0;
        ensure!(arrived || !extent.is_long(), "no traces arrived");
        Ok(compared.rows())
    })
}

fn compare(env: &Environment, traced: &Running, extent: &Extent) -> anyhow::Result<Compared> {
    let scraper = Scraper::start(env.webhook.admin())?;
    let plain_load = load(env, &env.webhook, extent)?;
    let traced_load = load(env, traced, extent)?;
    let round = |kind: Kind| {
        scraper.set(kind == Kind::Scraped);
        let round = match kind {
            Kind::Plain | Kind::Scraped => plain_load.run(),
            Kind::Traced => traced_load.run(),
        };
        scraper.set(false);
        round
    };
    let mut compared = Compared::default();
    for turn in 0..extent.turns {
        // The webhooks' watches are not to find the hub gone.
        env.fleet.hub().resume();
        env.fleet.hub().pause();
        let [mut plain, mut scraped, mut traced] = [const { None }; 3];
        let mut order = [Kind::Plain, Kind::Scraped, Kind::Traced];
        order.rotate_left(turn % 3);
        for kind in order {
            let round = Some(round(kind)?);
            match kind {
                Kind::Plain => plain = round,
                Kind::Scraped => scraped = round,
                Kind::Traced => traced = round,
            }
        }
        if let (Some(plain), Some(scraped), Some(traced)) = (plain, scraped, traced) {
            note(&mut compared.scraped, &plain, &scraped);
            note(&mut compared.traced, &plain, &traced);
        }
    }
    scraper.check(extent)?;
    Ok(compared)
}

fn note([rates, cpus]: &mut [Pairs; 2], without: &Round, with: &Round) {
    rates.note(without.per_second(), with.per_second());
    cpus.note(cpu(without), cpu(with));
}

impl Compared {
    fn rows(&self) -> Vec<Row> {
        let rows = |name: &str, [rates, cpus]: &[Pairs; 2], least: f64| {
            let rates = rates.row(format!("{name}: requests"), "1/s");
            let cpus = cpus.row(format!("{name}: CPU of a request"), "us");
            [rates.ratio_at_least(least), cpus]
        };
        let (scraped, traced) = (
            "validate, metrics scraped every second",
            "validate, 1 % of the traces sampled",
        );
        let scraped = rows(scraped, &self.scraped, SCRAPED_RATIO);
        let traced = rows(traced, &self.traced, TRACED_RATIO);
        scraped.into_iter().chain(traced).collect()
    }
}

/// Microseconds of the server.
fn cpu(round: &Round) -> f64 {
    round.server_cpu.as_secs_f64() * 1e6 / round.latencies.len() as f64
}

/// Requests as an API server sends them that makes traces.
fn load(env: &Environment, webhook: &Running, extent: &Extent) -> anyhow::Result<Load> {
    let requests = reviews::bodies(Call::Validate, SMALL, extent.services);
    let requests: Vec<Bytes> = requests
        .iter()
        .enumerate()
        .map(|(number, body)| {
            let flags = if number % SAMPLED == 0 { "01" } else { "00" };
            let trace = format!(
                "traceparent: 00-{:032x}-{:016x}-{flags}\r\n",
                number + 1,
                number + 1
            );
            reviews::request("/validate?timeout=5s", webhook.bind(), &trace, body)
        })
        .collect();
    Ok(Load {
        address: webhook.bind().parse()?,
        tls: env.tls.clone(),
        server: webhook.process().pid(),
        requests: requests.into(),
        connections: extent.connections,
        warm_up: extent.warm_up,
        measured: extent.measured,
    })
}
