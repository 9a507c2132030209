//! Application of the answers to writes, before the watches show the same.

use causeway::domain::ServiceKey;

use super::{Member, View};
use crate::model::object::key_of;
use crate::model::slice::SliceRole;
use crate::model::{Ack, ObjectId, TimePoint};
use crate::observed::clusterset::ImportView;
use crate::observed::service::ServiceView;

impl Member {
    /// Applies the answer to a write. Returns the services of which the member may now hold an
    /// object.
    pub(in crate::observed) fn apply_ack(&mut self, ack: Ack, now: TimePoint) -> Vec<ServiceKey> {
        let mut held = Vec::new();
        let tombstones = &self.evidence.tombstones;
        match ack {
            Ack::Namespace(object) => self.namespaces.put(&object),
            Ack::Service(object) => {
                if let (Some(key), Some(view)) =
                    (key_of(&object.metadata), ServiceView::read(&object))
                {
                    held.extend([key.clone(), view.service(&key)]);
                    let has_other_type = self.has_other_type(&key);
                    self.services.apply_ack(key.clone(), view, tombstones, now);
                    if has_other_type {
                        self.note_load_balancer(key.clone(), now);
                    }
                    self.note_companion(&key);
                }
            }
            Ack::ServiceExport(object) => {
                if let Some(key) = key_of(&object.metadata)
                    && let Some(view) = self.namespaces.read_export(&object)
                {
                    held.push(key.clone());
                    let exports = &mut self.clusterset.exports;
                    exports.apply_ack(key, view, tombstones, now);
                }
            }
            Ack::ServiceImport(object) => {
                if let (Some(key), Some(view)) =
                    (key_of(&object.metadata), ImportView::read(&object))
                {
                    held.push(key.clone());
                    let imports = &mut self.clusterset.imports;
                    imports.apply_ack(key, view, tombstones, now);
                }
            }
            Ack::Slice(slice) => {
                if let SliceRole::Copy(key, copy) = &slice.role
                    && !tombstones.contains(&copy.uid.to_string())
                {
                    held.push(key.clone());
                    self.slices.apply_ack(*slice, now);
                }
            }
            Ack::Deleted(object, uid) => self.apply_deleted_ack(&object, &uid),
            Ack::MultiClusterService(_) | Ack::DnsEndpoint(_) | Ack::Cluster(_) => {}
        }
        held
    }

    fn apply_deleted_ack(&mut self, object: &ObjectId, uid: &str) {
        match object {
            ObjectId::Service(key) => self.services.note_deleted(key, uid),
            ObjectId::ServiceExport(_, key) => self.clusterset.exports.note_deleted(key, uid),
            ObjectId::ServiceImport(_, key) => self.clusterset.imports.note_deleted(key, uid),
            ObjectId::Slice(id) => self.slices.note_deleted(&id.service, &id.name, uid),
            ObjectId::Namespace(_)
            | ObjectId::ServiceExportStatus(..)
            | ObjectId::ServiceImportStatus(..)
            | ObjectId::MultiClusterService(_)
            | ObjectId::MultiClusterServiceStatus(_)
            | ObjectId::DnsEndpoint(_)
            | ObjectId::Cluster(_)
            | ObjectId::ClusterStatus(_) => {}
        }
    }
}
