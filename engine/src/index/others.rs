//! What others do to the objects that causeway keeps.

use std::collections::BTreeSet;
use std::sync::Arc;

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::gaps::Gap;
use crate::model::{Lane, ObjectId, TimePoint};

impl Index {
    /// Who but causeway wrote the object last, as far as that was seen.
    pub fn other_writer(&self, lane: &Lane, object: &ObjectId) -> Option<&str> {
        match (lane, object) {
            (Lane::Member(name), ObjectId::Service(key)) => {
                let service = self.members.get(name)?.service(key)?;
                service.other_writer.as_deref()
            }
            (Lane::Hub, ObjectId::MultiClusterServiceStatus(key)) => {
                let mcs = self.hub.multi_cluster_services.get(key)?;
                mcs.status_writer.as_deref()
            }
            _ => None,
        }
    }

    /// The members whose Service of that key causeway delivered, where one of Karmada's policies is to propagate it too.
    pub fn beside_policy(&self, key: &ServiceKey) -> impl Iterator<Item = &ClusterName> {
        let service = self.hub.services.get(key);
        let has_policy = self.hub.exposes(key) && service.is_some_and(|service| service.has_policy);
        let members = has_policy.then(|| self.members.iter());
        let holders = members.into_iter().flatten().filter(|(_, member)| {
            let service = member.service(key);
            service.is_some_and(|service| service.is_delivered_by(&self.hub.uid))
        });
        holders.map(|(name, _)| name)
    }

    /// Notes in which clusters Karmada was seen not to propagate the Service of that key because there is one already.
    pub fn note_propagation(&mut self, key: &ServiceKey, refused: BTreeSet<ClusterName>) {
        match refused.is_empty() {
            true => self.hub.refused.remove(key),
            false => self.hub.refused.insert(key.clone(), refused),
        };
    }

    /// Notes what consumers lack now of a service that Karmada manages.
    pub fn note_gaps(&mut self, key: &ServiceKey, gaps: BTreeSet<Gap>, now: TimePoint) {
        self.gaps.note(key, gaps, now);
    }

    /// Notes which slices disagree now with those of Kubernetes on readiness.
    pub fn note_disagreements(
        &mut self,
        key: &ServiceKey,
        slices: BTreeSet<(ClusterName, Arc<str>)>,
        now: TimePoint,
    ) {
        self.disagreements.note(key, slices, now);
    }

    /// Where Karmada cannot propagate the Service of that key because of the one that causeway delivered.
    pub fn refused_propagation(&self, key: &ServiceKey) -> Vec<&ClusterName> {
        let refused = self.hub.refused.get(key);
        let is_refused = |name: &&ClusterName| refused.is_some_and(|all| all.contains(*name));
        match refused {
            Some(_) => self.beside_policy(key).filter(is_refused).collect(),
            None => Vec::new(),
        }
    }
}
