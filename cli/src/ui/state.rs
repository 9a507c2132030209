//! What the hub and the members hold, as their watches show it, and what of it belongs to one service.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use causeway::api::bounds::LABEL;
use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::{self, ClusterName, KubernetesVersion, ServiceKey};
use causeway_engine::model::served::{ImportFields, Served, ServedImports};
use causeway_engine::model::{Failure, Identity};
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};

use super::cache::Cache;
use super::change::WorkMeta;
use super::connection::Connection;
use crate::connectivity::ConnectError;
use crate::karmada::{self, Work};
use crate::networking::is_by_node_ports;
use crate::snapshot::{Held, Snapshot};
use crate::status::members::{Holdings, Readings};

/// What all clusters hold.
pub(super) struct State {
    pub connection: Connection,
    pub hub_uid: Option<String>,
    pub karmada: bool,
    pub mcs: Cache<ServiceKey, MultiClusterService>,
    /// What those of them ask for that can be read.
    desired: HashMap<ServiceKey, domain::MultiClusterService>,
    /// Those whose providers clusters of other networks reach by ports of nodes.
    by_node_ports: BTreeSet<ServiceKey>,
    /// Whether the members whose Nodes are needed may have changed since the last look.
    pub node_needs_changed: bool,
    pub services: Cache<ServiceKey, Service>,
    pub clusters: Cache<String, Cluster>,
    /// The same as a list, which all snapshots share.
    all_clusters: Arc<Vec<Cluster>>,
    pub imports: Cache<ServiceKey, ServiceImport>,
    /// `None` where the person may not see them.
    pub works: Option<Cache<ServiceKey, WorkMeta>>,
    pub members: BTreeMap<String, MemberView>,
}

/// What a member holds.
pub(super) struct MemberView {
    pub engagement: u64,
    pub connection: Connection,
    /// Why it cannot be read, while it cannot.
    pub failure: ConnectError,
    pub identity: Identity,
    pub exports_served: Option<Version>,
    pub imports_served: Option<Version>,
    pub namespaces: Cache<String, Namespace>,
    pub services: Cache<ServiceKey, Service>,
    /// By the Service that they are labelled with.
    pub slices: Cache<ServiceKey, EndpointSlice>,
    pub exports: Cache<ServiceKey, ServiceExport>,
    /// Those by which clusters of other networks reach it by ports of nodes.
    by_node_ports: BTreeSet<ServiceKey>,
    pub imports: Cache<ServiceKey, ServiceImport>,
    pub nodes: Cache<String, Node>,
    /// Whether the Nodes were read, or why they cannot be; `None` where they are not needed.
    pub nodes_read: Option<Result<(), Failure>>,
}

fn key_of<K: Resource>(object: &K) -> Option<ServiceKey> {
    let meta = object.meta();
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    Some(ServiceKey::new(namespace, name))
}

fn name_of<K: Resource>(object: &K) -> Option<String> {
    object.meta().name.clone()
}

fn service_of(slice: &EndpointSlice) -> Option<ServiceKey> {
    let service = slice.labels().get(labels::SERVICE_NAME)?;
    let namespace = slice.metadata.namespace.as_deref()?;
    Some(ServiceKey::new(namespace, service.as_str()))
}

/// Notes which of the changed objects name ports of nodes as the way to providers; whether one does, or did.
fn note_reach<K: Resource>(
    by_node_ports: &mut BTreeSet<ServiceKey>,
    objects: &Cache<ServiceKey, K>,
    changed: &BTreeSet<ServiceKey>,
) -> bool {
    let mut concerned = false;
    for key in changed {
        concerned |= match objects.of(key).any(is_by_node_ports) {
            true => {
                by_node_ports.insert(key.clone());
                true
            }
            false => by_node_ports.remove(key),
        };
    }
    concerned
}

/// Works by the service that they belong to; others may be anybody's.
pub(super) fn works() -> Cache<ServiceKey, WorkMeta> {
    Cache::new(|work| {
        let work = Work(work.metadata.clone());
        work.service().filter(|_| karmada::is_executed(&work))
    })
}

impl State {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Self {
            connection: Connection::default(),
            hub_uid: None,
            karmada: false,
            mcs: Cache::new(key_of),
            desired: HashMap::new(),
            by_node_ports: BTreeSet::new(),
            node_needs_changed: false,
            services: Cache::new(key_of),
            clusters: Cache::new(name_of),
            all_clusters: Arc::default(),
            imports: Cache::new(key_of),
            works: Some(works()),
            members: BTreeMap::new(),
        }
    }

    /// Applies what happened to MultiClusterServices; the services that changed.
    pub(super) fn apply_mcs(&mut self, event: Event<MultiClusterService>) -> BTreeSet<ServiceKey> {
        let changed = self.mcs.apply(event);
        for key in &changed {
            let mcs = self.mcs.of(key).next();
            match mcs.and_then(|mcs| domain::MultiClusterService::try_from(mcs).ok()) {
                Some(desired) => self.desired.insert(key.clone(), desired),
                None => self.desired.remove(key),
            };
        }
        self.node_needs_changed |= note_reach(&mut self.by_node_ports, &self.mcs, &changed);
        changed
    }

    /// Applies what happened to Clusters; those that changed.
    pub(super) fn apply_clusters(&mut self, event: Event<Cluster>) -> BTreeSet<String> {
        let changed = self.clusters.apply(event);
        if !changed.is_empty() {
            self.node_needs_changed = true;
            self.all_clusters = Arc::new(self.clusters.all().cloned().collect());
        }
        changed
    }

    /// Whether the Nodes of a member are to be read: its Cluster, a MultiClusterService that it provides, or one of its exports names
    /// ports of nodes as the way to it.
    pub(super) fn needs_nodes(&self, name: &str) -> bool {
        let provides = |key: &ServiceKey| {
            let desired = self.desired.get(key);
            let name = ClusterName::try_from(name).ok();
            desired
                .zip(name)
                .is_some_and(|(desired, name)| desired.providers.includes(&name))
        };
        let key = name.to_owned();
        self.clusters.of(&key).any(is_by_node_ports)
            || self.by_node_ports.iter().any(provides)
            || self
                .members
                .get(name)
                .is_some_and(|member| !member.by_node_ports.is_empty())
    }

    /// Whether something exposes the service: a MultiClusterService, or what a member exports or imports.
    pub(super) fn exposes(&self, key: &ServiceKey) -> bool {
        self.mcs.has(key) || self.is_exported(key)
    }

    /// Whether a member exports or imports the service.
    pub(super) fn is_exported(&self, key: &ServiceKey) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.exports.has(key) || member.imports.has(key))
    }

    /// Every service that something exposes.
    pub(super) fn exposed(&self) -> BTreeSet<ServiceKey> {
        let members = self.members.values();
        let exported =
            members.flat_map(|member| member.exports.keys().chain(member.imports.keys()));
        self.mcs.keys().chain(exported).cloned().collect()
    }

    /// The services whose report may change with the Service of that name: its own, the imported one
    /// that it stands for, and the one that it is the companion of.
    pub(super) fn concerned(&self, service: ServiceKey) -> Vec<ServiceKey> {
        let derived_from = match service.is_cut() {
            true => {
                let mut exposed = self.exposed().into_iter();
                exposed.find(|key| key.derived() == service)
            }
            false => service.underived(),
        };
        let entered = match service.name.len() == LABEL {
            true => {
                let mut exposed = self.exposed().into_iter();
                exposed.find(|key| key.companion() == service)
            }
            false => service.entered(),
        };
        let all = derived_from.into_iter().chain(entered).chain([service]);
        all.collect()
    }

    /// What the clusters that take part in a service hold of it.
    pub(super) fn snapshot(&self, key: &ServiceKey) -> Snapshot {
        let works = self.works.as_ref().map(|works| {
            let works = works.of(key).map(|work| Work(work.metadata.clone()));
            works.collect()
        });
        let part = self.part_in(key);
        let members = self
            .read()
            .filter(|(name, _)| part.is_of(name, &self.members))
            .map(|(name, member)| (name.clone(), member.map(|member| member.held(key))));
        Snapshot {
            key: key.clone(),
            hub_uid: self.hub_uid.clone(),
            mcs: self.mcs.of(key).next().cloned(),
            service: self.services.of(key).next().cloned(),
            derived: self.services.of(&key.derived()).next().cloned(),
            imports: self.imports.of(key).map(|_| key.clone()).collect(),
            clusters: self.all_clusters.clone(),
            works,
            unapplied: None,
            members: members.collect(),
        }
    }

    /// Whether one of these members takes part in a service.
    pub(super) fn takes_part(&self, key: &ServiceKey, members: &BTreeSet<String>) -> bool {
        let part = self.part_in(key);
        let mut members = members.iter();
        members.any(|name| part.is_of(name, &self.members))
    }

    /// Who takes part in a service: of what is exported, every member.
    fn part_in(&self, key: &ServiceKey) -> Part<'_> {
        let desired = self.desired.get(key);
        Part {
            services: [key.clone(), key.derived(), key.companion()],
            desired: desired.filter(|_| !self.is_exported(key)),
        }
    }

    /// What the members export and import of one service.
    pub(super) fn readings(&self, key: &ServiceKey) -> Readings {
        let readings = self.read().map(|(name, member)| {
            let held = member.map(|member| Holdings {
                exports: member.exports.of(key).cloned().collect(),
                imports: member.imports.of(key).cloned().collect(),
                ..Holdings::default()
            });
            (name.clone(), held)
        });
        readings.collect()
    }

    /// The members that the hub reaches; one that cannot be read with the reason.
    fn read(&self) -> impl Iterator<Item = (&String, Result<&MemberView, ConnectError>)> {
        self.members.iter().map(|(name, member)| {
            let is_read = member.connection.row().connected;
            let member = match is_read {
                true => Ok(member),
                false => Err(member.failure.clone()),
            };
            (name, member)
        })
    }
}

/// Who takes part in a service.
struct Part<'a> {
    /// The Service of its name, the one that stands for the imported one, and the companion.
    services: [ServiceKey; 3],
    /// What names its providers and consumers; every member takes part without it.
    desired: Option<&'a domain::MultiClusterService>,
}

impl Part<'_> {
    /// Whether that member does: it is named, or holds something of the service.
    fn is_of(&self, name: &str, members: &BTreeMap<String, MemberView>) -> bool {
        let Some(desired) = self.desired else {
            return true;
        };
        let named = ClusterName::try_from(name).is_ok_and(|name| {
            desired.providers.includes(&name) || desired.consumers.includes(&name)
        });
        named
            || members
                .get(name)
                .is_some_and(|member| member.holds(&self.services))
    }
}

impl MemberView {
    /// A member of which nothing is known.
    pub(super) fn new(engagement: u64) -> Self {
        Self {
            engagement,
            connection: Connection::default(),
            failure: ConnectError::Failed("it is being read for the first time".to_owned()),
            identity: Identity {
                uid: String::new(),
                version: String::new(),
                release: KubernetesVersion::default(),
            },
            exports_served: None,
            imports_served: None,
            namespaces: Cache::new(name_of),
            services: Cache::new(key_of),
            slices: Cache::new(service_of),
            exports: Cache::new(key_of),
            by_node_ports: BTreeSet::new(),
            imports: Cache::new(key_of),
            nodes: Cache::new(name_of),
            nodes_read: None,
        }
    }

    /// Notes the exports that changed; whether one names, or named, ports of nodes as the way to the member.
    pub(super) fn note_exports(&mut self, changed: &BTreeSet<ServiceKey>) -> bool {
        note_reach(&mut self.by_node_ports, &self.exports, changed)
    }

    /// Forgets its Nodes, which are not needed any more.
    pub(super) fn forget_nodes(&mut self) {
        self.nodes.replace(Vec::new());
        self.nodes_read = None;
    }

    /// Whether it has one of these Services, or slices of one.
    fn holds(&self, services: &[ServiceKey]) -> bool {
        let mut services = services.iter();
        services.any(|key| self.services.has(key) || self.slices.has(key))
    }

    fn held(&self, key: &ServiceKey) -> Held {
        let derived = key.derived();
        let companion = key.companion();
        let services = self.services.of(key).chain(self.services.of(&derived));
        let services = services.chain(self.services.of(&companion));
        let nodes = self.nodes_read.clone();
        let slices = self.slices.of(key).chain(self.slices.of(&derived));
        let namespace = String::from(&*key.namespace);
        Held {
            identity: self.identity.clone(),
            served: Served {
                exports: self.exports_served,
                export_clusters: false,
                imports: self.imports_served.map(|version| ServedImports {
                    version,
                    fields: ImportFields::ALL,
                }),
            },
            namespace: self.namespaces.of(&namespace).next().cloned(),
            services: services.cloned().collect(),
            slices: slices.cloned().collect(),
            exports: self.exports.of(key).cloned().collect(),
            imports: self.imports.of(key).cloned().collect(),
            nodes: nodes.map(|read| read.map(|()| self.nodes.all().cloned().collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::fixtures::{cross, export, service, synced};
    use crate::ui::applied::apply;
    use crate::ui::change::MemberChange;

    fn slice_of(service: &str) -> EndpointSlice {
        let labels = json!({ "kubernetes.io/service-name": service });
        let metadata = json!({ "name": "foo-1", "namespace": "shop", "labels": labels });
        serde_json::from_value(json!({
            "metadata": metadata, "addressType": "IPv4", "endpoints": [],
        }))
        .expect("an EndpointSlice")
    }

    #[test]
    fn nodes_are_needed_where_a_cluster_a_service_or_an_export_says_so() {
        let reach = |reach: &str| Some([(labels::REACH.to_owned(), reach.to_owned())].into());
        let needs = |state: &mut State| {
            let changed = std::mem::take(&mut state.node_needs_changed);
            let names = ["a", "b", "c", "d"].into_iter();
            let names: Vec<_> = names.filter(|name| state.needs_nodes(name)).collect();
            changed.then(|| names.join(" "))
        };
        let mut state = State::new();
        for name in ["a", "b", "c", "d"] {
            state.members.insert(name.to_owned(), MemberView::new(1));
            state.apply_clusters(Event::Apply(synced(name)));
        }
        assert_eq!(needs(&mut state).as_deref(), Some(""));
        let mut cluster = synced("a");
        cluster.metadata.resource_version = Some("2".to_owned());
        cluster.metadata.annotations = reach("node-ports=external");
        state.apply_clusters(Event::Apply(cluster));
        let mut foo = service("foo", cross(&["b"], &["d"]), json!([]));
        state.apply_mcs(Event::Apply(foo.clone()));
        assert_eq!(needs(&mut state).as_deref(), Some("a"));
        foo.metadata.resource_version = Some("2".to_owned());
        foo.metadata.annotations = reach("node-ports");
        state.apply_mcs(Event::Apply(foo.clone()));
        assert_eq!(needs(&mut state).as_deref(), Some("a b"));
        let mut export = export("bar", json!([]));
        export.metadata.annotations = reach("node-ports");
        let member = state.members.get_mut("c").expect("a member");
        let applied = apply(member, MemberChange::Exports(Event::Apply(export)));
        assert!(applied.node_needs && state.needs_nodes("c"));
        state.apply_mcs(Event::Delete(foo));
        assert_eq!(needs(&mut state).as_deref(), Some("a c"));
        state.apply_mcs(Event::Apply(service(
            "foo",
            cross(&["b"], &["d"]),
            json!([]),
        )));
        assert_eq!(needs(&mut state), None);
    }

    #[test]
    fn who_is_named_or_holds_something_of_a_service_takes_part_and_in_an_exported_one_everybody() {
        let mut state = State::new();
        for name in ["a", "b", "c", "d"] {
            state.members.insert(name.to_owned(), MemberView::new(1));
        }
        let foo = service("foo", cross(&["a"], &["b"]), json!([]));
        state.apply_mcs(Event::Apply(foo));
        let key = ServiceKey::new("shop", "foo");
        let parts = |state: &State| {
            let names = ["a", "b", "c", "d"].into_iter();
            let takes_part = |name: &&str| state.takes_part(&key, &[(*name).to_owned()].into());
            names.filter(takes_part).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(parts(&state), "a b");
        let held = |state: &mut State, slice| {
            let member = state.members.get_mut("c").expect("a member");
            member.slices.apply(slice);
        };
        held(&mut state, Event::Apply(slice_of("bar")));
        assert_eq!(parts(&state), "a b");
        held(&mut state, Event::Apply(slice_of("foo")));
        assert_eq!(parts(&state), "a b c");
        let d = state.members.get_mut("d").expect("a member");
        d.exports.apply(Event::Apply(export("foo", json!([]))));
        assert_eq!(parts(&state), "a b c d");
    }
}
