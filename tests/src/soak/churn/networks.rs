//! Networks of Clusters, ways to reach them, and the nodes of members.

use std::collections::BTreeMap;
use std::fmt::Debug;

use causeway::api::{Cluster as ClusterObject, labels};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Churn, EXPORTED, NAMESPACES, NATIVE, Place};
use crate::soak::random::Random;
use crate::write::{merge, merge_status};
use crate::{Cluster, Fleet, node};

/// Network of a Cluster: the value of its annotation, if it has one.
pub type Network = Option<&'static str>;

/// Ways to reach a Cluster. No load balancer leads to pods of its own cluster alone, so that one
/// leads nowhere.
const WAYS: [Option<&str>; 5] = [
    Some("node-ports"),
    Some("cluster-ip"),
    Some("node-ports"),
    Some("load-balancer"),
    None,
];
/// Ways that a service asks for. A load balancer of its own would never get an address.
const WAYS_OF_SERVICES: [Option<&str>; 3] = [Some("node-ports"), Some("cluster-ip"), None];
/// Maximum number of nodes that a member gets and loses.
const NODES: usize = 2;

/// Networks of the members, and nodes beside the one that every member has.
#[derive(Default)]
pub(super) struct Networks {
    members: BTreeMap<&'static str, Located>,
    nodes: BTreeMap<&'static str, Vec<String>>,
    made: usize,
}

/// Annotations of a Cluster.
struct Located {
    /// Networks that the Cluster is in at one time or another.
    networks: &'static [Network],
    network: Network,
    way: Option<&'static str>,
}

impl Churn {
    /// From now on Clusters change their networks among these, beginning with the first, and the
    /// ways to reach them. Services ask for ways, and nodes come and go.
    #[must_use]
    pub fn with_networks<const N: usize>(
        mut self,
        members: [(&'static str, &'static [Network]); N],
    ) -> Self {
        let located = members.into_iter().zip(WAYS.iter().cycle());
        let located = located.map(|((name, networks), way)| {
            let network = networks[0];
            let way = *way;
            (
                name,
                Located {
                    networks,
                    network,
                    way,
                },
            )
        });
        self.networks = Some(Networks {
            members: located.collect(),
            ..Networks::default()
        });
        self
    }

    /// Annotates the Cluster of a member that has joined. Returns whether it is there.
    pub async fn locate(&self, fleet: &Fleet, member: &str) -> bool {
        let located = self.networks.as_ref();
        let Some(located) = located.and_then(|networks| networks.members.get(member)) else {
            return false;
        };
        let annotations = json!({ labels::NETWORK: located.network, labels::REACH: located.way });
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        let clusters = Api::<ClusterObject>::all(fleet.hub().client());
        let params = PatchParams::default();
        match clusters.patch(member, &params, &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(e) => panic!("cannot annotate the Cluster {member}: {e}"),
            Ok(_) => true,
        }
    }

    /// Changes the network of a Cluster, the way to reach it, or its nodes.
    pub(super) async fn network(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let member = *random.of(&self.members);
        match random.below(6) {
            0 => self.relocate(fleet, member, random).await,
            1 | 2 => self.reroute(fleet, member, random).await,
            3 => self.add_node(fleet.member(member), member).await,
            4 => self.remove_node(fleet.member(member), member, random).await,
            _ => {
                self.unsettle_node(fleet.member(member), member, random)
                    .await
            }
        }
    }

    fn located(&mut self, member: &str) -> Option<&mut Located> {
        self.networks.as_mut()?.members.get_mut(member)
    }

    async fn relocate(
        &mut self,
        fleet: &Fleet,
        member: &'static str,
        random: &mut Random,
    ) -> String {
        let Some(located) = self.located(member) else {
            return "nothing".to_owned();
        };
        let (before, after) = (located.network, *random.of(located.networks));
        located.network = after;
        if before == after || !self.locate(fleet, member).await {
            return "nothing".to_owned();
        }
        self.touch_all();
        // Members that stay are of the network without a name.
        if before.is_none() || after.is_none() {
            self.relocated.insert(member);
        }
        format!("{member} is of network {after:?}")
    }

    async fn reroute(
        &mut self,
        fleet: &Fleet,
        member: &'static str,
        random: &mut Random,
    ) -> String {
        let Some(located) = self.located(member) else {
            return "nothing".to_owned();
        };
        let way = *random.of(&WAYS);
        located.way = way;
        if !self.locate(fleet, member).await {
            return "nothing".to_owned();
        }
        self.touch_all();
        format!("{member} is reached by {way:?}")
    }

    async fn add_node(&mut self, cluster: &Cluster, member: &'static str) -> String {
        let Some(networks) = &mut self.networks else {
            return "nothing".to_owned();
        };
        let nodes = networks.nodes.entry(member).or_default();
        if nodes.len() >= NODES {
            return "nothing".to_owned();
        }
        networks.made += 1;
        let name = format!("{member}-more-{}", networks.made);
        nodes.push(name.clone());
        node(&name).zone(&cluster.zone()).create(cluster).await;
        self.touch_opened(member);
        format!("{member} has a node {name}")
    }

    /// Removes a node with its pods. No controller ends them here.
    async fn remove_node(
        &mut self,
        cluster: &Cluster,
        member: &'static str,
        random: &mut Random,
    ) -> String {
        let Some(name) = self.node(member, random) else {
            return "nothing".to_owned();
        };
        self.touch_behind(member, &name);
        let networks = self.networks.iter_mut();
        for nodes in networks.filter_map(|networks| networks.nodes.get_mut(member)) {
            nodes.retain(|known| *known != name);
        }
        let is_first = random.once_in(2);
        let api = Api::<Node>::all(cluster.client());
        let params = DeleteParams::default();
        let delete = async || {
            let deleted = api.delete(&name, &params).await;
            deleted.unwrap_or_else(|e| panic!("cannot delete node {name}: {e}"));
        };
        if is_first {
            delete().await;
        }
        let places = self.pods.iter_mut();
        for (_, pods) in places.filter(|((.., of), _)| *of == member) {
            for pod in pods.extract_if(.., |pod| pod.node() == name) {
                pod.delete().await;
            }
        }
        if !is_first {
            delete().await;
        }
        format!("{member} has lost the node {name}")
    }

    async fn unsettle_node(
        &mut self,
        cluster: &Cluster,
        member: &'static str,
        random: &mut Random,
    ) -> String {
        let Some(name) = self.node(member, random) else {
            return "nothing".to_owned();
        };
        self.touch_behind(member, &name);
        let status = if random.once_in(2) { "True" } else { "Unknown" };
        let conditions = json!([{ "type": "Ready", "status": status }]);
        let patch = json!({ "status": { "conditions": conditions } });
        let nodes = Api::<Node>::all(cluster.client());
        merge_status(&nodes, &name, patch).await;
        format!("node {name} is ready: {status}")
    }

    /// Chooses one of the nodes that a member gets and loses.
    pub(super) fn node(&self, member: &str, random: &mut Random) -> Option<String> {
        let nodes = self.networks.as_ref()?.nodes.get(member)?;
        (!nodes.is_empty()).then(|| random.of(nodes).clone())
    }

    fn touch_all(&mut self) {
        for namespace in NAMESPACES {
            for name in NATIVE.into_iter().chain(EXPORTED) {
                self.touch(namespace, name);
            }
        }
    }

    /// Touches the services with pods on a node, and those that every node leads to.
    fn touch_behind(&mut self, member: &str, node: &str) {
        let pods = self.pods.iter().filter(|((.., of), _)| *of == member);
        let on_node = pods.filter(|(_, pods)| pods.iter().any(|pod| pod.node() == node));
        self.touch_places(on_node.map(|(place, _)| *place).collect());
        self.touch_opened(member);
    }

    /// Touches the services that every node of a member leads to.
    fn touch_opened(&mut self, member: &str) {
        let exported = self.exported.iter();
        let opened = exported.filter(|((.., of), one)| *of == member && one.is_opened());
        self.touch_places(opened.map(|(place, _)| *place).collect());
    }

    fn touch_places(&mut self, places: Vec<Place>) {
        for (namespace, name, _) in places {
            self.touch(namespace, name);
        }
    }
}

/// Sets a random way in the annotations of a service, or removes it. Returns it in words.
pub(super) async fn reach<K>(api: &Api<K>, name: &str, random: &mut Random) -> String
where
    K: Clone + DeserializeOwned + Debug,
{
    let way = *random.of(&WAYS_OF_SERVICES);
    let annotations = json!({ labels::REACH: way });
    let patch = json!({ "metadata": { "annotations": annotations } });
    merge(api, name, patch).await;
    format!("asks for {way:?}")
}
