//! Registry of the images on a hub.

use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::bundle;
use crate::cluster::objects::{self, ObjectError};

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
