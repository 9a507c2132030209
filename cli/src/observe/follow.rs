//! Follows the hub and its members by watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::api::{Cluster, ClusterSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::fleet::{Fleet, Touched};
use super::hub;
use super::member::{Engaged, Member, Settings};
use super::reader::Change;
use super::scope::Scope;
use crate::api_server::ApiServer;

/// Changes that wait until they are applied; more wait at their API servers.
const CHANGES: usize = 1024;
/// Members that connect at one time.
const CONNECTING: usize = 16;

/// The observed state, and the watches that change it. They end when this is dropped.
pub(crate) struct Follow {
    pub fleet: Fleet,
    settings: Settings,
    engagements: Engagements,
    hub: AbortHandle,
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.hub.abort();
    }
}

/// Follows the objects of a scope on the hub and in every member. Returns the changes, which the
/// caller applies.
pub(crate) fn follow(hub: ApiServer, scope: Scope) -> (Follow, mpsc::Receiver<Change>) {
    let (changes, received) = mpsc::channel(CHANGES);
    let watches = tokio::spawn(hub::run(hub.clone(), scope.clone(), changes.clone()));
    let settings = Settings {
        hub,
        scope,
        changes,
        connecting: Arc::new(Semaphore::new(CONNECTING)),
    };
    let follow = Follow {
        fleet: Fleet::default(),
        settings,
        engagements: Engagements::default(),
        hub: watches.abort_handle(),
    };
    (follow, received)
}

impl Follow {
    /// Returns the hub's API server.
    pub(crate) fn server(&self) -> &ApiServer {
        &self.settings.hub
    }

    /// Applies a change, and follows the members as their Clusters are now.
    pub(crate) fn apply(&mut self, change: Change) -> Touched {
        let mut touched = change.apply(&mut self.fleet);
        self.fleet.node_needs_changed |= touched.node_needs;
        for name in &touched.clusters {
            touched.all |= self.cluster_changed(name);
        }
        touched
    }

    /// Follows the member of a Cluster that came, changed or went. Returns whether services may have
    /// changed with it.
    fn cluster_changed(&mut self, name: &String) -> bool {
        let cluster = self.fleet.hub.clusters.of(name).next();
        let changed = self.engagements.note(name, cluster.map(Facts::of));
        match cluster.filter(|one| self.settings.scope.takes_part(one)) {
            Some(cluster) => {
                if let Some(engagement) = self.engagements.engage(&self.settings, cluster) {
                    let member = Member::new(engagement);
                    self.fleet.members.insert(name.clone(), member);
                }
            }
            None => {
                self.engagements.engaged.remove(name);
                self.fleet.members.remove(name);
            }
        }
        changed
    }

    /// Follows the Nodes of the members whose Nodes are needed, and of no others.
    pub(crate) fn follow_needed_nodes(&mut self) {
        if !std::mem::take(&mut self.fleet.node_needs_changed) {
            return;
        }
        let names: Vec<_> = self.fleet.members.keys().cloned().collect();
        for name in names {
            let needed = self.fleet.needs_nodes(&name);
            let engaged = self.engagements.engaged.get(&name);
            if engaged.is_some_and(|(_, engaged)| engaged.follow_nodes(needed))
                && !needed
                && let Some(member) = self.fleet.members.get_mut(&name)
            {
                member.drop_nodes();
            }
        }
    }
}

/// The part of a Cluster that services depend on. Others write the rest all the time.
#[derive(Clone, Debug, PartialEq)]
struct Facts {
    uid: Option<String>,
    spec: ClusterSpec,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    is_terminating: bool,
    conditions: Vec<Condition>,
}

impl Facts {
    fn of(cluster: &Cluster) -> Self {
        let status = cluster.status.as_ref();
        Self {
            uid: cluster.uid(),
            spec: cluster.spec.clone(),
            labels: cluster.labels().clone(),
            annotations: cluster.annotations().clone(),
            is_terminating: cluster.metadata.deletion_timestamp.is_some(),
            conditions: status.map(|one| one.conditions.clone()).unwrap_or_default(),
        }
    }
}

/// The followed members.
#[derive(Debug, Default)]
struct Engagements {
    facts: BTreeMap<String, Facts>,
    engaged: BTreeMap<String, (Facts, Engaged)>,
    last: u64,
}

impl Engagements {
    /// Records the facts of a Cluster, `None` of one that is gone. Returns whether services may
    /// change with it.
    fn note(&mut self, name: &str, facts: Option<Facts>) -> bool {
        let last = match &facts {
            Some(facts) => self.facts.insert(name.to_owned(), facts.clone()),
            None => self.facts.remove(name),
        };
        last != facts
    }

    /// Follows the member of a Cluster. Returns the number of the engagement if it is a new one.
    fn engage(&mut self, settings: &Settings, cluster: &Cluster) -> Option<u64> {
        let (name, facts) = (cluster.name_any(), Facts::of(cluster));
        if let Some((known, _)) = self.engaged.get(&name)
            && leads_to_the_same(known, &facts)
        {
            return None;
        }
        self.last += 1;
        let engaged = Engaged::new(settings, cluster, self.last);
        self.engaged.insert(name, (facts, engaged));
        Some(self.last)
    }
}

/// Whether both lead to the same member in the same way.
fn leads_to_the_same(known: &Facts, now: &Facts) -> bool {
    let of = |facts: &Facts| {
        let spec = &facts.spec;
        (
            facts.uid.clone(),
            spec.api_endpoint.clone(),
            spec.secret_ref.clone(),
            spec.insecure_skip_tls_verification,
            spec.proxy_url.clone(),
        )
    };
    of(known) == of(now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::status::fixtures::{cluster, condition, synced};

    #[test]
    fn services_depend_on_what_a_cluster_says_and_not_on_when_it_was_written() {
        let mut engagements = Engagements::default();
        let mut one = synced("a");
        assert!(engagements.note("a", Some(Facts::of(&one))));
        one.metadata.resource_version = Some("2".to_owned());
        assert!(!engagements.note("a", Some(Facts::of(&one))));
        let refused = condition("Ready", "False", "Unreachable", "refused");
        let lost = cluster("a", json!([refused]));
        assert!(engagements.note("a", Some(Facts::of(&lost))));
        assert!(leads_to_the_same(&Facts::of(&one), &Facts::of(&lost)));
        one.spec.api_endpoint = Some("https://elsewhere".to_owned());
        assert!(!leads_to_the_same(&Facts::of(&one), &Facts::of(&lost)));
        assert!(engagements.note("a", None));
        assert!(!engagements.note("a", None));
    }
}
