//! Reasons why MultiClusterServices are not Ready, as metrics count them.

use causeway::api::condition::{self, TRUE};

use super::hub::McsView;
use crate::reasons::Reason;

/// Reason in place of those that causeway does not know: somebody else may write any into a status.
const OTHER: &str = "Other";

/// Returns the reason why a MultiClusterService is not Ready; `None` if it is Ready or terminating.
pub(crate) fn not_ready(mcs: &McsView) -> Option<&'static str> {
    if mcs.is_deleting() {
        return None;
    }
    let Some(ready) = condition::find(&mcs.conditions, condition::READY) else {
        return Some(Reason::Pending.as_str());
    };
    (ready.status != TRUE).then(|| Reason::of(&ready.reason).map_or(OTHER, Reason::as_str))
}
