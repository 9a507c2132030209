//! The kinds of objects that the servers hold, and how paths name them.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Namespace,
    Secret,
    Service,
    Event,
    EndpointSlice,
    Lease,
    Definition,
    Cluster,
    MultiClusterService,
    ServiceExport,
    ServiceImport,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Namespace,
        Self::Secret,
        Self::Service,
        Self::Event,
        Self::EndpointSlice,
        Self::Lease,
        Self::Definition,
        Self::Cluster,
        Self::MultiClusterService,
        Self::ServiceExport,
        Self::ServiceImport,
    ];

    /// The API version, the name of the kind, and the plural in paths.
    pub(crate) fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Namespace => ("v1", "Namespace", "namespaces"),
            Self::Secret => ("v1", "Secret", "secrets"),
            Self::Service => ("v1", "Service", "services"),
            Self::Event => ("events.k8s.io/v1", "Event", "events"),
            Self::EndpointSlice => ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
            Self::Lease => ("coordination.k8s.io/v1", "Lease", "leases"),
            Self::Definition => (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
            ),
            Self::Cluster => ("cluster.karmada.io/v1alpha1", "Cluster", "clusters"),
            Self::MultiClusterService => (
                "networking.karmada.io/v1alpha1",
                "MultiClusterService",
                "multiclusterservices",
            ),
            Self::ServiceExport => (
                "multicluster.x-k8s.io/v1beta1",
                "ServiceExport",
                "serviceexports",
            ),
            Self::ServiceImport => (
                "multicluster.x-k8s.io/v1beta1",
                "ServiceImport",
                "serviceimports",
            ),
        }
    }

    fn of(group_version: &str, plural: &str) -> Option<Self> {
        let is_it = |kind: &Self| {
            let (version, _, name) = kind.names();
            version == group_version && name == plural
        };
        Self::ALL.into_iter().find(is_it)
    }
}

/// What a path within one API server names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// All objects of a kind, or those of a namespace.
    Collection(Kind, Option<String>),
    /// One object, by [`key`]; whether its status alone is meant.
    Object(Kind, String, bool),
    /// Anything else, such as `/version`.
    Document(String),
}

/// The name of an object among those of its kind.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

impl Place {
    /// Reads a path that begins after the name of the API server.
    pub(crate) fn read(path: &str) -> Self {
        Self::of_objects(path).unwrap_or_else(|| Self::Document(path.to_owned()))
    }

    fn of_objects(path: &str) -> Option<Self> {
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        let (group_version, rest) = match parts.as_slice() {
            ["api", "v1", rest @ ..] => ("v1".to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let kind = Kind::of(&group_version, rest.first()?)?;
        match rest {
            [_] => Some(Self::Collection(kind, namespace.map(str::to_owned))),
            [_, name] => Some(Self::Object(kind, key(namespace, name), false)),
            [_, name, "status"] => Some(Self::Object(kind, key(namespace, name), true)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_statuses() {
        let cases = [
            (
                "/api/v1/namespaces",
                Place::Collection(Kind::Namespace, None),
            ),
            (
                "/api/v1/namespaces/kube-system",
                Place::Object(Kind::Namespace, "kube-system".to_owned(), false),
            ),
            (
                "/api/v1/namespaces/a/secrets",
                Place::Collection(Kind::Secret, Some("a".to_owned())),
            ),
            (
                "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/b",
                Place::Object(Kind::EndpointSlice, "a/b".to_owned(), false),
            ),
            (
                "/apis/cluster.karmada.io/v1alpha1/clusters/m/status",
                Place::Object(Kind::Cluster, "m".to_owned(), true),
            ),
            ("/version", Place::Document("/version".to_owned())),
            ("/apis", Place::Document("/apis".to_owned())),
        ];
        for (path, place) in cases {
            assert_eq!(Place::read(path), place, "{path}");
        }
    }
}
