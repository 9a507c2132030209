//! The load: as many clients as there are connections, each of which sends its next request when it has its answer.
//!
//! The client is written for this alone, so that it takes less than the server: a request is one prepared piece of
//! bytes, an answer is read by its Content-Length, and everything runs on one thread, on a core of its own.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{cores, proc};

/// What is sent, and where.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    /// The process that is asked.
    pub(crate) server: u32,
    /// Whole HTTP requests, sent in turns.
    pub(crate) requests: Arc<[Bytes]>,
    pub(crate) connections: usize,
    /// How long it goes on before it counts.
    pub(crate) warm_up: Duration,
    /// How long it counts.
    pub(crate) measured: Duration,
}

/// What one round of load gave.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Of every answer, from the first byte sent to the last one received; sorted.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) elapsed: Duration,
    /// CPU time that the server took.
    pub(crate) server_cpu: Duration,
    /// CPU time that the load itself took.
    pub(crate) load_cpu: Duration,
}

impl Round {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that this part of all answers did not exceed, in milliseconds.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        percentile(&self.latencies, part)
    }
}

/// The value, in milliseconds, that this part of the sorted ones does not exceed.
pub(crate) fn percentile(sorted: &[Duration], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (part * sorted.len() as f64).ceil() as usize;
    let value = sorted.get(index.saturating_sub(1).min(last));
    value.map_or(f64::NAN, |value| value.as_secs_f64() * 1000.0)
}

impl Load {
    /// Opens the connections, sends, counts, closes. On a thread of its own.
    pub(crate) fn run(&self) -> anyhow::Result<Round> {
        let load = self.clone();
        let thread = std::thread::spawn(move || {
            cores::keep_thread_on(cores::LOAD)?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            LocalSet::new().block_on(&runtime, load.drive())
        });
        thread
            .join()
            .map_err(|_| anyhow!("the load ended in a panic"))?
    }

    async fn drive(self) -> anyhow::Result<Round> {
        let connections = (0..self.connections).map(|_| self.connect());
        let connections = try_join_all(connections).await?;
        let state = Rc::new(State::default());
        let clients: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(number, stream)| {
                let client = Client {
                    stream,
                    buffer: vec![0; ANSWER_MAX],
                    requests: Arc::clone(&self.requests),
                    next: number,
                    state: Rc::clone(&state),
                };
                tokio::task::spawn_local(client.run())
            })
            .collect();
        tokio::time::sleep(self.warm_up).await;
        let before = (proc::cpu_time(self.server)?, proc::own_cpu_time()?);
        let begun = Instant::now();
        state.phase.set(Phase::Counting);
        tokio::time::sleep(self.measured).await;
        // A machine that is busy otherwise may not have come to any.
        while state.latencies.borrow().is_empty() && begun.elapsed() < PATIENCE {
            tokio::time::sleep(self.measured).await;
        }
        state.phase.set(Phase::Over);
        let elapsed = begun.elapsed();
        let after = (proc::cpu_time(self.server)?, proc::own_cpu_time()?);
        for ended in try_join_all(clients).await? {
            ended?;
        }
        let mut latencies = state.latencies.take();
        latencies.sort_unstable();
        Ok(Round {
            latencies,
            elapsed,
            server_cpu: after.0 - before.0,
            load_cpu: after.1 - before.1,
        })
    }

    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        TlsConnector::from(Arc::clone(&self.tls))
            .connect(name, stream)
            .await
            .with_context(|| format!("no TLS with {}", self.address))
    }
}

/// Sends one request and returns the status and the body of its answer.
pub(crate) async fn ask(load: &Load, request: &Bytes) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut stream = load.connect().await?;
    let mut buffer = vec![0; ANSWER_MAX];
    stream.write_all(request).await?;
    let answer = read_answer(&mut stream, &mut buffer).await?;
    Ok((
        answer.status,
        buffer[answer.body..answer.body + answer.length].to_vec(),
    ))
}

#[derive(Default)]
struct State {
    phase: Cell<Phase>,
    latencies: RefCell<Vec<Duration>>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    WarmingUp,
    Counting,
    Over,
}

/// How long a first answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// The longest answer that is read.
const ANSWER_MAX: usize = 128 * 1024;

struct Client {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
    requests: Arc<[Bytes]>,
    next: usize,
    state: Rc<State>,
}

impl Client {
    async fn run(mut self) -> anyhow::Result<()> {
        while self.state.phase.get() != Phase::Over {
            let request = &self.requests[self.next % self.requests.len()];
            self.next += 1;
            let begun = Instant::now();
            self.stream.write_all(request).await?;
            let answer = read_answer(&mut self.stream, &mut self.buffer).await?;
            ensure!(answer.status == 200, "the answer was {}", answer.status);
            if self.state.phase.get() == Phase::Counting {
                self.state.latencies.borrow_mut().push(begun.elapsed());
            }
        }
        self.stream.shutdown().await.ok();
        Ok(())
    }
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: u16,
    /// Where the body begins.
    body: usize,
    /// How long it is.
    length: usize,
}

async fn read_answer(
    stream: &mut TlsStream<TcpStream>,
    buffer: &mut [u8],
) -> anyhow::Result<Answer> {
    let mut filled = 0;
    let mut head = None;
    loop {
        let read = stream.read(&mut buffer[filled..]).await?;
        if read == 0 {
            bail!("the connection ended within an answer");
        }
        filled += read;
        if head.is_none() {
            head = parse_head(&buffer[..filled])?;
        }
        if let Some(answer) = &head
            && filled >= answer.body + answer.length
        {
            ensure!(
                filled == answer.body + answer.length,
                "more than an answer came"
            );
            return head.context("there was a head");
        }
    }
}

/// `None` while the head is not complete.
fn parse_head(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end])?;
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    let length = head.split("\r\n").skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok()).flatten()
    });
    let (Some(status), Some(length)) = (status, length) else {
        bail!("this head was not expected: {head}");
    };
    Ok(Some(Answer {
        status,
        body: end + 4,
        length,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_by_its_content_length() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: x\r\nContent-Length: 2\r\n\r\n{";
        let answer = Answer {
            status: 200,
            body: head.len() - 1,
            length: 2,
        };
        assert_eq!(parse_head(head).unwrap(), Some(answer));
        assert_eq!(parse_head(&head[..30]).unwrap(), None);
        assert!(parse_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_percentile_is_a_value_that_occurred() {
        let sorted: Vec<_> = (1..=1000).map(Duration::from_millis).collect();
        for (part, value) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            assert_eq!(percentile(&sorted, part), value, "{part}");
        }
        assert_eq!(percentile(&sorted[..1], 0.99), 1.0);
        assert!(percentile(&[], 0.5).is_nan());
    }
}
