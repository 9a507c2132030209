//! Notes of refused agents: one log line for each member in ten minutes, and one Event if a token
//! is presented that another key has used.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use causeway::api::{Cluster, bounds};
use causeway::domain::ClusterName;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource as _};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Inner;
use super::bootstrap::BootstrapError;
use crate::registry::Origin;

/// Windows of time in which a refusal is noted once, in seconds.
const WINDOW: i64 = 600;
/// Namespace of Events about objects that have none.
const NAMESPACE: &str = "default";
/// Time for one write.
const REQUEST: Duration = Duration::from_secs(10);
/// Number of Events that are written at one time. Further ones are dropped.
const WRITES: usize = 4;

/// Notes of refused agents.
pub(super) struct Refusals {
    events: Api<Event>,
    writes: Arc<Semaphore>,
    noted: Mutex<Noted>,
}

/// A refused agent.
#[derive(Clone, Copy)]
pub(super) struct Refused<'a> {
    pub(super) name: &'a ClusterName,
    pub(super) from: Origin,
    pub(super) error: &'a BootstrapError,
}

/// Refusals of one window. A member occurs only with its own token or certificate, so that joined
/// members bound the number.
#[derive(Default)]
struct Noted {
    window: i64,
    refusals: BTreeSet<(ClusterName, &'static str)>,
}

impl Noted {
    /// Notes a refusal. Returns whether it is the first one of its kind in the window.
    fn is_first(&mut self, window: i64, name: &ClusterName, label: &'static str) -> bool {
        if window != self.window {
            let refusals = BTreeSet::new();
            *self = Self { window, refusals };
        }
        self.refusals.insert((name.clone(), label))
    }
}

impl Refusals {
    pub(super) fn new(hub: Client) -> Self {
        Self {
            events: Api::namespaced(hub, NAMESPACE),
            writes: Arc::new(Semaphore::new(WRITES)),
            noted: Mutex::default(),
        }
    }

    /// Notes a refusal if it is the first of its kind in its window. The Event is written beside
    /// the caller, who waits for nothing.
    pub(super) fn note(&self, tunnel: &Inner, refused: Refused<'_>, message: &'static str) {
        let now = Timestamp::now();
        let window = now.as_second() / WINDOW;
        let Refused { name, from, error } = refused;
        if !self.noted.lock().is_first(window, name, error.label()) {
            return;
        }
        let reason = error.to_string();
        tracing::warn!(cluster = %name, peer = %from, reason, "{message}");
        let BootstrapError::Used { cluster } = error else {
            return;
        };
        let Ok(place) = self.writes.clone().try_acquire_owned() else {
            tracing::warn!(cluster = %name, "event dropped, others are written");
            return;
        };
        let event = event(refused, cluster.clone(), &tunnel.hello.server, now);
        let (events, name) = (self.events.clone(), name.clone());
        tunnel.tasks.spawn_job("event", async move {
            write(&events, &name, &event).await;
            drop(place);
        });
    }
}

/// Returns the Event. All replicas give it the same name in a window, so that the API server stores
/// one.
fn event(
    Refused { name, from, .. }: Refused<'_>,
    cluster: Option<String>,
    reporter: &str,
    now: Timestamp,
) -> Event {
    let window = now.as_second() / WINDOW;
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.enrolment-token-reused.{window}")),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some("Enrol".to_owned()),
        reason: Some("EnrolmentTokenReused".to_owned()),
        type_: Some("Warning".to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(format!(
            "an agent {} presented the enrolment token of {name}, which another key has used, and was \
             refused. If the connected agent is not that of your cluster, unjoin {name}, and join \
             your cluster by another name or replace the authority: docs/edge.md#join-by-a-file",
            from.words()
        )),
        regarding: Some(ObjectReference {
            api_version: Some(Cluster::api_version(&()).into_owned()),
            kind: Some(Cluster::kind(&()).into_owned()),
            name: Some(name.to_string()),
            uid: cluster.map(|uid| bounds::cut(uid, bounds::UID)),
            ..ObjectReference::default()
        }),
        reporting_controller: Some("causeway-tunnel".to_owned()),
        reporting_instance: Some(bounds::cut(reporter.to_owned(), bounds::EVENT_REPORTER)),
        ..Event::default()
    }
}

async fn write(events: &Api<Event>, name: &ClusterName, event: &Event) {
    let parameters = PostParams::default();
    match timeout(REQUEST, events.create(&parameters, event)).await {
        Ok(Ok(_)) => {}
        // Another replica was first.
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => {}
        Ok(Err(error)) => tracing::warn!(cluster = %name, %error, "event write failed"),
        Err(_) => tracing::warn!(cluster = %name, "event not written in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ClusterName {
        ClusterName::try_from(name).expect("a name")
    }

    #[test]
    fn refusal_is_noted_once_for_each_member_kind_and_window() {
        let mut noted = Noted::default();
        for (window, member, label, is_first) in [
            (7, "edge1", "used", true),
            (7, "edge1", "used", false),
            (7, "edge1", "expired", true),
            (7, "edge2", "used", true),
            (8, "edge1", "used", true),
            (8, "edge1", "used", false),
        ] {
            let said = noted.is_first(window, &name(member), label);
            assert_eq!(said, is_first, "{window} {member} {label}");
        }
        assert_eq!(noted.refusals.len(), 1);
    }

    #[test]
    fn replicas_give_events_of_a_window_one_name() {
        let name = name(&"a".repeat(48));
        let refused = Refused {
            name: &name,
            from: Origin::Address(([203, 0, 113, 7], 4000).into()),
            error: &BootstrapError::Used { cluster: None },
        };
        let of = |reporter: &str, second| {
            let now = Timestamp::from_second(second).expect("a time");
            event(refused, Some("u".repeat(200)), reporter, now)
        };
        let named = |reporter, second| of(reporter, second).metadata.name;
        let first = named("tunnel-0", 1200);
        assert_eq!(first, named("tunnel-1", 1799));
        assert_ne!(first, named("tunnel-0", 1800));
        let event = of(&"r".repeat(300), 0);
        let within = |text: Option<String>, most| text.is_some_and(|text| text.len() <= most);
        assert!(within(event.metadata.name, bounds::SUBDOMAIN));
        assert!(within(event.note.clone(), bounds::EVENT_NOTE));
        assert!(within(event.reporting_instance, bounds::EVENT_REPORTER));
        assert!(within(event.regarding.and_then(|of| of.uid), bounds::UID));
        let note = event.note.unwrap_or_default();
        assert!(note.contains("from 203.0.113.7 presented"), "{note}");
        assert!(note.contains("another name or replace"), "{note}");
    }
}
