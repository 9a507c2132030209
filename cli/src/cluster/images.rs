//! Registry of the images on a hub, and of the agents in a member.

use causeway::domain::protected::DEFAULT_NAMESPACE;
use serde_json::json;

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::bundle;
use crate::cluster::objects::{self, ObjectError};
use crate::term::output::{self, OutputError};

/// Name of the agents' image.
pub(crate) const AGENT: &str = "causeway-agent";

/// Returns the registry from which the hub runs causeway. Returns `None` if no Deployment on it
/// shows one, or the user may not read them.
pub(crate) async fn registry(hub: &ApiServer) -> Result<Option<String>, ObjectError> {
    for deployment in bundle::deployments()? {
        let stored = match objects::get(hub, &deployment).await {
            Ok(stored) => stored,
            Err(ObjectError::Request(RequestError::NotAllowed { .. })) => None,
            Err(error) => return Err(error),
        };
        if let Some(registry) = stored.as_ref().and_then(bundle::registry) {
            return Ok(Some(registry.to_owned()));
        }
    }
    Ok(None)
}

/// Returns the registry from which a Deployment of a member runs an agent. Returns `None` if the
/// Deployment does not exist, or its image has another name.
pub(crate) async fn registry_of(
    member: &ApiServer,
    deployment: &str,
) -> Result<Option<String>, ObjectError> {
    let deployment = objects::object(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": deployment, "namespace": DEFAULT_NAMESPACE },
    }))?;
    let stored = objects::get(member, &deployment).await?;
    let registry = stored
        .as_ref()
        .and_then(|stored| bundle::registry_of(stored, AGENT));
    Ok(registry.map(ToOwned::to_owned))
}

/// Returns the image of a program of this version in the registry of the manifests. Prints a note
/// with the reason, and with the flag by which users of the image name another one.
pub(crate) fn by_default(
    program: &str,
    (users, flag): (&str, &str),
) -> Result<String, OutputError> {
    let image = format!("causeway/{program}:{}", env!("CARGO_PKG_VERSION"));
    output::progress(format_args!(
        "note: {users} get image {image}, because no Deployment of causeway on the hub shows you a \
         registry; to name another image, give {flag}"
    ))?;
    Ok(image)
}
