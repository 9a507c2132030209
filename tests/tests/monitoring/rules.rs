//! The rules: promtool reads them, plays them, and reads what the programs show.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use causeway_tests::{prometheus, repository};
use serde_json::Value;

const RULES: &str = "manifests/monitoring/rules.yaml";
const CASES: [&str; 2] = [
    "tests/tests/monitoring/alerts.yaml",
    "tests/tests/monitoring/alerts-of-hours.yaml",
];

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(repository().join(path)).expect(path);
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The rules, by the names of their alerts.
pub(crate) fn rules() -> BTreeMap<String, Value> {
    let rules = read(RULES)["groups"][0]["rules"].take();
    let rules = rules.as_array().expect("rules").clone().into_iter();
    let named = rules.map(|rule| (rule["alert"].as_str().expect("a name").to_owned(), rule));
    named.collect()
}

/// The rules with a tenth of their times. No alert is pending for more than 8 seconds, and none for
/// so short a time that a busy machine is taken for a fault.
pub(crate) fn short_rules() -> String {
    let text = std::fs::read_to_string(repository().join(RULES)).expect(RULES);
    let text = text
        .replace("[5m]", "[30s]")
        .replace("[10m:]", "[1m:]")
        .replace("_oldest_seconds) > 60", "_oldest_seconds) > 6");
    let lines = text.lines().map(|line| match line.split_once("for: ") {
        Some((indent, hold)) if indent.trim().is_empty() => {
            let short = if hold == "1m" { "6s" } else { "8s" };
            format!("{indent}for: {short}\n")
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// Runs promtool in the repository, unless there is none.
fn promtool(args: &[&str], input: &str) -> Option<()> {
    let programs = match prometheus::prerequisites() {
        Ok(programs) => programs,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return None;
        }
    };
    check(&programs, args, input);
    Some(())
}

/// Runs promtool, which must find nothing.
pub(crate) fn check(programs: &Path, args: &[&str], input: &str) {
    let mut running = Command::new(programs.join("promtool"))
        .args(args)
        .current_dir(repository())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    let stdin = running.stdin.take().expect("its input");
    std::io::copy(&mut input.as_bytes(), &mut { stdin }).expect("promtool reads");
    let output = running.wait_with_output().expect("promtool");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "promtool {args:?}:\n{}{}",
        said(&output.stdout),
        said(&output.stderr)
    );
}

#[test]
fn promtool_accepts_the_rules_and_plays_every_case() {
    let played = promtool(&["check", "rules", "--lint=all", "--lint-fatal", RULES], "");
    if played.is_some() {
        promtool(&[&["test", "rules"], &CASES[..]].concat(), "");
    }
}

#[test]
fn every_alert_is_played_firing_and_not_firing() {
    let (mut firing, mut silent) = (BTreeSet::new(), BTreeSet::new());
    let files = CASES.map(read);
    let groups = files.iter().map(|file| file["tests"].as_array());
    for group in groups.flat_map(|cases| cases.expect("cases")) {
        for case in group["alert_rule_test"].as_array().expect("checks") {
            let name = case["alertname"].as_str().expect("a name").to_owned();
            match case["exp_alerts"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
            {
                true => firing.insert(name),
                false => silent.insert(name),
            };
        }
    }
    let all: BTreeSet<_> = rules().into_keys().collect();
    assert_eq!(firing, all);
    assert_eq!(silent, all);
}

#[test]
fn every_alert_says_what_is_so_and_where_its_runbook_is() {
    for (name, rule) in rules() {
        assert!(name.starts_with("Causeway"), "{name}");
        let annotations = &rule["annotations"];
        for key in ["summary", "description"] {
            assert!(
                !annotations[key].as_str().unwrap_or_default().is_empty(),
                "{name}: {key}"
            );
        }
        let end = format!("docs/troubleshooting.md#{}", name.to_lowercase());
        let runbook = annotations["runbook_url"].as_str().unwrap_or_default();
        assert!(runbook.ends_with(&end), "{name}: {runbook}");
        let severity = rule["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{name}");
    }
}

#[test]
fn the_short_rules_are_the_same_but_for_their_times() {
    let short: Value = serde_saphyr::from_str(&short_rules()).expect("YAML");
    let short = short["groups"][0]["rules"].as_array().expect("rules");
    let all = rules();
    assert_eq!(short.len(), all.len());
    let without_digits = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        let text = text.replace("s]", "m]");
        text.chars()
            .filter(|c| !c.is_ascii_digit() && *c != '.')
            .collect::<String>()
    };
    for rule in short {
        let name = rule["alert"].as_str().expect("a name");
        let real = &all[name];
        assert_eq!(rule["labels"], real["labels"]);
        assert_eq!(without_digits(&rule["expr"]), without_digits(&real["expr"]));
        let expr = rule["expr"].as_str().expect("a query");
        for range in expr.split('[').skip(1) {
            assert!(
                range.starts_with("30s]") || range.starts_with("1m:]"),
                "{name}: {expr}"
            );
        }
        match real["for"].as_str() {
            Some(_) => assert!(rule["for"] == "6s" || rule["for"] == "8s", "{name}"),
            None => assert!(rule["for"].is_null(), "{name}"),
        }
    }
}
