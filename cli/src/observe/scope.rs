//! Objects that a command observes in each cluster.

use causeway::api::multicluster::Version;
use causeway::api::{Cluster, condition};
use causeway_engine::reasons::Reason;
use futures::Stream;
use kube::api::ListParams;
use kube::runtime::watcher::Event;

use super::pace::{self, Broken, ClustersetKind};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::conditions::Conditions as _;

/// Selection of services and kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Namespace of the services. `None` selects all namespaces.
    pub namespace: Option<String>,
    /// Name of the services. `None` selects all names.
    pub name: Option<String>,
    /// Whether members may be read without verification of their certificates.
    pub allow_insecure: bool,
    /// Followed kinds.
    pub breadth: Breadth,
}

/// Set of followed kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// MultiClusterServices and Clusters of the hub, and the kinds of the Multi-Cluster Services
    /// API on hub and members.
    #[default]
    Clusterset,
    /// All kinds that a service depends on.
    Everything,
}

impl Scope {
    /// Returns the objects of one kind in the newest version that the cluster serves.
    pub(crate) async fn served<K>(&self, server: &ApiServer) -> Result<Vec<K>, RequestError>
    where
        K: ClustersetKind,
    {
        let served = self.served_in(server).await?;
        Ok(served.map(|(_, objects)| objects).unwrap_or_default())
    }

    /// Returns the objects of one kind and their version. `None` if the cluster serves no version.
    ///
    /// # Errors
    /// [`RequestError`]; [`RequestError::NotAllowed`] only if the cluster serves the kind: an API
    /// server refuses a user without the right, whether or not it serves the kind.
    pub(crate) async fn served_in<K>(
        &self,
        server: &ApiServer,
    ) -> Result<Option<(Version, Vec<K>)>, RequestError>
    where
        K: ClustersetKind,
    {
        let parameters = ListParams {
            field_selector: self.by_name(),
            ..ListParams::default()
        };
        for version in Version::ALL {
            let api = server.api_of::<K>(&version, self.namespace.as_deref());
            match server.found(api.list(&parameters)).await {
                Ok(Some(list)) => return Ok(Some((version, list.items))),
                Ok(None) => {}
                Err(why) if why.is_missing_right() => {
                    let served = pace::served::<K>(server).await?;
                    return served.map_or(Ok(None), |_| Err(why));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(None)
    }

    /// Lists and watches the objects of one kind in `version`.
    pub(crate) fn events<K>(
        &self,
        server: &ApiServer,
        version: Version,
    ) -> impl Stream<Item = Result<Event<K>, Broken>> + Send + use<K>
    where
        K: ClustersetKind,
    {
        let api = server.api_of(&version, self.namespace.as_deref());
        pace::events(server, api, pace::selected(self.by_name()))
    }

    /// Whether the member of a Cluster is observed. The clusterset's breadth excludes a member that
    /// serves neither of its kinds.
    pub(crate) fn takes_part(&self, cluster: &Cluster) -> bool {
        cluster.takes_part() && (self.breadth == Breadth::Everything || !serves_neither(cluster))
    }

    /// Returns the field selector of the name.
    pub(crate) fn by_name(&self) -> Option<String> {
        let name = self.name.as_ref();
        name.map(|name| format!("metadata.name={name}"))
    }

    /// Returns the field selector of the Namespace, if the scope is one.
    pub(crate) fn by_namespace(&self) -> Option<String> {
        let namespace = self.namespace.as_ref();
        namespace.map(|namespace| format!("metadata.name={namespace}"))
    }
}

/// Whether the controller reports that a member serves neither ServiceExport nor ServiceImport.
fn serves_neither(cluster: &Cluster) -> bool {
    let served = cluster.condition(condition::CLUSTERSET_API);
    served.is_some_and(|served| {
        let mut kinds = ["ServiceExport", "ServiceImport"].iter();
        served.reason == Reason::NotServed && kinds.all(|kind| served.message.contains(kind))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster, condition, synced};

    #[test]
    fn only_members_known_to_serve_neither_kind_are_left_out() {
        let reported = |reason: &str, message: &str| {
            let reported = condition("ClustersetAPI", "False", reason, message);
            Scope::default().takes_part(&cluster("a", json!([reported])))
        };
        assert!(
            Scope::default().takes_part(&synced("a")),
            "the hub does not tell"
        );
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
        assert!(!Scope::default().takes_part(&pull));
    }
}
