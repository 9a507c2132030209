//! The processes that are measured: the controller as it is delivered, and the floor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use causeway_tests::Running;
use causeway_tests::binaries;
use causeway_tests::causeway::Launch;
use causeway_tests::reaper::{Process, Program, Reaper};
use serde_json::json;
use tokio::time::sleep;

use super::relay::{self, Encoding, Wiring};
use super::sim::simulation::Simulation;
use crate::proc;

/// Writes a second into one member: more than any load here, so that what is measured is not this limit.
pub(crate) const MEMBER_QPS: u32 = 5000;

const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(240);

/// Where processes are started.
pub(crate) struct Environment {
    reaper: Arc<Reaper>,
    directory: tempfile::TempDir,
    /// Flags of the controller beside those that it needs.
    pub(crate) flags: Vec<String>,
}

/// A program that is measured.
pub(crate) enum Subject {
    Controller(Running),
    Floor(Process),
}

impl Environment {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            reaper: Reaper::start(),
            directory: tempfile::tempdir()?,
            flags: vec![format!("--member-qps={MEMBER_QPS}")],
        })
    }

    fn file(&self, name: &str, text: &[u8]) -> anyhow::Result<PathBuf> {
        let file = self.directory.path().join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// Starts the controller for a hub, and does not wait.
    pub(crate) fn controller(&self, simulation: &Simulation) -> anyhow::Result<Subject> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": {"server": simulation.hub_url()}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "hub"}}],
            "users": [{"name": "hub", "user": {"token": "token"}}],
        });
        let kubeconfig = self.file("hub.kubeconfig", kubeconfig.to_string().as_bytes())?;
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?
            .local_addr()?
            .port();
        let log = self.directory.path().join("controller.log");
        let program = Program::new(binaries::causeway("causeway-controller"), log)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--allow-insecure-members")
            .args(self.flags.iter().cloned());
        let launch = Launch::new(self.reaper.clone(), program, port);
        Ok(Subject::Controller(launch.start_unready()))
    }

    fn relay(&self, wiring: &Wiring, list: Option<Encoding>) -> anyhow::Result<Process> {
        let wiring = self.file("wiring.json", &serde_json::to_vec(wiring)?)?;
        let program = Program::new(std::env::current_exe()?, self.file("floor.log", b"")?)
            .arg("relay")
            .arg(wiring.display().to_string())
            .args(list.map(|encoding| format!("--list={}", encoding.name())));
        Ok(self.reaper.run(program))
    }

    /// Starts the floor and waits until it watches.
    pub(crate) async fn floor(&self, wiring: impl Into<Wiring>) -> anyhow::Result<Subject> {
        let wiring = wiring.into();
        let floor = self.relay(&wiring, None)?;
        let begun = Instant::now();
        let watched = || {
            let said = floor.log_tail(wiring.providers.len());
            said.lines().filter(|line| *line == relay::WATCHES).count()
        };
        while watched() < wiring.providers.len() {
            ensure!(
                begun.elapsed() < PATIENCE && floor.is_running(),
                "the floor does not watch: {}",
                floor.log_tail(20)
            );
            sleep(LOOK_EVERY).await;
        }
        Ok(Subject::Floor(floor))
    }

    /// How long the floor takes to list all EndpointSlices of all members, and how many bytes they are.
    pub(crate) async fn list_all(
        &self,
        wiring: impl Into<Wiring>,
        encoding: Encoding,
    ) -> anyhow::Result<(Duration, f64)> {
        let begun = Instant::now();
        let floor = self.relay(&wiring.into(), Some(encoding))?;
        let exit = floor.exited(PATIENCE).await;
        let took = begun.elapsed();
        let said = floor.log_tail(20);
        ensure!(exit.success(), "the floor cannot list: {said}");
        let bytes = said.lines().last().unwrap_or_default().trim().parse();
        Ok((
            took,
            bytes.with_context(|| format!("the floor says {said:?}"))?,
        ))
    }
}

impl Subject {
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Controller(running) => running.process().pid(),
            Self::Floor(process) => process.pid(),
        }
    }

    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        proc::cpu_time(self.pid())
    }

    /// Ends it as a node does, so that the next one need not wait for its Lease.
    pub(crate) async fn end(self) {
        let process = match &self {
            Self::Controller(running) => running.process(),
            Self::Floor(process) => process,
        };
        process.terminate();
        process.exited(PATIENCE).await;
    }

    /// Waits until the controller leads, all members but some are synced, and nothing is left to be planned.
    pub(crate) async fn synced(&self, members: usize) -> anyhow::Result<()> {
        let Self::Controller(running) = self else {
            return Ok(());
        };
        let begun = Instant::now();
        loop {
            ensure!(
                running.process().is_running() && begun.elapsed() < PATIENCE,
                "the controller is not synced: {}",
                running.process().log_tail(30)
            );
            if matches!(running.get("/readyz").await, Ok((200, _)))
                && is_synced(running, members).await
            {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

async fn is_synced(running: &Running, members: usize) -> bool {
    let metrics = running.metrics().await;
    let get = |name: &str, labels: &[(&str, &str)]| {
        let name = format!("causeway_controller_{name}");
        metrics.get(&name, labels).unwrap_or_default()
    };
    let synced = get("member_state", &[("state", "synced")]);
    get("leader", &[]) == 1.0 && synced >= members as f64 && get("queue_keys", &[]) == 0.0
}
