//! `kubectl mcs join --pull --tunnel HOST -o yaml`: prints a file by which a member enrols that is
//! not reached from here. The token in it is good once.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::{Cluster, ClusterSpec, SyncMode};
use causeway::domain::ClusterName;
use causeway::domain::enrolment::{CLUSTER_UID, EXPIRES, HASH, NAME, NAMESPACE, TOKEN};
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use causeway::target::is_tunnelled;
use causeway_certs::CA_CERTIFICATE;
use k8s_openapi::ByteString;
use k8s_openapi::jiff::SignedDuration;
use kube::api::DynamicObject;
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::checks::{check_identity, check_version};
use super::dry_run::text;
use super::{JoinError, TOKENS, annotations, optional_rights, recorded};
use crate::args::JoinArgs;
use crate::cluster::access::{HubArgs, Side};
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::lease;
use crate::cluster::objects::{self, ObjectError};
use crate::cluster::random;
use crate::cluster::tunnel::address::TunnelAddress;
use crate::cluster::tunnel::authority::Data;
use crate::cluster::tunnel::{self, SERVER_SECRET};
use crate::commands::membership::agent;
use crate::commands::membership::hub;
use crate::commands::membership::location::Location;
use crate::commands::membership::member;
use crate::commands::membership::member::agent as agent_objects;
use crate::observe::once;
use crate::term::exit::Failure;
use crate::term::output::{self, OutputError};

/// Size of a token, in bytes.
const TOKEN_BYTES: usize = 32;
/// Time within which a token is good by default.
const WITHIN: Duration = Duration::from_secs(600);

/// Creates the Cluster and the token on the hub, and prints the file for the member.
pub(super) async fn run(hub: &HubArgs, name: &ClusterName, args: &JoinArgs) -> Result<(), Failure> {
    let (Some(address), Some(format)) = (&args.tunnel, args.output.format) else {
        return Err(JoinError::NoMember.into());
    };
    let hub = ApiServer::hub(hub).await?;
    hub.check_verified(TOKENS)?;
    check_version(&hub, args).await?;
    hub::check_cluster_api(&hub).await?;
    if hub.namespace(NAMESPACE).await?.is_none() {
        return Err(JoinError::NoEnrolment(address.clone()).into());
    }
    let known = once::clusters(&hub).await?.unwrap_or_default();
    let recorded = recorded(&known, name);
    check(&known, recorded, name, args)?;
    let token = args.dry_run.is_none().then(token).transpose()?;
    let data = data(&hub, name, address, token.as_deref()).await?;
    let objects = of_member(&hub, address, data, args).await?;
    let cluster = cluster(recorded, name, args)?;
    match &token {
        Some(token) => store(&hub, name, &cluster, token, args).await?,
        None => output::progress("note: the token is left out, because a dry run makes none")?,
    }
    let of_member = (format!("member {name}"), objects);
    let of_hub = (format!("the hub, {}", hub.url()), vec![cluster]);
    let parts = match (args.dry_run.is_some(), args.only) {
        (false, _) | (true, Some(Side::Member)) => vec![of_member],
        (true, Some(Side::Hub)) => vec![of_hub],
        (true, None) => vec![of_member, of_hub],
    };
    Ok(output::result(text(&parts, format)?)?)
}

/// Checks that the name is that of no other cluster, and of none that the hub dials. Without a
/// given UID the recorded one stays, and the controller refuses another cluster.
fn check(
    known: &[Cluster],
    recorded: Option<&Cluster>,
    name: &ClusterName,
    args: &JoinArgs,
) -> Result<(), JoinError> {
    let id = recorded.and_then(|one| one.spec.id.as_deref());
    let id = args.enrolment.id.as_deref().or(id);
    check_identity(known, name, id.unwrap_or_default())?;
    match recorded.is_some_and(|one| !is_tunnelled(one)) {
        true => Err(JoinError::Dialled(name.clone())),
        false => Ok(()),
    }
}

fn token() -> Result<String, JoinError> {
    random::digits::<TOKEN_BYTES>().map_err(|_| JoinError::NoRandom)
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

/// Returns the data of the agent's Secret.
async fn data(
    hub: &ApiServer,
    name: &ClusterName,
    address: &TunnelAddress,
    token: Option<&str>,
) -> Result<Data, Failure> {
    let server = tunnel::secret(hub, SERVER_SECRET).await?;
    let authorities = server.and_then(|secret| secret.data?.remove(CA_CERTIFICATE));
    let authorities = authorities.ok_or_else(|| JoinError::NoEnrolment(address.clone()))?;
    let mut data = Data::from([(CA_CERTIFICATE, authorities), (NAME, bytes(name.as_str()))]);
    data.extend(token.map(|token| (TOKEN, bytes(token))));
    Ok(data)
}

/// Returns the Cluster, with what is recorded and no flag changes.
fn cluster(
    recorded: Option<&Cluster>,
    name: &ClusterName,
    args: &JoinArgs,
) -> Result<DynamicObject, ObjectError> {
    let given = Location::new(args.region.clone(), args.zones.clone());
    let location = given.or(recorded.map_or_else(Location::default, Location::recorded));
    let id = args.enrolment.id.clone();
    let endpoint = args.api_endpoint.clone();
    let spec = ClusterSpec {
        id: id.or_else(|| recorded?.spec.id.clone()),
        sync_mode: Some(SyncMode::Pull),
        api_endpoint: endpoint.or_else(|| recorded?.spec.api_endpoint.clone()),
        region: location.region,
        zones: location.zones,
        // Without a Secret: the hub stores no token of the member.
        ..ClusterSpec::default()
    };
    hub::cluster(name, annotations(recorded, args), &spec)
}

/// Returns the objects for the member: those that `join` applies elsewhere, without a token of the
/// hub and without definitions, which may be somebody else's.
async fn of_member(
    hub: &ApiServer,
    address: &TunnelAddress,
    data: Data,
    args: &JoinArgs,
) -> Result<Vec<DynamicObject>, Failure> {
    let hub_uid = hub.uid().await?;
    let mut objects = member::account(&hub_uid, optional_rights(args))?;
    objects.extend(member::any_policy()?);
    let image = args.agent_image.as_deref();
    let image = agent::image((hub, None), agent_objects::DEPLOYMENT, image).await?;
    let deployment = agent_objects::deployment(&hub_uid, address, &image, true)?;
    objects.extend(agent_objects::enrolling(&hub_uid, deployment, data)?);
    Ok(objects)
}

/// Stores the Cluster and the hash of the token on the hub, and deletes the credentials that an
/// earlier join stored there. An earlier token is good no more.
async fn store(
    hub: &ApiServer,
    name: &ClusterName,
    cluster: &DynamicObject,
    token: &str,
    args: &JoinArgs,
) -> Result<(), Failure> {
    let [mut bootstrap, member] = hub::enrolment_secrets(name)?;
    let within = args.enrolment.enrol_within.unwrap_or(WITHIN);
    let within = SignedDuration::try_from(within).unwrap_or_default();
    let now = lease::now(hub).await;
    let expires = now.checked_add(within).unwrap_or_default();
    let expires = format!("{expires:.0}");
    let hash = random::hex(digest(&SHA256, token.as_bytes()).as_ref());
    let earlier = stored_credentials(hub, name).await?;
    let mut data = BTreeMap::from([(HASH, bytes(&hash)), (EXPIRES, bytes(&expires))]);
    for object in [cluster, &member] {
        let stored = objects::apply_quietly(hub, object).await?;
        output::progress(format_args!("hub: {} applied", objects::title(object)))?;
        if objects::is_a(object, "Cluster") {
            data.extend(stored.metadata.uid.map(|uid| (CLUSTER_UID, bytes(&uid))));
        }
    }
    end_stored_credentials(hub, name, earlier).await?;
    bootstrap.data["data"] = json!(data);
    // Another object: what causeway-tunnel noted in an earlier one is of the token before.
    objects::delete(hub, &bootstrap).await?;
    objects::create(hub, &bootstrap).await?;
    let title = objects::title(&bootstrap);
    output::progress(format_args!("hub: {title} created"))?;
    Ok(output::progress(format_args!(
        "apply the file in {name} until {expires}: kubectl apply -f FILE. It is good for one cluster, so keep it secret until \
         then. kubectl mcs tunnel shows when the agent is connected"
    ))?)
}

/// Returns the credentials that an earlier join stored on the hub. Prints a note if the user may
/// not read them: a join by a file needs no rights in their namespace.
async fn stored_credentials(
    hub: &ApiServer,
    name: &ClusterName,
) -> Result<Option<DynamicObject>, Failure> {
    match hub::credentials(hub, name).await {
        Ok(stored) => Ok(stored),
        Err(ObjectError::Request(RequestError::NotAllowed { .. })) => {
            note_kept_credentials(name, "read")?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn note_kept_credentials(name: &ClusterName, verb: &str) -> Result<(), OutputError> {
    output::progress(format_args!(
        "note: you may not {verb} Secret {MEMBERS_NAMESPACE}/{name}; if it exists, have it \
         deleted: kubectl -n {MEMBERS_NAMESPACE} delete secret --ignore-not-found {name}"
    ))
}

/// Deletes the credentials that an earlier join stored on the hub. Their token in the member, which
/// this command does not reach, stays valid.
async fn end_stored_credentials(
    hub: &ApiServer,
    name: &ClusterName,
    stored: Option<DynamicObject>,
) -> Result<(), Failure> {
    let Some(stored) = stored else {
        return Ok(());
    };
    match objects::delete(hub, &stored).await {
        Ok(_) => {}
        Err(ObjectError::Request(RequestError::NotAllowed { .. })) => {
            return Ok(note_kept_credentials(name, "delete")?);
        }
        Err(error) => return Err(error.into()),
    }
    output::progress(format_args!("hub: {} deleted", objects::title(&stored)))?;
    let tokens = member::token_names(&hub.uid().await?).join(" ");
    Ok(output::progress(format_args!(
        "note: the token of the earlier join is valid until it is deleted in {name}: kubectl -n \
         {DEFAULT_NAMESPACE} delete secret --ignore-not-found {tokens}"
    ))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_have_256_bits() {
        let [one, other] = [(); 2].map(|()| token().expect("a token"));
        assert_ne!(one, other);
        assert_eq!(one.len(), 2 * TOKEN_BYTES);
    }
}
