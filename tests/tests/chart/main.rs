//! The Helm chart: `manifests/hub` is rendered from it, `kubectl mcs install` applies the same, its
//! values are checked, and Helm and `kubectl mcs` know each other's installations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

mod install;
mod options;
mod release;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use causeway_tests::{binaries, chart};
use parking_lot::Mutex;
use serde_json::Value;

/// The objects of some documents, by kind, namespace and name.
fn objects(documents: &str) -> BTreeMap<String, Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(documents).expect("YAML");
    let named = documents.into_iter().map(|object| {
        let text = |path: &str| {
            let text = object.pointer(path).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        (
            format!("{kind} {}/{name}", text("/metadata/namespace")),
            object,
        )
    });
    named.collect()
}

/// Returns the chart's objects for these values, in the form of `--set`, without those of `helm
/// test`. Helm renders equal values once.
fn rendered(values: &[&str]) -> BTreeMap<String, Value> {
    static RENDERED: Mutex<BTreeMap<Vec<String>, BTreeMap<String, Value>>> =
        Mutex::new(BTreeMap::new());
    let set = values.iter().map(|value| format!("--set={value}"));
    let set: Vec<_> = set.collect();
    let known = RENDERED.lock().get(&set).cloned();
    known.unwrap_or_else(|| {
        let args = set.iter().map(String::as_str).chain(["--no-hooks"]);
        let all = objects(&chart::template(args).unwrap_or_else(|e| panic!("{e}")));
        RENDERED.lock().insert(set, all.clone());
        all
    })
}

/// Runs `xtask` with these arguments, and returns what it prints.
fn xtask<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> String {
    let output = Command::new(binaries::causeway("xtask"))
        .args(args)
        .output();
    let output = output.expect("xtask");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_manifests_of_a_hub_are_those_that_the_chart_renders() {
    xtask(["render-manifests", "--check"]);
}

#[test]
fn the_chart_has_the_one_version() {
    let chart = std::fs::read_to_string(chart::directory().join("Chart.yaml")).expect("a chart");
    let chart: Value = serde_saphyr::from_str(&chart).expect("YAML");
    assert_eq!(chart["name"], "causeway");
    for version in ["version", "appVersion"] {
        assert_eq!(chart[version], env!("CARGO_PKG_VERSION"), "{version}");
    }
}

#[test]
fn packed_chart_is_reproducible_and_renders_as_its_directory() {
    let [first, second] = [(); 2].map(|()| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().as_os_str();
        let args = ["package-chart", "--time=1700000000"].map(OsStr::new);
        let archive = xtask(args.into_iter().chain([path]));
        (directory, PathBuf::from(archive.trim()))
    });
    let read = |archive| std::fs::read(archive).expect("an archive");
    assert!(read(&first.1) == read(&second.1), "the bytes differ");

    let values = ["--set=karmada.enabled=true"];
    let unpacked = chart::template(values).expect("the directory");
    let packed = chart::template_of(&first.1, values).expect("the archive");
    assert_eq!(packed, unpacked);
}
