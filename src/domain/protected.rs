//! Namespaces and services that no MultiClusterService may touch, unless a person allows it.

use std::collections::BTreeSet;

/// Namespace of causeway by default.
pub const DEFAULT_NAMESPACE: &str = "causeway-system";

/// Namespace of the members' credentials on the hub. It holds nothing else: the controller reads
/// every Secret in it.
pub const MEMBERS_NAMESPACE: &str = "causeway-members";

/// Prefixes of the namespaces of a cluster's own components: of Kubernetes, of Karmada, and of
/// distributions that reserve such names.
const SYSTEM_PREFIXES: [&str; 7] = [
    "kube-",
    "karmada-",
    // OpenShift refuses projects of such names ("Default projects" in its documentation).
    "openshift-",
    // Rancher: the namespaces of its System project.
    "cattle-",
    // GKE: gke-managed-*, gke-gmp-system and their like.
    "gke-",
    // AKS: aks-command, aks-istio-system and their like.
    "aks-",
    // Tanzu and vSphere: the namespaces of the Supervisor.
    "vmware-system-",
];
/// Such namespaces whose names have no prefix.
const SYSTEM_NAMESPACES: [&str; 1] = ["openshift"];

/// Protected namespaces. The webhook and the controller apply the same rule.
#[derive(Clone, Debug)]
pub struct Protection {
    own_namespace: String,
    allowed: BTreeSet<String>,
}

/// Reason why a MultiClusterService may not have its namespace or name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Protected {
    /// `default/kubernetes` is the API server of each cluster itself.
    #[error(
        "default/kubernetes is the API server of each cluster itself and cannot be exposed to others"
    )]
    ApiServer,
    /// The namespace belongs to the cluster's own machinery.
    #[error("namespace {0} is protected; start causeway with --allow-namespace {0} to allow it")]
    Namespace(String),
}

impl Protection {
    /// Protects the system namespaces (`kube-*`, `karmada-*`, `openshift-*` and those of other
    /// distributions) and causeway's own, but for those allowed.
    pub fn new(
        own_namespace: impl Into<String>,
        allowed: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            own_namespace: own_namespace.into(),
            allowed: allowed.into_iter().collect(),
        }
    }

    /// Says why a service may not be exposed.
    ///
    /// # Errors
    /// [`Protected`] where it may not.
    pub fn check(&self, namespace: &str, name: &str) -> Result<(), Protected> {
        if namespace == "default" && name == "kubernetes" {
            return Err(Protected::ApiServer);
        }
        let system = SYSTEM_NAMESPACES.contains(&namespace)
            || SYSTEM_PREFIXES
                .iter()
                .any(|prefix| namespace.starts_with(prefix));
        if (system || namespace == self.own_namespace) && !self.allowed.contains(namespace) {
            return Err(Protected::Namespace(namespace.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_namespaces_are_protected_unless_allowed() {
        let protection = Protection::new(DEFAULT_NAMESPACE, ["kube-public".to_owned()]);
        for (namespace, name, fine) in [
            ("shop", "foo", true),
            ("default", "foo", true),
            ("default", "kubernetes", false),
            ("kube-system", "dns", false),
            ("kube-public", "foo", true),
            ("karmada-system", "foo", false),
            ("causeway-system", "foo", false),
            ("kubernetes", "foo", true),
            ("openshift", "foo", false),
            ("openshift-ingress", "router-default", false),
            ("openshifters", "foo", true),
            ("cattle-system", "rancher", false),
            ("cattle", "foo", true),
            ("gke-managed-system", "foo", false),
            ("aks-istio-system", "foo", false),
            ("vmware-system-csi", "foo", false),
        ] {
            assert_eq!(
                protection.check(namespace, name).is_ok(),
                fine,
                "{namespace}/{name}"
            );
        }
    }
}
