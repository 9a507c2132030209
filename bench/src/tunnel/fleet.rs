//! Many members: memory of causeway-tunnel, its restart, and the CPU of the controller.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::environment::{Behaviour, Tunnel, Way, serve_api};
use super::streams::echo;
use crate::controller::environment::{Environment, SOON, until, until_synced};
use crate::controller::sim::slices::member_name;
use crate::controller::sim::{Access, ServiceSpec, Simulation};
use crate::machine;
use crate::pairs::{Pairs, in_turns, row_of};
use crate::report::Row;

/// Streams of each member, as of one replica of the controller.
const STREAMS: usize = 7;
/// Bytes that each stream has passed on before memory is read.
const PASSED_ON: usize = 16 * 1024;
/// Maximum MiB of causeway-tunnel with all streams.
const MEMORY: f64 = 64.0;
/// Maximum KiB of a stream.
const MEMORY_OF_STREAM: f64 = 10.0;
/// Maximum seconds from the end of causeway-tunnel until all members are synced, and their Clusters
/// report it.
const RESTART: f64 = 5.0;
/// Maximum CPU of the controller, divided by that with members that are dialled.
const CPU: f64 = 1.1;
/// Time from one restart to the next: a member that fails again sooner counts as flapping
/// (docs/troubleshooting.md#unreachable).
const APART: Duration = Duration::from_secs(31);

fn members(quick: bool) -> usize {
    if quick { 8 } else { 500 }
}

/// Measures the memory of causeway-tunnel with many streams that are open and idle.
pub(super) async fn memory(quick: bool) -> anyhow::Result<Vec<Row>> {
    let members = members(quick);
    let (tunnel, api) = (Tunnel::start().await?, serve_api().await?);
    let _agents = tunnel.agents(members, &api.to_string()).await?;
    let pid = tunnel.program.process().pid();
    let before = machine::memory(pid)?.resident;
    let mut streams = Vec::new();
    for member in (0..members).map(member_name) {
        for _ in 0..STREAMS {
            let way = Way::Tunnelled(&tunnel, &member);
            let mut stream = way.open(Behaviour::Echoes).await?;
            echo(&mut stream, PASSED_ON).await?;
            streams.push(stream);
        }
    }
    let after = machine::memory(pid)?.resident;
    let name = |what: &str| format!("{members} members, {} streams: {what}", streams.len());
    let of_stream = (after - before) / streams.len() as f64 * 1024.0;
    let resident = Row::new(name("resident"), after, "MiB").beside(before);
    Ok(vec![
        resident.at_most(MEMORY),
        Row::new(name("memory of a stream"), of_stream, "KiB").at_most(MEMORY_OF_STREAM),
    ])
}

/// Serves members in a ring: each provides a service to the next one.
async fn serve(members: usize, access: Access) -> anyhow::Result<Simulation> {
    Simulation::serve(members, ServiceSpec::ring(members, 1), access).await
}

/// Measures the CPU of the controller for a start into many members, and at rest, beside that with
/// members that are dialled.
pub(super) async fn cpu(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (members, rounds) = (members(quick), if quick { 1 } else { 2 });
    let [settled, rest] = if quick { [0, 1] } else { [40, 20] }.map(Duration::from_secs);
    let dialled = serve(members, Access::Tls).await?;
    let tunnelled = serve(members, Access::Tunnel).await?;
    let tunnel = Tunnel::start().await?;
    let _agents = tunnel.agents(members, tunnelled.tls()).await?;
    let front = format!("--tunnel-front=http://{}", tunnel.front);
    let measured = in_turns(rounds, async |way| {
        let served = [&dialled, &tunnelled][way];
        let controller = env.synced(served, 0, &[&front]).await?;
        let pid = controller.process().pid();
        let synced = machine::cpu_time(pid)?;
        // Half a minute after a start, what was empty is listed once more.
        sleep(settled).await;
        let at_rest = machine::cpu_during(pid, rest).await?;
        controller.process().end().await;
        Ok([synced.as_secs_f64(), at_rest])
    });
    let measured = measured.await?;
    let row = |place: usize, what: &str, unit| {
        let name = format!("{members} members: CPU of the controller {what}");
        let pairs = Pairs::of(&measured, |cpu: &[f64; 2]| cpu[place]);
        pairs.row(name, unit).ratio_at_most(CPU)
    };
    Ok(vec![
        row(0, "to synced", "s"),
        row(1, "at rest", "% of a core"),
    ])
}

/// Measures restarts of causeway-tunnel below a controller that watches many members.
pub(super) async fn restart(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (members, rounds) = (members(quick), if quick { 1 } else { 3 });
    let served = serve(members, Access::Tunnel).await?;
    let tunnel = Tunnel::start().await?;
    let _agents = tunnel.agents(members, served.tls()).await?;
    let front = format!("--tunnel-front=http://{}", tunnel.front);
    let controller = env.synced(&served, 0, &[&front]).await?;
    let journal = &served.journal;
    let [mut connected, mut watched, mut synced] = [const { Vec::new() }; 3];
    let mut lists = 0;
    for round in 0..rounds {
        if round > 0 {
            sleep(APART).await;
        }
        let lists_before = journal.lists.load(Relaxed);
        let watches = journal.watches();
        let all_begun = journal.begun_watches.load(Relaxed) + watches;
        let begun = Instant::now();
        tunnel.program.process().restart().await;
        tunnel.connected(members).await?;
        connected.push(begun.elapsed().as_secs_f64());
        // All watches have ended and have begun again.
        let have_begun = async || {
            journal.begun_watches.load(Relaxed) >= all_begun && journal.watches() >= watches
        };
        let what = format!("back at {watches} watches");
        until(&what, controller.process(), SOON, have_begun).await?;
        watched.push(begun.elapsed().as_secs_f64());
        until_synced(&controller, members, false).await?;
        let all = async || served.reported_synced() >= members;
        let what = format!("reported synced by {members} Clusters");
        until(&what, controller.process(), SOON, all).await?;
        synced.push(begun.elapsed().as_secs_f64());
        lists += journal.lists.load(Relaxed) - lists_before;
    }
    let name = |what: &str| format!("restart, {members} members: {what}");
    let row = |what: &str, times: &[f64]| row_of(times.iter().copied(), name(what), "s");
    Ok(vec![
        row("to all connected", &connected),
        row("to all watched", &watched),
        row("to all synced", &synced).at_most(RESTART),
        Row::new(name("LISTs"), lists as f64, "").at_most(0.0),
    ])
}
