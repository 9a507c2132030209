//! Manager of a service, and importer of one: causeway, or Karmada's own controllers.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::ServiceKey;

use crate::model::{FailureKind, TimePoint};
use crate::observed::Index;

/// Maximum time to wait for the list of Works once the hub's other lists are complete.
const PATIENCE: Duration = Duration::from_secs(60);

/// Manager of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager<'a> {
    /// Perhaps Karmada: the Works are not listed yet. The controller waits for them until that
    /// time, or without end.
    Unknown(Option<TimePoint>),
    /// Causeway, as far as is known.
    Causeway,
    /// Karmada, as this Work shows.
    Karmada(&'a str),
}

/// Importer of an exported service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Importer {
    /// Causeway, as far as is known.
    #[default]
    Causeway,
    /// Karmada's own controllers also import it, into some cluster.
    Karmada,
    /// Perhaps Karmada's controllers. The controller waits for the lists until that time, or
    /// without end.
    Unknown(Option<TimePoint>),
}

impl Index {
    /// Returns the manager of the service. A hub whose Works are not listed within a minute,
    /// because causeway lacks the permission, counts as a hub without Works: most have none, and
    /// causeway would otherwise never write anything.
    pub(crate) fn manager(&self, key: &ServiceKey, now: TimePoint) -> Manager<'_> {
        if let Some(work) = self.hub.works.of_service.get(key).and_then(BTreeSet::first) {
            return Manager::Karmada(work);
        }
        match self.works_awaited_until() {
            _ if self.hub.works.are_known() => Manager::Causeway,
            Some(until) if until <= now => Manager::Causeway,
            until => Manager::Unknown(until),
        }
    }

    /// Whether services are planned although the services that Karmada manages are unknown.
    pub(crate) fn hides_works(&self, now: TimePoint) -> bool {
        let until = self.works_awaited_until();
        !self.hub.works.are_known() && until.is_some_and(|until| until <= now)
    }

    /// Returns the time until which the list of Works is awaited. Returns `None` while the hub's
    /// other lists are incomplete, and if there are more Works than causeway watches: they must not
    /// count as none.
    fn works_awaited_until(&self) -> Option<TimePoint> {
        let hub = &self.hub;
        let failure = hub.works.list.failure.as_ref();
        if failure.is_some_and(|failure| failure.kind == FailureKind::Excess) {
            return None;
        }
        let since = hub.evidence.listed_since?;
        let since = hub.works.since.map_or(since, |served| since.max(served));
        Some(since.after(PATIENCE))
    }

    /// Returns the importer of the service. Causeway is the importer if the hub's objects are not
    /// listed within a minute for lack of a permission, as with [`Index::manager`].
    pub(crate) fn importer(&self, key: &ServiceKey, now: TimePoint) -> Importer {
        let hub = &self.hub;
        if hub.works.are_unserved() {
            return Importer::Causeway;
        }
        let derived = key.derived();
        let is_imported = hub.imports.of_derived.contains_key(&derived);
        let service = hub.services.get(&derived);
        if is_imported && service.is_some_and(|service| service.hub.is_none()) {
            return Importer::Karmada;
        }
        let served = hub.works.served_since();
        if served.is_some() && hub.imports.are_known() && hub.is_listed() {
            return Importer::Causeway;
        }
        let since = [hub.evidence.listed_since, served, hub.imports.since];
        let until = since
            .into_iter()
            .flatten()
            .max()
            .map(|at| at.after(PATIENCE));
        match until.filter(|_| hub.is_listed()) {
            Some(until) if until <= now => Importer::Causeway,
            until => Importer::Unknown(until),
        }
    }
}
