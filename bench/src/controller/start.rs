//! Start into clusters that have their copies, and the memory that they take.

use std::ops::Range;
use std::time::{Duration, Instant};

use causeway::api::labels;
use causeway_tests::{Fleet, Installation, Proxy, Space, service};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::sleep;

use super::environment::{Environment, Subject};
use super::load::Outcome;
use super::relay;
use super::sim::slices::{self, Encoding, SliceId};
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

/// Starts the controller into a simulation in which every member has changed a slice meanwhile.
async fn start(env: &Environment, simulation: &Simulation) -> anyhow::Result<(Started, Subject)> {
    let each = simulation.services.len() / simulation.members();
    for service in (0..simulation.services.len()).step_by(each) {
        simulation.replace_pod(u32::try_from(service)?);
    }
    let begun = Instant::now();
    let controller = env.synced(simulation, 0).await?;
    let (synced, cpu) = (begun.elapsed(), controller.cpu()?);
    let outcome = Outcome::of(&simulation.journal).await;
    anyhow::ensure!(outcome.lost == 0, "{} changes were lost", outcome.lost);
    let arrived = outcome.arrived.iter();
    let arrivals = arrived.flat_map(|one| one.after.iter().map(|after| one.at + *after));
    let arrivals = arrivals.map(|at| at.duration_since(begun).as_secs_f64());
    let writes = simulation.journal.writes_since(begun);
    let others = writes.iter().filter(|write| !write.is_slice).take(5);
    others.for_each(|write| eprintln!("needless: {}", write.what));
    let started = Started {
        synced: synced.as_secs_f64(),
        first: arrivals.clone().fold(f64::INFINITY, f64::min),
        needless: (writes.len() - arrivals.count()) as f64,
        cpu: cpu.as_secs_f64(),
        memory: controller.memory()?,
    };
    Ok((started, controller))
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

/// Starts the controller so often, in turns with the floor. Returns the starts, and the seconds of
/// both.
async fn rounds(
    env: &Environment,
    simulation: &Simulation,
    count: usize,
) -> anyhow::Result<(Vec<Started>, Pairs)> {
    let (mut rounds, mut lists) = (Vec::new(), Pairs::default());
    for _ in 0..count {
        let listed = env.list_all(simulation).await?.as_secs_f64();
        let (started, controller) = start(env, simulation).await?;
        controller.end().await;
        lists.note(listed, started.synced);
        rounds.push(started);
    }
    Ok((rounds, lists))
}

pub(crate) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (members, services, starts) = if quick { (6, 2, 1) } else { (100, 200, 2) };
    let slices = members * services * usize::from(SLICES);
    let name = |copies: usize, what: &str| {
        format!("start, {members} clusters, {slices} slices, {copies} copies: {what}")
    };
    let served = serve(members, services, FEW, Access::Plain).await?;
    let of_few = |what: &str| name(slices * FEW, what);
    let beside_lists = "to synced, beside the lists passed over";
    let (few, lists) = rounds(env, &served, starts).await?;
    let mut rows = start_rows(&few, START_WITH_FEW, of_few).to_vec();
    rows.push(lists.row(of_few(beside_lists), "s"));
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
    let (small, controller) = start(env, &served).await?;
    drop((controller, served));
    let served = serve(members, services, MANY, Access::Plain).await?;
    let of_many = |what: &str| name(slices * MANY, what);
    let (many, lists) = rounds(env, &served, starts).await?;
    rows.extend(start_rows(&many, START_WITH_MANY, of_many));
    rows.push(lists.row(of_many(beside_lists), "s"));
    let resident = |rounds: &[Started]| median(rounds.iter().map(|one| one.memory.resident));
    let copy = (resident(&many) - resident(&few)) / (slices * (MANY - FEW)) as f64;
    let more = slices - members * usize::from(SLICES);
    let both = (resident(&few) - small.memory.resident) / more.max(1) as f64;
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
    let (members, services, starts) = if quick { (8, 1, 1) } else { (500, 40, 2) };
    // As long as a probe of each member.
    let rest = Duration::from_millis(if quick { 500 } else { 10_000 });
    let served = serve(members, services, MANY, Access::Tls).await?;
    let (mut rounds, mut at_rest) = (Vec::new(), Vec::new());
    for _ in 0..starts {
        let (started, controller) = start(env, &served).await?;
        rounds.push(started);
        // Work that is left after synced is not rest.
        sleep(rest).await;
        at_rest.push(machine::cpu_during(controller.0.process().pid(), rest).await?);
        controller.end().await;
    }
    let slices = services * usize::from(SLICES);
    let name =
        |what: &str| format!("{members} members, {slices} slices each, {MANY} consumers: {what}");
    let resident = rounds.iter().map(|one| one.memory.resident);
    let resident = row_of(resident, name("resident"), "MiB");
    let at_rest = row_of(at_rest.into_iter(), name("CPU at rest"), "% of a core");
    let mut rows = start_rows(&rounds, START_OF_FIVE_HUNDRED, name).to_vec();
    rows.push(resident.at_most(MEMORY_OF_FIVE_HUNDRED));
    rows.push(at_rest.at_most(AT_REST));
    Ok(rows)
}

/// Measures the CPU of a real API server for a start, beside that for a list of the same slices.
pub(super) async fn real(quick: bool) -> anyhow::Result<Vec<Row>> {
    let (services, rounds) = if quick { (3, 1) } else { (200, 5) };
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let member = fleet.member("member1");
    let controller = || Subject(installation.controller().start_unready());
    // A member is joined once the controller has engaged it.
    let engaged = controller();
    installation.join(member).await;
    engaged.synced(1).await?;
    engaged.end().await;
    let space = fleet.space("bench").await;
    create(&space.api(member), 0..services).await?;
    let cpu = || anyhow::Ok(machine::cpu_time(member.api_server().pid())?.as_secs_f64());
    let mut pairs = Pairs::default();
    // The first round warms up.
    for round in 0..=rounds {
        let before = cpu()?;
        relay::list(&member.client()).await?;
        let list = cpu()? - before;
        let controller = controller();
        controller.synced(1).await?;
        let start = cpu()? - before - list;
        controller.end().await;
        if round > 0 {
            pairs.note(list, start);
        }
    }
    let count = services * u32::from(SLICES);
    let name = format!("a real API server, {count} slices: CPU of a start, beside a list");
    let mut rows = vec![pairs.row(name, "s")];
    let all = if quick { 6 } else { 1000 };
    create(&space.api(member), services..all).await?;
    rows.extend(narrow(&installation, &space, all).await?);
    Ok(rows)
}

/// Measures the EndpointSlices that a member sends if exposed ones are watched, beside all.
async fn narrow(at: &Installation, space: &Space<'_>, all: u32) -> anyhow::Result<[Row; 2]> {
    let (exposed, changes) = (all.div_ceil(200), all.div_ceil(5));
    let member = space.fleet().member("member1");
    for name in (0..exposed).map(slices::service_name) {
        // Kubernetes leaves alone the slices of a Service without a selector.
        let own = service(&name).port("http", 80).without_selector();
        own.create(member, space).await;
        space.expose(&name, ["member1"], ["nobody"]).await;
    }
    let proxy = Proxy::before(member).await;
    let controller = || Subject(at.controller().start_unready());
    let engaged = controller();
    at.join_at(member, &proxy.url()).await;
    engaged.end().await;
    let clusters = Api::<causeway::api::Cluster>::all(space.hub().client());
    let (api, params) = (space.api::<EndpointSlice>(member), PatchParams::default());
    let last = SliceId::first(all - 1).name();
    let mut sent = Vec::new();
    for value in [None, Some("exposed")] {
        let patch = |key: &str, value| json!({"metadata": {"annotations": {key: value}}});
        let watch = Patch::Merge(patch(labels::WATCH, value.map(str::to_owned)));
        clusters.patch("member1", &params, &watch).await?;
        let before = proxy.slice_bytes();
        let controller = controller();
        controller.synced(1).await?;
        let started = proxy.slice_bytes();
        for change in 0..changes {
            let change = Patch::Merge(patch("change", Some(change.to_string())));
            api.patch(&last, &params, &change).await?;
        }
        sleep(Duration::from_secs(1)).await;
        let each = (proxy.slice_bytes() - started) as f64 / f64::from(changes);
        controller.end().await;
        sent.push([(started - before) as f64, each]);
    }
    let [all, few] = [all, exposed].map(|services| services * u32::from(SLICES));
    let whats = ["sent at a start", "sent for a change of others"];
    Ok([0, 1].map(|one| {
        let name = format!("{all} slices, {few} exposed: {}", whats[one]);
        let row = Row::new(name, sent[1][one] / 1024.0, "KiB");
        row.beside(sent[0][one] / 1024.0).ratio_at_most(0.02)
    }))
}

/// Creates slices as the imitated API servers have them, without an owner.
async fn create(api: &Api<EndpointSlice>, services: Range<u32>) -> anyhow::Result<()> {
    const AT_ONCE: usize = 16;
    let spec = ServiceSpec::new(0, []).slices(SLICES, ENDPOINTS);
    let ids = services.flat_map(|service| {
        let slices = 0..SLICES;
        slices.map(move |slice| SliceId { service, slice })
    });
    let created = stream::iter(ids).map(async |id| {
        let text = slices::source(id, &spec, 0, 0).encode(Encoding::Json);
        let mut slice: EndpointSlice = serde_json::from_slice(&text)?;
        let metadata = std::mem::take(&mut slice.metadata);
        slice.metadata.name = metadata.name;
        slice.metadata.labels = metadata.labels;
        api.create(&PostParams::default(), &slice).await?;
        anyhow::Ok(())
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}
