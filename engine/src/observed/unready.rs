//! Reasons why MultiClusterServices are not Ready, as metrics count them.

use causeway::api::condition::{self, TRUE};

use super::hub::McsView;
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
const OTHER: &str = "Other";

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
