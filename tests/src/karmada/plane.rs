//! The control plane that the controllers work on.

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway::api::{ClusterSelector, MultiClusterService};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client, Resource, ResourceExt as _};

use super::names;
use super::objects::{ResourceBinding, Work, update};
use super::queue::{Change, Error, Key, watch};

/// The hub, and the members that it knows. Every one counts as ready: one that does not answer
/// fails requests, which are tried again.
#[derive(Clone)]
pub(super) struct Plane {
    pub(super) hub: Client,
    pub(super) members: Arc<[Member]>,
    /// Nothing of other namespaces is seen where this is one.
    pub(super) within: Option<Arc<str>>,
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) client: Client,
}

impl Plane {
    pub(super) fn has(&self, cluster: &str) -> bool {
        self.members.iter().any(|member| member.name == cluster)
    }

    /// The clusters named, or all (`pkg/util/helper/mcs.go`, GetProviderClusters and
    /// GetConsumerClusters).
    pub(super) fn clusters(&self, named: &[ClusterSelector]) -> BTreeSet<String> {
        if named.is_empty() {
            self.members
                .iter()
                .map(|member| member.name.clone())
                .collect()
        } else {
            named.iter().map(|one| one.name.clone()).collect()
        }
    }

    /// The hub's objects of one kind, in all namespaces that are seen.
    pub(super) fn all<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match &self.within {
            Some(namespace) => Api::namespaced(self.hub.clone(), namespace),
            None => Api::all(self.hub.clone()),
        }
    }

    /// The hub's Services, or a member's objects, likewise.
    pub(super) fn all_of(&self, client: &Client, kind: &ApiResource) -> Api<DynamicObject> {
        match &self.within {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
            None => Api::all_with(client.clone(), kind),
        }
    }

    /// Watches Works, but for those of objects that are not seen.
    pub(super) async fn watch_works(&self, works: Api<Work>, mut on: impl FnMut(Change<Work>)) {
        let sees = |work: &Work| {
            let mut manifests = work.spec.workload.manifests.iter();
            self.within.as_deref().is_none_or(|within| {
                manifests.all(|manifest| manifest["metadata"]["namespace"] == within)
            })
        };
        watch(works, |change| {
            if sees(change.latest()) {
                on(change);
            }
        })
        .await;
    }

    pub(super) fn service(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.hub.clone(), namespace, &services())
    }

    pub(super) fn multi_cluster_services(&self, namespace: &str) -> Api<MultiClusterService> {
        Api::namespaced(self.hub.clone(), namespace)
    }

    pub(super) fn bindings(&self, namespace: &str) -> Api<ResourceBinding> {
        Api::namespaced(self.hub.clone(), namespace)
    }

    /// The Works with these labels, of all clusters.
    pub(super) async fn works(&self, labels: &[(&str, &str)]) -> Result<Vec<Work>, Error> {
        list(Api::all(self.hub.clone()), labels).await
    }

    /// The Works with these labels of one cluster.
    pub(super) async fn works_of(
        &self,
        cluster: &str,
        labels: &[(&str, &str)],
    ) -> Result<Vec<Work>, Error> {
        let space = names::execution_space(cluster);
        list(Api::namespaced(self.hub.clone(), &space), labels).await
    }

    pub(super) async fn work(&self, key: &Key) -> Result<Option<Work>, Error> {
        let works = Api::<Work>::namespaced(self.hub.clone(), &key.namespace);
        Ok(works.get_opt(&key.name).await?)
    }

    /// Asks for a Work's deletion; one that is gone is well.
    pub(super) async fn delete(&self, work: &Work) -> Result<(), Error> {
        let works =
            Api::<Work>::namespaced(self.hub.clone(), &work.namespace().unwrap_or_default());
        match works
            .delete(&work.name_any(), &DeleteParams::default())
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// Takes a finalizer off a Work.
    pub(super) async fn release(&self, mut work: Work, finalizer: &str) -> Result<(), Error> {
        if !work.finalizers().iter().any(|one| one == finalizer) {
            return Ok(());
        }
        work.finalizers_mut().retain(|one| one != finalizer);
        let works =
            Api::<Work>::namespaced(self.hub.clone(), &work.namespace().unwrap_or_default());
        works.replace(&work.name_any(), &update(), &work).await?;
        Ok(())
    }
}

impl Member {
    pub(super) fn slices_in(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &slices())
    }
}

pub(super) fn services() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&())
}

pub(super) fn slices() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::discovery::v1::EndpointSlice>(&())
}

async fn list(works: Api<Work>, labels: &[(&str, &str)]) -> Result<Vec<Work>, Error> {
    let selector: Vec<_> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let params = ListParams::default().labels(&selector.join(","));
    Ok(works.list(&params).await?.items)
}
