//! ServiceExports that somebody made on the hub are reported once each.

use causeway::api::multicluster::Version;
use causeway::domain::{ClustersetKind, misplaced};
use causeway_engine::model::{ObjectEvent, TargetCluster};
use causeway_engine::reasons::Reason;
use k8s_openapi::api::core::v1::ObjectReference;

use super::{Controller, Parts};
use crate::event_recorder::EventClient;

impl Controller {
    /// Tells of the ServiceExports on the hub that do nothing there, while this process leads.
    pub(super) fn record_misplaced(&mut self) {
        if !self.leads {
            return;
        }
        let Parts {
            index,
            hub,
            event_recorder,
            ..
        } = &mut self.parts;
        for (key, uid) in index.take_misplaced_exports() {
            let about = ObjectReference {
                api_version: Some(Version::default().api_version()),
                kind: Some(ClustersetKind::ServiceExport.to_string()),
                namespace: Some(key.namespace.to_string()),
                name: Some(key.name.to_string()),
                uid: Some(uid.into()),
                ..ObjectReference::default()
            };
            let (why, remedy) = misplaced(ClustersetKind::ServiceExport, &key);
            let event = ObjectEvent {
                warning: true,
                reason: Reason::NotAMember.into(),
                note: format!("{why}; {remedy}"),
            };
            event_recorder.record(&TargetCluster::Hub, EventClient::of_hub(hub), about, event);
        }
    }
}
