//! Collectors of metrics and traces, as stand-ins for Prometheus and an OTLP collector.

use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use crate::cores;

/// Interval of scrapes.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// Amount of load in a comparison of rounds with a collector and without.
pub(crate) struct Extent {
    /// Services on the hub.
    pub(crate) services: usize,
    /// Connections to the webhook.
    pub(crate) connections: usize,
    /// Rounds of each kind; the kinds take turns.
    pub(crate) turns: usize,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    /// Changes per second.
    pub(crate) per_second: f64,
    /// Seconds of changes in each round.
    pub(crate) seconds: f64,
}

impl Extent {
    /// Whether a round is long enough for a scrape and a batch of traces.
    pub(crate) fn is_long(&self) -> bool {
        self.measured >= SCRAPE_INTERVAL
    }
}

/// Scrapes metrics as Prometheus does, on the core of the load.
pub(crate) struct Scraper {
    wanted: Arc<AtomicBool>,
    scrapes: Arc<AtomicU64>,
}

impl Scraper {
    pub(crate) fn start(admin: &str) -> anyhow::Result<Self> {
        let address: SocketAddr = admin.parse()?;
        let wanted = Arc::new(AtomicBool::new(false));
        let scrapes = Arc::<AtomicU64>::default();
        let (is_wanted, counted) = (Arc::clone(&wanted), Arc::clone(&scrapes));
        std::thread::spawn(move || {
            cores::keep_thread_on(cores::LOAD)?;
            // Ends with the process.
            loop {
                if is_wanted.load(Ordering::Relaxed) {
                    scrape(address)?;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(SCRAPE_INTERVAL);
            }
            #[allow(unreachable_code, reason = "fixes the type of the error")]
            Ok::<_, anyhow::Error>(())
        });
        Ok(Self { wanted, scrapes })
    }

    /// Starts or stops scraping.
    pub(crate) fn set(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Checks that it scraped at least once a round.
    ///
    /// # Errors
    /// Fewer scrapes: then nothing was measured.
    pub(crate) fn check(&self, extent: &Extent) -> anyhow::Result<()> {
        let scrapes = self.scrapes.load(Ordering::Relaxed);
        let least = if extent.is_long() { extent.turns } else { 0 };
        ensure!(scrapes >= least as u64, "scraped {scrapes} times");
        Ok(())
    }
}

fn scrape(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let accept = "application/openmetrics-text; version=1.0.0";
    let request = format!("GET /metrics HTTP/1.0\r\nhost: {address}\r\naccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(())
}

/// Receives traces and drops them, on the core of the load.
pub(crate) struct Sink {
    address: SocketAddr,
    batches: Arc<AtomicU64>,
}

impl Sink {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let batches = Arc::<AtomicU64>::default();
        let taken = Arc::clone(&batches);
        std::thread::spawn(move || {
            cores::keep_thread_on(cores::LOAD)?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(take(listener, taken)).context("the sink")
        });
        Ok(Self { address, batches })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of received batches of spans.
    pub(crate) fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }
}

async fn take(listener: std::net::TcpListener, taken: Arc<AtomicU64>) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let taken = Arc::clone(&taken);
        let service = service_fn(move |request: Request<Incoming>| {
            let taken = Arc::clone(&taken);
            async move {
                let read = request.into_body().collect().await;
                taken.fetch_add(u64::from(read.is_ok()), Ordering::Relaxed);
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
