//! What one member should hold of an imported service.

use std::borrow::Cow;

use causeway::api::ownership;
use causeway::domain::{ClusterName, ConsumerSelector, Consumers, ServiceKey};

use super::desired::{DesiredImport, NotImporting, Unresolved};
use super::exports;
use super::import::{self, ImportPlan, Unready, derived_service};
use super::merge::ImportShape;
use crate::index::Index;
use crate::index::hub::manager::Importer as By;
use crate::index::member::{DerivedRefusal, Member, NamespaceState};
use crate::model::TimePoint;
use crate::model::served::ServedImports;
use crate::model::slice::Path;
use crate::plan::copy::{self, Consumer, DesiredCopies, Origin, Outcomes, Provider};
use crate::plan::reach::Reach;
use crate::plan::release::Release;
use crate::plan::service::DesiredService;
use crate::plan::tiers::{self, Tiers};

/// What is imported, as the exports say it.
pub(super) struct Source<'a> {
    /// What those agree on that are known.
    pub(super) agreed: Option<&'a ImportShape>,
    /// The exporters that are recorded and unknown; none where all exporters are known.
    pub(super) unknown: Option<&'a [ClusterName]>,
    /// Whose slices are copied.
    pub(super) providers: Vec<Provider<'a>>,
    /// Which of them cannot be reached.
    pub(super) reach: Reach,
    /// Who imports, beside those that export.
    pub(super) consumers: Consumers,
    /// Who makes the imports.
    pub(super) importer: By,
}

impl Source<'_> {
    /// Whether the exports let a member import the service; those that export it always do (enhancements#6329).
    fn lets_import(
        &self,
        index: &Index,
        name: &ClusterName,
        member: &Member,
        key: &ServiceKey,
    ) -> bool {
        let cluster = index.hub.clusters.get(name);
        let is_selected = |selector: &ConsumerSelector| match selector {
            ConsumerSelector::Cluster(one) => one == name,
            ConsumerSelector::Region(region) => {
                cluster.is_some_and(|cluster| cluster.region.as_ref() == Some(region))
            }
            ConsumerSelector::Zone(zone) => {
                cluster.is_some_and(|cluster| cluster.zones.contains(zone))
            }
        };
        let exports = || member.export(key).is_some();
        match &self.consumers {
            Consumers::All => true,
            Consumers::Selected(selectors) => selectors.iter().any(is_selected) || exports(),
            Consumers::Unreadable => member.import(key).is_some() || exports(),
        }
    }
}

/// A member that may import the service.
pub(super) struct Importer<'a> {
    pub(super) index: &'a Index,
    pub(super) key: &'a ServiceKey,
    pub(super) name: &'a ClusterName,
    pub(super) member: &'a Member,
    pub(super) source: &'a Source<'a>,
    pub(super) now: TimePoint,
}

impl Importer<'_> {
    /// How the member serves imports, or why it imports nothing.
    pub(super) fn served(&self) -> Result<ServedImports, NotImporting> {
        let served = self.member.imports_followed();
        let served = served.ok_or(NotImporting::NotServed)?;
        if !self
            .source
            .lets_import(self.index, self.name, self.member, self.key)
        {
            return Err(NotImporting::NotConsumer);
        }
        match self.member.namespace(&self.key.namespace) {
            NamespaceState::Active => Ok(served),
            NamespaceState::Missing => Err(NotImporting::NamespaceMissing),
            NamespaceState::Terminating => Err(NotImporting::NamespaceTerminating),
        }
    }

    /// What the member should hold; nothing where nothing is exported.
    pub(super) fn desired(
        &self,
        served: ServedImports,
        outcomes: &mut Outcomes,
    ) -> Option<DesiredImport> {
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
                Some(self.complete(served, &shape, &owner, true, outcomes))
            }
            (None, Some(shape)) => {
                let owner = format!("ServiceExport/{}", self.key.name);
                Some(self.complete(served, &shape, &owner, false, outcomes))
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
    fn left_over(&self, served: ServedImports) -> Option<DesiredImport> {
        let (key, derived) = (self.key, self.key.derived());
        let hub = &self.index.hub.uid;
        let is_held = self.source.unknown.is_some_and(|all| !all.is_empty());
        let is_there =
            self.member.import(key).is_some() || self.member.owns_clusterset(key, &derived, hub);
        let service = self.member.service(&derived);
        (is_held && is_there).then(|| DesiredImport {
            served,
            service: None,
            import: ImportPlan::Later,
            copies: match service.is_none_or(|service| service.is_derived_for(key, hub)) {
                true => DesiredCopies::hold_all(),
                false => DesiredCopies::default(),
            },
            problem: None,
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
        outcomes: &mut Outcomes,
    ) -> DesiredImport {
        let unsupported = matches!(
            self.member.derived_refusal(self.key),
            Some(DerivedRefusal::Families(families)) if *families == shape.ip_families
        );
        if let Some(left) = self.left_to_karmada(served, shape, owner, outcomes) {
            return left;
        }
        let derived = self.key.derived();
        let observed = self.member.service(&derived);
        let service = (!unsupported).then(|| self.service(shape, &derived, owner));
        let ports: Vec<_> = shape.ports.iter().map(import::port_shape).collect();
        let offered = service
            .as_ref()
            .map(|service| service.ports_offered(observed, &derived, &ports));
        let (ports, problem) = offered.unwrap_or_default();
        let unready = match &service {
            None => Some(Unready::unsupported(&shape.ip_families)),
            Some(DesiredService::Conflict(why)) => Some(Unready::conflict(why)),
            Some(_) => None,
        };
        let preference = service
            .as_ref()
            .and_then(|service| service.traffic_distribution(observed));
        let tiers = self.tiers(shape);
        let consumer = Consumer {
            tiers: tiers.as_ref(),
            name: self.name,
            ports: &ports,
            traffic_distribution: preference,
            release: Release::of(self.member),
        };
        let import = match is_foreign {
            true => ImportPlan::Foreign,
            false => import::plan(served, shape, owner, (&derived, observed), unready),
        };
        let mut copies = match &service {
            Some(DesiredService::Conflict(_)) => DesiredCopies::default(),
            _ => self.copies(served, owner, &derived.name, &consumer, outcomes),
        };
        if self.source.importer == By::Karmada {
            copies.yield_to_karmada(self.member, self.key, &derived, Path::Clusterset);
        }
        DesiredImport {
            served,
            copies,
            service,
            import,
            problem,
            unresolved: self.unresolved(shape),
            karmadas: false,
        }
    }

    /// Which of the providers the member uses first; of what Karmada imports Karmada's slices are used.
    fn tiers(&self, shape: &ImportShape) -> Option<Tiers> {
        let chooses = !shape.headless && self.source.importer != By::Karmada;
        let request = tiers::Request {
            index: self.index,
            key: self.key,
            path: Path::Clusterset,
            preference: shape.failover.preference.as_ref().filter(|_| chooses),
            unreachable: &self.source.reach.standby,
            providers: &self.source.providers,
        };
        request.of_consumer(self.name, self.member, self.now)
    }

    /// Names of the clusterset lead to the addresses that an import's spec says; that of a person's is the person's to write.
    fn unresolved(&self, shape: &ImportShape) -> Option<Unresolved> {
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
        Some(Unresolved { why, remedy })
    }

    fn service(&self, shape: &ImportShape, derived: &ServiceKey, owner: &str) -> DesiredService {
        let hub = &self.index.hub.uid;
        let observed = self.member.service(derived);
        if let Some(other) = observed.filter(|service| !service.is_derived_for(self.key, hub)) {
            return DesiredService::Conflict(import::conflict(self.key, derived, other, hub));
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
        DesiredService::Own(own.into())
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
    pub(super) fn copies(
        &self,
        served: ServedImports,
        owner: &str,
        service: &str,
        consumer: &Consumer<'_>,
        outcomes: &mut Outcomes,
    ) -> DesiredCopies {
        let Some(import) = self
            .member
            .import(self.key)
            .filter(|import| !import.deleting)
        else {
            return DesiredCopies::hold_all();
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
        copy::copies(&origin, consumer, self.source.providers.iter(), outcomes)
    }
}
