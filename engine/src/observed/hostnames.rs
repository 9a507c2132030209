//! Hostnames of load balancers by which clusters of other networks reach providers, and their
//! addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::since::Since;
use crate::model::map::HashMap;
use crate::model::{Item, Priority, TimePoint};

/// Maximum number of addresses of a hostname that are used.
const ADDRESSES_MAX: usize = 64;
/// Maximum number of hostnames whose addresses are looked up. Those beyond it have none.
const HOSTNAMES_MAX: usize = 1000;
/// Time for which the first answer of a hostname is awaited: copies may have addresses that another
/// process, or this one in an earlier term, knew.
const ANSWER_GRACE: Duration = Duration::from_secs(5 * 60);

/// Hostnames that a service needs, each with the members whose load balancers have it.
type Needed = BTreeMap<Box<str>, BTreeSet<ClusterName>>;

/// Hostnames that services need.
#[derive(Debug, Default)]
pub(super) struct Hostnames {
    /// Needed hostnames by service, for those that need any.
    needed: HashMap<ServiceKey, Needed>,
    /// Needed hostnames without an answer, with the time since which they are needed in this term.
    pub(super) unanswered: Since<Box<str>>,
    /// Last good answers, in order.
    addresses: HashMap<Box<str>, Box<[IpAddr]>>,
    /// Addresses that copies of entries have. Empty in the controller, which looks hostnames up.
    copied: HashMap<Box<str>, BTreeSet<IpAddr>>,
    /// Whether a service needs others than at the last [`Index::take_hostnames`].
    changed: bool,
}

impl Hostnames {
    /// Lists the services that need hostnames.
    pub(super) fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.needed.keys()
    }

    fn is_needed(&self, host: &str) -> bool {
        self.needed.values().any(|hosts| hosts.contains_key(host))
    }

    /// Chooses the hostnames to look up. Members take turns, and the hostnames that no member has
    /// any more count as those of one: no member displaces the hostnames of another.
    fn in_turns(&self) -> BTreeSet<Box<str>> {
        let mut by_member = BTreeMap::<Option<&ClusterName>, BTreeSet<&str>>::new();
        for (host, members) in self.needed.values().flatten() {
            let nobody = members.is_empty().then_some(None);
            for member in members.iter().map(Some).chain(nobody) {
                by_member.entry(member).or_default().insert(host);
            }
        }
        let hosts_of = by_member.into_values().map(BTreeSet::into_iter);
        let mut hosts_of: Vec<_> = hosts_of.collect();
        let mut chosen = BTreeSet::<Box<str>>::new();
        while chosen.len() < HOSTNAMES_MAX && !hosts_of.is_empty() {
            hosts_of.retain_mut(|hosts| {
                let next = hosts.next().filter(|_| chosen.len() < HOSTNAMES_MAX);
                next.map(|host| chosen.insert(host.into())).is_some()
            });
        }
        chosen
    }
}

impl Index {
    /// Notes the hostnames that a service needs. The addresses of a hostname that no service needs
    /// any more are dropped. Returns the next time at which a hostname without an answer is not
    /// awaited any more.
    pub fn note_hostnames(
        &mut self,
        key: &ServiceKey,
        needed: BTreeSet<Box<str>>,
        now: TimePoint,
    ) -> Option<TimePoint> {
        let again_at = self.note_unanswered(key, &needed, now);
        let needed = self.with_members(key, needed);
        let hostnames = &mut self.hostnames;
        let before = match needed.is_empty() {
            true => hostnames.needed.remove(key),
            false if hostnames.needed.get(key) == Some(&needed) => return again_at,
            false => hostnames.needed.insert(key.clone(), needed.clone()),
        };
        let before = before.unwrap_or_default();
        hostnames.changed |= before != needed;
        for host in before.keys().filter(|host| !needed.contains_key(*host)) {
            if !hostnames.is_needed(host) {
                hostnames.addresses.remove(host);
            }
        }
        again_at
    }

    fn note_unanswered(
        &mut self,
        key: &ServiceKey,
        needed: &BTreeSet<Box<str>>,
        now: TimePoint,
    ) -> Option<TimePoint> {
        let unanswered = needed.iter().filter(|host| self.resolved(host).is_empty());
        let unanswered: BTreeSet<_> = unanswered.cloned().collect();
        let noted = &mut self.hostnames.unanswered;
        let again_at = noted.next_end(key, &unanswered, ANSWER_GRACE, now);
        noted.note(key, unanswered, now);
        again_at
    }

    /// Whether the addresses of a hostname that a service needs are unknown. If no answer comes
    /// within five minutes, the hostname has none.
    pub(crate) fn is_awaited(&self, key: &ServiceKey, host: &str, now: TimePoint) -> bool {
        if self.entry_addresses(host).next().is_some() {
            return false;
        }
        let since = self.hostnames.unanswered.of(key, &Box::from(host));
        since.is_none_or(|since| now < since.after(ANSWER_GRACE))
    }

    /// Adds the members whose load balancers of the service have the hostnames.
    fn with_members(&self, key: &ServiceKey, hosts: BTreeSet<Box<str>>) -> Needed {
        let hosts = hosts.into_iter().map(|host| (host, BTreeSet::new()));
        let mut needed: Needed = hosts.collect();
        if needed.is_empty() {
            return needed;
        }
        for (name, member) in &self.members {
            let services = [member.service(key), member.companion(key)];
            let ingress = services.into_iter().flatten().flat_map(|one| &one.ingress);
            for host in ingress.filter_map(|one| one.hostname.as_deref()) {
                if let Some(members) = needed.get_mut(host) {
                    members.insert(name.clone());
                }
            }
        }
        needed
    }

    /// Returns the hostnames whose addresses are to be looked up, at most a thousand, if a service
    /// needs others than at the last call. Members take turns.
    pub fn take_hostnames(&mut self) -> Option<BTreeSet<Box<str>>> {
        let is_other = std::mem::take(&mut self.hostnames.changed);
        is_other.then(|| self.hostnames.in_turns())
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
        let services = services.filter(|(_, hosts)| hosts.contains_key(host));
        let services = services.map(|(key, _)| Item::Service(key.clone()));
        self.dirty.add(services, Priority::High);
    }

    /// Returns the addresses of a hostname; none before the first good answer.
    pub(crate) fn resolved(&self, host: &str) -> &[IpAddr] {
        let known = self.hostnames.addresses.get(host);
        known.map_or(&[], |addresses| addresses)
    }

    /// Notes addresses that the copy of an entry has of a hostname. For processes other than the
    /// controller, which do not look hostnames up.
    pub(crate) fn note_copied_addresses(&mut self, host: Box<str>, addresses: &[IpAddr]) {
        let of_host = self.hostnames.copied.entry(host).or_default();
        of_host.extend(addresses);
    }

    /// Lists the addresses of a hostname by which clusters of other networks enter: its last good
    /// answer, or the addresses that copies have.
    pub(crate) fn entry_addresses(&self, host: &str) -> impl Iterator<Item = &IpAddr> {
        let copied = self.hostnames.copied.get(host).into_iter().flatten();
        self.resolved(host).iter().chain(copied)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::objects::service;
    use crate::fixtures::{env, key, name};

    fn needed(hosts: impl IntoIterator<Item = String>, members: &[&str]) -> Needed {
        let members: BTreeSet<_> = members.iter().map(|member| name(member)).collect();
        let hosts = hosts.into_iter();
        hosts.map(|host| (host.into(), members.clone())).collect()
    }

    #[test]
    fn hostnames_of_one_member_displace_none_of_another() {
        let mut hostnames = Hostnames::default();
        let many = (0..2 * HOSTNAMES_MAX).map(|number| format!("a{number:04}.example"));
        let few = ["y.example", "z.example"].map(str::to_owned);
        let gone = ["x.example".to_owned()];
        for (service, needed) in [
            ("foo", needed(many, &["member1"])),
            ("bar", needed(few, &["member2"])),
            ("baz", needed(gone, &[])),
        ] {
            hostnames.needed.insert(key(service), needed);
        }
        let chosen = hostnames.in_turns();
        assert_eq!(chosen.len(), HOSTNAMES_MAX);
        let last = format!("a{:04}.example", HOSTNAMES_MAX - 4);
        for host in [
            "a0000.example",
            &last,
            "x.example",
            "y.example",
            "z.example",
        ] {
            assert!(chosen.contains(host), "{host}");
        }
        hostnames.needed.remove(&key("foo"));
        assert_eq!(hostnames.in_turns().len(), 3);
    }

    #[test]
    fn hostname_counts_for_each_member_that_has_it() {
        let mut env = env();
        env.member("member1").member("member2");
        let foo = service("foo").port("http", 80).with(json!({
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"hostname": "LB.example."}]}},
        }));
        env.on("member1", foo).settle();
        let needed = ["lb.example", "other.example"].map(Box::<str>::from);
        let now = env.now();
        env.index
            .note_hostnames(&key("foo"), BTreeSet::from(needed), now);
        let noted = &env.index.hostnames.needed[&key("foo")];
        assert_eq!(noted["lb.example"], BTreeSet::from([name("member1")]));
        assert!(noted["other.example"].is_empty());
    }
}
