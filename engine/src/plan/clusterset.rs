//! Desired state of an exported service in the clusters of the clusterset (KEP-1645).
//!
//! The exports of all members are merged into one shape ([`merge`]). Every member that imports the
//! service and has the namespace holds a derived Service (`derived-<name>`), which represents the
//! imported one, then the ServiceImport with its addresses, then copies of the exporters' slices,
//! including the member's own.

mod by_namespace;
mod desired;
pub(crate) mod exports;
pub(crate) mod import;
mod importer;
mod karmada;
pub(crate) mod merge;
pub(crate) mod precedence;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::{ClusterName, ServiceKey};

pub(crate) use self::desired::{
    Clusterset, DesiredImport, ImportedByKarmada, Imports, NotImporting, Unresolved,
};
use self::exports::Exports;
use self::importer::Importer;
use self::source::{Policy, ProviderSet, Source};
use super::copies::Outcomes;
use super::inputs::Inputs;
use crate::model::MemberState;
use crate::model::map::HashMap;
use crate::observed::Index;

/// Plans the clusterset's part of one service.
pub(super) fn plan(inputs: Inputs<'_>, outcomes: &mut Outcomes) -> Clusterset {
    let (index, key) = (inputs.index, inputs.key);
    let published = by_namespace::exports(inputs);
    if !concerns(index, key) {
        return Clusterset {
            published,
            ..Clusterset::default()
        };
    }
    let exports = exports::gather(index, key, inputs.settings, inputs.now);
    let planned = match inputs.settings.protection.check(&key.namespace, &key.name) {
        Ok(()) => plan_imports(inputs, &exports, outcomes),
        Err(protected) => Clusterset {
            imports: Imports::Untouched,
            problem: Some(protected),
            ..Clusterset::default()
        },
    };
    Clusterset {
        exports: exports.validities(),
        published,
        again_at: exports.again_at.into_iter().chain(planned.again_at).min(),
        ..planned
    }
}

/// Plans the members' imports of the exported service.
fn plan_imports(inputs: Inputs<'_>, exports: &Exports<'_>, outcomes: &mut Outcomes) -> Clusterset {
    let (index, key, now) = (inputs.index, inputs.key, inputs.now);
    let constituents = exports.constituents();
    let merged = merge::merge(&constituents);
    let clusters = merged.iter().flat_map(|merged| &merged.clusters);
    let mut exporters: BTreeSet<ClusterName> = clusters.map(|name| (*name).clone()).collect();
    let unknown = exports::recorded_and_unknown(index, key, exports);
    let unsure = unknown.is_some();
    let source = Source {
        index,
        key,
        exports,
        agreed: merged.as_ref().map(|merged| &merged.shape),
        unknown: unknown.as_deref(),
        importer: index.importer(key, now),
        constituents: &constituents,
        settings: inputs.settings,
        now,
    };
    let mut sets = HashMap::default();
    let (imports, not_importing) = desired_imports(&source, &mut sets, outcomes);
    let karmadas = karmada::imported(index, source.importer, &imports);
    let again_at = karmada::again_at(source.importer, &imports, now);
    let again_at = again_at.into_iter();
    let again_at = again_at.chain(sets.values().filter_map(|set| set.uses.again_at));
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
        again_at: again_at.min(),
        ..Clusterset::default()
    }
}

/// Whether any member exports or imports the service, or holds objects of an import.
fn concerns(index: &Index, key: &ServiceKey) -> bool {
    let derived = key.derived();
    index.holders(key).any(|(_, member)| {
        member.export(key).is_some()
            || member.import(key).is_some()
            || member.owns_clusterset(key, &derived, index.hub_uid())
    })
}

/// Whether a member takes no part in the clusterset, or is being removed.
fn is_out(index: &Index, name: &ClusterName) -> bool {
    let state = index.member_state(name);
    matches!(state, MemberState::LeftOut(_) | MemberState::NotJoined)
        || index.is_being_removed(name)
}

/// Returns the desired import of each member, and the members that import nothing. `sets` has one
/// entry, unless members recorded different policies.
fn desired_imports<'a>(
    source: &Source<'a>,
    sets: &mut HashMap<Policy, ProviderSet<'a>>,
    outcomes: &mut Outcomes,
) -> (
    BTreeMap<ClusterName, DesiredImport>,
    BTreeMap<ClusterName, NotImporting>,
) {
    let index = source.index;
    let (mut imports, mut not_importing) = (BTreeMap::new(), BTreeMap::new());
    for (name, member) in index.members() {
        if is_out(index, name) {
            continue;
        }
        let served = match source.served(name, member) {
            Ok(served) => served,
            Err(why) => {
                not_importing.insert(name.clone(), why);
                continue;
            }
        };
        let shape = source.shape(member);
        let policy = source.policy(member, shape.as_deref());
        let set = sets.entry(policy);
        let importer = Importer {
            index,
            key: source.key,
            name,
            member,
            source,
            set: set.or_insert_with(|| source.providers(policy)),
        };
        let desired = importer.desired(served, shape.as_deref(), outcomes);
        imports.extend(desired.map(|desired| (name.clone(), desired)));
    }
    (imports, not_importing)
}

#[cfg(test)]
mod tests;
