//! Services without any ready endpoint.

use causeway::domain::{ClusterName, ServiceKey};

use crate::observed::Index;

/// Whether no provider has a ready endpoint. While a provider is unknown, a report stays.
pub(crate) fn are_unready<'a>(
    index: &Index,
    key: &ServiceKey,
    providers: impl Iterator<Item = &'a ClusterName>,
    was_reported: bool,
) -> bool {
    let mut is_known = true;
    for name in providers {
        match index.member(name).and_then(|member| member.has_ready(key)) {
            Some(true) => return false,
            Some(false) => {}
            None => is_known = false,
        }
    }
    is_known || was_reported
}
