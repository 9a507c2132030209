//! Effect of a drained cluster on the services of the hub.

use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{self, ClusterName, ServiceKey};
use kube::ResourceExt as _;

use crate::observe::service::key_of;

/// Services that a cluster provides, or whose entry cluster it is, sorted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Effect {
    /// All services that the cluster provides.
    pub provides: Vec<ServiceKey>,
    /// Services without another provider in use.
    pub alone: Vec<ServiceKey>,
    /// All services that have an address of the cluster: it is one of their entry clusters.
    pub enters: Vec<ServiceKey>,
    /// Services without another entry cluster in use.
    pub only_entry: Vec<ServiceKey>,
}

impl Effect {
    /// Computes the effect on the given services among the given clusters.
    pub(super) fn of(
        name: &ClusterName,
        clusters: &[Cluster],
        services: &[MultiClusterService],
    ) -> Self {
        let others: Vec<_> = clusters
            .iter()
            .filter(|cluster| is_used(cluster) && cluster.name_any() != name.as_str())
            .filter_map(|cluster| ClusterName::try_from(cluster.name_any().as_str()).ok())
            .collect();
        let mut effect = Self::default();
        let live = services.iter();
        let live = live.filter(|one| one.metadata.deletion_timestamp.is_none());
        for service in live {
            let Ok(desired) = domain::MultiClusterService::try_from(service) else {
                continue;
            };
            let entries = desired.has_entry_clusters().then_some(&desired.consumers);
            for (selection, all, only) in [
                (
                    Some(&desired.providers),
                    &mut effect.provides,
                    &mut effect.alone,
                ),
                (entries, &mut effect.enters, &mut effect.only_entry),
            ] {
                let Some(selection) = selection.filter(|selection| selection.includes(name)) else {
                    continue;
                };
                if !others.iter().any(|other| selection.includes(other)) {
                    only.push(key_of(service));
                }
                all.push(key_of(service));
            }
        }
        effect.provides.sort();
        effect.alone.sort();
        effect.enters.sort();
        effect.only_entry.sort();
        effect
    }
}

/// Whether other clusters use the endpoints that a cluster provides, and its address as an entry.
fn is_used(cluster: &Cluster) -> bool {
    !cluster.is_drained() && cluster.takes_part() && cluster.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cross, service, synced};
    use crate::term::table::listed;

    fn name(text: &str) -> ClusterName {
        ClusterName::try_from(text).expect("a name")
    }

    fn drained(name: &str) -> Cluster {
        let mut cluster = synced(name);
        cluster.metadata.annotations =
            Some([(labels::WITHDRAW.to_owned(), "true".to_owned())].into());
        cluster
    }

    #[test]
    fn a_service_is_lost_where_no_other_cluster_in_use_provides_it() {
        let mut pull = synced("pull");
        pull.spec.sync_mode = Some(causeway::api::SyncMode::Pull);
        let clusters = [synced("a"), synced("b"), drained("c"), pull];
        for (providers, provides, alone) in [
            (&["a"][..], true, true),
            (&["a", "b"], true, false),
            (&["a", "c"], true, true),
            (&["a", "pull"], true, true),
            (&["a", "nowhere"], true, true),
            (&["b"], false, false),
            (&[], true, false),
        ] {
            let services = [service("foo", cross(providers, &["b"]), json!([]))];
            let effect = Effect::of(&name("a"), &clusters, &services);
            let found = (!effect.provides.is_empty(), !effect.alone.is_empty());
            assert_eq!(found, (provides, alone), "{providers:?}");
        }
    }

    #[test]
    fn address_is_lost_where_no_other_entry_cluster_is_in_use() {
        let clusters = [synced("a"), synced("b"), drained("c")];
        for (type_, entries, enters, only_entry) in [
            ("LoadBalancer", &["a"][..], true, true),
            ("LoadBalancer", &["a", "b"], true, false),
            ("LoadBalancer", &["a", "c"], true, true),
            ("LoadBalancer", &["b"], false, false),
            ("LoadBalancer", &[], false, false),
            ("CrossCluster", &["a"], false, false),
        ] {
            let mut spec = cross(&["b"], entries);
            spec["types"] = json!([type_]);
            let services = [service("foo", spec, json!([]))];
            let effect = Effect::of(&name("a"), &clusters, &services);
            let found = (!effect.enters.is_empty(), !effect.only_entry.is_empty());
            assert_eq!(found, (enters, only_entry), "{type_} {entries:?}");
            assert!(effect.provides.is_empty(), "{type_} {entries:?}");
        }
    }

    #[test]
    fn every_member_is_alone_when_there_is_no_other() {
        let services = [service("foo", cross(&[], &[]), json!([]))];
        let effect = Effect::of(&name("a"), &[synced("a")], &services);
        assert_eq!(effect.alone, [ServiceKey::new("shop", "foo")]);
        let mut leaving = services;
        leaving[0].metadata.deletion_timestamp = leaving[0].metadata.creation_timestamp.clone();
        let effect = Effect::of(&name("a"), &[synced("a")], &leaving);
        assert_eq!(effect, Effect::default(), "it is terminating");
    }

    #[test]
    fn of_many_services_the_first_are_named() {
        let keys: Vec<_> = (0..12)
            .map(|number| ServiceKey::new("shop", format!("s{number}")))
            .collect();
        assert_eq!(listed::<ServiceKey>(&[]), "none");
        assert_eq!(listed(&keys[..2]), "shop/s0, shop/s1");
        assert!(listed(&keys).ends_with("shop/s9, and 2 more"));
    }
}
