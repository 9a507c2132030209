//! ServiceExports and ServiceImports on a hub that is not one of its own members: they do nothing
//! there.

use std::fmt;

use super::ServiceKey;

/// One of the two kinds of the Multi-Cluster Services API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClustersetKind {
    /// ServiceExport.
    ServiceExport,
    /// ServiceImport.
    ServiceImport,
}

impl fmt::Display for ClustersetKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::ServiceExport => "ServiceExport",
            Self::ServiceImport => "ServiceImport",
        })
    }
}

/// Returns why such an object has no effect on the hub, and the command that replaces it. An export
/// offers the Service of its own cluster to others (KEP-1645, "Exporting Services"); the hub has no
/// pods.
pub fn misplaced(kind: ClustersetKind, key: &ServiceKey) -> (String, String) {
    let (namespace, name) = (&key.namespace, &key.name);
    match kind {
        ClustersetKind::ServiceExport => (
            format!(
                "ServiceExport {key} is on the hub, which is no member: nothing is exported by it"
            ),
            format!(
                "exports belong into the members whose pods back Service {name}: kubectl --context MEMBER -n {namespace} apply -f FILE in each of \
                 them, then on the hub kubectl -n {namespace} delete serviceexport {name}"
            ),
        ),
        ClustersetKind::ServiceImport => (
            format!(
                "ServiceImport {key} is on the hub, which is no member: nothing is imported by it"
            ),
            format!(
                "imports are made in the members while one of them has a ServiceExport {key}; on the hub kubectl -n {namespace} delete \
                 serviceimport {name}"
            ),
        ),
    }
}
