//! The agent of a member that the hub reaches through causeway-tunnel.

use std::time::SystemTime;

use causeway::domain::ClusterName;
use kube::api::DynamicObject;

use super::JoinError;
use crate::args::JoinArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::images;
use crate::cluster::objects::{self, Run, preview};
use crate::cluster::tunnel::authority;
use crate::cluster::tunnel::{self, TunnelError};
use crate::commands::membership::member::agent::{self, AgentImage};

/// Objects of an agent, and the address that it connects to the tunnel.
pub(super) struct Agent {
    secret: DynamicObject,
    pub deployment: DynamicObject,
    /// URL of the member's API server, as the agent reaches it.
    pub endpoint: String,
}

impl Agent {
    /// Issues a certificate, or keeps the stored one, and makes the objects. Returns `None` for a
    /// member that the hub dials. Changes nothing.
    ///
    /// # Errors
    /// [`JoinError::NoAuthority`], or the member has an agent of somebody else.
    pub(super) async fn prepare(
        hub: &ApiServer,
        member: &ApiServer,
        hub_uid: &str,
        name: &ClusterName,
        args: &JoinArgs,
    ) -> Result<Option<Self>, JoinError> {
        let Some(address) = &args.tunnel else {
            return Ok(None);
        };
        let authority = tunnel::authority(hub).await?;
        let authority = authority.ok_or_else(|| JoinError::NoAuthority(address.clone()))?;
        agent::check(member, hub_uid).await?;
        let stored = tunnel::secret(member, agent::AGENT_SECRET).await?;
        let leaf = authority::agent(hub_uid, name);
        let now = SystemTime::now();
        let certificate = match authority.certificate(leaf.clone(), stored.as_ref(), now) {
            // The hub has another authority by now.
            Err(TunnelError::Foreign) => authority.certificate(leaf, None, now)?,
            certificate => certificate?,
        };
        let image = image(hub, args).await?;
        Ok(Some(Self {
            secret: agent::secret(hub_uid, certificate)?,
            deployment: agent::deployment(hub_uid, address, &image)?,
            endpoint: match &args.api_endpoint {
                Some(given) => given.trim_end_matches('/').to_owned(),
                None => agent::api_endpoint(member).await?,
            },
        }))
    }

    /// Applies the objects to the member. Without `force`, a field that another field manager
    /// changed is an error.
    pub(super) async fn apply(&self, member: &ApiServer, force: bool) -> Result<(), JoinError> {
        preview::check(member, std::iter::once(&self.deployment), force).await?;
        objects::apply(member, &self.secret, Run::Real).await?;
        Ok(objects::apply_with(member, &self.deployment, Run::Real, force).await?)
    }
}

/// Returns the image of agents: the given one, or that of this version from the hub's registry.
pub(super) async fn image(hub: &ApiServer, args: &JoinArgs) -> Result<AgentImage, JoinError> {
    Ok(match &args.agent_image {
        Some(image) => AgentImage::Given(image.clone()),
        None => AgentImage::Of {
            registry: images::registry(hub).await?,
        },
    })
}
