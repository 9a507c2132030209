//! causeway-agent in a member that the hub reaches through causeway-tunnel.

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::MemberError;
use super::ownership::{self, of_hub};
use crate::cluster::api_server::ApiServer;
use crate::cluster::bundle;
use crate::cluster::objects::{self, ObjectError};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority::{Data, secret_of};

const MANIFEST: &str = include_str!("../../../../../manifests/member/agent.yaml");
/// Flag of the manifest whose value is a placeholder.
const TUNNEL: &str = "--tunnel=";
/// Secret with the certificate of the agent.
pub(crate) const AGENT_SECRET: &str = "causeway-agent";

/// Returns the Secret with the certificate of the agent for the hub with the given UID.
pub(crate) fn secret(hub_uid: &str, data: Data) -> Result<DynamicObject, ObjectError> {
    Ok(of_hub(secret_of("agent", AGENT_SECRET, data)?, hub_uid))
}

/// Returns the Deployment of the agent for the hub with the given UID. Without an image it has that
/// of the manifest, from the given registry.
pub(crate) fn deployment(
    hub_uid: &str,
    address: &TunnelAddress,
    image: &AgentImage,
) -> Result<DynamicObject, ObjectError> {
    let mut manifest = objects::parse(MANIFEST)?.into_iter();
    let mut deployment = manifest.next().ok_or(ObjectError::Untyped)?;
    for container in bundle::containers(&mut deployment) {
        let args = container.get_mut("args").and_then(Value::as_array_mut);
        let mut args = args.into_iter().flatten();
        if let Some(arg) = args.find(|arg| arg.as_str().is_some_and(|arg| arg.starts_with(TUNNEL)))
        {
            *arg = json!(format!("{TUNNEL}{address}"));
        }
    }
    image.place(&mut deployment);
    Ok(of_hub(deployment, hub_uid))
}

/// Source of the agent's image.
#[derive(Clone, Debug)]
pub(crate) enum AgentImage {
    Given(String),
    /// The image of this version, from the registry of the hub's Deployments.
    Of {
        registry: Option<String>,
    },
}

impl AgentImage {
    /// Sets the image of a Deployment of the agent.
    pub(super) fn place(&self, deployment: &mut DynamicObject) {
        match self {
            Self::Given(image) => {
                for container in bundle::containers(deployment) {
                    container["image"] = json!(image);
                }
            }
            Self::Of { registry } => bundle::place(deployment, registry.as_deref(), None),
        }
    }
}

/// Returns the agent's objects without data, in order of deletion.
fn bare() -> Result<Vec<DynamicObject>, ObjectError> {
    let mut objects = objects::parse(MANIFEST)?;
    objects.push(secret_of("agent", AGENT_SECRET, Data::new())?);
    Ok(objects)
}

/// Checks that the member has no agent of another hub or owner.
///
/// # Errors
/// [`MemberError::ForeignAgent`].
pub(crate) async fn check(member: &ApiServer, hub_uid: &str) -> Result<(), MemberError> {
    ownership::check(member, hub_uid, &bare()?, "docs/edge.md").await
}

/// Returns the agent's objects that `join` created for the hub with the given UID, in order of
/// deletion. Prints a note for each other one.
pub(crate) async fn owned(
    member: &ApiServer,
    hub_uid: &str,
) -> Result<Vec<DynamicObject>, MemberError> {
    ownership::owned(member, hub_uid, bare()?).await
}

/// Returns the URL of the member's API server for its own pods, which the agent reaches: the address
/// of Service `default/kubernetes`.
pub(crate) async fn api_endpoint(member: &ApiServer) -> Result<String, MemberError> {
    let services: Api<Service> = Api::namespaced(member.client.clone(), "default");
    let service = member.request(services.get("kubernetes")).await?;
    endpoint(&service).ok_or(MemberError::NoApiService)
}

fn endpoint(service: &Service) -> Option<String> {
    let spec = service.spec.as_ref()?;
    let address = spec.cluster_ip.as_deref()?.parse().ok()?;
    let port = spec.ports.iter().flatten().next()?.port;
    let port = u16::try_from(port).ok()?;
    Some(format!(
        "https://{}",
        std::net::SocketAddr::new(address, port)
    ))
}

#[cfg(test)]
mod tests {
    use super::ownership::is_of_hub;
    use super::*;

    #[test]
    fn agent_is_that_of_the_manifest_with_address_image_and_hub() {
        let address = "[2001:db8::1]:8443".parse().expect("an address");
        let manifest = &objects::parse(MANIFEST).expect("objects")[0];
        let version = env!("CARGO_PKG_VERSION");
        for (image, expected) in [
            (
                AgentImage::Of { registry: None },
                format!("causeway/causeway-agent:{version}"),
            ),
            (
                AgentImage::Of {
                    registry: Some("registry.example/team".to_owned()),
                },
                format!("registry.example/team/causeway-agent:{version}"),
            ),
            (AgentImage::Given("a/b:1".to_owned()), "a/b:1".to_owned()),
        ] {
            let mut deployment = deployment("uid", &address, &image).expect("a Deployment");
            assert!(is_of_hub(&deployment, "uid") && !is_of_hub(&deployment, "other"));
            let container = bundle::containers(&mut deployment)
                .next()
                .expect("a container");
            assert_eq!(container["image"], expected);
            assert_eq!(container["args"][0], "--tunnel=[2001:db8::1]:8443");
            container["image"] = json!(format!("causeway/causeway-agent:{version}"));
            container["args"][0] = json!("--tunnel=TUNNEL");
            assert_eq!(deployment.data, manifest.data);
        }
    }

    #[test]
    fn endpoint_is_the_address_of_the_service() {
        let service = |ip: &str, ports: Value| -> Service {
            let spec = json!({ "clusterIP": ip, "ports": ports });
            serde_json::from_value(json!({ "spec": spec })).expect("a Service")
        };
        let https = || json!([{ "name": "https", "port": 443 }]);
        for (ip, ports, expected) in [
            ("10.96.0.1", https(), Some("https://10.96.0.1:443")),
            ("fd00::1", https(), Some("https://[fd00::1]:443")),
            ("None", https(), None),
            ("10.96.0.1", json!([]), None),
        ] {
            assert_eq!(endpoint(&service(ip, ports)).as_deref(), expected, "{ip}");
        }
    }
}
