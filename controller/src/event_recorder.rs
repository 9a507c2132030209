//! Kubernetes Events about objects of the hub and of members, written beside the loop so that they
//! never hold it up.

use std::collections::HashMap;
use std::time::Duration;

use causeway::api::bounds;
use causeway::process::backoff::Backoff;
use causeway::process::supervise::Tasks;
use causeway_engine::model::{Failure, FailureKind, Generation, ObjectEvent, TargetCluster};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::failure::classify;
use crate::lease::{Leadership, while_leading};

const WAITING_AT_MOST: usize = 1024;
const DEADLINE: Duration = Duration::from_secs(10);
/// An event is written in so many attempts at most. The pauses between them are half a minute in
/// all.
const ATTEMPTS: u32 = 8;
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// So many notes are kept in mind, of which a repetition counts as one.
const NOTES_AT_MOST: usize = 256;
/// A writer that had nothing to write for this long ends. Longer than a recorder remembers which
/// events are repetitions: 6 minutes.
const IDLE: Duration = Duration::from_secs(600);

/// Recorder of Kubernetes Events. Each cluster has a queue and a writer of its own, so a cluster
/// that hangs delays no other.
pub struct EventRecorder {
    tasks: Tasks,
    reporter: Reporter,
    leadership: watch::Receiver<Leadership>,
    writers: HashMap<TargetCluster, Writer>,
}

/// Client through which Events about a cluster are written.
#[derive(Clone, Copy)]
pub struct EventClient<'a> {
    /// The client.
    pub client: &'a Client,
    /// Generation of the engagement that the client belongs to; 0 on the hub.
    pub generation: Generation,
}

impl<'a> EventClient<'a> {
    /// Returns the client of the hub.
    pub fn of_hub(client: &'a Client) -> Self {
        Self {
            client,
            generation: 0,
        }
    }
}

/// Returns the reference of an object that Events are about.
pub fn reference(
    api_version: impl Into<String>,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    uid: Option<&str>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.into()),
        kind: Some(kind.to_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        name: Some(name.to_owned()),
        uid: uid.map(ToOwned::to_owned),
        ..ObjectReference::default()
    }
}

struct Writer {
    generation: Generation,
    waiting: mpsc::Sender<(ObjectReference, ObjectEvent)>,
    task: AbortHandle,
}

impl EventRecorder {
    /// An event_recorder in the name of this instance of the controller, which writes only while
    /// that leads.
    pub fn new(tasks: Tasks, instance: String, leadership: watch::Receiver<Leadership>) -> Self {
        Self {
            tasks,
            reporter: Reporter {
                controller: "causeway-controller".to_owned(),
                instance: Some(bounds::cut(instance, bounds::EVENT_REPORTER)),
            },
            leadership,
            writers: HashMap::new(),
        }
    }

    /// Queues an event about an object of a cluster. A failed write is retried for half a minute;
    /// an event that meets a full queue is logged and dropped, because events are no state.
    pub fn record(
        &mut self,
        target: &TargetCluster,
        through: EventClient<'_>,
        about: ObjectReference,
        event: ObjectEvent,
    ) {
        tracing::info!(
            cluster = target.name(),
            namespace = about.namespace,
            name = about.name,
            kind = about.kind,
            reason = event.reason,
            note = event.note,
            "event recorded"
        );
        let is_current = |writer: &Writer| {
            writer.generation == through.generation && !writer.waiting.is_closed()
        };
        if !self.writers.get(target).is_some_and(is_current) {
            self.writers.retain(|_, writer| !writer.waiting.is_closed());
            let recorders = Recorders {
                client: through.client.clone(),
                reporter: self.reporter.clone(),
                by_note: HashMap::new(),
            };
            let (waiting, receiver) = mpsc::channel(WAITING_AT_MOST);
            let written = write(recorders, receiver, self.leadership.clone());
            let writer = Writer {
                generation: through.generation,
                waiting,
                task: self.tasks.spawn_job("event_recorder", written),
            };
            if let Some(former) = self.writers.insert(target.clone(), writer) {
                // What still waits is for a client that is not used any more.
                former.task.abort();
            }
        }
        if let Some(writer) = self.writers.get(target)
            && let Err(error) = writer.waiting.try_send((about, event))
        {
            tracing::warn!(cluster = target.name(), %error, "event dropped, queue full");
        }
    }
}

/// kube's recorder counts an event as a repetition of one that differs in its note alone, and keeps
/// the note of the first. So there is one for each note.
struct Recorders {
    client: Client,
    reporter: Reporter,
    by_note: HashMap<Option<String>, Recorder>,
}

impl Recorders {
    /// Writes an event, or counts it as one more of the same.
    async fn publish(&mut self, event: &Event, about: &ObjectReference) -> Result<(), Failure> {
        if self.by_note.len() >= NOTES_AT_MOST && !self.by_note.contains_key(&event.note) {
            self.by_note.clear();
        }
        let recorder = self
            .by_note
            .entry(event.note.clone())
            .or_insert_with(|| Recorder::new(self.client.clone(), self.reporter.clone()));
        let published = match timeout(DEADLINE, recorder.publish(event, about)).await {
            Ok(published) => published.map_err(|error| classify(&error)),
            Err(_) => Err(Failure::timeout()),
        };
        if let Err(failure) = &published
            && failure.kind == FailureKind::NotFound
        {
            // The next attempt makes one of its own.
            self.by_note.remove(&event.note);
        }
        published
    }
}

async fn write(
    mut recorders: Recorders,
    mut waiting: mpsc::Receiver<(ObjectReference, ObjectEvent)>,
    leadership: watch::Receiver<Leadership>,
) {
    loop {
        let next = match timeout(IDLE, waiting.recv()).await {
            Ok(next) => next,
            Err(_) => {
                waiting.close();
                waiting.recv().await
            }
        };
        let Some((about, event)) = next else {
            return;
        };
        let event = event_of(event);
        let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY);
        for attempt in 1..=ATTEMPTS {
            let published = recorders.publish(&event, &about);
            let Some(Err(failure)) = while_leading(&leadership, published).await else {
                break;
            };
            if attempt == ATTEMPTS || !may_pass(&failure, attempt) {
                tracing::warn!(reason = event.reason, error = %failure, "event write failed");
                break;
            }
            sleep(backoff.pause()).await;
        }
    }
}

/// Whether an event that was not taken for that may be taken at the next attempt.
fn may_pass(failure: &Failure, attempt: u32) -> bool {
    match failure.kind {
        FailureKind::Conflict | FailureKind::TooMany => true,
        // The Event of which it was a repetition is gone, or else its namespace.
        FailureKind::NotFound => attempt == 1,
        _ => failure.is_connection(),
    }
}

/// The Event that tells it, within the bounds of the Events API: one that is out of them is refused
/// as a whole.
fn event_of(event: ObjectEvent) -> Event {
    Event {
        type_: match event.warning {
            true => EventType::Warning,
            false => EventType::Normal,
        },
        reason: bounds::cut_reasons(event.reason, bounds::EVENT_REASON),
        note: Some(bounds::cut(event.note, bounds::EVENT_NOTE)),
        action: "Reconcile".to_owned(),
        secondary: None,
    }
}
