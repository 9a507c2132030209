//! Hostnames of load balancers by which clusters of other networks reach providers, and their
//! addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway::domain::ServiceKey;

use super::Index;
use crate::model::map::HashSet;
use crate::model::{Item, Priority};

/// Maximum number of addresses of a hostname that are used.
const ADDRESSES_MAX: usize = 64;
/// Maximum number of hostnames whose addresses are looked up. Those beyond it have none.
const HOSTNAMES_MAX: usize = 1000;

/// Hostnames that services need.
#[derive(Debug, Default)]
pub(super) struct Hostnames {
    /// Needed hostnames.
    all: BTreeMap<Box<str>, Hostname>,
    /// Whether other ones are needed than [`Index::take_hostnames`] returned last.
    changed: bool,
}

/// Hostname that services need.
#[derive(Debug, Default)]
struct Hostname {
    services: HashSet<ServiceKey>,
    /// Last good answer, in order; empty before the first.
    addresses: Box<[IpAddr]>,
}

impl Index {
    /// Notes the hostnames that a service needs. The addresses of a hostname that no service needs
    /// any more are dropped.
    pub fn note_hostnames(&mut self, key: &ServiceKey, needed: &BTreeSet<Box<str>>) {
        let Hostnames { all, changed } = &mut self.hostnames;
        if needed.is_empty() && all.is_empty() {
            return;
        }
        all.retain(|host, known| {
            if !needed.contains(host) {
                known.services.remove(key);
            }
            *changed |= known.services.is_empty();
            !known.services.is_empty()
        });
        for host in needed {
            *changed |= !all.contains_key(host);
            let known = all.entry(host.clone()).or_default();
            known.services.insert(key.clone());
        }
    }

    /// Returns the hostnames whose addresses are to be looked up, at most a thousand, if they are
    /// others than at the last call.
    pub fn take_hostnames(&mut self) -> Option<BTreeSet<Box<str>>> {
        let is_other = std::mem::take(&mut self.hostnames.changed);
        let all = || self.hostnames.all.keys().take(HOSTNAMES_MAX).cloned();
        is_other.then(|| all().collect())
    }

    /// Applies the addresses of a hostname: a good answer, which is never empty. The next services
    /// to be planned are those that need it. Addresses beyond the 64th are ignored.
    pub fn apply_resolved(&mut self, host: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses: BTreeSet<_> = addresses.into_iter().collect();
        let Some(known) = self.hostnames.all.get_mut(host) else {
            return;
        };
        let addresses: Box<[_]> = addresses.into_iter().take(ADDRESSES_MAX).collect();
        if addresses.is_empty() || known.addresses == addresses {
            return;
        }
        tracing::info!(%host, count = addresses.len(), "load balancer addresses changed");
        known.addresses = addresses;
        let services = known.services.iter().cloned().map(Item::Service);
        self.dirty.add(services, Priority::High);
    }

    /// Returns the addresses of a hostname; none before the first good answer.
    pub(crate) fn resolved(&self, host: &str) -> &[IpAddr] {
        let known = self.hostnames.all.get(host);
        known.map_or(&[], |known| &known.addresses)
    }
}
