//! Writes the manifests of a hub under `manifests/hub/` from the Helm chart. A test compares them.

use std::fs;

use causeway_tests::{chart, repository};

fn main() {
    for (path, text) in chart::manifests() {
        let path = repository().join("manifests").join(path);
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}
