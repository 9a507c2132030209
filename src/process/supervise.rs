//! Tasks that are missed when they are gone.
//!
//! Every task of a process is spawned through [`Tasks`]. One that panics, fails, or ends although
//! it should last as long as the process, ends the process: in order, and with a non-zero exit
//! code.

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::metrics::Labels;

/// A task that is gone and should not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskFailure {
    /// It panicked; with the message of the panic.
    #[error("task {task} panicked: {message}")]
    Panicked {
        /// The name of the task.
        task: &'static str,
        /// The message of the panic.
        message: String,
    },
    /// It ended with an error.
    #[error("task {task} failed: {error}")]
    Failed {
        /// The name of the task.
        task: &'static str,
        /// The error, with its causes.
        error: String,
    },
    /// It ended although it should last as long as the process.
    #[error("task {task} ended early")]
    Ended {
        /// The name of the task.
        task: &'static str,
    },
}

/// Result of a task: nothing, or a `Result` whose error ends the process.
pub trait Outcome {
    /// The error as text, with its causes.
    fn into_error(self) -> Option<String>;
}

impl Outcome for () {
    fn into_error(self) -> Option<String> {
        None
    }
}

impl<E: Error + 'static> Outcome for Result<(), E> {
    fn into_error(self) -> Option<String> {
        self.err().map(|error| with_causes(&error))
    }
}

/// An error with what caused it, on one line; a cause that the error's own text repeats is said
/// once. What an API server answers is said in its own words, without the fields around them.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let answered = api_message(error);
        let cause = error.source().filter(|_| answered.is_none());
        let words = answered.unwrap_or_else(|| own_words(error, cause));
        if !text.contains(&words) {
            let separator = if text.is_empty() { "" } else { ": " };
            text = format!("{text}{separator}{words}");
        }
        next = cause;
    }
    text
}

/// The text of an error, without that of its cause at its end.
fn own_words(error: &dyn Error, cause: Option<&dyn Error>) -> String {
    let text = error.to_string();
    let rest = cause.and_then(|cause| text.strip_suffix(&cause.to_string()));
    match rest.map(|rest| rest.trim_end_matches([':', ' '])) {
        Some(words) if !words.is_empty() => words.to_owned(),
        _ => text,
    }
}

/// Returns the message of an API server, if the error is an answer of one.
fn api_message(error: &(dyn Error + 'static)) -> Option<String> {
    let boxed = error
        .downcast_ref::<Box<kube::Error>>()
        .map(|boxed| &**boxed);
    match error.downcast_ref::<kube::Error>().or(boxed)? {
        kube::Error::Api(status) if status.message.is_empty() => {
            Some(format!("{} ({})", status.reason, status.code))
        }
        kube::Error::Api(status) => Some(status.message.clone()),
        _ => None,
    }
}

/// The tasks of a process. Clones are the same tasks.
#[derive(Clone, Debug)]
pub struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    leaving: AtomicBool,
    shutdown: CancellationToken,
    tracker: TaskTracker,
    failures: mpsc::UnboundedSender<TaskFailure>,
    running: Mutex<BTreeMap<&'static str, usize>>,
    panics: Family<Labels<1>, Counter>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    Process,
    Own,
}

impl Tasks {
    /// No tasks yet, and where failures arrive.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<TaskFailure>) {
        let (failures, received) = mpsc::unbounded_channel();
        let tasks = Self(Arc::new(Inner {
            leaving: AtomicBool::new(false),
            shutdown: CancellationToken::new(),
            tracker: TaskTracker::new(),
            failures,
            running: Mutex::default(),
            panics: Family::default(),
        }));
        (tasks, received)
    }

    /// Registers `causeway_panics_total{task}`.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "causeway_panics",
            "Panics of tasks; those of requests, connections and streams do not end the process",
            self.0.panics.clone(),
        );
    }

    /// Spawns a task that lasts until [`Tasks::shutdown`] is cancelled. That it ends before, fails
    /// or panics ends the process.
    pub fn spawn<F>(&self, task: &'static str, future: F) -> AbortHandle
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.launch(task, Lifetime::Process, future)
    }

    /// Spawns a task that may end. That it fails or panics ends the process.
    pub fn spawn_job<F>(&self, task: &'static str, future: F) -> AbortHandle
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.launch(task, Lifetime::Own, future)
    }

    /// Runs a future whose panic is counted and logged, and does not end the process: for the work
    /// on one request.
    ///
    /// # Errors
    /// [`TaskFailure::Panicked`] where it panics.
    pub fn catch_panic<F: Future>(
        &self,
        task: &'static str,
        future: F,
    ) -> impl Future<Output = Result<F::Output, TaskFailure>> {
        // An async function would have room for the future twice: as its argument, and where it is
        // awaited.
        AssertUnwindSafe(future).catch_unwind().map(move |ended| {
            ended.map_err(|payload| {
                let failure = self.0.panicked(task, payload.as_ref());
                tracing::error!(task, error = %failure, "task failed");
                failure
            })
        })
    }

    /// Whether the process is unready for good: it still serves, and clients should go elsewhere.
    /// Precedes [`Tasks::shutdown`].
    pub fn is_terminating(&self) -> bool {
        self.0.leaving.load(Ordering::Relaxed)
    }

    /// Marks the process as terminating.
    pub(super) fn begin_termination(&self) {
        self.0.leaving.store(true, Ordering::Relaxed);
    }

    /// Cancelled when tasks are to finish what they are at and end.
    pub fn shutdown(&self) -> CancellationToken {
        self.0.shutdown.clone()
    }

    /// Asks all tasks to end, and waits until they have.
    pub(super) async fn drain(&self) {
        self.0.shutdown.cancel();
        self.0.tracker.close();
        self.0.tracker.wait().await;
    }

    /// The names of the tasks that run.
    pub(super) fn running(&self) -> Vec<&'static str> {
        let running = self.0.running.lock();
        running.keys().copied().collect()
    }

    fn launch<F>(&self, task: &'static str, lifetime: Lifetime, future: F) -> AbortHandle
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let entry = Running::enter(&inner, task);
        // Not an async block, as in `catch_panic`.
        let watched = AssertUnwindSafe(future).catch_unwind().map(move |ended| {
            drop(entry);
            inner.ended(task, lifetime, ended.map(Outcome::into_error));
        });
        self.0.tracker.spawn(watched).abort_handle()
    }
}

impl Inner {
    fn panicked(&self, task: &'static str, payload: &(dyn Any + Send)) -> TaskFailure {
        self.panics.get_or_create(&[("task", task)]).inc();
        let message = panic_message(payload);
        TaskFailure::Panicked { task, message }
    }

    fn ended(
        &self,
        task: &'static str,
        lifetime: Lifetime,
        ended: Result<Option<String>, Box<dyn Any + Send>>,
    ) {
        let early = lifetime == Lifetime::Process && !self.shutdown.is_cancelled();
        let failure = match ended {
            Err(payload) => self.panicked(task, payload.as_ref()),
            Ok(Some(error)) => TaskFailure::Failed { task, error },
            Ok(None) if early => TaskFailure::Ended { task },
            Ok(None) => return,
        };
        tracing::error!(task, error = %failure, "task failed");
        if self.failures.send(failure).is_err() {
            tracing::debug!(task, "failure not reported, the process has ended");
        }
    }
}

/// Counts a task as running until it is dropped, also where the task is aborted.
struct Running {
    inner: Arc<Inner>,
    task: &'static str,
}

impl Running {
    fn enter(inner: &Arc<Inner>, task: &'static str) -> Self {
        let mut running = inner.running.lock();
        *running.entry(task).or_default() += 1;
        Self {
            inner: Arc::clone(inner),
            task,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.inner.running.lock();
        if let Some(count) = running.get_mut(self.task) {
            *count -= 1;
            if *count == 0 {
                running.remove(self.task);
            }
        }
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no text)".to_owned())
}

impl fmt::Display for Tasks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.running().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_fails_or_ends_early_is_missed() {
        let (tasks, mut failures) = Tasks::new();
        tasks.spawn("ends", async {});
        assert_eq!(
            failures.recv().await,
            Some(TaskFailure::Ended { task: "ends" })
        );
        tasks.spawn_job("fails", async { Err(fmt::Error) });
        assert!(matches!(
            failures.recv().await,
            Some(TaskFailure::Failed { task: "fails", .. })
        ));
        tasks.spawn_job("panics", async {
            if tokio::task::try_id().is_some() {
                panic!("on purpose");
            }
        });
        assert_eq!(
            failures.recv().await,
            Some(TaskFailure::Panicked {
                task: "panics",
                message: "on purpose".into()
            })
        );
        let panics = tasks.0.panics.get_or_create(&[("task", "panics")]);
        assert_eq!(panics.get(), 1);
    }

    #[tokio::test]
    async fn a_caught_panic_is_counted_and_ends_nothing() {
        let (tasks, mut failures) = Tasks::new();
        let failure = tasks
            .catch_panic("request", async {
                if tokio::runtime::Handle::try_current().is_ok() {
                    panic!("on purpose");
                }
            })
            .await
            .expect_err("it panicked");
        assert_eq!(failure.to_string(), "task request panicked: on purpose");
        assert_eq!(tasks.catch_panic("request", async { 7 }).await, Ok(7));
        let panics = tasks.0.panics.get_or_create(&[("task", "request")]);
        assert_eq!(panics.get(), 1);
        assert!(failures.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_job_may_end_and_a_task_ends_at_the_shutdown() {
        let (tasks, mut failures) = Tasks::new();
        tasks.spawn_job("job", async {});
        let shutdown = tasks.shutdown();
        tasks.spawn("task", async move { shutdown.cancelled().await });
        let aborted = tasks.spawn("aborted", std::future::pending::<()>());
        aborted.abort();
        tasks.drain().await;
        assert!(failures.try_recv().is_err());
        assert!(tasks.running().is_empty(), "{tasks}");
    }

    #[test]
    fn causes_stand_on_one_line_without_repetition() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: inner")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("inner")]
        struct Inner(#[source] fmt::Error);
        let text = with_causes(&Outer(Inner(fmt::Error)));
        assert_eq!(
            text,
            "outer: inner: an error occurred when formatting an argument"
        );
    }

    #[test]
    fn an_api_server_is_quoted_in_its_own_words() {
        #[derive(Debug, thiserror::Error)]
        #[error("the list failed: {0}")]
        struct Wrapped(#[source] kube::Error);
        #[derive(Debug, thiserror::Error)]
        #[error("the request failed")]
        struct Boxed(#[source] Box<kube::Error>);
        let answered = |message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
            kube::Error::Api(status.boxed())
        };
        let message = "services is forbidden: User \"a\" cannot list resource \"services\"";
        for (error, text) in [
            (with_causes(&answered(message)), message.to_owned()),
            (
                with_causes(&Wrapped(answered(message))),
                format!("the list failed: {message}"),
            ),
            (
                with_causes(&Boxed(Box::new(answered(message)))),
                format!("the request failed: {message}"),
            ),
            (with_causes(&answered("")), "Forbidden (403)".to_owned()),
        ] {
            assert_eq!(error, text);
        }
    }
}
