//! `kubectl mcs tunnel add`: brings causeway-agent to a member that karmada-agent registered, and
//! has the hub reach it through causeway-tunnel.
//!
//! Karmada keeps the membership: the Cluster gets an annotation, and the Secret that karmada-agent
//! reported is used as it is. Each step may be the last of an interrupted run; the next run does
//! them all again.

use causeway::api::{Cluster, SyncMode, labels};
use causeway::domain::ClusterName;
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::change::{self, ChangeError};
use crate::args::{DryRun, TunnelAddArgs};
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::identity::check_identity;
use crate::cluster::objects::Run;
use crate::cluster::wait;
use crate::commands::membership::agent::{AgentObjects, AgentRequest};
use crate::commands::membership::hub;
use crate::commands::membership::member;
use crate::observe::connect::{self, ConnectError};
use crate::term::exit::{ExitState, Failure};
use crate::term::output::{self, Format, OutputError};

/// Adds a member to the tunnel. Returns [`ExitState::Unknown`] if whether its agent is connected
/// cannot be read.
pub(super) async fn run(hub: &HubArgs, args: &TunnelAddArgs) -> Result<ExitState, Failure> {
    let name = hub::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    hub.check_verified(change::KEY)?;
    let member = change::member(&args.member).await?;
    let cluster = pulled(&hub, &name, args).await?;
    let reached = reached(&hub, &name, &cluster, args).await?;
    if let Some(member) = &member {
        let uid = member::identify(member).await?.uid;
        let checked = check_identity(name.as_str(), cluster.spec.id.as_deref(), &uid);
        checked.map_err(ChangeError::AnotherCluster)?;
    }
    let hub_uid = hub.uid().await?;
    let request = AgentRequest {
        hub_uid: &hub_uid,
        name: &name,
        address: &args.tunnel,
        image: args.agent_image.as_deref(),
        kubeconfig: None,
        gives_credentials: false,
    };
    let agent = AgentObjects::issue(&hub, member.as_ref(), request).await?;
    let run = match args.dry_run {
        None => Some(Run::Real),
        Some(DryRun::Server) => Some(Run::Dry),
        Some(DryRun::Client) => None,
    };
    let Some(member) = &member else {
        let annotated = change::choose_tunnel(&hub, &name, (&cluster, true), run).await?;
        output::progress(annotated)?;
        print(agent, args)?;
        return Ok(ExitState::Good);
    };
    match run {
        Some(run) => {
            agent.check(member, args.force_conflicts).await?;
            agent.apply(member, run, args.force_conflicts).await?;
        }
        None => agent.print("applied (dry run)")?,
    }
    output::result(change::choose_tunnel(&hub, &name, (&cluster, true), run).await?)?;
    if args.dry_run.is_some() {
        return Ok(ExitState::Good);
    }
    match reached {
        Ok(reached) => {
            let id = cluster.spec.id.as_deref();
            connected(&reached, (&name, id), args).await?;
            Ok(ExitState::Good)
        }
        Err(why) => {
            output::progress(format_args!(
                "note: whether the agent of {name} is connected is not known: {why}"
            ))?;
            Ok(ExitState::Unknown)
        }
    }
}

/// Returns the Cluster of a member in Pull mode with credentials, which `join` did not make.
async fn pulled(
    hub: &ApiServer,
    name: &ClusterName,
    args: &TunnelAddArgs,
) -> Result<Cluster, Failure> {
    let cluster = change::read(hub, name).await?;
    let cluster = cluster.ok_or_else(|| ChangeError::Absent(name.clone()))?;
    if change::is_joined(hub, name, Some(&cluster)).await? {
        return Err(ChangeError::Joined {
            name: name.clone(),
            address: args.tunnel.clone(),
        }
        .into());
    }
    match &cluster.spec {
        spec if spec.sync_mode != Some(SyncMode::Pull) => {
            Err(ChangeError::Pushed(name.clone()).into())
        }
        spec if spec.secret_ref.is_none() => Err(ChangeError::NoSecret(name.clone()).into()),
        _ => Ok(cluster),
    }
}

/// Returns the member as the hub reaches it through the tunnel. The inner error is that of the
/// front of causeway-tunnel, which this machine may not reach.
///
/// # Errors
/// [`ChangeError::Unusable`] if the Cluster or its Secret give no connection.
async fn reached(
    hub: &ApiServer,
    name: &ClusterName,
    cluster: &Cluster,
    args: &TunnelAddArgs,
) -> Result<Result<ApiServer, ConnectError>, Failure> {
    let mut cluster = cluster.clone();
    let annotations = cluster.annotations_mut();
    annotations.insert(labels::TUNNEL.to_owned(), "true".to_owned());
    match connect::connect(hub, &cluster, args.insecure.allow_insecure_members).await {
        Ok(member) => Ok(Ok(member)),
        Err(why @ ConnectError::Tunnel(_)) => Ok(Err(why)),
        Err(why) => Err(ChangeError::Unusable {
            name: name.clone(),
            why,
        }
        .into()),
    }
}

/// Prints the objects of the member. A dry run leaves the Secret out.
fn print(agent: AgentObjects, args: &TunnelAddArgs) -> Result<(), OutputError> {
    let mut objects = vec![agent.namespace];
    if args.dry_run.is_none() {
        output::progress(
            "note: the Secret below has the private key of the agent: pass it to kubectl apply, \
             and store it nowhere",
        )?;
        objects.push(agent.secret);
    } else {
        output::progress(
            "note: the Secret of the agent is left out, because it has a private key",
        )?;
    }
    objects.push(agent.deployment);
    let text = match args.format {
        Some(Format::Json) => output::list(&objects)?,
        Some(Format::Yaml) | None => output::manifest(&objects)?,
    };
    output::result(text)
}

/// Waits until the member, which the hub knows by its UID, answers through the tunnel.
async fn connected(
    member: &ApiServer,
    (name, id): (&ClusterName, Option<&str>),
    args: &TunnelAddArgs,
) -> Result<(), Failure> {
    let (deadline, waiting) = (Instant::now() + args.timeout, format!("{name}: "));
    let failing = wait::none_left(deadline, &waiting, async || {
        let answer = connect::in_time(async { Ok(member.uid().await?) }).await;
        let checked = answer.map_err(|why| why.to_string()).and_then(|uid| {
            let checked = check_identity(name.as_str(), id, &uid);
            checked.map_err(|why| why.to_string())
        });
        Ok(checked.err())
    });
    match failing.await? {
        None => Ok(output::result(format_args!(
            "{name} is connected, at {} through causeway-tunnel at {}",
            member.url(),
            args.tunnel
        ))?),
        Some(state) => Err(ChangeError::NotConnected {
            name: name.clone(),
            seconds: args.timeout.as_secs(),
            remedy: remedy(&state, &member.url(), args),
            state,
        }
        .into()),
    }
}

/// Returns what to do about a member that does not answer.
fn remedy(state: &str, url: &str, args: &TunnelAddArgs) -> String {
    match state.contains("certificate") {
        true => format!(
            "the certificate of the member's API server has to be valid for the host of {url}, \
             spec.apiEndpoint of its Cluster, by the caBundle of its Secret on the hub"
        ),
        false => format!(
            "causeway-agent must reach {} from the member: see kubectl mcs tunnel; in the member: \
             kubectl -n causeway-system logs deployment/causeway-agent",
            args.tunnel
        ),
    }
}
