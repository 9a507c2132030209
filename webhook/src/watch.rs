//! Watches of the hub, folded into the caches.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use causeway::api::Cluster;
use causeway::process::readiness::Awaited;
use causeway::process::supervise::with_causes;
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher::{Error, Event};
use tokio_util::sync::CancellationToken;

use crate::decide::{Clusters, ServiceFacts};
use crate::view::{Service, Services};

/// How long a watch rests after its first error in a row; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a watch fills.
pub(crate) trait Fold<K> {
    /// Takes an event in; says whether all that there is has been seen.
    fn fold(&mut self, event: Event<K>) -> bool;

    /// The API server does not serve the kind. Says whether that is an answer.
    fn not_served(&mut self) -> bool;
}

/// Folds the watch of `what` into a cache until the shutdown. The awaited thing is there when all has been listed, or is
/// not served.
pub(crate) async fn follow<K>(
    what: &'static str,
    events: impl Stream<Item = Result<Event<K>, Error>>,
    mut fold: impl Fold<K>,
    listed: Awaited,
    shutdown: CancellationToken,
) {
    let mut events = pin!(events);
    let mut listed = Some(listed);
    let mut pause = FIRST_PAUSE;
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => return,
            event = events.next() => event,
        };
        let synced = match event {
            None => return,
            Some(Ok(event)) => {
                // The start of a list is no sign of life: it comes before the hub is asked.
                if !matches!(event, Event::Init) {
                    pause = FIRST_PAUSE;
                }
                fold.fold(event)
            }
            Some(Err(error)) => {
                let synced = is_not_served(&error) && fold.not_served();
                if !synced {
                    let why = with_causes(&error);
                    tracing::warn!(watch = what, "watch of the hub failed: {why}");
                    if let Some(listed) = &listed {
                        listed.is_held_up(why);
                    }
                }
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                synced
            }
        };
        if synced && let Some(listed) = listed.take() {
            listed.ready();
        }
    }
}

/// Whether the API server does not know the kind that was to be listed or watched.
fn is_not_served(error: &Error) -> bool {
    match error {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// Fills the cache of Services.
pub(crate) struct ServiceFold {
    cache: Arc<RwLock<Option<Services>>>,
    incoming: Services,
}

impl ServiceFold {
    pub(crate) fn new(cache: Arc<RwLock<Option<Services>>>) -> Self {
        Self {
            cache,
            incoming: Services::new(),
        }
    }

    /// Changes the cache, where it is filled.
    fn change(&self, change: impl FnOnce(&mut Services)) {
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(services) = cache.as_mut() {
            change(services);
        }
    }

    fn known(&self, service: &Service) -> Option<Arc<ServiceFacts>> {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let (namespace, name) = key(service);
        cache.as_ref()?.get(namespace)?.get(name).cloned()
    }
}

impl Fold<Service> for ServiceFold {
    fn fold(&mut self, event: Event<Service>) -> bool {
        match event {
            Event::Init => self.incoming.clear(),
            Event::InitApply(service) => insert(&mut self.incoming, &service, service.facts()),
            Event::InitDone => {
                let listed = std::mem::take(&mut self.incoming);
                *self.cache.write().unwrap_or_else(PoisonError::into_inner) = Some(listed);
                return true;
            }
            Event::Apply(service) => {
                let facts = service.facts();
                if self.known(&service).as_deref() != Some(&facts) {
                    self.change(|services| insert(services, &service, facts));
                }
            }
            Event::Delete(service) => self.change(|services| remove(services, &service)),
        }
        false
    }

    fn not_served(&mut self) -> bool {
        false
    }
}

fn key(service: &Service) -> (&str, &str) {
    let metadata = &service.metadata;
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

fn insert(services: &mut Services, service: &Service, facts: ServiceFacts) {
    let (namespace, name) = key(service);
    services
        .entry(namespace.into())
        .or_default()
        .insert(name.into(), Arc::new(facts));
}

fn remove(services: &mut Services, service: &Service) {
    let (namespace, name) = key(service);
    if let Some(others) = services.get_mut(namespace) {
        others.remove(name);
        if others.is_empty() {
            services.remove(namespace);
        }
    }
}

/// Fills the cache of Clusters, of which only the names count.
pub(crate) struct ClusterFold {
    cache: Arc<ArcSwapOption<Clusters>>,
    incoming: HashSet<Box<str>>,
}

impl ClusterFold {
    pub(crate) fn new(cache: Arc<ArcSwapOption<Clusters>>) -> Self {
        Self {
            cache,
            incoming: HashSet::new(),
        }
    }

    fn names(&self) -> HashSet<Box<str>> {
        match self.cache.load().as_deref() {
            Some(Clusters::Named(names)) => names.as_ref().clone(),
            Some(Clusters::NotServed) | None => HashSet::new(),
        }
    }

    fn knows(&self, name: &str) -> bool {
        matches!(self.cache.load().as_deref(), Some(Clusters::Named(names)) if names.contains(name))
    }

    fn store(&self, clusters: Clusters) {
        self.cache.store(Some(Arc::new(clusters)));
    }
}

impl Fold<PartialObjectMeta<Cluster>> for ClusterFold {
    fn fold(&mut self, event: Event<PartialObjectMeta<Cluster>>) -> bool {
        match event {
            Event::Init => self.incoming.clear(),
            Event::InitApply(cluster) => {
                self.incoming.insert(cluster.name_any().into());
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.incoming);
                self.store(Clusters::Named(Arc::new(listed)));
                return true;
            }
            Event::Apply(cluster) => {
                let name = cluster.name_any();
                if !self.knows(&name) {
                    let mut names = self.names();
                    names.insert(name.into());
                    self.store(Clusters::Named(Arc::new(names)));
                }
            }
            Event::Delete(cluster) => {
                let mut names = self.names();
                names.remove(cluster.name_any().as_str());
                self.store(Clusters::Named(Arc::new(names)));
            }
        }
        false
    }

    fn not_served(&mut self) -> bool {
        if !matches!(self.cache.load().as_deref(), Some(Clusters::NotServed)) {
            tracing::info!("the hub serves no Cluster objects; cluster names are not checked");
            self.store(Clusters::NotServed);
        }
        true
    }
}
