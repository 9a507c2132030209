//! Cost of scraped metrics and of traces. Rounds with a collector take turns with rounds without.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use causeway_tests::Running;
use causeway_tests::otlp::Collector;

use crate::controller::environment::Environment as Programs;
use crate::controller::load::Load as Changes;
use crate::controller::sim::{Access, ServiceSpec, Simulation};
use crate::machine;
use crate::pairs::Pairs;
use crate::report::Row;
use crate::webhook::environment::{Environment, nothing_was_refused};
use crate::webhook::load::{Load, Round};
use crate::webhook::reviews::{self, Call, SMALL};

/// Requests of which one is part of a sampled trace.
const SAMPLED: usize = 100;
/// Minima of the requests a second, as parts of those without metrics or traces.
const SCRAPED_RATIO: f64 = 0.98;
const TRACED_RATIO: f64 = 0.95;
/// Maximum of the p50 of changes, as a multiple of that without metrics.
const CHANGE_RATIO: f64 = 1.02;

/// Measures the webhook and the controller.
pub(crate) fn run(quick: bool) -> anyhow::Result<Vec<Row>> {
    let mut rows = webhook(quick)?;
    rows.push(crate::runtime()?.block_on(controller(quick))?);
    Ok(rows)
}

/// Scraper of metrics, as Prometheus scrapes.
#[derive(Default)]
struct Scraper {
    wanted: AtomicBool,
    scrapes: AtomicU64,
}

impl Scraper {
    fn start(admin: &str) -> Arc<Self> {
        let (scraper, admin) = (Arc::<Self>::default(), admin.to_owned());
        let shared = scraper.clone();
        std::thread::spawn(move || -> anyhow::Result<()> {
            machine::keep_thread_on(machine::LOAD)?;
            // Ends with the process.
            loop {
                if shared.wanted.load(Ordering::Relaxed) {
                    scrape(&admin)?;
                    shared.scrapes.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        scraper
    }

    /// Starts or stops scraping.
    fn set(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    fn scrapes(&self) -> usize {
        usize::try_from(self.scrapes.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

fn scrape(admin: &str) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(admin)?;
    let accept = "application/openmetrics-text; version=1.0.0";
    let request = format!("GET /metrics HTTP/1.0\r\nhost: {admin}\r\naccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    stream.read_to_end(&mut Vec::new())
}

fn webhook(quick: bool) -> anyhow::Result<Vec<Row>> {
    let (services, turns) = if quick { (50, 2) } else { (1000, 8) };
    let runtime = crate::runtime()?;
    let (env, traced, collector) = runtime.block_on(async {
        let collector = Collector::start().await;
        let env = Environment::start(services).await?;
        let traced = env.installation.webhook().on_core(machine::SERVER);
        let traced = traced.arg(format!("--otlp-endpoint={}", collector.url()));
        anyhow::Ok((env, traced.start().await, collector))
    })?;
    let scraper = Scraper::start(env.webhook.admin());
    let plain_load = load(&env, &env.webhook, services, quick)?;
    let traced_load = load(&env, &traced, services, quick)?;
    let mut pairs: [Pairs; 2] = Default::default();
    for turn in 0..turns {
        env.wake_hub();
        // Plain, scraped and traced rounds.
        let (mut rates, mut order) = ([0.0; 3], [0, 1, 2]);
        order.rotate_left(turn % 3);
        for kind in order {
            scraper.set(kind == 1);
            let load = if kind == 2 { &traced_load } else { &plain_load };
            let round = load.run();
            scraper.set(false);
            rates[kind] = round.as_ref().map_or(f64::NAN, Round::per_second);
        }
        let [plain, scraped, traced] = rates;
        pairs[0].note(plain, scraped);
        pairs[1].note(plain, traced);
    }
    env.fleet.hub().resume();
    runtime.block_on(async {
        nothing_was_refused(&env.webhook).await?;
        nothing_was_refused(&traced).await?;
        drop((traced, env));
        let both = scraper.scrapes() >= turns && collector.connections() > 0;
        ensure!(quick || both, "no scrapes or no traces in a round");
        let [scraped, traced] = pairs;
        let name = |what: &str| format!("validate, {what}: requests");
        let scraped = scraped.row(name("metrics scraped every second"), "1/s");
        let traced = traced.row(name("1 % of the traces sampled"), "1/s");
        Ok(vec![
            scraped.ratio_at_least(SCRAPED_RATIO),
            traced.ratio_at_least(TRACED_RATIO),
        ])
    })
}

/// Returns requests as an API server sends them that makes traces.
fn load(
    env: &Environment,
    webhook: &Running,
    services: usize,
    quick: bool,
) -> anyhow::Result<Load> {
    let connections = if quick { 2 } else { 32 };
    let times = if quick { [20, 100] } else { [300, 1500] };
    let times = times.map(Duration::from_millis);
    let bodies = reviews::bodies(Call::Validate, SMALL, services);
    let requests = bodies.iter().zip(1..).map(|(body, number)| {
        let sampled = u8::from(number % SAMPLED == 0);
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
    let env = Programs::new()?;
    let specs = ServiceSpec::new(0, 1..=10).times(services);
    let served = Simulation::serve(11, specs, Access::Plain).await?;
    let controller = env.synced(&served, 0).await?;
    let scraper = Scraper::start(controller.0.admin());
    let pick = |number: u32| number % services;
    changes.run(&served, pick).await;
    let mut pairs = Pairs::default();
    for turn in 0..turns {
        let mut times = [0.0; 2];
        let mut order = [false, true];
        order.rotate_left(turn % 2);
        for scraped in order {
            scraper.set(scraped);
            let outcome = changes.run(&served, pick).await;
            scraper.set(false);
            ensure!(outcome.lost == 0, "{} changes were lost", outcome.lost);
            times[usize::from(scraped)] = outcome.percentile(0.5);
        }
        pairs.note(times[0], times[1]);
    }
    ensure!(quick || scraper.scrapes() >= turns, "no scrape in a round");
    let name = format!("{per_second}/s, 10 consumers, metrics scraped every second: p50");
    Ok(pairs.row(name, "ms").ratio_at_most(CHANGE_RATIO))
}
