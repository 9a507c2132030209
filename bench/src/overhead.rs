//! What it costs to be looked at: metrics that are scraped every second, and traces. Rounds with it take turns with rounds without, and
//! each is compared with its neighbour.

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

use crate::report::Row;
use crate::{Common, controller, cores, webhook};

/// How often metrics are scraped.
const EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Rounds of each kind; 8 if not given, and more make the intervals narrower
    #[arg(long, value_name = "NUMBER", conflicts_with = "quick")]
    rounds: Option<usize>,
}

/// How much is done.
pub(crate) struct Extent {
    /// Services on the hub.
    pub(crate) services: usize,
    /// Connections to the webhook.
    pub(crate) connections: usize,
    /// Rounds of each kind, in turns.
    pub(crate) turns: usize,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
    /// Changes a second, and for how many seconds in each round.
    pub(crate) per_second: f64,
    pub(crate) seconds: f64,
}

impl Extent {
    /// Whether there is time for all that is measured to happen at all.
    pub(crate) fn is_long(&self) -> bool {
        self.measured >= EVERY
    }
}

const FULL: Extent = Extent {
    services: 1_000,
    connections: 32,
    turns: 8,
    warm_up: Duration::from_millis(300),
    measured: Duration::from_millis(1500),
    per_second: 100.0,
    seconds: 2.0,
};

const QUICK: Extent = Extent {
    services: 50,
    connections: 2,
    turns: 2,
    warm_up: Duration::from_millis(20),
    measured: Duration::from_millis(100),
    per_second: 20.0,
    seconds: 0.3,
};

/// Measures.
pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Row>> {
    let extent = match args.common.quick {
        true => QUICK,
        false => Extent {
            turns: args.rounds.unwrap_or(FULL.turns),
            ..FULL
        },
    };
    let mut rows = webhook::overhead::measure(&extent)?;
    rows.extend(controller::overhead::measure(&extent)?);
    Ok(rows)
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
            // It ends with the process.
            loop {
                if is_wanted.load(Ordering::Relaxed) {
                    scrape(address)?;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                std::thread::sleep(EVERY);
            }
            #[allow(unreachable_code, reason = "it says what the errors are")]
            Ok::<_, anyhow::Error>(())
        });
        Ok(Self { wanted, scrapes })
    }

    /// Scrapes from now on, or does not.
    pub(crate) fn set(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// # Errors
    /// Where it scraped less often than once a round: then nothing was measured.
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

/// Takes traces and drops them, on the core of the load.
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

    /// How many batches of spans it has taken.
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
