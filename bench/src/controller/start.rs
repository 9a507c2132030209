//! Start into clusters that have their copies, and the memory that they take.

use std::time::{Duration, Instant};

use serde::de::IgnoredAny;
use tokio::time::sleep;

use super::environment::{Environment, FAST};
use super::load::Outcome;
use super::sim::{Access, ServiceSpec, Simulation};
use crate::machine;
use crate::pairs::{Pairs, median, row_of};
use crate::report::Row;

/// Slices of each service.
const SLICES: u16 = 10;
const ENDPOINTS: u16 = 100;
/// Members with copies of each slice, in the two simulations.
const FEW: usize = 1;
const MANY: usize = 5;
/// Maximum seconds to the first change and to synced, with few copies, with many, and with five
/// hundred members.
const START_WITH_FEW: [f64; 2] = [10.0, 10.0];
const START_WITH_MANY: [f64; 2] = [20.0, 20.0];
const START_OF_FIVE_HUNDRED: [f64; 2] = [5.0, 30.0];
/// Maximum CPU seconds of a GB of JSON.
const CPU_OF_GIGABYTE: f64 = 1.2;
/// Maximum MiB, of a hundred members and of five hundred.
const MEMORY: f64 = 900.0;
const MEMORY_OF_FIVE_HUNDRED: f64 = 1536.0;
/// Maximum percent of a core.
const AT_REST: f64 = 1.0;

/// Start into a simulation. Times are seconds since its begin.
struct Started {
    synced: f64,
    /// Time to the first propagated change.
    first: f64,
    /// Writes that no change needs.
    needless: f64,
    /// CPU until synced.
    cpu: f64,
    memory: machine::Memory,
    /// CPU afterwards, in percent of a core, if it is measured.
    at_rest: f64,
}

/// Serves members that each provide so many services, of which so many others have copies.
async fn serve(
    members: usize,
    services: usize,
    consumers: usize,
    access: Access,
) -> anyhow::Result<Simulation> {
    let ring = ServiceSpec::ring(members, consumers).into_iter();
    let specs = ring.map(|spec| spec.slices(SLICES, ENDPOINTS));
    let services = specs.flat_map(|spec| std::iter::repeat_n(spec, services));
    Simulation::serve(members, services.collect(), access).await
}

/// Starts the controller `count` times into a simulation in which every member has changed a slice
/// meanwhile. Its CPU at rest is measured for `rest`, after as long a pause.
async fn starts(
    env: &Environment,
    simulation: &Simulation,
    count: usize,
    rest: Option<Duration>,
) -> anyhow::Result<Vec<Started>> {
    let each = simulation.services.len() / simulation.members();
    let mut starts = Vec::new();
    for _ in 0..count {
        for service in (0..simulation.services.len()).step_by(each) {
            simulation.replace_pod(u32::try_from(service)?);
        }
        let begun = Instant::now();
        let controller = env.synced(simulation, 0, FAST).await?;
        let (synced, pid) = (begun.elapsed(), controller.process().pid());
        let cpu = machine::cpu_time(pid)?;
        let outcome = Outcome::of(&simulation.journal).await;
        anyhow::ensure!(outcome.lost == 0, "{} changes were lost", outcome.lost);
        let arrived = outcome.arrived.iter();
        let arrivals = arrived.flat_map(|one| one.after.iter().map(|after| one.at + *after));
        let arrivals = arrivals.map(|at| at.duration_since(begun).as_secs_f64());
        let writes = simulation.journal.writes_since(begun);
        let others = writes.iter().filter(|write| !write.is_slice).take(5);
        others.for_each(|write| eprintln!("needless: {}", write.what));
        let memory = machine::memory(pid)?;
        let mut at_rest = 0.0;
        if let Some(rest) = rest {
            // Work that is left after synced is not rest.
            sleep(rest).await;
            at_rest = machine::cpu_during(pid, rest).await?;
        }
        starts.push(Started {
            synced: synced.as_secs_f64(),
            first: arrivals.clone().fold(f64::INFINITY, f64::min),
            needless: (writes.len() - arrivals.count()) as f64,
            cpu: cpu.as_secs_f64(),
            memory,
            at_rest,
        });
        controller.process().end().await;
    }
    Ok(starts)
}

/// Returns the CPU seconds in which serde_json passes over a gigabyte of such JSON in memory.
fn decode_floor(simulation: &Simulation) -> anyhow::Result<f64> {
    const ENOUGH: usize = 200_000_000;
    let [slice, _] = simulation.json();
    let (cpu, mut bytes) = (machine::own_cpu_time()?, 0);
    while bytes < ENOUGH {
        serde_json::from_slice::<IgnoredAny>(std::hint::black_box(&slice))?;
        bytes += slice.len();
    }
    let took = machine::own_cpu_time()? - cpu;
    Ok(took.as_secs_f64() / bytes as f64 * 1e9)
}

pub(crate) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (members, services, count) = if quick { (6, 2, 1) } else { (100, 200, 2) };
    let slices = members * services * usize::from(SLICES);
    let name = |copies: usize, what: &str| {
        format!("start, {members} clusters, {slices} slices, {copies} copies: {what}")
    };
    let served = serve(members, services, FEW, Access::Plain).await?;
    let of_few = |what: &str| name(slices * FEW, what);
    let few = starts(env, &served, count, None).await?;
    let mut rows = start_rows(&few, START_WITH_FEW, of_few).to_vec();
    // All slices and copies have nearly the same length.
    let json = served.json().concat().len() * slices;
    let cpus = few.iter().map(|one| one.cpu / (json as f64 / 1e9));
    let (floor, mut beside) = (decode_floor(&served)?, Pairs::default());
    cpus.clone().for_each(|cpu| beside.note(floor, cpu));
    let of_json = of_few("CPU of a GB of that JSON");
    let in_memory = format!("{of_json}, beside IgnoredAny from memory");
    rows.extend([
        row_of(cpus, of_json, "s").at_most(CPU_OF_GIGABYTE),
        beside.row(in_memory, "s"),
    ]);
    drop(served);

    let served = serve(members, 1, FEW, Access::Plain).await?;
    let small = starts(env, &served, 1, None).await?;
    drop(served);
    let served = serve(members, services, MANY, Access::Plain).await?;
    let of_many = |what: &str| name(slices * MANY, what);
    let many = starts(env, &served, count, None).await?;
    rows.extend(start_rows(&many, START_WITH_MANY, of_many));
    let resident = |rounds: &[Started]| median(rounds.iter().map(|one| one.memory.resident));
    let copy = (resident(&many) - resident(&few)) / (slices * (MANY - FEW)) as f64;
    let more = slices - members * usize::from(SLICES);
    let both = (resident(&few) - resident(&small)) / more.max(1) as f64;
    let memory = |what: &str, of: fn(&machine::Memory) -> f64| {
        row_of(many.iter().map(|one| of(&one.memory)), of_many(what), "MiB")
    };
    let slice = (both - FEW as f64 * copy) * 1024.0;
    rows.extend([
        memory("resident", |memory| memory.resident).at_most(MEMORY),
        memory("resident at most", |memory| memory.peak),
        Row::new("memory of a slice of 100 endpoints", slice, "KiB"),
        Row::new("memory of a copy", copy * 1024.0, "KiB"),
    ]);
    Ok(rows)
}

fn start_rows(
    rounds: &[Started],
    [first, synced]: [f64; 2],
    name: impl Fn(&str) -> String,
) -> [Row; 4] {
    let row =
        |what: &str, unit, of: fn(&Started) -> f64| row_of(rounds.iter().map(of), name(what), unit);
    let change = row("to the first propagated change", "s", |one| one.first);
    [
        change.at_most(first),
        row("to synced", "s", |one| one.synced).at_most(synced),
        row("CPU to synced", "s", |one| one.cpu),
        row("needless writes", "", |one| one.needless).at_most(0.0),
    ]
}

/// Measures a start into five hundred clusters that are reached over TLS, and their cost at rest.
pub(super) async fn five_hundred(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (members, services, count) = if quick { (8, 1, 1) } else { (500, 40, 2) };
    // As long as a probe of each member.
    let rest = Duration::from_millis(if quick { 500 } else { 10_000 });
    let served = serve(members, services, MANY, Access::Tls).await?;
    let starts = starts(env, &served, count, Some(rest)).await?;
    let slices = services * usize::from(SLICES);
    let name =
        |what: &str| format!("{members} members, {slices} slices each, {MANY} consumers: {what}");
    let row =
        |what: &str, unit, of: fn(&Started) -> f64| row_of(starts.iter().map(of), name(what), unit);
    let resident = row("resident", "MiB", |one| one.memory.resident);
    let at_rest = row("CPU at rest", "% of a core", |one| one.at_rest);
    let mut rows = start_rows(&starts, START_OF_FIVE_HUNDRED, name).to_vec();
    rows.push(resident.at_most(MEMORY_OF_FIVE_HUNDRED));
    rows.push(at_rest.at_most(AT_REST));
    Ok(rows)
}
