//! The webhook on one core, beside a bare TLS server of the same stack on the same core.

mod creates;
mod environment;
mod load;
pub(crate) mod noop;
mod reviews;

use std::time::Duration;

use anyhow::{Context as _, ensure};

use self::environment::{Environment, nothing_was_refused};
use self::load::{Load, Round};
use self::reviews::{Call, LARGE, SMALL, Size};
use crate::machine;
use crate::pairs::Pairs;
use crate::report::Row;

/// Minimum of the requests a second, as a part of the floor's.
const THROUGHPUT_RATIO: f64 = 0.55;
/// Maximum of the p99, as a multiple of the floor's.
const LATENCY_RATIO: f64 = 2.0;
/// Maximum memory of the process, in MiB.
const MEMORY: f64 = 32.0;

pub(crate) fn run(quick: bool) -> anyhow::Result<Vec<Row>> {
    let services = if quick { 200 } else { 10_000 };
    let connections = if quick { [2, 8] } else { [32, 512] };
    crate::runtime()?.block_on(async {
        let env = Environment::start(services).await?;
        let [webhook, floor] = [env.webhook.process().pid(), env.noop.pid()].map(machine::memory);
        let resting = Row::new("resident memory at rest", webhook?.resident, "MiB");
        let mut rows = vec![resting.beside(floor?.resident).at_most(MEMORY)];
        env.fleet.hub().pause();
        // Small objects first: large ones leave more memory behind.
        for size in [SMALL, LARGE] {
            for call in [Call::Mutate, Call::Validate] {
                for connections in connections {
                    let scenario = (call, size, connections);
                    rows.extend(measure(&env, scenario, services, quick).await?);
                    env.wake_hub();
                }
            }
        }
        env.fleet.hub().resume();
        rows.extend(creates::measure(&env, quick).await?);
        nothing_was_refused(&env.webhook).await?;
        Ok(rows)
    })
}

async fn measure(
    env: &Environment,
    (call, size, connections): (Call, Size, usize),
    services: usize,
    quick: bool,
) -> anyhow::Result<Vec<Row>> {
    let rounds = if quick { 1 } else { 5 };
    let times = if quick { [20, 150] } else { [300, 1000] };
    let [warm_up, measured] = times.map(Duration::from_millis);
    let bodies = reviews::bodies(call, size, services);
    let load = |(host, server): (&str, u32), path: &str| {
        let requests = bodies.iter().map(|body| reviews::request(path, host, body));
        anyhow::Ok(Load {
            address: host.parse()?,
            tls: env.tls.clone(),
            server,
            requests: requests.collect(),
            connections,
            warm_up,
            measured,
        })
    };
    let called = format!("{call:?}").to_lowercase();
    let server = (env.webhook.bind(), env.webhook.process().pid());
    let webhook = load(server, &format!("/{called}?timeout=5s"))?;
    let answer = longest_answer(&webhook, call).await?;
    let fixed = format!("{}{answer}", noop::FIXED);
    let floor = load((&env.floor, env.noop.pid()), &fixed)?;
    for load in [&webhook, &floor] {
        machine::forget_peak(load.server)?;
    }
    let mut measured = Vec::new();
    for _ in 0..rounds {
        measured.push([floor.run().await?, webhook.run().await?]);
    }
    let name = |what: &str| format!("{called}, {}, {connections} connections: {what}", size.name);
    let row =
        |what: &str, unit, of: fn(&Round) -> f64| Pairs::of(&measured, of).row(name(what), unit);
    let mut requests = row("requests", "1/s", Round::per_second);
    let mut p99 = row("p99", "ms", Round::p99);
    // Nobody has large objects, so only their CPU and memory matter.
    if size == SMALL {
        requests = requests.ratio_at_least(THROUGHPUT_RATIO);
        p99 = p99.ratio_at_most(LATENCY_RATIO);
    }
    let [peak, floor] = [webhook.server, floor.server].map(machine::memory);
    let peak = Row::new(name("peak resident memory"), peak?.peak, "MiB");
    Ok(vec![
        requests,
        p99,
        row("CPU of a request", "us", Round::cpu_of_request),
        peak.beside(floor?.peak).at_most(MEMORY),
    ])
}

/// Sends every request once, checks that it is accepted, and returns the length of the longest
/// answer.
async fn longest_answer(load: &Load, call: Call) -> anyhow::Result<usize> {
    let mut longest = None;
    for request in load.requests.iter() {
        let body = load.ask(request).await?;
        let review: serde_json::Value = serde_json::from_slice(&body)?;
        let response = &review["response"];
        let patched = response["patch"].is_string() == (call == Call::Mutate);
        let accepted = response["allowed"] == true && response["warnings"].is_null();
        ensure!(accepted && patched, "not the expected answer: {review}");
        longest = longest.max(Some(body.len()));
    }
    longest.context("there is no request")
}
