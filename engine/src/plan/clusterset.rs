//! What the clusters of the clusterset should hold for an exported service (KEP-1645).
//!
//! The exports of all members are merged into one shape ([`merge`]). Every member that has the namespace holds a Service that
//! stands for the imported one (`derived-<name>`), then the ServiceImport with its addresses, then copies of the exporters'
//! slices, the member's own among them.

pub mod conditions;
mod desired;
pub mod exports;
pub mod import;
mod importer;
mod karmada;
pub mod merge;
pub mod precedence;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::domain::{ClusterName, Consumers, ServiceKey, Unreachable};

pub use self::desired::{Clusterset, DesiredImport, Imports, NotImporting, Unresolved};
use self::exports::Exports;
use self::importer::{Importer, Source};
use self::merge::{Constituent, ImportShape};
use super::copy::{Outcomes, Provider};
use super::reach::Reach;
use super::settings::Settings;
use crate::index::Index;
use crate::index::clusterset::ImportView;
use crate::index::hub::manager::Importer as By;
use crate::model::slice::Path;
use crate::model::{MemberState, TimePoint};

/// Plans the clusterset's part of one service.
pub(super) fn plan(
    index: &Index,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
    outcomes: &mut Outcomes,
) -> Clusterset {
    if !concerns(index, key) {
        return Clusterset::default();
    }
    let exports = exports::gather(index, key, settings, now);
    let planned = match settings.protection.check(&key.namespace, &key.name) {
        Ok(()) => plan_imports(index, settings, key, now, &exports, outcomes),
        Err(protected) => Clusterset {
            imports: Imports::Untouched,
            problem: Some(protected),
            ..Clusterset::default()
        },
    };
    Clusterset {
        exports: exports.validities(),
        again_at: exports.again_at.into_iter().chain(planned.again_at).min(),
        ..planned
    }
}

/// Plans what the members are to import of what is exported.
fn plan_imports(
    index: &Index,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
    exports: &Exports<'_>,
    outcomes: &mut Outcomes,
) -> Clusterset {
    let constituents = exports.constituents();
    let merged = merge::merge(&constituents);
    let clusters = merged.iter().flat_map(|merged| &merged.clusters);
    let mut exporters: BTreeSet<ClusterName> = clusters.map(|name| (*name).clone()).collect();
    let unknown = exports::recorded_and_unknown(index, key, exports);
    let unsure = unknown.is_some();
    let importer = index.hub.importer(key, now);
    let agreed = merged.as_ref().map(|merged| &merged.shape);
    let asked = Asked {
        index,
        key,
        agreed,
        unsure,
    };
    let answer = match importer {
        By::Karmada => Some(Unreachable::Keep),
        By::Causeway | By::Unknown(_) => asked.unreachable(),
    };
    let names = constituents.iter().map(|export| export.cluster);
    let headless = agreed.is_some_and(|shape| shape.headless);
    let reach = Reach::of(index, settings, (answer, headless), names, now);
    let source = Source {
        agreed,
        unknown: unknown.as_deref(),
        providers: providers(index, exports, &constituents, answer, &reach),
        reach,
        consumers: asked.consumers().unwrap_or_default(),
        importer,
    };
    let (imports, not_importing) = desired_imports(index, key, &source, now, outcomes);
    let karmadas = karmada::said(index, key, source.importer, &imports);
    let again_at = karmada::again_at(source.importer, &imports, now);
    let again_at = again_at.into_iter().chain(source.reach.again_at).min();
    exporters.extend(unknown.iter().flatten().cloned());
    let conflicts = merged.as_ref().map(|merged| merged.conflicts.clone());
    Clusterset {
        imports: Imports::Wanted(imports),
        not_importing,
        // While an exporter is unknown its place is not known either.
        precedences: match unsure {
            true => BTreeMap::new(),
            false => exports.precedences.clone(),
        },
        exporters,
        conflicts: conflicts.unwrap_or_default(),
        unsure,
        karmadas,
        again_at,
        reach: source.reach,
        ..Clusterset::default()
    }
}

/// Whether any member exports or imports the service, or holds something of an import.
fn concerns(index: &Index, key: &ServiceKey) -> bool {
    let derived = key.derived();
    index.holders(key).any(|(_, member)| {
        member.export(key).is_some()
            || member.import(key).is_some()
            || member.owns_clusterset(key, &derived, &index.hub.uid)
    })
}

/// What the exports ask for, as far as it is known.
struct Asked<'a> {
    index: &'a Index,
    key: &'a ServiceKey,
    agreed: Option<&'a ImportShape>,
    unsure: bool,
}

impl Asked<'_> {
    /// What is to become of the endpoints of an exporter that is out of reach.
    fn unreachable(&self) -> Option<Unreachable> {
        self.of(
            |import| import::recorded_failover(import).unreachable,
            |shape| shape.failover.unreachable,
        )
    }

    /// Who is to import the service.
    fn consumers(&self) -> Option<Consumers> {
        self.of(
            |import| Some(import::recorded_consumers(import)).filter(|all| *all != Consumers::All),
            |shape| Some(shape.consumers.clone()),
        )
    }

    /// While it is not known what all exports say, what imports record of it counts, and what is known where nothing is recorded.
    fn of<T>(
        &self,
        recorded: impl Fn(&ImportView) -> Option<T>,
        known: impl Fn(&ImportShape) -> Option<T>,
    ) -> Option<T> {
        let meanwhile = self.unsure || self.agreed.is_none();
        let hub = &self.index.hub.uid;
        let holders = self.index.holders(self.key).filter(|_| meanwhile);
        let imports = holders.filter_map(|(_, member)| member.import(self.key));
        let mut own = imports.filter(|import| import.path(hub) == Some(Path::Clusterset));
        own.find_map(recorded)
            .or_else(|| self.agreed.and_then(known))
    }
}

/// What each member should hold, and which import nothing.
fn desired_imports(
    index: &Index,
    key: &ServiceKey,
    source: &Source<'_>,
    now: TimePoint,
    outcomes: &mut Outcomes,
) -> (
    BTreeMap<ClusterName, DesiredImport>,
    BTreeMap<ClusterName, NotImporting>,
) {
    let (mut imports, mut not_importing) = (BTreeMap::new(), BTreeMap::new());
    for (name, member) in &index.members {
        let left_out = matches!(
            index.member_state(name),
            MemberState::LeftOut(_) | MemberState::NotJoined
        );
        if left_out || index.hub.is_leaving(name) {
            continue;
        }
        let importer = Importer {
            index,
            key,
            name,
            member,
            source,
            now,
        };
        match importer.served() {
            Ok(served) => {
                let desired = importer.desired(served, outcomes);
                imports.extend(desired.map(|desired| (name.clone(), desired)));
            }
            Err(why) => {
                not_importing.insert(name.clone(), why);
            }
        }
    }
    (imports, not_importing)
}

/// Whose slices are copied: those of the valid exports, and whatever is there of clusters of which nothing is known.
fn providers<'a>(
    index: &'a Index,
    exports: &'a Exports<'_>,
    constituents: &[Constituent<'a>],
    answer: Option<Unreachable>,
    reach: &Reach,
) -> Vec<Provider<'a>> {
    let valid = constituents.iter().map(|export| {
        let member = index.members.get(export.cluster);
        let member = member.filter(|member| member.sources_are_known());
        let ranges = index.hub.ranges(export.cluster);
        Provider::new(export.cluster, member, export.service.ports(), ranges)
    });
    let unknown = exports.unknown.iter();
    let unknown = unknown.map(|name| Provider::new(name, None, Vec::new(), Arc::default()));
    let has_expired = |name: &ClusterName| answer.is_none() && index.has_ttl_expired(name);
    let all = valid.chain(unknown);
    all.filter(|one| !has_expired(one.name) && !reach.withdrawn.contains(one.name))
        .collect()
}

#[cfg(test)]
mod tests;
