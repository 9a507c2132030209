//! Changes of tunnelled members, beside members that are dialled, and while the tunnel is cut.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use causeway_tests::Running;
use causeway_tests::relay::Relay;
use tokio::time::sleep;

use super::environment::Tunnel;
use crate::controller::environment::{Environment, until_synced};
use crate::controller::load::{Load, Outcome};
use crate::controller::sim::slices::member_name;
use crate::controller::sim::{Access, ServiceSpec, Simulation};
use crate::pairs::{Pairs, in_turns, row_of};
use crate::report::Row;

const MEMBERS: usize = 2;
const PER_SECOND: f64 = 50.0;
/// Maximum milliseconds that the tunnel adds to the p50 and p99 of a change.
const ADDED: [f64; 2] = [0.3, 1.0];
/// Duration of a cut: longer than causeway-tunnel waits for the answer to a PING.
const CUT: Duration = Duration::from_secs(18);
/// Maximum seconds until causeway-tunnel notices a cut.
const NOTICED: f64 = 20.0;
/// Maximum seconds from the end of a cut to the arrival of a change that was made during it.
const HEALED: f64 = 10.0;

/// Serves two members with services of the first one, and starts their controller and agents. The
/// agents connect to the tunnel at that address, which may be a relay's.
async fn start(
    env: &Environment,
    services: u32,
    tunnel: Option<(&Tunnel, SocketAddr)>,
) -> anyhow::Result<(Simulation, Running, Vec<Running>)> {
    let access = tunnel.map_or(Access::Tls, |_| Access::Tunnel);
    let services = ServiceSpec::new(0, [1]).times(services);
    let served = Simulation::serve(MEMBERS, services, access).await?;
    let (mut agents, mut front) = (Vec::new(), None);
    if let Some((tunnel, address)) = tunnel {
        front = Some(format!("--tunnel-front=http://{}", tunnel.front));
        for member in (0..MEMBERS).map(member_name) {
            agents.push(tunnel.agent(&member, address, served.tls()).await?);
        }
        tunnel.connected(MEMBERS).await?;
    }
    let front = front.as_deref();
    let controller = env.synced(&served, 0, front.as_slice()).await?;
    Ok((served, controller, agents))
}

/// Measures the time that the tunnel adds to a change. Provider and consumer are both tunnelled.
pub(super) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (services, rounds, seconds) = if quick { (20, 1, 0.4) } else { (1000, 9, 3.0) };
    let tunnel = Tunnel::start().await?;
    let dialled = start(env, services, None).await?;
    let tunnelled = start(env, services, Some((&tunnel, tunnel.agents))).await?;
    let pick = |number: u32| number % services;
    let outcomes = in_turns(rounds, async |turn| {
        let (served, ..) = [&dialled, &tunnelled][turn];
        let others = |number: u32| pick(services - 1 - number % services);
        Load::new(100.0, 0.2).run(served, others).await;
        Ok(Load::new(PER_SECOND, seconds).run(served, pick).await)
    });
    let outcomes = outcomes.await?;
    let [p50, p99] =
        [0.5, 0.99].map(|part| Pairs::of(&outcomes, |outcome: &Outcome| outcome.percentile(part)));
    let name = |what: &str| format!("a change, {PER_SECOND}/s, both members tunnelled: {what}");
    let [of_p50, of_p99] = ADDED;
    Ok(vec![
        p50.row(name("p50"), "ms"),
        p99.row(name("p99"), "ms"),
        p50.more(name("p50, added"), "ms").at_most(of_p50),
        p99.more(name("p99, added"), "ms").at_most(of_p99),
    ])
}

/// Measures cuts that lose all packets between agents and causeway-tunnel.
pub(super) async fn cut(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    // A cut that nobody notices is shorter.
    let lasts = if quick { Duration::from_secs(1) } else { CUT };
    let rounds = if quick { 1 } else { 3 };
    let tunnel = Tunnel::start().await?;
    let relay = Relay::start(tunnel.agents, Duration::ZERO).await;
    let place = start(env, 1, Some((&tunnel, relay.address()))).await?;
    let (served, controller, _agents) = place;
    let journal = &served.journal;
    let (mut noticed, mut arrived) = (Vec::new(), Vec::new());
    let before = journal.lists.load(Relaxed);
    for _ in 0..rounds {
        journal.take();
        relay.cut();
        let begun = Instant::now();
        served.replace_pod(0);
        if !quick {
            tunnel.connected(0).await?;
            noticed.push(begun.elapsed().as_secs_f64());
        }
        sleep(lasts.saturating_sub(begun.elapsed())).await;
        relay.heal();
        let healed = Instant::now();
        let outcome = Outcome::of(journal).await;
        let change = outcome.arrived.first();
        let after = change.map(|change| (change.at + change.last()).duration_since(healed));
        arrived.push(after.map_or(f64::INFINITY, |after| after.as_secs_f64()));
        until_synced(&controller, MEMBERS, true).await?;
    }
    let lists = (journal.lists.load(Relaxed) - before) as f64;
    let name = |what: &str| format!("cut of {} s: {what}", lasts.as_secs());
    let row = |what: &str, times: Vec<f64>| row_of(times.into_iter(), name(what), "s");
    let mut rows = vec![
        row("a change during it, after its end", arrived).at_most(HEALED),
        Row::new(name("LISTs"), lists, "").at_most(0.0),
    ];
    if !quick {
        rows.push(row("noticed by causeway-tunnel", noticed).at_most(NOTICED));
    }
    Ok(rows)
}
