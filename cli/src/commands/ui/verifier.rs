//! Runs of `verify` that the page starts, with the user's rights. One run is active at a time.

use std::sync::Arc;

use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::live::Note;
use crate::args::{PodArgs, WhatArgs};
use crate::cluster::access::HubArgs;
use crate::commands::verify::{self, Report};
use crate::term::exit::Failure;
use crate::views::ui::{Finished, Running, VerifyRow};

/// Maximum number of reasons for untried paths that the page receives.
const UNTRIED: usize = 20;

/// Starter of runs.
pub(super) struct Verifier {
    hub: HubArgs,
    pods: PodArgs,
    notes: mpsc::Sender<Note>,
    active: Mutex<Option<Active>>,
}

/// Started run. A dropped `stop` ends it too.
struct Active {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Verifier {
    pub(super) fn new(hub: HubArgs, pods: PodArgs, notes: mpsc::Sender<Note>) -> Self {
        Self {
            hub,
            pods,
            notes,
            active: Mutex::default(),
        }
    }

    /// Starts a run. Returns false if another run is active.
    pub(super) fn start(self: &Arc<Self>, key: ServiceKey) -> bool {
        let mut active = self.active.lock();
        if active.as_ref().is_some_and(|run| !run.task.is_finished()) {
            return false;
        }
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(self.clone().verify(key, stopped));
        *active = Some(Active { stop, task });
        true
    }

    /// Ends the active run, and returns once its pods are deleted.
    pub(super) async fn end(&self) {
        let active = self.active.lock().take();
        let Some(Active { stop, task }) = active else {
            return;
        };
        drop(stop);
        // The run reports its own failure, and the page is gone.
        task.await.ok();
    }

    async fn verify(self: Arc<Self>, key: ServiceKey, stopped: oneshot::Receiver<()>) {
        let (service, since) = (key.to_string(), Timestamp::now());
        let show = |step: String| {
            let running = Running {
                service: service.clone(),
                since,
                step,
            };
            let row = VerifyRow {
                running: Some(running),
                last: None,
            };
            // A full channel delays the loop, and the next step replaces this one.
            self.notes.try_send(Note::Verify(row)).ok();
        };
        show("reading the hub and the members".to_owned());
        let hub = HubArgs {
            namespace: Some(key.namespace.to_string()),
            ..self.hub.clone()
        };
        let what = WhatArgs {
            name: Some(key.name.to_string()),
            ..WhatArgs::default()
        };
        let stop = async {
            stopped.await.ok();
        };
        let notes = |step| {
            show(step);
            Ok(())
        };
        let report = verify::examine(&hub, (&what, &self.pods), &notes, stop).await;
        let row = VerifyRow {
            running: None,
            last: Some(finished(service, since, report)),
        };
        // The loop is gone if the program ends.
        self.notes.send(Note::Verify(row)).await.ok();
        self.notes.send(Note::Verified(key)).await.ok();
    }
}

/// Returns the row of an ended run. `time` is its start: the result that the run stores on the hub
/// is not older, and the page shows the row of a run whose result the hub lacks.
fn finished(service: String, time: Timestamp, report: Result<Report, Failure>) -> Finished {
    let (works, fails, summary, untried) = match report {
        Err(error) => (false, false, error.to_string(), Vec::new()),
        Ok(report) => {
            let results = report.services.first();
            let results = results.and_then(|one| one.verification(time));
            let nothing = || "nothing could be dialled".to_owned();
            let summary = results.map_or_else(nothing, |results| results.summary());
            let mut untried = report.untried;
            // The last reason names the result that is not stored, if it is not.
            let last = untried.pop();
            let services = report.services.iter();
            for consumer in services.flat_map(|service| &service.consumers) {
                let from = consumer.from();
                untried.extend(consumer.untried.iter().map(|why| format!("{from}: {why}")));
            }
            untried.truncate(UNTRIED - 1);
            untried.extend(last);
            let works = report.works && report.complete;
            (works, !report.works, summary, untried)
        }
    };
    Finished {
        service,
        time,
        works,
        fails,
        summary,
        untried,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_outcome_is_no_failure() {
        for (works, complete, expected) in [
            (true, true, (true, false)),
            (true, false, (false, false)),
            (false, false, (false, true)),
            (false, true, (false, true)),
        ] {
            let report = Report {
                works,
                complete,
                ..Report::default()
            };
            let row = finished(String::new(), Timestamp::UNIX_EPOCH, Ok(report));
            assert_eq!((row.works, row.fails), expected, "{works} {complete}");
        }
    }

    #[test]
    fn finished_run_has_its_start_and_the_last_untried_reason() {
        let start = Timestamp::UNIX_EPOCH;
        let mut untried = vec!["edge: no context".to_owned(); UNTRIED];
        untried.push("not stored".to_owned());
        let report = Report {
            works: true,
            complete: true,
            untried,
            ..Report::default()
        };
        let row = finished("shop/foo".to_owned(), start, Ok(report));
        assert_eq!((row.time, row.works), (start, true));
        assert_eq!(row.untried.len(), UNTRIED);
        assert_eq!(row.untried.last().map(String::as_str), Some("not stored"));
    }
}
