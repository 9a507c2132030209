//! Follows the hub and its members by watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::api::Cluster;
use causeway::target::is_tunnelled;
use kube::ResourceExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::fleet::{Change, Fleet, outlet};
use super::hub;
use super::member::{Engaged, Member, Settings};
use super::scope::Scope;
use super::touched::Touched;
use crate::cluster::api_server::ApiServer;

/// Capacity of the channel of pending changes. Further changes wait at the API servers.
const CHANGES: usize = 1024;
/// Maximum number of members that connect concurrently. The limit applies once to credentials on
/// the hub and once to kubeconfigs.
const CONNECTING: usize = 16;

/// Observed state and its watches. Dropping it ends the watches.
pub(crate) struct Follow {
    pub fleet: Fleet,
    settings: Settings,
    changes: mpsc::Sender<Change>,
    /// Relevant parts of all Clusters.
    known: BTreeMap<String, Cluster>,
    /// Followed members, with the Clusters that led to the connections.
    engaged: BTreeMap<String, (Cluster, Engaged)>,
    /// Number of the last engagement.
    last: u64,
    /// Whether the set of members with required Nodes may have changed since the last check.
    node_needs_changed: bool,
    hub: AbortHandle,
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.hub.abort();
    }
}

/// Changes of the observed state, as long as its [`Follow`] exists.
pub(crate) type Changes = mpsc::Receiver<Change>;

/// Follows the objects of a scope on the hub and in every member. The caller applies the returned
/// changes.
pub(crate) fn follow(hub: ApiServer, scope: Scope) -> (Follow, Changes) {
    let (changes, received) = mpsc::channel(CHANGES);
    let watches = hub::run(hub.clone(), scope.clone(), outlet(&changes, Change::Hub));
    let settings = Settings {
        hub,
        scope,
        connecting: Arc::new(Semaphore::new(CONNECTING)),
        by_kubeconfig: Arc::new(Semaphore::new(CONNECTING)),
    };
    let follow = Follow {
        fleet: Fleet::default(),
        settings,
        changes,
        known: BTreeMap::new(),
        engaged: BTreeMap::new(),
        last: 0,
        node_needs_changed: false,
        hub: tokio::spawn(watches).abort_handle(),
    };
    (follow, received)
}

impl Follow {
    /// Returns the hub's API server.
    pub(crate) fn server(&self) -> &ApiServer {
        &self.settings.hub
    }

    /// Applies a change. Starts and ends watches of members according to changed Clusters.
    pub(crate) fn apply(&mut self, change: Change) -> Touched {
        let mut touched = self.fleet.apply(change);
        for name in touched.clusters.clone() {
            touched.add(self.cluster_changed(&name));
        }
        self.node_needs_changed |= touched.node_needs || touched.all;
        touched
    }

    /// Starts, restarts or ends the watches of a changed Cluster's member. Returns the services of
    /// a dropped member, and whether others may depend on the change.
    fn cluster_changed(&mut self, name: &str) -> Touched {
        let cluster = self
            .fleet
            .hub
            .clusters
            .of(&name.to_owned())
            .next()
            .map(facts);
        let part = cluster.as_ref();
        let mut dropped = None;
        match part.filter(|one| self.settings.scope.takes_part(one)) {
            Some(cluster) => {
                let engaged = self.engaged.get(name);
                if !engaged.is_some_and(|(known, _)| leads_to_the_same(known, cluster)) {
                    let is_same = engaged.is_some_and(|(known, _)| known.uid() == cluster.uid());
                    self.last += 1;
                    let id = (Arc::from(name), self.last);
                    let change = move |apply| Change::Member(id.clone(), apply);
                    let outlet = outlet(&self.changes, change);
                    let engaged = Engaged::new(&self.settings, cluster, outlet);
                    self.engaged
                        .insert(name.to_owned(), (cluster.clone(), engaged));
                    let members = &mut self.fleet.members;
                    let member = match members.remove(name) {
                        Some(former) if is_same => former.engaged_again(self.last),
                        former => {
                            dropped = former;
                            Member::new(self.last)
                        }
                    };
                    members.insert(name.to_owned(), member);
                } else if let Some((_, engaged)) = engaged
                    && engaged.follow_paths(cluster.reports_paths())
                    && !cluster.reports_paths()
                    && let Some(member) = self.fleet.members.get_mut(name)
                {
                    member.drop_paths();
                }
            }
            None => {
                self.engaged.remove(name);
                dropped = self.fleet.members.remove(name);
            }
        }
        let known = match &cluster {
            Some(cluster) => self.known.insert(name.to_owned(), cluster.clone()),
            None => self.known.remove(name),
        };
        let exposed = dropped.iter().flat_map(Member::exposed);
        Touched {
            all: known != cluster,
            ..Touched::services(exposed.cloned().collect())
        }
    }

    /// Follows the Nodes of exactly those members whose Nodes are required.
    pub(crate) fn follow_needed_nodes(&mut self) {
        if !std::mem::take(&mut self.node_needs_changed) {
            return;
        }
        let need_nodes = self.fleet.need_nodes();
        for (name, member) in &mut self.fleet.members {
            let needed = need_nodes.contains(name);
            let engaged = self.engaged.get(name);
            if engaged.is_some_and(|(_, engaged)| engaged.follow_nodes(needed)) && !needed {
                member.drop_nodes();
            }
        }
    }
}

/// Returns the part of a Cluster that services depend on. Other parts change constantly.
fn facts(cluster: &Cluster) -> Cluster {
    let mut facts = cluster.clone();
    (facts.metadata.resource_version, facts.metadata.generation) = (None, None);
    if let Some(status) = &mut facts.status {
        status.kubernetes_version = None;
    }
    facts
}

/// Whether both Clusters lead to one member by equal settings.
fn leads_to_the_same(known: &Cluster, now: &Cluster) -> bool {
    let of = |cluster: &Cluster| {
        let spec = &cluster.spec;
        (
            cluster.uid(),
            spec.api_endpoint.clone(),
            spec.secret_ref.clone(),
            cluster.has_agent_credentials(),
            spec.insecure_skip_tls_verification,
            spec.proxy_url.clone(),
            spec.proxy_header.clone(),
            is_tunnelled(cluster),
        )
    };
    of(known) == of(now)
}

#[cfg(test)]
mod tests {
    use causeway::api::{SyncMode, labels};
    use causeway::domain::ServiceKey;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::super::hub::Hub;
    use super::*;
    use crate::cluster::access::Side;
    use crate::fixtures::{cluster, condition, export, import, synced, unreachable};

    #[tokio::test]
    async fn member_at_another_address_retains_its_exports_until_a_list() {
        let (mut follow, _changes) = follow(unreachable(Side::Hub), Scope::default());
        let mut joined = |uid: &str, address: &str| {
            let mut one = synced("a");
            one.metadata.uid = Some(uid.to_owned());
            one.metadata.resource_version = Some(format!("{uid} {address}"));
            one.spec.api_endpoint = Some(address.to_owned());
            let apply = move |hub: &mut Hub| hub::clusters(hub, Event::Apply(one));
            follow.apply(Change::Hub(Box::new(apply)));
            assert!(std::mem::take(&mut follow.node_needs_changed));
            let key = ServiceKey::new("shop", "foo");
            let a = follow.fleet.members.get_mut("a").expect("a member");
            let before = (a.engagement, a.exports.objects.has(&key));
            if a.engagement == 1 {
                a.exports.apply(Event::Apply(export("foo", json!([]))));
            }
            if a.engagement == 2 {
                a.exports.apply(Event::InitDone);
                assert!(!a.exports.objects.has(&key), "the list lacks it");
                a.exports.apply(Event::Apply(export("foo", json!([]))));
            }
            before
        };
        assert_eq!(joined("1", "https://here"), (1, false));
        assert_eq!(joined("1", "https://there"), (2, true));
        assert_eq!(joined("2", "https://there"), (3, false));
    }

    #[tokio::test]
    async fn dropped_member_touches_the_services_that_it_exposed() {
        let (mut follow, _changes) = follow(unreachable(Side::Hub), Scope::default());
        let joined = |uid: &str| {
            let mut one = synced("a");
            one.metadata.uid = Some(uid.to_owned());
            one.metadata.resource_version = Some(uid.to_owned());
            one
        };
        let mut in_pull_mode = joined("1");
        in_pull_mode.metadata.resource_version = Some("2".to_owned());
        in_pull_mode.spec.sync_mode = Some(SyncMode::Pull);
        let touches = |follow: &mut Follow, event: Event<Cluster>| {
            let apply = move |hub: &mut Hub| hub::clusters(hub, event);
            follow.apply(Change::Hub(Box::new(apply))).services
        };
        let keys = ["bar", "foo"].map(|name| ServiceKey::new("shop", name));
        for dropping in [
            Event::Delete(joined("1")),
            Event::Apply(in_pull_mode),
            Event::Apply(joined("2")),
        ] {
            assert!(touches(&mut follow, Event::Apply(joined("1"))).is_empty());
            let a = follow.fleet.members.get_mut("a").expect("a member");
            a.exports.apply(Event::Apply(export("foo", json!([]))));
            a.imports.apply(Event::Apply(import("bar", &[], &["a"])));
            assert_eq!(touches(&mut follow, dropping), keys.clone().into());
            assert!(!keys.iter().any(|key| follow.fleet.exposes(key)));
        }
    }

    #[test]
    fn services_depend_on_facts_and_not_on_versions_of_clusters() {
        let mut one = synced("a");
        let first = facts(&one);
        one.metadata.resource_version = Some("2".to_owned());
        assert_eq!(facts(&one), first);
        let refused = condition("Ready", "False", "Unreachable", "refused");
        let lost = cluster("a", json!([refused]));
        assert_ne!(facts(&lost), first);
        assert!(leads_to_the_same(&one, &lost));
        let mut elsewhere = one.clone();
        elsewhere.spec.api_endpoint = Some("https://elsewhere".to_owned());
        assert!(!leads_to_the_same(&elsewhere, &lost));
        let mut tunnelled = one.clone();
        let annotations = tunnelled.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::TUNNEL.to_owned(), "true".to_owned());
        assert!(!leads_to_the_same(&tunnelled, &lost));
        let header = json!({ "X-Tenant": "shop" });
        one.spec.proxy_header = serde_json::from_value(header).expect("a header");
        assert!(!leads_to_the_same(&one, &lost));
    }
}
