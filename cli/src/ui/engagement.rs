//! Which members are watched, and what of their Clusters matters.

use std::collections::BTreeMap;

use causeway::api::{Cluster, ClusterSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::member_watches::{Engaged, MemberSettings, engage};

/// What of a Cluster services depend on: others write it all the time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    uid: Option<String>,
    spec: ClusterSpec,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    is_terminating: bool,
    conditions: Vec<Condition>,
}

impl Facts {
    pub(super) fn of(cluster: &Cluster) -> Self {
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

/// The members that are watched.
#[derive(Debug, Default)]
pub(super) struct Engagements {
    facts: BTreeMap<String, Facts>,
    engaged: BTreeMap<String, (Facts, Engaged)>,
    last: u64,
}

impl Engagements {
    /// Notes what a Cluster says, `None` of one that is gone; whether services may change with it.
    pub(super) fn note(&mut self, name: &str, facts: Option<Facts>) -> bool {
        let last = match &facts {
            Some(facts) => self.facts.insert(name.to_owned(), facts.clone()),
            None => self.facts.remove(name),
        };
        last != facts
    }

    /// Watches the member as its Cluster says; the number of the engagement, if it is a new one.
    pub(super) fn engage(&mut self, settings: &MemberSettings, cluster: &Cluster) -> Option<u64> {
        let (name, facts) = (cluster.name_any(), Facts::of(cluster));
        if let Some((known, _)) = self.engaged.get(&name)
            && leads_to_the_same(known, &facts)
        {
            return None;
        }
        self.last += 1;
        let engaged = engage(settings, cluster, self.last);
        self.engaged.insert(name, (facts, engaged));
        Some(self.last)
    }

    /// Watches the Nodes of a member, or ends their watch; whether that is a change.
    pub(super) fn watch_nodes(&self, name: &str, needed: bool) -> bool {
        let engaged = self.engaged.get(name);
        engaged.is_some_and(|(_, engaged)| engaged.watch_nodes(needed))
    }

    /// The member is watched no more.
    pub(super) fn disengage(&mut self, name: &str) {
        self.engaged.remove(name);
    }
}

/// Whether the member is reached in the same way.
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
