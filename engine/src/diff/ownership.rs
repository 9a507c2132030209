//! Removes causeway's marks from foreign objects, and the objects to which Kubernetes copied the
//! marks.

use causeway::api::labels;
use causeway::api::ownership::Marks;
use causeway::domain::ServiceKey;
use serde_json::Value;

use super::Target;
use super::copies::slice_id;
use crate::messages::events;
use crate::model::slice::Exposure;
use crate::model::{ObjectId, ObservedVersion, Operation, Write};

impl Target<'_> {
    /// Returns the patch that removes the marks of this hub's causeway from that version of an
    /// object.
    pub(super) fn release(&self, marks: &Marks, resource_version: &str) -> Option<Value> {
        let removal = marks.removal(resource_version);
        marks.may_be_of(self.hub).then_some(removal)
    }

    /// Returns the patch that releases the Service of that key if it is foreign now. It removes the
    /// selector key that matches no pod, too.
    pub(super) fn release_service(&self, key: &ServiceKey) -> Option<Write> {
        let service = self
            .member
            .service(key)
            .filter(|service| !service.deleting)?;
        let marks = service.marks.as_deref()?;
        let mut removal = self.release(marks, &service.resource_version)?;
        let mut selector = service.shape.selector.iter();
        if selector.any(|(label, _)| label == labels::NO_LOCAL_BACKENDS) {
            removal["spec"]["selector"][labels::NO_LOCAL_BACKENDS] = Value::Null;
        }
        let event = events::service_taken_over(self.name, key, marks.claimant.as_deref());
        Some(Write::patch(ObjectId::Service(key.clone()), removal).with_events([event]))
    }

    /// Deletes the slices that Kubernetes made for a Service of causeway's and no longer maintains:
    /// the Service is foreign and has no selector.
    pub(super) fn residue_writes(&self) -> impl Iterator<Item = Write> {
        let residues = self.member.residues(self.key, self.hub);
        residues.map(|(name, residue)| {
            let object = ObjectId::Slice(slice_id(self.key, Exposure::Native, name));
            let version = &residue.version;
            let observed = ObservedVersion {
                uid: version.uid.to_string().into(),
                resource_version: version.resource_version.to_string().into(),
            };
            Write::new(object, Operation::DeleteResidue(observed, self.hub.into()))
        })
    }
}
