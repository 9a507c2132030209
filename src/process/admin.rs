//! The admin server: `/livez`, `/readyz`, `/metrics` and routes of the program over plain HTTP.
//!
//! It runs on a thread of its own, so that probes are answered whatever the process is busy with.
//! Its port takes no credentials. A head has a time limit and a maximum size, and the oldest
//! connection is closed for a new one once there are [`CONNECTIONS_MAX`].

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{interval, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::liveness::{Heartbeat, Liveness};
use super::metrics::Metrics;
use super::readiness::{Readiness, Unready};
use crate::listener::listen;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Error of an admin server that cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be listened on.
    #[error("the admin server cannot listen on {address}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Serving failed.
    #[error("the admin server failed")]
    Serve(#[from] io::Error),
}

/// Maximum number of open connections.
pub const CONNECTIONS_MAX: usize = 32;

/// Maximum size of a request head, in bytes.
const HEAD_MAX: usize = 16 * 1024;

/// Time limit of a request head, also of the pause before it.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Interval of the heartbeat.
const BEAT: Duration = Duration::from_secs(1);

/// Time without a heartbeat of the runtime after which `/livez` fails.
const STALLED: Duration = Duration::from_secs(30);

/// Beats on the current runtime until it ends.
async fn beat(heartbeat: Heartbeat) {
    let mut beats = interval(BEAT);
    loop {
        beats.tick().await;
        heartbeat.beat();
    }
}

#[derive(Clone)]
struct Shown {
    liveness: Liveness,
    readiness: Readiness,
    metrics: Metrics,
}

/// The admin server, listening.
#[derive(Debug)]
pub struct Admin {
    listener: TcpListener,
    address: SocketAddr,
}

impl Admin {
    /// Listens on that address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`AdminError::Bind`] where the address cannot be had.
    pub async fn bind(address: SocketAddr) -> Result<Self, AdminError> {
        let bound = async {
            let listener = listen(address).await?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bound
            .await
            .map_err(|source| AdminError::Bind { address, source })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves on a thread of its own until the result is dropped. `/livez` fails once a heartbeat
    /// of `liveness` is late, to which this adds one of the current runtime. `routes` are the
    /// program's.
    ///
    /// # Errors
    /// [`AdminError::Serve`] where there is no thread, or no runtime on it.
    pub fn start(
        self,
        liveness: &Liveness,
        readiness: Readiness,
        metrics: Metrics,
        routes: Router,
    ) -> Result<Serving, AdminError> {
        tokio::spawn(beat(liveness.heartbeat("runtime", STALLED)));
        let router = router(Shown {
            liveness: liveness.clone(),
            readiness,
            metrics,
        })
        .merge(routes);
        let listener = self.listener.into_std()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let (failed, failure) = oneshot::channel();
        let serve = move || {
            let served = runtime.block_on(async {
                let listener = TcpListener::from_std(listener)?;
                let serving = serve(listener, router);
                stopped.run_until_cancelled(serving).await;
                Ok(())
            });
            // Without a receiver the process has ended.
            failed.send(served).ok();
        };
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(serve)?;
        Ok(Serving {
            failure,
            _stop: stop.drop_guard(),
        })
    }
}

/// The admin server, serving until it is dropped.
#[derive(Debug)]
pub struct Serving {
    failure: oneshot::Receiver<Result<(), AdminError>>,
    _stop: DropGuard,
}

impl Serving {
    /// Waits for the end of the server; `None` where its thread panicked.
    pub async fn ended(&mut self) -> Option<Result<(), AdminError>> {
        (&mut self.failure).await.ok()
    }
}

async fn serve(listener: TcpListener, router: Router) {
    let mut open = Open::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => open.add(stream, router.clone()),
                Err(error) => {
                    tracing::warn!(%error, "admin server accept failed");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = open.connections.join_next() => {}
        }
    }
}

/// The open connections.
#[derive(Default)]
struct Open {
    connections: JoinSet<()>,
    /// Handles of the connections, oldest first.
    by_age: VecDeque<AbortHandle>,
}

impl Open {
    /// Serves a connection, in place of the oldest one where there are too many.
    fn add(&mut self, stream: TcpStream, router: Router) {
        self.by_age.retain(|connection| !connection.is_finished());
        while self.by_age.len() >= CONNECTIONS_MAX {
            let Some(oldest) = self.by_age.pop_front() else {
                break;
            };
            oldest.abort();
        }
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .max_buf_size(HEAD_MAX)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
        let connection = self.connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "admin connection closed");
            }
        });
        self.by_age.push_back(connection);
    }
}

fn router(shown: Shown) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(show_metrics))
        .with_state(shown)
}

async fn livez(State(shown): State<Shown>) -> Response {
    let stalled = shown.liveness.stalled();
    if stalled.is_empty() {
        return "ok\n".into_response();
    }
    let lines: String = stalled.iter().map(|one| format!("{one}\n")).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}

async fn readyz(State(shown): State<Shown>) -> Response {
    match shown.readiness.check() {
        Ok(()) => "ok\n".into_response(),
        Err(Unready::ShuttingDown) => {
            (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response()
        }
        Err(Unready::Awaits(names)) => {
            let mut text = format!("awaiting {}\n", names.join(", "));
            for problem in shown.readiness.problems() {
                text.push_str(&format!("{problem}\n"));
            }
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn show_metrics(State(shown): State<Shown>, headers: HeaderMap) -> Response {
    let (format, text) = match prefers_openmetrics(&headers) {
        true => (OPENMETRICS, shown.metrics.encode()),
        false => (TEXT, shown.metrics.encode_text()),
    };
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, format)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Whether `Accept` names OpenMetrics, with no less
/// [weight](https://www.rfc-editor.org/rfc/rfc9110#section-12.4.2) than the text format. Prometheus
/// names the formats that it reads. Who names none gets the text format, which all read.
fn prefers_openmetrics(headers: &HeaderMap) -> bool {
    let (mut openmetrics, mut text) = (0.0_f32, 0.0_f32);
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    for range in accepted.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
        let best = match media_type.as_str() {
            "application/openmetrics-text" => &mut openmetrics,
            "text/plain" => &mut text,
            _ => continue,
        };
        *best = best.max(weight.unwrap_or(1.0));
    }
    openmetrics > 0.0 && openmetrics >= text
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use prometheus_client::metrics::exemplar::CounterWithExemplar;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn admin() -> Admin {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Admin::bind(address).await.expect("a port is free")
    }

    fn start(admin: Admin, readiness: Readiness, metrics: Metrics) -> Serving {
        let liveness = Liveness::default();
        admin
            .start(&liveness, readiness, metrics, Router::new())
            .expect("a thread")
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        accepting(address, path, "*/*").await
    }

    async fn accepting(address: SocketAddr, path: &str, accept: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: admin\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        );
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .expect("it answers");
        answer
    }

    #[tokio::test]
    async fn readyz_names_what_is_missing_until_shutdown() {
        let readiness = Readiness::default();
        let admin = admin().await;
        let address = admin.address();
        let _server = start(admin, readiness.clone(), Metrics::default());

        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let awaited = readiness.awaits("services of the hub");
        let answer = get(address, "/readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 503")
                && answer.ends_with("awaiting services of the hub\n"),
            "{answer}"
        );
        awaited.is_blocked_by("the hub refuses");
        let answer = get(address, "/readyz").await;
        assert!(
            answer
                .ends_with("awaiting services of the hub\nservices of the hub: the hub refuses\n"),
            "{answer}"
        );
        awaited.ready();
        readiness.shut_down();
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        assert!(get(address, "/metrics").await.starts_with("HTTP/1.1 200"));
    }

    /// Waits until the other side has closed a connection, and returns what it sent.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        // A reset is an end too.
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8(answer).expect("text")
    }

    #[tokio::test]
    async fn oldest_connections_give_way_to_probes() {
        let admin = admin().await;
        let address = admin.address();
        let _server = start(admin, Readiness::default(), Metrics::default());
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX * 4 {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(b"GET /livez").await.expect("it reads");
            silent.push(stream);
        }
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        for stream in &mut silent[..CONNECTIONS_MAX * 3] {
            assert_eq!(rest(stream).await, "");
        }
    }

    #[tokio::test]
    async fn half_a_head_is_closed_and_a_large_one_refused() {
        let admin = admin().await;
        let address = admin.address();
        let _server = start(admin, Readiness::default(), Metrics::default());
        let begun = Instant::now();
        let mut half = TcpStream::connect(address).await.expect("it listens");
        half.write_all(b"GET /livez HTTP/1.1\r\nHost:")
            .await
            .expect("it reads");
        let mut large = TcpStream::connect(address).await.expect("it listens");
        let head = format!("GET /livez HTTP/1.1\r\nHost: {}", "x".repeat(2 * HEAD_MAX));
        large.write_all(head.as_bytes()).await.expect("it reads");
        let refused = rest(&mut large).await;
        assert!(
            refused.is_empty() || refused.starts_with("HTTP/1.1 431"),
            "{refused}"
        );
        rest(&mut half).await;
        assert!(begun.elapsed() < HEAD_LIMIT * 2);
    }

    #[tokio::test]
    async fn probes_are_answered_while_the_runtime_is_busy() {
        let admin = admin().await;
        let address = admin.address();
        let _server = start(admin, Readiness::default(), Metrics::default());
        // This thread is the runtime, and waits for the answer.
        let asked = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(get(address, "/livez"))
        });
        let answer = asked.join().expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    #[tokio::test]
    async fn livez_names_what_has_stalled() {
        let liveness = Liveness::default();
        let admin = admin().await;
        let address = admin.address();
        let _server = admin
            .start(
                &liveness,
                Readiness::default(),
                Metrics::default(),
                Router::new(),
            )
            .expect("a thread");
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        let late = liveness.heartbeat("loop", Duration::ZERO);
        let answer = get(address, "/livez").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("loop stalled for 0s\n"),
            "{answer}"
        );
        drop(late);
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn metrics_come_in_the_format_that_accept_prefers() {
        let metrics = Metrics::default();
        let counts = CounterWithExemplar::<Vec<(&str, &str)>>::default();
        metrics.register(|registry| registry.register("counts", "Counts", counts.clone()));
        counts.inc_by(1, Some(vec![("trace_id", "4bf9")]), None);
        let admin = admin().await;
        let address = admin.address();
        let _server = start(admin, Readiness::default(), metrics);
        // As Prometheus asks, by default and where it is set to prefer the text format.
        let openmetrics = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                           application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let text = "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2";
        for (accept, is_openmetrics) in [
            (openmetrics, true),
            ("Application/OpenMetrics-Text", true),
            (text, false),
            ("application/openmetrics-text;q=0, text/plain", false),
            ("text/plain; version=0.0.4", false),
            ("*/*", false),
            ("application/json;q=much", false),
        ] {
            let answer = accepting(address, "/metrics", accept).await;
            let (format, line) = match is_openmetrics {
                true => (OPENMETRICS, "counts_total 1 # {trace_id=\"4bf9\"} 1"),
                false => (TEXT, "counts_total 1\n"),
            };
            assert!(
                answer.contains(&format!("content-type: {format}\r\n")),
                "{accept}: {answer}"
            );
            assert!(answer.contains(line), "{accept}: {answer}");
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let first = admin().await;
        let error = Admin::bind(first.address()).await.expect_err("it is taken");
        assert!(
            error.to_string().contains(&first.address().to_string()),
            "{error}"
        );
    }
}
