//! What the events of a watch cost an API server, as JSON and as protobuf.
//!
//! The events are those of slices that were made just now. They are watched once more, from the version before the first of them: an
//! API server has them in memory, and encodes each for who asks. So nothing is written meanwhile, and no cost of writes is to be taken
//! off.

use anyhow::ensure;
use http_body_util::BodyExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::WatchParams;
use kube::core::Request;
use kube::{Client, Resource as _};

use super::super::pages::{Asked, Encoding};
use super::clusters::Clusters;
use crate::proc;
use crate::report::Row;

/// What the numbers are scaled to.
const EVENTS: f64 = 10_000.0;

/// Watches so many events that came after `version`, in rounds.
pub(super) async fn measure(
    clusters: &Clusters<'_>,
    version: &str,
    events: usize,
    turns: usize,
) -> anyhow::Result<Vec<Row>> {
    let client = clusters.client_of_provider().await?;
    let server = clusters.provider().api_server().pid();
    let mut sums = [(0.0, 0); 2];
    for _ in 0..turns {
        for (encoding, (spent, bytes)) in [Encoding::Json, Encoding::Protobuf]
            .into_iter()
            .zip(&mut sums)
        {
            let before = proc::cpu_time(server)?;
            *bytes += watch(&client, encoding, version, events).await?;
            *spent += (proc::cpu_time(server)? - before).as_secs_f64();
        }
    }
    let watched = (events * turns) as f64;
    let scaled = |sum: f64| sum / watched * EVENTS;
    let name = |what: &str| format!("{EVENTS:.0} watch events (from {watched:.0}): {what}");
    let [(json, json_bytes), (protobuf, protobuf_bytes)] = sums;
    Ok(vec![
        Row::new(
            name("CPU of the API server, protobuf beside JSON"),
            scaled(protobuf),
            "s",
        )
        .beside(scaled(json)),
        Row::new(
            name("sent, protobuf beside JSON"),
            scaled(protobuf_bytes as f64 / 1e6),
            "MB",
        )
        .beside(scaled(json_bytes as f64 / 1e6)),
    ])
}

/// Watches until so many events have come; how many bytes they were.
async fn watch(
    client: &Client,
    encoding: Encoding,
    version: &str,
    events: usize,
) -> anyhow::Result<usize> {
    let request = Request::new(EndpointSlice::url_path(&(), None));
    let params = WatchParams {
        bookmarks: false,
        ..WatchParams::default()
    };
    let asked = Asked {
        encoding,
        gzip: false,
    };
    let answer = asked.send(client, request.watch(&params, version)?).await?;
    let mut body = answer.into_body();
    let (mut counter, mut bytes) = (Counter::new(encoding), 0);
    while counter.events < events {
        let frame = body.frame().await.transpose()?;
        let Some(frame) = frame else { break };
        if let Some(part) = frame.data_ref() {
            counter.take(part);
            bytes += part.len();
        }
    }
    ensure!(
        counter.events >= events,
        "the watch ended after {} events of {events}",
        counter.events
    );
    Ok(bytes)
}

/// Counts events in whatever parts they come: lines of JSON, or messages of protobuf behind four bytes of their length each.
struct Counter {
    encoding: Encoding,
    events: usize,
    /// Of a length, the bytes that have come, and how many these are.
    length: (usize, u8),
    /// Bytes that are missing of an event.
    missing: usize,
}

impl Counter {
    fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            events: 0,
            length: (0, 0),
            missing: 0,
        }
    }

    fn take(&mut self, mut part: &[u8]) {
        if self.encoding == Encoding::Json {
            self.events += part.iter().filter(|byte| **byte == b'\n').count();
            return;
        }
        while let Some((first, rest)) = part.split_first() {
            if self.missing > 0 {
                let taken = self.missing.min(part.len());
                self.missing -= taken;
                self.events += usize::from(self.missing == 0);
                part = &part[taken..];
                continue;
            }
            let (length, digits) = self.length;
            self.length = (length << 8 | usize::from(*first), digits + 1);
            if self.length.1 == 4 {
                self.missing = self.length.0;
                self.length = (0, 0);
            }
            part = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_in_whatever_parts_they_come() {
        let message = [&[0, 0, 1, 4][..], &[10; 260]].concat().repeat(3);
        let lines = b"{\"a\": 1}\n".repeat(3);
        for (encoding, stream) in [(Encoding::Json, lines), (Encoding::Protobuf, message)] {
            for part in [1, 3, 7, 264, 1000] {
                let mut counter = Counter::new(encoding);
                stream.chunks(part).for_each(|part| counter.take(part));
                assert_eq!(counter.events, 3, "{encoding:?} in parts of {part}");
            }
        }
    }
}
