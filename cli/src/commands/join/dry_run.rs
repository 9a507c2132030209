//! `kubectl mcs join --dry-run=client`: prints the objects of both clusters, for users who store
//! them in git.
//!
//! The dry run creates nothing, and no token exists. The printed Secret of the hub therefore has no
//! token key. Applying the printed Secret again never changes a token that another process added.

use causeway::domain::ClusterName;
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use kube::api::DynamicObject;

use super::agent::{Agent, gives_credentials};
use super::checks::{Facts, certificates};
use super::paths::Paths;
use super::{location, networking, optional_rights, reached_at, recorded};
use crate::args::JoinArgs;
use crate::cluster::access::Side;
use crate::cluster::api_server::ApiServer;
use crate::cluster::definitions::{self, Choice};
use crate::commands::membership::hub::{self, HubError};
use crate::commands::membership::member;
use crate::commands::membership::member::agent::AGENT_SECRET;
use crate::term::exit::Failure;
use crate::term::output::{self, Format, OutputError};

/// Prints the objects that `join` would apply. Reads both clusters and changes neither.
pub(super) async fn print(
    hub: &ApiServer,
    member: &ApiServer,
    name: &ClusterName,
    endpoint: Option<String>,
    args: &JoinArgs,
) -> Result<(), Failure> {
    match hub::check_cluster_api(hub).await {
        // The user may install causeway on the hub later in the same way.
        Ok(()) | Err(HubError::NoClusterApi) => {}
        Err(error) => return Err(error.into()),
    }
    let facts = Facts::read(hub, member, name, args).await?;
    let Facts {
        identity,
        known,
        hub_uid,
    } = facts;
    let record = recorded(&known, name);
    let of_agent = gives_credentials(record, args);
    let agent = Agent::prepare(hub, member, &hub_uid, (name, record), args).await?;
    let paths = Paths::prepare(hub, member, &hub_uid, record, args).await?;
    let mut sets = Vec::new();
    if args.only != Some(Side::Hub) {
        let mut objects = of_member(member, &hub_uid, of_agent, args).await?;
        if let Some(agent) = &agent {
            objects.extend(agent.objects.rights.iter().cloned());
            objects.push(agent.objects.deployment.clone());
            note_certificate()?;
        }
        objects.extend(paths.objects);
        sets.push((format!("the member, {}", member.url()), objects));
    }
    if args.only != Some(Side::Member) {
        let endpoint = reached_at(member, endpoint, agent.as_ref());
        let location = location(member, &known, name, args).await?.location;
        let proxy = member.proxy_url.as_deref().filter(|_| agent.is_none());
        let cluster = hub::MemberFields {
            id: Some(&identity.uid),
            endpoint: Some(&endpoint),
            proxy,
            location: &location,
            networking: &networking(&known, name, args),
            is_tunnelled: agent.is_some(),
            has_agent_credentials: of_agent,
            reports_paths: paths.are_read,
        };
        let mut objects = Vec::new();
        if !of_agent {
            objects.push(secret(hub, member, name, args).await?);
            note_token(name, &hub_uid)?;
        }
        objects.push(hub::cluster(name, &cluster)?);
        sets.push((format!("the hub, {}", hub.url()), objects));
    }
    let format = args.output.format.unwrap_or(Format::Yaml);
    Ok(output::result(text(&sets, format)?)?)
}

/// Returns the objects of each cluster. YAML begins with a comment that names the cluster.
pub(super) fn text(
    sets: &[(String, Vec<DynamicObject>)],
    format: Format,
) -> Result<String, OutputError> {
    let texts = sets.iter().map(|(cluster, objects)| match format {
        Format::Json => output::list(objects),
        Format::Yaml => Ok(format!("# For {cluster}\n{}", output::manifest(objects)?)),
    });
    let texts: Vec<_> = texts.collect::<Result<_, _>>()?;
    Ok(texts.join(match format {
        Format::Json => "\n",
        Format::Yaml => "\n---\n",
    }))
}

/// Returns the Secret of the hub without its token.
async fn secret(
    hub: &ApiServer,
    member: &ApiServer,
    name: &ClusterName,
    args: &JoinArgs,
) -> Result<DynamicObject, Failure> {
    let ca_bundle = member::published_authorities(member).await?;
    let given = args.proxy_ca.as_deref().map(certificates).transpose()?;
    let proxy_ca = given.or(hub::stored(hub, name).await?.proxy_ca);
    Ok(hub::secret(name, None, &ca_bundle, proxy_ca.as_deref())?)
}

async fn of_member(
    member: &ApiServer,
    hub_uid: &str,
    of_agent: bool,
    args: &JoinArgs,
) -> Result<Vec<DynamicObject>, Failure> {
    let mut objects = member::account(hub_uid, optional_rights(args))?;
    if !of_agent {
        let [token, _] = member::token_names(hub_uid);
        objects.push(member::token_secret(hub_uid, &token)?);
    }
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

/// Prints the command that copies the token to the hub.
fn note_token(name: &ClusterName, hub_uid: &str) -> Result<(), OutputError> {
    let [token, _] = member::token_names(hub_uid);
    output::progress(format_args!(
        "note: Secret {MEMBERS_NAMESPACE}/{name} is printed without its token, which the member issues once its objects are applied. \
         Copy it to the hub then:\n\
         kubectl --kubeconfig MEMBER -n {DEFAULT_NAMESPACE} get secret {token} -o go-template='{{\"data\":{{\"token\":\"{{{{.data.token}}}}\"}}}}' | \
         kubectl --kubeconfig HUB -n {MEMBERS_NAMESPACE} patch secret {name} --patch-file /dev/stdin"
    ))
}

/// Prints that the Secret of the agent is not among the objects.
fn note_certificate() -> Result<(), OutputError> {
    output::progress(format_args!(
        "note: Secret {DEFAULT_NAMESPACE}/{AGENT_SECRET} of the member is left out, because it holds a private key: kubectl mcs join \
         without --dry-run issues it, or your own issuer does (docs/edge.md)"
    ))
}
