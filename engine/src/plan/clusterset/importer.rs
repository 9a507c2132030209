//! Desired import of one member.

use causeway::domain::{ClusterName, ServiceKey};

use super::desired::{DesiredImport, Unresolved};
use super::exports;
use super::import::{self, DerivedSite, ImportPlan, Unready, derived_service};
use super::merge::ImportShape;
use super::source::{ProviderSet, Source};
use crate::model::served::ServedImports;
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::hub::manager::Importer as By;
use crate::observed::member::{DerivedRefusal, Member};
use crate::plan::capabilities::Capabilities;
use crate::plan::copies::{self, Consumer, DesiredCopies, Hold, Origin, Outcomes};
use crate::plan::providers::Frontend;
use crate::plan::service::DesiredService;
use crate::plan::shares::{self, Requested, Shares};
use crate::plan::tiers::{self, Tiers};

/// Import that a member should hold.
#[derive(Clone, Copy)]
pub(super) struct WantedImport<'a> {
    /// Version and fields in which the member serves imports.
    pub(super) served: ServedImports,
    pub(super) shape: &'a ImportShape,
    /// Owner of its objects, `<kind>/<uid>`.
    pub(super) owner: &'a str,
}

/// Member that may import the service.
pub(super) struct Importer<'a> {
    pub(super) index: &'a Index,
    pub(super) key: &'a ServiceKey,
    pub(super) name: &'a ClusterName,
    pub(super) member: &'a Member,
    pub(super) source: &'a Source<'a>,
    pub(super) set: &'a ProviderSet<'a>,
}

impl Importer<'_> {
    /// Returns the desired import. `None` if nothing is exported, no import that a user created
    /// needs a Service, and no objects are held for an unknown exporter.
    pub(super) fn desired(
        &self,
        served: ServedImports,
        shape: Option<&ImportShape>,
        outcomes: &mut Outcomes,
    ) -> Option<DesiredImport> {
        let import = self
            .member
            .import(self.key)
            .filter(|import| !import.deleting);
        let hub = self.index.hub_uid();
        match (
            import.filter(|import| import.exposure(hub).is_none()),
            shape,
        ) {
            (Some(foreign), shape)
                if shape.is_some()
                    || !exports::is_of_another(&foreign.hub, hub)
                        && self.source.honours_hand_made(self.member) =>
            {
                let wanted = WantedImport {
                    served,
                    shape: &import::shape_of(foreign, shape),
                    owner: &format!("ServiceImport/{}", foreign.uid),
                };
                Some(self.complete(wanted, true, outcomes))
            }
            (None, Some(shape)) => {
                let wanted = WantedImport {
                    served,
                    shape,
                    owner: &format!("ServiceExport/{}", self.key.name),
                };
                Some(self.complete(wanted, false, outcomes))
            }
            // Nothing is exported; what another hub imports needs nothing of this one.
            _ => self.left_over(served),
        }
    }

    /// Holds the remains of an import without a record while a recorded exporter is unknown. Copies
    /// are not held if a Service that causeway did not derive has taken the derived name.
    fn left_over(&self, served: ServedImports) -> Option<DesiredImport> {
        let (key, derived) = (self.key, self.key.derived());
        let hub = self.index.hub_uid();
        let is_held = self.source.unknown.is_some_and(|all| !all.is_empty());
        let is_there =
            self.member.import(key).is_some() || self.member.owns_clusterset(key, &derived, hub);
        let service = self.member.service(&derived);
        (is_held && is_there).then(|| DesiredImport {
            served,
            service: None,
            import: ImportPlan::Later,
            copies: match service.filter(|service| !service.is_derived_for(key, hub)) {
                None => DesiredCopies::hold_all(Hold::ExporterUnknown),
                Some(conflict) => DesiredCopies::of_conflict(conflict),
            },
            problem: None,
            unresolved: None,
            karmadas: false,
        })
    }

    fn complete(
        &self,
        wanted: WantedImport<'_>,
        is_foreign: bool,
        outcomes: &mut Outcomes,
    ) -> DesiredImport {
        let WantedImport {
            served,
            shape,
            owner,
        } = wanted;
        if let Some(left) = self.left_to_karmada(wanted, outcomes) {
            return left;
        }
        let derived = self.key.derived();
        let observed = self.member.service(&derived);
        let is_supported = !self.lacks_families(shape);
        let service = is_supported.then(|| self.service(shape, &derived, owner));
        let own = service.as_ref();
        let offered = own.map(|service| service.ports_offered(observed, &derived, &shape.ports));
        let (ports, problem) = offered.unwrap_or_default();
        let unready = match &service {
            None => Some(Unready::Families(shape.ip_families.clone())),
            Some(DesiredService::Conflict(why)) => Some(Unready::Conflict(why.clone())),
            Some(_) => None,
        };
        let preference = own.and_then(|service| service.traffic_distribution(observed));
        let (tiers, shares) = self.roles(shape, &Frontend::new(&ports, observed));
        let consumer = Consumer {
            tiers: tiers.as_ref(),
            shares: shares.as_ref(),
            name: self.name,
            network: &self.index.network(self.name),
            ports: &ports,
            traffic_distribution: preference,
            is_headless: own.is_some_and(|service| service.is_headless(observed)),
            capabilities: Capabilities::of(self.member),
        };
        let import = match is_foreign {
            true => ImportPlan::Foreign,
            false => import::plan(served, shape, owner, (&derived, observed), unready),
        };
        let mut copies = match &service {
            Some(DesiredService::Conflict(conflict)) => DesiredCopies::of_conflict(conflict),
            _ => self.copies(wanted, &derived.name, &consumer, outcomes),
        };
        if self.source.importer == By::Karmada {
            copies.yield_to_karmada(self.member, self.key, &derived, Exposure::Clusterset);
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

    /// Sorts the providers into failover tiers of the member, and chooses the endpoints by which
    /// they get their shares. Where Karmada imports the service, neither applies: clients use
    /// Karmada's slices.
    fn roles(
        &self,
        shape: &ImportShape,
        frontend: &Frontend<'_>,
    ) -> (Option<Tiers>, Option<Shares>) {
        let chooses = !shape.headless && self.source.importer != By::Karmada;
        let is_unknown = chooses && self.source.lacks_record(self.member);
        let request = tiers::Request {
            index: self.index,
            key: self.key,
            exposure: Exposure::Clusterset,
            preference: shape.failover.preference.as_ref().filter(|_| chooses),
            chooses,
            unreachable: &self.set.uses.standby,
            providers: &self.set.providers,
            now: self.source.now,
        };
        let tiers = match is_unknown {
            true => {
                let (index, key) = (self.index, self.key);
                Some(Tiers::of_copies(index, key, self.name, self.member))
            }
            false => request.of_consumer(self.name, self.member, frontend),
        };
        let share = match is_unknown {
            true => Requested::Unknown,
            false => Requested::of(shape.failover.share.as_ref(), chooses),
        };
        let of = &request;
        let shares = shares::Request { of, share };
        let shares = shares.of_consumer(self.name, self.member, frontend, tiers.as_ref());
        (tiers, shares)
    }

    /// Returns the reason why names of the clusterset lead elsewhere. They lead to the addresses in
    /// the spec of the import, and only the user writes the spec of an import that a user created.
    fn unresolved(&self, shape: &ImportShape) -> Option<Unresolved> {
        let import = self
            .member
            .import(self.key)
            .filter(|import| import.exposure(self.index.hub_uid()).is_none())?;
        let derived = self.key.derived();
        let service = self.member.service(&derived)?;
        let is_derived =
            service.is_derived_for(self.key, self.index.hub_uid()) && !service.deleting;
        let has = &import.spec.ips;
        let leads = |address: &String| service.cluster_ips.iter().any(|ip| **ip == **address);
        let is_resolved = !has.is_empty() && has.iter().all(leads);
        if !is_derived || shape.headless || service.cluster_ips.is_empty() || is_resolved {
            return None;
        }
        let wants = service.cluster_ips.iter().map(ToString::to_string);
        Some(Unresolved {
            has: has.clone(),
            wants: wants.collect(),
        })
    }

    fn service(&self, shape: &ImportShape, derived: &ServiceKey, owner: &str) -> DesiredService {
        let hub = self.index.hub_uid();
        let observed = self.member.service(derived);
        if let Some(other) = observed.filter(|service| !service.is_derived_for(self.key, hub)) {
            return DesiredService::Conflict(import::conflict(self.key, derived, other, hub));
        }
        let import = self.source.own_import(self.member);
        let addresses = import.map(|import| import.spec.ips.as_slice());
        let addresses = addresses.filter(|addresses| !self.are_refused(addresses));
        let site = DerivedSite {
            observed,
            addresses: addresses.unwrap_or_default(),
            capabilities: Capabilities::of(self.member),
        };
        let own = derived_service(self.key, shape, owner, site);
        DesiredService::Own(own.into())
    }

    /// Whether the member refused a Service of these address families.
    fn lacks_families(&self, shape: &ImportShape) -> bool {
        matches!(
            self.member.derived_refusal(self.key),
            Some(DerivedRefusal::Families(families)) if *families == shape.ip_families
        )
    }

    fn are_refused(&self, addresses: &[String]) -> bool {
        match self.member.derived_refusal(self.key) {
            Some(DerivedRefusal::Addresses(refused)) => refused
                .iter()
                .any(|one| addresses.iter().any(|other| **other == **one)),
            _ => false,
        }
    }

    /// Plans the copies. They belong to the import, so causeway creates them after it. While the
    /// import does not exist, observed copies are held.
    pub(super) fn copies(
        &self,
        wanted: WantedImport<'_>,
        service: &str,
        consumer: &Consumer<'_>,
        outcomes: &mut Outcomes,
    ) -> DesiredCopies {
        let Some(import) = self
            .member
            .import(self.key)
            .filter(|import| !import.deleting)
        else {
            return DesiredCopies::hold_all(Hold::ImportMissing);
        };
        let reference = import::owner_reference(self.key, wanted.served.version, import);
        let origin = Origin {
            index: self.index,
            owner: wanted.owner,
            key: self.key,
            exposure: Exposure::Clusterset,
            service,
            multicluster: true,
            import: Some(&reference),
        };
        let set = self.set;
        copies::copies(&origin, consumer, set.providers.iter(), &set.uses, outcomes)
    }
}
