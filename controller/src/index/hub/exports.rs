//! ServiceExports on the hub itself. Where it is not one of its own members they export nothing, and that is to be said.

use std::collections::{HashMap, HashSet};

use causeway::api::SyncMode;
use causeway::api::multicluster::{GROUP, ServiceExport, Version};
use causeway::domain::{ClusterName, ServiceKey};
use kube::Api;
use kube::core::PartialObjectMeta;

use super::{ClusterView, key_of};
use crate::event::HubEvent;
use crate::hub_watches::Kind;
use crate::index::Index;
use crate::watch::Signal;

/// A ServiceExport on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubExport {
    /// Its namespace and name; none for one without, which no API server sends.
    key: Option<ServiceKey>,
    uid: Box<str>,
}

/// The ServiceExports on the hub.
#[derive(Debug, Default)]
pub struct HubExports {
    uids: HashMap<ServiceKey, Box<str>>,
    /// Those of which nothing was said.
    unsaid: HashSet<ServiceKey>,
}

/// ServiceExports as a kind that the hub may serve, in either version.
pub fn kind() -> Kind<PartialObjectMeta<ServiceExport>, HubExport> {
    Kind {
        group: GROUP,
        versions: &VERSIONS,
        plural: "serviceexports",
        selector: None,
        api: |client, version| Api::all_with(client, &read_version(version)),
        read: HubExport::read,
        served: HubEvent::ExportsServed,
        told: HubEvent::Exports,
    }
}

/// The versions of ServiceExport and ServiceImport, the preferred first.
pub(super) const VERSIONS: [&str; 2] = [Version::ALL[0].as_str(), Version::ALL[1].as_str()];

/// The version that is written so.
pub(super) fn read_version(text: &str) -> Version {
    let mut all = Version::ALL.into_iter();
    all.find(|version| version.as_str() == text)
        .unwrap_or_default()
}

impl HubExport {
    /// What is read of one.
    pub fn read(export: PartialObjectMeta<ServiceExport>) -> Self {
        Self {
            key: key_of(&export.metadata),
            uid: export.metadata.uid.unwrap_or_default().into(),
        }
    }
}

impl HubExports {
    pub(super) fn fold(&mut self, signal: Signal<HubExport>) {
        match signal {
            Signal::Listed(exports) => {
                let before = std::mem::take(self);
                for export in exports {
                    self.put(export, &before);
                }
            }
            Signal::Applied(export) => self.put(export, &Self::default()),
            Signal::Deleted(export) => {
                if let Some(key) = export.key {
                    self.uids.remove(&key);
                    self.unsaid.remove(&key);
                }
            }
            Signal::Confirmed | Signal::Held(_) | Signal::Connected | Signal::Failed(_) => {}
        }
    }

    /// Puts it in the place of the one that is stored, or was `before`.
    fn put(&mut self, HubExport { key, uid }: HubExport, before: &Self) {
        let Some(key) = key else { return };
        let known = self.uids.get(&key).or(before.uids.get(&key));
        if known != Some(&uid) || before.unsaid.contains(&key) {
            self.unsaid.insert(key.clone());
        }
        self.uids.insert(key, uid);
    }
}

impl Index {
    /// The ServiceExports on the hub, with their UIDs, that nobody was told of and that do nothing there. None while that is not
    /// certain: on a Karmada control plane they are propagated into members, and where the hub is a member they are carried like any
    /// other.
    pub fn take_misplaced_exports(&mut self) -> Vec<(ServiceKey, Box<str>)> {
        let nothing_to_say = self.hub.exports.unsaid.is_empty();
        if nothing_to_say || !self.hub.works.are_unserved() || self.may_be_a_member() {
            return Vec::new();
        }
        let exports = &mut self.hub.exports;
        let unsaid = exports.unsaid.drain();
        let with_uid = unsaid.filter_map(|key| {
            let uid = exports.uids.get(&key)?.clone();
            Some((key, uid))
        });
        with_uid.collect()
    }

    /// Whether the hub is one of its own members, or may be: some member has not said yet who it is.
    fn may_be_a_member(&self) -> bool {
        let is_hub = |name: &ClusterName| {
            let member = self.members.get(name);
            let uid = member.and_then(|member| {
                let identity = member.identity.as_ref();
                let heard = identity.map(|identity| &identity.uid);
                heard.or(member.recorded_uid.as_ref())
            });
            uid.is_none_or(|uid| **uid == *self.hub.uid)
        };
        let takes_part = |cluster: &ClusterView| cluster.mode != SyncMode::Pull;
        let mut clusters = self.hub.clusters.iter();
        !self.hub.is_listed() || clusters.any(|(name, cluster)| takes_part(cluster) && is_hub(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::objects::export;
    use crate::fixtures::{HUB_UID, World, key, world};

    fn said(world: &mut World) -> String {
        let mut said: Vec<_> = world.index.take_misplaced_exports();
        said.sort();
        let said = said.iter().map(|(key, _)| key.name.to_string());
        said.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_export_on_a_hub_that_is_no_member_is_told_of_once() {
        let mut world = world();
        world.member("member1").on_hub(export("foo")).deliver();
        assert_eq!(said(&mut world), "foo");
        world.on_hub(export("foo")).on_hub(export("bar")).deliver();
        assert_eq!(said(&mut world), "bar", "once each");
        world.list_exports();
        assert_eq!(said(&mut world), "");
        world.off_hub(crate::fixtures::objects::Kind::Export, "foo");
        world.on_hub(export("foo")).deliver();
        assert_eq!(said(&mut world), "foo", "another object");
    }

    #[test]
    fn it_is_not_told_of_where_it_may_be_carried() {
        let mut world = world();
        world.hear_of_works(true).on_hub(export("foo")).deliver();
        assert_eq!(said(&mut world), "", "Karmada's");
        world.hear_works(false).silent_member("member1").deliver();
        assert_eq!(said(&mut world), "", "member1 may be the hub");
        world.identify("member1", HUB_UID, (1, 34));
        assert_eq!(said(&mut world), "", "member1 is the hub");
        world.list_exports();
        world.off_hub(crate::fixtures::objects::Kind::Cluster, "member1");
        world.deliver();
        world.index.forget(&crate::fixtures::name("member1"));
        assert_eq!(said(&mut world), "foo");
        assert!(!world.index.is_exported(&key("foo")));
    }
}
