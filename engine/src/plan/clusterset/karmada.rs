//! Imports that Karmada manages. `index::hub::imports` describes Karmada's controllers.
//!
//! The decision is made per service and member, by the derived Service in the member:
//!
//! - The Service is causeway's: causeway continues. The API server refuses Karmada's objects, whose
//!   names are taken, but not Karmada's slices, which have names of their own. Each source has one
//!   manager: causeway deletes a copy once Karmada's slice has its ready endpoints, and creates all
//!   copies again once the ServiceImport on the hub is deleted.
//! - The Service is Karmada's: causeway writes nothing. It deletes a copy of its own only once
//!   Karmada's slice of the same source exists.
//! - The member has no such Service: causeway creates nothing while Karmada may. Otherwise causeway
//!   would take the name first, and two controllers would manage the service.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::labels;
use causeway::domain::ClusterName;

use super::desired::{DesiredImport, ImportedByKarmada};
use super::import::ImportPlan;
use super::importer::{Importer, WantedImport};
use crate::model::TimePoint;
use crate::model::slice::Exposure;
use crate::observed::Index;
use crate::observed::hub::manager::Importer as By;
use crate::plan::capabilities::Capabilities;
use crate::plan::copies::{Consumer, DesiredCopies, Hold, Outcomes};
use crate::plan::service::DesiredService;

/// Time after which copies that yield to Karmada's slices are planned again: the event of such a
/// slice need not name its service.
const AGAIN: Duration = Duration::from_secs(30);

impl Importer<'_> {
    /// Returns the desired import of a member in which Karmada imports the service, or may; `None`
    /// if causeway does.
    pub(super) fn left_to_karmada(
        &self,
        wanted: WantedImport<'_>,
        outcomes: &mut Outcomes,
    ) -> Option<DesiredImport> {
        let derived = self.key.derived();
        let by = self.source.importer;
        let (import, copies) = match self.member.service(&derived) {
            Some(service) if service.by_karmada && (by == By::Karmada || self.has_karmadas()) => {
                let mut copies = self.copies_beside(wanted, outcomes);
                let (index, exposure) = (self.index, Exposure::Clusterset);
                copies.leave_to_karmada(index, self.member, self.key, exposure);
                (ImportPlan::Foreign, copies)
            }
            None => {
                let import = match by {
                    By::Karmada => ImportPlan::Foreign,
                    By::Unknown(_) => ImportPlan::Later,
                    By::Causeway => return None,
                };
                (import, DesiredCopies::hold_all(Hold::LeftToKarmada))
            }
            Some(_) => return None,
        };
        Some(DesiredImport {
            served: wanted.served,
            service: None,
            karmadas: import == ImportPlan::Foreign,
            import,
            copies,
            problem: None,
            unresolved: None,
        })
    }

    /// Whether Karmada propagated the member's import.
    fn has_karmadas(&self) -> bool {
        let import = self.member.import(self.key);
        let managed = import.and_then(|import| import.labels.get(labels::KARMADA_MANAGED));
        managed.is_some_and(|managed| managed == "true")
    }

    /// Plans the copies behind Karmada's Service.
    fn copies_beside(&self, wanted: WantedImport<'_>, outcomes: &mut Outcomes) -> DesiredCopies {
        let derived = self.key.derived();
        let observed = self.member.service(&derived);
        let theirs = DesiredService::Foreign;
        let (ports, _) = theirs.ports_offered(observed, &derived, &wanted.shape.ports);
        let consumer = Consumer {
            name: self.name,
            network: &self.index.network(self.name),
            ports: &ports,
            traffic_distribution: theirs.traffic_distribution(observed),
            is_headless: theirs.is_headless(observed),
            capabilities: Capabilities::of(self.member),
            tiers: None,
            shares: None,
        };
        self.copies(wanted, &derived.name, &consumer, outcomes)
    }
}

/// Returns the members in which Karmada manages the import; `None` if it manages none.
pub(super) fn imported(
    index: &Index,
    by: By,
    imports: &BTreeMap<ClusterName, DesiredImport>,
) -> Option<ImportedByKarmada> {
    let known = imports
        .iter()
        .filter(|(name, _)| index.cluster(name).is_some());
    let (left, own): (Vec<_>, Vec<_>) = known.partition(|(_, import)| import.karmadas);
    let names =
        |those: Vec<(&ClusterName, _)>| those.into_iter().map(|(name, _)| name.clone()).collect();
    (by == By::Karmada || !left.is_empty()).then(|| ImportedByKarmada {
        left: names(left),
        own: names(own),
    })
}

/// Returns the time at which time alone may change the imports that are left to Karmada.
pub(super) fn again_at(
    by: By,
    imports: &BTreeMap<ClusterName, DesiredImport>,
    now: TimePoint,
) -> Option<TimePoint> {
    let waits = match by {
        By::Unknown(until) => until,
        By::Causeway | By::Karmada => None,
    };
    let mut left = imports.values().filter(|import| import.karmadas);
    let gives_way = left.any(|import| !import.copies.wanted.is_empty());
    let looks = gives_way.then(|| now.after(AGAIN));
    waits.into_iter().chain(looks).min()
}
