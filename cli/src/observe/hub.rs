//! Objects of the hub and their watches, with the user's rights.

mod names;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{self, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use tokio::sync::mpsc;

use self::names::Names;
use super::link::{Kind, Link};
use super::networking::selects_node_ports;
use super::pace::{self, Broken, Ended, LOOK_AGAIN, Pace};
use super::reader::{Reader, Sent, Served, View};
use super::scope::{Breadth, Scope};
use super::store::{Store, key_of, name_of, note_reach};
use super::touched::Touched;
use crate::cluster::api_server::{ApiServer, RequestError, allowed};
use crate::cluster::karmada::{self, Work};

/// Metadata of Karmada's Work.
pub(crate) type WorkMeta = PartialObjectMeta<DynamicObject>;

/// Metadata of a Namespace.
pub(crate) type NamespaceMeta = PartialObjectMeta<Namespace>;

/// Objects of the hub.
pub(crate) struct Hub {
    pub link: Link,
    /// Error that ended the last connection, until a caller takes it.
    pub ended: Option<RequestError>,
    /// UID of the hub's namespace kube-system. `None` if the user may not read it.
    pub uid: Option<String>,
    /// Whether Karmada runs on the hub.
    pub karmada: bool,
    pub mcs: Store<ServiceKey, MultiClusterService>,
    /// Valid MultiClusterServices.
    pub desired: HashMap<ServiceKey, domain::MultiClusterService>,
    /// MultiClusterServices whose providers are reached by node ports from other networks.
    pub by_node_ports: BTreeSet<ServiceKey>,
    pub services: Store<ServiceKey, Service>,
    /// Namespaces, which have defaults for MultiClusterServices.
    pub namespaces: Store<String, NamespaceMeta>,
    /// Reason that the user may not read Namespaces.
    pub namespaces_unread: Option<String>,
    pub clusters: Store<String, Cluster>,
    /// Whether the user may list Clusters.
    pub may_list_clusters: bool,
    /// List of the Clusters, shared by all snapshots.
    pub all_clusters: Arc<Vec<Cluster>>,
    pub exports: Store<ServiceKey, ServiceExport>,
    pub imports: Store<ServiceKey, ServiceImport>,
    /// Kinds of the Multi-Cluster Services API that the user may not read, with the reasons.
    refused: BTreeMap<Kind, String>,
    /// Names in DNS.
    names: Names,
    pub works: Store<ServiceKey, WorkMeta>,
    /// Whether the user may not list Works. False again once a list is complete.
    pub works_unread: bool,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            link: Link::default(),
            ended: None,
            uid: None,
            karmada: false,
            mcs: Store::new(key_of),
            desired: HashMap::new(),
            by_node_ports: BTreeSet::new(),
            services: Store::new(key_of),
            namespaces: Store::new(name_of),
            namespaces_unread: None,
            clusters: Store::new(name_of),
            may_list_clusters: true,
            all_clusters: Arc::default(),
            exports: Store::new(key_of),
            imports: Store::new(key_of),
            refused: BTreeMap::new(),
            names: Names::default(),
            works: works(),
            works_unread: false,
        }
    }
}

impl Hub {
    /// Records the refused read of a kind, or removes the record. Returns true if that is a change.
    fn refuse(&mut self, kind: Kind, refused: Option<RequestError>) -> bool {
        let refused = refused.map(|why| why.to_string());
        let before = match refused.clone() {
            Some(why) => self.refused.insert(kind, why),
            None => self.refused.remove(&kind),
        };
        before != refused
    }

    /// Returns the reason that exports or imports of the hub are unknown.
    pub(crate) fn clusterset_unread(&self) -> Option<&String> {
        self.refused.values().next()
    }

    /// Returns the reason that imports of the hub are unknown.
    pub(super) fn imports_unread(&self) -> Option<&String> {
        self.refused.get(&Kind::ServiceImport)
    }
}

impl View for Hub {
    type Id = ();

    fn link(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// Returns an empty store of Works by service, without those outside Karmada's execution
/// namespaces.
fn works() -> Store<ServiceKey, WorkMeta> {
    Store::new(|work| {
        let work = Work(work.metadata.clone());
        work.service().filter(|_| karmada::is_executed(&work))
    })
}

/// Applies an event of MultiClusterServices.
pub(super) fn multi_cluster_services(hub: &mut Hub, event: Event<MultiClusterService>) -> Touched {
    let changed = hub.mcs.apply(event);
    for key in &changed {
        let mcs = hub.mcs.of(key).next();
        match mcs.and_then(|mcs| domain::MultiClusterService::try_from(mcs).ok()) {
            Some(desired) => hub.desired.insert(key.clone(), desired),
            None => hub.desired.remove(key),
        };
    }
    let mut services = hub.note_names(&changed);
    services.retain(|key| hub.mcs.has(key));
    let node_needs = note_hub_reach(hub, &changed);
    services.extend(changed);
    Touched {
        node_needs,
        ..Touched::services(services)
    }
}

/// Records which of the changed MultiClusterServices select node ports, by their own annotation or
/// by that of their Namespace. Returns true if one does or did.
fn note_hub_reach(hub: &mut Hub, changed: &BTreeSet<ServiceKey>) -> bool {
    note_reach(&mut hub.by_node_ports, changed, |key| {
        let namespace = key.namespace.to_string();
        let mut services = hub.mcs.of(key);
        services.any(|mcs| selects_node_ports(mcs, hub.namespaces.of(&namespace)))
    })
}

/// Applies an event of Namespaces.
pub(super) fn namespaces(hub: &mut Hub, event: Event<NamespaceMeta>) -> Touched {
    let is_listed = matches!(event, Event::InitDone);
    let was_unread = is_listed && hub.namespaces_unread.take().is_some();
    let changed = hub.namespaces.apply(event);
    let services = hub.mcs.keys();
    let services = services.filter(|key| changed.contains(&*key.namespace));
    let services = services.cloned().collect();
    Touched {
        all: was_unread,
        node_needs: note_hub_reach(hub, &services),
        ..Touched::services(services)
    }
}

/// Applies an event of Clusters.
pub(super) fn clusters(hub: &mut Hub, event: Event<Cluster>) -> Touched {
    let clusters = hub.clusters.apply(event);
    if !clusters.is_empty() {
        hub.all_clusters = Arc::new(hub.clusters.all().cloned().collect());
    }
    Touched {
        node_needs: !clusters.is_empty(),
        clusters,
        ..Touched::default()
    }
}

fn services(hub: &mut Hub, event: Event<Service>) -> Touched {
    Touched::services(hub.services.apply(event))
}

fn imports(hub: &mut Hub, event: Event<ServiceImport>) -> Touched {
    Touched::services(hub.imports.apply(event))
}

fn imports_served(hub: &mut Hub, served: Served) -> Touched {
    let mut touched = Touched::default();
    if !matches!(served, Ok(Some(_))) {
        touched = Touched::services(hub.imports.replace(Vec::new()));
    }
    touched.link = hub.refuse(Kind::ServiceImport, served.err());
    touched.all = touched.link;
    touched
}

fn exports(hub: &mut Hub, event: Event<ServiceExport>) -> Touched {
    Touched::services(hub.exports.apply(event))
}

fn exports_served(hub: &mut Hub, served: Served) -> Touched {
    let mut touched = Touched::default();
    if !matches!(served, Ok(Some(_))) {
        touched = Touched::services(hub.exports.replace(Vec::new()));
    }
    touched.link = hub.refuse(Kind::ServiceExport, served.err());
    touched
}

fn works_changed(hub: &mut Hub, event: Event<WorkMeta>) -> Touched {
    let is_listed = matches!(event, Event::InitDone);
    Touched {
        all: is_listed && std::mem::take(&mut hub.works_unread),
        ..Touched::services(hub.works.apply(event))
    }
}

/// Follows the hub, and reconnects after each end of a connection.
pub(super) async fn run(server: ApiServer, scope: Scope, changes: mpsc::Sender<Sent<Hub>>) {
    let reader = Reader::<Hub> {
        server: &server,
        scope: &scope,
        changes: &changes,
        id: (),
    };
    let mut pace = Pace::new();
    loop {
        pace.begin();
        let ended = connection(&reader).await;
        let Some(why) = pace.end(ended) else {
            continue;
        };
        let end = move |hub: &mut Hub| {
            hub.link.end(why.to_string(), Timestamp::now());
            hub.ended = Some(why);
            Touched {
                link: true,
                ..Touched::default()
            }
        };
        reader.send(end).await;
        pace.pause().await;
    }
}

async fn connection(reader: &Reader<'_, Hub>) -> Ended<RequestError> {
    let followed = match reader.scope.breadth {
        Breadth::Everything => everything(reader).await,
        Breadth::Clusterset => Ok(Ended::Broken(clusterset(reader).await)),
    };
    followed.unwrap_or_else(Ended::Broken)
}

async fn everything(reader: &Reader<'_, Hub>) -> Result<Ended<RequestError>, RequestError> {
    let server = reader.server;
    let karmada = match karmada::is_served(server).await {
        Err(RequestError::NotAllowed { .. }) => false,
        answer => answer?,
    };
    let serves_works = match karmada {
        true => works_served(server).await?,
        false => Works::NotServed,
    };
    // Without the hub's UID only objects of other hubs become indistinguishable.
    let uid = server.uid().await.ok();
    let kinds = [
        Kind::MultiClusterService,
        Kind::Service,
        Kind::Cluster,
        Kind::Namespace,
        Kind::ServiceImport,
        Kind::Work,
    ];
    let kinds: Vec<_> = kinds
        .into_iter()
        .chain(names::kinds(reader.scope))
        .collect();
    let begin = move |hub: &mut Hub| {
        hub.link.begin(&kinds);
        let is_same = hub.uid == uid && hub.karmada == karmada;
        (hub.uid, hub.karmada) = (uid, karmada);
        Touched {
            all: !is_same,
            ..Touched::default()
        }
    };
    reader.send(begin).await;
    let namespace = reader.scope.namespace.as_deref();
    let all = watcher::Config::default;
    Ok(tokio::select! {
        broken = follow_clusters(reader) => Ended::Broken(broken.why),
        why = follow_mcs(reader) => Ended::Broken(why),
        why = follow_namespaces(reader) => Ended::Broken(why),
        why = names::follow(reader) => Ended::Broken(why),
        broken = reader.follow(Kind::Service, server.api(namespace), all(), services) => Ended::Broken(broken.why),
        why = reader.follow_served(Kind::ServiceImport, imports_served, imports) => Ended::Broken(why),
        why = follow_works(reader, serves_works) => Ended::Broken(why),
        why = pace::probe(server, || answers(server)) => Ended::Silent(why),
    })
}

/// Follows MultiClusterServices and Clusters, and exports and imports on the hub.
async fn clusterset(reader: &Reader<'_, Hub>) -> RequestError {
    let begin = |hub: &mut Hub| {
        hub.link.begin(&[
            Kind::MultiClusterService,
            Kind::Cluster,
            Kind::ServiceExport,
            Kind::ServiceImport,
        ]);
        Touched::default()
    };
    reader.send(begin).await;
    tokio::select! {
        why = follow_readable_clusters(reader) => why,
        why = follow_mcs(reader) => why,
        why = reader.follow_served(Kind::ServiceExport, exports_served, exports) => why,
        why = reader.follow_served(Kind::ServiceImport, imports_served, imports) => why,
    }
}

async fn follow_clusters(reader: &Reader<'_, Hub>) -> Broken {
    let api = reader.server.all::<Cluster>();
    let all = watcher::Config::default();
    reader.follow(Kind::Cluster, api, all, clusters).await
}

/// Follows Clusters. Without the CRD the list is empty. A user who may not list Clusters observes
/// everything else.
async fn follow_readable_clusters(reader: &Reader<'_, Hub>) -> RequestError {
    let broken = follow_clusters(reader).await;
    let may_list = match broken.why {
        RequestError::NotFound { .. } => true,
        RequestError::NotAllowed { .. } if broken.unlisted => false,
        why => return why,
    };
    let none = move |hub: &mut Hub| {
        let event = [Event::Init, Event::InitDone];
        let mut touched = Touched::default();
        event
            .into_iter()
            .for_each(|event| touched.add(clusters(hub, event)));
        hub.may_list_clusters = may_list;
        touched.link = hub.link.listed(Kind::Cluster);
        touched
    };
    reader.send(none).await;
    std::future::pending().await
}

async fn follow_mcs(reader: &Reader<'_, Hub>) -> RequestError {
    let api = reader.server.api(reader.scope.namespace.as_deref());
    let named = pace::selected(reader.scope.by_name());
    let kind = Kind::MultiClusterService;
    let mcs = reader.follow(kind, api, named, multi_cluster_services);
    mcs.await.why
}

/// Follows Namespaces. A user who may not list them observes everything else, and the list is
/// tried again.
async fn follow_namespaces(reader: &Reader<'_, Hub>) -> RequestError {
    loop {
        let api = reader.server.all::<NamespaceMeta>();
        let config = pace::selected(reader.scope.by_namespace());
        let broken = reader
            .follow(Kind::Namespace, api, config, namespaces)
            .await;
        let why = match broken.why {
            why @ RequestError::NotAllowed { .. } if broken.unlisted => {
                format!("{why}; to follow them takes the right to list and watch Namespaces")
            }
            why => return why,
        };
        let unread = move |hub: &mut Hub| Touched {
            all: hub.namespaces_unread.replace(why).is_none(),
            link: hub.link.listed(Kind::Namespace),
            ..Touched::default()
        };
        reader.send(unread).await;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn answers(server: &ApiServer) -> Result<(), RequestError> {
    let version = server.client.apiserver_version();
    server.request(version).await.map(drop)
}

/// Access to Karmada's Works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Works {
    Followed,
    Forbidden,
    NotServed,
}

fn works_api(server: &ApiServer) -> Api<WorkMeta> {
    server.api_of(&karmada::work_kind(), None)
}

async fn works_served(server: &ApiServer) -> Result<Works, RequestError> {
    let one = ListParams::default().limit(1);
    let listed = allowed(server.found(works_api(server).list(&one)).await)?;
    Ok(match listed {
        Some(Some(_)) => Works::Followed,
        Some(None) => Works::NotServed,
        None => Works::Forbidden,
    })
}

/// Follows Works. Forbidden ones are tried again.
async fn follow_works(reader: &Reader<'_, Hub>, mut works: Works) -> RequestError {
    while works == Works::Forbidden {
        let unread = |hub: &mut Hub| Touched {
            all: !std::mem::replace(&mut hub.works_unread, true),
            link: hub.link.listed(Kind::Work),
            ..Touched::default()
        };
        reader.send(unread).await;
        tokio::time::sleep(LOOK_AGAIN).await;
        works = match works_served(reader.server).await {
            Ok(works) => works,
            Err(why) => return why,
        };
    }
    if works == Works::Followed {
        let config = watcher::Config::default().labels(&karmada::selector(None));
        let api = works_api(reader.server);
        return reader
            .follow(Kind::Work, api, config, works_changed)
            .await
            .why;
    }
    let none = |hub: &mut Hub| {
        let mut touched = works_changed(hub, Event::InitDone);
        touched.link = hub.link.listed(Kind::Work);
        touched
    };
    reader.send(none).await;
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::access::Side;

    #[test]
    fn refused_exports_leave_imports_known() {
        let forbidden = || {
            Err(RequestError::NotAllowed {
                side: Side::Hub,
                message: "no".to_owned(),
            })
        };
        let mut hub = Hub::default();
        exports_served(&mut hub, forbidden());
        assert!(hub.clusterset_unread().is_some() && hub.imports_unread().is_none());
        imports_served(&mut hub, forbidden());
        assert!(hub.imports_unread().is_some());
    }

    #[test]
    fn all_services_depend_on_works_that_become_readable() {
        let mut hub = Hub {
            works_unread: true,
            ..Hub::default()
        };
        assert!(!works_changed(&mut hub, Event::Init).all);
        assert!(hub.works_unread, "the list is not complete");
        assert!(works_changed(&mut hub, Event::InitDone).all);
        assert!(!hub.works_unread);
        assert!(!works_changed(&mut hub, Event::InitDone).all);
    }
}
