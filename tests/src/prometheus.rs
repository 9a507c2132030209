//! Debian's Prometheus and promtool.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::paths;

const PROGRAMS: [&str; 2] = ["promtool", "prometheus"];

/// The directory of prometheus and promtool: one of PATH, else one that Debian's package is unpacked into.
///
/// # Errors
/// How to get them: for a line that says what is skipped.
pub fn prerequisites() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND
        .get_or_init(|| installed().map_or_else(unpacked, Ok))
        .clone()
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let has_all = |directory: &PathBuf| {
        let mut programs = PROGRAMS.iter();
        programs.all(|program| directory.join(program).is_file())
    };
    std::env::split_paths(&path).find(has_all)
}

fn unpacked() -> Result<PathBuf, String> {
    let directory = paths::target().join("prometheus");
    let output = Command::new(paths::repository().join("tests/prometheus"))
        .arg(&directory)
        .output()
        .map_err(|e| format!("tests/prometheus cannot be run: {e}"))?;
    match output.status.success() {
        true => Ok(directory.join("usr/bin")),
        false => Err(format!(
            "prometheus and promtool are missing; on Debian tests/prometheus gets them: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
