//! What the members hold of exported services, read there with the credentials that the hub keeps for each.

use std::collections::BTreeMap;

use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster, condition, labels};
use futures::Stream;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use kube::runtime::watcher::Event;

use crate::api_server::{ApiServer, RequestError};
use crate::connectivity;
use crate::connectivity::ConnectError;
use crate::watches::{self, Broken, ClustersetKind};

/// What a member holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holdings {
    pub exports: Vec<ServiceExport>,
    pub imports: Vec<ServiceImport>,
    /// The Services that stand for imported ones; read where one service is requested.
    pub derived: Vec<Service>,
    /// The EndpointSlices of imported services; read where one service is requested.
    pub slices: Vec<EndpointSlice>,
}

/// What was read of each member, or why it was not. Members that take no part in the clusterset are left out.
pub(crate) type Readings = BTreeMap<String, Result<Holdings, ConnectError>>;

/// What is read of every member.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Of this namespace; of all where there is none.
    pub namespace: Option<String>,
    /// Of the service of this name; of all where there is none.
    pub name: Option<String>,
    /// Whether members may be reached without verifying who answers.
    pub allow_insecure: bool,
}

/// Reads all members at once, each within 5 seconds.
pub(crate) async fn read(hub: &ApiServer, clusters: &[Cluster], wanted: &Wanted) -> Readings {
    let parts = clusters.iter().filter(|cluster| takes_part(cluster));
    connectivity::read_each(hub, parts, wanted.allow_insecure, |member| {
        wanted.read(member)
    })
    .await
}

/// Whether a member may export or import: it is reached from the hub, and is not known to serve neither kind.
pub(crate) fn takes_part(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| &status.conditions);
    let serves_neither = conditions
        .and_then(|conditions| condition::find(conditions, condition::CLUSTERSET_API))
        .filter(|served| served.reason == condition::reason::NOT_SERVED)
        .is_some_and(|served| {
            ["ServiceExport", "ServiceImport"]
                .iter()
                .all(|kind| served.message.contains(kind))
        });
    cluster.spec.takes_part() && !serves_neither
}

impl Wanted {
    async fn read(&self, member: ApiServer) -> Result<Holdings, RequestError> {
        let member = &member;
        let (exports, imports) = tokio::try_join!(self.served(member), self.served(member))?;
        let mut holdings = Holdings {
            exports,
            imports,
            ..Holdings::default()
        };
        if let Some(name) = &self.name
            && !holdings.imports.is_empty()
        {
            let labelled = format!("{}={name}", labels::MULTICLUSTER_SERVICE_NAME);
            let parameters = ListParams::default().labels(&labelled);
            let namespace = self.namespace.as_deref();
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

    /// The objects of one kind of the Multi-Cluster Services API, in the newest version that the member serves.
    pub(crate) async fn served<K>(&self, member: &ApiServer) -> Result<Vec<K>, RequestError>
    where
        K: ClustersetKind,
    {
        let served = self.served_in(member).await?;
        Ok(served.map(|(_, objects)| objects).unwrap_or_default())
    }

    /// The same, with that version; `None` where the member serves none.
    pub(crate) async fn served_in<K>(
        &self,
        member: &ApiServer,
    ) -> Result<Option<(Version, Vec<K>)>, RequestError>
    where
        K: ClustersetKind,
    {
        let parameters = ListParams {
            field_selector: self.by_name(),
            ..ListParams::default()
        };
        for version in Version::ALL {
            let api = member.api_in::<K>(version, self.namespace.as_deref());
            match member.request(api.list(&parameters)).await {
                Ok(list) => return Ok(Some((version, list.items))),
                Err(RequestError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// What happens to them, from a list on.
    pub(crate) fn events<K>(
        &self,
        server: &ApiServer,
        version: Version,
    ) -> impl Stream<Item = Result<Event<K>, Broken>> + Send + use<K>
    where
        K: ClustersetKind,
    {
        let api = server.api_in(version, self.namespace.as_deref());
        watches::events(server, api, watches::selected(self.by_name()))
    }

    /// The field selector of that name.
    pub(crate) fn by_name(&self) -> Option<String> {
        let name = self.name.as_ref();
        name.map(|name| format!("metadata.name={name}"))
    }
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
