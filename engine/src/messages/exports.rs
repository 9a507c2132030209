//! Sentences of the conditions of a ServiceExport and a ServiceImport.

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey};

use crate::plan::clusterset::exports::Validity;
use crate::reasons::Reason;

/// Message of Ready of an export that every member imports which can.
pub(crate) const EXPORTED: &str = "the service is exported to the clusterset";
/// Message of Ready of an export whose imports are being written.
pub(crate) const EXPORTING: &str = "the service is being exported";
/// Message of Ready of an import.
pub(crate) const IMPORTED: &str = "the service is imported";

/// Returns the message of Valid. `left_out` lists labels and annotations that cannot be exported.
pub(crate) fn can_be_exported(key: &ServiceKey, left_out: Option<&str>) -> String {
    let left_out = left_out.map(|names| format!("; not exported: {names}"));
    format!(
        "Service {key} can be exported{}",
        left_out.unwrap_or_default()
    )
}

/// Returns the message of Valid that is False for that reason.
pub(crate) fn invalid(reason: Reason, exporter: &ClusterName, key: &ServiceKey) -> String {
    match reason {
        Reason::NoService => {
            format!("{exporter} has no Service {key}; make it, or delete the ServiceExport")
        }
        _ => format!(
            "Service {key} is an ExternalName and has no endpoints; export a Service with a selector"
        ),
    }
}

/// Returns the message of Conflict that is False.
pub(crate) fn no_conflict(validity: Validity) -> &'static str {
    match validity {
        Validity::Leaving => "the service is not exported any more",
        _ => "all exports of the service agree",
    }
}

/// Returns the message of Ready of an export that no member imports.
pub(crate) fn not_exported(key: &ServiceKey, validity: Validity) -> String {
    match validity {
        Validity::Valid => EXPORTING.to_owned(),
        Validity::Leaving => {
            "this cluster is taken out of the clusterset, and with it what it exports".to_owned()
        }
        Validity::NoService => format!("waits for Service {key}"),
        Validity::Forbidden => format!(
            "the hub does not let this cluster export from namespace {} (annotation {} of its Cluster)",
            key.namespace,
            labels::EXPORT_NAMESPACES
        ),
        Validity::Withdrawn => format!(
            "nothing that this cluster provides is used (annotation {} of its Cluster)",
            labels::WITHDRAW
        ),
        Validity::BeyondQuota(beyond) => format!(
            "{beyond}; the oldest are served: delete ServiceExports that are not needed, or raise the flag"
        ),
        Validity::InvalidServiceType => format!("Service {key} cannot be exported"),
    }
}
