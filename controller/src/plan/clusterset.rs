//! What the clusters of the clusterset should hold for an exported service (KEP-1645).
//!
//! The exports of all members are merged into one shape ([`merge`]). Every member that has the namespace holds a Service that
//! stands for the imported one (`derived-<name>`), then the ServiceImport with its addresses, then copies of the exporters'
//! slices, the member's own among them.

pub mod conditions;
pub mod exports;
pub mod import;
pub mod karmada;
pub mod merge;
pub mod precedence;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::api::ownership;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use self::exports::{Exports, Validity};
use self::import::{ImportPlan, Unready, derived_service};
use self::merge::{Conflict, Constituent, ImportShape, Merged};
use super::Settings;
use super::copy::{self, Consumer, CopyWish, Origin, Provider};
use super::release::Release;
use super::service::ServiceWish;
use crate::index::member::{DerivedRefusal, Member, NamespaceState};
use crate::index::served::ServedImports;
use crate::index::slice::Path;
use crate::index::{Index, Standing, hub};
use crate::time_point::TimePoint;

/// What should be of an exported service.
#[derive(Clone, Debug, Default)]
pub struct Clusterset {
    /// What the members should hold.
    pub imports: Imports,
    /// The exports, and what is to be said of each.
    pub exports: BTreeMap<ClusterName, Validity>,
    /// What is to be written on exports of their place among the others.
    pub precedences: BTreeMap<ClusterName, Condition>,
    /// The members that are to hold an export on behalf of a MultiClusterService, and on whose.
    pub published: BTreeMap<ClusterName, String>,
    /// The clusters that export the service.
    pub exporters: BTreeSet<ClusterName>,
    /// What the exports disagree on.
    pub conflicts: Vec<Conflict>,
    /// Whether an exporter that is recorded is unknown for now: exports that are not seen may disagree too.
    pub unsure: bool,
    /// Why nothing is exported.
    pub problem: Option<String>,
    /// What Karmada's own controllers import of it, for a person.
    pub karmadas: Option<String>,
    /// When time alone will change the plan.
    pub again_at: Option<TimePoint>,
}

impl Clusterset {
    /// Whether nobody exports the service, as far as is known; an export of a cluster that is withdrawn is none.
    pub fn is_unused(&self) -> bool {
        let mut exports = self.exports.values();
        exports.all(|validity| *validity == Validity::Withdrawn)
            && self.exporters.is_empty()
            && self.problem.is_none()
    }
}

/// What the members should hold of an imported service.
#[derive(Clone, Debug)]
pub enum Imports {
    /// Whatever they hold now.
    Untouched,
    /// This, and in a member that is not listed nothing.
    Wanted(BTreeMap<ClusterName, ImportWish>),
}

impl Default for Imports {
    fn default() -> Self {
        Self::Wanted(BTreeMap::new())
    }
}

impl Imports {
    /// What that member should hold.
    pub fn of(&self, name: &ClusterName) -> Option<&ImportWish> {
        match self {
            Self::Untouched => None,
            Self::Wanted(wishes) => wishes.get(name),
        }
    }
}

/// What one member should hold of an imported service.
#[derive(Clone, Debug)]
pub struct ImportWish {
    /// How the member serves imports.
    pub served: ServedImports,
    /// The Service that stands for the imported one; none where the member has none of its address families, or where the
    /// Service of the own name does.
    pub service: Option<ServiceWish>,
    /// The import.
    pub import: ImportPlan,
    /// The copies.
    pub copies: CopyWish,
    /// Why the member cannot be served as asked, for a person.
    pub trouble: Option<String>,
    /// Why the clusterset's name does not lead to the service in the member, where everything else is as asked.
    pub unresolved: Option<String>,
    /// Whether it is left to Karmada's own controllers.
    pub karmadas: bool,
}

/// Plans the clusterset's part of one service.
pub fn plan(index: &Index, settings: &Settings, key: &ServiceKey, now: TimePoint) -> Clusterset {
    if !concerns(index, key) {
        return Clusterset::default();
    }
    let exports = exports::gather(index, key, settings, now);
    let plan = Clusterset {
        exports: exports.validities(),
        again_at: exports.again_at,
        ..Clusterset::default()
    };
    if let Err(protected) = settings.protection.check(&key.namespace, &key.name) {
        return Clusterset {
            imports: Imports::Untouched,
            problem: Some(protected.to_string()),
            ..plan
        };
    }
    let constituents = exports.constituents();
    let merged = merge::merge(&constituents);
    let clusters = merged.iter().flat_map(|merged| &merged.clusters);
    let mut exporters: BTreeSet<ClusterName> = clusters.map(|name| (*name).clone()).collect();
    let unknown = exports::recorded_and_unknown(index, key, &exports);
    let unsure = unknown.is_some();
    let source = Source {
        agreed: merged.as_ref().map(|merged| &merged.shape),
        unknown: unknown.as_deref(),
        providers: providers(index, &exports, &constituents),
        importer: index.hub.importer(key, now),
    };
    let wishes = wishes(index, key, &source);
    let karmadas = karmada::said(index, key, source.importer, &wishes);
    let karmada_again_at = karmada::again_at(source.importer, &wishes, now);
    exporters.extend(unknown.into_iter().flatten());
    let conflicts = merged.map_or_else(Vec::new, |merged: Merged<'_>| merged.conflicts);
    Clusterset {
        imports: Imports::Wanted(wishes),
        // While an exporter is unknown its place is not known either.
        precedences: match unsure {
            true => BTreeMap::new(),
            false => exports.precedences.clone(),
        },
        exporters,
        conflicts,
        unsure,
        karmadas,
        again_at: plan.again_at.into_iter().chain(karmada_again_at).min(),
        ..plan
    }
}

/// Whether any member exports or imports the service, or holds something of an import.
fn concerns(index: &Index, key: &ServiceKey) -> bool {
    let derived = key.derived();
    index.members.values().any(|member| {
        member.export(key).is_some()
            || member.import(key).is_some()
            || member.owns_clusterset(key, &derived, &index.hub.uid)
    })
}

/// What is imported, as the exports say it.
struct Source<'a> {
    /// What those agree on that are known.
    agreed: Option<&'a ImportShape>,
    /// The exporters that are recorded and unknown; none where all exporters are known.
    unknown: Option<&'a [ClusterName]>,
    /// Whose slices are copied.
    providers: Vec<Provider<'a>>,
    /// Who makes the imports.
    importer: hub::imports::Importer,
}

fn wishes(
    index: &Index,
    key: &ServiceKey,
    source: &Source<'_>,
) -> BTreeMap<ClusterName, ImportWish> {
    let wish = |(name, member): (&ClusterName, &Member)| {
        let left_out = matches!(
            index.standing(name),
            Standing::LeftOut(_) | Standing::NotJoined
        );
        if left_out || index.hub.is_leaving(name) {
            return None;
        }
        let importer = Importer {
            index,
            key,
            name,
            member,
            source,
        };
        Some((name.clone(), importer.wish()?))
    };
    index.members.iter().filter_map(wish).collect()
}

/// Whose slices are copied: those of the valid exports, and whatever is there of clusters of which nothing is known.
fn providers<'a>(
    index: &'a Index,
    exports: &'a Exports<'_>,
    constituents: &[Constituent<'a>],
) -> Vec<Provider<'a>> {
    let valid = constituents.iter().map(|export| {
        let member = index.members.get(export.cluster);
        Provider {
            name: export.cluster,
            member: member.filter(|member| member.sources_are_known()),
            ports: export.service.ports(),
            ranges: index.hub.ranges(export.cluster),
        }
    });
    let unknown = exports.unknown.iter().map(|name| Provider {
        name,
        member: None,
        ports: Vec::new(),
        ranges: Arc::default(),
    });
    let all = valid.chain(unknown);
    all.filter(|provider| !index.has_lapsed(provider.name))
        .collect()
}

/// A member that may import the service.
struct Importer<'a> {
    index: &'a Index,
    key: &'a ServiceKey,
    name: &'a ClusterName,
    member: &'a Member,
    source: &'a Source<'a>,
}

impl Importer<'_> {
    fn wish(&self) -> Option<ImportWish> {
        let served = self.member.imports_followed()?;
        if self.member.namespace(&self.key.namespace) != NamespaceState::Active {
            return None;
        }
        let import = self
            .member
            .import(self.key)
            .filter(|import| !import.deleting);
        let hub = &self.index.hub.uid;
        let shape = self.shape();
        match (import.filter(|import| import.path(hub).is_none()), shape) {
            (Some(foreign), shape)
                if shape.is_some() || !exports::is_of_another(&foreign.hub, hub) =>
            {
                let shape = import::shape_of(foreign, shape.as_deref());
                let owner = format!("ServiceImport/{}", foreign.uid);
                Some(self.complete(served, &shape, &owner, true))
            }
            (None, Some(shape)) => {
                let owner = format!("ServiceExport/{}", self.key.name);
                Some(self.complete(served, &shape, &owner, false))
            }
            // Nothing is exported; what another hub imports needs nothing of this one.
            _ => self.left_over(served),
        }
    }

    /// What the member is to import: while an exporter is unknown it neither shrinks nor changes from what the member itself
    /// holds, for what other members hold may be less, or forged.
    fn shape(&self) -> Option<Cow<'_, ImportShape>> {
        let agreed = self.source.agreed;
        match self.source.unknown.and_then(|_| self.record()) {
            Some(record) => Some(Cow::Owned(ImportShape::grown_from(&record, agreed))),
            None => agreed.map(Cow::Borrowed),
        }
    }

    fn record(&self) -> Option<ImportShape> {
        let hub = &self.index.hub.uid;
        let import = self.member.import(self.key);
        let derived = self.member.service(&self.key.derived());
        import::record(
            import.filter(|import| import.path(hub) == Some(Path::Clusterset)),
            derived.filter(|service| service.is_derived_for(self.key, hub)),
        )
    }

    /// What becomes of what is left of an import of which no record says how it was: it stays while an exporter is unknown, but
    /// for copies that would be another Service's by now.
    fn left_over(&self, served: ServedImports) -> Option<ImportWish> {
        let (key, derived) = (self.key, self.key.derived());
        let hub = &self.index.hub.uid;
        let is_held = self.source.unknown.is_some_and(|all| !all.is_empty());
        let is_there =
            self.member.import(key).is_some() || self.member.owns_clusterset(key, &derived, hub);
        let service = self.member.service(&derived);
        (is_held && is_there).then(|| ImportWish {
            served,
            service: None,
            import: ImportPlan::Later,
            copies: match service.is_none_or(|service| service.is_derived_for(key, hub)) {
                true => CopyWish::hold_all(),
                false => CopyWish::default(),
            },
            trouble: None,
            unresolved: None,
            karmadas: false,
        })
    }

    fn complete(
        &self,
        served: ServedImports,
        shape: &ImportShape,
        owner: &str,
        is_foreign: bool,
    ) -> ImportWish {
        let unsupported = matches!(
            self.member.derived_refusal(self.key),
            Some(DerivedRefusal::Families(families)) if *families == shape.ip_families
        );
        if let Some(left) = self.left_to_karmada(served, shape, owner) {
            return left;
        }
        let derived = self.key.derived();
        let observed = self.member.service(&derived);
        let service = (!unsupported).then(|| self.service(shape, &derived, owner));
        let ports: Vec<_> = shape.ports.iter().map(import::port_shape).collect();
        let offered = service
            .as_ref()
            .map(|service| service.ports_offered(observed, &derived, &ports));
        let (ports, trouble) = offered.unwrap_or_default();
        let unready = match &service {
            None => Some(Unready::unsupported(&shape.ip_families)),
            Some(ServiceWish::Conflict(why)) => Some(Unready::conflict(why)),
            Some(_) => None,
        };
        let copies = |consumer: &Consumer<'_>| match &service {
            Some(ServiceWish::Conflict(_)) => CopyWish::default(),
            _ => self.copies(served, owner, &derived.name, consumer),
        };
        let preference = service
            .as_ref()
            .and_then(|service| service.traffic_distribution(observed));
        let consumer = Consumer {
            name: self.name,
            ports: &ports,
            traffic_distribution: preference,
            release: Release::of(self.member),
        };
        let import = match is_foreign {
            true => ImportPlan::Foreign,
            false => import::plan(served, shape, owner, observed, unready),
        };
        let mut copies = copies(&consumer);
        if self.source.importer == hub::imports::Importer::Karmada {
            copies.yield_to_karmada(self.member, self.key, &derived, Path::Clusterset);
        }
        ImportWish {
            served,
            copies,
            service,
            import,
            trouble,
            unresolved: self.unresolved(shape),
            karmadas: false,
        }
    }

    /// Names of the clusterset lead to the addresses that an import's spec says; that of a person's is the person's to write.
    fn unresolved(&self, shape: &ImportShape) -> Option<String> {
        let import = self
            .member
            .import(self.key)
            .filter(|import| import.path(&self.index.hub.uid).is_none())?;
        let derived = self.key.derived();
        let service = self.member.service(&derived)?;
        let is_derived = service.is_derived_for(self.key, &self.index.hub.uid) && !service.deleting;
        let addresses: Vec<&str> = service.cluster_ips.iter().map(|ip| &**ip).collect();
        if !is_derived || shape.headless {
            return None;
        }
        let (why, remedy) =
            ownership::unresolved(self.key, &import.spec.ips, &derived, &addresses)?;
        Some(format!("{why}; there: {remedy}"))
    }

    fn service(&self, shape: &ImportShape, derived: &ServiceKey, owner: &str) -> ServiceWish {
        let hub = &self.index.hub.uid;
        let observed = self.member.service(derived);
        if let Some(other) = observed.filter(|service| !service.is_derived_for(self.key, hub)) {
            return ServiceWish::Conflict(import::conflict(self.key, derived, other, hub));
        }
        let import = self
            .member
            .import(self.key)
            .filter(|import| import.path(&self.index.hub.uid) == Some(Path::Clusterset));
        let addresses = import.map(|import| import.spec.ips.as_slice());
        let addresses = addresses.filter(|addresses| !self.are_refused(addresses));
        let own = derived_service(
            self.key,
            shape,
            owner,
            observed,
            addresses.unwrap_or_default(),
            Release::of(self.member),
        );
        ServiceWish::Own(own.into())
    }

    fn are_refused(&self, addresses: &[String]) -> bool {
        match self.member.derived_refusal(self.key) {
            Some(DerivedRefusal::Addresses(refused)) => refused
                .iter()
                .any(|one| addresses.iter().any(|other| **other == **one)),
            _ => false,
        }
    }

    /// Copies belong to the import, so they come after it; while it is not there those that are there stay.
    fn copies(
        &self,
        served: ServedImports,
        owner: &str,
        service: &str,
        consumer: &Consumer<'_>,
    ) -> CopyWish {
        let Some(import) = self
            .member
            .import(self.key)
            .filter(|import| !import.deleting)
        else {
            return CopyWish::hold_all();
        };
        let reference = import::owner_reference(self.key, served.version, import);
        let origin = Origin {
            hub: &self.index.hub.uid,
            owner,
            key: self.key,
            path: Path::Clusterset,
            service,
            multicluster: true,
            import: Some(&reference),
        };
        copy::copies(&origin, consumer, self.source.providers.iter())
    }
}

#[cfg(test)]
mod tests;
