//! Caches of the hub's Services and Clusters.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use causeway::api;
use causeway::api::discovery::is_unserved;
use causeway::domain::ServicePort;
use k8s_openapi::api::core::v1 as core;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Client, Resource, ResourceExt};
use parking_lot::RwLock;
use serde::{Deserialize, Deserializer};

use crate::decide::{Clusters, Locality, ServiceFacts, ServiceKind};
use crate::watch::Apply;

/// Part of a Service that validation needs.
#[derive(Clone, Debug, Resource, Deserialize)]
#[resource(inherit = "core::Service")]
pub(crate) struct Service {
    #[serde(deserialize_with = "identity")]
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<ServiceSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ServiceSpec {
    #[serde(rename = "type", default)]
    type_: Option<String>,
    #[serde(rename = "clusterIP", default)]
    cluster_ip: Option<String>,
    #[serde(default)]
    ports: Option<Vec<core::ServicePort>>,
}

/// Decodes the metadata that a watch needs. The rest, managed fields above all, would take most of
/// the memory of a list.
fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        namespace: Option<String>,
        #[serde(default)]
        resource_version: Option<String>,
    }
    let identity = Identity::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: identity.name,
        namespace: identity.namespace,
        resource_version: identity.resource_version,
        ..ObjectMeta::default()
    })
}

impl Service {
    pub(crate) fn facts(&self) -> ServiceFacts {
        let spec = self.spec.as_ref();
        let ports = spec.and_then(|spec| spec.ports.as_ref());
        ServiceFacts {
            kind: ServiceKind::read(
                spec.and_then(|spec| spec.type_.as_deref()),
                spec.and_then(|spec| spec.cluster_ip.as_deref()),
            ),
            ports: ports
                .into_iter()
                .flatten()
                .filter_map(ServicePort::read)
                .collect(),
        }
    }
}

/// Services by namespace and name.
pub(crate) type Services = HashMap<Box<str>, HashMap<Box<str>, Arc<ServiceFacts>>>;

/// Fills the cache of Services.
pub(crate) struct ServiceCache {
    cache: Arc<RwLock<Option<Services>>>,
    incoming: Services,
}

impl ServiceCache {
    pub(crate) fn new(cache: Arc<RwLock<Option<Services>>>) -> Self {
        Self {
            cache,
            incoming: Services::new(),
        }
    }

    /// Changes a filled cache.
    fn change(&self, change: impl FnOnce(&mut Services)) {
        let mut cache = self.cache.write();
        if let Some(services) = cache.as_mut() {
            change(services);
        }
    }

    fn known(&self, service: &Service) -> Option<Arc<ServiceFacts>> {
        let cache = self.cache.read();
        let (namespace, name) = key(service);
        cache.as_ref()?.get(namespace)?.get(name).cloned()
    }
}

impl Apply<Service> for ServiceCache {
    fn apply(&mut self, event: Event<Service>) -> bool {
        match event {
            Event::Init => self.incoming.clear(),
            Event::InitApply(service) => insert(&mut self.incoming, &service, service.facts()),
            Event::InitDone => {
                let listed = std::mem::take(&mut self.incoming);
                *self.cache.write() = Some(listed);
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

/// Part of a Cluster that validation needs.
#[derive(Clone, Debug, Resource, Deserialize)]
#[resource(inherit = "api::Cluster")]
pub(crate) struct Cluster {
    #[serde(deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<ClusterSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ClusterSpec {
    #[serde(default)]
    region: Option<Box<str>>,
    #[serde(default)]
    zones: Option<Vec<Box<str>>>,
    #[serde(default)]
    zone: Option<Box<str>>,
}

impl Cluster {
    /// Returns its name and locality.
    pub(crate) fn into_entry(self) -> (Box<str>, Locality) {
        let spec = self.spec.unwrap_or_default();
        let zones = spec.zones.filter(|zones| !zones.is_empty());
        let zones = zones.unwrap_or_else(|| spec.zone.into_iter().collect());
        let locality = Locality {
            region: spec.region.filter(|region| !region.is_empty()),
            zones: zones.into(),
        };
        let name = self.metadata.name.unwrap_or_default();
        (name.into(), locality)
    }
}

/// Whether the hub serves no Clusters, according to its list of API groups. A 404 does not prove
/// it.
///
/// # Errors
/// [`kube::Error`] if the list cannot be read.
pub(crate) async fn lacks_clusters(client: &Client) -> kube::Result<bool> {
    let listed = client.list_api_groups().await?;
    let (group, version) = (Cluster::group(&()), Cluster::version(&()));
    Ok(is_unserved(&listed, &group, &[&version]))
}

/// Fills the cache of Clusters.
pub(crate) struct ClusterCache {
    client: Client,
    cache: Arc<ArcSwapOption<Clusters>>,
    incoming: HashMap<Box<str>, Locality>,
}

impl ClusterCache {
    pub(crate) fn new(client: Client, cache: Arc<ArcSwapOption<Clusters>>) -> Self {
        Self {
            client,
            cache,
            incoming: HashMap::new(),
        }
    }

    fn known(&self) -> HashMap<Box<str>, Locality> {
        match self.cache.load().as_deref() {
            Some(Clusters::Named(known)) => known.as_ref().clone(),
            Some(Clusters::NotServed) | None => HashMap::new(),
        }
    }

    fn is_known(&self, name: &str, locality: &Locality) -> bool {
        let cache = self.cache.load();
        let Some(Clusters::Named(known)) = cache.as_deref() else {
            return false;
        };
        known.get(name) == Some(locality)
    }

    fn store(&self, clusters: Clusters) {
        self.cache.store(Some(Arc::new(clusters)));
    }
}

impl Apply<Cluster> for ClusterCache {
    fn apply(&mut self, event: Event<Cluster>) -> bool {
        match event {
            Event::Init => self.incoming.clear(),
            Event::InitApply(cluster) => {
                self.incoming.extend([cluster.into_entry()]);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.incoming);
                self.store(Clusters::Named(Arc::new(listed)));
                return true;
            }
            Event::Apply(cluster) => {
                let (name, locality) = cluster.into_entry();
                if !self.is_known(&name, &locality) {
                    let mut known = self.known();
                    known.insert(name, locality);
                    self.store(Clusters::Named(Arc::new(known)));
                }
            }
            Event::Delete(cluster) => {
                let mut known = self.known();
                known.remove(cluster.name_any().as_str());
                self.store(Clusters::Named(Arc::new(known)));
            }
        }
        false
    }

    async fn not_served(&mut self) -> bool {
        if !matches!(self.cache.load().as_deref(), Some(Clusters::NotServed)) {
            if !matches!(lacks_clusters(&self.client).await, Ok(true)) {
                return false;
            }
            tracing::info!("Cluster objects not served by the hub, cluster names not checked");
            self.store(Clusters::NotServed);
        }
        true
    }
}
