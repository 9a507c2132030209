//! Traces: from an API server's request to the webhook's decision, and from a source's event to the
//! last write.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod controller;
mod unreachable;
mod webhook;

use causeway_tests::causeway::Builder;
use causeway_tests::otlp::Collector;

/// Has the programs send their traces to that collector, and soon.
fn traced(builder: Builder, collector: &Collector) -> Builder {
    builder
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
}

/// The exemplars in a `/metrics` answer: the rest of each line behind ` # `.
fn exemplars<'a>(metrics: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let samples = metrics.lines().filter(move |line| line.starts_with(name));
    samples.filter_map(|line| Some(line.split_once(" # ")?.1))
}
