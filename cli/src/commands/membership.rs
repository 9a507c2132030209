//! Objects of a membership on the hub and in the member, which `join`, `unjoin` and `tunnel` share.

pub(crate) mod agent;
pub(crate) mod hub;
pub(crate) mod leftovers;
pub(crate) mod location;
pub(crate) mod member;

use std::fmt::Display;

use causeway::api::{Cluster, condition, labels};
use causeway_engine::reasons::Reason;
use kube::Resource;

use crate::cluster::api_server::ApiServer;
use crate::cluster::conditions::Conditions as _;
use crate::term::output::{self, OutputError};

/// Whether an object has causeway's finalizer, which blocks deletion until the controller has
/// cleaned up.
pub(crate) fn is_kept(object: &impl Resource) -> bool {
    let finalizers = object.meta().finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|one| one == labels::FINALIZER)
}

/// Prints the commands that delete the objects that the controller could not clean up.
pub(crate) async fn report_left(
    hub: &ApiServer,
    name: impl Display,
    why: &str,
) -> Result<(), OutputError> {
    output::result(format_args!(
        "note: {name} could not be cleaned up{why}; what causeway wrote there remains. When it can be reached, join and unjoin it again, or \
         run there: {}",
        hub::leftovers_command(hub).await
    ))
}

/// Returns the reason that a member cannot be cleaned up now, prefixed with a colon. Returns an
/// empty string if the member is ready, or is cleaned up by its last connection.
pub(crate) fn cleaning(cluster: &Cluster) -> String {
    let ready = cluster.condition(condition::READY);
    ready
        .filter(|ready| ready.status != condition::TRUE)
        .filter(|ready| ready.reason != Reason::InvalidConfiguration)
        .map(|ready| format!(": {} ({})", ready.reason, ready.message))
        .unwrap_or_default()
}
