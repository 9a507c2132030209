//! Kubernetes Events about paths, at the Leases that report them.

use causeway::api::bounds;
use causeway::domain::ClusterName;
use causeway::domain::path::{self, Path};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use tokio::time::timeout;

use super::{Change, REQUEST};

/// Recorder of Events. One that fails is logged and not repeated, because Events are no state.
pub(super) struct Events {
    recorder: Recorder,
}

impl Events {
    pub(super) fn new(client: Client, holder: String) -> Self {
        let reporter = Reporter {
            controller: path::REPORTER.to_owned(),
            instance: Some(bounds::cut(holder, bounds::EVENT_REPORTER)),
        };
        Self {
            recorder: Recorder::new(client, reporter),
        }
    }

    /// Records that endpoints of a cluster answer, or do not.
    pub(super) async fn path_changed(&self, source: &ClusterName, uid: Option<String>, path: Path) {
        let (kind, reason, note) = match path {
            Path::Good => (
                EventType::Normal,
                "PathGood",
                format!("endpoints of {source} answer in this cluster again"),
            ),
            Path::Bad => (
                EventType::Warning,
                "PathBad",
                format!("no endpoint of {source} answers in this cluster"),
            ),
        };
        self.record(source, uid, event(kind, reason, note)).await;
    }

    /// Records that the agent changed EndpointSlices of a cluster, of that number, without a hub.
    pub(super) async fn changed(
        &self,
        source: &ClusterName,
        uid: Option<String>,
        slices: usize,
        change: Change,
    ) {
        let event = match change {
            Change::Lower => event(
                EventType::Warning,
                "MadeStandby",
                format!(
                    "made {slices} of its EndpointSlices standby: no endpoint of {source} answers, \
                     and no controller notes it"
                ),
            ),
            Change::Delete => event(
                EventType::Warning,
                "Deleted",
                format!(
                    "deleted {slices} of its EndpointSlices: no endpoint of {source} has answered for \
                     --provider-ttl, and no controller notes it"
                ),
            ),
            Change::Raise => event(
                EventType::Normal,
                "MadeReady",
                format!(
                    "made {slices} of its EndpointSlices ready: endpoints of {source} answer again"
                ),
            ),
        };
        self.record(source, uid, event).await;
    }

    async fn record(&self, source: &ClusterName, uid: Option<String>, event: Event) {
        let about = ObjectReference {
            api_version: Some(Lease::api_version(&()).into_owned()),
            kind: Some(Lease::kind(&()).into_owned()),
            namespace: Some(path::NAMESPACE.to_owned()),
            name: Some(path::lease_name(source)),
            uid,
            ..ObjectReference::default()
        };
        match timeout(REQUEST, self.recorder.publish(&event, &about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let reason = event.reason;
                tracing::warn!(cluster = %source, reason, %error, "event write failed");
            }
            Err(_) => {
                let reason = event.reason;
                tracing::warn!(cluster = %source, reason, "event not written in time");
            }
        }
    }
}

fn event(kind: EventType, reason: &str, note: String) -> Event {
    Event {
        type_: kind,
        reason: reason.to_owned(),
        note: Some(note),
        action: "Probe".to_owned(),
        secondary: None,
    }
}
