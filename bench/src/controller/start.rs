//! A start into a hundred clusters whose copies stand already, and what they take of the memory.

use std::time::{Duration, Instant};

use serde::de::IgnoredAny;

use super::Extent;
use super::environment::{Environment, Subject};
use super::load::settle;
use super::relay::{Encoding, Wiring};
use super::sim::kind::Kind;
use super::sim::seed::{Shape, serve};
use super::sim::services::ServiceSpec;
use super::sim::simulation::Simulation;
use super::sim::text::SliceId;
use crate::pairs::{Pairs, median, row_of};
use crate::proc;
use crate::report::Row;

/// Slices of each service.
pub(super) const SLICES: u16 = 10;
const ENDPOINTS: u16 = 100;
/// In how many members there are copies of each slice, in the two simulations.
const FEW: usize = 1;
const MANY: usize = 5;
/// Seconds to the first change and to synced, at most: with few copies and with many.
const START_WITH_FEW: f64 = 10.0;
const START_WITH_MANY: f64 = 20.0;
/// CPU seconds of a GB of JSON, at most.
const CPU_OF_GIGABYTE: f64 = 1.2;
/// MiB, at most.
const MEMORY: f64 = 900.0;

/// A start into a simulation; seconds since it began.
pub(super) struct Started {
    pub(super) synced: f64,
    pub(super) first_change: f64,
    last_change: f64,
    /// Writes that no change asked for.
    needless: usize,
    /// Until synced.
    pub(super) cpu: Duration,
    pub(super) memory: proc::Memory,
}

/// A start, and before it lists that are passed over.
struct Round {
    /// Seconds.
    listed: f64,
    /// Bytes.
    sent: f64,
    started: Started,
}

/// Members that each provide so many services, of which so many others have copies.
pub(super) fn shape(members: usize, services: usize, consumers: usize) -> Shape {
    let spec = |member: usize| {
        let others = (1..=consumers.min(members - 1)).map(|step| (member + step) % members);
        let number = |member: usize| u16::try_from(member).unwrap_or_default();
        ServiceSpec {
            provider: number(member),
            slices: SLICES,
            endpoints: ENDPOINTS,
            consumers: others.map(number).collect(),
        }
    };
    let services = (0..members).flat_map(|member| std::iter::repeat_n(spec(member), services));
    Shape {
        members,
        services: services.collect(),
        dead: Vec::new(),
    }
}

/// Starts the controller into a simulation in which every member has changed a slice meanwhile.
pub(super) async fn start(
    env: &Environment,
    simulation: &Simulation,
) -> anyhow::Result<(Started, Subject)> {
    let each = simulation.services.all().count() / simulation.members();
    for member in 0..simulation.members() {
        let service = u32::try_from(member * each)?;
        simulation.replace_pod(SliceId { service, slice: 0 });
    }
    let begun = Instant::now();
    let controller = env.controller(simulation)?;
    controller.synced(simulation.members()).await?;
    let (synced, cpu) = (begun.elapsed(), controller.cpu()?);
    let outcome = settle(simulation).await;
    anyhow::ensure!(outcome.lost == 0, "{} changes were lost", outcome.lost);
    let arrivals = outcome
        .arrived
        .iter()
        .flat_map(|one| one.after.iter().map(|after| one.changed_at + *after));
    let arrivals: Vec<_> = arrivals
        .map(|at| at.duration_since(begun).as_secs_f64())
        .collect();
    let writes = simulation.journal.writes_since(begun);
    eprintln!("start: {}", simulation.journal.summary(&writes));
    let started = Started {
        synced: synced.as_secs_f64(),
        first_change: arrivals.iter().copied().fold(f64::INFINITY, f64::min),
        last_change: arrivals.iter().copied().fold(0.0, f64::max),
        needless: writes.len() - arrivals.len(),
        cpu,
        memory: proc::memory(controller.pid())?,
    };
    Ok((started, controller))
}

/// Seconds of one core to pass over a gigabyte of such JSON, all of it in memory.
fn decode_floor(simulation: &Simulation) -> anyhow::Result<f64> {
    const ENOUGH: usize = 200_000_000;
    let mut slice = Vec::new();
    let key = super::sim::kind::key(
        Some(&super::sim::text::namespace(0)),
        &SliceId {
            service: 0,
            slice: 0,
        }
        .name(),
    );
    let entry = simulation.member(0).entry(Kind::EndpointSlice, &key);
    let entry = entry.ok_or_else(|| anyhow::anyhow!("there is no slice {key}"))?;
    simulation.member(0).render(&entry, &mut slice);
    let (cpu, mut bytes) = (proc::own_cpu_time()?, 0);
    while bytes < ENOUGH {
        serde_json::from_slice::<IgnoredAny>(std::hint::black_box(&slice))?;
        bytes += slice.len();
    }
    let took = proc::own_cpu_time()? - cpu;
    Ok(took.as_secs_f64() / bytes as f64 * 1e9)
}

async fn rounds(
    env: &Environment,
    simulation: &Simulation,
    count: usize,
) -> anyhow::Result<Vec<Round>> {
    let mut rounds = Vec::new();
    for _ in 0..count {
        let (listed, sent) = env.list_all(simulation, Encoding::Protobuf).await?;
        let (started, controller) = start(env, simulation).await?;
        controller.end().await;
        rounds.push(Round {
            listed: listed.as_secs_f64(),
            sent,
            started,
        });
    }
    Ok(rounds)
}

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let (members, services) = (extent.members, extent.services_each);
    let slices = members * services * usize::from(SLICES);
    let name = |copies: usize, what: &str| {
        format!("start, {members} clusters, {slices} slices, {copies} copies: {what}")
    };
    let served = serve(shape(members, services, FEW)).await?;
    let few = rounds(env, &served, extent.starts).await?;
    let of_few = |what: &str| name(slices * FEW, what);
    let mut rows = start_rows(&few, START_WITH_FEW, of_few);
    rows.extend(decoding_rows(env, &served, &few, of_few).await?);
    drop(served);

    let served = serve(shape(members, 1, FEW)).await?;
    let (small, controller) = start(env, &served).await?;
    drop((controller, served));
    let served = serve(shape(members, services, MANY)).await?;
    let many = rounds(env, &served, extent.starts).await?;
    let of_many = |what: &str| name(slices * MANY, what);
    rows.extend(start_rows(&many, START_WITH_MANY, of_many));
    rows.extend(memory_rows(
        &small,
        &few,
        &many,
        slices,
        members * usize::from(SLICES),
    ));
    Ok(rows)
}

fn start_rows(rounds: &[Round], goal: f64, name: impl Fn(&str) -> String + Copy) -> Vec<Row> {
    let row = |what: &str, of: fn(&Started) -> f64, unit| {
        row_of(
            rounds.iter().map(|round| of(&round.started)),
            name(what),
            unit,
        )
    };
    let lists = rounds
        .iter()
        .map(|round| (round.listed, round.started.synced));
    let lists = Pairs::from_iter(lists);
    let needless = |started: &Started| started.needless as f64;
    vec![
        row(
            "to the first propagated change",
            |one| one.first_change,
            "s",
        )
        .below(goal),
        row(
            "to the last change of meanwhile",
            |one| one.last_change,
            "s",
        ),
        row("to synced", |one| one.synced, "s").at_most(goal),
        lists.row(name("to synced, beside the lists passed over"), "s"),
        row("writes that nothing asked for", needless, "").at_most(0.0),
        row("CPU to synced", |one| one.cpu.as_secs_f64(), "s"),
    ]
}

/// What the slices and the copies are as JSON and as protobuf, and the CPU of a GB of JSON.
async fn decoding_rows(
    env: &Environment,
    simulation: &Simulation,
    rounds: &[Round],
    name: impl Fn(&str) -> String,
) -> anyhow::Result<Vec<Row>> {
    let decode = decode_floor(simulation)?;
    // The members are alike.
    let (all, some) = (simulation.members(), simulation.members().div_ceil(10));
    let listed = Wiring::from(simulation).first(some);
    let (_, bytes) = env.list_all(listed, Encoding::Json).await?;
    let gigabytes = bytes / some as f64 * all as f64 / 1e9;
    let cpu = |round: &Round| round.started.cpu.as_secs_f64() / gigabytes;
    let cpu = rounds.iter().map(cpu);
    let sent = median(rounds.iter().map(|round| round.sent));
    let beside = Pairs::from_iter(cpu.clone().map(|cpu| (decode, cpu)));
    Ok(vec![
        Row::new(name("JSON of slices and copies"), gigabytes, "GB"),
        Row::new(name("the same as protobuf"), sent / 1e9, "GB"),
        row_of(cpu, name("CPU of a GB of that JSON"), "s").at_most(CPU_OF_GIGABYTE),
        beside.row(
            name("CPU of a GB of that JSON, beside IgnoredAny from memory"),
            "s",
        ),
    ])
}

/// What a slice and a copy take: of the same slices there are simulations with few copies and with many, and one with few slices.
fn memory_rows(
    small: &Started,
    few: &[Round],
    many: &[Round],
    slices: usize,
    of_small: usize,
) -> Vec<Row> {
    const KIB: f64 = 1024.0;
    let resident =
        |rounds: &[Round]| median(rounds.iter().map(|round| round.started.memory.resident));
    let copies = (slices * (MANY - FEW)) as f64;
    let copy = (resident(many) - resident(few)) * KIB / copies;
    let more = (slices - of_small) as f64;
    let both = (resident(few) - small.memory.resident) * KIB / more.max(1.0);
    let row = |what: &str, of: fn(&proc::Memory) -> f64| {
        let all = format!("{slices} slices, {} copies: {what}", slices * MANY);
        let rounds = many.iter().map(|round| of(&round.started.memory));
        row_of(rounds, all, "MiB")
    };
    let hardly_any = format!("{of_small} slices, {} copies", of_small * FEW);
    vec![
        Row::new(
            format!("{hardly_any}: resident"),
            small.memory.resident,
            "MiB",
        ),
        row("resident", |memory| memory.resident).at_most(MEMORY),
        row("resident at most", |memory| memory.peak),
        Row::new(
            "memory of a slice of 100 endpoints",
            both - FEW as f64 * copy,
            "KiB",
        ),
        Row::new("memory of a copy", copy, "KiB"),
    ]
}
