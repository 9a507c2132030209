//! What would be left uncleaned in the members if the controller went now. Pure.

use std::collections::BTreeMap;
use std::fmt;

use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::protected::MEMBERS_NAMESPACE;
use kube::{Resource, ResourceExt};

/// How many of a kind are named.
const NAMED: usize = 10;

/// The services that causeway has taken up, and the Clusters that `join` made or causeway keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Serving {
    /// Names by namespace.
    services: BTreeMap<String, Vec<String>>,
    clusters: Vec<String>,
}

impl Serving {
    /// A Cluster of Karmada's is none: its credentials are in another namespace, and it bears no finalizer of causeway's.
    pub(super) fn of(services: &[MultiClusterService], clusters: &[Cluster]) -> Self {
        let mut serving = Self::default();
        for service in services.iter().filter(|one| is_kept(*one)) {
            let namespace = service.namespace().unwrap_or_default();
            let names = serving.services.entry(namespace).or_default();
            names.push(service.name_any());
        }
        let joined = clusters
            .iter()
            .filter(|one| is_kept(*one) || is_joined(one));
        serving.clusters = joined.map(ResourceExt::name_any).collect();
        serving
    }

    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.clusters.is_empty()
    }

    /// The services alone.
    pub(super) fn without_clusters(self) -> Self {
        Self {
            clusters: Vec::new(),
            ..self
        }
    }

    /// Namespace and name of each service.
    pub(super) fn services(&self) -> impl Iterator<Item = (String, String)> {
        let services = self.services.iter();
        services.flat_map(|(namespace, names)| {
            names.iter().map(|name| (namespace.clone(), name.clone()))
        })
    }

    /// The names of the Clusters.
    pub(super) fn clusters(&self) -> &[String] {
        &self.clusters
    }

    /// What a person runs to have the controller clean up after all of it, a line each.
    pub(super) fn commands(&self) -> String {
        let services = self.services.iter().map(|(namespace, names)| {
            format!("  kubectl -n {namespace} delete mcs {}", names.join(" "))
        });
        let clusters = self
            .clusters
            .iter()
            .map(|name| format!("  kubectl mcs unjoin {name} --member-kubeconfig FILE"));
        lines(services.chain(clusters))
    }

    /// What a person runs to give up what the controller would clean, a line each.
    pub(super) fn surrender(&self) -> String {
        let patch = "--type=merge -p '{\"metadata\":{\"finalizers\":null}}'";
        let services = self
            .services()
            .map(|(namespace, name)| format!("  kubectl -n {namespace} patch mcs {name} {patch}"));
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|name| format!("  kubectl patch cluster {name} {patch}"));
        lines(services.chain(clusters))
    }
}

impl fmt::Display for Serving {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services: Vec<_> = self
            .services()
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .collect();
        let parts = [
            ("MultiClusterService", &services),
            ("Cluster", &self.clusters),
        ];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<_> = parts.map(|(kind, names)| counted(kind, names)).collect();
        out.write_str(&parts.join(" and "))
    }
}

fn counted(kind: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let named = names.iter().take(NAMED).map(String::as_str);
    let more = (names.len() > NAMED).then_some("...");
    let named: Vec<_> = named.chain(more).collect();
    format!("{} {kind}{plural} ({})", names.len(), named.join(", "))
}

fn lines(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<_> = all.collect();
    let more = all.len().saturating_sub(NAMED);
    if more > 0 {
        all.truncate(NAMED);
        all.push(format!("  and {more} more like these"));
    }
    all.join("\n")
}

/// Whether the controller keeps it until it has cleaned up after it.
fn is_kept(object: &impl Resource) -> bool {
    let finalizers = object.meta().finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|one| one == labels::FINALIZER)
}

/// Whether its credentials are where `join` puts them.
fn is_joined(cluster: &Cluster) -> bool {
    let secret = cluster.spec.secret_ref.as_ref();
    secret.is_some_and(|secret| secret.namespace == MEMBERS_NAMESPACE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str, finalizers: &[&str]) -> MultiClusterService {
        serde_json::from_value(json!({
            "apiVersion": "networking.karmada.io/v1alpha1",
            "kind": "MultiClusterService",
            "metadata": { "namespace": namespace, "name": name, "finalizers": finalizers },
            "spec": { "types": ["CrossCluster"] },
        }))
        .expect("a MultiClusterService")
    }

    fn cluster(name: &str, secrets_in: &str, finalizers: &[&str]) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": name, "finalizers": finalizers },
            "spec": { "secretRef": { "namespace": secrets_in, "name": name } },
        }))
        .expect("a Cluster")
    }

    #[test]
    fn what_the_controller_has_taken_up_is_in_the_way_and_what_is_karmadas_is_not() {
        let services = [
            service("shop", "foo", &[labels::FINALIZER]),
            service("shop", "bar", &["karmada.io/other", labels::FINALIZER]),
            service(
                "web",
                "foo",
                &["karmada.io/multicluster-service-controller"],
            ),
        ];
        let clusters = [
            cluster("joined", MEMBERS_NAMESPACE, &[]),
            cluster("by-hand", "elsewhere", &[labels::FINALIZER]),
            cluster(
                "karmadas",
                "karmada-cluster",
                &["karmada.io/cluster-controller"],
            ),
        ];
        let serving = Serving::of(&services, &clusters);
        assert_eq!(
            serving.to_string(),
            "2 MultiClusterServices (shop/foo, shop/bar) and 2 Clusters (joined, by-hand)"
        );
        assert_eq!(
            serving.commands(),
            "  kubectl -n shop delete mcs foo bar\n  \
             kubectl mcs unjoin joined --member-kubeconfig FILE\n  \
             kubectl mcs unjoin by-hand --member-kubeconfig FILE"
        );
        let services = serving.without_clusters();
        assert_eq!(
            services.to_string(),
            "2 MultiClusterServices (shop/foo, shop/bar)"
        );
        assert!(
            services
                .surrender()
                .starts_with("  kubectl -n shop patch mcs foo --type=merge")
        );
        assert!(Serving::of(&[], &clusters[2..]).is_empty());
    }

    #[test]
    fn many_are_counted_and_only_the_first_are_named() {
        let names = (0..12).map(|number| format!("member{number}"));
        let clusters: Vec<_> = names
            .map(|name| cluster(&name, MEMBERS_NAMESPACE, &[]))
            .collect();
        let serving = Serving::of(&[], &clusters);
        let text = serving.to_string();
        assert!(
            text.starts_with("12 Clusters (member0, ") && text.ends_with("member9, ...)"),
            "{text}"
        );
        let commands = serving.commands();
        assert_eq!(commands.lines().count(), 11);
        assert!(commands.ends_with("  and 2 more like these"), "{commands}");
    }
}
