//! Names in DNS that MultiClusterServices request, and the one owner of each.

use std::collections::BTreeSet;

use causeway::domain::{ExposureType, RequestedHostnames, ServiceKey};

use super::change::Change;
use super::dns::DnsKnowledge;
use super::{Hub, McsView};
use crate::model::map::HashMap;
use crate::observed::Index;

/// Requests of MultiClusterServices for names in DNS.
#[derive(Debug, Default)]
pub(super) struct NameRequests {
    by_name: HashMap<Box<str>, BTreeSet<ServiceKey>>,
    /// MultiClusterServices with an unreadable request: their DNSEndpoints stay as they are.
    unreadable: BTreeSet<ServiceKey>,
}

impl McsView {
    /// Returns the names that DNS is to publish, given the type of the service and its deletion.
    pub(crate) fn requested_names(&self) -> &RequestedHostnames {
        let exposure = self.spec.as_ref().map(|spec| spec.exposure);
        match (&self.hostnames, exposure) {
            _ if self.is_deleting() => &RequestedHostnames::Nothing,
            (RequestedHostnames::Names(_), Err(_)) => &RequestedHostnames::Unreadable,
            (RequestedHostnames::Names(_), Ok(ExposureType::CrossCluster)) => {
                &RequestedHostnames::Nothing
            }
            (requested, _) => requested,
        }
    }
}

impl NameRequests {
    /// Adds the request of a MultiClusterService.
    pub(super) fn add(&mut self, key: &ServiceKey, view: &McsView) {
        match view.requested_names() {
            RequestedHostnames::Nothing => {}
            RequestedHostnames::Unreadable => drop(self.unreadable.insert(key.clone())),
            RequestedHostnames::Names(names) => {
                for name in names.iter() {
                    let keys = self.by_name.entry(name.into()).or_default();
                    keys.insert(key.clone());
                }
            }
        }
    }

    /// Removes the request that was added.
    pub(super) fn remove(&mut self, key: &ServiceKey, view: &McsView) {
        self.unreadable.remove(key);
        let RequestedHostnames::Names(names) = view.requested_names() else {
            return;
        };
        for name in names.iter() {
            if let Some(keys) = self.by_name.get_mut(name) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
    }

    fn requesting(&self, name: &str) -> impl Iterator<Item = &ServiceKey> {
        self.by_name.get(name).into_iter().flatten()
    }
}

impl Index {
    /// Returns the owner of a name among the MultiClusterServices that request it: the one whose
    /// DNSEndpoint publishes the name, otherwise the oldest, then the first by namespace and name.
    pub(crate) fn name_owner(&self, name: &str) -> Option<&ServiceKey> {
        let hub = &self.hub;
        let unreadable = hub.name_requests.unreadable.iter();
        let holding = unreadable.filter(|key| hub.publishes(key, name));
        let all = hub.name_requests.requesting(name).chain(holding);
        all.min_by_key(|key| {
            let created = hub.multi_cluster_services.get(*key);
            let created = created.and_then(|mcs| mcs.created);
            let is_unpublished = !hub.publishes(key, name);
            (is_unpublished, created.is_none(), created, *key)
        })
    }
}

impl Hub {
    /// Whether the DNSEndpoint of a MultiClusterService publishes a name.
    fn publishes(&self, key: &ServiceKey, name: &str) -> bool {
        let DnsKnowledge::Known(Some(object)) = self.dns.get(key) else {
            return false;
        };
        let mcs = self.multi_cluster_services.get(key);
        let is_own = mcs.is_some_and(|mcs| object.owner.as_ref() == Some(&mcs.uid));
        is_own && !object.deleting && object.names().any(|published| published == name)
    }

    /// Marks the services that request a name which this one requests or publishes.
    pub(super) fn note_rivals(&self, key: &ServiceKey, change: &mut Change) {
        let mcs = self.multi_cluster_services.get(key);
        let requested = match mcs.map(McsView::requested_names) {
            Some(RequestedHostnames::Names(names)) => Some(names.iter()),
            _ => None,
        };
        let requested = requested.into_iter().flatten().map(ToOwned::to_owned);
        let published = match self.dns.get(key) {
            DnsKnowledge::Known(Some(object)) => Some(object.names()),
            _ => None,
        };
        for name in requested.chain(published.into_iter().flatten()) {
            let rivals = self.name_requests.requesting(&name);
            change.services.extend(rivals.cloned());
        }
    }
}
