//! Selection of the objects of the Multi-Cluster Services API that a command reads in each cluster.

use causeway::api::multicluster::Version;
use futures::Stream;
use kube::api::ListParams;
use kube::runtime::watcher::Event;

use crate::api_server::{ApiServer, RequestError};
use crate::watches::{self, Broken, ClustersetKind};

/// Services of which a command reads objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Their namespace; all namespaces if `None`.
    pub namespace: Option<String>,
    /// Their name; all names if `None`.
    pub name: Option<String>,
    /// Whether members may be read without verifying their certificates.
    pub allow_insecure: bool,
}

impl Selection {
    /// Returns the objects of one kind in the newest version that the cluster serves.
    pub(crate) async fn served<K>(&self, server: &ApiServer) -> Result<Vec<K>, RequestError>
    where
        K: ClustersetKind,
    {
        let served = self.served_in(server).await?;
        Ok(served.map(|(_, objects)| objects).unwrap_or_default())
    }

    /// Returns these objects and that version; `None` if the cluster serves none.
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
            let api = server.api_in::<K>(version, self.namespace.as_deref());
            match server.request(api.list(&parameters)).await {
                Ok(list) => return Ok(Some((version, list.items))),
                Err(RequestError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Lists and watches these objects.
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

    /// Returns the field selector of the name.
    pub(crate) fn by_name(&self) -> Option<String> {
        let name = self.name.as_ref();
        name.map(|name| format!("metadata.name={name}"))
    }
}
