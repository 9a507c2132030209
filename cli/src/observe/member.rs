//! Objects of one member and their watches, with the credentials that the hub stores.

use std::sync::Arc;
use std::time::Duration;

use causeway::api::Cluster;
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::domain::ServiceKey;
use causeway::domain::path::PathLease;
use causeway_engine::model::{Failure, FailureKind, Identity, Needs};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::watcher::{self, Event};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::connect::{self, ConnectError, READ_WITHIN};
use super::link::{Kind, Link};
use super::networking::by_node_ports;
use super::once::{self, identify};
use super::pace::{self, Ended, LOOK_AGAIN, Pace};
use super::reader::{Followed, Outlet, Reader, View};
use super::scope::{Breadth, Scope};
use super::service::{Held, MemberRead, served};
use super::store::{Store, key_of, name_of, service_of};
use super::touched::Touched;
use crate::cluster::api_server::{ApiServer, RequestError};

/// Interval at which reports on paths are dropped that do not hold any more.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);

/// Objects of a member.
pub(crate) struct Member {
    /// Number of the engagement that follows the member.
    pub engagement: u64,
    pub link: Link,
    /// Error of the connection. Meaningful only without a connection.
    pub failure: ConnectError,
    identity: Identity,
    namespaces: Store<String, Namespace>,
    pub services: Store<ServiceKey, Service>,
    /// Slices by the Service of their label.
    pub slices: Store<ServiceKey, EndpointSlice>,
    pub exports: Followed<ServiceExport, ConnectError>,
    pub imports: Followed<ServiceImport, ConnectError>,
    nodes: Store<String, Node>,
    /// Result of the read of Nodes. `None` while Nodes are not required.
    nodes_read: Option<Result<(), Failure>>,
    /// Reports of causeway-agent on paths from it. Those that do not hold any more are dropped.
    pub paths: Vec<PathLease>,
    /// Error of the read of reports on paths.
    paths_refused: Option<ConnectError>,
}

impl View for Member {
    const CONCERNS_ALL: bool = false;

    type Refusal = ConnectError;

    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn refusal(why: RequestError) -> ConnectError {
        why.into()
    }
}

impl Member {
    /// Returns a member without any observation.
    pub(crate) fn new(engagement: u64) -> Self {
        Self {
            engagement,
            link: Link::default(),
            failure: ConnectError::Failed("not connected yet".to_owned()),
            identity: Identity::default(),
            namespaces: Store::new(name_of),
            services: Store::new(key_of),
            slices: Store::new(service_of),
            exports: Followed::new(),
            imports: Followed::new(),
            nodes: Store::new(name_of),
            nodes_read: None,
            paths: Vec::new(),
            paths_refused: None,
        }
    }

    /// Returns the member of the next engagement of the same Cluster. It retains the last observed
    /// exports and imports until their first complete lists.
    pub(super) fn engaged_again(self, engagement: u64) -> Self {
        Self {
            exports: self.exports,
            imports: self.imports,
            ..Self::new(engagement)
        }
    }

    /// Whether an export selects node ports.
    pub(super) fn exports_by_node_ports(&self) -> bool {
        let mut exports = by_node_ports(&self.exports.objects, &self.namespaces);
        exports.next().is_some()
    }

    /// Whether the member exports or imports a service.
    pub(super) fn exposes(&self, key: &ServiceKey) -> bool {
        self.exports.objects.has(key) || self.imports.objects.has(key)
    }

    /// Returns the keys of all exports and imports.
    pub(super) fn exposed(&self) -> impl Iterator<Item = &ServiceKey> {
        let imported = self.imports.objects.keys();
        self.exports.objects.keys().chain(imported)
    }

    /// Drops the Nodes, which are no longer required.
    pub(super) fn drop_nodes(&mut self) {
        self.nodes.replace(Vec::new());
        self.nodes_read = None;
    }

    /// Replaces the reports on paths by those that hold at that time.
    fn take_paths(&mut self, mut paths: Vec<PathLease>, now: Timestamp) -> Touched {
        paths.retain(|lease| lease.report_at(now).is_some());
        let path = |lease: &PathLease| {
            let report = lease.report.as_ref();
            (
                lease.source.clone(),
                report.map(|report| (report.path, report.since)),
            )
        };
        let is_same = self.paths.iter().map(path).eq(paths.iter().map(path));
        self.paths = paths;
        Touched {
            paths: !is_same,
            ..Touched::default()
        }
    }

    /// Drops the reports on paths, which are no longer read.
    pub(super) fn drop_paths(&mut self) {
        self.paths_refused = None;
        self.paths.clear();
    }

    /// Whether the member has one of `services` or a slice of one.
    pub(super) fn holds(&self, services: &[ServiceKey]) -> bool {
        let mut services = services.iter();
        services.any(|key| self.services.has(key) || self.slices.has(key))
    }

    /// Returns the objects of one service, or the error of the read of reports on paths.
    pub(super) fn held(&self, key: &ServiceKey) -> Result<MemberRead, ConnectError> {
        if let Some(why) = &self.paths_refused {
            return Err(why.clone());
        }
        let derived = key.derived();
        let companion = key.companion();
        let services = self.services.of(key).chain(self.services.of(&derived));
        let services = services.chain(self.services.of(&companion));
        let nodes = self.nodes_read.clone();
        let slices = self.slices.of(key).chain(self.slices.of(&derived));
        let namespace = String::from(&*key.namespace);
        let held = Held {
            identity: self.identity.clone(),
            served: served(self.exports.version(), self.imports.version()),
            namespaces: self.namespaces.of(&namespace).cloned().collect(),
            services: services.cloned().collect(),
            slices: slices.cloned().collect(),
            exports: self.exports.of(key).cloned().collect(),
            imports: self.imports.of(key).cloned().collect(),
            nodes: nodes.map(|read| read.map(|()| self.nodes.all().cloned().collect())),
            paths: self.paths.clone(),
        };
        Ok(MemberRead {
            held,
            clusterset_unread: self.clusterset_unread().cloned(),
        })
    }

    /// Returns the refusal of the list of exports or imports.
    fn clusterset_unread(&self) -> Option<&ConnectError> {
        self.exports.refusal().or(self.imports.refusal())
    }

    /// Returns the exports and imports of one service, or the error of their read. A refused read
    /// of reports on paths does not hide them, as it does in [`Member::held`].
    pub(super) fn exported(&self, key: &ServiceKey) -> Result<Held, ConnectError> {
        match self.clusterset_unread() {
            Some(why) => Err(why.clone()),
            None => Ok(self.last_exported(key)),
        }
    }

    /// Returns the last observed exports and imports of one service, also without a connection.
    pub(super) fn last_exported(&self, key: &ServiceKey) -> Held {
        Held {
            exports: self.exports.objects.of(key).cloned().collect(),
            imports: self.imports.objects.of(key).cloned().collect(),
            ..Held::default()
        }
    }

    /// Records the refused read of reports on paths, or removes the record. Returns true if that is
    /// a change.
    fn refuse_paths(&mut self, refused: Option<RequestError>) -> bool {
        let before = self.paths_refused.take();
        self.paths_refused = refused.map(Into::into);
        before != self.paths_refused
    }

    /// Returns all exports and imports, or the error of the read. `None` before the first complete
    /// list.
    pub(crate) fn clusterset(&self) -> Option<Result<Held, ConnectError>> {
        if !self.link.is_tried() {
            return None;
        }
        if !self.link.row().connected {
            return Some(Err(self.failure.clone()));
        }
        Some(match self.clusterset_unread() {
            Some(why) => Err(why.clone()),
            None => Ok(Held {
                exports: self.exports.objects.all().cloned().collect(),
                imports: self.imports.objects.all().cloned().collect(),
                ..Held::default()
            }),
        })
    }
}

/// Applies an event of Namespaces.
pub(super) fn namespaces(member: &mut Member, event: Event<Namespace>) -> Touched {
    let namespaces = member.namespaces.apply(event);
    Touched {
        node_needs: !namespaces.is_empty(),
        namespaces,
        ..Touched::default()
    }
}

fn services(member: &mut Member, event: Event<Service>) -> Touched {
    Touched::services(member.services.apply(event))
}

fn slices(member: &mut Member, event: Event<EndpointSlice>) -> Touched {
    Touched::services(member.slices.apply(event))
}

fn nodes(member: &mut Member, event: Event<Node>) -> Touched {
    let is_first = matches!(event, Event::InitDone) && !matches!(member.nodes_read, Some(Ok(())));
    if is_first {
        member.nodes_read = Some(Ok(()));
    }
    let changed = !member.nodes.apply(event).is_empty();
    Touched {
        nodes: is_first || changed && member.nodes_read.is_some(),
        ..Touched::default()
    }
}

/// Settings of all connections to members.
#[derive(Clone)]
pub(super) struct Settings {
    pub hub: ApiServer,
    pub scope: Scope,
    /// Limit of concurrent connection attempts with the credentials on the hub.
    pub connecting: Arc<Semaphore>,
    /// Limit of concurrent connection attempts by the user's kubeconfigs. Their credential plugins
    /// may take a minute.
    pub by_kubeconfig: Arc<Semaphore>,
}

/// Followed member. Dropping it ends the watches.
#[derive(Debug)]
pub(super) struct Engaged {
    task: AbortHandle,
    needs: watch::Sender<Needs>,
}

impl Drop for Engaged {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Engaged {
    /// Starts the watches of a Cluster's member.
    pub(super) fn new(settings: &Settings, cluster: &Cluster, outlet: Outlet<Member>) -> Self {
        let (needs, needed) = watch::channel(Needs {
            nodes: false,
            paths: cluster.reports_paths(),
        });
        let task = run(settings.clone(), cluster.clone(), outlet, needed);
        Self {
            task: tokio::spawn(task).abort_handle(),
            needs,
        }
    }

    /// Starts or ends the watch of Nodes. Returns true if that is a change.
    pub(super) fn follow_nodes(&self, needed: bool) -> bool {
        let needs = &self.needs;
        needs.send_if_modified(|needs| std::mem::replace(&mut needs.nodes, needed) != needed)
    }

    /// Starts or ends the reads of reports on paths. Returns true if that is a change.
    pub(super) fn follow_paths(&self, needed: bool) -> bool {
        let needs = &self.needs;
        needs.send_if_modified(|needs| std::mem::replace(&mut needs.paths, needed) != needed)
    }
}

/// Follows the member, and reconnects after each end of a connection. Each attempt reads the
/// Secret, as the token may have changed.
async fn run(
    settings: Settings,
    cluster: Cluster,
    outlet: Outlet<Member>,
    needs: watch::Receiver<Needs>,
) {
    tokio::select! {
        () = connections(&settings, &cluster, &outlet, &needs) => {}
        () = expire_paths(&settings, &outlet, needs.clone()) => {}
    }
}

async fn connections(
    settings: &Settings,
    cluster: &Cluster,
    outlet: &Outlet<Member>,
    needs: &watch::Receiver<Needs>,
) {
    let mut pace = Pace::new();
    loop {
        pace.begin();
        let ended = connection(settings, cluster, outlet, needs).await;
        let Some(why) = pace.end(ended) else {
            continue;
        };
        let end = move |member: &mut Member| {
            let link = member.link.end(why.to_string(), Timestamp::now());
            member.failure = why;
            Touched {
                link,
                ..Touched::default()
            }
        };
        // The reader only sends the change: it makes no request to the hub.
        reader(&settings.hub, settings, outlet).send(end).await;
        pace.pause().await;
    }
}

/// Drops reports on paths when they cease to hold, while the member does not answer too.
async fn expire_paths(
    settings: &Settings,
    outlet: &Outlet<Member>,
    mut needs: watch::Receiver<Needs>,
) {
    while needs.wait_for(|needs| needs.paths).await.is_ok() {
        let expire = |member: &mut Member| {
            let paths = member.paths.clone();
            member.take_paths(paths, Timestamp::now())
        };
        reader(&settings.hub, settings, outlet).send(expire).await;
        tokio::time::sleep(EXPIRE_EVERY).await;
    }
}

async fn connection(
    settings: &Settings,
    cluster: &Cluster,
    outlet: &Outlet<Member>,
    needs: &watch::Receiver<Needs>,
) -> Ended<ConnectError> {
    let (server, identity) = match connect(settings, cluster).await {
        Ok(connected) => connected,
        Err(why) => return Ended::Broken(why),
    };
    let reader = reader(&server, settings, outlet);
    match follow(&reader, identity, needs).await {
        Ended::Broken(why) => Ended::Broken(why.into()),
        Ended::Silent(why) => Ended::Silent(why.into()),
    }
}

fn reader<'a>(
    server: &'a ApiServer,
    settings: &'a Settings,
    outlet: &'a Outlet<Member>,
) -> Reader<'a, Member> {
    Reader {
        server,
        scope: &settings.scope,
        outlet,
    }
}

async fn connect(
    settings: &Settings,
    cluster: &Cluster,
) -> Result<(ApiServer, Identity), ConnectError> {
    let limit = match settings.hub.members.of(&cluster.name_any()) {
        Some(_) => &settings.by_kubeconfig,
        None => &settings.connecting,
    };
    // The timeout begins after the permit is acquired.
    let _turn = limit.acquire().await.ok();
    let (hub, insecure) = (&settings.hub, settings.scope.allow_insecure);
    connect::read_one(hub, cluster, insecure, READ_WITHIN, |server| async move {
        let identity = identify(&server).await?;
        Ok((server, identity))
    })
    .await
}

/// Checks that the connected cluster still has the known UID.
async fn is_still(server: &ApiServer, uid: &str) -> Result<(), RequestError> {
    match server.uid().await? {
        same if same == uid => Ok(()),
        _ => Err(server.unreachable("another cluster answers at its address".to_owned())),
    }
}

/// Follows the objects until a watch breaks, the member does not respond, or another cluster
/// responds.
async fn follow(
    reader: &Reader<'_, Member>,
    identity: Identity,
    needs: &watch::Receiver<Needs>,
) -> Ended<RequestError> {
    let (server, uid) = (reader.server, identity.uid.clone());
    let is_all = reader.scope.breadth == Breadth::Everything;
    let begin = move |member: &mut Member| {
        let clusterset = [Kind::ServiceExport, Kind::ServiceImport];
        let rest = [Kind::Namespace, Kind::Service, Kind::EndpointSlice];
        let rest = rest.into_iter().filter(|_| is_all);
        let kinds: Vec<_> = clusterset.into_iter().chain(rest).collect();
        member.link.begin(&kinds);
        member.identity = identity;
        Touched::default()
    };
    reader.send(begin).await;
    tokio::select! {
        why = reader.follow_served(Kind::ServiceExport, |member| &mut member.exports) => Ended::Broken(why),
        why = reader.follow_served(Kind::ServiceImport, |member| &mut member.imports) => Ended::Broken(why),
        why = follow_rest(reader, needs), if is_all => Ended::Broken(why),
        why = pace::probe(server, || is_still(server, &uid)) => Ended::Silent(why),
    }
}

/// Follows the kinds outside the Multi-Cluster Services API.
async fn follow_rest(reader: &Reader<'_, Member>, needs: &watch::Receiver<Needs>) -> RequestError {
    let server = reader.server;
    let namespace = reader.scope.namespace.as_deref();
    let named = pace::selected(reader.scope.by_namespace());
    let all = watcher::Config::default;
    tokio::select! {
        broken = reader.follow(Kind::Namespace, server.all(), named, namespaces) => broken.why,
        broken = reader.follow(Kind::Service, server.api(namespace), all(), services) => broken.why,
        broken = reader.follow(Kind::EndpointSlice, server.api(namespace), all(), slices) => broken.why,
        why = follow_needed_nodes(reader, needs.clone()) => why,
        why = follow_needed_paths(reader, needs.clone()) => why,
    }
}

/// Reads the reports on paths every 10 seconds while they are required. Too many leave the services
/// of the member unknown.
async fn follow_needed_paths(
    reader: &Reader<'_, Member>,
    mut needs: watch::Receiver<Needs>,
) -> RequestError {
    while needs.wait_for(|needs| needs.paths).await.is_ok() {
        let (paths, refused) = match once::paths(reader.server).await {
            Ok(paths) => (paths, None),
            Err(why @ RequestError::TooMany { .. }) => (Vec::new(), Some(why)),
            Err(why) => return why,
        };
        let take = move |member: &mut Member| {
            let is_news = member.refuse_paths(refused);
            let mut touched = member.take_paths(paths, Timestamp::now());
            touched.paths |= is_news;
            touched
        };
        reader.send(take).await;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    std::future::pending().await
}

/// Follows the Nodes while they are required.
async fn follow_needed_nodes(
    reader: &Reader<'_, Member>,
    mut needs: watch::Receiver<Needs>,
) -> RequestError {
    while needs.wait_for(|needs| needs.nodes).await.is_ok() {
        tokio::select! {
            why = follow_nodes(reader) => return why,
            _ = needs.wait_for(|needs| !needs.nodes) => {}
        }
    }
    std::future::pending().await
}

async fn follow_nodes(reader: &Reader<'_, Member>) -> RequestError {
    let all = watcher::Config::default;
    let follow = || reader.follow(Kind::Node, reader.server.all(), all(), nodes);
    reader
        .follow_readable(Kind::Node, follow, nodes_unread)
        .await
}

fn nodes_unread(member: &mut Member, why: &RequestError) -> Touched {
    let unread = Err(Failure::new(FailureKind::Forbidden, why.to_string()));
    let nodes = member.nodes_read.as_ref() != Some(&unread);
    member.nodes_read = Some(unread);
    Touched {
        nodes,
        ..Touched::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::access::{MemberFile, MembersArgs, Side};
    use crate::cluster::kubeconfig::MemberKubeconfigs;
    use crate::fixtures::{export, synced, unreachable};
    use causeway::api::multicluster::Version;
    use causeway::domain::ClusterName;
    use causeway::domain::path::{Path, PathReport};
    use futures::FutureExt as _;
    use k8s_openapi::jiff::SignedDuration;
    use serde_json::json;

    fn forbidden() -> RequestError {
        RequestError::NotAllowed {
            side: Side::Member,
            message: "serviceexports is forbidden".to_owned(),
            unauthenticated: false,
        }
    }

    fn lease(source: &str, path: Path, probed: Timestamp) -> PathLease {
        PathLease {
            source: ClusterName::try_from(source).expect("a name"),
            report: Some(PathReport {
                path,
                since: Timestamp::UNIX_EPOCH,
                probed,
                answered: 0,
                tried: 3,
            }),
            is_seen: false,
        }
    }

    #[test]
    fn reports_are_dropped_when_they_cease_to_hold() {
        let now: Timestamp = "2026-11-23T00:00:00Z".parse().expect("a time");
        let later = |seconds| now + SignedDuration::from_secs(seconds);
        let mut member = Member::new(1);
        let unreadable = PathLease {
            report: None,
            ..lease("c", Path::Good, now)
        };
        let both = || {
            vec![
                lease("a", Path::Good, now),
                lease("b", Path::Bad, later(60)),
            ]
        };
        let read = [both(), vec![unreadable]].concat();
        for (paths, seconds, changes, known) in [
            (read.clone(), 0, true, "a b"),
            (read, 10, false, "a b"),
            (both(), 89, false, "a b"),
            (both(), 91, true, "b"),
            (both(), 92, false, "b"),
            (both(), 151, true, ""),
            (vec![lease("b", Path::Good, later(155))], 155, true, "b"),
            (vec![lease("b", Path::Bad, later(156))], 156, true, "b"),
        ] {
            let touched = member.take_paths(paths, later(seconds));
            let names: Vec<_> = member.paths.iter().map(|one| one.source.as_str()).collect();
            assert_eq!(
                (touched.paths, names.join(" ")),
                (changes, known.to_owned()),
                "{seconds}"
            );
        }
    }

    #[test]
    fn too_many_reports_leave_services_unknown() {
        let key = ServiceKey::new("shop", "foo");
        let too_many = || RequestError::TooMany {
            side: Side::Member,
            message: "more than 4096 Leases".to_owned(),
        };
        let mut member = Member::new(1);
        assert!(member.refuse_paths(Some(too_many())));
        assert!(!member.refuse_paths(Some(too_many())));
        let unknown = member.held(&key);
        assert!(unknown.is_err_and(|why| why.to_string().contains("4096 Leases")));
        assert!(member.refuse_paths(None));
        assert!(member.held(&key).is_ok());
        member.refuse_paths(Some(too_many()));
        member.drop_paths();
        assert!(member.held(&key).is_ok());
    }

    #[test]
    fn kind_that_may_not_be_read_makes_the_clusterset_unknown() {
        let mut member = Member::new(1);
        let key = ServiceKey::new("shop", "foo");
        assert!(member.clusterset().is_none(), "it is not listed");
        let kinds = [Kind::ServiceExport, Kind::ServiceImport];
        member.link.begin(&kinds);
        member.exports.apply(Event::Apply(export("foo", json!([]))));
        member.exports.serve(Ok(Some(Version::V1beta1)));
        member.imports.serve(Ok(None));
        for kind in kinds {
            member.link.listed(kind);
        }
        let held = member.clusterset().expect("listed").expect("it is read");
        assert_eq!((held.exports.len(), held.imports.len()), (1, 0));
        assert!(member.held(&key).is_ok() && member.exported(&key).is_ok());
        assert!(member.exports.serve(Err(forbidden().into())).link);
        member.imports.serve(Ok(None));
        let read = member.held(&key).expect("Services are read");
        assert!(member.exposes(&key) && read.held.exports.is_empty());
        let refusals = [read.clusterset_unread, member.exported(&key).err()];
        for refusal in refusals {
            assert!(refusal.is_some_and(|why| why.to_string().contains("serviceexports")));
        }
        let unknown = member.clusterset().expect("listed");
        assert!(unknown.is_err_and(|why| why.to_string().contains("serviceexports")));
        member.exports.serve(Ok(None));
        let held = member.clusterset().expect("listed");
        assert!(held.is_ok_and(|held| held.exports.is_empty()));
        member.link.end("refused".to_owned(), Timestamp::now());
        assert!(member.clusterset().is_some_and(|held| held.is_err()));
    }

    #[tokio::test]
    async fn attempts_by_kubeconfigs_delay_no_other_member() {
        let kubeconfig = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(kubeconfig.path(), "contexts: []\n").expect("a kubeconfig");
        let of_a = MemberFile {
            member: Some("a".to_owned()),
            path: kubeconfig.path().to_owned(),
        };
        let members = MembersArgs {
            files: vec![of_a],
            contexts: Vec::new(),
        };
        let members = MemberKubeconfigs::read(&members, None).expect("kubeconfigs");
        let hub = ApiServer {
            members: Arc::new(members),
            ..unreachable(Side::Hub)
        };
        let settings = Settings {
            hub,
            scope: Scope::default(),
            connecting: Arc::new(Semaphore::new(1)),
            by_kubeconfig: Arc::new(Semaphore::new(0)),
        };
        let waiting = connect(&settings, &synced("a")).now_or_never();
        assert!(waiting.is_none(), "all places are taken");
        let refused = connect(&settings, &synced("b")).now_or_never();
        let is_refused = matches!(refused, Some(Err(ConnectError::NoReference)));
        assert!(is_refused, "no credentials are on the hub");
    }
}
