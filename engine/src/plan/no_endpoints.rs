//! Services without any ready endpoint.

use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::tiers::Tiers;
use crate::observed::Index;

/// End of the sentence in Ready about a service without a ready endpoint.
pub(super) const SENTENCE: &str = "has a ready endpoint";

/// Whether no provider has a ready endpoint. While a provider is unknown, the report of the stored
/// condition stays.
pub(super) fn are_unready<'a>(
    index: &Index,
    key: &ServiceKey,
    providers: impl Iterator<Item = &'a ClusterName>,
    stored: Option<&Condition>,
) -> bool {
    let mut is_known = true;
    for name in providers {
        match index.member(name).and_then(|member| member.has_ready(key)) {
            Some(true) => return false,
            Some(false) => {}
            None => is_known = false,
        }
    }
    is_known || stored.is_some_and(|ready| ready.message.contains(SENTENCE))
}

/// Returns the part of Ready that names the consumers whose preference leads to no provider; empty
/// without any.
pub(super) fn unserved(consumers: &[(&ClusterName, &Tiers)]) -> String {
    let Some((_, tiers)) = consumers.first() else {
        return String::new();
    };
    let names: Vec<_> = consumers.iter().map(|(name, _)| name.as_str()).collect();
    format!(
        "; no endpoint in {}: {}",
        names.join(", "),
        tiers.why_unused()
    )
}
