//! Sentences about services without a ready endpoint, and their recognition in a stored condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::model::slice::Exposure;

/// End of the sentence about a service without a ready endpoint.
const HAS_READY: &str = "has a ready endpoint";

/// Reports that no provider has a ready endpoint.
pub(super) fn none_ready(exposure: Exposure) -> String {
    let role = match exposure {
        Exposure::Native => "provider",
        Exposure::Clusterset => "exporter",
    };
    format!("no {role} {HAS_READY}")
}

/// Whether the stored condition reports that no provider has a ready endpoint. The condition is the
/// one record of it that outlives the process.
pub(crate) fn reports_none_ready(stored: Option<&Condition>) -> bool {
    stored.is_some_and(|ready| ready.message.contains(HAS_READY))
}
