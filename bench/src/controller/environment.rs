//! Programs that are measured: the controller as it is delivered, and the floor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use causeway_tests::causeway::Launch;
use causeway_tests::reaper::{Process, Program, Reaper};
use causeway_tests::{Running, binaries, ports};
use tokio::time::sleep;

use super::sim::Simulation;

/// Maximum writes a second into one member: more than any load here, so that it is not measured.
pub(crate) const FAST: &[&str] = &["--member-qps=5000"];

/// Directory and reaper of the programs.
pub(crate) struct Environment {
    pub(crate) reaper: Arc<Reaper>,
    pub(crate) directory: tempfile::TempDir,
}

impl Environment {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            reaper: Reaper::start(),
            directory: tempfile::tempdir()?,
        })
    }

    /// Writes a kubeconfig of the hub.
    pub(crate) fn kubeconfig(&self, simulation: &Simulation) -> anyhow::Result<PathBuf> {
        let file = self.directory.path().join("hub.kubeconfig");
        std::fs::write(&file, simulation.kubeconfig()).context("the kubeconfig of the hub")?;
        Ok(file)
    }

    /// Starts the controller with these flags and waits until it is synced with all members but
    /// `dead`.
    pub(crate) async fn synced(
        &self,
        simulation: &Simulation,
        dead: usize,
        flags: &[&str],
    ) -> anyhow::Result<Running> {
        let kubeconfig = self.kubeconfig(simulation)?;
        let log = self.directory.path().join("controller.log");
        let program = Program::new(binaries::causeway("causeway-controller"), log)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg("--allow-insecure-members")
            .args(flags.iter().copied());
        let launch = Launch::new(self.reaper.clone(), program, ports::fresh());
        let controller = launch.start_unready();
        until_synced(&controller, simulation.members() - dead, true).await?;
        Ok(controller)
    }

    /// Starts the floor and waits until it watches. As many services as `services` have each of
    /// these numbers of consumers.
    // Only the floor watches the simulation: its watches are counted.
    pub(crate) async fn floor(
        &self,
        simulation: &Simulation,
        services: u32,
        consumers: &[u16],
    ) -> anyhow::Result<Process> {
        let log = self.directory.path().join("floor.log");
        let program = Program::new(std::env::current_exe()?, log)
            .args(["relay", &simulation.url, &services.to_string()])
            .args(consumers.iter().map(u16::to_string));
        let floor = self.reaper.run(program);
        let watches = async || simulation.journal.watches() > 0;
        until("watched", &floor, SOON, watches).await?;
        Ok(floor)
    }
}

/// Waits until the controller leads and has synced with so many members, and, if `at_rest`, has
/// nothing to plan, not even later.
pub(crate) async fn until_synced(
    controller: &Running,
    members: usize,
    at_rest: bool,
) -> anyhow::Result<()> {
    let is_synced = async || {
        if !matches!(controller.get("/readyz").await, Ok((200, _))) {
            return false;
        }
        let metrics = controller.metrics().await;
        let get = |name: &str, labels: &[(&str, &str)]| {
            let name = format!("causeway_controller_{name}");
            metrics.get(&name, labels).unwrap_or_default()
        };
        let synced = get("member_state", &[("state", "synced")]);
        let is_planned = !at_rest || get("queue_keys", &[]) == 0.0;
        get("leader", &[]) == 1.0 && synced >= members as f64 && is_planned
    };
    // Metrics of many members are work for the controller.
    let every = Duration::from_millis(50);
    until("synced", controller.process(), every, is_synced).await
}

/// Interval of a look that costs the program nothing to speak of.
pub(crate) const SOON: Duration = Duration::from_millis(20);

/// Waits until `holds` returns true while the program runs, and at most four minutes. It is called
/// after each such interval.
pub(crate) async fn until(
    what: &str,
    program: &Process,
    every: Duration,
    holds: impl AsyncFn() -> bool,
) -> anyhow::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(240);
    let begun = Instant::now();
    while !holds().await {
        let patient = begun.elapsed() < PATIENCE && program.is_running();
        let (took, log) = (begun.elapsed(), || program.log_tail(30));
        ensure!(patient, "not {what} after {took:?}: {}", log());
        sleep(every).await;
    }
    Ok(())
}
