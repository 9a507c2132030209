//! Quick runs of all benchmarks. Times of so short a run, beside other tests, mean nothing.

use std::process::Command;

use serde_json::Value;

/// Runs a part quickly. Checks its table, and that it has rows of these names with these values,
/// and rows of the other names with a goal.
fn run(part: &str, values: &[(&str, f64)], goals: &[&str]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway-bench"));
    command.args([part, "--quick", "--output"]);
    let output = command.arg(directory.path()).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let table = String::from_utf8_lossy(&output.stdout);
    let text = std::fs::read(directory.path().join(format!("{part}.json")));
    let rows: Vec<Value> = serde_json::from_slice(&text.expect("a report")).expect("a list");
    let was_quiet = table.contains("The machine was quiet");
    let is_evaluated = rows.iter().any(|row| row["met"].is_boolean());
    assert!(was_quiet || !is_evaluated, "{table}");
    let row = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name);
        assert!(row.is_some() && table.contains(name), "{name:?}: {table}");
        row.expect("a row")
    };
    for (name, value) in values {
        assert_eq!(row(name)["value"], *value, "{name}\n{errors}");
    }
    for name in goals {
        let row = row(name);
        assert!(row["value"].is_f64() && row["goal"].is_string(), "{row}");
    }
}

#[test]
fn webhook_is_measured() {
    let goals = [
        "resident memory at rest",
        "mutate, 1.8 KB, 2 connections: requests",
        "validate, 1.8 KB, 8 connections: p99",
        "validate, 200 KB, 8 connections: peak resident memory",
        "create at 200/s, added, more than by the floor: p99",
    ];
    run("webhook", &[], &goals);
}

#[test]
fn page_is_measured() {
    let goals = ["ui, 6 clusters, 20 services: from a change to its event, p99"];
    run("ui", &[], &goals);
}

#[test]
fn tunnel_loses_no_watch() {
    let values = [
        ("restart, 8 members: LISTs", 0.0),
        ("cut of 1 s: LISTs", 0.0),
    ];
    let goals = [
        "a stream: round trip, p50",
        "beside 16 stuck streams: round trip, p99",
        "a stream: beside a bulk stream: round trip, p50",
        "CPU of a GB, causeway-tunnel",
        "a stream with a round trip of 50 ms",
        "8 members, 56 streams: resident",
        "restart, 8 members: to all synced",
        "a change, 50/s, both members tunnelled: p99, added",
        "cut of 1 s: a change during it, after its end",
    ];
    run("tunnel", &values, &goals);
}

#[ignore = "slow: make test ALL=1"]
#[test]
fn controller_writes_each_change_once() {
    let values = [
        ("20/s, 1 consumer: copies written a change", 1.0),
        ("20/s, 10 consumers: copies written a change", 10.0),
        ("20/s, 10 consumers: hub writes a change", 0.0),
        ("at rest for 1 s: writes, Leases aside", 0.0),
        (
            "start, 6 clusters, 120 slices, 120 copies: needless writes",
            0.0,
        ),
        (
            "start, 6 clusters, 120 slices, 600 copies: needless writes",
            0.0,
        ),
    ];
    let goals = [
        "20/s, 1 consumer: p99",
        "start, 6 clusters, 120 slices, 120 copies: to synced",
        "8 members, 10 slices each, 5 consumers: CPU at rest",
        "6 consumers, 5/s: p99 with one of them dead, beside without",
        "during a flood of 50/s: p99 of another's service, beside without",
        "100 services, 100/s: CPU of a change, beside 20",
    ];
    run("controller", &values, &goals);
}
