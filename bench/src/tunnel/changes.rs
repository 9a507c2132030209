//! Changes of tunnelled members, beside members that are dialled, and while the tunnel is cut.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use causeway_tests::relay::Relay;
use tokio::time::sleep;

use super::environment::Tunnel;
use crate::controller::environment::Environment;
use crate::controller::load::{Load, Outcome, Side};
use crate::controller::sim::slices::member_name;
use crate::controller::sim::{Access, ServiceSpec, Simulation};
use crate::pairs::row_of;
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

/// Serves two members with services of the first one, and starts the controller. Agents connect to
/// the tunnel at that address, which may be a relay's; without, the members are dialled.
async fn start(
    env: &Environment,
    services: u32,
    tunnel: Option<(&mut Tunnel<'_>, SocketAddr)>,
) -> anyhow::Result<Side> {
    let access = match tunnel {
        Some(_) => Access::Tunnel,
        None => Access::Tls,
    };
    let services = ServiceSpec::new(0, [1]).times(services);
    let served = Simulation::serve(MEMBERS, services, access).await?;
    let mut flag = None;
    if let Some((tunnel, address)) = tunnel {
        for member in (0..MEMBERS).map(member_name) {
            tunnel.agent(&member, address, served.tls()).await?;
        }
        flag = Some(tunnel.flag());
    }
    let program = env.synced_with(&served, 0, flag.as_slice()).await?;
    Ok(Side { served, program })
}

/// Measures the time that the tunnel adds to a change. Provider and consumer are both tunnelled.
pub(super) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (services, rounds, seconds) = if quick { (20, 1, 0.4) } else { (1000, 9, 3.0) };
    let mut tunnel = Tunnel::start(env).await?;
    let address = tunnel.agents;
    let dialled = start(env, services, None).await?;
    let tunnelled = start(env, services, Some((&mut tunnel, address))).await?;
    let load = Load::new(PER_SECOND, seconds);
    let sides = [&dialled, &tunnelled];
    let pick = |_, number| number % services;
    let compared = load.compare(sides, rounds, pick).await?;
    let [p50, p99] = [0.5, 0.99].map(|part| compared.percentile(part));
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
    // A quick cut ends before causeway-tunnel notices it.
    let (rounds, lasts) = if quick {
        (1, Duration::from_secs(1))
    } else {
        (3, CUT)
    };
    let mut tunnel = Tunnel::start(env).await?;
    let relay = Relay::start(tunnel.agents, Duration::ZERO).await;
    let tunnelled = start(env, 1, Some((&mut tunnel, relay.address()))).await?;
    let journal = &tunnelled.served.journal;
    let (mut noticed, mut arrived) = (Vec::new(), Vec::new());
    let before = journal.state().lists;
    for _ in 0..rounds {
        journal.take();
        relay.cut();
        let begun = Instant::now();
        tunnelled.served.replace_pod(0);
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
        tunnelled.program.synced(MEMBERS).await?;
    }
    let lists = (journal.state().lists - before) as f64;
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
