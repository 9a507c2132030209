//! Compares the desired with the observed state, and returns the writes between them. Every
//! decision to delete is made here.
//!
//! A copy is deleted only if its source's cluster was observed without the source, or the hub no
//! longer wants it. The controller does not write to a member that is not synced, as its objects
//! are unknown.

mod companions;
mod comparison;
mod copies;
mod ending;
mod name;
mod ownership;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use causeway::api::labels;
use causeway::api::multicluster::Version;
use causeway::api::ownership::{NAMESPACE_OWNER, NATIVE_OWNER};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::comparison::hub_write;
pub use self::comparison::{Diff, Moment, NewerCopy};
pub(crate) use self::name::name_write;
use crate::messages::events;
use crate::model::slice::Exposure;
use crate::model::{MemberState, ObjectId, TargetCluster, Write};
use crate::observed::Index;
use crate::observed::clusterset::ImportView;
use crate::observed::member::{Member, Membership, NamespaceState};
use crate::observed::service::ServiceView;
use crate::plan::clusterset::import::{ImportPlan, OwnImport};
use crate::plan::clusterset::{Clusterset, Imports};
use crate::plan::copies::DesiredCopies;
use crate::plan::service::{DesiredService, OwnService};
use crate::plan::{Desired, DesiredMember, Members, publish};

/// Time after which a name that another object had is checked again: the removal of that object may
/// mark no service.
const TAKEN: Duration = Duration::from_secs(30);

/// Compares the desired with the observed state of a service.
pub fn diff(desired: &Desired, index: &Index, key: &ServiceKey, moment: Moment) -> Diff {
    let mut diff = Diff::default();
    let mcs = index.multi_cluster_service(key);
    let unconfirmed = mcs.is_none() && !index.is_absence_confirmed(key);
    let is_suspected = index.suspected_services() > 0;
    diff.look_up = unconfirmed && !is_suspected && index.owns_native(key);
    // Beside Karmada only existing objects are guarded.
    let guards = || desired.karmada.is_none() || index.owns_native(key);
    let unguarded = mcs.filter(|mcs| {
        !desired.members.is_untouched()
            && !mcs.is_deleting()
            && !mcs.finalizers.have_ours()
            && guards()
    });
    if let Some(mcs) = unguarded {
        let patch = mcs.finalizers.with_ours(&mcs.resource_version);
        diff.writes
            .insert(TargetCluster::Hub, vec![hub_write(key, patch)]);
    }
    // The first objects alone wait for the finalizer: leftovers are collected by their label.
    let is_due = unguarded.is_none() || index.owns_native(key);
    let native = match &desired.members {
        Members::Wanted(members) if !unconfirmed && is_due => Some(members),
        _ => None,
    };
    let wanted = native.into_iter().flat_map(BTreeMap::keys);
    let wanted = wanted.chain(desired.clusterset.imports.names());
    let wanted = wanted.chain(desired.clusterset.published.keys());
    let wanted = wanted.chain(desired.companions.wanted.keys());
    let holders = index.holders(key).map(|(name, _)| name);
    let concerned: BTreeSet<_> = wanted.chain(holders).collect();
    for name in concerned {
        let is_synced = index.member_state(name) == MemberState::Synced;
        let Some(member) = index.member(name).filter(|_| is_synced) else {
            continue;
        };
        let target = Target {
            name,
            member,
            index,
            hub: index.hub_uid(),
            key,
        };
        if target.has_taken_names(native.and_then(|members| members.get(name)), desired) {
            diff.again_at = Some(moment.now.after(TAKEN));
        }
        let writes = target.writes(native, desired, &mut diff);
        if !writes.is_empty() {
            diff.writes
                .insert(TargetCluster::Member(name.clone()), writes);
        }
    }
    if let Some(mcs) = mcs {
        ending::let_go(&mut diff, index, key, mcs, moment);
        if desired.karmada.is_some() {
            ending::hand_over(&mut diff, index, key, mcs, moment);
        }
    }
    diff
}

/// A member, and the service that is compared.
struct Target<'a> {
    name: &'a ClusterName,
    member: &'a Member,
    index: &'a Index,
    hub: &'a str,
    key: &'a ServiceKey,
}

impl<'a> Target<'a> {
    /// Whether another object has the name of a copy that the member should hold.
    fn has_taken_names(&self, native: Option<&DesiredMember>, desired: &Desired) -> bool {
        let native = native.map(|desired| &desired.copies);
        let imported = desired.clusterset.imports.of(self.name);
        let imported = imported.map(|desired| &desired.copies);
        let mut all = native.into_iter().chain(imported);
        all.any(|copies| copies.taken_names(self.member, self.key).next().is_some())
    }

    /// Returns all writes to the member. `native` has the desired objects of every consumer, if
    /// they may be compared.
    fn writes(
        &self,
        native: Option<&BTreeMap<ClusterName, DesiredMember>>,
        desired: &Desired,
        diff: &mut Diff,
    ) -> Vec<Write> {
        let of_member = native.map(|members| members.get(self.name));
        let of_native = of_member.map(|desired| self.native_writes(desired, diff));
        let mut imported = self.clusterset_writes(&desired.clusterset, native.is_some(), diff);
        imported.extend(self.companion_write(desired, native.is_some()));
        let leaves = of_member.is_some_and(|desired| desired.is_none());
        self.in_namespace(of_native.unwrap_or_default(), imported, leaves)
    }

    fn native_writes(&self, desired: Option<&DesiredMember>, diff: &mut Diff) -> Vec<Write> {
        let service = match desired {
            Some(desired) => self.service_write(self.key, &desired.service),
            None => self.service_removal(self.key, |service| service.is_delivered_by(self.hub)),
        };
        let none = DesiredCopies::of_no_consumer();
        let copies = desired.map_or(&none, |desired| &desired.copies);
        let copies = self.copy_writes(Exposure::Native, copies, diff);
        let writes = service.into_iter().chain(copies);
        writes.chain(self.residue_writes()).collect()
    }

    /// Returns the writes on behalf of the clusterset. Returns none if the
    /// members are to remain as they are, and for a member whose ServiceExports and ServiceImports
    /// are not listed, as its objects are unknown. Objects on behalf of a MultiClusterService are
    /// written only if the hub's desired state is known (`native`).
    fn clusterset_writes(
        &self,
        clusterset: &Clusterset,
        native: bool,
        diff: &mut Diff,
    ) -> Vec<Write> {
        let (Imports::Wanted(members), Membership::Part { exports, imports }) =
            (&clusterset.imports, self.member.membership())
        else {
            return Vec::new();
        };
        let desired = members.get(self.name);
        let derived = self.key.derived();
        let service = match desired.and_then(|desired| desired.service.as_ref()) {
            Some(service) => self.service_write(&derived, service),
            None => self.service_removal(&derived, |service| {
                service.is_derived_for(self.key, self.hub)
            }),
        };
        let none = DesiredCopies::of_no_consumer();
        let copies = desired.map_or(&none, |desired| &desired.copies);
        let copies = self.copy_writes(Exposure::Clusterset, copies, diff);
        let import = imports.and_then(|served| {
            let desired = desired.map(|desired| &desired.import);
            self.import_write(served.version, desired, native)
        });
        let published = clusterset.published.get(self.name);
        let export = exports.and_then(|version| self.export_write(version, published, native));
        let objects = import.into_iter().chain(export).chain(service);
        objects.chain(copies).collect()
    }

    /// Returns the deletion of the Service of that key if it is causeway's, or the patch that
    /// releases a foreign one.
    fn service_removal(
        &self,
        key: &ServiceKey,
        is_own: impl Fn(&ServiceView) -> bool,
    ) -> Option<Write> {
        let service = self.member.service(key);
        let own = service.filter(|service| is_own(service) && !service.deleting);
        let deletion = own.map(|service| delete_service(key, service));
        deletion.or_else(|| self.release_service(key))
    }

    /// Returns the write of an export on behalf of a MultiClusterService, or of a namespace whose
    /// Services are exported.
    fn export_write(
        &self,
        version: Version,
        owner: Option<&String>,
        native: bool,
    ) -> Option<Write> {
        let object = ObjectId::ServiceExport(version, self.key.clone());
        let known = self.member.written_export(self.key);
        match (owner, known) {
            (Some(owner), None) if native || owner.starts_with(NAMESPACE_OWNER) => {
                let export = publish::export(self.key, version, self.hub, owner);
                Some(Write::create(object, &export))
            }
            (None, Some(known)) if !known.is_deleted() && !known.view.deleting => {
                let view = &known.view;
                let ours = native && view.exposure(self.hub) == Some(Exposure::Native)
                    || view.is_of_namespace(self.hub);
                ours.then(|| Write::delete(object, &view.uid, &view.resource_version))
            }
            _ => None,
        }
    }

    /// Returns the writes that the state of the namespace permits. If it is missing, it is created
    /// first, if an object is to be created in it. A terminating namespace may last: nothing is
    /// written to it unless the service `leaves` the member.
    fn in_namespace(&self, native: Vec<Write>, imported: Vec<Write>, leaves: bool) -> Vec<Write> {
        let makes = |write: &Write| write.operation().verb() == "create";
        match self.member.namespace(&self.key.namespace) {
            NamespaceState::Active => native.into_iter().chain(imported).collect(),
            NamespaceState::Missing if native.iter().chain(&imported).any(makes) => {
                vec![create_namespace(&self.key.namespace)]
            }
            NamespaceState::Terminating if leaves => native,
            NamespaceState::Missing | NamespaceState::Terminating => Vec::new(),
        }
    }

    fn service_write(&self, key: &ServiceKey, desired: &DesiredService) -> Option<Write> {
        let DesiredService::Own(own) = desired else {
            return self.release_service(key);
        };
        match self.member.written_service(key) {
            None => {
                let object = ObjectId::Service(key.clone());
                Some(Write::create(object, &own.object(key, self.hub)))
            }
            // A Service that is terminating is recreated once it is seen gone.
            Some(known) if known.is_deleted() || known.view.deleting => None,
            Some(known) if own.is_met_by(&known.view) => None,
            Some(known) if own.can_become(&known.view) => {
                let patch = own.patch(&known.view, key, self.hub);
                Some(Write::patch(ObjectId::Service(key.clone()), patch))
            }
            Some(known) => Some(replace_service(self.name, key, own, &known.view)),
        }
    }

    fn import_write(
        &self,
        version: Version,
        desired: Option<&ImportPlan>,
        native: bool,
    ) -> Option<Write> {
        let object = ObjectId::ServiceImport(version, self.key.clone());
        let known = self.member.written_import(self.key);
        // An import that is terminating is recreated once it is seen gone.
        if known.is_some_and(|known| known.is_deleted() || known.view.deleting) {
            return None;
        }
        let view = known.map(|known| &known.view);
        if let Some((import, marks)) = view.and_then(|view| Some((view, view.marks.as_ref()?))) {
            let removal = self.release(marks, &import.resource_version)?;
            return Some(Write::patch(object, removal));
        }
        let ours = view.filter(|import| match import.exposure(self.hub) {
            Some(Exposure::Native) => native,
            Some(Exposure::Clusterset) => true,
            None => false,
        });
        let is_due = |own: &OwnImport| native || !own.owner.starts_with(NATIVE_OWNER);
        match (desired, known, ours) {
            (Some(ImportPlan::Own(own)), ..) if !is_due(own) => None,
            (Some(ImportPlan::Own(own)), None, _) => {
                let import = own.object(self.key, version, self.hub);
                Some(Write::create(object, &import))
            }
            (Some(ImportPlan::Own(own)), _, Some(import)) if !own.is_met_by(import, self.hub) => {
                Some(Write::patch(object, own.patch(import, self.hub)))
            }
            (None, _, Some(import)) if !self.is_record(import) => {
                Some(Write::delete(object, &import.uid, &import.resource_version))
            }
            _ => None,
        }
    }

    /// Whether the import still records whose exports the other objects came from. Without it they
    /// would have no known exporters, and would be retained and restored while any member is
    /// unknown.
    fn is_record(&self, import: &ImportView) -> bool {
        let derived = self.key.derived();
        import.exposure(self.hub) == Some(Exposure::Clusterset)
            && self.member.owns_behind_import(self.key, &derived, self.hub)
    }
}

/// Returns the deletion of a Service that has to be recreated: an address cannot be assigned to an
/// existing Service or removed from it. An Event reports it unless the Service is a derived one.
fn replace_service(
    name: &ClusterName,
    key: &ServiceKey,
    own: &OwnService,
    observed: &ServiceView,
) -> Write {
    let is_reported = own.derived.is_none();
    let (was, wanted) = (observed.shape.kind, own.shape.kind);
    let event = is_reported.then(|| events::service_recreated(name, key, was, wanted));
    delete_service(key, observed).with_events(event)
}

fn delete_service(key: &ServiceKey, service: &ServiceView) -> Write {
    let object = ObjectId::Service(key.clone());
    Write::delete(object, &service.uid, &service.resource_version)
}

fn create_namespace(name: &Arc<str>) -> Write {
    let metadata = ObjectMeta {
        name: Some(name.to_string()),
        labels: Some([(labels::MANAGED_BY.to_owned(), labels::MANAGER.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    Write::create(ObjectId::Namespace(name.clone()), &namespace)
}

#[cfg(test)]
mod tests;
