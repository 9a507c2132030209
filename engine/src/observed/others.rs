//! Changes of others to objects that causeway manages.

use std::collections::BTreeSet;

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use crate::model::{ObjectId, TargetCluster};

impl Index {
    /// Returns the last writer of the object other than causeway, as far as one was observed.
    pub fn other_writer(&self, cluster: &TargetCluster, object: &ObjectId) -> Option<&str> {
        match (cluster, object) {
            (TargetCluster::Member(name), ObjectId::Service(key)) => {
                let service = self.members.get(name)?.service(key)?;
                service.other_writer.as_deref()
            }
            (TargetCluster::Hub, ObjectId::MultiClusterServiceStatus(key)) => {
                let mcs = self.hub.multi_cluster_services.get(key)?;
                mcs.status_writer.as_deref()
            }
            _ => None,
        }
    }

    /// Returns the members whose Service of that key causeway delivered although one of Karmada's
    /// policies claims the hub's Service.
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

    /// Notes the clusters in which Karmada does not propagate the Service of that key because one
    /// exists already.
    pub fn note_propagation(&mut self, key: &ServiceKey, refused: BTreeSet<ClusterName>) {
        match refused.is_empty() {
            true => self.hub.refused.remove(key),
            false => self.hub.refused.insert(key.clone(), refused),
        };
    }

    /// Returns the clusters in which Karmada cannot propagate the Service of that key because
    /// causeway delivered one.
    pub fn refused_propagation(&self, key: &ServiceKey) -> Vec<&ClusterName> {
        let refused = self.hub.refused.get(key);
        let is_refused = |name: &&ClusterName| refused.is_some_and(|all| all.contains(*name));
        match refused {
            Some(_) => self.beside_policy(key).filter(is_refused).collect(),
            None => Vec::new(),
        }
    }
}
