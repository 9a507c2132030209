//! Gives the Helm chart the version of the workspace, and writes the manifests of a hub under `manifests/hub/` from it. A
//! test compares them.

use std::fs;

use causeway_tests::{chart, repository};

fn main() {
    let chart = chart::directory().join("Chart.yaml");
    fs::write(&chart, chart::description()).unwrap_or_else(|e| panic!("{}: {e}", chart.display()));
    for (path, text) in chart::manifests() {
        let path = repository().join("manifests").join(path);
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}
