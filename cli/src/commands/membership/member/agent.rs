//! causeway-agent in a member that the hub reaches through causeway-tunnel.

use causeway::domain::protected::DEFAULT_NAMESPACE;
use k8s_openapi::api::core::v1::Service;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::MemberError;
use super::ownership::{self, is_of_hub, of_hub};
use crate::cluster::api_server::ApiServer;
use crate::cluster::bundle;
use crate::cluster::objects::{self, ObjectError, preview};
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority::{Data, secret_of};
use crate::term::exit::Failure;

const MANIFEST: &str = include_str!("../../../../../manifests/member/agent.yaml");
const ENROLMENT: &str = include_str!("../../../../../manifests/member/enrolment.yaml");
const RIGHTS: &str = include_str!("../../../../../manifests/member/credentials.yaml");
/// Account of an agent that gives credentials.
const ACCOUNT: &str = "causeway-agent";
/// Flag of such an agent: the account of which the controller receives tokens.
const TOKEN_ACCOUNT: &str = "--token-account=causeway-system/causeway";
/// Flag of the manifest whose value is a placeholder.
const TUNNEL: &str = "--tunnel=";
/// Flag and file of an agent that reaches nothing but the hub's API server.
const THROUGH: &str = "--through-api-server=/etc/causeway/tls/kubeconfig";
/// Deployment of the agent.
pub(crate) const DEPLOYMENT: &str = "causeway-agent";
/// Key of the Secret with that file.
pub(crate) const KUBECONFIG: &str = "kubeconfig";
const TLS_DIR: &str = "--tls-dir=";
/// Secret with the certificate of the agent, and name of its account.
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
    gives_credentials: bool,
) -> Result<DynamicObject, ObjectError> {
    let mut manifest = objects::parse(MANIFEST)?.into_iter();
    let mut deployment = manifest.next().ok_or(ObjectError::Untyped)?;
    set_route(&mut deployment, &format!("{TUNNEL}{address}"));
    image.place(&mut deployment);
    if gives_credentials {
        give_credentials(&mut deployment);
    }
    Ok(of_hub(deployment, hub_uid))
}

/// Has the agent come through the hub's API server, by [`KUBECONFIG`].
pub(crate) fn through_api_server(deployment: &mut DynamicObject) {
    set_route(deployment, THROUGH);
}

/// Whether the agent of the hub with the given UID comes through the hub's API server. False for a
/// member that has no such agent.
pub(crate) async fn comes_through_api_server(
    member: &ApiServer,
    hub_uid: &str,
) -> Result<bool, ObjectError> {
    for deployment in objects::parse(MANIFEST)? {
        let stored = objects::get(member, &deployment).await?;
        if stored.is_some_and(|stored| is_through_api_server(&stored, hub_uid)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a stored object is the Deployment of such an agent.
fn is_through_api_server(stored: &DynamicObject, hub_uid: &str) -> bool {
    is_of_hub(stored, hub_uid) && preview::arguments(stored).any(|argument| argument == THROUGH)
}

/// Sets the flag that names the route to causeway-tunnel.
fn set_route(deployment: &mut DynamicObject, flag: &str) {
    for container in bundle::containers(deployment) {
        let args = container.get_mut("args").and_then(Value::as_array_mut);
        let mut args = args.into_iter().flatten();
        if let Some(arg) = args.find(|arg| arg.as_str().is_some_and(|arg| arg.starts_with(TUNNEL)))
        {
            *arg = json!(flag);
        }
    }
}

/// Returns the objects of an agent that enrols by the data of its Secret and gives credentials, in
/// order of creation. The agent reads and writes that Secret, in place of files.
pub(crate) fn enrolling(
    hub_uid: &str,
    mut deployment: DynamicObject,
    data: Data,
) -> Result<Vec<DynamicObject>, ObjectError> {
    for container in bundle::containers(&mut deployment) {
        if let Some(Value::Array(args)) = container.get_mut("args") {
            args.retain(|arg| !arg.as_str().is_some_and(|arg| arg.starts_with(TLS_DIR)));
            let secret = format!("--enrol-secret={DEFAULT_NAMESPACE}/{AGENT_SECRET}");
            args.push(json!(secret));
        }
        if let Some(container) = container.as_object_mut() {
            container.remove("volumeMounts");
        }
    }
    if let Some(Value::Object(pod)) = deployment.data.pointer_mut("/spec/template/spec") {
        pod.remove("volumes");
    }
    let rights = rights_of_all()?.into_iter();
    let mut objects: Vec<_> = rights.map(|one| of_hub(one, hub_uid)).collect();
    objects.push(secret(hub_uid, data)?);
    objects.push(deployment);
    Ok(objects)
}

/// Lets an agent give the controller tokens of the account that `join` creates.
fn give_credentials(deployment: &mut DynamicObject) {
    if let Some(pod) = deployment.data.pointer_mut("/spec/template/spec") {
        pod["serviceAccountName"] = json!(ACCOUNT);
        pod["automountServiceAccountToken"] = json!(true);
    }
    for container in bundle::containers(deployment) {
        if let Some(args) = container.get_mut("args").and_then(Value::as_array_mut) {
            args.push(json!(TOKEN_ACCOUNT));
        }
    }
}

/// Returns account and rights of an agent that gives credentials, in order of creation.
pub(crate) fn rights(hub_uid: &str) -> Result<Vec<DynamicObject>, ObjectError> {
    let rights = objects::parse(RIGHTS)?.into_iter();
    Ok(rights.map(|object| of_hub(object, hub_uid)).collect())
}

/// Returns the account of agents, with all rights that one may have.
fn rights_of_all() -> Result<Vec<DynamicObject>, ObjectError> {
    let mut rights = objects::parse(RIGHTS)?;
    let mut of_enrolment = objects::parse(ENROLMENT)?;
    of_enrolment.retain(|one| !objects::is_a(one, "ServiceAccount"));
    rights.extend(of_enrolment);
    Ok(rights)
}

/// Source of the agent's image.
#[derive(Clone, Debug)]
pub(crate) enum AgentImage {
    Given(String),
    /// The image of this version, from a registry.
    Of {
        registry: String,
    },
}

impl AgentImage {
    /// Sets the image of a Deployment of the agent.
    pub(in crate::commands::membership) fn place(&self, deployment: &mut DynamicObject) {
        match self {
            Self::Given(image) => {
                for container in bundle::containers(deployment) {
                    container["image"] = json!(image);
                }
            }
            Self::Of { registry } => bundle::place(deployment, Some(registry), None),
        }
    }
}

/// Returns the agent's objects without data, in order of deletion.
fn bare() -> Result<Vec<DynamicObject>, ObjectError> {
    let mut objects = objects::parse(MANIFEST)?;
    objects.extend(rights_of_all()?.into_iter().rev());
    objects.push(secret_of("agent", AGENT_SECRET, Data::new())?);
    Ok(objects)
}

/// Checks that the member has no agent of another hub or owner.
///
/// # Errors
/// [`MemberError::ForeignAgent`].
pub(crate) async fn check(member: &ApiServer, hub_uid: &str) -> Result<(), Failure> {
    ownership::check(member, hub_uid, &bare()?, "docs/edge.md").await
}

/// Returns the agent's objects that `join` or `tunnel add` created for the hub with the given UID,
/// in order of deletion. Prints a note for each other one.
pub(crate) async fn owned(
    member: &ApiServer,
    hub_uid: &str,
) -> Result<Vec<DynamicObject>, Failure> {
    ownership::owned(member, hub_uid, bare()?).await
}

/// Returns the URL of the member's API server for its own pods, which the agent reaches: the
/// address of Service `default/kubernetes`.
pub(crate) async fn api_endpoint(member: &ApiServer) -> Result<String, Failure> {
    let services = member.within::<Service>("default");
    let service = member.request(services.get("kubernetes")).await?;
    Ok(endpoint(&service).ok_or(MemberError::NoApiService)?)
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
    use super::*;

    #[test]
    fn agent_is_that_of_the_manifest_with_address_image_and_hub() {
        let address = "[2001:db8::1]:8443".parse().expect("an address");
        let manifest = &objects::parse(MANIFEST).expect("objects")[0];
        let version = env!("CARGO_PKG_VERSION");
        for (image, expected) in [
            (
                AgentImage::Of {
                    registry: "causeway".to_owned(),
                },
                format!("causeway/causeway-agent:{version}"),
            ),
            (
                AgentImage::Of {
                    registry: "registry.example/team".to_owned(),
                },
                format!("registry.example/team/causeway-agent:{version}"),
            ),
            (AgentImage::Given("a/b:1".to_owned()), "a/b:1".to_owned()),
        ] {
            let made = deployment("uid", &address, &image, false);
            let mut deployment = made.expect("a Deployment");
            assert!(is_of_hub(&deployment, "uid") && !is_of_hub(&deployment, "other"));
            let container = bundle::containers(&mut deployment)
                .next()
                .expect("a container");
            assert_eq!(container["image"], expected);
            assert_eq!(container["args"][0], "--tunnel=[2001:db8::1]:8443");
            let mut through = deployment.clone();
            through_api_server(&mut through);
            assert!(is_through_api_server(&through, "uid"));
            assert!(!is_through_api_server(&through, "other"));
            assert!(!is_through_api_server(&deployment, "uid"));
            let container = bundle::containers(&mut deployment).next().expect("one");
            let other = bundle::containers(&mut through).next().expect("one");
            assert_eq!(other["args"][0], THROUGH);
            assert_eq!(other["args"][1], container["args"][1]);
            container["image"] = json!(format!("causeway/causeway-agent:{version}"));
            container["args"][0] = json!("--tunnel=TUNNEL");
            assert_eq!(deployment.data, manifest.data);
        }
    }

    #[test]
    fn agent_that_gives_credentials_has_an_account_and_the_flag() {
        let address = "tunnel.example".parse().expect("an address");
        let image = AgentImage::Given("a/b:1".to_owned());
        let made = deployment("uid", &address, &image, true).expect("a Deployment");
        let pod = &made.data["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], true);
        let args = pod["containers"][0]["args"].as_array().expect("flags");
        assert!(args.contains(&json!(TOKEN_ACCOUNT)), "{args:?}");
        let rights = rights("uid").expect("objects");
        let [account, role, binding] = &rights[..] else {
            panic!("{rights:?}")
        };
        assert_eq!(account.metadata.name.as_deref(), Some(ACCOUNT));
        assert_eq!(pod["serviceAccountName"], ACCOUNT);
        assert_eq!(binding.data["subjects"][0]["name"], ACCOUNT);
        let token = format!(
            "--token-account=causeway-system/{}",
            role.data["rules"][0]["resourceNames"][0]
                .as_str()
                .expect("a name")
        );
        assert_eq!(token, TOKEN_ACCOUNT);
        assert!(rights.iter().all(|one| is_of_hub(one, "uid")));
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

    #[test]
    fn agent_gives_tokens_of_the_account_that_join_creates() {
        let rights = super::super::OptionalRights::default();
        let account = super::super::account("uid", rights).expect("objects");
        let mut accounts = account
            .iter()
            .filter(|one| objects::is_a(one, "ServiceAccount"));
        let meta = &accounts.next().expect("an account").metadata;
        let namespace = meta.namespace.as_deref().expect("a namespace");
        let name = meta.name.as_deref().expect("a name");
        assert_eq!(TOKEN_ACCOUNT, format!("--token-account={namespace}/{name}"));
    }
}
