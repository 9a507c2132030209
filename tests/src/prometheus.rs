//! Debian's Prometheus: promtool, and a server that scrapes what runs on the testbed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::eventually::{START, eventually};
use crate::reaper::{Process, Program, Reaper};
use crate::{http, paths, ports};

const PROGRAMS: [&str; 2] = ["promtool", "prometheus"];

/// The directory of prometheus and promtool: one of PATH, else one that Debian's package is
/// unpacked into.
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

/// A Prometheus at work. Dropping it kills it.
pub struct Prometheus {
    process: Process,
    address: String,
}

/// An alert that is pending or firing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ActiveAlert {
    /// Its labels; `alertname` is its name.
    pub labels: BTreeMap<String, String>,
    /// `pending` or `firing`.
    pub state: String,
}

impl ActiveAlert {
    /// The name of its rule.
    pub fn name(&self) -> &str {
        self.labels.get("alertname").map_or("", String::as_str)
    }

    /// Whether it has been pending for as long as its rule says.
    pub fn is_firing(&self) -> bool {
        self.state == "firing"
    }
}

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct Matrix {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

impl Prometheus {
    /// Starts one of [`prerequisites`] with that configuration, which may name files beside it, in
    /// that directory.
    pub async fn start(
        reaper: &Arc<Reaper>,
        programs: &Path,
        directory: &Path,
        configuration: &str,
    ) -> Self {
        let file = directory.join("prometheus.yaml");
        std::fs::write(&file, configuration).expect("a configuration of Prometheus");
        let address = format!("127.0.0.1:{}", ports::fresh());
        let program = Program::new(
            programs.join("prometheus"),
            directory.join("prometheus.log"),
        )
        .directory(directory)
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            directory.join("data").display()
        ))
        .arg(format!("--web.listen-address={address}"));
        let prometheus = Self {
            process: reaper.run(program),
            address,
        };
        eventually("Prometheus is ready", START, async || {
            let log = || prometheus.process.log_tail(20);
            assert!(prometheus.process.is_running(), "it ended:\n{}", log());
            match http::get(&prometheus.address, "/-/ready").await {
                Ok((200, _)) => Ok(()),
                Ok((status, body)) => Err(format!("{status}: {body}")),
                Err(error) => Err(error.to_string()),
            }
        })
        .await;
        prometheus
    }

    /// The alerts that are pending or firing.
    pub async fn alerts(&self) -> Vec<ActiveAlert> {
        #[derive(Deserialize)]
        struct Alerts {
            alerts: Vec<ActiveAlert>,
        }
        let found: Alerts = self.get("/api/v1/alerts").await;
        found.alerts
    }

    /// Returns the number of series of a query since that time, with a number among their values.
    pub async fn series(&self, query: &str, since: f64) -> usize {
        let found = self.range(query, since).await;
        let has_number = |series: &&Series| {
            let mut values = series.values.iter();
            values.any(|(_, value)| value.parse::<f64>().is_ok_and(|value| !value.is_nan()))
        };
        found.iter().filter(has_number).count()
    }

    /// The alerts that fired since then, each with when it first did.
    pub async fn fired(&self, since: f64) -> BTreeMap<String, f64> {
        let mut fired = BTreeMap::new();
        for series in self.range("ALERTS{alertstate=\"firing\"}", since).await {
            let name = series.metric.get("alertname").cloned().unwrap_or_default();
            let first = series
                .values
                .first()
                .map_or(f64::INFINITY, |(time, _)| *time);
            let known = fired.entry(name).or_insert(first);
            *known = first.min(*known);
        }
        fired
    }

    /// Returns the time of its clock, in seconds of Unix time.
    pub async fn time(&self) -> f64 {
        let time: Value = self.instant("time()").await;
        time["result"][0].as_f64().expect("a time")
    }

    /// The value of the first series that a query has now; `None` where it has none.
    pub async fn number(&self, query: &str) -> Option<f64> {
        let found: Value = self.instant(query).await;
        let value = found["result"][0]["value"][1].as_str();
        value.and_then(|value| value.parse().ok())
    }

    async fn instant(&self, query: &str) -> Value {
        self.get(&format!("/api/v1/query?query={}", encoded(query)))
            .await
    }

    /// The series of a query since then, at every second.
    async fn range(&self, query: &str, start: f64) -> Vec<Series> {
        let (query, end) = (encoded(query), self.time().await);
        let path = format!("/api/v1/query_range?query={query}&start={start}&end={end}&step=1");
        let found: Matrix = self.get(&path).await;
        found.result
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let answer = http::get(&self.address, path).await;
        let (status, body) = answer.unwrap_or_else(|e| panic!("Prometheus does not answer: {e}"));
        assert_eq!(status, 200, "{path}: {body}");
        let answer: Answer<T> =
            serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}: {body}"));
        answer.data
    }
}

/// A query as a part of a URL.
fn encoded(query: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    query.bytes().map(encode).collect()
}
