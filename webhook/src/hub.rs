//! Observations of the hub: caches of Services and Clusters, and the live requests that confirm
//! them before a denial.
//!
//! A hub may serve no Cluster objects. Then the webhook warns of no cluster name, denies every name
//! under `--unknown-cluster=deny`, and is ready all the same. It notices when the kind is served.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use causeway::api::{MultiClusterService, labels};
use causeway::domain::dns1123_label;
use causeway::process::readiness::Readiness;
use causeway::process::supervise::{Tasks, with_causes};
use futures::future::{OptionFuture, try_join_all};
use kube::api::{ListParams, PartialObjectMeta};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::{Mutex, RwLock};
use tokio::time::timeout;

use crate::decide::{
    Clusters, HubView, Impact, Locality, Neighbors, Observed, PreparedChange, ServiceFacts,
    Unconfirmed,
};
use crate::hub_cache::{Cluster, ClusterCache, Service, ServiceCache, Services, lacks_clusters};
use crate::lookups::Lookups;
use crate::metrics::Metrics;
use crate::watch::follow;

/// Time limit of a request to the hub.
const REQUEST_DEADLINE: Duration = Duration::from_secs(2);

/// Number of objects in a page of a list. An object has at most 1.5 MB, and kube holds a page
/// twice: a page of the largest objects takes 48 MB.
const LIST_PAGE: u32 = 16;

/// Maximum number of Clusters that a live list reads.
const CLUSTERS_MAX: usize = 4096;

/// Maximum number of clusters that are requested one by one; more need a list.
const CLUSTER_GETS_MAX: usize = 8;

/// Error of a request to the hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// No answer in time.
    #[error("the hub did not answer the request for {0} within {REQUEST_DEADLINE:?}")]
    Late(&'static str),
    /// The rate of requests is used up.
    #[error("too many requests to the hub at one time; try again")]
    Busy,
    /// A live list has too many Clusters.
    #[error("the hub has more than {CLUSTERS_MAX} Clusters, too many for a live list")]
    TooManyClusters,
    /// The hub answered with an error, or was unreachable.
    #[error("request to the hub for {what} failed")]
    Failed {
        /// Object of the request.
        what: &'static str,
        /// Cause.
        source: Box<kube::Error>,
    },
}

/// Hub, with its caches. Clones share the caches.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    services: Arc<RwLock<Option<Services>>>,
    clusters: Arc<ArcSwapOption<Clusters>>,
    lookups: Arc<Mutex<Lookups>>,
}

impl Hub {
    /// Creates a hub with empty caches.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            services: Arc::default(),
            clusters: Arc::default(),
            lookups: Arc::default(),
        }
    }

    /// Spawns the watches that fill the caches. The process is ready once they are filled.
    pub fn watch(&self, tasks: &Tasks, readiness: &Readiness, metrics: &Metrics) {
        let config = || watcher::Config::default().page_size(LIST_PAGE);
        let counted = |resource| (resource, metrics.hub_watch_failures(resource));
        let services = watcher(Api::<Service>::all(self.client.clone()), config());
        let cache = ServiceCache::new(Arc::clone(&self.services));
        let listed = readiness.awaits("the Services of the hub");
        tasks.spawn(
            "services",
            follow(
                counted("services"),
                services,
                cache,
                listed,
                tasks.shutdown(),
            ),
        );

        let clusters = watcher(Api::<Cluster>::all(self.client.clone()), config());
        let cache = ClusterCache::new(self.client.clone(), Arc::clone(&self.clusters));
        let listed = readiness.awaits("the Clusters of the hub");
        tasks.spawn(
            "clusters",
            follow(
                counted("clusters"),
                clusters,
                cache,
                listed,
                tasks.shutdown(),
            ),
        );
    }

    /// Returns the cached observations for a change.
    pub fn cached(&self, change: &PreparedChange) -> HubView {
        let (namespace, name) = change.service();
        let mut neighbors = Neighbors::default();
        let service = if could_exist(namespace, name) {
            let services = self.services.read();
            services.as_ref().map(|services| {
                let others = services.get(namespace);
                let value = others.and_then(|others| others.get(name)).cloned();
                if let (None, Some(others)) = (&value, others) {
                    neighbors = Neighbors::of(others.keys().map(AsRef::as_ref));
                }
                Observed { value, live: false }
            })
        } else {
            Some(Observed {
                value: None,
                live: true,
            })
        };
        let clusters = self.clusters.load_full().map(|clusters| Observed {
            value: Clusters::clone(&clusters),
            live: false,
        });
        HubView {
            service,
            neighbors,
            clusters,
        }
    }

    /// Requests the unconfirmed observations from the hub. If a request fails on which only a
    /// warning rests, the cached observation stays.
    ///
    /// # Errors
    /// [`HubError`] if a request fails on which a denial rests.
    pub async fn confirm(
        &self,
        change: &PreparedChange,
        unconfirmed: Unconfirmed,
        mut view: HubView,
    ) -> Result<HubView, HubError> {
        let cached = view
            .clusters
            .as_ref()
            .and_then(|observed| match &observed.value {
                Clusters::Named(known) => Some(Arc::clone(known)),
                Clusters::NotServed => None,
            });
        let (namespace, name) = change.service();
        let service = unconfirmed.service.map(|impact| {
            let lookup = in_time("the Service", self.live_service(namespace, name));
            confirmed(impact, async {
                if let Err(busy) = self.take_request() {
                    return self.lookups.lock().recent(namespace, name).ok_or(busy);
                }
                let found = lookup.await?;
                self.lookups.lock().record(namespace, name, found.clone());
                Ok(found)
            })
        });
        let names = change.new_cluster_names();
        let clusters = unconfirmed.clusters.map(|impact| {
            let lookup = in_time("its Clusters", self.live_clusters(names, cached));
            confirmed(impact, async {
                self.take_request()?;
                lookup.await?.ok_or(HubError::TooManyClusters)
            })
        });
        let (service, clusters) =
            tokio::join!(OptionFuture::from(service), OptionFuture::from(clusters));
        if let Some(value) = service.transpose()?.flatten() {
            view.service = Some(Observed { value, live: true });
        }
        if let Some(value) = clusters.transpose()?.flatten() {
            view.clusters = Some(Observed { value, live: true });
        }
        Ok(view)
    }

    /// Whether a MultiClusterService other than `namespace`/`name` has the permanent-id.
    ///
    /// # Errors
    /// [`HubError`] if the request fails.
    pub async fn is_id_taken(
        &self,
        id: &str,
        namespace: &str,
        name: &str,
    ) -> Result<bool, HubError> {
        self.take_request()?;
        let api = Api::<PartialObjectMeta<MultiClusterService>>::all(self.client.clone());
        let selector = format!("{}={id}", labels::PERMANENT_ID);
        // One of two is another one.
        let params = ListParams::default().labels(&selector).limit(2);
        let listing = async { api.list(&params).await };
        let bearers = in_time("MultiClusterServices of the same permanent-id", listing).await?;
        Ok(bearers.iter().any(|bearer| {
            bearer.metadata.namespace.as_deref() != Some(namespace) || bearer.name_any() != name
        }))
    }

    /// Takes a request from the rate of requests to the hub.
    fn take_request(&self) -> Result<(), HubError> {
        let may_send = self.lookups.lock().may_send();
        may_send.then_some(()).ok_or(HubError::Busy)
    }

    async fn live_service(
        &self,
        namespace: &str,
        name: &str,
    ) -> kube::Result<Option<Arc<ServiceFacts>>> {
        let api = Api::<Service>::namespaced(self.client.clone(), namespace);
        Ok(api
            .get_opt(name)
            .await?
            .map(|service| Arc::new(service.facts())))
    }

    /// Returns the cached Clusters with the named ones updated, or else those of a list. Of many
    /// names those alone are updated that the cache lacks. `None` if a list has more than
    /// [`CLUSTERS_MAX`].
    async fn live_clusters(
        &self,
        mut names: BTreeSet<&str>,
        cached: Option<Arc<HashMap<Box<str>, Locality>>>,
    ) -> kube::Result<Option<Clusters>> {
        let api = Api::<Cluster>::all(self.client.clone());
        if let Some(cached) = cached.as_ref().filter(|_| names.len() > CLUSTER_GETS_MAX) {
            names.retain(|name| !cached.contains_key(*name));
        }
        if let Some(cached) = cached.filter(|_| names.len() <= CLUSTER_GETS_MAX) {
            let mut known = Arc::unwrap_or_clone(cached);
            for name in &names {
                known.remove(*name);
            }
            let gets = names.into_iter().map(|name| api.get_opt(name));
            let found = try_join_all(gets).await?.into_iter().flatten();
            known.extend(found.map(Cluster::into_entry));
            return Ok(Some(Clusters::Named(Arc::new(known))));
        }
        match list_clusters(&api).await {
            Ok(listed) => Ok(listed.map(|all| Clusters::Named(Arc::new(all)))),
            Err(kube::Error::Api(status))
                if status.code == 404 && lacks_clusters(&self.client).await? =>
            {
                Ok(Some(Clusters::NotServed))
            }
            Err(error) => Err(error),
        }
    }
}

/// Lists the Clusters in pages. `None` if there are more than [`CLUSTERS_MAX`].
async fn list_clusters(api: &Api<Cluster>) -> kube::Result<Option<HashMap<Box<str>, Locality>>> {
    let mut all = HashMap::new();
    let mut params = ListParams::default().limit(LIST_PAGE);
    loop {
        let mut page = api.list(&params).await?;
        let next = page.metadata.continue_.take();
        all.extend(page.into_iter().map(Cluster::into_entry));
        if all.len() > CLUSTERS_MAX {
            return Ok(None);
        }
        params.continue_token = next.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(Some(all));
        }
    }
}

/// Whether a Service can have that namespace and name.
fn could_exist(namespace: &str, name: &str) -> bool {
    dns1123_label(namespace).is_ok() && dns1123_label(name).is_ok()
}

/// Returns the observation of a request; `None` if it failed and only a warning rests on it.
async fn confirmed<T>(
    impact: Impact,
    request: impl Future<Output = Result<T, HubError>>,
) -> Result<Option<T>, HubError> {
    match request.await {
        Ok(observed) => Ok(Some(observed)),
        Err(error) if impact == Impact::Warning => {
            tracing::warn!(
                error = with_causes(&error),
                "warning not confirmed, decided from the cache"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn in_time<T>(
    what: &'static str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, HubError> {
    timeout(REQUEST_DEADLINE, request)
        .await
        .map_err(|_| HubError::Late(what))?
        .map_err(|source| HubError::Failed {
            what,
            source: Box::new(source),
        })
}
