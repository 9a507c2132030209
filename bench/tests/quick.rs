//! The benchmarks work. What they measure in so short a time, and beside other tests, is not asserted.

use std::process::Command;

use serde_json::Value;

/// A quick run of a part, with the table that it printed and the rows of its report.
struct Run {
    table: String,
    rows: Vec<Value>,
}

impl Run {
    fn of(part: &str, args: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let output = Command::new(env!("CARGO_BIN_EXE_causeway-bench"))
            .arg(part)
            .args(args)
            .args(["--quick", "--output"])
            .arg(directory.path())
            .output()
            .expect("the benchmark runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let file = directory.path().join(format!("{part}.json"));
        let text = std::fs::read_to_string(file).expect("a report");
        let run = Self {
            table: String::from_utf8_lossy(&output.stdout).into_owned(),
            rows: serde_json::from_str(&text).expect("a list"),
        };
        run.is_evaluated_where_the_machine_was_quiet();
        run
    }

    fn is_evaluated_where_the_machine_was_quiet(&self) {
        let was_quiet = self.table.contains("The machine was quiet");
        let is_evaluated = self.rows.iter().any(|row| row["met"].is_boolean());
        let says_why_not = self.table.contains("No goal is evaluated");
        assert_ne!(was_quiet, says_why_not, "{}", self.table);
        assert!(was_quiet || !is_evaluated, "{}", self.table);
    }

    /// The only row of that name, which is in the table too.
    fn row(&self, name: &str) -> &Value {
        let row = self.rows.iter().find(|row| row["name"] == name);
        assert!(self.table.contains(name), "{}", self.table);
        row.unwrap_or_else(|| panic!("no row {name:?} in {:?}", self.rows))
    }
}

#[test]
fn a_quick_run_measures_every_scenario_and_writes_its_report() {
    let run = Run::of("webhook", &[]);
    for words in [
        "mutate, 1.8 KB, 2 connections: requests",
        "validate, 200 KB, 8 connections: p99",
        "resident memory at rest",
    ] {
        let row = run.row(words);
        assert!(row["value"].is_f64() && row["floor"].is_f64(), "{row}");
        assert!(row["goal"].is_string(), "{row}");
    }
    let row = run.row("create at 200/s, added, more than by the floor: p99");
    assert!(row["value"].is_f64() && row["interval"].is_array(), "{row}");
    assert!(row["goal"].is_string(), "{row}");
}

#[test]
fn the_page_is_measured_from_a_change_to_its_event() {
    let run = Run::of("ui", &[]);
    let row = run.row("ui, 6 clusters, 20 services: from a change to its event, p99");
    assert!(row["value"].is_f64() && row["goal"].is_string(), "{row}");
}

#[test]
fn a_controller_among_imitated_api_servers_writes_what_changes_and_nothing_else() {
    let run = Run::of("controller", &["propagation", "start", "growth"]);
    for (words, value) in [
        ("20/s, 1 consumer: copies written a change", 1.0),
        ("20/s, 10 consumers: copies written a change", 10.0),
        ("20/s, 10 consumers: hub writes a change", 0.0),
        ("at rest for 1 s: writes, Leases aside", 0.0),
        (
            "start, 6 clusters, 120 slices, 120 copies: writes that nothing asked for",
            0.0,
        ),
        (
            "start, 6 clusters, 120 slices, 600 copies: writes that nothing asked for",
            0.0,
        ),
    ] {
        let row = run.row(words);
        assert_eq!(row["value"], value, "{row}");
    }
    for words in [
        "20/s, 1 consumer: p99",
        "start, 6 clusters, 120 slices, 120 copies: to synced",
        "100 services, 100/s: CPU of a change, beside the fewest",
    ] {
        let row = run.row(words);
        assert!(row["value"].is_f64() && row["goal"].is_string(), "{row}");
    }
}

#[test]
fn real_api_servers_say_what_lists_events_changes_and_starts_cost_them() {
    let run = Run::of("controller", &["real"]);
    for words in [
        "a list of 38 slices: sent, protobuf, gzip",
        "API server CPU for the same lists: protobuf beside JSON",
        "10000 watch events (from 30): sent, protobuf beside JSON",
        "real API servers, 4 services, 20/s: p99",
        "real API servers, start, 2 clusters, 30 slices, 30 copies: CPU, consumer's API server",
    ] {
        let row = run.row(words);
        assert!(row["value"].is_f64(), "{row}");
    }
    let sent = |way: &str| {
        let row = run.row(&format!("a list of 38 slices: sent, {way}"));
        row["value"].as_f64().unwrap_or_default()
    };
    assert!(sent("JSON") > sent("protobuf") && sent("protobuf") > sent("protobuf, gzip"));
    for (words, value) in [("writes a change", 2.0), ("hub writes a change", 0.0)] {
        let row = run.row(&format!("real API servers, 2 consumers, 4/s: {words}"));
        assert_eq!(row["value"], value, "{row}");
    }
}

#[test]
fn what_it_costs_to_be_looked_at_is_measured_beside_what_goes_on_without() {
    let run = Run::of("overhead", &[]);
    for words in [
        "validate, metrics scraped every second: requests",
        "validate, 1 % of the traces sampled: requests",
        "20/s, 10 consumers, metrics scraped every second: p50",
    ] {
        let row = run.row(words);
        assert!(row["ratio"].is_f64() && row["goal"].is_string(), "{row}");
        assert!(row["interval"][0].is_f64() && row["interval"][1].is_f64());
    }
}
