//! Objects of hub and members as the watches report them, and the part that belongs to one service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use causeway::api::bounds::LABEL;
use causeway::domain::{self, ClusterName, ServiceKey};
use causeway_engine::model::HubNamespace;
use tokio::sync::mpsc;

use super::connect::ConnectError;
use super::hub::Hub;
use super::member::Member;
use super::reader::{Apply, Outlet};
use super::service::{HubImports, HubNamespaces, Readings, Snapshot};
use super::touched::Touched;
use crate::cluster::karmada::Work;
use crate::observe::networking::{by_node_ports, is_by_node_ports};

/// Observed state of the hub and of all members.
#[derive(Default)]
pub(crate) struct Fleet {
    pub hub: Hub,
    pub members: BTreeMap<String, Member>,
}

/// Change of the observed state, applied by its owner.
pub(crate) enum Change {
    Hub(Apply<Hub>),
    /// Change of a member, identified by its name and engagement number.
    Member((Arc<str>, u64), Apply<Member>),
}

/// Returns the outlet of a part into the channel of all. The receiver is gone only at the end of
/// the command.
pub(super) fn outlet<V: 'static>(
    changes: &mpsc::Sender<Change>,
    change: impl Fn(Apply<V>) -> Change + Send + Sync + 'static,
) -> Outlet<V> {
    let changes = changes.clone();
    Arc::new(move |apply| {
        let (changes, change) = (changes.clone(), change(apply));
        Box::pin(async move {
            changes.send(change).await.ok();
        })
    })
}

impl Fleet {
    /// Applies a change. Ignores a change from a replaced connection of a member.
    pub(super) fn apply(&mut self, change: Change) -> Touched {
        let (name, engagement, apply) = match change {
            Change::Hub(apply) => return apply(&mut self.hub),
            Change::Member((name, engagement), apply) => (name, engagement, apply),
        };
        let member = self.members.get_mut(&*name);
        match member.filter(|member| member.engagement == engagement) {
            Some(member) => Touched {
                member: Some(name.to_string()),
                ..apply(member)
            },
            None => Touched::default(),
        }
    }

    /// Returns the members whose Nodes are required: their Cluster, a MultiClusterService that they
    /// provide, or one of their exports selects node ports.
    pub(super) fn need_nodes(&self) -> BTreeSet<String> {
        let hub = &self.hub;
        let services = by_node_ports(&hub.mcs, &hub.namespaces);
        let services: Vec<_> = services.filter_map(|key| hub.desired.get(key)).collect();
        let provides = |name: &str| {
            let name = ClusterName::try_from(name);
            let mut services = services.iter();
            name.is_ok_and(|name| services.any(|desired| desired.providers.includes(&name)))
        };
        let members = self.members.iter().filter(|(name, member)| {
            hub.clusters.of(name).any(is_by_node_ports)
                || provides(name)
                || member.exports_by_node_ports()
        });
        members.map(|(name, _)| name.clone()).collect()
    }

    /// Whether the service has an exposure: a MultiClusterService, an export or an import.
    pub(crate) fn exposes(&self, key: &ServiceKey) -> bool {
        self.hub.mcs.has(key) || self.is_exported(key)
    }

    /// Whether a member exports or imports the service.
    pub(crate) fn is_exported(&self, key: &ServiceKey) -> bool {
        let mut members = self.members.values();
        members.any(|member| member.exposes(key))
    }

    /// Returns every service that has an exposure.
    pub(crate) fn exposed(&self) -> BTreeSet<ServiceKey> {
        let members = self.members.values();
        let exported = members.flat_map(Member::exposed);
        self.hub.mcs.keys().chain(exported).cloned().collect()
    }

    /// Returns the services whose report depends on the given Service: the service of its name, the
    /// imported service that it is derived from, and the service that it is the companion of.
    pub(crate) fn concerned(&self, service: ServiceKey) -> Vec<ServiceKey> {
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

    /// Returns the objects of a service in the participating clusters.
    pub(crate) fn snapshot(&self, key: &ServiceKey) -> Snapshot {
        let works = (!self.hub.works_unread).then(|| {
            let works = self.hub.works.of(key);
            works.map(|work| Work(work.metadata.clone())).collect()
        });
        let part = self.part_in(key);
        let members = self
            .read()
            .filter(|(name, _)| part.is_of(name, &self.members))
            .map(|(name, member)| (name.clone(), member.and_then(|member| member.held(key))));
        let snapshot = Snapshot {
            key: key.clone(),
            hub_uid: self.hub.uid.clone(),
            mcs: self.hub.mcs.of(key).next().cloned(),
            service: self.hub.services.of(key).next().cloned(),
            derived: self.hub.services.of(&key.derived()).next().cloned(),
            imports: self.imports(key),
            namespaces: self.namespaces(key),
            clusters: self.hub.all_clusters.clone(),
            works,
            unapplied: None,
            names: self.hub.name_lists(key),
            members: BTreeMap::new(),
        };
        snapshot.with_members(members.collect())
    }

    /// Returns the ServiceImports of a service on the hub.
    fn imports(&self, key: &ServiceKey) -> HubImports {
        let imports = &self.hub.imports;
        match imports.refusal() {
            Some(why) => Err(why.clone()),
            None => Ok(imports.objects.of(key).map(|_| key.clone()).collect()),
        }
    }

    /// Returns the Namespace of a service on the hub.
    fn namespaces(&self, key: &ServiceKey) -> HubNamespaces {
        match &self.hub.namespaces_unread {
            Some(why) => Err(why.clone()),
            None => {
                let name = key.namespace.to_string();
                let all = self.hub.namespaces.of(&name);
                Ok(all.cloned().map(HubNamespace::read).collect())
            }
        }
    }

    /// Whether one of `members` takes part in a service.
    pub(crate) fn takes_part(&self, key: &ServiceKey, members: &BTreeSet<String>) -> bool {
        let part = self.part_in(key);
        let mut members = members.iter();
        members.any(|name| part.is_of(name, &self.members))
    }

    /// Returns the rule of participation in a service. Every member takes part in an exported one.
    fn part_in(&self, key: &ServiceKey) -> Part<'_> {
        let desired = self.hub.desired.get(key);
        Part {
            services: [key.clone(), key.derived(), key.companion()],
            desired: desired.filter(|_| !self.is_exported(key)),
        }
    }

    /// Returns the exports and imports of one service in each member.
    pub(crate) fn readings(&self, key: &ServiceKey) -> Readings {
        let readings = self.read().map(|(name, member)| {
            let held = member.and_then(|member| member.exported(key));
            (name.clone(), held)
        });
        readings.collect()
    }

    /// Adds the last observed exports and imports of unread members to [`Fleet::readings`]. Returns
    /// also the error of each unread member that had any.
    pub(crate) fn last_readings(
        &self,
        key: &ServiceKey,
        mut readings: Readings,
    ) -> (Readings, BTreeMap<String, ConnectError>) {
        let mut lost = BTreeMap::new();
        for (name, member) in &self.members {
            if !member.exposes(key) {
                continue;
            }
            let last = Ok(member.last_exported(key));
            if let Some(Err(why)) = readings.insert(name.clone(), last) {
                lost.insert(name.clone(), why);
            }
        }
        (readings, lost)
    }

    /// Returns each member, or the error of its connection.
    fn read(&self) -> impl Iterator<Item = (&String, Result<&Member, ConnectError>)> {
        self.members.iter().map(|(name, member)| {
            let is_read = member.link.row().connected;
            let member = match is_read {
                true => Ok(member),
                false => Err(member.failure.clone()),
            };
            (name, member)
        })
    }
}

/// Rule of participation in a service.
struct Part<'a> {
    /// Keys of the Service, the derived Service and the companion.
    services: [ServiceKey; 3],
    /// Valid MultiClusterService. Every member takes part if absent.
    desired: Option<&'a domain::MultiClusterService>,
}

impl Part<'_> {
    /// Whether a member takes part: the MultiClusterService names it, or it holds a Service or
    /// slice of the service.
    fn is_of(&self, name: &str, members: &BTreeMap<String, Member>) -> bool {
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

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use kube::runtime::watcher::Event;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cross, export, service, synced};
    use crate::observe::fixtures::from;
    use crate::observe::{hub, member};

    fn slice_of(service: &str) -> EndpointSlice {
        let labels = json!({ "kubernetes.io/service-name": service });
        let metadata = json!({ "name": "foo-1", "namespace": "shop", "labels": labels });
        from(json!({ "metadata": metadata, "addressType": "IPv4", "endpoints": [] }))
    }

    fn namespace<K: DeserializeOwned>(
        version: &str,
        annotations: Option<BTreeMap<String, String>>,
    ) -> Event<K> {
        let metadata = json!({
            "name": "shop", "resourceVersion": version, "annotations": annotations,
        });
        Event::Apply(from(json!({ "metadata": metadata })))
    }

    #[test]
    fn nodes_are_needed_where_an_object_names_node_ports() {
        let reach = |reach: &str| Some([(labels::REACH.to_owned(), reach.to_owned())].into());
        let needs = |state: &Fleet, touched: Touched| {
            assert!(touched.node_needs);
            Vec::from_iter(state.need_nodes()).join(" ")
        };
        let exports = |state: &mut Fleet, name: &str, export| {
            let member = state.members.get_mut(name).expect("a member");
            member.exports.apply(Event::Apply(export))
        };
        let mut state = Fleet::default();
        for name in ["a", "b", "c", "d"] {
            state.members.insert(name.to_owned(), Member::new(1));
            hub::clusters(&mut state.hub, Event::Apply(synced(name)));
        }
        assert!(state.need_nodes().is_empty());
        let mut cluster = synced("a");
        cluster.metadata.resource_version = Some("2".to_owned());
        cluster.metadata.annotations = reach("node-ports=external");
        hub::clusters(&mut state.hub, Event::Apply(cluster));
        let plain = service("foo", cross(&["b"], &["d"]), json!([]));
        let mut foo = plain.clone();
        foo.metadata.resource_version = Some("2".to_owned());
        foo.metadata.annotations = reach("node-ports");
        for (event, needed) in [
            (Event::Apply(plain.clone()), "a"),
            (Event::Apply(foo.clone()), "a b"),
            (Event::Delete(foo), "a"),
            (Event::Apply(plain), "a"),
        ] {
            let touched = hub::multi_cluster_services(&mut state.hub, event);
            assert_eq!(needs(&state, touched), needed);
        }
        let mut bar = export("bar", json!([]));
        bar.metadata.annotations = reach("node-ports");
        let touched = exports(&mut state, "c", bar);
        assert_eq!(needs(&state, touched), "a c");
        let touched = hub::namespaces(&mut state.hub, namespace("1", reach("node-ports")));
        assert!(touched.services.contains(&ServiceKey::new("shop", "foo")));
        assert_eq!(needs(&state, touched), "a b c");
        let mut own = export("baz", json!([]));
        own.metadata.annotations = reach("cluster-ip");
        exports(&mut state, "d", own);
        let in_member = |state: &mut Fleet, version: &str, reach| {
            let member = state.members.get_mut("d").expect("a member");
            member::namespaces(member, namespace(version, reach))
        };
        let touched = in_member(&mut state, "1", reach("node-ports"));
        assert_eq!(needs(&state, touched), "a b c", "the export has its own");
        let touched = exports(&mut state, "d", export("qux", json!([])));
        assert_eq!(needs(&state, touched), "a b c d");
        let touched = in_member(&mut state, "2", None);
        assert_eq!(needs(&state, touched), "a b c");
        let touched = in_member(&mut state, "3", reach("node-ports"));
        assert_eq!(needs(&state, touched), "a b c d");
    }

    #[test]
    fn named_and_holding_members_take_part_and_all_in_an_export() {
        let mut state = Fleet::default();
        for name in ["a", "b", "c", "d"] {
            state.members.insert(name.to_owned(), Member::new(1));
        }
        let foo = service("foo", cross(&["a"], &["b"]), json!([]));
        hub::multi_cluster_services(&mut state.hub, Event::Apply(foo));
        let key = ServiceKey::new("shop", "foo");
        let parts = |state: &Fleet| {
            let names = ["a", "b", "c", "d"].into_iter();
            let takes_part = |name: &&str| state.takes_part(&key, &[(*name).to_owned()].into());
            names.filter(takes_part).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(parts(&state), "a b");
        let held = |state: &mut Fleet, slice| {
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

    #[test]
    fn change_of_a_replaced_connection_is_passed_over() {
        let mut fleet = Fleet::default();
        fleet.members.insert("a".to_owned(), Member::new(2));
        let exported = |engagement| {
            let apply = |member: &mut Member| {
                let foo = export("foo", json!([]));
                member.exports.apply(Event::Apply(foo))
            };
            Change::Member(("a".into(), engagement), Box::new(apply))
        };
        assert_eq!(fleet.apply(exported(1)).member, None);
        let key = ServiceKey::new("shop", "foo");
        assert!(!fleet.exposes(&key));
        let touched = fleet.apply(exported(2));
        assert_eq!(touched.member.as_deref(), Some("a"));
        assert!(touched.services.contains(&key) && fleet.exposes(&key));
    }
}
