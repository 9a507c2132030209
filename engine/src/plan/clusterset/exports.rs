//! Exports of a service, their validity, and the clusters whose exports are unknown.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterName, ServiceKey};
use string_cache::DefaultAtom;

use super::merge::Constituent;
use super::precedence::{self, Claim, Precedence, SealedTime};
use crate::model::TimePoint;
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::clusterset::ExportView;
use crate::observed::hub::ClusterView;
use crate::observed::member::Member;
use crate::observed::quota::{BeyondQuota, Quota};
use crate::observed::service::ServiceView;
use crate::plan::provider_use::Unused;
use crate::plan::settings::Settings;
use crate::seal::Seal;

/// Validity of an export: whether it can be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// The export can be followed.
    Valid,
    /// The cluster has no Service of the export's name.
    NoService,
    /// The hub does not permit the cluster to export from the namespace (annotation
    /// `mcs.causeway.dev/export-namespaces` of its Cluster).
    Forbidden,
    /// The cluster is being removed.
    Leaving,
    /// The cluster is drained: none of its endpoints may be used (annotation
    /// `mcs.causeway.dev/withdraw` of its Cluster).
    Withdrawn,
    /// The export exceeds the cluster's quota, in which older exports come first.
    BeyondQuota(BeyondQuota),
    /// Another controller of the API manages the exports of the cluster, or of the namespace in it,
    /// and nobody imports this one by causeway.
    ManagedByOther,
    /// The Service is an ExternalName, which has no endpoints (KEP-1645, "Service Types").
    InvalidServiceType,
}

/// State of an export that is valid, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportState {
    /// It is unknown.
    Unknown,
    /// It is valid.
    Valid,
    /// Its Service was deleted within the grace period.
    Lost,
    /// The cluster is drained. Otherwise the export would be valid.
    Drained,
    /// The cluster is drained, and the export may be valid otherwise: it is unknown, or its Service
    /// was deleted within the grace period.
    PerhapsDrained,
}

/// Exports of one service that users created.
#[derive(Debug, Default)]
pub(crate) struct Exports<'a> {
    all: BTreeMap<&'a ClusterName, Export<'a>>,
    /// Precedences to write on exports that lack one.
    pub(crate) precedences: BTreeMap<ClusterName, SealedTime>,
    /// Time at which a grace period ends.
    pub again_at: Option<TimePoint>,
}

/// Export of one cluster. An export that is not observed has a state alone.
#[derive(Debug, Default)]
struct Export<'a> {
    /// State; `None` if the export is not valid, and would not be if the cluster were not drained.
    state: Option<ExportState>,
    claim: Option<Claim<'a>>,
    service: Option<&'a ServiceView>,
    validity: Option<Validity>,
    /// Precedence of an observed export, used or not.
    precedence: Option<Precedence>,
}

/// Gathers the exports of a service. The grace period covers a deleted Service: a Service that is
/// replaced by force does not end the import or release its addresses. An export that another
/// cluster imports already remains valid beyond the quota: a lower quota applies to later exports
/// and takes nothing from clients of other clusters.
pub(crate) fn gather<'a>(
    index: &'a Index,
    key: &'a ServiceKey,
    settings: &Settings,
    now: TimePoint,
) -> Exports<'a> {
    let mut exports = Exports::default();
    for name in index.suspected_clusters() {
        exports.all.entry(name).or_default().state = Some(ExportState::Unknown);
    }
    for (name, cluster) in index.clusters() {
        let is_duplicate = Unused::everywhere(index, name) == Some(Unused::Duplicate);
        if is_duplicate || index.is_left_out(name, key) {
            continue;
        }
        let known = |member: &&Member| is_known(index, key, name, member);
        let Some(member) = index.member(name).filter(known) else {
            if cluster.may_export_from(&key.namespace) {
                let state = match cluster.withdrawn {
                    true => ExportState::PerhapsDrained,
                    false => ExportState::Unknown,
                };
                exports.all.entry(name).or_default().state = Some(state);
            }
            continue;
        };
        let Some(export) = export_by_person(index, key, member) else {
            continue;
        };
        let service = member.service(key);
        let unused = unused(index, key, (name, cluster), member, &settings.quota);
        let lost_since = member.service_lost_since(key).filter(|_| service.is_none());
        let lost_until = lost_since.map(|since| since.after(settings.service_grace));
        let lost_until = lost_until.filter(|until| now < *until);
        exports.again_at = exports.again_at.into_iter().chain(lost_until).min();
        let state = export_state(unused, service, lost_until.is_some());
        let state = state.filter(|_| cluster.may_export_from(&key.namespace));
        let validity = match unused {
            // The cluster counts until it is gone; that is what its condition says.
            _ if index.is_being_removed(name) => Validity::Leaving,
            unused => unused.unwrap_or_else(|| validity(service)),
        };
        let place = exports.all.entry(name).or_default();
        *place = Export {
            state: state.or(place.state),
            claim: Some(Claim::new(name, key, export)),
            service,
            validity: Some(validity),
            precedence: None,
        };
    }
    exports.place(settings.seal.as_ref(), index.hub_uid(), now);
    exports
}

/// Returns the reason why the export of a member is not used, whatever its content; `None` if only
/// its content decides.
fn unused(
    index: &Index,
    key: &ServiceKey,
    (name, cluster): (&ClusterName, &ClusterView),
    member: &Member,
    quota: &Quota,
) -> Option<Validity> {
    let beyond = member.beyond_quota(key, quota);
    let is_imported = || is_recorded(index, key, name, |_| true);
    // What the cluster holds itself, it may have forged.
    let by_others = || is_recorded(index, key, name, |holder| holder != name);
    let other = member.other_controller_in(&key.namespace);
    match beyond.filter(|_| !by_others()) {
        _ if other.is_some() && !is_imported() => Some(Validity::ManagedByOther),
        _ if cluster.withdrawn => Some(Validity::Withdrawn),
        _ if !cluster.may_export_from(&key.namespace) => Some(Validity::Forbidden),
        beyond => beyond.map(Validity::BeyondQuota),
    }
}

/// Returns the state of an observed export, whose Service was deleted within the grace period if
/// `is_lost`; `None` if the export is certainly not valid.
fn export_state(
    unused: Option<Validity>,
    service: Option<&ServiceView>,
    is_lost: bool,
) -> Option<ExportState> {
    match (unused, validity(service)) {
        (None, Validity::Valid) => Some(ExportState::Valid),
        (None, _) if is_lost => Some(ExportState::Lost),
        (Some(Validity::Withdrawn), Validity::Valid) => Some(ExportState::Drained),
        (Some(Validity::Withdrawn), _) if is_lost => Some(ExportState::PerhapsDrained),
        _ => None,
    }
}

/// Whether it is known if a member exports the service.
fn is_known(index: &Index, key: &ServiceKey, name: &ClusterName, member: &Member) -> bool {
    let is_observed =
        || export_by_person(index, key, member).is_some() || !index.may_lack_export(key, name);
    member.exports_are_known() && is_observed()
}

/// Returns the ServiceExport of a member if a user created it.
fn export_by_person<'a>(
    index: &Index,
    key: &ServiceKey,
    member: &'a Member,
) -> Option<&'a ExportView> {
    let export = member.export(key)?;
    is_by_person(export, index.hub_uid()).then_some(export)
}

/// Whether an import of a cluster that `counts` names the cluster as an exporter, or a copy as its
/// source.
fn is_recorded(
    index: &Index,
    key: &ServiceKey,
    name: &ClusterName,
    counts: impl Fn(&ClusterName) -> bool + Copy,
) -> bool {
    let id = index.recorded_id(name);
    let mut all = exporters_recorded_by(index, key, counts);
    all.any(|recorded| recorded == name.as_str() || Some(recorded) == id)
}

impl<'a> Exports<'a> {
    /// Records the precedence of each observed export.
    fn place(&mut self, seal: Option<&Seal>, hub: &str, now: TimePoint) {
        let claims = self.all.values().filter_map(|export| export.claim);
        let claims: Vec<_> = claims.collect();
        let places = precedence::places(&claims, seal, hub, now.wall);
        for (claim, (precedence, written)) in claims.iter().zip(places) {
            self.all.entry(claim.cluster).or_default().precedence = Some(precedence);
            let written = written.map(|written| (claim.cluster.clone(), written));
            self.precedences.extend(written);
        }
    }

    /// Returns the validity of each export, by cluster.
    pub(crate) fn validities(&self) -> BTreeMap<ClusterName, Validity> {
        let all = self.all.iter();
        all.filter_map(|(name, export)| Some(((*name).clone(), export.validity?)))
            .collect()
    }

    /// Whether a cluster exports the service: its export is valid, or was valid until its Service
    /// was deleted within the grace period, or would be valid if the cluster were not drained.
    pub(super) fn is_exporter(&self, index: &Index, key: &ServiceKey, name: &ClusterName) -> bool {
        match self.state(name) {
            Some(ExportState::Valid | ExportState::Drained) => true,
            Some(ExportState::Lost) => is_recorded(index, key, name, |_| true),
            Some(ExportState::Unknown | ExportState::PerhapsDrained) | None => false,
        }
    }

    /// Whether a drained cluster may export the service.
    pub(super) fn may_be_exporter(&self, name: &ClusterName) -> bool {
        self.state(name) == Some(ExportState::PerhapsDrained)
    }

    fn state(&self, name: &ClusterName) -> Option<ExportState> {
        self.all.get(name)?.state
    }

    /// Lists the clusters whose export of the service is unknown.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &ClusterName> {
        self.in_state(|state| state == ExportState::Unknown)
    }

    fn in_state(
        &self,
        is_meant: impl Fn(ExportState) -> bool,
    ) -> impl Iterator<Item = &ClusterName> {
        let all = self.all.iter();
        all.filter_map(move |(name, export)| is_meant(export.state?).then_some(*name))
    }

    /// Returns the valid exports, ready to be merged.
    pub(crate) fn constituents(&self) -> Vec<Constituent<'a>> {
        let is_valid = |export: &&Export<'a>| export.state == Some(ExportState::Valid);
        let of = |export: &Export<'a>| {
            let claim = export.claim?;
            Some(Constituent {
                cluster: claim.cluster,
                precedence: export.precedence?,
                spec: &claim.export.spec,
                failover: &claim.export.failover,
                consumers: &claim.export.consumers,
                service: export.service?,
            })
        };
        let valid = self.all.values().filter(is_valid);
        valid.filter_map(of).collect()
    }
}

/// Whether a user created the export, rather than this hub's causeway, which publishes a
/// MultiClusterService by it, or the causeway of another hub.
pub(crate) fn is_by_person(export: &ExportView, hub: &str) -> bool {
    export.exposure(hub) != Some(Exposure::Native) && !is_of_another(&export.hub, hub)
}

/// Whether the causeway of another hub wrote the object. This hub ignores the requests of other
/// hubs.
pub(crate) fn is_of_another(writer: &Option<DefaultAtom>, hub: &str) -> bool {
    writer.as_deref().is_some_and(|writer| writer != hub)
}

/// Returns the validity of an export of a Service.
pub(crate) fn validity(service: Option<&ServiceView>) -> Validity {
    match service {
        None => Validity::NoService,
        Some(service) if service.is_external_name() => Validity::InvalidServiceType,
        Some(_) => Validity::Valid,
    }
}

/// Returns the recorded exporters whose export is unknown at present; `None` if all exporters are
/// known.
///
/// Without any record, the process that created the imports ended before it recorded their
/// exporters. In that case any unknown cluster may be an exporter, and the list is empty.
pub(crate) fn recorded_and_unknown(
    index: &Index,
    key: &ServiceKey,
    exports: &Exports<'_>,
) -> Option<Vec<ClusterName>> {
    let is_unsure = |state: ExportState| matches!(state, ExportState::Unknown | ExportState::Lost);
    let mut unsure = exports.in_state(is_unsure).peekable();
    unsure.peek()?;
    let recorded: BTreeSet<_> = exporters_recorded_by(index, key, |_| true).collect();
    let exporters = unsure.filter(|name| {
        let id = index.recorded_id(name);
        recorded.contains(name.as_str()) || id.is_some_and(|id| recorded.contains(id))
    });
    let exporters: Vec<_> = exporters.cloned().collect();
    (!exporters.is_empty() || recorded.is_empty()).then_some(exporters)
}

/// Returns the exporters that imports and copies record in the clusters that `counts` accepts:
/// names of Clusters, and ids of clusters in their clusterset.
fn exporters_recorded_by<'a>(
    index: &'a Index,
    key: &'a ServiceKey,
    counts: impl Fn(&ClusterName) -> bool + Copy + 'a,
) -> impl Iterator<Item = &'a str> {
    let members = move || index.members().filter(move |(name, _)| counts(name));
    let imports = members().filter_map(|(_, member)| member.import(key));
    let own =
        imports.filter(|import| import.exposure(index.hub_uid()) == Some(Exposure::Clusterset));
    let clusters = own.flat_map(|import| &import.status.clusters);
    let clusters = clusters.map(|cluster| cluster.cluster.as_str());
    let copies = members().flat_map(|(_, member)| member.copies(key));
    let of_copies = copies
        .filter(|(_, copy)| copy.view.is_of(index.hub_uid(), Exposure::Clusterset))
        .filter_map(|(_, copy)| copy.view.source_cluster.as_deref());
    clusters.chain(of_copies)
}
