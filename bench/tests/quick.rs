//! The benchmark works. What it measures in so short a time, and beside other tests, is not asserted.

use std::process::Command;

#[test]
fn a_quick_run_measures_every_scenario_and_writes_its_report() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(env!("CARGO_BIN_EXE_causeway-bench"))
        .args(["webhook", "--quick", "--output"])
        .arg(directory.path())
        .output()
        .expect("the benchmark runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let table = String::from_utf8_lossy(&output.stdout);
    let file = directory.path().join("webhook.json");
    let text = std::fs::read_to_string(file).expect("a report");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list");
    for words in [
        "mutate, 1.8 KB, 2 connections: requests",
        "validate, 200 KB, 8 connections: p99",
        "resident memory at rest",
        "create at 200/s, added: p99",
    ] {
        let row = rows.iter().find(|row| row["name"] == words);
        let row = row.unwrap_or_else(|| panic!("no row {words:?} in {text}"));
        assert!(row["value"].is_f64() && row["floor"].is_f64(), "{row}");
        assert!(row["goal"].is_string() && row["met"].is_boolean(), "{row}");
        assert!(table.contains(words), "{table}");
    }
}
