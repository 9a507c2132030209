//! The admin server: `/livez`, `/readyz` and `/metrics` over plain HTTP.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use super::metrics::Metrics;
use super::readiness::{Readiness, Unready};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why the admin server cannot serve.
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

#[derive(Clone)]
struct Shown {
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
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        };
        bound
            .await
            .map_err(|source| AdminError::Bind { address, source })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// [`AdminError::Serve`] where the listener breaks.
    pub async fn serve(self, readiness: Readiness, metrics: Metrics) -> Result<(), AdminError> {
        Ok(axum::serve(self.listener, router(readiness, metrics)).await?)
    }
}

fn router(readiness: Readiness, metrics: Metrics) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(show_metrics))
        .with_state(Shown { readiness, metrics })
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

/// Whether `Accept` names OpenMetrics, with no less [weight](https://www.rfc-editor.org/rfc/rfc9110#section-12.4.2) than the text format.
/// Prometheus names the formats that it reads. Who names none gets the text format, which all read.
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
    use prometheus_client::metrics::exemplar::CounterWithExemplar;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

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
    async fn readyz_names_what_is_awaited_and_metrics_are_served_to_the_end() {
        let readiness = Readiness::default();
        let admin = Admin::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .expect("a port is free");
        let address = admin.address();
        let server = tokio::spawn(admin.serve(readiness.clone(), Metrics::default()));

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
        server.abort();
    }

    #[tokio::test]
    async fn metrics_come_in_the_format_that_accept_prefers() {
        let metrics = Metrics::default();
        let counts = CounterWithExemplar::<Vec<(&str, &str)>>::default();
        metrics.register(|registry| registry.register("counts", "Counts", counts.clone()));
        counts.inc_by(1, Some(vec![("trace_id", "4bf9")]), None);
        let admin = Admin::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .expect("a port is free");
        let address = admin.address();
        let server = tokio::spawn(admin.serve(Readiness::default(), metrics));
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
        server.abort();
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = Admin::bind(address).await.expect("a port is free");
        let error = Admin::bind(first.address()).await.expect_err("it is taken");
        assert!(
            error.to_string().contains(&first.address().to_string()),
            "{error}"
        );
    }
}
