//! The webhook on one core, beside a bare TLS server of the same stack on the same core.

mod creates;
mod environment;
mod load;
pub(crate) mod noop;
pub(crate) mod overhead;
mod reviews;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use causeway_tests::Running;

use self::environment::{Environment, Target};
use self::load::{Load, Round, ask};
use self::reviews::{Call, LARGE, SMALL, Size};
use crate::pairs::{Pairs, median};
use crate::report::Row;
use crate::{Common, proc};

/// Of a bare server's p99, at most.
const LATENCY_RATIO: f64 = 2.0;
/// What the process may take of the memory, in MiB.
const MEMORY: f64 = 32.0;

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Only kinds of load whose name holds this text, and nothing through an API server
    #[arg(long)]
    only: Option<String>,
    /// Before anything is measured say what runs and wait for a line of standard input: to have a profiler look on
    #[arg(long)]
    hold: bool,
}

/// How much is done.
pub(crate) struct Extent {
    /// Services on the hub.
    services: usize,
    /// How many connections there are, few and many.
    connections: [usize; 2],
    /// Rounds of each server in each scenario, in turns.
    rounds: usize,
    warm_up: Duration,
    measured: Duration,
    /// Rounds of creates through the API server, and how long each is.
    create_rounds: usize,
    create_time: Duration,
}

const FULL: Extent = Extent {
    services: 10_000,
    connections: [32, 512],
    rounds: 5,
    warm_up: Duration::from_millis(300),
    measured: Duration::from_millis(1000),
    create_rounds: 21,
    create_time: Duration::from_secs(3),
};

const QUICK: Extent = Extent {
    services: 200,
    connections: [2, 8],
    rounds: 1,
    warm_up: Duration::from_millis(20),
    measured: Duration::from_millis(150),
    create_rounds: 1,
    create_time: Duration::from_millis(200),
};

/// One kind of load.
#[derive(Clone, Copy)]
struct Scenario {
    call: Call,
    size: Size,
    connections: usize,
}

impl Scenario {
    fn all(extent: &Extent) -> impl Iterator<Item = Self> {
        let connections = extent.connections;
        // What memory large objects took is not counted for small ones.
        [SMALL, LARGE].into_iter().flat_map(move |size| {
            let calls = [Call::Mutate, Call::Validate].into_iter();
            calls.flat_map(move |call| {
                connections.map(|connections| Self {
                    call,
                    size,
                    connections,
                })
            })
        })
    }

    fn name(&self, what: &str) -> String {
        let (call, size) = (self.call.name(), self.size.name);
        format!("{call}, {size}, {} connections: {what}", self.connections)
    }
}

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let extent = if args.common.quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let env = runtime.block_on(Environment::start(extent.services))?;
    if args.hold {
        let (webhook, floor) = (env.webhook()?, env.floor());
        eprintln!("webhook: {webhook:?}, floor: {floor:?}; Enter goes on");
        std::io::stdin().read_line(&mut String::new())?;
    }
    let mut rows = vec![memory(&env, "resident memory at rest")?];
    env.fleet.hub().pause();
    let wanted = args.only.as_deref().unwrap_or_default();
    for scenario in Scenario::all(&extent).filter(|scenario| scenario.name("").contains(wanted)) {
        rows.extend(measure(&env, &scenario, &extent)?);
        // The webhook's watches are not to find the hub gone.
        env.fleet.hub().resume();
        env.fleet.hub().pause();
    }
    env.fleet.hub().resume();
    rows.push(memory(&env, "resident memory after all of this load")?);
    if args.only.is_none() {
        rows.extend(runtime.block_on(creates::measure(&env, &extent))?);
    }
    runtime.block_on(nothing_was_refused(&env.webhook))?;
    runtime.block_on(async { drop(env) });

    Ok(rows)
}

fn memory(env: &Environment, name: &str) -> anyhow::Result<Row> {
    let webhook = proc::memory(env.webhook()?.process)?.resident;
    let floor = proc::memory(env.floor().process)?.resident;
    Ok(Row::new(name, webhook, "MiB").beside(floor).below(MEMORY))
}

async fn nothing_was_refused(webhook: &Running) -> anyhow::Result<()> {
    let metrics = webhook.metrics().await;
    let name = "causeway_webhook_request_duration_seconds_count";
    let count = |decision| metrics.get(name, &[("decision", decision)]);
    ensure!(count("allowed").is_some(), "no answer was counted");
    for decision in ["denied", "error"] {
        let count = count(decision);
        ensure!(
            count.unwrap_or_default() == 0.0,
            "{count:?} answers were {decision}"
        );
    }
    Ok(())
}

/// What several rounds of one server gave.
struct Rounds {
    rounds: Vec<Round>,
    peak: f64,
}

impl Rounds {
    fn per_second(&self) -> f64 {
        median(self.rounds.iter().map(Round::per_second))
    }

    fn sum(&self, of: impl Fn(&Round) -> f64) -> f64 {
        self.rounds.iter().map(of).sum()
    }

    /// CPU time of the server for each request, in microseconds.
    fn cpu_per_request(&self) -> f64 {
        let requests = self.sum(|round| round.latencies.len() as f64);
        self.sum(|round| round.server_cpu.as_secs_f64()) * 1e6 / requests
    }

    /// How much of its core a side had.
    fn share(&self, of: impl Fn(&Round) -> Duration) -> f64 {
        let elapsed = self.sum(|round| round.elapsed.as_secs_f64());
        self.sum(|round| of(round).as_secs_f64()) / elapsed
    }
}

fn measure(env: &Environment, scenario: &Scenario, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let Scenario { call, size, .. } = *scenario;
    let bodies = reviews::bodies(call, size, extent.services);
    let load = |target: Target, path: &str| {
        let host = target.address.to_string();
        let requests: Vec<_> = bodies
            .iter()
            .map(|body| reviews::request(path, &host, "", body))
            .collect();
        Load {
            address: target.address,
            tls: env.tls.clone(),
            server: target.process,
            requests: requests.into(),
            connections: scenario.connections,
            warm_up: extent.warm_up,
            measured: extent.measured,
        }
    };
    let webhook = load(env.webhook()?, &format!("/{}?timeout=5s", call.name()));
    let answer = longest_answer(&webhook, call)?;
    let floor = load(env.floor(), &format!("{}{answer}", noop::FIXED));

    let (mut webhook_rounds, mut floor_rounds) = (Vec::new(), Vec::new());
    proc::forget_peak(webhook.server)?;
    proc::forget_peak(floor.server)?;
    for _ in 0..extent.rounds {
        floor_rounds.push(floor.run()?);
        webhook_rounds.push(webhook.run()?);
    }
    let webhook = Rounds {
        rounds: webhook_rounds,
        peak: proc::memory(webhook.server)?.peak,
    };
    let floor = Rounds {
        rounds: floor_rounds,
        peak: proc::memory(floor.server)?.peak,
    };
    let name = scenario.name("");
    eprintln!(
        "{name}{:.0}/s beside {:.0}/s (load busy {:.0} % and {:.0} %, server {:.0} % and {:.0} %)",
        webhook.per_second(),
        floor.per_second(),
        100.0 * webhook.share(|round| round.load_cpu),
        100.0 * floor.share(|round| round.load_cpu),
        100.0 * webhook.share(|round| round.server_cpu),
        100.0 * floor.share(|round| round.server_cpu),
    );
    Ok(rows(scenario, &webhook, &floor))
}

/// Asks for every object once, and that it is accepted. Answers how long the longest answer is.
fn longest_answer(load: &Load, call: Call) -> anyhow::Result<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let one = Load {
        connections: 1,
        ..load.clone()
    };
    let mut longest = 0;
    for request in one.requests.iter() {
        let (status, body) = runtime.block_on(ask(&one, request))?;
        let review: serde_json::Value = serde_json::from_slice(&body)?;
        let response = &review["response"];
        let patched = response["patch"].is_string();
        let warned = !response["warnings"].is_null();
        let accepted = status == 200 && response["allowed"] == true && !warned;
        ensure!(
            accepted && patched == (call == Call::Mutate),
            "not the expected answer: {status} {review}"
        );
        longest = longest.max(body.len());
    }
    Some(longest)
        .filter(|length| *length > 0)
        .context("there is no request")
}

fn rows(scenario: &Scenario, webhook: &Rounds, floor: &Rounds) -> Vec<Row> {
    let row =
        |what: &str, value: f64, unit: &'static str| Row::new(scenario.name(what), value, unit);
    let in_turns = |what: &str, unit: &'static str, of: &dyn Fn(&Round) -> f64| {
        let rounds = floor.rounds.iter().zip(&webhook.rounds);
        let pairs: Pairs = rounds
            .map(|(floor, webhook)| (of(floor), of(webhook)))
            .collect();
        pairs.row(scenario.name(what), unit)
    };
    let percentile = |what: &str, part: f64| in_turns(what, "ms", &|round| round.percentile(part));
    let requests = in_turns("requests", "1/s", &Round::per_second);
    vec![
        match scenario.size.throughput_ratio {
            Some(ratio) => requests.ratio_at_least(ratio),
            None => requests,
        },
        percentile("p50", 0.5),
        percentile("p99", 0.99).ratio_at_most(LATENCY_RATIO),
        percentile("p99.9", 0.999),
        row("CPU of a request", webhook.cpu_per_request(), "us").beside(floor.cpu_per_request()),
        row("the load's share of its core", load_share(webhook), "").beside(load_share(floor)),
        row("peak resident memory", webhook.peak, "MiB")
            .beside(floor.peak)
            .below(MEMORY),
    ]
}

/// Near 1 the load is what is measured, not the server.
fn load_share(rounds: &Rounds) -> f64 {
    rounds.share(|round| round.load_cpu)
}
