//! Which core does what: the server has one for itself, the load another.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// The core of the servers.
pub(crate) const SERVER: usize = 0;
/// The core of the load. On a machine of one core they share it.
pub(crate) const LOAD: usize = 1;

/// Keeps the calling thread on a core, by `taskset` of util-linux.
pub(crate) fn keep_thread_on(core: usize) -> anyhow::Result<()> {
    let thread = std::fs::read_link("/proc/thread-self").context("there is no /proc")?;
    let id = thread.file_name().unwrap_or_default();
    let output = Command::new("taskset")
        .args(["-c", "-p", &core.to_string()])
        .arg(Path::new(id))
        .output()
        .context("taskset cannot be run; on Debian it is in the package util-linux")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("this needs cores {SERVER} and {LOAD}: {}", said.trim());
    }
    Ok(())
}
