//! Exports that were observed deleted, as long as imports or copies name their cluster.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::member::Member;
use crate::evidence::initial_list::hash;
use crate::model::MemberState;
use crate::model::map::{HashMap, HashSet};
use crate::model::slice::Exposure;

/// Imports and copies that named a cluster as an exporter when its export was observed deleted, as
/// hashes of their UIDs, by service and cluster. Those that appear later follow from a later
/// export. An entry is dropped with the last of its imports and copies.
pub(super) type DeletedExports = HashMap<ServiceKey, BTreeMap<ClusterName, HashSet<u64>>>;

impl Index {
    /// Whether this process may lack a member's export of the service, which an import or a copy
    /// records: the member is not synced, its exports were not listed since it was engaged
    /// again, or their watch fails. Another leader may have observed the export. If this process
    /// observed it deleted, except with its definition, only an import or a copy that appeared
    /// later counts.
    pub(crate) fn may_lack_export(&self, key: &ServiceKey, name: &ClusterName) -> bool {
        let member = self.members.get(name);
        let is_current = member.is_some_and(Member::exports_are_current);
        if is_current && self.member_state(name) == MemberState::Synced {
            return false;
        }
        let deleted = self.deleted_exports.get(key).and_then(|all| all.get(name));
        let mut records = self.export_records(key, name);
        records.any(|record| deleted.is_none_or(|deleted| !deleted.contains(&record)))
    }

    /// Notes which of these exports of a member are deleted or terminating, after an event of its
    /// exports.
    pub(super) fn note_deleted_exports(
        &mut self,
        name: &ClusterName,
        changed: &HashSet<ServiceKey>,
    ) {
        for key in changed {
            let member = self.members.get(name);
            if member.is_some_and(|member| member.export(key).is_some()) {
                if let Some(all) = self.deleted_exports.get_mut(key) {
                    all.remove(name);
                }
                continue;
            }
            let records = self.export_records(key, name).collect();
            let all = self.deleted_exports.entry(key.clone()).or_default();
            all.insert(name.clone(), records);
        }
    }

    /// Drops all deleted exports that no import and no copy records any more.
    pub(super) fn drop_unrecorded_exports(&mut self) {
        let deleted: Vec<_> = self.deleted_exports.keys().cloned().collect();
        self.drop_deleted_exports(&deleted);
    }

    /// Drops the deleted exports of these services that no import and no copy records any more.
    pub(super) fn drop_deleted_exports<'a>(
        &mut self,
        keys: impl IntoIterator<Item = &'a ServiceKey>,
    ) {
        if self.deleted_exports.is_empty() {
            return;
        }
        for key in keys {
            let Some(mut all) = self.deleted_exports.remove(key) else {
                continue;
            };
            all.retain(|name, deleted| {
                let mut records = self.export_records(key, name);
                records.any(|record| deleted.contains(&record))
            });
            if !all.is_empty() {
                self.deleted_exports.insert(key.clone(), all);
            }
        }
    }

    /// Lists the imports and copies of the service that name the cluster as an exporter, by the
    /// hashes of their UIDs.
    fn export_records<'a>(
        &'a self,
        key: &'a ServiceKey,
        name: &'a ClusterName,
    ) -> impl Iterator<Item = u64> + 'a {
        let (hub, id) = (self.hub_uid(), self.recorded_id(name));
        let is_named = move |recorded: &str| recorded == name.as_str() || Some(recorded) == id;
        self.holders(key).flat_map(move |(_, member)| {
            let import = member.import(key).filter(|import| {
                let mut exporters = import.status.clusters.iter();
                import.exposure(hub) == Some(Exposure::Clusterset)
                    && exporters.any(|exporter| is_named(&exporter.cluster))
            });
            let copies = member.copies(key).filter(move |(_, copy)| {
                let source = copy.view.source_cluster.as_deref();
                copy.view.is_of(hub, Exposure::Clusterset) && source == Some(name.as_str())
            });
            let copies = copies.map(|(_, copy)| hash(&copy.view.uid));
            import
                .map(|import| hash(&import.uid))
                .into_iter()
                .chain(copies)
        })
    }
}
