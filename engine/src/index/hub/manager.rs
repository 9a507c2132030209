//! Who manages a service, and who makes the imports of one: causeway, or Karmada's own controllers.

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::ServiceKey;

use super::Hub;
use crate::model::{FailureKind, TimePoint};

/// How long is waited for what the hub says of its Works, once its other lists are complete.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who manages a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager<'a> {
    /// Karmada may: it is not known yet which Works there are. That is waited for until then, or for as long as it takes.
    Unknown(Option<TimePoint>),
    /// Causeway, as far as is known.
    Causeway,
    /// Karmada, as this Work shows.
    Karmada(&'a str),
}

/// Who makes the imports of an exported service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Importer {
    /// Causeway, as far as is known.
    #[default]
    Causeway,
    /// Karmada's own controllers import it somewhere, too.
    Karmada,
    /// Karmada's may: that is waited for until then, or for as long as it takes.
    Unknown(Option<TimePoint>),
}

impl Hub {
    /// Who manages the service. A hub that does not say within a minute which Works there are, because causeway lacks the right, is taken
    /// to have none: it mostly has none, and without an end to the waiting nothing would be done there at all.
    pub fn manager(&self, key: &ServiceKey, now: TimePoint) -> Manager<'_> {
        if let Some(work) = self.works.of_service.get(key).and_then(BTreeSet::first) {
            return Manager::Karmada(work);
        }
        match self.works_awaited_until() {
            _ if self.works.are_known() => Manager::Causeway,
            Some(until) if until <= now => Manager::Causeway,
            until => Manager::Unknown(until),
        }
    }

    /// Whether services are planned without its being known what Karmada manages.
    pub fn hides_works(&self, now: TimePoint) -> bool {
        let until = self.works_awaited_until();
        !self.works.are_known() && until.is_some_and(|until| until <= now)
    }

    /// Until when the list of Works is waited for. Where there are more than are listened to, that is no reason to take them for none.
    fn works_awaited_until(&self) -> Option<TimePoint> {
        let failure = self.works.list.failure.as_ref();
        if failure.is_some_and(|failure| failure.kind == FailureKind::Excess) {
            return None;
        }
        let since = self.evidence.listed_since?;
        let since = self.works.since.map_or(since, |served| since.max(served));
        Some(since.after(PATIENCE))
    }

    /// Who makes the imports of the service. Where the hub does not say within a minute what it holds, for want of a right, causeway
    /// does, as with [`Hub::manager`].
    pub fn importer(&self, key: &ServiceKey, now: TimePoint) -> Importer {
        if self.works.are_unserved() {
            return Importer::Causeway;
        }
        let derived = key.derived();
        let is_imported = self.imports.of_derived.contains_key(&derived);
        let service = self.services.get(&derived);
        if is_imported && service.is_some_and(|service| service.hub.is_none()) {
            return Importer::Karmada;
        }
        let served = self.works.served_since();
        if served.is_some() && self.imports.are_known() && self.is_listed() {
            return Importer::Causeway;
        }
        let since = [self.evidence.listed_since, served, self.imports.since];
        let until = since
            .into_iter()
            .flatten()
            .max()
            .map(|at| at.after(PATIENCE));
        match until.filter(|_| self.is_listed()) {
            Some(until) if until <= now => Importer::Causeway,
            until => Importer::Unknown(until),
        }
    }
}
