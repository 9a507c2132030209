//! The stores of API servers: one etcd for all clusters of a fleet, by prefix, or one of its own for a cluster that is to be
//! restored from a snapshot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::binaries::Testbed;
use crate::ports;
use crate::reaper::{Process, Program, Reaper};

/// An etcd that runs.
pub(crate) struct Store {
    process: Process,
    url: String,
    data: PathBuf,
    snapshots: AtomicU32,
}

/// Content of a store at one moment.
pub struct Snapshot(PathBuf);

impl Store {
    /// Starts it, with its data and log in that directory.
    pub(crate) fn start(reaper: &Arc<Reaper>, directory: &Path) -> Self {
        std::fs::create_dir_all(directory).expect("a directory for a store");
        let url = format!("http://127.0.0.1:{}", ports::fresh());
        let peer = format!("http://127.0.0.1:{}", ports::fresh());
        let data = directory.join("etcd");
        let log = directory.join("etcd.log");
        let etcd = Program::new(Testbed::get().program("etcd"), log).args([
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]);
        Self {
            process: reaper.run(etcd),
            url,
            data,
            snapshots: AtomicU32::new(0),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn log(&self) -> &Path {
        self.process.log()
    }

    /// Copies what it holds. It stands still meanwhile, so the copy is what a crash in that moment would leave.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let number = self.snapshots.fetch_add(1, Ordering::Relaxed);
        let copy = self.data.with_file_name(format!("snapshot-{number}"));
        self.process.pause();
        let copied = copy_all(&self.data, &copy);
        self.process.resume();
        copied.expect("a copy of a store");
        Snapshot(copy)
    }

    /// Ends it with SIGKILL and starts it again with what it held then. Its revisions go on from there.
    pub(crate) async fn restore(&self, snapshot: &Snapshot) {
        self.process.kill().await;
        std::fs::remove_dir_all(&self.data).expect("the data of a store");
        copy_all(&snapshot.0, &self.data).expect("the data of a snapshot");
        self.process.restart().await;
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_all(&entry.path(), &target)?,
            false => drop(std::fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}
