//! The load: clients that send their next request after the answer.
//!
//! It is written for this alone, so that it takes less than the server: a request is prepared, an
//! answer is read by its Content-Length, and all clients run on one thread, on a core of its own.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::machine;
use crate::pairs::percentile;

/// Time in which the first answer arrives.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum bytes of an answer.
const ANSWER_MAX: usize = 128 * 1024;

/// Requests to a server.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    /// Process of the server.
    pub(crate) server: u32,
    /// Whole HTTP requests, sent in turns.
    pub(crate) requests: Arc<[Bytes]>,
    pub(crate) connections: usize,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// Figures of one round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Times from the first byte that is sent to the last that is received.
    latencies: Vec<Duration>,
    elapsed: Duration,
    server_cpu: Duration,
}

impl Round {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the CPU of the server, in microseconds.
    pub(crate) fn cpu_of_request(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.latencies.len() as f64
    }

    pub(crate) fn p99(&self) -> f64 {
        percentile(&self.latencies, 0, 0.99)
    }
}

#[derive(Default)]
struct State {
    is_counting: Cell<bool>,
    is_over: Cell<bool>,
    latencies: RefCell<Vec<Duration>>,
}

impl Load {
    /// Sends and measures, on a thread of its own.
    pub(crate) async fn run(&self) -> anyhow::Result<Round> {
        let load = self.clone();
        let thread = std::thread::spawn(move || {
            machine::keep_thread_on(machine::LOAD)?;
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build()?;
            LocalSet::new().block_on(&runtime, load.drive())
        });
        let ended = tokio::task::spawn_blocking(|| thread.join()).await?;
        ended.map_err(|_| anyhow!("the load ended in a panic"))?
    }

    async fn drive(self) -> anyhow::Result<Round> {
        let connections = (0..self.connections).map(|_| self.connect());
        let connections = try_join_all(connections).await?;
        let state = Rc::new(State::default());
        let clients = connections.into_iter().enumerate().map(|(number, stream)| {
            let (requests, state) = (self.requests.clone(), state.clone());
            tokio::task::spawn_local(client(stream, requests, number, state))
        });
        let clients: Vec<_> = clients.collect();
        tokio::time::sleep(self.warm_up).await;
        let (before, begun) = (machine::cpu_time(self.server)?, Instant::now());
        state.is_counting.set(true);
        tokio::time::sleep(self.measured).await;
        // On a busy machine there may be no answer yet.
        while state.latencies.borrow().is_empty() && begun.elapsed() < PATIENCE {
            tokio::time::sleep(self.measured).await;
        }
        state.is_counting.set(false);
        state.is_over.set(true);
        let (elapsed, after) = (begun.elapsed(), machine::cpu_time(self.server)?);
        for ended in try_join_all(clients).await? {
            ended?;
        }
        Ok(Round {
            latencies: state.latencies.take(),
            elapsed,
            server_cpu: after - before,
        })
    }

    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let connected = TlsConnector::from(self.tls.clone()).connect(name, stream);
        let connected = connected.await;
        connected.with_context(|| format!("no TLS with {}", self.address))
    }

    /// Sends one request and returns the body of its answer.
    pub(crate) async fn ask(&self, request: &Bytes) -> anyhow::Result<Vec<u8>> {
        let mut stream = self.connect().await?;
        let mut buffer = vec![0; ANSWER_MAX];
        stream.write_all(request).await?;
        let body = read_answer(&mut stream, &mut buffer).await?;
        Ok(buffer[body].to_vec())
    }
}

async fn client(
    mut stream: TlsStream<TcpStream>,
    requests: Arc<[Bytes]>,
    first: usize,
    state: Rc<State>,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; ANSWER_MAX];
    for request in requests.iter().cycle().skip(first) {
        let begun = Instant::now();
        stream.write_all(request).await?;
        read_answer(&mut stream, &mut buffer).await?;
        if state.is_counting.get() {
            state.latencies.borrow_mut().push(begun.elapsed());
        }
        if state.is_over.get() {
            break;
        }
    }
    stream.shutdown().await.ok();
    Ok(())
}

/// Reads an answer with status 200, and returns the place of its body in the buffer.
async fn read_answer(
    stream: &mut TlsStream<TcpStream>,
    buffer: &mut [u8],
) -> anyhow::Result<Range<usize>> {
    let (mut filled, mut body) = (0, None);
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        ensure!(read > 0, "the connection ended within an answer");
        filled += read;
        if body.is_none() {
            body = parse_head(&buffer[..filled])?;
        }
        if let Some(body) = body.take_if(|body| filled >= body.end) {
            ensure!(filled == body.end, "more than an answer came");
            return Ok(body);
        }
    }
}

/// Returns the place of the body; `None` while the head is not complete.
fn parse_head(bytes: &[u8]) -> anyhow::Result<Option<Range<usize>>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = str::from_utf8(&bytes[..end])?.to_ascii_lowercase();
    ensure!(head.starts_with("http/1.1 200 "), "an answer began {head}");
    let length = head.split("\r\ncontent-length:").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    let length: usize = length.with_context(|| format!("no length in {head}"))?;
    Ok(Some(end + 4..end + 4 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_read_by_its_content_length() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: x\r\nContent-Length: 2\r\n\r\n{";
        let body = head.len() - 1..head.len() + 1;
        assert_eq!(parse_head(head).unwrap(), Some(body));
        assert_eq!(parse_head(&head[..30]).unwrap(), None);
        assert!(parse_head(b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n").is_err());
    }
}
