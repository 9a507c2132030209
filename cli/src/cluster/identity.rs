//! Identity of a cluster: the UID of its kube-system namespace.

/// Cluster that is not the member of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another cluster than {name} (kube-system UID {given}, {name} has {known})")]
pub(crate) struct AnotherCluster {
    name: String,
    known: String,
    given: String,
}

/// Checks that the cluster with the UID `given` is the member `name`, of which the hub records the
/// UID `known`. A member without a recorded UID passes.
pub(crate) fn check_identity(
    name: &str,
    known: Option<&str>,
    given: &str,
) -> Result<(), AnotherCluster> {
    match known.filter(|known| *known != given) {
        None => Ok(()),
        Some(known) => Err(AnotherCluster {
            name: name.to_owned(),
            known: known.to_owned(),
            given: given.to_owned(),
        }),
    }
}
