//! Imports that Karmada manages (`index::hub::imports` says how they do).
//!
//! The unit is a service in a member, and what tells is the derived Service there. Where it is causeway's, causeway goes on: Karmada's objects are
//! refused a place that is taken. Its slices, which have names of their own, are not; so of each source there is one manager: a copy goes once
//! Karmada's slice has what it has, and all of them are made again when the ServiceImport on the hub goes. Where it is Karmada's, causeway writes nothing, and takes back a copy of its
//! own only once Karmada's slice of the same source is there. Where there is none, causeway begins nothing while Karmada may: it
//! would take the place first, and two would manage the service.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};

use super::desired::DesiredImport;
use super::import::ImportPlan;
use super::importer::Importer;
use super::merge::ImportShape;
use crate::index::Index;
use crate::index::hub::manager::Importer as By;
use crate::model::TimePoint;
use crate::model::served::ServedImports;
use crate::model::slice::Path;
use crate::plan::copy::{Consumer, DesiredCopies, Outcomes};
use crate::plan::release::Release;
use crate::plan::service::DesiredService;

/// When copies that are left to Karmada's slices are looked at again: what comes need not say which service it is of.
const AGAIN: Duration = Duration::from_secs(30);

impl Importer<'_> {
    /// What becomes of a member in which the service is Karmada's to import, or may be; `None` where it is causeway's.
    pub(super) fn left_to_karmada(
        &self,
        served: ServedImports,
        shape: &ImportShape,
        owner: &str,
        outcomes: &mut Outcomes,
    ) -> Option<DesiredImport> {
        let derived = self.key.derived();
        let by = self.source.importer;
        let (import, copies) = match self.member.service(&derived) {
            Some(service) if service.by_karmada && (by == By::Karmada || self.has_karmadas()) => {
                let mut copies = self.copies_beside(served, shape, owner, outcomes);
                copies.give_way(self.member, self.key, &derived, Path::Clusterset);
                (ImportPlan::Foreign, copies)
            }
            None if by == By::Karmada => (ImportPlan::Foreign, DesiredCopies::hold_all()),
            None if matches!(by, By::Unknown(_)) => (ImportPlan::Later, DesiredCopies::hold_all()),
            _ => return None,
        };
        Some(DesiredImport {
            served,
            service: None,
            karmadas: import == ImportPlan::Foreign,
            import,
            copies,
            problem: None,
            unresolved: None,
        })
    }

    /// Whether the member's import is one that Karmada propagated.
    fn has_karmadas(&self) -> bool {
        let import = self.member.import(self.key);
        let managed = import.and_then(|import| import.labels.get(labels::KARMADA_MANAGED));
        managed.is_some_and(|managed| managed == "true")
    }

    /// What copies there would be, behind the Service that Karmada has there.
    fn copies_beside(
        &self,
        served: ServedImports,
        shape: &ImportShape,
        owner: &str,
        outcomes: &mut Outcomes,
    ) -> DesiredCopies {
        let derived = self.key.derived();
        let observed = self.member.service(&derived);
        let ports: Vec<_> = shape.ports.iter().map(super::import::port_shape).collect();
        let theirs = DesiredService::Foreign;
        let (ports, _) = theirs.ports_offered(observed, &derived, &ports);
        let consumer = Consumer {
            name: self.name,
            ports: &ports,
            traffic_distribution: theirs.traffic_distribution(observed),
            release: Release::of(self.member),
            tiers: None,
        };
        self.copies(served, owner, &derived.name, &consumer, outcomes)
    }
}

/// What is said of what Karmada imports, with what to type; nothing where it imports nothing.
pub(super) fn said(
    index: &Index,
    key: &ServiceKey,
    by: By,
    imports: &BTreeMap<ClusterName, DesiredImport>,
) -> Option<String> {
    let names = |karmadas: bool| -> Vec<&str> {
        let is_one = |(name, import): &(&ClusterName, &DesiredImport)| {
            import.karmadas == karmadas && index.hub.clusters.contains_key(*name)
        };
        let those = imports.iter().filter(is_one);
        those.map(|(name, _)| name.as_str()).collect()
    };
    let (left, own) = (names(true), names(false));
    if by != By::Karmada && left.is_empty() {
        return None;
    }
    let mut text =
        format!("Karmada's own controllers import this service (ServiceImport {key} on the hub)");
    if !left.is_empty() {
        text.push_str(&format!(
            "; causeway leaves it to them in {}",
            left.join(", ")
        ));
    }
    if !own.is_empty() {
        let own = own.join(", ");
        text.push_str(&format!("; causeway, which was first, goes on in {own}"));
    }
    let (namespace, name) = (&key.namespace, &key.name);
    text.push_str(&format!(
        ". For causeway to import it everywhere: kubectl -n {namespace} delete serviceimport {name} on the hub; Karmada then takes out of \
         the members what it put there, and clients that it serves are without the service for a moment"
    ));
    Some(text)
}

/// When time alone may change what is left to Karmada.
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
