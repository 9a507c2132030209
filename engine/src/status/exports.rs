//! Desired status of exports and imports.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::condition as names;
use causeway::api::multicluster::{ClusterOfSet, ClusterSelectorResult, ServiceImportStatus};
use causeway::domain::{ClusterName, ClusterSelector, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::Progress;
use super::condition_state::{ConditionState, DesiredCondition, set, settled, summarize};
use crate::messages::endpoint::{none_ready, reports_none_ready};
use crate::messages::remarks::{self, with_remarks};
use crate::messages::{conflict, exports, shares};
use crate::model::map::HashMap;
use crate::model::slice::Exposure;
use crate::model::{MemberState, ObjectEvent, ObjectId, TimePoint, Write, status_patch};
use crate::observed::Index;
use crate::observed::clusterset::{ExportView, ImportView};
use crate::observed::member::{Member, Membership};
use crate::observed::service::ServiceKind;
use crate::plan::clusterset::exports::{Validity, validity as validity_by_service};
use crate::plan::clusterset::import::{ImportPlan, OwnImport};
use crate::plan::clusterset::{Clusterset, DesiredImport, NotImporting, merge, precedence};
use crate::plan::copies::{DesiredCopies, Refused, SliceOfProvider};
use crate::plan::disagreement;
use crate::plan::entry::{Entry, NoEntry, Site};
use crate::plan::ignored::{self, Ignored};
use crate::plan::no_endpoints;
use crate::plan::not_followed::not_followed;
use crate::plan::providers::Disagreement;
use crate::plan::remark::{no_path, some, unserved};
use crate::plan::tiers::{Tiers, is_selected};
use crate::problem::{MemberProblem, State, tally};
use crate::reasons::Reason;

/// An exported service, as the statuses of its exports and imports report it.
pub(crate) struct View<'a> {
    /// Observed state of the hub and its members.
    pub index: &'a Index,
    /// Name of the service.
    pub key: &'a ServiceKey,
    /// Desired state of the service.
    pub clusterset: &'a Clusterset,
    /// Outstanding and failed writes of its imports, by member.
    pub progress: &'a HashMap<ClusterName, Progress>,
    /// Current time.
    pub now: TimePoint,
}

const PRESENT: &str = "Present";

impl View<'_> {
    /// Returns the writes of the statuses that change, each with its cluster.
    pub(crate) fn writes(&self) -> Vec<(ClusterName, Write)> {
        let exports = self.clusterset.exports.iter();
        let exports = exports.filter_map(|(name, validity)| {
            let write = self.export_status(name, self.member(name)?, *validity)?;
            Some((name.clone(), write))
        });
        let imports = self.clusterset.imports.wanted();
        let imports = imports.filter_map(|(name, desired)| {
            let write = self.import_status(name, self.member(name)?, desired)?;
            Some((name.clone(), write))
        });
        exports.chain(imports).collect()
    }

    /// Returns the time at which time alone changes the content of the statuses.
    pub(crate) fn again_at(&self) -> Option<TimePoint> {
        if self.clusterset.exports.is_empty() {
            return None;
        }
        let members = self.index.members().map(|(_, member)| member);
        let due = members.filter_map(|member| member.reported_membership(self.now).1);
        due.min()
    }

    fn member(&self, name: &ClusterName) -> Option<&Member> {
        let synced = self.index.member_state(name) == MemberState::Synced;
        self.index.member(name).filter(|_| synced)
    }

    fn export_status(
        &self,
        name: &ClusterName,
        member: &Member,
        validity: Validity,
    ) -> Option<Write> {
        if validity == Validity::ManagedByOther {
            return None;
        }
        let version = member.exports_followed()?;
        let export = member.export(self.key)?;
        let (conditions, events) = self.export_conditions(name, member, export, validity);
        let clusters = match member.serves_export_clusters() {
            true => self.clusters_of_export(name, export),
            false => export.clusters.clone(),
        };
        let mut status = json!({ "conditions": conditions });
        if clusters != export.clusters {
            status["clusters"] = json!(clusters);
        } else if are_same(&conditions, &export.conditions) {
            return None;
        }
        let patch = status_patch(&export.resource_version, status);
        let object = ObjectId::ServiceExportStatus(version, self.key.clone());
        Some(Write::patch(object, patch).with_events(events))
    }

    /// Lists the other clusters to which the service is exported. The hub alone decides: nothing
    /// that a member writes into its import is repeated here. While it is not known of some cluster
    /// whether it imports the service, no entry goes that may be that cluster's.
    fn clusters_of_export(&self, name: &ClusterName, export: &ExportView) -> Vec<ClusterOfSet> {
        if self.clusterset.imports.is_untouched() {
            return export.clusters.clone();
        }
        if !self.clusterset.exporters.contains(name) {
            return Vec::new();
        }
        let importers = self.clusterset.imports.names();
        let others = importers.filter(|other| *other != name);
        let id = |other| self.index.cluster_id(other);
        let mut clusters: BTreeSet<_> = others.map(id).collect();
        let not_importing = &self.clusterset.not_importing;
        let is_unknown = |why: &NotImporting| *why == NotImporting::Unknown;
        if not_importing.values().any(is_unknown) {
            let known = not_importing.iter().filter(|(_, why)| !is_unknown(why));
            let known: BTreeSet<_> = known.map(|(other, _)| id(other)).collect();
            let unknown = || self.clusterset.without_import(NotImporting::Unknown);
            // The id of a member that was observed is known.
            let is_unobserved = |other: &ClusterName| {
                let member = self.member(other);
                member.is_none_or(|member| member.membership() == Membership::Unknown)
            };
            let any_is_unobserved = unknown().any(is_unobserved);
            let may_be = |stored: &&str| {
                any_is_unobserved && !known.contains(stored)
                    || unknown().any(|other| id(other) == *stored)
            };
            let stored = export.clusters.iter().map(|stored| &*stored.cluster);
            clusters.extend(stored.filter(may_be));
        }
        let entry = |cluster: &str| ClusterOfSet {
            cluster: cluster.to_owned(),
        };
        clusters.into_iter().map(entry).collect()
    }

    fn export_conditions(
        &self,
        name: &ClusterName,
        member: &Member,
        export: &ExportView,
        validity: Validity,
    ) -> (Vec<Condition>, Vec<ObjectEvent>) {
        let mut conditions = export.conditions.clone();
        let mut put = |type_: &str, text: (&str, &str), state: &ConditionState| {
            let desired = DesiredCondition { type_, text, state };
            set(&mut conditions, desired, export.generation, self.now)
        };
        let left_out = merge::left_out(export);
        let mut sentence = exports::can_be_exported(self.key, &left_out);
        let service = member.service(self.key);
        if let Some(what) = not_followed(&export.failover, &export.misread, service) {
            sentence = with_remarks(sentence, vec![remarks::not_followed(&what)]);
        }
        let valid = self.valid(name, export, validity);
        let of_valid = put(names::VALID, (Reason::Valid.as_str(), &sentence), &valid);
        let (text, state) = self.conflict(export, validity);
        let text = (text.0.as_str(), text.1.as_str());
        let of_conflict = put(names::CONFLICT, text, &state);
        // That there never was a conflict is no news.
        let is_news = state == ConditionState::True
            || names::find(&export.conditions, names::CONFLICT).is_some();
        let of_conflict = of_conflict.filter(|_| is_news).map(|event| ObjectEvent {
            warning: state == ConditionState::True,
            ..event
        });
        let ready = self.ready(export, validity);
        let text = self.exported_text(name, export);
        let of_ready = put(names::READY, (Reason::Exported.as_str(), &text), &ready);
        let of_ready = of_ready.filter(|event| event.reason != Reason::Pending);
        let events = of_valid.into_iter().chain(of_conflict).chain(of_ready);
        let hub = self.index.hub_uid();
        match self.clusterset.precedences.get(name) {
            _ if validity == Validity::Leaving => precedence::put(None, hub, &mut conditions),
            None => {}
            Some(time) => precedence::put(Some(time.condition(hub)), hub, &mut conditions),
        }
        (conditions, events.collect())
    }

    /// Returns the message of Ready for an export that is imported, including the parts that are
    /// not imported.
    fn exported_text(&self, name: &ClusterName, export: &ExportView) -> String {
        let key = self.key;
        let mut remarks = Vec::new();
        let refused = self.refused(name).map(|refused| (name, refused));
        remarks.extend(refused.map(|one| remarks::not_copied(&BTreeMap::from([one]))));
        let elsewhere: BTreeSet<_> = self.importers_elsewhere(name).collect();
        let why = (!elsewhere.is_empty())
            .then(|| self.no_entry(name))
            .flatten();
        let unreached = why.as_ref().map(|why| (name, (why, elsewhere)));
        remarks.extend(unreached.map(|one| remarks::unreached(key, &BTreeMap::from([one]))));
        let no_path = no_path(self.copies()).and_then(|mut all| all.remove_entry(name));
        remarks.extend(no_path.map(|one| remarks::no_path(key, &BTreeMap::from([one]))));
        remarks.extend(shares::remarks(self.copies(), Some(name)));
        let disagreements = some(self.disagreements(name, export));
        remarks.extend(disagreements.map(|all| remarks::writers_disagree(&all)));
        let lacks_endpoints = self.lacks_endpoints(export);
        remarks.extend(lacks_endpoints.then(|| none_ready(Exposure::Clusterset)));
        remarks.extend(some(self.unserved()).map(|all| remarks::unserved(&all)));
        let not_consumers = self.clusterset.without_import(NotImporting::NotConsumer);
        let not_consumers: Vec<_> = not_consumers.collect();
        remarks.extend(some(not_consumers).map(|all| remarks::not_consumers(&all)));
        let own = self.clusterset.imports.of(name);
        let unresolved = own.and_then(|desired| desired.unresolved.as_ref());
        remarks.extend(unresolved.map(|found| remarks::unresolved(key, name, found)));
        let derived = key.derived();
        let ignored = self.ignored(name, &derived).into_iter();
        remarks.extend(ignored.map(|(why, clusters)| remarks::ignored(&derived, &why, &clusters)));
        with_remarks(exports::EXPORTED.to_owned(), remarks)
    }

    /// Lists the copies of each importer.
    fn copies(&self) -> impl Iterator<Item = (&ClusterName, &DesiredCopies)> {
        let imports = self.clusterset.imports.wanted();
        imports.map(|(name, desired)| (name, &desired.copies))
    }

    /// Lists the members of other networks than an exporter's that import the service, or may:
    /// those of which a restarted controller knows nothing yet count. Their objects change nothing.
    fn importers_elsewhere(&self, name: &ClusterName) -> impl Iterator<Item = &ClusterName> {
        let network = self.index.network(name);
        let unknown = self.clusterset.without_import(NotImporting::Unknown);
        let importers = unknown.chain(self.clusterset.imports.names());
        importers.filter(move |name| self.index.network(name) != network)
    }

    /// Returns the reason why clusters of other networks lack an exporter's endpoints, if they do.
    fn no_entry(&self, name: &ClusterName) -> Option<NoEntry> {
        let member = self.index.member(name)?;
        let site = Site::of(self.index, self.key, Exposure::Clusterset, (name, member));
        let why = Entry::of(&site, self.now).err();
        why.filter(|_| !site.lacks_endpoints())
    }

    /// Lists the lasting disagreements of writers of the exporter.
    fn disagreements<'a>(
        &'a self,
        name: &'a ClusterName,
        export: &ExportView,
    ) -> Vec<(SliceOfProvider<'a>, &'a Disagreement)> {
        let stored = names::find(&export.conditions, names::READY);
        let all = self.copies();
        let all = all.flat_map(|(_, copies)| copies.disagreements());
        let own = all.filter(|((provider, _), _)| *provider == name);
        disagreement::lasting(self.index, self.key, own, stored, self.now)
    }

    fn lacks_endpoints(&self, export: &ExportView) -> bool {
        let stored = names::find(&export.conditions, names::READY);
        let exporters = self.clusterset.exporters.iter();
        no_endpoints::are_unready(self.index, self.key, exporters, reports_none_ready(stored))
    }

    /// Lists the importers whose preference leads to no exporter. While an exporter is unknown, the
    /// preference is the one that a member recorded, and Ready does not repeat it.
    fn unserved(&self) -> Vec<(&ClusterName, &Tiers)> {
        match self.clusterset.unsure {
            true => Vec::new(),
            false => unserved(self.copies()),
        }
    }

    /// Returns the endpoints and slices of an exporter that no importing cluster receives.
    fn refused(&self, name: &ClusterName) -> Option<&Refused> {
        self.copies()
            .find_map(|(_, copies)| copies.refused.get(name))
    }

    /// Returns the clusters in which clients do not reach the existing copies of an exporter's
    /// endpoints, by reason.
    fn ignored(
        &self,
        name: &ClusterName,
        derived: &ServiceKey,
    ) -> BTreeMap<Ignored, Vec<&ClusterName>> {
        let others = self.copies().filter(|(importer, _)| *importer != name);
        let mut found = ignored::in_consumers(Exposure::Clusterset, others, |importer| {
            let service = self.member(importer)?.service(derived)?;
            Some(service).filter(|one| one.is_derived_for(self.key, self.index.hub_uid()))
        });
        found.retain(|why, _| why.concerns(name));
        found
    }

    fn valid(&self, name: &ClusterName, export: &ExportView, validity: Validity) -> ConditionState {
        // An export that is not used is valid or not by its Service alone.
        let validity = match validity {
            Validity::Forbidden | Validity::Withdrawn | Validity::BeyondQuota(_) => {
                validity_by_service(self.member(name).and_then(|one| one.service(self.key)))
            }
            other => other,
        };
        let reason = match validity {
            Validity::Valid
            | Validity::Forbidden
            | Validity::Withdrawn
            | Validity::BeyondQuota(_) => {
                let wrong = self.wrong_selectors(name, export);
                return wrong.map_or(ConditionState::True, |(reason, message)| {
                    ConditionState::failed(reason, message)
                });
            }
            Validity::Leaving | Validity::ManagedByOther => return ConditionState::Unchanged,
            Validity::NoService => Reason::NoService,
            Validity::InvalidServiceType => Reason::InvalidServiceType,
        };
        ConditionState::failed(reason, exports::invalid(reason, name, self.key))
    }

    /// Returns the reason why the selectors of an export are not followed, and its sentence
    /// (KEP-5939, "Validation"). The export counts all the same.
    fn wrong_selectors(&self, name: &ClusterName, export: &ExportView) -> Option<(Reason, String)> {
        let read = ClusterSelector::read_all(&export.spec.cluster_selectors);
        if let Some(error) = read.as_ref().err().and_then(|errors| errors.first()) {
            let message = exports::invalid_selectors(error);
            return Some((Reason::InvalidClusterSelector, message));
        }
        let service = self.index.member(name)?.service(self.key)?;
        let is_headless = service.shape.kind == ServiceKind::Headless;
        (is_headless && !export.spec.cluster_selectors.is_empty()).then(|| {
            let message = exports::selectors_of_headless(self.key);
            (Reason::InvalidServiceType, message)
        })
    }

    /// Returns reason, message and state of the Conflict condition. While an exporter is unknown, a
    /// conflict that was found remains.
    fn conflict(
        &self,
        export: &ExportView,
        validity: Validity,
    ) -> ((String, String), ConditionState) {
        let is_valid = validity == Validity::Valid;
        let found = is_valid.then(|| conflict::conflicts(&self.clusterset.conflicts));
        let was_found = names::is_true(&export.conditions, names::CONFLICT);
        match found.flatten() {
            _ if self.clusterset.unsure && is_valid && was_found => {
                (Default::default(), ConditionState::Unchanged)
            }
            Some(text) => (text, ConditionState::True),
            None => {
                let message = exports::no_conflict(validity);
                let agreed = ConditionState::failed(Reason::NoConflicts, message);
                (Default::default(), agreed)
            }
        }
    }

    fn ready(&self, export: &ExportView, validity: Validity) -> ConditionState {
        let message = exports::not_exported(self.key, validity);
        if validity == Validity::Leaving {
            return ConditionState::failed(Reason::NotJoined, message);
        }
        if let Some(problem) = &self.clusterset.problem {
            return ConditionState::failed(Reason::Failed, problem.to_string());
        }
        let reason = match validity {
            Validity::Valid | Validity::Leaving | Validity::ManagedByOther => None,
            Validity::NoService => Some(Reason::Pending),
            Validity::Forbidden | Validity::Withdrawn | Validity::InvalidServiceType => {
                Some(Reason::Failed)
            }
            Validity::BeyondQuota(_) => Some(Reason::QuotaExceeded),
        };
        if let Some(reason) = reason {
            return ConditionState::failed(reason, message);
        }
        if let Some(karmadas) = &self.clusterset.karmadas {
            return ConditionState::failed(Reason::ManagedByKarmada, karmadas.sentence(self.key));
        }
        let names = self.index.member_names();
        let states = names.filter_map(|name| Some((name, self.imported_in(name)?)));
        let failed = match self.progress.values().any(Progress::has_conflict) {
            true => Reason::WriteConflict,
            false => Reason::Failed,
        };
        let state = summarize(failed, [tally("clusters", states.collect())]);
        let is_new = names::find(&export.conditions, names::READY)
            .is_none_or(|ready| ready.reason != Reason::Exported);
        match state {
            ConditionState::Unchanged if is_new => {
                ConditionState::failed(Reason::Pending, exports::EXPORTING)
            }
            other => other,
        }
    }

    /// Returns the state of the import in a synced member; `None` if the member is not synced or
    /// has no desired import. A member that fails to show its ServiceExports and ServiceImports
    /// counts as failed once that is reported, and as in progress before.
    fn imported_in(&self, name: &ClusterName) -> Option<State> {
        let member = self.member(name)?;
        let fails = matches!(member.membership(), Membership::Failing(_));
        match member.reported_membership(self.now).0 {
            Membership::Failing(why) => {
                return Some(State::Failed(MemberProblem::ClustersetHidden(why)));
            }
            _ if fails => return Some(State::InProgress),
            _ => {}
        }
        let desired = self.clusterset.imports.of(name)?;
        let progress = self.progress.get(name);
        let planned = desired.problem.clone().map(MemberProblem::Service);
        let written = || Some(MemberProblem::Write(progress?.problem()?.clone()));
        let problem = planned.or_else(written);
        let pending = progress.is_some_and(Progress::is_pending)
            || matches!(&desired.import, ImportPlan::Later);
        Some(settled(problem, pending))
    }

    fn import_status(
        &self,
        importer: &ClusterName,
        member: &Member,
        desired: &DesiredImport,
    ) -> Option<Write> {
        let ImportPlan::Own(own) = &desired.import else {
            return self.status_taken_back(member, desired);
        };
        let hub = self.index.hub_uid();
        let import = member.import(self.key);
        let import = import.filter(|import| !import.deleting && own.is_met_by(import, hub))?;
        let status = self.import_status_wanted(importer, desired, own, import);
        let stored = &import.status;
        let is_said = stored.clusters == status.clusters
            && stored.endpoint_slice_objects == status.endpoint_slice_objects
            && stored.cluster_selector_results == status.cluster_selector_results
            && are_same(&status.conditions, &stored.conditions);
        let mut status_value = json!(status);
        // An empty list is not sent by itself, and what is not sent stays.
        status_value["clusters"] = json!(status.clusters);
        if stored.cluster_selector_results != status.cluster_selector_results {
            status_value["clusterSelectorResults"] = json!(status.cluster_selector_results);
        }
        let patch = status_patch(&import.resource_version, status_value);
        (!is_said).then(|| self.patch_import_status(desired, patch))
    }

    /// Clears the status of an import that a user has taken over: causeway no longer updates that
    /// status. The write happens once, because the status is empty afterwards. Other marks of
    /// causeway are removed first: two writes of one resource version would conflict.
    fn status_taken_back(&self, member: &Member, desired: &DesiredImport) -> Option<Write> {
        let import = member.import(self.key)?;
        let is_persons = import.hub.is_none() && import.marks.is_none() && !import.deleting;
        let is_stale = import.is_status_ours && import.status != ServiceImportStatus::default();
        let patch = status_patch(&import.resource_version, Value::Null);
        (is_persons && is_stale).then(|| self.patch_import_status(desired, patch))
    }

    fn patch_import_status(&self, desired: &DesiredImport, patch: Value) -> Write {
        let version = desired.served.version;
        let object = ObjectId::ServiceImportStatus(version, self.key.clone());
        Write::patch(object, patch)
    }

    /// Lists the exporters that each selector selects for an importer, whatever the conditions of
    /// their endpoints (KEP-5939, "Resolving Cluster Selectors").
    fn selector_results(
        &self,
        importer: &ClusterName,
        own: &OwnImport,
    ) -> Vec<ClusterSelectorResult> {
        let selectors = ClusterSelector::read_all(&own.spec.cluster_selectors);
        let results = selectors.unwrap_or_default().into_iter().map(|selector| {
            let exporters = self.clusterset.exporters.iter();
            let selected =
                exporters.filter(|name| is_selected(self.index, &selector, importer, name));
            ClusterSelectorResult {
                clusters: selected
                    .map(|name| self.index.cluster_id(name).to_owned())
                    .collect(),
            }
        });
        results.collect()
    }

    fn import_status_wanted(
        &self,
        importer: &ClusterName,
        desired: &DesiredImport,
        own: &OwnImport,
        import: &ImportView,
    ) -> ServiceImportStatus {
        let fields = desired.served.fields;
        let exporters = self.clusterset.exporters.iter();
        let clusters = exporters.map(|name| ClusterOfSet {
            cluster: self.index.cluster_id(name).to_owned(),
        });
        let ready = match &own.unready {
            None => ConditionState::True,
            Some(unready) => ConditionState::failed(unready.reason(), unready.message()),
        };
        let mut conditions = import.status.conditions.clone();
        if fields.conditions {
            let desired = DesiredCondition {
                type_: names::READY,
                text: (Reason::Ready.as_str(), exports::IMPORTED),
                state: &ready,
            };
            set(&mut conditions, desired, import.generation, self.now);
        }
        let results = match fields.cluster_selector_results {
            true => self.selector_results(importer, own),
            false => Vec::new(),
        };
        let generation =
            (fields.observed_generation && !results.is_empty()).then_some(import.generation);
        ServiceImportStatus {
            observed_generation: generation.or(import.status.observed_generation),
            cluster_selector_results: results,
            endpoint_slice_objects: fields.endpoint_slice_objects.then(|| PRESENT.to_owned()),
            clusters: clusters.collect(),
            conditions,
        }
    }
}

/// Whether stored conditions equal the wanted ones. Not every definition has a field for the
/// generation.
fn are_same(wanted: &[Condition], stored: &[Condition]) -> bool {
    let same = |(wanted, stored): (&Condition, &Condition)| {
        let wanted = Condition {
            observed_generation: stored.observed_generation.and(wanted.observed_generation),
            ..wanted.clone()
        };
        wanted == *stored
    };
    wanted.len() == stored.len() && wanted.iter().zip(stored).all(same)
}
