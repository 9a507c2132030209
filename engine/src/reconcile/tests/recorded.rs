//! Regression test of the writes for services without annotations of
//! [`causeway::domain::Failover`], byte for byte: compared with the writes before these annotations
//! existed.
//!
//! Each story runs with the real engine: members of old and new releases, whose pods come, go,
//! become unready and return, and which become unreachable; restarts, crashes, and people who
//! change things. For one small story all writes are recorded, for the others a digest after each.

mod entry_clusters;
mod rules;
mod story;
mod written;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use self::story::Story;
use self::written::operation_of;

/// Seeds of the stories whose digests are recorded.
const SEEDS: std::ops::Range<u64> = 1..43;
const STEPS: usize = 40;
/// Story that is recorded as a whole: its seed, and its steps.
const SMALL: (u64, usize) = (2, 5);

const RECORD: &str = "CAUSEWAY_RECORD_WRITES";
const AGAIN: &str = "if all of this is meant, record again, and read what `git diff` shows: \
                     CAUSEWAY_RECORD_WRITES=1 cargo test --workspace --lib as_recorded";

/// Returns the path of a record.
fn file(name: &str) -> PathBuf {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/reconcile/tests/recorded");
    PathBuf::from(directory).join(name)
}

/// Reads a record; with [`RECORD`] set, first records `now`.
fn recorded(name: &str, now: &str) -> String {
    let path = file(name);
    if std::env::var_os(RECORD).is_some() {
        std::fs::write(&path, now).expect("the record is written");
    }
    std::fs::read_to_string(&path).expect("the record is there")
}

/// Returns four digits after each line, which depend on all lines so far, and the whole digest of
/// all.
fn digests(lines: &[String]) -> String {
    let mut hasher = Sha256::new();
    let mut text = String::new();
    for line in lines {
        hasher.update(line);
        hasher.update("\n");
        let digest = hasher.clone().finalize();
        write!(text, "{:02x}{:02x} ", digest[0], digest[1]).expect("text takes text");
    }
    for byte in hasher.finalize() {
        write!(text, "{byte:02x}").expect("text takes text");
    }
    text
}

/// Returns the first line that differs from its recorded digest, with the step before it.
fn difference(recorded: &str, lines: &[String]) -> Option<String> {
    let now = digests(lines);
    if recorded == now {
        return None;
    }
    let same = recorded.split(' ').zip(now.split(' '));
    let same = same.take_while(|(one, other)| one == other).count();
    let before = &lines[..same.min(lines.len())];
    let step = before.iter().rfind(|line| line.starts_with('#'));
    let step = step.map_or("", String::as_str);
    let line = lines.get(same).map_or("nothing", String::as_str);
    Some(format!(
        "line {same} of {} differs, below\n{step}\nit is now\n{line}",
        lines.len()
    ))
}

/// Returns the first line that differs from the recorded one.
fn difference_in_text(recorded: &str, now: &str) -> Option<String> {
    let (mut recorded, mut now) = (recorded.lines(), now.lines());
    loop {
        match (recorded.next(), now.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => {
                let [one, other] = [one, other].map(|line| line.unwrap_or("nothing"));
                return Some(format!("recorded is\n{one}\nit is now\n{other}"));
            }
        }
    }
}

fn small() -> String {
    let (seed, steps) = SMALL;
    Story::of(seed).play(steps).join("\n") + "\n"
}

#[test]
fn services_without_annotations_are_written_byte_for_byte_as_recorded() {
    let now = small();
    if let Some(difference) = difference_in_text(&recorded("small.txt", &now), &now) {
        panic!("the small story: {difference}\n{AGAIN}");
    }
    let stories: Vec<_> = SEEDS
        .map(|seed| (seed, Story::of(seed).play(STEPS)))
        .collect();
    let mut now = String::new();
    for (_, lines) in &stories {
        now += &digests(lines);
        now += "\n";
    }
    let recorded = recorded("digests.txt", &now);
    assert_eq!(recorded.lines().count(), stories.len(), "{AGAIN}");
    for ((seed, lines), recorded) in stories.iter().zip(recorded.lines()) {
        if let Some(difference) = difference(recorded, lines) {
            panic!("the story of seed {seed}: {difference}\n{AGAIN}");
        }
    }
    let all = stories.iter().flat_map(|(_, lines)| lines);
    let operations: BTreeSet<_> = all.filter_map(|line| operation_of(line)).collect();
    let operations: Vec<_> = operations.iter().map(String::as_str).collect();
    assert_eq!(operations, OPERATIONS, "all that can be written is");
}

#[test]
fn rules_that_withdraw_copies_write_byte_for_byte_as_recorded() {
    let (mut writes, mut decisions, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for rule in rules::all() {
        let played = rule.play();
        found.push((rule.name, played.left));
        writes.extend(played.writes);
        decisions.extend(played.decisions);
    }
    let expected: Vec<_> = rules::all()
        .map(|rule| (rule.name, rule.left.to_owned()))
        .collect();
    assert_eq!(found, expected);
    for (name, lines) in [("rules.txt", writes), ("decisions.txt", decisions)] {
        let now = lines.join("\n") + "\n";
        if let Some(difference) = difference_in_text(&recorded(name, &now), &now) {
            panic!("{name}: {difference}\n{AGAIN}");
        }
    }
}

#[test]
fn entry_clusters_are_written_byte_for_byte_as_recorded() {
    let now = entry_clusters::play().join("\n") + "\n";
    if let Some(difference) = difference_in_text(&recorded("entry_clusters.txt", &now), &now) {
        panic!("entry_clusters.txt: {difference}\n{AGAIN}");
    }
}

/// Operations that the stories contain, each with the kind of its object.
const OPERATIONS: [&str; 18] = [
    "create EndpointSlice",
    "create Namespace",
    "create Service",
    "create ServiceExport",
    "create ServiceImport",
    "delete EndpointSlice",
    "delete Service",
    "delete ServiceExport",
    "delete ServiceImport",
    "patch Cluster",
    "patch MultiClusterService",
    "patch Service",
    "patch ServiceImport",
    "patch the status of Cluster",
    "patch the status of MultiClusterService",
    "patch the status of ServiceExport",
    "patch the status of ServiceImport",
    "update EndpointSlice",
];

#[test]
fn a_story_is_the_same_each_time_and_another_for_another_seed() {
    let play = |seed| Story::of(seed).play(STEPS);
    assert_eq!(play(5), play(5));
    assert_ne!(digests(&play(5)), digests(&play(8)));
}

#[test]
fn one_byte_of_one_write_and_a_write_too_few_are_found_and_shown() {
    let lines = Story::of(4).play(STEPS);
    let recorded = digests(&lines);
    assert_eq!(difference(&recorded, &lines), None);
    let is_copy = |line: &&String| line.contains(r#""ready":true"#) && !line.starts_with('#');
    let at = lines.iter().position(|line| is_copy(&line));
    let at = at.expect("a copy with a ready endpoint");
    let mut other = lines.clone();
    other[at] = other[at].replacen("true", "tru", 1);
    let found = difference(&recorded, &other).expect("a difference");
    assert!(found.contains(&format!("line {at} of")), "{found}");
    assert!(found.ends_with(&other[at]), "{found}");
    let found = difference(&recorded, &lines[..lines.len() - 1]);
    assert!(found.is_some_and(|found| found.ends_with("nothing")));

    let (text, changed) = (lines.join("\n"), other.join("\n"));
    assert_eq!(difference_in_text(&text, &text), None);
    let found = difference_in_text(&text, &changed).expect("a difference");
    assert!(
        found.contains(&lines[at]) && found.ends_with(&other[at]),
        "{found}"
    );
}
