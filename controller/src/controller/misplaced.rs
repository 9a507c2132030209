//! ServiceExports that somebody made on the hub are reported once each.

use causeway::api::multicluster::Version;
use causeway::domain::{ClustersetKind, misplaced};
use causeway_engine::model::ObjectEvent;
use causeway_engine::reasons::Reason;

use super::Controller;
use crate::event_recorder::reference;

impl Controller {
    /// Tells of the ServiceExports on the hub that do nothing there, while this process leads.
    pub(super) fn record_misplaced(&mut self) {
        if !self.leads {
            return;
        }
        for (key, uid) in self.parts.index.take_misplaced_exports() {
            let version = Version::default().api_version();
            let kind = ClustersetKind::ServiceExport;
            let (namespace, name) = (Some(&*key.namespace), &*key.name);
            let about = reference(version, &kind.to_string(), namespace, name, Some(&uid));
            let (why, remedy) = misplaced(kind, &key);
            let event = ObjectEvent {
                warning: true,
                reason: Reason::NotAMember.into(),
                note: format!("{why}; {remedy}"),
            };
            self.record_on_hub(about, event);
        }
    }
}
