//! causeway-agent of a member that the hub reaches through causeway-tunnel: its certificate and its
//! Deployment, which `join` and `tunnel add` bring to the member.

use std::time::SystemTime;

use causeway::domain::ClusterName;
use k8s_openapi::ByteString;
use kube::api::DynamicObject;

use super::member;
use super::member::agent::{self, AgentImage};
use crate::cluster::api_server::ApiServer;
use crate::cluster::images;
use crate::cluster::objects::{self, Run, preview};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority;
use crate::cluster::tunnel::{self, TunnelError};
use crate::term::exit::Failure;
use crate::term::output;

/// Contents of an agent's objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgentRequest<'a> {
    /// UID of the hub's kube-system namespace.
    pub hub_uid: &'a str,
    pub name: &'a ClusterName,
    /// Address at which the agent reaches causeway-tunnel.
    pub address: &'a TunnelAddress,
    /// Image of the agent, or that of this version from the hub's registry.
    pub image: Option<&'a str>,
    /// Kubeconfig of the hub, if the agent comes through its API server.
    pub kubeconfig: Option<&'a ByteString>,
    /// Whether the agent gives the controller tokens.
    pub gives_credentials: bool,
}

/// Objects of an agent.
pub(crate) struct AgentObjects {
    pub namespace: DynamicObject,
    /// Secret with the certificate and its private key.
    pub secret: DynamicObject,
    /// Account and rights of an agent that gives credentials.
    pub rights: Vec<DynamicObject>,
    pub deployment: DynamicObject,
}

impl AgentObjects {
    /// Issues a certificate, or keeps the one that the member has, and makes the objects. Changes
    /// nothing.
    ///
    /// # Errors
    /// [`TunnelError::NoAuthority`], or the member has an agent of somebody else.
    pub(crate) async fn issue(
        hub: &ApiServer,
        member: Option<&ApiServer>,
        request: AgentRequest<'_>,
    ) -> Result<Self, Failure> {
        let (hub_uid, address) = (request.hub_uid, request.address);
        let authority = tunnel::authority(hub).await?;
        let authority = authority.ok_or_else(|| TunnelError::NoAuthority(address.clone()))?;
        let mut stored = None;
        if let Some(member) = member {
            agent::check(member, hub_uid).await?;
            stored = tunnel::secret(member, agent::AGENT_SECRET).await?;
        }
        let leaf = authority::agent(hub_uid, request.name);
        let now = SystemTime::now();
        let mut files = authority.renewed(leaf, stored.as_ref(), now)?;
        let image = image(hub, request.image).await?;
        let gives_credentials = request.gives_credentials;
        let mut deployment = agent::deployment(hub_uid, address, &image, gives_credentials)?;
        if let Some(kubeconfig) = request.kubeconfig {
            files.insert(agent::KUBECONFIG, kubeconfig.clone());
            agent::through_api_server(&mut deployment);
        }
        Ok(Self {
            namespace: member::namespace()?,
            secret: agent::secret(hub_uid, files)?,
            rights: match gives_credentials {
                true => agent::rights(hub_uid)?,
                false => Vec::new(),
            },
            deployment,
        })
    }

    /// Checks in a dry run that applying the objects takes no field from another field manager,
    /// unless `force` is set.
    pub(crate) async fn check(&self, member: &ApiServer, force: bool) -> Result<(), Failure> {
        Ok(preview::check(member, self.applied(), force).await?)
    }

    /// Returns the objects that other field managers may have changed, in order.
    fn applied(&self) -> impl Iterator<Item = &DynamicObject> {
        self.rights.iter().chain([&self.deployment])
    }

    /// Applies the objects to the member, after [`Self::check`]. Without `force`, a field that
    /// another field manager changed is an error.
    pub(crate) async fn apply(
        &self,
        member: &ApiServer,
        run: Run,
        force: bool,
    ) -> Result<(), Failure> {
        if objects::get(member, &self.namespace).await?.is_none() {
            if run == Run::Dry {
                return self
                    .print("created (dry run, not validated: its namespace does not exist yet)");
            }
            objects::apply(member, &self.namespace, run).await?;
        }
        objects::apply(member, &self.secret, run).await?;
        for object in self.applied() {
            objects::apply_with(member, object, run, force).await?;
        }
        Ok(())
    }

    /// Prints each object with a result that is the same for all.
    pub(crate) fn print(&self, result: &str) -> Result<(), Failure> {
        for object in [&self.namespace, &self.secret, &self.deployment] {
            let title = objects::title(object);
            output::result(format_args!("member: {title} {result}"))?;
        }
        Ok(())
    }
}

/// Returns the image of agents: the given one, or that of this version from the hub's registry.
pub(crate) async fn image(hub: &ApiServer, given: Option<&str>) -> Result<AgentImage, Failure> {
    Ok(match given {
        Some(image) => AgentImage::Given(image.to_owned()),
        None => AgentImage::Of {
            registry: images::registry(hub).await?,
        },
    })
}
