//! Number of MultiClusterServices that are not Ready, by reason.

use causeway::api::condition::{self, TRUE};
use causeway::domain::ServiceKey;

use super::hub::McsView;
use super::tally::Tally;
use crate::model::map::HashMap;
use crate::reasons::Reason;

/// Reasons of a Ready condition that is not true. A status may hold a reason that somebody else
/// wrote: it counts as [`OTHER`], which bounds the number of reasons.
const REASONS: [Reason; 9] = [
    Reason::Pending,
    Reason::ServiceNotFound,
    Reason::PortNotFound,
    Reason::ServiceAppliedFailed,
    Reason::EndpointSliceDispatchedFailed,
    Reason::EndpointSliceAppliedFailed,
    Reason::NoProviders,
    Reason::WriteConflict,
    Reason::ManagedByKarmada,
];

/// Reason in place of all that causeway does not write.
pub(crate) const OTHER: &str = "Other";

/// Reason, and the number of MultiClusterServices that are not Ready for it.
pub(crate) type ReasonCount = (&'static str, usize);

/// Reasons why MultiClusterServices are not Ready, by service.
#[derive(Debug, Default)]
pub(crate) struct UnreadyNotes {
    services: HashMap<ServiceKey, &'static str>,
    counts: Tally<&'static str>,
}

impl UnreadyNotes {
    /// Notes the reason why a service is not Ready, or that it is. Returns the counts that changed.
    pub(crate) fn note(
        &mut self,
        key: &ServiceKey,
        reason: Option<&'static str>,
    ) -> Vec<ReasonCount> {
        let before = match reason {
            Some(reason) => self.services.insert(key.clone(), reason),
            None => self.services.remove(key),
        };
        self.counts.replace(before, reason)
    }

    /// Drops all notes. Returns the counts that changed.
    pub(crate) fn clear(&mut self) -> Vec<ReasonCount> {
        std::mem::take(self).counts.clear()
    }
}

/// Returns the reason why a MultiClusterService is not Ready; `None` if it is Ready or terminating.
pub(crate) fn not_ready(mcs: &McsView) -> Option<&'static str> {
    if mcs.is_deleting() {
        return None;
    }
    let Some(ready) = condition::find(&mcs.conditions, condition::READY) else {
        return Some(Reason::Pending.as_str());
    };
    let known = Reason::of(&ready.reason).filter(|reason| REASONS.contains(reason));
    (ready.status != TRUE).then(|| known.map_or(OTHER, Reason::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::key;

    #[test]
    fn services_that_are_not_ready_are_counted_by_reason() {
        let mut notes = UnreadyNotes::default();
        let (none, missing) = ("NoProviders", "ServiceNotFound");
        assert_eq!(notes.note(&key("foo"), None), []);
        assert_eq!(notes.note(&key("foo"), Some(none)), [(none, 1)]);
        assert_eq!(notes.note(&key("foo"), Some(none)), []);
        assert_eq!(notes.note(&key("bar"), Some(none)), [(none, 2)]);
        let moved = [(none, 1), (missing, 1)];
        assert_eq!(notes.note(&key("foo"), Some(missing)), moved);
        assert_eq!(notes.note(&key("bar"), None), [(none, 0)]);
        assert_eq!(notes.clear(), [(missing, 0)]);
        assert_eq!(notes.clear(), []);
    }
}
