//! Objects that the controller must clean up in the members before it is deleted. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::ServiceKey;
use causeway::domain::protected::MEMBERS_NAMESPACE;
use kube::api::{ApiResource, DynamicObject};
use kube::{Resource, ResourceExt};

use crate::cluster::definitions::{Found, Origin};
use crate::cluster::karmada::{self, Work};
use crate::commands::membership::{is_kept, surrender};
use crate::observe::service::key_of;

/// Maximum number of objects of a kind that a message names.
const NAMED: usize = 10;

/// Services with causeway's finalizer, and Clusters that `join` created or that have the finalizer.
/// Each is an object with kind, namespace, name and UID alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Serving {
    /// MultiClusterServices, sorted by namespace.
    pub services: Vec<DynamicObject>,
    pub clusters: Vec<DynamicObject>,
}

/// Services that Karmada manages. causeway must not delete them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ManagedByKarmada {
    /// Evidence of Karmada's management by service.
    services: BTreeMap<ServiceKey, String>,
    /// Services that also have causeway's finalizer.
    kept: BTreeSet<ServiceKey>,
}

impl ManagedByKarmada {
    /// Returns the services that have Works of Karmada or its finalizer.
    pub(super) fn of(services: &[MultiClusterService], works: &[Work]) -> Self {
        let mut karmadas = Self::default();
        for service in services {
            let key = key_of(service);
            let mut own = works.iter().filter(|work| work.manages_service());
            let own = own.find(|work| work.service().as_ref() == Some(&key));
            let why = match (own, karmada::finalizers(service).first()) {
                (Some(work), _) => format!("Work {}", work.id()),
                (None, Some(finalizer)) => format!("finalizer {finalizer}"),
                (None, None) => continue,
            };
            if is_kept(service) {
                karmadas.kept.insert(key.clone());
            }
            karmadas.services.insert(key, why);
        }
        karmadas
    }

    /// Whether Karmada manages a service.
    pub(super) fn has(&self, service: &MultiClusterService) -> bool {
        self.services.contains_key(&key_of(service))
    }

    /// Lists the services with evidence, for example `shop/foo (Work karmada-es-a/foo-1)`. Returns
    /// `None` if there are none.
    pub(super) fn named(&self) -> Option<String> {
        let all = self.services.iter();
        let all: Vec<_> = all.map(|(key, why)| format!("{key} ({why})")).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Returns the commands that hand over the services with causeway's finalizer, or `None` if no
    /// service has it.
    pub(super) fn commands(&self) -> Option<String> {
        let all = self
            .kept
            .iter()
            .map(|key| format!("  kubectl mcs hand-over {} -n {}", key.name, key.namespace));
        (!self.kept.is_empty()).then(|| lines(all))
    }
}

impl Serving {
    /// Selects the services and Clusters that causeway serves. Excludes Karmada's Clusters, which
    /// have credentials in another namespace and no finalizer of causeway. `owns_clusters`: whether
    /// `join` may have created Clusters, see [`owns_clusters`].
    pub(super) fn of(
        services: &[MultiClusterService],
        clusters: &[Cluster],
        karmadas: &ManagedByKarmada,
        owns_clusters: bool,
    ) -> Self {
        let kept = services.iter().filter(|one| is_kept(*one));
        let mut services: Vec<_> = kept
            .filter(|one| !karmadas.has(one))
            .map(identity)
            .collect();
        services.sort_by_key(ResourceExt::namespace);
        let joined = clusters
            .iter()
            .filter(|one| is_kept(*one) || (owns_clusters && is_joined(one)));
        Self {
            services,
            clusters: joined.map(identity).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.clusters.is_empty()
    }

    /// Returns the services without the Clusters.
    pub(super) fn without_clusters(self) -> Self {
        Self {
            clusters: Vec::new(),
            ..self
        }
    }

    /// Returns the names of the Clusters.
    pub(super) fn members(&self) -> Vec<String> {
        self.clusters.iter().map(ResourceExt::name_any).collect()
    }

    /// Returns the commands that delete all objects with cleanup by the controller, one per line.
    pub(super) fn commands(&self) -> String {
        let namespaces = self.services.chunk_by(|a, b| namespace(a) == namespace(b));
        let services = namespaces.map(|services| {
            let names: Vec<_> = services.iter().map(ResourceExt::name_any).collect();
            let namespace = namespace(&services[0]);
            format!("  kubectl -n {namespace} delete mcs {}", names.join(" "))
        });
        let clusters = self.members().into_iter();
        let clusters =
            clusters.map(|name| format!("  kubectl mcs unjoin {name} --member-kubeconfig FILE"));
        both(lines(services), lines(clusters))
    }

    /// Returns the commands that remove the finalizers without cleanup, one per line.
    pub(super) fn surrender(&self) -> String {
        let patch = |one: &DynamicObject| {
            let patch = surrender(one.finalizers());
            format!("{} --type=merge -p '{patch}'", one.name_any())
        };
        let services = self.services.iter().map(|one| {
            let (namespace, patch) = (namespace(one), patch(one));
            format!("  kubectl -n {namespace} patch mcs {patch}")
        });
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|one| format!("  kubectl patch cluster {}", patch(one)));
        both(lines(services), lines(clusters))
    }
}

impl fmt::Display for Serving {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services = self.services.iter();
        let services: Vec<_> = services
            .map(|one| format!("{}/{}", namespace(one), one.name_any()))
            .collect();
        let parts = [
            ("MultiClusterService", services),
            ("Cluster", self.members()),
        ];
        let parts = parts.iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<_> = parts.map(|(kind, names)| counted(kind, names)).collect();
        out.write_str(&parts.join(" and "))
    }
}

/// Returns an object that identifies a stored one by kind, namespace, name and UID, with its
/// finalizers.
fn identity<K: Resource<DynamicType = ()>>(stored: &K) -> DynamicObject {
    let mut identity = DynamicObject::new(&stored.name_any(), &ApiResource::erase::<K>(&()));
    identity.metadata.namespace = stored.namespace();
    identity.metadata.uid = stored.uid();
    identity.metadata.finalizers = Some(stored.finalizers().to_vec());
    identity
}

/// Whether `join` may have created Clusters of the hub. It supports a definition of another owner,
/// and refuses on a Karmada control plane, which serves Cluster without a definition.
/// `is_karmadas`: whether the hub serves Works. Ignored if the definition is causeway's.
pub(super) fn owns_clusters(definition: &Found, is_karmadas: bool) -> bool {
    match definition.origin {
        Origin::Managed => true,
        Origin::Foreign(_) => definition.stored.is_some() && !is_karmadas,
        Origin::Absent => false,
    }
}

fn namespace(service: &DynamicObject) -> &str {
    service.metadata.namespace.as_deref().unwrap_or_default()
}

fn counted(kind: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let named = names.iter().take(NAMED).map(String::as_str);
    let more = (names.len() > NAMED).then_some("...");
    let named: Vec<_> = named.chain(more).collect();
    format!("{} {kind}{plural} ({})", names.len(), named.join(", "))
}

/// Joins the lines of services and those of Clusters, either of which may be none.
fn both(services: String, clusters: String) -> String {
    let both = [services, clusters].into_iter();
    let both: Vec<_> = both.filter(|lines| !lines.is_empty()).collect();
    both.join("\n")
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

/// Whether the Cluster's credentials are in the namespace that `join` uses, or at its agent.
fn is_joined(cluster: &Cluster) -> bool {
    let secret = cluster.spec.secret_ref.as_ref();
    secret.is_some_and(|secret| secret.namespace == MEMBERS_NAMESPACE)
        || cluster.has_agent_credentials()
}

#[cfg(test)]
mod tests {
    use causeway::api::labels;
    use serde_json::json;

    use super::*;
    use crate::cluster::definitions::CLUSTERS;
    use crate::cluster::karmada::tests::work;

    fn service(namespace: &str, name: &str, finalizers: &[&str]) -> MultiClusterService {
        serde_json::from_value(json!({
            "apiVersion": "networking.karmada.io/v1alpha1",
            "kind": "MultiClusterService",
            "metadata": {
                "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
                "finalizers": finalizers,
            },
            "spec": { "types": ["CrossCluster"] },
        }))
        .expect("a MultiClusterService")
    }

    fn cluster(name: &str, secrets_in: &str, finalizers: &[&str]) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": name, "uid": format!("-{name}"), "finalizers": finalizers },
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
        let karmadas = ManagedByKarmada::of(&services, &[]);
        let serving = Serving::of(&services, &clusters, &karmadas, true);
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
        let uids = |objects: &[DynamicObject]| -> Vec<String> {
            objects.iter().filter_map(ResourceExt::uid).collect()
        };
        assert_eq!(uids(&serving.services), ["shop-foo", "shop-bar"]);
        assert_eq!(uids(&serving.clusters), ["-joined", "-by-hand"]);
        let services = serving.without_clusters();
        assert_eq!(
            services.to_string(),
            "2 MultiClusterServices (shop/foo, shop/bar)"
        );
        let patch = r#"  kubectl -n shop patch mcs bar --type=merge -p '{"metadata":{"finalizers":["karmada.io/other"]}}'"#;
        assert_eq!(services.surrender().lines().nth(1), Some(patch));
        assert!(Serving::of(&[], &clusters[2..], &ManagedByKarmada::default(), true).is_empty());
    }

    #[test]
    fn what_karmada_manages_is_never_deleted_and_is_handed_over_first_where_causeway_keeps_it_too()
    {
        let karmadas = "karmada.io/multiclusterservice-controller";
        let services = [
            service("shop", "foo", &[labels::FINALIZER]),
            service("shop", "bar", &[labels::FINALIZER]),
            service("shop", "baz", &[karmadas]),
        ];
        let karmadas = ManagedByKarmada::of(&services, &[work("a", "own")]);
        assert_eq!(
            karmadas.named().as_deref(),
            Some(
                "shop/baz (finalizer karmada.io/multiclusterservice-controller), shop/foo (Work karmada-es-a/foo-own)"
            )
        );
        assert_eq!(
            karmadas.commands().as_deref(),
            Some("  kubectl mcs hand-over foo -n shop")
        );
        let serving = Serving::of(&services, &[], &karmadas, true);
        assert_eq!(serving.to_string(), "1 MultiClusterService (shop/bar)");
        let none = ManagedByKarmada::of(&services[1..2], &[work("a", "own")]);
        assert_eq!((none.named(), none.commands()), (None, None));
    }

    #[test]
    fn cluster_of_karmada_with_an_agent_is_not_joined() {
        let mut tunnelled = cluster("edge", "karmada-cluster", &[]);
        let annotations = [
            (labels::TUNNEL, "true"),
            (labels::CREDENTIALS, labels::FROM_AGENT),
        ];
        let annotations = annotations.map(|(name, value)| (name.to_owned(), value.to_owned()));
        tunnelled.metadata.annotations = Some(annotations.into());
        let clusters = [
            tunnelled,
            cluster("by-hand", "karmada-cluster", &[labels::FINALIZER]),
        ];
        let karmadas = ManagedByKarmada::default();
        for (owns_clusters, expected) in [(false, &["by-hand"][..]), (true, &["edge", "by-hand"])] {
            let serving = Serving::of(&[], &clusters, &karmadas, owns_clusters);
            assert_eq!(serving.members(), expected);
        }
    }

    #[test]
    fn clusters_of_a_foreign_definition_are_joined_without_karmada() {
        let served = Origin::Foreign(Some("v1alpha1"));
        for (origin, is_stored, is_karmadas, expected) in [
            (Origin::Managed, true, false, true),
            (served, true, false, true),
            (served, true, true, false),
            (served, false, false, false),
            (served, false, true, false),
            (Origin::Absent, false, false, false),
        ] {
            let definition = CLUSTERS.definition().expect("a definition");
            let stored = is_stored.then_some(definition);
            let owns = owns_clusters(&Found { origin, stored }, is_karmadas);
            assert_eq!(owns, expected, "{origin:?} {is_stored} {is_karmadas}");
        }
    }

    #[test]
    fn many_are_counted_and_only_the_first_are_named() {
        let names = (0..12).map(|number| format!("member{number}"));
        let clusters: Vec<_> = names
            .map(|name| cluster(&name, MEMBERS_NAMESPACE, &[]))
            .collect();
        let serving = Serving::of(&[], &clusters, &ManagedByKarmada::default(), true);
        let text = serving.to_string();
        assert!(
            text.starts_with("12 Clusters (member0, ") && text.ends_with("member9, ...)"),
            "{text}"
        );
        let commands = serving.commands();
        assert_eq!(commands.lines().count(), 11);
        assert!(commands.ends_with("  and 2 more like these"), "{commands}");
        let namespaces = (0..12).map(|number| format!("ns{number:02}"));
        let services: Vec<_> = namespaces
            .map(|namespace| service(&namespace, "foo", &[labels::FINALIZER]))
            .collect();
        let serving = Serving::of(&services, &clusters, &ManagedByKarmada::default(), true);
        for commands in [serving.commands(), serving.surrender()] {
            assert_eq!(commands.lines().count(), 22, "{commands}");
        }
    }
}
