//! Programs that are measured: the controller as it is delivered, and the floor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use causeway_tests::causeway::Launch;
use causeway_tests::reaper::{Program, Reaper};
use causeway_tests::{Running, binaries, ports};
use tokio::time::sleep;

use super::relay::Wiring;
use super::sim::Simulation;
use crate::machine;

/// Maximum writes a second into one member: more than any load here, so that it is not measured.
const MEMBER_QPS: &str = "--member-qps=5000";

const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(240);

/// Directory and reaper of the programs.
pub(crate) struct Environment {
    reaper: Arc<Reaper>,
    directory: tempfile::TempDir,
}

/// Program that is measured: the controller or the floor.
pub(crate) struct Subject(pub(crate) Running);

impl Environment {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            reaper: Reaper::start(),
            directory: tempfile::tempdir()?,
        })
    }

    fn file(&self, name: &str, text: &[u8]) -> anyhow::Result<PathBuf> {
        let file = self.directory.path().join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// Starts the controller and waits until it is synced with all members but `dead`.
    pub(crate) async fn synced(
        &self,
        simulation: &Simulation,
        dead: usize,
    ) -> anyhow::Result<Subject> {
        self.synced_with(simulation, dead, &[MEMBER_QPS]).await
    }

    /// Does the same with these flags.
    pub(crate) async fn synced_with(
        &self,
        simulation: &Simulation,
        dead: usize,
        flags: &[&str],
    ) -> anyhow::Result<Subject> {
        let kubeconfig = self.file("hub.kubeconfig", simulation.kubeconfig().as_bytes())?;
        let log = self.directory.path().join("controller.log");
        let program = Program::new(binaries::causeway("causeway-controller"), log)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--allow-insecure-members")
            .args(flags.iter().copied());
        let controller = self.start(program);
        controller.synced(simulation.members() - dead).await?;
        Ok(controller)
    }

    fn start(&self, program: Program) -> Subject {
        let launch = Launch::new(self.reaper.clone(), program, ports::fresh());
        Subject(launch.start_unready())
    }

    fn relay(&self, wiring: &Wiring, list: bool) -> anyhow::Result<Subject> {
        let wiring = self.file("wiring.json", &serde_json::to_vec(wiring)?)?;
        let program = Program::new(std::env::current_exe()?, self.file("floor.log", b"")?)
            .arg("relay")
            .arg(wiring.display().to_string())
            .args(list.then_some("--list"));
        Ok(self.start(program))
    }

    /// Starts the floor and waits until it watches.
    // Only the floor watches the simulation: its watches are counted.
    pub(crate) async fn floor(&self, simulation: &Simulation) -> anyhow::Result<Subject> {
        let wiring = Wiring::of(simulation);
        let (floor, begun) = (self.relay(&wiring, false)?, Instant::now());
        while simulation.journal.watches() < wiring.providers.len() {
            let process = floor.0.process();
            let patient = begun.elapsed() < PATIENCE && process.is_running();
            let log = process.log_tail(20);
            ensure!(patient, "the floor does not watch: {log}");
            sleep(LOOK_EVERY).await;
        }
        Ok(floor)
    }

    /// Returns the time in which the floor lists all EndpointSlices of all members.
    pub(crate) async fn list_all(&self, simulation: &Simulation) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let floor = self.relay(&Wiring::of(simulation), true)?;
        let process = floor.0.process();
        let exit = process.exited(PATIENCE).await;
        let log = process.log_tail(20);
        ensure!(exit.success(), "the floor cannot list: {log}");
        Ok(begun.elapsed())
    }
}

impl Subject {
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        machine::cpu_time(self.0.process().pid())
    }

    pub(crate) fn memory(&self) -> anyhow::Result<machine::Memory> {
        machine::memory(self.0.process().pid())
    }

    /// Ends the program as a node does, so that the next one need not wait for its Lease.
    pub(crate) async fn end(self) {
        self.0.process().terminate();
        self.0.process().exited(PATIENCE).await;
    }

    /// Waits until the controller leads, has synced with so many members and has nothing to plan.
    pub(crate) async fn synced(&self, members: usize) -> anyhow::Result<()> {
        self.reaches(members, true).await
    }

    /// Waits until the controller leads and has synced with so many members, and, if `at_rest`, has
    /// nothing to plan, not even later.
    pub(crate) async fn reaches(&self, members: usize, at_rest: bool) -> anyhow::Result<()> {
        let (running, begun) = (&self.0, Instant::now());
        while !is_synced(running, members, at_rest).await {
            let patient = begun.elapsed() < PATIENCE && running.process().is_running();
            let log = || running.process().log_tail(30);
            ensure!(patient, "the controller is not synced: {}", log());
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

async fn is_synced(running: &Running, members: usize, at_rest: bool) -> bool {
    if !matches!(running.get("/readyz").await, Ok((200, _))) {
        return false;
    }
    let metrics = running.metrics().await;
    let get = |name: &str, labels: &[(&str, &str)]| {
        let name = format!("causeway_controller_{name}");
        metrics.get(&name, labels).unwrap_or_default()
    };
    let synced = get("member_state", &[("state", "synced")]);
    let is_planned = !at_rest || get("queue_keys", &[]) == 0.0;
    get("leader", &[]) == 1.0 && synced >= members as f64 && is_planned
}
