//! Number of MultiClusterServices that are not Ready, by reason.

use causeway::api::condition::{self, TRUE};

use super::hub::McsView;
use super::tally::LabelNotes;
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
pub(crate) type UnreadyNotes = LabelNotes<Option<&'static str>, &'static str>;

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
