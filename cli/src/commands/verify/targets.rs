//! Services and clusters of a run, and the paths of each consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway::api::multicluster::ServiceImport;
use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{self, ClusterName, Network, ServiceKey};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use super::paths::Paths;
use super::probe::Path;
use super::{MAX_NODES, MAX_SERVICES, VerifyError};
use crate::args::WhatArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::observe::once;
use crate::observe::scope::Scope;
use crate::observe::service::key_of;
use crate::observe::{kubeconfigs, networking};
use crate::term::exit::Failure;

/// Maximum time of each request that connects to a member.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size in bytes of the paths of one service, which are one argument of a pod. Linux
/// executes nothing with an argument of more than 128 KiB (`MAX_ARG_STRLEN`).
const MAX_ARGUMENT: usize = 96 * 1024;
/// Maximum size in bytes of all paths of one pod. etcd stores no object of more than 1.5 MiB.
const MAX_ARGUMENTS: usize = 1024 * 1024;

/// Member with the user's rights, or the reason that it cannot be read.
type Member = Result<ApiServer, String>;

/// Services and clusters of a run.
pub(super) struct Targets {
    /// All Clusters of the hub, also those that take no part.
    clusters: Vec<Cluster>,
    pub(super) members: BTreeMap<String, Member>,
    services: Vec<ServiceKey>,
    /// Consumers of each service according to its MultiClusterService.
    consumers: BTreeMap<ServiceKey, BTreeSet<String>>,
    /// Services whose MultiClusterService is invalid.
    invalid: BTreeSet<ServiceKey>,
    /// Members that import each service.
    imported: BTreeMap<ServiceKey, BTreeSet<String>>,
    /// Members whose ServiceImports could not be read, with the reasons.
    unread: BTreeMap<String, String>,
}

/// Pod that connects, with its paths.
pub(super) struct Dialler {
    pub(super) cluster: String,
    pub(super) node: Option<String>,
    pub(super) services: Vec<(ServiceKey, Paths)>,
    /// Clusters of other networks.
    pub(super) entered: BTreeSet<String>,
}

impl Targets {
    pub(super) async fn read(hub: &ApiServer, what: &WhatArgs) -> Result<Self, Failure> {
        let mut targets = Self {
            clusters: once::clusters(hub).await?.unwrap_or_default(),
            members: BTreeMap::new(),
            services: Vec::new(),
            consumers: BTreeMap::new(),
            invalid: BTreeSet::new(),
            imported: BTreeMap::new(),
            unread: BTreeMap::new(),
        };
        let is_served = |name: &str| targets.cluster(name).is_some_and(Cluster::takes_part);
        if let Some(unserved) = what.from.iter().find(|one| !is_served(one)) {
            return Err(targets.no_member(unserved).into());
        }
        let served = targets.clusters.iter().filter(|one| one.takes_part());
        let members = served.map(|cluster| async {
            let name = cluster.name_any();
            let given = hub.members.or_by_name(&name);
            let member = kubeconfigs::connect(hub, cluster, &given, ANSWER_WITHIN).await;
            (name.clone(), member.map_err(|why| format!("{name}: {why}")))
        });
        targets.members = join_all(members).await.into_iter().collect();
        targets.find_services(hub, what).await?;
        Ok(targets)
    }

    /// Finds the services that the arguments name.
    async fn find_services(&mut self, hub: &ApiServer, what: &WhatArgs) -> Result<(), Failure> {
        let namespace = match what.all_namespaces {
            true => None,
            false => Some(hub.config.default_namespace.clone()),
        };
        let scope = Scope {
            namespace: namespace.clone(),
            name: what.name.clone(),
            ..Scope::default()
        };
        let objects = match once::multi_cluster_services(hub, &scope).await {
            Ok(objects) => objects,
            Err(RequestError::NotServed { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut services = BTreeSet::new();
        for object in objects {
            services.insert(key_of(&object));
            self.add(&object);
        }
        self.find_imports(&scope).await;
        services.extend(self.imported.keys().cloned());
        if services.is_empty() {
            let what = match (&what.name, &namespace) {
                (Some(name), Some(namespace)) => format!("service {namespace}/{name}"),
                (_, Some(namespace)) => format!("a service of namespace {namespace}"),
                _ => "any service".to_owned(),
            };
            let unread = self.not_read();
            return Err(VerifyError::NotFound { what, unread }.into());
        }
        if services.len() > MAX_SERVICES {
            let count = services.len();
            return Err(VerifyError::TooMany { count }.into());
        }
        self.services = services.into_iter().collect();
        Ok(())
    }

    /// Reads the ServiceImports of each member. Records the members that could not be read.
    async fn find_imports(&mut self, scope: &Scope) {
        let targets = &*self;
        let imports = targets.members.iter().map(|(name, member)| async move {
            let imports = match member {
                Ok(member) => {
                    let imports = scope.served::<ServiceImport>(member).await;
                    imports.map_err(|error| format!("{name}: {error}"))
                }
                Err(_) if !targets.may_import(name, scope) => Ok(Vec::new()),
                Err(why) => Err(why.clone()),
            };
            (name.clone(), imports)
        });
        let read = join_all(imports).await;
        for (name, imports) in read {
            match imports {
                Ok(imports) => {
                    for import in &imports {
                        let importers = self.imported.entry(key_of(import)).or_default();
                        importers.insert(name.clone());
                    }
                }
                Err(why) => {
                    self.unread.insert(name, why);
                }
            }
        }
    }

    /// Whether a member may import services. False if the controller reports that it serves neither
    /// kind of the clusterset.
    fn may_import(&self, name: &str, scope: &Scope) -> bool {
        self.cluster(name).is_some_and(|one| scope.takes_part(one))
    }

    /// Returns a suffix that lists the members that could not be read.
    fn not_read(&self) -> String {
        let unread: Vec<_> = self.unread.values().map(String::as_str).collect();
        match unread.is_empty() {
            true => String::new(),
            false => format!("; not read: {}", unread.join(", ")),
        }
    }

    /// Records the consumers of a MultiClusterService, or that it is invalid.
    fn add(&mut self, object: &MultiClusterService) {
        let key = key_of(object);
        match domain::MultiClusterService::try_from(object) {
            Ok(valid) => {
                let consumers = self.named_consumers(&valid);
                self.consumers.insert(key, consumers);
            }
            Err(_) => {
                self.invalid.insert(key);
            }
        }
    }

    /// Returns the members that a MultiClusterService selects as consumers. One that dispatches no
    /// endpoints has none.
    fn named_consumers(&self, valid: &domain::MultiClusterService) -> BTreeSet<String> {
        if !valid.dispatches_endpoints() {
            return BTreeSet::new();
        }
        let names = self.members.keys().filter(|name| {
            ClusterName::try_from(name.as_str()).is_ok_and(|name| valid.consumers.includes(&name))
        });
        names.cloned().collect()
    }

    /// Reads the consumers. Returns the pods to run, and the parts that cannot be tried.
    pub(super) async fn diallers(&self, what: &WhatArgs) -> (Vec<Dialler>, Vec<String>) {
        let is_chosen = |name: &String| match what.from.is_empty() {
            true => self.may_consume(name),
            false => what.from.contains(name),
        };
        let members = self.members.iter().filter(|(name, _)| is_chosen(name));
        let read = members.map(|(name, member)| async move {
            let member = member.as_ref().map_err(Clone::clone)?;
            let why = |error: RequestError| format!("{name}: {error}");
            let diallers = self.diallers_of(name, member, what.nodes);
            diallers.await.map_err(why)
        });
        let unread = self.unread.iter();
        let unread = unread.filter(|(name, _)| what.from.is_empty() || what.from.contains(name));
        let mut untried: Vec<_> = unread.map(|(_, why)| why.clone()).collect();
        let invalid = self.invalid.iter();
        untried.extend(
            invalid.map(|key| format!("{key}: its spec is invalid, so its consumers are unknown")),
        );
        let mut diallers = Vec::new();
        for read in join_all(read).await {
            match read {
                Ok(found) => diallers.extend(found),
                Err(why) => untried.push(why),
            }
        }
        untried.sort();
        untried.dedup();
        if diallers.is_empty() && untried.is_empty() {
            untried.push("no member consumes a service of these".to_owned());
        }
        (diallers, untried)
    }

    /// Returns the members that may consume a service. A member may import it if its ServiceImports
    /// could not be read, and any member may consume a service whose spec is invalid.
    pub(super) fn possible_consumers(&self, key: &ServiceKey) -> BTreeSet<String> {
        let all = self.members.keys().filter(|_| self.invalid.contains(key));
        let named = self.consumers.get(key).into_iter().flatten();
        let importers = self.imported.get(key).into_iter().flatten();
        let unread = self.unread.keys();
        let possible = all.chain(named).chain(importers).chain(unread);
        possible.cloned().collect()
    }

    /// Returns the number of untried parts of a run that concern a service.
    pub(super) fn untried_of(&self, key: &ServiceKey, untried: &[String]) -> usize {
        let names_another = |why: &str| {
            let mut others = self.invalid.iter().filter(|one| *one != key);
            others.any(|other| why.starts_with(&format!("{other}: ")))
        };
        untried.iter().filter(|why| !names_another(why)).count()
    }

    /// Whether a member may be a consumer of one of the services, as far as is known without it.
    fn may_consume(&self, name: &str) -> bool {
        let named = self.consumers.values();
        !self.imported.is_empty() || named.flatten().any(|consumer| consumer == name)
    }

    async fn diallers_of(
        &self,
        name: &str,
        member: &ApiServer,
        each_node: bool,
    ) -> Result<Vec<Dialler>, RequestError> {
        let mut services = Vec::new();
        for key in &self.services {
            // `find_imports` records a refused list of ServiceImports.
            let held = once::held(member.clone(), key).await?.held;
            let named = self.consumers.get(key);
            let is_named = named.is_some_and(|named| named.contains(name));
            // A Service of the same name in a cluster that does not consume the service is
            // unrelated.
            if !is_named && held.imports.is_empty() {
                continue;
            }
            services.push((key.clone(), Paths::of(&held, key, name)));
        }
        if services.is_empty() {
            return Ok(Vec::new());
        }
        bound(&mut services);
        let mut nodes = match each_node {
            true => nodes(member).await?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        let beyond = nodes.len().saturating_sub(MAX_NODES);
        nodes.truncate(MAX_NODES);
        if beyond > 0 {
            let why =
                format!("{name}: {beyond} ready nodes beyond {MAX_NODES} are not dialled from");
            let all = services.iter_mut();
            all.for_each(|(_, paths)| paths.untried.push(why.clone()));
        }
        let network = self.network(name);
        let clusters = self.clusters.iter();
        let entered = clusters.filter(|&one| networking::network(one) != network);
        let entered: BTreeSet<_> = entered.map(|one| one.name_any()).collect();
        let diallers = nodes.into_iter().map(|node| Dialler {
            cluster: name.to_owned(),
            node,
            services: services.clone(),
            entered: entered.clone(),
        });
        Ok(diallers.collect())
    }

    pub(super) fn network(&self, name: &str) -> Network {
        let cluster = self.cluster(name);
        cluster.map_or_else(Network::default, networking::network)
    }

    /// Returns the error for a name that is not a member's.
    pub(super) fn no_member(&self, name: &str) -> VerifyError {
        match self.cluster(name) {
            Some(_) => VerifyError::Unserved(name.to_owned()),
            None => VerifyError::NotJoined(name.to_owned()),
        }
    }

    fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.clusters.iter().find(|one| one.name_any() == name)
    }
}

/// Removes the paths that do not fit into the arguments of a pod, and adds their number to the
/// untried parts. Paths other than those to endpoints come first, then an endpoint of each
/// provider.
fn bound(services: &mut [(ServiceKey, Paths)]) {
    let mut room = MAX_ARGUMENTS;
    let ranked = services.iter().map(|(_, paths)| ranked(&paths.paths));
    let mut ranked: Vec<_> = ranked.map(|paths| (MAX_ARGUMENT - 1, paths)).collect();
    for rank in [Rank::Other, Rank::First, Rank::Further] {
        for (left, paths) in &mut ranked {
            for path in paths.iter_mut().filter(|path| path.rank == rank) {
                path.fits = path.size <= room.min(*left);
                if path.fits {
                    *left -= path.size;
                    room -= path.size;
                }
            }
        }
    }
    for ((key, Paths { paths, untried }), (_, ranked)) in services.iter_mut().zip(ranked) {
        let beyond = ranked.iter().filter(|path| !path.fits).count();
        let mut fits = ranked.into_iter().map(|path| path.fits);
        paths.retain(|_| fits.next().unwrap_or_default());
        if beyond > 0 {
            untried.push(format!(
                "{beyond} paths of {key} do not fit into the arguments of a pod"
            ));
        }
    }
}

/// Kind of a path, in the order in which paths get room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// Path to no endpoint.
    Other,
    /// Path to the first endpoint of a provider. It needs room for the path to the provider's
    /// answering pod, too.
    First,
    /// Path to another endpoint.
    Further,
}

/// Path that needs room in the arguments of a pod.
struct Ranked {
    rank: Rank,
    /// Size in bytes.
    size: usize,
    fits: bool,
}

fn ranked(paths: &[Path]) -> Vec<Ranked> {
    let mut providers = BTreeSet::new();
    let ranked = paths.iter().map(|path| {
        let rank = match path {
            Path::Endpoint { provider, .. } if providers.insert(provider) => Rank::First,
            Path::Endpoint { .. } => Rank::Further,
            _ => Rank::Other,
        };
        let size = json!(path).to_string().len() + 1;
        Ranked {
            rank,
            size: size * (1 + usize::from(rank == Rank::First)),
            fits: false,
        }
    });
    ranked.collect()
}

/// Returns the consumers that are none of the members that the user chose.
pub(super) fn left_out(consumers: &BTreeSet<String>, from: &[String]) -> BTreeSet<String> {
    let left_out = consumers.iter();
    let left_out = left_out.filter(|name| !from.is_empty() && !from.contains(name));
    left_out.cloned().collect()
}

/// Returns the names of the ready Linux nodes.
async fn nodes(member: &ApiServer) -> Result<Vec<String>, RequestError> {
    let linux = ListParams::default().labels("kubernetes.io/os=linux");
    let nodes: Vec<Node> = member.list(member.all(), &linux).await?;
    let is_ready = |node: &Node| {
        let status = node.status.as_ref();
        let conditions = status
            .into_iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let mut ready = conditions.filter(|one| one.type_ == "Ready");
        ready.any(|one| one.status == "True")
    };
    let nodes = nodes.iter().filter(|node| is_ready(node));
    Ok(nodes.map(|node| node.name_any()).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use causeway::api::{SyncMode, labels};

    use super::*;
    use crate::cluster::access::Side;
    use crate::commands::verify::probe::{Port, Protocol};
    use crate::fixtures::{answering, cluster, condition, cross, service, synced};

    /// Targets in two members that cannot be read.
    pub(in crate::commands::verify) fn targets(clusters: Vec<Cluster>) -> Targets {
        let unread = |name: &str| -> (String, Member) {
            (name.to_owned(), Err(format!("{name}: no context")))
        };
        Targets {
            clusters,
            members: ["a", "b"].map(unread).into(),
            services: Vec::new(),
            consumers: BTreeMap::new(),
            invalid: BTreeSet::new(),
            imported: BTreeMap::new(),
            unread: BTreeMap::new(),
        }
    }

    /// Hub with a service, and a cluster of network "edge" in Pull mode without credentials.
    fn hub_with_pull() -> ApiServer {
        let mut pull = synced("pull");
        pull.spec.sync_mode = Some(SyncMode::Pull);
        let network = (labels::NETWORK.to_owned(), "edge".to_owned());
        pull.metadata.annotations = Some([network].into());
        let (clusters, foo) = (json!([pull]), service("foo", cross(&[], &[]), json!([])));
        answering(Side::Hub, move |request| {
            let items = match request.uri().path().ends_with("/clusters") {
                true => clusters.clone(),
                false => json!([foo]),
            };
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
            (200, list)
        })
    }

    #[tokio::test]
    async fn cluster_in_pull_mode_without_credentials_is_unserved() {
        let hub = hub_with_pull();
        let unserved = "pull is in Pull mode without credentials, so causeway does not serve it";
        let not_joined = "none is not joined; kubectl mcs status lists the members";
        for (name, error) in [("pull", unserved), ("none", not_joined)] {
            let what = WhatArgs {
                from: vec![name.to_owned()],
                ..WhatArgs::default()
            };
            let refused = Targets::read(&hub, &what).await.err();
            assert_eq!(refused.expect(name).to_string(), error);
        }
        let targets = Targets::read(&hub, &WhatArgs::default()).await;
        let targets = targets.expect("targets");
        assert!(targets.members.is_empty());
        assert_eq!(targets.network("pull"), Network::read("edge"));
        assert_eq!(targets.no_member("pull").to_string(), unserved);
    }

    #[test]
    fn services_without_dispatched_endpoints_have_no_consumers() {
        for (spec, consumers) in [
            (json!({"types": ["CrossCluster"]}), &["a", "b"][..]),
            (json!({"types": ["LoadBalancer"]}), &[]),
            (
                json!({"types": ["LoadBalancer"], "consumerClusters": [{"name": "b"}]}),
                &["b"],
            ),
        ] {
            let mut targets = targets(Vec::new());
            targets.add(&service("foo", spec.clone(), json!([])));
            let found = &targets.consumers[&ServiceKey::new("shop", "foo")];
            assert!(found.iter().eq(consumers), "{spec}: {found:?}");
            assert!(targets.invalid.is_empty(), "{spec}");
        }
    }

    #[tokio::test]
    async fn consumers_of_an_invalid_service_are_unknown() {
        let mut targets = targets(Vec::new());
        let spec = json!({"types": ["NoSuchType"]});
        targets.add(&service("foo", spec, json!([])));
        let (diallers, untried) = targets.diallers(&WhatArgs::default()).await;
        assert!(diallers.is_empty());
        assert_eq!(
            untried,
            ["shop/foo: its spec is invalid, so its consumers are unknown"]
        );
    }

    #[test]
    fn members_left_out_are_possible_consumers_of_the_service() {
        let (foo, bar) = (
            ServiceKey::new("shop", "foo"),
            ServiceKey::new("shop", "bar"),
        );
        let mut unread = targets(Vec::new());
        unread.unread.insert("b".to_owned(), "b: no".to_owned());
        let mut invalid = targets(Vec::new());
        invalid.invalid.insert(foo.clone());
        let mut targets = targets(Vec::new());
        let consumer =
            |name: &str| json!({"types": ["CrossCluster"], "consumerClusters": [{"name": name}]});
        targets.add(&service("foo", consumer("b"), json!([])));
        targets.add(&service("bar", consumer("a"), json!([])));
        let imported = ServiceKey::new("shop", "imported");
        let importers = BTreeSet::from(["b".to_owned()]);
        targets.imported.insert(imported.clone(), importers);
        for (targets, key, from, expected) in [
            (&targets, &foo, &["a"][..], &["b"][..]),
            (&targets, &foo, &["b"], &[]),
            (&targets, &foo, &[], &[]),
            (&targets, &bar, &["a"], &[]),
            (&targets, &imported, &["a"], &["b"]),
            (&targets, &imported, &["b"], &[]),
            (&unread, &foo, &["a"], &["b"]),
            (&unread, &foo, &["b"], &[]),
            (&invalid, &foo, &["b"], &["a"]),
            (&invalid, &bar, &["b"], &[]),
        ] {
            let from: Vec<_> = from.iter().map(|&one| one.to_owned()).collect();
            let left_out = left_out(&targets.possible_consumers(key), &from);
            assert!(left_out.iter().eq(expected), "{key} {from:?}: {left_out:?}");
        }
    }

    /// Returns a service with a name, and an endpoint at each port of each provider.
    fn provided(providers: usize, ports: u16) -> (ServiceKey, Paths) {
        let endpoints = (0..providers).flat_map(|provider| {
            (0..ports).map(move |port| Path::Endpoint {
                provider: format!("provider{provider}"),
                at: Port::new([10, 1, 0, 1], port, Protocol::Tcp),
            })
        });
        let name = Path::Name {
            name: "foo.shop".to_owned(),
            expected: Vec::new(),
        };
        let paths = Paths {
            paths: endpoints.chain([name]).collect(),
            untried: Vec::new(),
        };
        (ServiceKey::new("shop", "foo"), paths)
    }

    #[test]
    fn paths_beyond_the_arguments_of_a_pod_are_untried() {
        for (services, providers, ports, all_fit) in [
            (1, 40, 20, true),
            (1, 100, 20, false),
            // Each provider has an answering pod, too.
            (1, 1000, 1, false),
            (10, 40, 20, true),
            (20, 40, 20, false),
        ] {
            let case = format!("{services} {providers} {ports}");
            let before = vec![provided(providers, ports); services];
            let mut after = before.clone();
            bound(&mut after);
            let arguments = after.iter().map(|(_, one)| json!(one.paths).to_string());
            let sizes: Vec<_> = arguments.map(|one| one.len()).collect();
            assert!(sizes.iter().all(|size| *size <= MAX_ARGUMENT), "{case}");
            assert!(sizes.iter().sum::<usize>() <= MAX_ARGUMENTS, "{case}");
            let first = after[0].1.paths.last();
            assert!(matches!(first, Some(Path::Name { .. })), "{case}");
            assert_eq!(after == before, all_fit, "{case}");
            let (last, whole) = (&after[services - 1].1, &before[0].1);
            let beyond = whole.paths.len() - last.paths.len();
            let why = format!("{beyond} paths of shop/foo do not fit into the arguments of a pod");
            let untried = (!all_fit).then_some(why);
            assert_eq!(last.untried, Vec::from_iter(untried), "{case}");
        }
    }

    #[tokio::test]
    async fn pods_start_on_ready_nodes_with_linux() {
        let member = answering(Side::Member, |request| {
            let query = request.uri().query().unwrap_or_default();
            let selector = "labelSelector=kubernetes.io%2Fos%3Dlinux";
            assert!(query.contains(selector), "{query}");
            let node = |name: &str, ready: &str| {
                let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
                json!({"metadata": {"name": name}, "status": status})
            };
            let list = json!({
                "apiVersion": "v1",
                "kind": "NodeList",
                "metadata": {},
                "items": [node("a", "True"), node("b", "False")],
            });
            (200, list)
        });
        assert_eq!(nodes(&member).await.expect("nodes"), ["a"]);
    }

    #[test]
    fn untried_parts_of_another_service_do_not_count() {
        let mut targets = targets(Vec::new());
        targets.add(&service("foo", json!({"types": ["NoSuchType"]}), json!([])));
        let untried = ["shop/foo: its spec is invalid", "member1: no context"].map(str::to_owned);
        for (name, count) in [("foo", 2), ("bar", 1)] {
            let key = ServiceKey::new("shop", name);
            assert_eq!(targets.untried_of(&key, &untried), count, "{key}");
        }
    }

    #[tokio::test]
    async fn unread_member_is_unknown_unless_it_serves_neither_kind() {
        let why = "ServiceExport and ServiceImport are not installed there";
        let reported = condition("ClustersetAPI", "False", "NotServed", why);
        let mut targets = targets(vec![synced("a"), cluster("b", json!([reported]))]);
        assert_eq!(targets.not_read(), "");
        targets.find_imports(&Scope::default()).await;
        assert_eq!(targets.not_read(), "; not read: a: no context");
        for (from, expected) in [(vec![], "a: no context"), (vec!["b"], "b: no context")] {
            let what = WhatArgs {
                from: from.into_iter().map(str::to_owned).collect(),
                ..WhatArgs::default()
            };
            let (diallers, untried) = targets.diallers(&what).await;
            assert!(diallers.is_empty());
            assert_eq!(untried, [expected]);
        }
    }
}
