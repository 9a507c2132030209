//! The workflow of the forge: it does what a person can type, and leans on nothing that moves.

use std::collections::BTreeSet;
use std::path::Path;

use causeway_tests::repository;
use serde_json::Value;

const WORKFLOW: &str = ".github/workflows/ci.yaml";
const SETUP: &str = ".github/actions/setup/action.yaml";

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(repository().join(path)).expect(path);
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The jobs of the workflow, by their names.
fn jobs() -> Vec<(String, Value)> {
    let jobs = read(WORKFLOW)["jobs"].take();
    let jobs = jobs.as_object().expect("jobs").clone();
    jobs.into_iter().collect()
}

fn steps(of: &Value) -> &[Value] {
    let steps = of.pointer("/runs/steps").unwrap_or(&of["steps"]);
    steps.as_array().expect("steps")
}

/// Returns the values of a key in the steps of a job or an action.
fn texts<'a>(of: &'a Value, key: &'a str) -> impl Iterator<Item = &'a str> {
    steps(of).iter().filter_map(move |step| step[key].as_str())
}

/// The targets that a script makes.
fn targets(script: &str) -> Vec<&str> {
    let words: Vec<_> = script.split_whitespace().collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == "make");
    pairs.map(|pair| pair[1]).collect()
}

#[test]
fn the_workflow_makes_what_the_makefile_has() {
    let makefile = std::fs::read_to_string(repository().join("Makefile")).expect("the Makefile");
    let mut made = BTreeSet::new();
    for (name, job) in jobs() {
        for target in texts(&job, "run").flat_map(targets) {
            let rule = format!("{target}:");
            let is_there = makefile.lines().any(|line| line.starts_with(&rule));
            assert!(is_there, "{name}: there is no `make {target}`");
            made.insert(target.to_owned());
        }
    }
    for target in ["lint", "deny", "unit", "test", "e2e", "long", "release"] {
        assert!(made.contains(target), "nothing runs `make {target}`");
    }
}

#[test]
fn each_commit_of_main_has_a_run_of_its_own() {
    let workflow = read(WORKFLOW);
    let group = workflow
        .pointer("/concurrency/group")
        .and_then(Value::as_str);
    let group = group.expect("a group");
    assert!(
        group.contains("'pull_request' && github.ref || github.run_id"),
        "{group}"
    );
}

#[test]
fn a_release_is_made_when_all_else_is_green() {
    let jobs = jobs();
    let needs = |name: &str| {
        let (_, job) = jobs.iter().find(|(one, _)| one == name).expect(name);
        job["needs"].clone()
    };
    let all_else = jobs.iter().filter(|(_, job)| job["if"].is_null());
    let all_else: BTreeSet<_> = all_else.map(|(name, _)| name.clone()).collect();
    let needed: BTreeSet<String> = serde_json::from_value(needs("release")).expect("names");
    assert_eq!(needed, all_else);
    assert_eq!(needs("publish"), "release");
}

#[test]
fn the_actions_of_others_are_named_by_their_commits() {
    let mut pages = jobs();
    pages.push((SETUP.to_owned(), read(SETUP)));
    for (name, page) in pages {
        for action in texts(&page, "uses") {
            let is_own = action.starts_with("./");
            let commit = action.split_once('@').map_or("", |(_, commit)| commit);
            let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_own || is_commit, "{name}: {action}");
            let path = Path::new(action).join("action.yaml");
            assert!(!is_own || repository().join(path).is_file(), "{action}");
        }
    }
}

#[test]
fn only_the_job_that_compiles_nothing_may_write() {
    let read_only = serde_json::json!({ "contents": "read" });
    assert_eq!(read(WORKFLOW)["permissions"], read_only);
    for (name, job) in jobs() {
        if job["permissions"].is_null() {
            continue;
        }
        assert_eq!(name, "publish");
        let runs: Vec<_> = texts(&job, "run").collect();
        let compiles = |run: &&str| run.contains("make ") || run.contains("cargo ");
        assert!(!runs.iter().any(compiles), "{runs:?}");
    }
}
