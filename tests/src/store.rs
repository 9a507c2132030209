//! The stores of API servers: one etcd for all clusters of a fleet, by prefix, or one of its own
//! for a cluster that is to be restored from a snapshot.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::binaries::Testbed;
use crate::eventually::LONG;
use crate::http;
use crate::ports;
use crate::reaper::{Process, Program, Reaper};

/// An etcd that runs.
pub(crate) struct Store {
    process: Process,
    url: String,
    data: PathBuf,
    snapshots: AtomicU32,
}

/// Content of a store at one moment, as files.
pub struct Snapshot(PathBuf);

/// Content of a store at one moment, by keys.
pub(crate) struct Content(BTreeMap<Key, Version>);

/// A key in Base64, as etcd's JSON has it.
type Key = String;

/// A value in Base64, and the revision that wrote it.
struct Version {
    revision: String,
    value: Option<String>,
}

/// A key in an answer of etcd.
#[derive(Deserialize)]
struct Entry {
    key: Key,
    mod_revision: String,
    #[serde(default)]
    value: Option<String>,
}

#[derive(Deserialize)]
struct Entries {
    #[serde(default)]
    kvs: Vec<Entry>,
}

#[derive(Deserialize)]
struct Committed {
    header: Header,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

/// Changes in one transaction; etcd takes 128.
const CHANGES: usize = 100;

/// Time between two looks, in which what is on its way arrives.
const PAUSE: Duration = Duration::from_millis(50);

/// Parts of keys that an API server writes again and again by itself.
const OWN: [&str; 2] = ["/masterleases/", "/leases/kube-system/apiserver-"];

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

    /// Returns what it holds, but for what its API servers write by themselves all the time.
    pub(crate) async fn content(&self) -> Content {
        Content(self.entries(false).await)
    }

    /// Has it hold this again, and nothing else, while its API servers run. What comes meanwhile
    /// goes too, until two looks find nothing to do.
    pub(crate) async fn put_back(&self, content: &mut Content) {
        let deadline = Instant::now() + LONG;
        let mut calm_looks = 0;
        while calm_looks < 2 {
            let changes = content.changes(&self.entries(true).await);
            assert!(Instant::now() < deadline, "comes back: {changes:?}");
            calm_looks = if changes.is_empty() {
                calm_looks + 1
            } else {
                0
            };
            for changes in changes.chunks(CHANGES) {
                let answer = self.ask("txn", &json!({ "success": changes })).await;
                let committed: Committed = serde_json::from_str(&answer).expect("a transaction");
                content.note(changes, &committed.header.revision);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn entries(&self, keys_only: bool) -> BTreeMap<Key, Version> {
        let [first, end] = ["/", "0"].map(|key| STANDARD.encode(key));
        let all = json!({ "key": first, "range_end": end, "keys_only": keys_only });
        let answer = self.ask("range", &all).await;
        let entries: Entries = serde_json::from_str(&answer).expect("the entries of a store");
        let is_own = |entry: &Entry| {
            let key = STANDARD.decode(&entry.key).expect("Base64");
            let key = String::from_utf8_lossy(&key);
            OWN.iter().any(|own| key.contains(own))
        };
        let entries = entries.kvs.into_iter().filter(|entry| !is_own(entry));
        let version = |entry: Entry| {
            let (revision, value) = (entry.mod_revision, entry.value);
            (entry.key, Version { revision, value })
        };
        entries.map(version).collect()
    }

    /// Returns the answer to a request in etcd's JSON.
    async fn ask(&self, request: &str, body: &Value) -> String {
        let address = self.url.trim_start_matches("http://");
        let path = format!("/v3/kv/{request}");
        let answer = http::post(address, &path, &body.to_string()).await;
        match answer.unwrap_or_else(|e| panic!("etcd: {e}")) {
            (200, answer) => answer,
            (status, answer) => panic!("etcd answers {status}: {answer}"),
        }
    }

    /// Stops it (SIGSTOP) until [`Store::resume`].
    pub(crate) fn pause(&self) {
        self.process.pause();
    }

    /// Ends [`Store::pause`].
    pub(crate) fn resume(&self) {
        self.process.resume();
    }

    /// Copies what it holds. It stands still meanwhile, so the copy is what a crash in that moment
    /// would leave.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let number = self.snapshots.fetch_add(1, Ordering::Relaxed);
        let copy = self.data.with_file_name(format!("snapshot-{number}"));
        self.pause();
        let copied = copy_all(&self.data, &copy);
        self.resume();
        copied.expect("a copy of a store");
        Snapshot(copy)
    }

    /// Ends it with SIGKILL and starts it again with what it held then. Its revisions go on from
    /// there.
    pub(crate) async fn restore(&self, snapshot: &Snapshot) {
        self.process.kill().await;
        std::fs::remove_dir_all(&self.data).expect("the data of a store");
        copy_all(&snapshot.0, &self.data).expect("the data of a snapshot");
        self.process.restart().await;
    }
}

impl Content {
    /// Returns the operations after which a store with these entries holds this.
    fn changes(&self, present: &BTreeMap<Key, Version>) -> Vec<Value> {
        let surplus = present.keys().filter(|key| !self.0.contains_key(*key));
        let surplus = surplus.map(|key| json!({ "request_delete_range": { "key": key } }));
        let differs = |(key, version): &(&Key, &Version)| {
            let there = present.get(*key).map(|there| &there.revision);
            there != Some(&version.revision)
        };
        let others = self.0.iter().filter(differs);
        let put = |(key, version): (&Key, &Version)| {
            let put = json!({ "key": key, "value": version.value });
            json!({ "request_put": put })
        };
        surplus.chain(others.map(put)).collect()
    }

    /// Notes the revision at which these changes were made.
    fn note(&mut self, changes: &[Value], revision: &str) {
        for change in changes {
            let key = change["request_put"]["key"].as_str();
            if let Some(version) = key.and_then(|key| self.0.get_mut(key)) {
                revision.clone_into(&mut version.revision);
            }
        }
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
