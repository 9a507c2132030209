//! `kubectl mcs join --dry-run=client`: prints the objects of both clusters, for users who store
//! them in git.
//!
//! The dry run creates nothing, and no token exists. The printed Secret of the hub therefore has no
//! token key. Applying the printed Secret again never changes a token that another process added.

use causeway::domain::ClusterName;
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use kube::api::DynamicObject;

use super::agent::Agent;
use super::joining::Joining;
use super::optional_rights;
use super::paths::Paths;
use crate::args::JoinArgs;
use crate::cluster::access::Side;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::definitions;
use crate::commands::membership::hub::{self, HubError};
use crate::commands::membership::member;
use crate::commands::membership::member::agent::AGENT_SECRET;
use crate::term::exit::Failure;
use crate::term::output::{self, Format, OutputError};

/// Annotation by which Flux retains fields that kubectl and `kubectl mcs join` write and git lacks,
/// such as the token.
const RETAIN_FIELDS: (&str, &str) = ("kustomize.toolkit.fluxcd.io/ssa", "Merge");

/// Prints the objects that `join` would apply. Reads both clusters and changes neither.
pub(super) async fn print(
    hub: &ApiServer,
    member: &ApiServer,
    name: &ClusterName,
    args: &JoinArgs,
) -> Result<(), Failure> {
    match hub::check_cluster_api(hub).await {
        // The user may install causeway on the hub later in the same way.
        Ok(()) | Err(HubError::Request(RequestError::NotServed { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    let joining = Joining::read(hub, member, name, args).await?;
    let agent = Agent::prepare(&joining).await?;
    let paths = Paths::prepare(&joining).await?;
    let mut sets = Vec::new();
    if args.only != Some(Side::Hub) {
        let mut objects = of_member(&joining).await?;
        if let Some(agent) = &agent {
            objects.extend(agent.objects.rights.iter().cloned());
            objects.push(agent.objects.deployment.clone());
            note_certificate()?;
        }
        objects.extend(paths.objects);
        sets.push((format!("the member, {}", member.url()), objects));
    }
    if args.only != Some(Side::Member) {
        joining.note_kept()?;
        let location = joining.location().await?.location;
        let mut objects = Vec::new();
        if !joining.gives_credentials() {
            objects.push(secret(&joining).await?);
            note_token(name, &joining.hub_uid)?;
        }
        objects.push(joining.cluster(&location)?);
        for object in &mut objects {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert(RETAIN_FIELDS.0.to_owned(), RETAIN_FIELDS.1.to_owned());
        }
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
async fn secret(joining: &Joining<'_>) -> Result<DynamicObject, Failure> {
    let (name, args) = (joining.name, joining.args);
    if joining.member.config.root_cert.is_none() {
        output::progress(
            "note: the member's kubeconfig names no certificate authority, so the hub verifies the \
             member by the authority that the member publishes, not by the authorities of your \
             system",
        )?;
    }
    let ca_bundle = member::published_authorities(joining.member).await?;
    let given = member::certificates("--proxy-ca", args.proxy_ca.as_deref())?;
    let proxy_ca = given.or(hub::stored(joining.hub, name).await?.proxy_ca);
    Ok(hub::secret(name, None, &ca_bundle, proxy_ca.as_deref())?)
}

async fn of_member(joining: &Joining<'_>) -> Result<Vec<DynamicObject>, Failure> {
    let (member, hub_uid) = (joining.member, &joining.hub_uid);
    let mut objects = member::account(hub_uid, optional_rights(joining.args))?;
    if !joining.gives_credentials() {
        let [token, _] = member::token_names(hub_uid);
        objects.push(member::token_secret(hub_uid, &token)?);
    }
    objects.extend(member::policy(member).await?);
    if joining.args.skip_crds {
        return Ok(objects);
    }
    let definitions = definitions::choose(member).await?;
    objects.extend(definitions.apply.into_iter().map(|one| one.object));
    for message in definitions.left {
        output::progress(format_args!("note: member: {message}"))?;
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
         kubectl --kubeconfig HUB -n {MEMBERS_NAMESPACE} patch secret {name} --field-manager=causeway-token --patch-file /dev/stdin"
    ))
}

/// Prints that the Secret of the agent is not among the objects.
fn note_certificate() -> Result<(), OutputError> {
    output::progress(format_args!(
        "note: Secret {DEFAULT_NAMESPACE}/{AGENT_SECRET} of the member is left out, because it holds a private key: kubectl mcs join \
         without --dry-run issues it, or your own issuer does (docs/edge.md)"
    ))
}
