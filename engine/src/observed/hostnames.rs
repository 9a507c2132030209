//! Hostnames of load balancers by which clusters of other networks reach providers, and their
//! addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use causeway::domain::ServiceKey;

use super::Index;
use crate::model::map::HashMap;
use crate::model::{Item, Priority};

/// Maximum number of addresses of a hostname that are used.
const ADDRESSES_MAX: usize = 64;
/// Maximum number of hostnames whose addresses are looked up. Those beyond it have none.
const HOSTNAMES_MAX: usize = 1000;

/// Hostnames that services need.
#[derive(Debug, Default)]
pub(super) struct Hostnames {
    /// Needed hostnames by service, for those that need any.
    needed: HashMap<ServiceKey, BTreeSet<Box<str>>>,
    /// Last good answers, in order.
    addresses: HashMap<Box<str>, Box<[IpAddr]>>,
    /// Whether a service needs others than at the last [`Index::take_hostnames`].
    changed: bool,
}

impl Hostnames {
    fn is_needed(&self, host: &str) -> bool {
        self.needed.values().any(|hosts| hosts.contains(host))
    }
}

impl Index {
    /// Notes the hostnames that a service needs. The addresses of a hostname that no service needs
    /// any more are dropped.
    pub fn note_hostnames(&mut self, key: &ServiceKey, needed: BTreeSet<Box<str>>) {
        let hostnames = &mut self.hostnames;
        let before = match needed.is_empty() {
            true => hostnames.needed.remove(key),
            false if hostnames.needed.get(key) == Some(&needed) => return,
            false => hostnames.needed.insert(key.clone(), needed.clone()),
        };
        let before = before.unwrap_or_default();
        hostnames.changed |= before != needed;
        for host in before.difference(&needed) {
            if !hostnames.is_needed(host) {
                hostnames.addresses.remove(host);
            }
        }
    }

    /// Returns the hostnames whose addresses are to be looked up, at most a thousand, if a service
    /// needs others than at the last call.
    pub fn take_hostnames(&mut self) -> Option<BTreeSet<Box<str>>> {
        let is_other = std::mem::take(&mut self.hostnames.changed);
        let all = || self.hostnames.needed.values().flatten().cloned();
        let sorted = || all().collect::<BTreeSet<_>>();
        is_other.then(|| sorted().into_iter().take(HOSTNAMES_MAX).collect())
    }

    /// Applies the addresses of a hostname: a good answer, which is never empty. The next services
    /// to be planned are those that need it. Addresses beyond the 64th are ignored.
    pub fn apply_resolved(&mut self, host: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses: BTreeSet<_> = addresses.into_iter().collect();
        let addresses: Box<[_]> = addresses.into_iter().take(ADDRESSES_MAX).collect();
        let hostnames = &mut self.hostnames;
        let is_same = hostnames.addresses.get(host) == Some(&addresses);
        if addresses.is_empty() || is_same || !hostnames.is_needed(host) {
            return;
        }
        tracing::info!(%host, count = addresses.len(), "load balancer addresses changed");
        hostnames.addresses.insert(host.into(), addresses);
        let services = hostnames.needed.iter();
        let services = services.filter(|(_, hosts)| hosts.contains(host));
        let services = services.map(|(key, _)| Item::Service(key.clone()));
        self.dirty.add(services, Priority::High);
    }

    /// Returns the addresses of a hostname; none before the first good answer.
    pub(crate) fn resolved(&self, host: &str) -> &[IpAddr] {
        let known = self.hostnames.addresses.get(host);
        known.map_or(&[], |addresses| addresses)
    }
}
