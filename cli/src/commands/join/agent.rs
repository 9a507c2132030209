//! The agent of a member that is joined through causeway-tunnel.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::domain::protected::DEFAULT_NAMESPACE;
use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::JoinError;
use super::joining::Joining;
use crate::cluster::api_server::ApiServer;
use crate::cluster::objects::{self, Run};
use crate::cluster::tunnel;
use crate::cluster::tunnel::authority::UPGRADE;
use crate::commands::membership::agent::{AgentObjects, AgentRequest};
use crate::commands::membership::hub;
use crate::commands::membership::member;
use crate::commands::membership::member::agent;
use crate::term::exit::Failure;

/// Objects of an agent.
pub(super) struct Agent {
    pub objects: AgentObjects,
    /// Account and rights of an agent that gives no credentials any more.
    unwanted: Vec<DynamicObject>,
}

impl Agent {
    /// Issues a certificate, or keeps the stored one, and makes the objects. An agent that comes
    /// through the hub's API server continues to, at the stored address. Returns `None` for a
    /// member that the hub dials. Changes nothing.
    ///
    /// # Errors
    /// The hub has no CA for the tunnel, or the member has an agent of somebody else.
    pub(super) async fn prepare(joining: &Joining<'_>) -> Result<Option<Self>, Failure> {
        let (hub, member, args) = (joining.hub, joining.member, joining.args);
        let Some(address) = &args.tunnel else {
            return Ok(None);
        };
        let hub_uid = &joining.hub_uid;
        let kubeconfig = if args.through_api_server {
            let token = token(hub).await?;
            Some(kubeconfig(hub, &token).await?)
        } else if agent::comes_through_api_server(member, hub_uid).await? {
            Some(renewed(hub, member).await?)
        } else {
            None
        };
        let gives_credentials = joining.gives_credentials();
        let unwanted = match joining.gave_credentials() && !gives_credentials {
            true => agent::rights(hub_uid)?,
            false => Vec::new(),
        };
        let request = AgentRequest {
            hub_uid,
            name: joining.name,
            address,
            image: args.agent_image.as_deref(),
            kubeconfig: kubeconfig.as_ref(),
            gives_credentials,
        };
        Ok(Some(Self {
            objects: AgentObjects::issue(hub, Some(member), request).await?,
            unwanted,
        }))
    }

    /// Checks that applying the objects takes no field from another field manager, unless
    /// `--force-conflicts` is set.
    pub(super) async fn check(&self, joining: &Joining<'_>) -> Result<(), Failure> {
        let force = joining.args.force_conflicts;
        self.objects.check(joining.member, force).await
    }

    /// Applies the objects to the member, after [`Self::check`].
    pub(super) async fn apply(&self, joining: &Joining<'_>) -> Result<(), Failure> {
        let (member, force) = (joining.member, joining.args.force_conflicts);
        self.objects.apply(member, Run::Real, force).await?;
        for object in self.unwanted.iter().rev() {
            objects::remove(member, object).await?;
        }
        Ok(())
    }
}

/// Reads the token of the account that may reach causeway-tunnel through the hub's API server.
async fn token(hub: &ApiServer) -> Result<String, Failure> {
    let stored = tunnel::secret(hub, UPGRADE).await?;
    let data = stored.and_then(|secret| secret.data).unwrap_or_default();
    let token = data.get("token").ok_or(JoinError::NoAccount)?;
    Ok(String::from_utf8_lossy(&token.0).into_owned())
}

/// Returns the stored kubeconfig of an agent with the present token. The address and the
/// authorities of the hub stay, because the member may not reach the address of the caller's
/// kubeconfig. Returns a new kubeconfig if the stored one is unusable.
async fn renewed(hub: &ApiServer, member: &ApiServer) -> Result<ByteString, Failure> {
    let token = token(hub).await?;
    let stored = tunnel::secret(member, agent::AGENT_SECRET).await?;
    let stored = stored.and_then(|secret| secret.data?.remove(agent::KUBECONFIG));
    match stored.and_then(|stored| with_token(&stored.0, &token)) {
        Some(kubeconfig) => Ok(kubeconfig),
        None => kubeconfig(hub, &token).await,
    }
}

/// Replaces the tokens of a kubeconfig. Returns `None` if it has no address of the hub.
fn with_token(kubeconfig: &[u8], token: &str) -> Option<ByteString> {
    let mut kubeconfig: Value = serde_json::from_slice(kubeconfig).ok()?;
    kubeconfig
        .pointer("/clusters/0/cluster/server")?
        .as_str()
        .filter(|server| !server.is_empty())?;
    let users = kubeconfig.get_mut("users").and_then(Value::as_array_mut);
    for user in users.into_iter().flatten() {
        if let Some(stored) = user.pointer_mut("/user/token") {
            *stored = json!(token);
        }
    }
    Some(ByteString(kubeconfig.to_string().into_bytes()))
}

/// Returns a kubeconfig with the address and the authorities of the caller's kubeconfig.
async fn kubeconfig(hub: &ApiServer, token: &str) -> Result<ByteString, Failure> {
    let authorities = member::published_authorities(hub).await?;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hub",
        "contexts": [{
            "name": "hub",
            "context": {"cluster": "hub", "user": UPGRADE, "namespace": DEFAULT_NAMESPACE},
        }],
        "clusters": [{
            "name": "hub",
            "cluster": {
                "server": hub.url(),
                "certificate-authority-data": STANDARD.encode(authorities),
                "tls-server-name": hub.config.tls_server_name,
            },
        }],
        "users": [{
            "name": UPGRADE,
            "user": {"token": token},
        }],
    });
    Ok(ByteString(kubeconfig.to_string().into_bytes()))
}

/// Deletes the tokens that an earlier join stored for the hub, on both sides.
pub(super) async fn end_stored_tokens(joining: &Joining<'_>) -> Result<(), Failure> {
    if let Some(secret) = hub::credentials(joining.hub, joining.name).await? {
        objects::remove(joining.hub, &secret).await?;
    }
    for token in member::token_names(&joining.hub_uid) {
        let token = member::token_secret(&joining.hub_uid, &token)?;
        objects::remove(joining.member, &token).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_way_has_the_stored_address_and_the_present_token() {
        let stored = |server: &str, user: Value| {
            let cluster = json!({"server": server, "certificate-authority-data": "QQ=="});
            json!({
                "clusters": [{"name": "hub", "cluster": cluster}],
                "users": [{"name": UPGRADE, "user": user}],
            })
        };
        let token = |token: &str| json!({ "token": token });
        let by_file = || json!({"tokenFile": "/var/run/token"});
        for (before, after) in [
            (
                stored("https://inside:6443", token("old")),
                Some(stored("https://inside:6443", token("new"))),
            ),
            (
                stored("https://inside:6443", by_file()),
                Some(stored("https://inside:6443", by_file())),
            ),
            (stored("", token("old")), None),
            (json!({}), None),
        ] {
            let renewed = with_token(before.to_string().as_bytes(), "new");
            let after = after.map(|after| ByteString(after.to_string().into_bytes()));
            assert_eq!(renewed, after, "{before}");
        }
        assert_eq!(with_token(b"no JSON: {", "new"), None);
    }
}
