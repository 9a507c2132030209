//! Requirements of the browser tests on the machine: node, Chromium, and the packages of `cli/ui`.

use std::env;
use std::path::{Path, PathBuf};

use causeway_tests::repository;

/// Names of Chromium; Debian's name first.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Returns the directory of the page and its tests.
pub(crate) fn directory() -> PathBuf {
    repository().join("cli/ui")
}

/// Whether the page can be opened here; says so where not.
pub(crate) fn is_there() -> bool {
    let missing = missing();
    if let Some(missing) = &missing {
        eprintln!("skipped, no browser: {missing}");
    }
    missing.is_none()
}

/// Returns the first missing requirement, with the remedy.
fn missing() -> Option<String> {
    if !has(&["node"]) {
        return Some("node is missing; on Debian: apt-get install nodejs npm".to_owned());
    }
    if !has(&BROWSERS) {
        let names = BROWSERS.join(", ");
        return Some(format!(
            "none of {names} is there; on Debian: apt-get install chromium"
        ));
    }
    let packages = directory().join("node_modules/playwright-core");
    (!packages.is_dir()).then(|| "its packages are missing; run: make ui".to_owned())
}

/// Whether one of these programs is in PATH.
fn has(programs: &[&str]) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_in = |directory: &Path| programs.iter().any(|one| directory.join(one).is_file());
    env::split_paths(&path).any(|directory| is_in(&directory))
}
