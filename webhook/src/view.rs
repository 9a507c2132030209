//! What the webhook sees of the hub: caches of Services and Clusters, and live looks before anything is refused on their
//! account.
//!
//! On a hub that serves no Cluster objects nothing is known of clusters: no cluster name is warned of, and under
//! `--unknown-cluster=deny` every name is refused. The webhook is ready all the same, and notices when they come.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::dns1123_label;
use causeway::process::readiness::Readiness;
use causeway::process::supervise::{Tasks, with_causes};
use futures::future::{OptionFuture, try_join_all};
use kube::api::{ListParams, PartialObjectMeta};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::RwLock;
use tokio::time::timeout;

use crate::decide::{Clusters, Doubts, Question, Seen, ServiceFacts, Stake, View};
use crate::hub_cache::{ClusterFold, Service, ServiceFold, Services};
use crate::watch::follow;

/// How long the hub may take for all that is asked of it on account of one request.
const LOOK_DEADLINE: Duration = Duration::from_secs(2);

/// How many objects are listed at one time: what a page takes of memory is gone once it is read, and yet counts.
const LIST_PAGE: u32 = 100;

/// Up to this many clusters are asked for one by one, more by one list.
const CLUSTER_GETS_MAX: usize = 8;

/// The hub could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// It did not answer in time.
    #[error("the hub did not answer within {LOOK_DEADLINE:?} when asked for {0}")]
    Late(&'static str),
    /// It answered with an error, or could not be reached.
    #[error("the hub could not be asked for {what}")]
    Failed {
        /// What it was asked for.
        what: &'static str,
        /// What went wrong.
        source: Box<kube::Error>,
    },
}

/// The hub, as the webhook sees it. Clones see the same.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    services: Arc<RwLock<Option<Services>>>,
    clusters: Arc<ArcSwapOption<Clusters>>,
}

impl Hub {
    /// A hub of which nothing is known yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            services: Arc::default(),
            clusters: Arc::default(),
        }
    }

    /// Begins to fill the caches; the process is ready once they are.
    pub fn watch(&self, tasks: &Tasks, readiness: &Readiness) {
        let config = || watcher::Config::default().page_size(LIST_PAGE);
        let services = watcher(Api::<Service>::all(self.client.clone()), config());
        let fold = ServiceFold::new(Arc::clone(&self.services));
        let listed = readiness.awaits("the Services of the hub");
        tasks.spawn(
            "services",
            follow("services", services, fold, listed, tasks.shutdown()),
        );

        let clusters = watcher(self.cluster_names(), config());
        let fold = ClusterFold::new(Arc::clone(&self.clusters));
        let listed = readiness.awaits("the Clusters of the hub");
        tasks.spawn(
            "clusters",
            follow("clusters", clusters, fold, listed, tasks.shutdown()),
        );
    }

    /// What the caches say of a question.
    pub fn cached(&self, question: &Question) -> View {
        let (namespace, name) = question.service();
        let service = if could_exist(namespace, name) {
            let services = self.services.read();
            services.as_ref().map(|services| Seen {
                value: services
                    .get(namespace)
                    .and_then(|services| services.get(name))
                    .cloned(),
                live: false,
            })
        } else {
            Some(Seen {
                value: None,
                live: true,
            })
        };
        let clusters = self.clusters.load_full().map(|clusters| Seen {
            value: Clusters::clone(&clusters),
            live: false,
        });
        View { service, clusters }
    }

    /// Asks the hub for what is in doubt. What merely is worth a warning stays as it was where the hub does not answer.
    ///
    /// # Errors
    /// [`HubError`] where the hub cannot be asked for what a refusal rests on.
    pub async fn look(
        &self,
        question: &Question,
        doubts: Doubts,
        mut view: View,
    ) -> Result<View, HubError> {
        let served = view
            .clusters
            .as_ref()
            .is_some_and(|seen| matches!(seen.value, Clusters::Named(_)));
        let (namespace, name) = question.service();
        let service = doubts
            .service
            .map(|stake| sure(stake, "the Service", self.live_service(namespace, name)));
        let names = question.new_cluster_names();
        let clusters = doubts
            .clusters
            .map(|stake| sure(stake, "its Clusters", self.live_clusters(names, served)));
        let (service, clusters) =
            tokio::join!(OptionFuture::from(service), OptionFuture::from(clusters));
        if let Some(value) = service.transpose()?.flatten() {
            view.service = Some(Seen { value, live: true });
        }
        if let Some(value) = clusters.transpose()?.flatten() {
            view.clusters = Some(Seen { value, live: true });
        }
        Ok(view)
    }

    /// Whether a MultiClusterService other than that of `own` namespace and name bears a permanent-id.
    ///
    /// # Errors
    /// [`HubError`] where the hub cannot be asked.
    pub async fn is_id_taken(&self, id: &str, own: (&str, &str)) -> Result<bool, HubError> {
        let api = Api::<PartialObjectMeta<MultiClusterService>>::all(self.client.clone());
        let selector = format!("{}={id}", labels::PERMANENT_ID);
        // Two are enough: one of them is another one.
        let params = ListParams::default().labels(&selector).limit(2);
        let listing = async { api.list(&params).await };
        let bearers = in_time("MultiClusterServices of the same permanent-id", listing).await?;
        Ok(bearers.iter().any(|bearer| {
            let namespace = bearer.metadata.namespace.as_deref().unwrap_or_default();
            (namespace, bearer.name_any().as_str()) != own
        }))
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

    fn cluster_names(&self) -> Api<PartialObjectMeta<Cluster>> {
        Api::all(self.client.clone())
    }

    async fn live_clusters(&self, names: BTreeSet<&str>, served: bool) -> kube::Result<Clusters> {
        let api = self.cluster_names();
        if served && names.len() <= CLUSTER_GETS_MAX {
            let gets = names.into_iter().map(|name| api.get_opt(name));
            let found = try_join_all(gets).await?.into_iter().flatten();
            let found: HashSet<_> = found.map(|cluster| cluster.name_any().into()).collect();
            return Ok(Clusters::Named(Arc::new(found)));
        }
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                let all = list.iter().map(|cluster| cluster.name_any().into());
                Ok(Clusters::Named(Arc::new(all.collect())))
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Clusters::NotServed),
            Err(error) => Err(error),
        }
    }
}

/// Whether a Service of that namespace and name is possible at all.
fn could_exist(namespace: &str, name: &str) -> bool {
    dns1123_label(namespace).is_ok() && dns1123_label(name).is_ok()
}

/// The outcome of a look; `None` where it failed and only a warning rests on it.
async fn sure<T>(
    stake: Stake,
    what: &'static str,
    look: impl Future<Output = kube::Result<T>>,
) -> Result<Option<T>, HubError> {
    match in_time(what, look).await {
        Ok(seen) => Ok(Some(seen)),
        Err(error) if stake == Stake::Warning => {
            tracing::warn!("a warning rests on the cache: {}", with_causes(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn in_time<T>(
    what: &'static str,
    look: impl Future<Output = kube::Result<T>>,
) -> Result<T, HubError> {
    timeout(LOOK_DEADLINE, look)
        .await
        .map_err(|_| HubError::Late(what))?
        .map_err(|source| HubError::Failed {
            what,
            source: Box::new(source),
        })
}
