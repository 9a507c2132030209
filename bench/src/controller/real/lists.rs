//! What a list costs an API server, as JSON and as protobuf, compressed and not.

use std::time::Instant;

use super::super::pages::{Asked, Encoding};
use super::Extent;
use super::clusters::Clusters;
use crate::pairs::Pairs;
use crate::proc;
use crate::report::Row;

/// Of the CPU time for JSON, at most.
const RATIO: f64 = 0.4;

const JSON: usize = 0;
const JSON_GZIP: usize = 1;
const PROTOBUF: usize = 2;
const PROTOBUF_GZIP: usize = 3;

/// The ways to ask, in the order of these numbers.
const WAYS: [(&str, Asked); 4] = [
    ("JSON", asked(Encoding::Json, false)),
    ("JSON, gzip", asked(Encoding::Json, true)),
    ("protobuf", asked(Encoding::Protobuf, false)),
    ("protobuf, gzip", asked(Encoding::Protobuf, true)),
];

const fn asked(encoding: Encoding, gzip: bool) -> Asked {
    Asked { encoding, gzip }
}

/// All lists of one way to ask.
#[derive(Clone, Copy, Default)]
struct Way {
    /// CPU seconds of the API server.
    cpu: f64,
    seconds: f64,
    bytes: usize,
}

/// Lists the provider's slices in each way, one after the other, in rounds.
pub(super) async fn measure(clusters: &Clusters<'_>, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let client = clusters.client_of_provider().await?;
    let server = clusters.provider().api_server().pid();
    let mut ways = [Way::default(); WAYS.len()];
    let mut ratios: [Pairs; 3] = Default::default();
    let mut objects = 0;
    // The first round is no part of it.
    for round in 0..=extent.turns {
        let mut cpus = [0.0; WAYS.len()];
        // What one way leaves to be collected is not always the same other's to collect.
        for turn in 0..WAYS.len() {
            let place = (turn + round) % WAYS.len();
            let (_, asked) = WAYS[place];
            let (begun, cpu) = (Instant::now(), proc::cpu_time(server)?);
            let listed = asked.list(&client).await?;
            let cpu = proc::cpu_time(server)? - cpu;
            cpus[place] = cpu.as_secs_f64();
            if round > 0 {
                ways[place].cpu += cpus[place];
                ways[place].seconds += begun.elapsed().as_secs_f64();
                ways[place].bytes += listed.bytes;
            }
            objects = listed.objects;
        }
        if round > 0 {
            ratios[0].note(cpus[JSON], cpus[PROTOBUF]);
            ratios[1].note(cpus[JSON_GZIP], cpus[PROTOBUF]);
            ratios[2].note(cpus[PROTOBUF], cpus[PROTOBUF_GZIP]);
        }
    }
    Ok(rows(&ways, &ratios, objects, extent.turns as f64))
}

fn rows(ways: &[Way; 4], ratios: &[Pairs; 3], objects: usize, turns: f64) -> Vec<Row> {
    let name = |what: &str| format!("a list of {objects} slices: {what}");
    let mut rows = Vec::new();
    for ((way, _), measured) in WAYS.iter().zip(ways) {
        let row = |what: &str, value: f64, unit| {
            Row::new(name(&format!("{what}, {way}")), value / turns, unit)
        };
        rows.extend([
            row("CPU of the API server", measured.cpu, "s"),
            row("sent", measured.bytes as f64 / 1e6, "MB"),
            row("seconds", measured.seconds, "s"),
        ]);
    }
    let [encodings, before, compression] = ratios;
    let row = |ratios: &Pairs, what: &str| {
        ratios.row(format!("API server CPU for the same lists: {what}"), "s")
    };
    rows.extend([
        row(encodings, "protobuf beside JSON").ratio_at_most(RATIO),
        row(before, "protobuf beside JSON with gzip"),
        row(compression, "protobuf with gzip beside protobuf"),
    ]);
    rows
}
