//! Streams of one member: round trips, alone and beside other streams, and bytes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream as BlockingStream};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use causeway_tests::relay::Relay;
use causeway_tunnel::limits::{Limits, READ};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::environment::{Behaviour, Tunnel, Way, serve_api};
use crate::machine::{cpu_time, own_cpu_time};
use crate::pairs::{Pairs, in_turns, percentile};
use crate::report::Row;

const MEMBER: &str = "near";
/// Member behind a delay.
const FAR: &str = "far";
const DELAY: Duration = Duration::from_millis(25);
/// Streams that nobody reads.
const STUCK: usize = 16;
/// Time in which the windows of stuck streams are full.
const FILLS_IN: Duration = Duration::from_millis(300);
const MIB: f64 = 1024.0 * 1024.0;

/// Maximum milliseconds of a round trip, alone and beside a stream that is read at full speed.
const ROUND_TRIP: f64 = 0.25;
const BESIDE_BULK: f64 = 2.0;
/// Maximum of the p99 beside stuck streams, as a multiple of that without.
const STUCK_RATIO: f64 = 2.0;
/// Maximum CPU seconds of a GB.
const CPU_OF_GIGABYTE: f64 = 1.5;
/// Minimum of the MiB a second of a stream with a round trip of 50 ms.
const FAR_THROUGHPUT: f64 = 10.0;

/// Round of one way.
struct Round {
    trips: Vec<Duration>,
    /// Times from CONNECT to the first echo.
    opened: Vec<Duration>,
    /// Round trips beside a stream that is read at full speed.
    beside_bulk: Vec<Duration>,
    /// Round trips beside streams that nobody reads, through the tunnel.
    beside_stuck: Vec<Duration>,
}

pub(super) async fn measure(quick: bool) -> anyhow::Result<Vec<Row>> {
    let rounds = if quick { 1 } else { 9 };
    let trips = if quick { 50 } else { 2000 };
    let (tunnel, api) = (Tunnel::start().await?, serve_api().await?);
    let address = api.to_string();
    let agent = tunnel.agent(MEMBER, tunnel.agents, &address).await?;
    tunnel.connected(1).await?;
    let tunnelled = Way::Tunnelled(&tunnel, MEMBER);
    let ways = [Way::Dialled(api), tunnelled];
    let measured = in_turns(rounds, async |turn| one(ways[turn], trips).await).await?;
    let mut stuck = Pairs::default();
    for [_, tunnelled] in &measured {
        stuck.note(p99(&tunnelled.trips), p99(&tunnelled.beside_stuck));
    }
    let row = |what: &str, of: fn(&Round) -> f64| {
        Pairs::of(&measured, of).row(format!("a stream: {what}"), "ms")
    };
    let beside_stuck = format!("beside {STUCK} stuck streams: round trip, p99");
    let beside_bulk = "beside a bulk stream: round trip, p50";
    let mut rows = vec![
        row("round trip, p50", |one| p50(&one.trips)).at_most(ROUND_TRIP),
        row("round trip, p99", |one| p99(&one.trips)),
        row("CONNECT, dial and echo, p50", |one| p50(&one.opened)),
        stuck.row(beside_stuck, "ms").ratio_at_most(STUCK_RATIO),
        row(beside_bulk, |one| p50(&one.beside_bulk)).at_most(BESIDE_BULK),
    ];
    let pids = [&tunnel.program, &agent].map(|program| program.process().pid());
    rows.extend(bulk(tunnelled, api, pids, quick).await?);
    rows.push(far(&tunnel, api, quick).await?);
    Ok(rows)
}

fn p50(times: &[Duration]) -> f64 {
    percentile(times, 0, 0.5)
}

fn p99(times: &[Duration]) -> f64 {
    percentile(times, 0, 0.99)
}

async fn one(way: Way<'_>, trips: usize) -> anyhow::Result<Round> {
    let mut opened = Vec::new();
    for _ in 0..trips.div_ceil(20) {
        let begun = Instant::now();
        let mut socket = way.open(Behaviour::Echoes).await?;
        echo(&mut socket, 1).await?;
        opened.push(begun.elapsed());
    }
    let trips = round_trips(way, trips).await?;
    let mut read = way.open(Behaviour::SendsWithoutEnd).await?;
    let bulk = tokio::spawn(async move { read_bytes(&mut read, u64::MAX).await });
    let beside_bulk = round_trips(way, trips.len()).await?;
    bulk.abort();
    let (mut stuck, mut beside_stuck) = (Vec::new(), Vec::new());
    if matches!(way, Way::Tunnelled(..)) {
        for _ in 0..STUCK {
            stuck.push(way.open(Behaviour::SendsWithoutEnd).await?);
        }
        sleep(FILLS_IN).await;
        beside_stuck = round_trips(way, trips.len()).await?;
    }
    Ok(Round {
        beside_stuck,
        trips,
        opened,
        beside_bulk,
    })
}

/// Measures round trips on a new stream, after some that warm up.
async fn round_trips(way: Way<'_>, count: usize) -> anyhow::Result<Vec<Duration>> {
    let mut socket = way.open(Behaviour::Echoes).await?;
    let mut times = Vec::new();
    for _ in 0..count + count / 10 {
        let begun = Instant::now();
        echo(&mut socket, 1).await?;
        times.push(begun.elapsed());
    }
    Ok(times.split_off(count / 10))
}

/// Sends so many bytes and waits until they are back.
pub(super) async fn echo(socket: &mut TcpStream, length: usize) -> anyhow::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut bytes = vec![1; length];
    socket.write_all(&bytes).await?;
    let echoed = timeout(PATIENCE, socket.read_exact(&mut bytes)).await;
    echoed.context("a stream is blocked")??;
    Ok(())
}

/// Reads so many bytes.
async fn read_bytes(socket: &mut TcpStream, count: u64) -> std::io::Result<()> {
    let mut bytes = BufReader::with_capacity(64 * 1024, socket.take(count));
    tokio::io::copy_buf(&mut bytes, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Measures CPU and throughput of bytes, beside a relay that reads and writes.
async fn bulk(
    tunnelled: Way<'_>,
    api: SocketAddr,
    pids: [u32; 2],
    quick: bool,
) -> anyhow::Result<[Row; 3]> {
    let (rounds, bytes) = if quick { (1, 1 << 23) } else { (7, 1 << 29) };
    let gigabytes = bytes as f64 / 1e9;
    let (mut cpus, mut speed) = (<[Pairs; 2]>::default(), Pairs::default());
    for _ in 0..rounds {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let relay = Way::Dialled(listener.local_addr()?);
        let floor = tokio::task::spawn_blocking(move || relay_bytes(&listener, api));
        let begun = Instant::now();
        read_bytes(&mut relay.open(Behaviour::SendsWithoutEnd).await?, bytes).await?;
        let relayed = begun.elapsed();
        let floor = floor.await??.as_secs_f64() / gigabytes;

        let cpu = || anyhow::Ok([cpu_time(pids[0])?, cpu_time(pids[1])?]);
        let (before, begun) = (cpu()?, Instant::now());
        let mut socket = tunnelled.open(Behaviour::SendsWithoutEnd).await?;
        read_bytes(&mut socket, bytes).await?;
        let took = begun.elapsed();
        drop(socket);
        let after = cpu()?;
        for (one, pairs) in cpus.iter_mut().enumerate() {
            pairs.note(floor, (after[one] - before[one]).as_secs_f64() / gigabytes);
        }
        let speeds = [relayed, took].map(|time| bytes as f64 / MIB / time.as_secs_f64());
        speed.note(speeds[0], speeds[1]);
    }
    let cpu = |pairs: &Pairs, program: &str| {
        let row = pairs.row(format!("CPU of a GB, {program}"), "s");
        row.at_most(CPU_OF_GIGABYTE)
    };
    Ok([
        cpu(&cpus[0], "causeway-tunnel"),
        cpu(&cpus[1], "causeway-agent"),
        speed.row("a bulk stream", "MiB/s"),
    ])
}

/// Relays one connection, as often as the tunnel reads. Returns the CPU time.
fn relay_bytes(listener: &TcpListener, api: SocketAddr) -> anyhow::Result<Duration> {
    let before = own_cpu_time()?;
    let ((mut client, _), mut api) = (listener.accept()?, BlockingStream::connect(api)?);
    let mut buffer = vec![0; READ];
    client.read_exact(&mut buffer[..1])?;
    api.write_all(&buffer[..1])?;
    loop {
        let length = api.read(&mut buffer)?;
        if client.write_all(&buffer[..length]).is_err() {
            return Ok(own_cpu_time()? - before);
        }
    }
}

/// Measures the throughput of a stream with a round trip of 50 ms, beside what its window allows.
async fn far(tunnel: &Tunnel, api: SocketAddr, quick: bool) -> anyhow::Result<Row> {
    let (rounds, seconds) = if quick { (1, 0.3) } else { (5, 2.0) };
    let relay = Relay::start(tunnel.agents, DELAY).await;
    let _agent = tunnel.agent(FAR, relay.address(), &api.to_string()).await?;
    tunnel.connected(2).await?;
    let window = f64::from(Limits::default().window) / MIB;
    let allowed = window / (2 * DELAY).as_secs_f64();
    let mut speeds = Pairs::default();
    for _ in 0..rounds {
        let way = Way::Tunnelled(tunnel, FAR);
        let mut socket = way.open(Behaviour::SendsWithoutEnd).await?;
        // The first windows are on their way.
        read_bytes(&mut socket, 1 << 22).await?;
        let (begun, mut bytes, mut buffer) = (Instant::now(), 0, vec![0; 1 << 16]);
        while begun.elapsed().as_secs_f64() < seconds {
            bytes += socket.read(&mut buffer).await?;
        }
        speeds.note(allowed, bytes as f64 / MIB / begun.elapsed().as_secs_f64());
    }
    let row = speeds.row("a stream with a round trip of 50 ms", "MiB/s");
    Ok(row.at_least(FAR_THROUGHPUT))
}
