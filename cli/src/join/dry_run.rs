//! `kubectl mcs join --dry-run=client`: the objects of both clusters, for those who keep them in git.
//!
//! Nothing is created, so there is no token: the Secret for the hub is printed without that key. Whoever applies it
//! as printed, and later applies it again, leaves the token alone that came to the hub by another way.

use causeway::domain::ClusterName;
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use kube::api::DynamicObject;
use serde_json::json;

use super::{JoinError, certificates, check_identity, location, networking, optional_rights};
use crate::api_server::ApiServer;
use crate::args::Side;
use crate::args::{Format, JoinArgs};
use crate::definitions::{self, Choice};
use crate::hub::{self, HubError};
use crate::output::OutputError;
use crate::{member, output};

/// Prints what `join` would apply. Both clusters are read, and neither is changed.
pub(super) async fn print(
    hub: &ApiServer,
    member: &ApiServer,
    name: &ClusterName,
    endpoint: Option<String>,
    args: &JoinArgs,
) -> Result<(), JoinError> {
    match hub::check_cluster_api(hub).await {
        // causeway may come to the hub in the same way, later.
        Ok(()) | Err(HubError::NoClusterApi) => {}
        Err(error) => return Err(error.into()),
    }
    let identity = member::identify(member).await?;
    let known = hub::known(hub).await?;
    check_identity(&known, name, &identity.uid)?;
    let hub_uid = hub.uid().await?;
    let mut sets = Vec::new();
    if args.only != Some(Side::Hub) {
        sets.push((member, of_member(member, &hub_uid, args).await?));
    }
    if args.only != Some(Side::Member) {
        let endpoint = endpoint.unwrap_or_else(|| member.url());
        let ca_bundle = member::published_authorities(member).await?;
        let given = args.proxy_ca.as_deref().map(certificates).transpose()?;
        let proxy_ca = given.or(hub::stored(hub, name).await?.proxy_ca);
        let secret = hub::secret(name, None, &ca_bundle, proxy_ca.as_deref())?;
        let location = location(member, &known, name, args).await?.location;
        let proxy = member.proxy_url.as_deref();
        let cluster = hub::MemberFields {
            id: &identity.uid,
            endpoint: &endpoint,
            proxy,
            location: &location,
            networking: &networking(&known, name, args),
        };
        let cluster = hub::cluster(name, &cluster)?;
        sets.push((hub, vec![secret, cluster]));
        note_token(name, &hub_uid)?;
    }
    let texts = sets
        .iter()
        .map(|(server, objects)| match args.output.format {
            Some(Format::Json) => list(objects),
            Some(Format::Yaml) | None => manifest(server, objects),
        });
    let texts: Vec<_> = texts.collect::<Result<_, _>>()?;
    let part = match args.output.format {
        Some(Format::Json) => "\n",
        Some(Format::Yaml) | None => "\n---\n",
    };
    Ok(output::result(texts.join(part))?)
}

async fn of_member(
    member: &ApiServer,
    hub_uid: &str,
    args: &JoinArgs,
) -> Result<Vec<DynamicObject>, JoinError> {
    let mut objects = member::account(hub_uid, optional_rights(args))?;
    let [token, _] = member::token_names(hub_uid);
    objects.push(member::token_secret(hub_uid, &token)?);
    objects.extend(member::policy(member).await?);
    if args.skip_crds {
        return Ok(objects);
    }
    match definitions::choose(member).await? {
        Choice::Apply(kinds) => {
            for kind in kinds {
                objects.push(kind.definition()?);
            }
        }
        Choice::Leave(messages) => {
            for message in messages {
                output::progress(format_args!("note: member: {message}"))?;
            }
        }
    }
    Ok(objects)
}

/// Says how the token comes to the hub.
fn note_token(name: &ClusterName, hub_uid: &str) -> Result<(), OutputError> {
    let [token, _] = member::token_names(hub_uid);
    output::progress(format_args!(
        "note: Secret {MEMBERS_NAMESPACE}/{name} is printed without its token, which the member issues once its objects are applied. \
         Copy it to the hub then:\n\
         kubectl --kubeconfig MEMBER -n {DEFAULT_NAMESPACE} get secret {token} -o go-template='{{\"data\":{{\"token\":\"{{{{.data.token}}}}\"}}}}' | \
         kubectl --kubeconfig HUB -n {MEMBERS_NAMESPACE} patch secret {name} --patch-file /dev/stdin"
    ))
}

fn manifest(server: &ApiServer, objects: &[DynamicObject]) -> Result<String, OutputError> {
    let text = output::manifest(objects)?;
    Ok(format!(
        "# For the {}, {}\n{text}",
        server.side,
        server.url()
    ))
}

/// Objects as kubectl prints and applies more than one in JSON.
fn list(objects: &[DynamicObject]) -> Result<String, OutputError> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    Ok(serde_json::to_string_pretty(&list)?)
}
