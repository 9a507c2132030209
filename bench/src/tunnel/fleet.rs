//! Many members: memory of causeway-tunnel, and its restart.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::environment::{Behaviour, Tunnel, Way, serve_api};
use super::streams::echo;
use crate::controller::environment::Environment;
use crate::controller::sim::slices::member_name;
use crate::controller::sim::{Access, ServiceSpec, Simulation};
use crate::pairs::row_of;
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
/// Time from one restart to the next: a member that fails again sooner counts as flapping
/// (docs/troubleshooting.md#unreachable).
const APART: Duration = Duration::from_secs(31);

fn members(quick: bool) -> usize {
    if quick { 8 } else { 500 }
}

/// Measures the memory of causeway-tunnel with many streams that are open and idle.
pub(super) async fn memory(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let members = members(quick);
    let (tunnel, api) = (Tunnel::start(env).await?, serve_api().await?);
    let _agents = tunnel.agents(members, &api.to_string()).await?;
    let resident = || anyhow::Ok(tunnel.program.memory()?.resident);
    let before = resident()?;
    let mut streams = Vec::new();
    for member in (0..members).map(member_name) {
        for _ in 0..STREAMS {
            let way = Way::Tunnelled(&tunnel, &member);
            let mut stream = way.open(Behaviour::Echoes).await?;
            echo(&mut stream, PASSED_ON).await?;
            streams.push(stream);
        }
    }
    let after = resident()?;
    let name = |what: &str| format!("{members} members, {} streams: {what}", streams.len());
    let of_stream = (after - before) / streams.len() as f64 * 1024.0;
    let resident = Row::new(name("resident"), after, "MiB").beside(before);
    Ok(vec![
        resident.at_most(MEMORY),
        Row::new(name("memory of a stream"), of_stream, "KiB").at_most(MEMORY_OF_STREAM),
    ])
}

/// Measures restarts of causeway-tunnel below a controller that watches many members.
pub(super) async fn restart(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (members, rounds) = (members(quick), if quick { 1 } else { 3 });
    let specs = ServiceSpec::ring(members, members, 1).collect();
    let served = Simulation::serve(members, specs, Access::Tunnel).await?;
    let tunnel = Tunnel::start(env).await?;
    let _agents = tunnel.agents(members, served.tls()).await?;
    let controller = env.synced_with(&served, 0, &[tunnel.flag()]).await?;
    let journal = &served.journal;
    let [mut connected, mut watched, mut synced] = [const { Vec::new() }; 3];
    let mut lists = 0;
    for round in 0..rounds {
        if round > 0 {
            sleep(APART).await;
        }
        let (lists_before, begun_before) = (journal.state().lists, journal.state().watched);
        let open = journal.watches();
        let begun = Instant::now();
        tunnel.program.0.process().restart().await;
        tunnel.connected(members).await?;
        connected.push(begun.elapsed().as_secs_f64());
        // All watches have ended and have begun again.
        let is_watched =
            async || journal.state().watched >= begun_before + open && journal.watches() >= open;
        controller.until("all is watched", is_watched).await?;
        watched.push(begun.elapsed().as_secs_f64());
        controller.reaches(members, false).await?;
        let is_reported = async || served.reported_synced() == members;
        controller.until("Clusters report it", is_reported).await?;
        synced.push(begun.elapsed().as_secs_f64());
        lists += journal.state().lists - lists_before;
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
