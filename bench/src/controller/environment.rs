//! Programs that are measured: those of causeway as they are delivered, and the floor.

use std::path::{Path, PathBuf};
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
    pub(crate) reaper: Arc<Reaper>,
    directory: tempfile::TempDir,
}

/// Program that is measured.
pub(crate) struct Subject(pub(crate) Running);

impl Environment {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            reaper: Reaper::start(),
            directory: tempfile::tempdir()?,
        })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a kubeconfig of the hub.
    pub(crate) fn kubeconfig(&self, simulation: &Simulation) -> anyhow::Result<PathBuf> {
        let file = self.directory().join("hub.kubeconfig");
        std::fs::write(&file, simulation.kubeconfig())
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    /// Starts a program with an admin server.
    pub(crate) fn start(&self, program: Program) -> Subject {
        let launch = Launch::new(self.reaper.clone(), program, ports::fresh());
        Subject(launch.start_unready())
    }

    /// Starts the controller and waits until it is synced with all members but `dead`.
    pub(crate) async fn synced(
        &self,
        simulation: &Simulation,
        dead: usize,
    ) -> anyhow::Result<Subject> {
        let flags = [MEMBER_QPS.to_owned()];
        self.synced_with(simulation, dead, &flags).await
    }

    /// Does the same with these flags.
    pub(crate) async fn synced_with(
        &self,
        simulation: &Simulation,
        dead: usize,
        flags: &[String],
    ) -> anyhow::Result<Subject> {
        let kubeconfig = self.kubeconfig(simulation)?;
        let log = self.directory().join("controller.log");
        let program = Program::new(binaries::causeway("causeway-controller"), log)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--allow-insecure-members")
            .args(flags.iter().cloned());
        let controller = self.start(program);
        controller.synced(simulation.members() - dead).await?;
        Ok(controller)
    }

    fn relay(&self, wiring: &Wiring, list: bool) -> anyhow::Result<Subject> {
        let file = self.directory().join("wiring.json");
        std::fs::write(&file, serde_json::to_vec(wiring)?)?;
        let log = self.directory().join("floor.log");
        let program = Program::new(std::env::current_exe()?, log)
            .arg("relay")
            .arg(file.display().to_string())
            .args(list.then_some("--list"));
        Ok(self.start(program))
    }

    /// Starts the floor and waits until it watches.
    pub(crate) async fn floor(&self, simulation: &Simulation) -> anyhow::Result<Subject> {
        let wiring = Wiring::of(simulation);
        let floor = self.relay(&wiring, false)?;
        let watches = async || simulation.journal.watches() == wiring.providers.len();
        floor.until("the floor watches", watches).await?;
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

    /// Waits until something holds. Fails if the program ends.
    pub(crate) async fn until(
        &self,
        what: &str,
        mut holds: impl AsyncFnMut() -> bool,
    ) -> anyhow::Result<()> {
        let (process, begun) = (self.0.process(), Instant::now());
        while !holds().await {
            let patient = begun.elapsed() < PATIENCE && process.is_running();
            ensure!(patient, "never: {what}; {}", process.log_tail(30));
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until the controller leads, has synced with so many members and has nothing to plan.
    pub(crate) async fn synced(&self, members: usize) -> anyhow::Result<()> {
        self.reaches(members, true).await
    }

    /// Waits until the controller leads and has synced with so many members, and, if `at_rest`, has
    /// nothing to plan, not even later.
    pub(crate) async fn reaches(&self, members: usize, at_rest: bool) -> anyhow::Result<()> {
        let is_synced = async || {
            if !matches!(self.0.get("/readyz").await, Ok((200, _))) {
                return false;
            }
            let metrics = self.0.metrics().await;
            let get = |name: &str, labels: &[(&str, &str)]| {
                let name = format!("causeway_controller_{name}");
                metrics.get(&name, labels).unwrap_or_default()
            };
            let synced = get("member_state", &[("state", "synced")]);
            let is_planned = !at_rest || get("queue_keys", &[]) == 0.0;
            get("leader", &[]) == 1.0 && synced >= members as f64 && is_planned
        };
        self.until("the controller is synced", is_synced).await
    }
}
