//! Objects that somebody applied over: causeway's marks are taken off them, in one write, and they are theirs.

use causeway::api::labels;
use causeway::api::ownership::Marks;
use causeway::domain::ServiceKey;
use serde_json::Value;

use super::Target;
use crate::index::service::ServiceView;
use crate::model::{ObjectEvent, Operation, Write};

impl Target<'_> {
    /// What takes the marks of this hub's causeway off that version of an object.
    pub(super) fn release(&self, marks: &Marks, resource_version: &str) -> Option<Value> {
        let removal = marks.removal(resource_version);
        (*marks.hub == *self.hub).then_some(removal)
    }

    /// Lets go of the Service of that name, where somebody applied it. A selector that client-side apply merged into causeway's gets rid of
    /// the key that matches no pod; one that holds nothing else stays.
    pub(super) fn release_service(&self, key: &ServiceKey) -> Option<Write> {
        let service = self
            .member
            .service(key)
            .filter(|service| !service.deleting)?;
        let marks = service.marks.as_deref()?;
        let mut removal = self.release(marks, &service.resource_version)?;
        if has_leftover(service) {
            removal["spec"]["selector"][labels::NO_LOCAL_BACKENDS] = Value::Null;
        }
        let note = format!(
            "Service {key} of {} was applied by {} and is theirs from now on: it is used where its ports fit, and neither changed nor deleted",
            self.name, marks.claimant
        );
        let event = ObjectEvent {
            warning: true,
            reason: "ServiceTakenOver".to_owned(),
            note,
        };
        Some(Write::new(Operation::PatchService(key.clone(), removal)).telling([event]))
    }
}

fn has_leftover(service: &ServiceView) -> bool {
    let mut selector = service.shape.selector.iter();
    selector.len() > 1 && selector.any(|(label, _)| label == labels::NO_LOCAL_BACKENDS)
}
