//! Objects of exported services in the members, read with the credentials that the hub stores.

use std::collections::BTreeMap;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, condition, labels};
use causeway_engine::reasons::Reason;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;

use crate::api_server::{ApiServer, RequestError};
use crate::connectivity;
use crate::connectivity::ConnectError;
use crate::selection::Selection;

/// Objects of exported services in a member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    pub exports: Vec<ServiceExport>,
    pub imports: Vec<ServiceImport>,
    /// Services derived for imported ones; read if one service is selected.
    pub derived: Vec<Service>,
    /// EndpointSlices of imported services; read if one service is selected.
    pub slices: Vec<EndpointSlice>,
}

/// Holdings or the read error of each member that takes part in the clusterset.
pub(crate) type Readings = BTreeMap<String, Result<Holdings, ConnectError>>;

/// Reads all members at once, each within 5 seconds.
pub(crate) async fn read(hub: &ApiServer, clusters: &[Cluster], selection: &Selection) -> Readings {
    let parts = clusters.iter().filter(|cluster| takes_part(cluster));
    connectivity::read_each(hub, parts, selection.allow_insecure, |member| {
        read_member(selection, member)
    })
    .await
}

/// Whether a member may export or import: the hub connects to it, and it serves one of the kinds or
/// is not known to serve neither.
pub(crate) fn takes_part(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| &status.conditions);
    let serves_neither = conditions
        .and_then(|conditions| condition::find(conditions, condition::CLUSTERSET_API))
        .filter(|served| served.reason == Reason::NotServed)
        .is_some_and(|served| {
            ["ServiceExport", "ServiceImport"]
                .iter()
                .all(|kind| served.message.contains(kind))
        });
    cluster.spec.takes_part() && !serves_neither
}

/// Reads what a member holds of the selected services.
async fn read_member(selection: &Selection, member: ApiServer) -> Result<Holdings, RequestError> {
    let member = &member;
    let (exports, imports) = tokio::try_join!(selection.served(member), selection.served(member))?;
    let mut holdings = Holdings {
        exports,
        imports,
        ..Holdings::default()
    };
    if let Some(name) = &selection.name
        && !holdings.imports.is_empty()
    {
        let labelled = format!("{}={name}", labels::MULTICLUSTER_SERVICE_NAME);
        let parameters = ListParams::default().labels(&labelled);
        let namespace = selection.namespace.as_deref();
        let services: Api<Service> = member.api(namespace);
        let slices: Api<EndpointSlice> = member.api(namespace);
        let both = tokio::try_join!(
            member.request(services.list(&parameters)),
            member.request(slices.list(&parameters))
        );
        let (services, slices) = both?;
        holdings.derived = services.items;
        holdings.slices = slices.items;
    }
    Ok(holdings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::fixtures::{cluster, condition, synced};

    #[test]
    fn only_members_that_are_known_to_serve_neither_kind_are_not_asked() {
        let reported = |reason: &str, message: &str| {
            let reported = condition("ClustersetAPI", "False", reason, message);
            takes_part(&cluster("a", json!([reported])))
        };
        assert!(takes_part(&synced("a")), "the hub does not tell");
        assert!(!reported(
            "NotServed",
            "ServiceExport and ServiceImport are not installed there"
        ));
        assert!(reported(
            "NotServed",
            "ServiceImport is not installed there"
        ));
        assert!(reported("Refused", "ServiceExports and ServiceImports"));
        let mut pull = synced("a");
        pull.spec.sync_mode = Some(causeway::api::SyncMode::Pull);
        assert!(!takes_part(&pull));
    }
}
