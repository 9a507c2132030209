//! Objects of the hub and their watches, with the user's rights.

mod names;

use std::collections::HashMap;
use std::sync::Arc;

use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{self, ServiceKey};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};

use self::names::Names;
use super::link::{Kind, Link};
use super::pace::{self, Broken, Ended, Pace};
use super::reader::{Followed, Outlet, Reader, View};
use super::scope::{Breadth, Scope};
use super::store::{Store, key_of, name_of};
use super::touched::Touched;
use crate::cluster::api_server::{ApiServer, RequestError};
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
    pub exports: Followed<ServiceExport, String>,
    pub imports: Followed<ServiceImport, String>,
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
            services: Store::new(key_of),
            namespaces: Store::new(name_of),
            namespaces_unread: None,
            clusters: Store::new(name_of),
            may_list_clusters: true,
            all_clusters: Arc::default(),
            exports: Followed::new(),
            imports: Followed::new(),
            names: Names::default(),
            works: works(),
            works_unread: false,
        }
    }
}

impl Hub {
    /// Returns the reason that exports or imports of the hub are unknown.
    pub(crate) fn clusterset_unread(&self) -> Option<&String> {
        self.exports.refusal().or(self.imports.refusal())
    }
}

impl View for Hub {
    const CONCERNS_ALL: bool = true;

    type Refusal = String;

    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn refusal(why: RequestError) -> String {
        why.to_string()
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
    let node_needs = !changed.is_empty();
    services.extend(changed);
    Touched {
        node_needs,
        ..Touched::services(services)
    }
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
        node_needs: !changed.is_empty(),
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
        clusters,
        ..Touched::default()
    }
}

fn services(hub: &mut Hub, event: Event<Service>) -> Touched {
    Touched::services(hub.services.apply(event))
}

fn works_changed(hub: &mut Hub, event: Event<WorkMeta>) -> Touched {
    let is_listed = matches!(event, Event::InitDone);
    Touched {
        all: is_listed && std::mem::take(&mut hub.works_unread),
        ..Touched::services(hub.works.apply(event))
    }
}

/// Follows the hub, and reconnects after each end of a connection.
pub(super) async fn run(server: ApiServer, scope: Scope, outlet: Outlet<Hub>) {
    let reader = Reader {
        server: &server,
        scope: &scope,
        outlet: &outlet,
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
        // Rejected credentials are no missing right: the last observed state remains.
        Err(why) if why.is_missing_right() => false,
        answer => answer?,
    };
    // Without the hub's UID only objects of other hubs become indistinguishable.
    let uid = server.uid().await.ok();
    let kinds = [
        Kind::MultiClusterService,
        Kind::Service,
        Kind::Cluster,
        Kind::Namespace,
        Kind::ServiceImport,
    ];
    let kinds: Vec<_> = kinds
        .into_iter()
        .chain(karmada.then_some(Kind::Work))
        .chain(names::kinds(reader.scope))
        .collect();
    let begin = move |hub: &mut Hub| {
        hub.link.begin(&kinds);
        let is_same = hub.uid == uid && hub.karmada == karmada;
        (hub.uid, hub.karmada) = (uid, karmada);
        let mut touched = match karmada {
            true => Touched::default(),
            false => no_works(hub),
        };
        touched.all |= !is_same;
        touched
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
        why = reader.follow_served(Kind::ServiceImport, |hub| &mut hub.imports) => Ended::Broken(why),
        why = follow_works(reader), if karmada => Ended::Broken(why),
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
        why = reader.follow_served(Kind::ServiceExport, |hub| &mut hub.exports) => why,
        why = reader.follow_served(Kind::ServiceImport, |hub| &mut hub.imports) => why,
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
        why if broken.unlisted && why.is_missing_right() => false,
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

async fn follow_namespaces(reader: &Reader<'_, Hub>) -> RequestError {
    let follow = || {
        let config = pace::selected(reader.scope.by_namespace());
        reader.follow(Kind::Namespace, reader.server.all(), config, namespaces)
    };
    reader
        .follow_readable(Kind::Namespace, follow, namespaces_unread)
        .await
}

fn namespaces_unread(hub: &mut Hub, why: &RequestError) -> Touched {
    let why = format!("{why}; to follow them takes the right to list and watch Namespaces");
    Touched {
        all: hub.namespaces_unread.replace(why).is_none(),
        ..Touched::default()
    }
}

async fn answers(server: &ApiServer) -> Result<(), RequestError> {
    let version = server.client.apiserver_version();
    server.request(version).await.map(drop)
}

async fn follow_works(reader: &Reader<'_, Hub>) -> RequestError {
    let follow = || {
        let server = reader.server;
        let api = server.api_of::<WorkMeta>(&karmada::work_kind(), None);
        let config = watcher::Config::default().labels(&karmada::selector(None));
        reader.follow(Kind::Work, api, config, works_changed)
    };
    reader
        .follow_readable(Kind::Work, follow, works_unread)
        .await
}

fn works_unread(hub: &mut Hub, why: &RequestError) -> Touched {
    match why {
        RequestError::NotFound { .. } => no_works(hub),
        _ => Touched {
            all: !std::mem::replace(&mut hub.works_unread, true),
            ..Touched::default()
        },
    }
}

/// Applies an empty list of Works.
fn no_works(hub: &mut Hub) -> Touched {
    works_changed(hub, Event::Init);
    works_changed(hub, Event::InitDone)
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures::FutureExt as _;
    use tokio::sync::mpsc;

    use super::super::reader::Apply;
    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::{answering, unreachable};

    fn broken(unlisted: bool) -> Broken {
        let why = RequestError::NotAllowed {
            side: Side::Hub,
            message: "no".to_owned(),
            unauthenticated: false,
        };
        Broken { why, unlisted }
    }

    /// Returns an outlet, and the changes that are sent to it.
    fn outlet() -> (Outlet<Hub>, mpsc::UnboundedReceiver<Apply<Hub>>) {
        let (changes, received) = mpsc::unbounded_channel();
        let outlet: Outlet<Hub> = Arc::new(move |apply| {
            changes.send(apply).ok();
            Box::pin(ready(()))
        });
        (outlet, received)
    }

    #[tokio::test]
    async fn rejected_credentials_change_nothing_that_was_observed() {
        let (outlet, mut received) = outlet();
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":401}"#;
        let reader = Reader {
            server: &answering(Side::Hub, move |_| (401, status)),
            scope: &Scope::default(),
            outlet: &outlet,
        };
        assert!(everything(&reader).await.is_err());
        assert!(received.try_recv().is_err(), "a change was sent");
    }

    #[tokio::test]
    async fn only_a_refused_list_leaves_its_kind_unread() {
        let (outlet, mut received) = outlet();
        let reader = Reader {
            server: &unreachable(Side::Hub),
            scope: &Scope::default(),
            outlet: &outlet,
        };
        for unlisted in [true, false] {
            let refused = || ready(broken(unlisted));
            let followed = reader.follow_readable(Kind::Work, refused, works_unread);
            assert!(followed.now_or_never().is_none(), "it is tried again later");
            let mut hub = Hub::default();
            hub.link.begin(&[Kind::Work]);
            let change = received.try_recv().ok();
            let touched = change.map(|apply| apply(&mut hub));
            assert_eq!(touched.is_some_and(|touched| touched.link), unlisted);
            assert_eq!(hub.works_unread, unlisted);
            assert_eq!(hub.link.row().connected, unlisted);
        }
    }

    #[test]
    fn refused_exports_leave_imports_known() {
        let mut hub = Hub::default();
        hub.exports.serve(Err("no".to_owned()));
        assert!(hub.clusterset_unread().is_some() && hub.imports.refusal().is_none());
        hub.imports.serve(Err("no".to_owned()));
        assert!(hub.imports.refusal().is_some());
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
