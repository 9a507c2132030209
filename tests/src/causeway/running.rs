//! A process of causeway: a webhook or a controller.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::eventually::{LONG, eventually};
use crate::http;
use crate::metrics::Metrics;
use crate::reaper::{Process, Program, Reaper};

const READY: Duration = LONG;

/// A process to be started.
pub struct Launch {
    reaper: Arc<Reaper>,
    program: Program,
    admin: String,
    bind: String,
    tls: PathBuf,
}

impl Launch {
    /// This program, with its admin endpoints on that port of the loopback.
    pub fn new(reaper: Arc<Reaper>, program: Program, admin_port: u16) -> Self {
        let admin = format!("127.0.0.1:{admin_port}");
        Self {
            reaper,
            program: program.arg(format!("--admin-bind={admin}")),
            admin,
            bind: String::new(),
            tls: PathBuf::new(),
        }
    }

    pub(crate) fn serving(mut self, bind: &str, tls: &Path) -> Self {
        self.bind = bind.to_owned();
        self.tls = tls.to_path_buf();
        self
    }

    /// Adds a flag.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.program = self.program.arg(arg);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.program = self.program.env(name, value);
        self
    }

    /// Runs it in a network namespace. Its admin endpoints are on the loopback there, so
    /// [`Launch::start_unready`] starts it.
    #[must_use]
    pub fn in_network(mut self, namespace: &str) -> Self {
        self.program = self.program.in_network(namespace);
        self
    }

    /// Has its resolver read this file in place of `/etc/resolv.conf`. Needs root.
    #[must_use]
    pub fn with_resolv_conf(mut self, file: &Path) -> Self {
        self.program = self.program.with_resolv_conf(file);
        self
    }

    /// Has its log go to this file, which may be a pipe.
    #[must_use]
    pub fn log_to(mut self, file: impl Into<PathBuf>) -> Self {
        self.program = self.program.stderr(file);
        self
    }

    /// Runs it on this core only.
    #[must_use]
    pub fn on_core(mut self, core: usize) -> Self {
        self.program = self.program.on_core(core);
        self
    }

    /// The command line.
    pub fn command(&self) -> String {
        self.program.command()
    }

    /// Starts it and waits until it is ready.
    pub async fn start(self) -> Running {
        let running = self.start_unready();
        running.ready().await;
        running
    }

    /// Starts it and does not wait.
    pub fn start_unready(self) -> Running {
        Running {
            process: self.reaper.run(self.program),
            admin: self.admin,
            bind: self.bind,
            tls: self.tls,
        }
    }
}

/// A webhook or a controller that was started. Dropping it kills it.
pub struct Running {
    process: Process,
    admin: String,
    bind: String,
    tls: PathBuf,
}

impl Running {
    /// The process: to be killed, terminated, paused, and its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the process alone.
    pub(crate) fn into_process(self) -> Process {
        self.process
    }

    /// Host and port of its admin endpoints.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// Host and port that a webhook serves on; empty for a controller.
    pub fn bind(&self) -> &str {
        &self.bind
    }

    /// The directory of a webhook's certificate: `tls.crt` and `tls.key`.
    pub fn tls(&self) -> &Path {
        &self.tls
    }

    /// Waits until `/readyz` says 200.
    pub async fn ready(&self) {
        eventually("/readyz says 200", READY, || async {
            assert!(
                self.process.is_running(),
                "it ended: {:?}\n{}",
                self.process.exit(),
                self.process.log_tail(40)
            );
            match self.get("/readyz").await {
                Ok((200, _)) => Ok(()),
                Ok((status, body)) => Err(format!("{status}: {body}")),
                Err(e) => Err(e.to_string()),
            }
        })
        .await;
    }

    /// Kills it, starts it again with the same flags, and waits until it is ready.
    pub async fn restart(&self) {
        self.process.restart().await;
        self.ready().await;
    }

    /// Ends it in order, starts it again with the same flags, and waits until it is ready. A
    /// controller gives its Lease up, so that it leads at once: before it has observed anything.
    pub async fn restart_in_order(&self) {
        self.process.end().await;
        self.restart().await;
    }

    /// Asks an admin endpoint: the status and the body.
    ///
    /// # Errors
    /// Where no HTTP answer comes: the process is not there, or is paused.
    pub async fn get(&self, path: &str) -> std::io::Result<(u16, String)> {
        http::get(&self.admin, path).await
    }

    /// Returns `/metrics` as OpenMetrics, with exemplars, as Prometheus requests it.
    pub async fn openmetrics(&self) -> String {
        let accept = "application/openmetrics-text; version=1.0.0";
        let answer = http::get_accepting(&self.admin, "/metrics", accept).await;
        let (status, text) = answer.expect("an answer of /metrics");
        assert_eq!(status, 200, "{text}");
        text
    }

    /// Returns `/metrics`.
    pub async fn metrics(&self) -> Metrics {
        let (status, text) = self.get("/metrics").await.expect("an answer of /metrics");
        assert_eq!(status, 200, "{text}");
        Metrics::parse(&text)
    }
}
