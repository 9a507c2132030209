//! The life of a process: it serves until a signal or a failed task, then ends in order.
//!
//! The order: unready, a short wait so that clients go elsewhere, tasks are cancelled, and awaited;
//! the last spans are sent. A second signal does not wait.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::admin::{Admin, AdminError, Serving};
use super::cpu;
use super::liveness::Liveness;
use super::metrics::Metrics;
use super::readiness::{Awaited, Readiness};
use super::supervise::{TaskFailure, Tasks};
use super::traces::{TraceConfig, TraceError, Tracer, Traces};

/// Maximum time in which tasks end once they are cancelled.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);

/// Reason why a process did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The signals cannot be received.
    #[error("signals cannot be received")]
    Signals(#[source] io::Error),
    /// The admin server cannot serve.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A task is gone that should not be.
    #[error(transparent)]
    Task(#[from] TaskFailure),
    /// A second signal came before the process had ended.
    #[error("aborted by a second signal; still running: {0}")]
    Aborted(String),
    /// Tasks did not end in time.
    #[error("not drained within {DRAIN_DEADLINE:?}; still running: {0}")]
    NotDrained(String),
}

/// A process: what it awaits, counts and runs.
#[derive(Debug)]
pub struct Process {
    /// Heartbeats that `/livez` checks.
    pub liveness: Liveness,
    /// Dependencies that it awaits before it is ready.
    pub readiness: Readiness,
    /// Its metrics.
    pub metrics: Metrics,
    /// Its tasks.
    pub tasks: Tasks,
    failures: mpsc::UnboundedReceiver<TaskFailure>,
    signals: Signals,
    admin: Serving,
    traces: Traces,
    /// Awaited until [`Process::run`]: what else there is to await may not be known before.
    start: Option<Awaited>,
}

/// SIGTERM and SIGINT.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

impl Process {
    /// Begins to receive signals and to serve the admin endpoints. The process is unready at least
    /// until [`Process::run`] is called.
    ///
    /// # Errors
    /// [`ProcessError`] where either is impossible.
    pub async fn start(admin: SocketAddr) -> Result<Self, ProcessError> {
        Self::start_with(admin, Router::new()).await
    }

    /// As [`Process::start`], with further routes of the admin server.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start_with(admin: SocketAddr, routes: Router) -> Result<Self, ProcessError> {
        let signals = Signals::install().map_err(ProcessError::Signals)?;
        let liveness = Liveness::default();
        let readiness = Readiness::default();
        let start = Some(readiness.awaits("the start"));
        let metrics = Metrics::default();
        let (tasks, failures) = Tasks::new();
        metrics.register(|registry| tasks.register(registry));
        metrics.register(cpu::register);
        let admin = Admin::bind(admin).await?;
        tracing::info!(address = %admin.address(), "admin server listens");
        let admin = admin.start(&liveness, readiness.clone(), metrics.clone(), routes)?;
        Ok(Self {
            liveness,
            readiness,
            metrics,
            tasks,
            failures,
            signals,
            admin,
            traces: Traces::default(),
            start,
        })
    }

    /// Sends traces where the configuration says, until the process has ended, under the name of
    /// that service: what begins spans.
    ///
    /// # Errors
    /// [`TraceError`] where they cannot be sent. That the collector does not answer is none: then
    /// they are dropped.
    pub fn trace(
        &mut self,
        service: &'static str,
        config: &TraceConfig,
    ) -> Result<Tracer, TraceError> {
        self.traces = Traces::start(service, config)?;
        Ok(self.traces.tracer())
    }

    /// Is ready once nothing is awaited, and serves until SIGTERM, SIGINT or a failed task, and
    /// then ends all tasks; between being unready and the end of the tasks `unready_wait` goes by.
    ///
    /// # Errors
    /// [`ProcessError`] unless a signal ended it and every task ended in order.
    pub async fn run(self, unready_wait: Duration) -> Result<(), ProcessError> {
        self.run_lingering(async move { sleep(unready_wait).await })
            .await
    }

    /// As [`Process::run`]; between being unready and the end of the tasks `linger` is awaited,
    /// which is first polled when the process is unready and [terminating](Tasks::is_terminating).
    ///
    /// # Errors
    /// As [`Process::run`].
    pub async fn run_lingering(
        mut self,
        linger: impl Future<Output = ()>,
    ) -> Result<(), ProcessError> {
        drop(self.start.take());
        let failure = self.ends().await;
        self.readiness.shut_down();
        self.tasks.begin_termination();
        let drained = async {
            linger.await;
            let drained = timeout(DRAIN_DEADLINE, self.tasks.drain()).await;
            self.traces.shut_down().await;
            drained
        };
        let drained = tokio::select! {
            _ = self.signals.next() => return Err(ProcessError::Aborted(self.tasks.to_string())),
            drained = drained => drained,
        };
        drop(self.admin);
        failure?;
        drained.map_err(|_| ProcessError::NotDrained(self.tasks.to_string()))?;
        self.failures
            .try_recv()
            .map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Waits for a reason to end.
    async fn ends(&mut self) -> Result<(), ProcessError> {
        tokio::select! {
            signal = self.signals.next() => {
                tracing::info!(signal, "shutting down");
                Ok(())
            }
            Some(failure) = self.failures.recv() => Err(failure.into()),
            ended = self.admin.ended() => Err(match ended {
                Some(Err(error)) => ProcessError::Admin(error),
                Some(Ok(())) | None => TaskFailure::Ended { task: "admin" }.into(),
            }),
        }
    }
}
