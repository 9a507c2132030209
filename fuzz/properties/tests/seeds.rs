//! The properties hold for every seed, and for documents made of it that are the same in every run.

use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_properties::{admission, decoding, envelope, mutation, planning, watching};

/// How many documents are made of each seed, each of the one before.
const MADE: u64 = 250;

/// As libFuzzer's limit for the same seeds.
const LENGTH_MAX: usize = 4096;

fn seeds(target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../seeds")
        .join(target);
    let entries = fs::read_dir(&directory).expect("seeds");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    assert!(
        paths.len() > 10,
        "only {} seeds in {}",
        paths.len(),
        directory.display()
    );
    paths
}

/// How long to go on: CAUSEWAY_SOAK seconds, else through the seeds once.
fn soak() -> Duration {
    let seconds = std::env::var("CAUSEWAY_SOAK")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

#[track_caller]
fn check(holds: fn(&[u8]), input: &[u8], what: &str) {
    if catch_unwind(AssertUnwindSafe(|| holds(input))).is_err() {
        panic!(
            "it does not hold for {what}: {}",
            String::from_utf8_lossy(input)
        );
    }
}

/// Every seed, then for each a chain of documents, each made of the one before it; every so often
/// it begins again.
fn hold(target: &str, holds: fn(&[u8])) {
    let (begun, mut made) = (Instant::now(), 0_u64);
    let seeds = seeds(target);
    for pass in 0_u64.. {
        for (number, path) in (0_u64..).zip(&seeds) {
            let first = pass << 48 | number << 32;
            made += hold_for(path, first..first + MADE, holds);
        }
        if begun.elapsed() >= soak() {
            break;
        }
    }
    assert!(
        made > 1000,
        "only {made} documents were made of the seeds of {target}"
    );
}

fn hold_for(path: &Path, numbers: Range<u64>, holds: fn(&[u8])) -> u64 {
    let seed = fs::read(path).expect("a seed");
    check(holds, &seed, &path.display().to_string());
    let (mut current, mut made) = (seed.clone(), 0);
    for number in numbers {
        if number % 20 == 0 {
            current.clone_from(&seed);
        }
        let Some(next) = mutation::mutate(&current, LENGTH_MAX, number, 64) else {
            continue;
        };
        check(
            holds,
            &next,
            &format!("document {number} of {}", path.display()),
        );
        current = next;
        made += 1;
    }
    made
}

#[test]
fn any_body_is_answered_by_the_protocol() {
    hold("envelope", envelope::holds);
}

#[test]
fn mutation_is_idempotent_and_validates_as_before() {
    hold("admission", admission::holds);
}

#[test]
fn what_schema_and_webhook_accept_the_controller_can_plan() {
    hold("planning", planning::holds);
}

#[test]
fn one_odd_object_never_ends_a_watch() {
    hold("watching", watching::holds);
}

#[test]
fn no_answer_makes_the_decoder_panic() {
    hold("decoding", decoding::holds);
}
