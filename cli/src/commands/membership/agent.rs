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
    /// Image of the agent, or that of [`image`].
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
        let image = image((hub, member), agent::DEPLOYMENT, request.image).await?;
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

/// Returns the image of the agent in a Deployment of a member: the given one, or that of this
/// version from the registry of the hub, else of the stored agent. Prints a note if neither shows
/// one.
pub(crate) async fn image(
    (hub, member): (&ApiServer, Option<&ApiServer>),
    deployment: &str,
    given: Option<&str>,
) -> Result<AgentImage, Failure> {
    if let Some(image) = given {
        return Ok(AgentImage::Given(image.to_owned()));
    }
    let mut registry = images::registry(hub).await?;
    if let (None, Some(member)) = (&registry, member) {
        registry = images::registry_of(member, deployment).await?;
    }
    Ok(match registry {
        Some(registry) => AgentImage::Of { registry },
        None => {
            let users = format!("pods of Deployment {deployment}");
            let image = images::by_default(images::AGENT, (&users, "--agent-image"))?;
            AgentImage::Given(image)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::member::paths;
    use super::*;
    use crate::cluster::access::Side;
    use crate::cluster::bundle;
    use crate::fixtures::answering;

    /// Returns an API server whose Deployments have the same image, or do not exist.
    fn running(side: Side, image: Option<&str>) -> ApiServer {
        let image = image.map(ToOwned::to_owned);
        answering(side, move |request| {
            let name = request.uri().path().rsplit('/').next();
            match &image {
                Some(image) => (200, deployed(name.unwrap_or_default(), image)),
                None => (404, json!({ "kind": "Status", "code": 404 })),
            }
        })
    }

    fn deployed(name: &str, image: &str) -> Value {
        let containers = json!([{ "name": "a", "image": image }]);
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": name },
            "spec": { "template": { "spec": { "containers": containers } } },
        })
    }

    #[tokio::test]
    async fn agent_keeps_its_registry_where_the_hub_shows_none() {
        let version = env!("CARGO_PKG_VERSION");
        let of = |registry: &str| format!("{registry}/causeway-agent:{version}");
        let agent = Some("team.example/a/causeway-agent:0.1.0");
        let hub = Some("hub.example/causeway-controller:0.1.0");
        for (hub, stored, given, expected) in [
            (None, agent, None, of("team.example/a")),
            (hub, agent, None, of("hub.example")),
            (Some("mirror:1"), agent, None, of("team.example/a")),
            (None, Some("mirror:1"), None, of("causeway")),
            (None, None, None, of("causeway")),
            (None, agent, Some("a/b:1"), "a/b:1".to_owned()),
        ] {
            let (hub, member) = (running(Side::Hub, hub), running(Side::Member, stored));
            for name in [agent::DEPLOYMENT, paths::DEPLOYMENT] {
                let image = image((&hub, Some(&member)), name, given).await;
                let image = image.expect("an image");
                let mut made = objects::object(deployed(name, "causeway/causeway-agent:0.0.0"));
                let made = made.as_mut().expect("an object");
                bundle::place(made, None, Some(version));
                image.place(made);
                let container = &made.data["spec"]["template"]["spec"]["containers"][0];
                assert_eq!(container["image"], expected, "{name}");
            }
        }
    }
}
