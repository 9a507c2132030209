//! Kubernetes Events on hub objects, written beside the loop so that they never hold it up.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;

use crate::outbox::Announcement;

const WAITING_AT_MOST: usize = 1024;
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest note that the Events API takes, in bytes.
const NOTE_MAX: usize = 1024;

/// Where announcements are handed in.
#[derive(Clone, Debug)]
pub struct Announcer(mpsc::Sender<(ObjectReference, Announcement)>);

impl Announcer {
    /// An announcer, and the task that writes what it is given; the task ends with the last announcer.
    pub fn new(client: Client, instance: String) -> (Self, impl Future<Output = ()>) {
        let (sender, receiver) = mpsc::channel(WAITING_AT_MOST);
        let reporter = Reporter {
            controller: "causeway-controller".to_owned(),
            instance: Some(instance),
        };
        (
            Self(sender),
            write(Recorder::new(client, reporter), receiver),
        )
    }

    /// Hands in an announcement about an object. Where too many wait it is dropped, which is logged: events are news, not state.
    pub fn announce(&self, about: ObjectReference, announcement: Announcement) {
        tracing::info!(
            object = about.name,
            namespace = about.namespace,
            reason = announcement.reason,
            "{}",
            announcement.note
        );
        if let Err(error) = self.0.try_send((about, announcement)) {
            tracing::warn!(%error, "an event was dropped");
        }
    }
}

async fn write(recorder: Recorder, mut waiting: mpsc::Receiver<(ObjectReference, Announcement)>) {
    while let Some((about, announcement)) = waiting.recv().await {
        let type_ = if announcement.warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        let event = Event {
            type_,
            reason: announcement.reason,
            note: Some(cut(announcement.note)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        match tokio::time::timeout(DEADLINE, recorder.publish(&event, &about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "an event could not be written"),
            Err(_) => tracing::warn!("an event could not be written in time"),
        }
    }
}

fn cut(mut note: String) -> String {
    while note.len() > NOTE_MAX {
        note.pop();
    }
    note
}
