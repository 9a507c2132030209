//! ServiceExports on the hub itself. They export nothing unless the hub is a member, which is
//! reported.

use causeway::domain::{ClusterName, ServiceKey};

use super::Index;
use super::hub::ClusterView;

impl Index {
    /// Takes the ServiceExports on the hub, with their UIDs, that have no effect and were not
    /// reported yet. Returns none while that is uncertain: a Karmada control plane propagates them
    /// into members, and a hub that is a member exports them like any other.
    pub fn take_misplaced_exports(&mut self) -> Vec<(ServiceKey, Box<str>)> {
        let hub = &self.hub;
        if !hub.exports.has_unsaid() || !hub.works.are_unserved() || self.may_be_a_member() {
            return Vec::new();
        }
        self.hub.exports.take_unsaid()
    }

    /// Whether the hub is one of its own members, or may be: its Clusters are not listed, or the
    /// identity of a member is unknown.
    fn may_be_a_member(&self) -> bool {
        let is_hub = |name: &ClusterName| {
            let member = self.members.get(name);
            let uid = member.and_then(|member| {
                let identity = member.identity.as_ref();
                let observed = identity.map(|identity| &identity.uid);
                observed.or(member.recorded_uid.as_ref())
            });
            uid.is_none_or(|uid| **uid == *self.hub.uid)
        };
        let takes_part = |cluster: &ClusterView| cluster.takes_part;
        let mut clusters = self.hub.clusters.iter();
        !self.hub.is_listed() || clusters.any(|(name, cluster)| takes_part(cluster) && is_hub(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::objects::export;
    use crate::fixtures::{Environment, HUB_UID, env, key};

    fn said(env: &mut Environment) -> String {
        let mut said: Vec<_> = env.index.take_misplaced_exports();
        said.sort();
        let said = said.iter().map(|(key, _)| key.name.to_string());
        said.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_export_on_a_hub_that_is_no_member_is_reported_once() {
        let mut env = env();
        env.member("member1").on_hub(export("foo")).deliver();
        assert_eq!(said(&mut env), "foo");
        env.on_hub(export("foo")).on_hub(export("bar")).deliver();
        assert_eq!(said(&mut env), "bar", "once each");
        env.list_exports();
        assert_eq!(said(&mut env), "");
        env.off_hub(crate::fixtures::objects::Kind::Export, "foo");
        env.on_hub(export("foo")).deliver();
        assert_eq!(said(&mut env), "foo", "another object");
    }

    #[test]
    fn it_is_not_reported_where_it_may_be_managed() {
        let mut env = env();
        env.hear_of_works(true).on_hub(export("foo")).deliver();
        assert_eq!(said(&mut env), "", "Karmada's");
        env.hear_works(false).silent_member("member1").deliver();
        assert_eq!(said(&mut env), "", "member1 may be the hub");
        env.identify("member1", HUB_UID, (1, 34));
        assert_eq!(said(&mut env), "", "member1 is the hub");
        env.list_exports();
        env.off_hub(crate::fixtures::objects::Kind::Cluster, "member1");
        env.deliver();
        env.index.remove_cluster(&crate::fixtures::name("member1"));
        assert_eq!(said(&mut env), "foo");
        assert!(!env.index.is_exported(&key("foo")));
    }
}
