//! Kubernetes Events about objects of the hub and of members, written beside the loop so that they never hold it up.

use std::collections::HashMap;
use std::time::Duration;

use causeway::api::bounds;
use causeway::process::supervise::Tasks;
use causeway_engine::model::{Generation, Lane, ObjectEvent};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::failure::classify;
use crate::lease::{Leadership, while_leading};

const WAITING_AT_MOST: usize = 1024;
const DEADLINE: Duration = Duration::from_secs(10);
/// A writer that had nothing to write for this long ends. Longer than a recorder remembers which events are repetitions: 6 minutes.
const IDLE: Duration = Duration::from_secs(600);

/// Where events are handed in. Each cluster has a queue and a writer of its own, so that one that hangs holds up no other.
pub struct EventRecorder {
    tasks: Tasks,
    reporter: Reporter,
    leadership: watch::Receiver<Leadership>,
    writers: HashMap<Lane, Writer>,
}

struct Writer {
    generation: Generation,
    waiting: mpsc::Sender<(ObjectReference, ObjectEvent)>,
    task: AbortHandle,
}

impl EventRecorder {
    /// An event_recorder in the name of this instance of the controller, which writes only while that leads.
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

    /// Hands in an event about an object of a cluster, which `client` reaches since `generation`. Where too many wait it is
    /// dropped, which is logged: events are news, not state.
    pub fn record(
        &mut self,
        lane: &Lane,
        (client, generation): (&Client, Generation),
        about: ObjectReference,
        event: ObjectEvent,
    ) {
        tracing::info!(
            cluster = lane.name(),
            namespace = about.namespace,
            name = about.name,
            kind = about.kind,
            reason = event.reason,
            note = event.note,
            "event recorded"
        );
        let is_current =
            |writer: &Writer| writer.generation == generation && !writer.waiting.is_closed();
        let (tasks, reporter) = (&self.tasks, &self.reporter);
        if !self.writers.get(lane).is_some_and(is_current) {
            self.writers.retain(|_, writer| !writer.waiting.is_closed());
            let recorder = Recorder::new(client.clone(), reporter.clone());
            let leadership = self.leadership.clone();
            let writer = Writer::start(tasks, recorder, generation, leadership);
            if let Some(former) = self.writers.insert(lane.clone(), writer) {
                // What still waits is for a client that is not used any more.
                former.task.abort();
            }
        }
        if let Some(writer) = self.writers.get(lane)
            && let Err(error) = writer.waiting.try_send((about, event))
        {
            tracing::warn!(cluster = lane.name(), %error, "event dropped, queue full");
        }
    }
}

impl Writer {
    fn start(
        tasks: &Tasks,
        recorder: Recorder,
        generation: Generation,
        leadership: watch::Receiver<Leadership>,
    ) -> Self {
        let (waiting, receiver) = mpsc::channel(WAITING_AT_MOST);
        Self {
            generation,
            waiting,
            task: tasks.spawn_job("event_recorder", write(recorder, receiver, leadership)),
        }
    }
}

async fn write(
    recorder: Recorder,
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
        let published = timeout(DEADLINE, recorder.publish(&event, &about));
        match while_leading(&leadership, published).await {
            None | Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                tracing::warn!(error = %classify(&error), "event write failed");
            }
            Some(Err(_)) => tracing::warn!("event write timed out"),
        }
    }
}

/// The Event that tells it, within the bounds of the Events API: one that is out of them is refused as a whole.
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
