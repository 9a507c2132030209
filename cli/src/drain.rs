//! `kubectl mcs drain`: a person says that nothing that a cluster provides is to be used, whether or not it can be reached.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway::api::{Cluster, MultiClusterService, SyncMode, labels};
use causeway::domain::{self, ClusterName, ServiceKey};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use self::effect::Effect;
use crate::api_server::{ApiServer, RequestError};
use crate::args::{DrainArgs, HubArgs};
use crate::connectivity::ConnectError;
use crate::hub::{HubError, annotate};
use crate::join::{self, JoinError};
use crate::output::OutputError;
use crate::{connectivity, output};

mod effect;

/// A cluster could not be drained, or not be taken into use again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrainError {
    #[error(transparent)]
    Name(#[from] JoinError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(ClusterName),
    #[error("{0} was removed from the hub meanwhile; kubectl mcs status lists the members")]
    Removed(ClusterName),
    #[error(
        "{name} is drained, but its endpoints are not withdrawn everywhere within {seconds} s: {left}; check that causeway-controller is running \
         (kubectl mcs status), and run this again to wait longer"
    )]
    NotWithdrawn {
        name: ClusterName,
        seconds: u64,
        left: String,
    },
}

/// How often the members are read while something is waited for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Whether a person said that nothing that the cluster provides is to be used.
pub(crate) fn is_drained(cluster: &Cluster) -> bool {
    let value = cluster.annotations().get(labels::WITHDRAW);
    value.is_some_and(|value| value == "true")
}

/// Drains a cluster, or undoes that.
pub(crate) async fn run(hub: &HubArgs, args: &DrainArgs) -> Result<(), DrainError> {
    let name = join::cluster_name(&args.name)?;
    let hub = ApiServer::hub(hub).await?;
    let clusters = clusters(&hub).await?;
    let found = clusters.iter().find(|one| one.name_any() == name.as_str());
    let cluster = found.ok_or_else(|| DrainError::NotJoined(name.clone()))?;
    let services = services(&hub).await?;
    let was = is_drained(cluster);
    if was == args.undo {
        mark(&hub, &name, args).await?;
    }
    output::result(done(&name, was, args))?;
    match services {
        Some(services) => print_effect(&name, &Effect::of(&name, &clusters, &services), args)?,
        None => output::progress(format_args!(
            "note: affected services are not shown: you may not list MultiClusterServices on the hub"
        ))?,
    }
    if cluster.spec.sync_mode == Some(SyncMode::Pull) {
        output::progress(format_args!(
            "note: {name} is in Pull mode, and causeway does not serve such members"
        ))?;
    }
    if args.waiting.wait {
        withdrawn(&hub, &name, args).await?;
    }
    Ok(())
}

async fn clusters(hub: &ApiServer) -> Result<Vec<Cluster>, DrainError> {
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    match hub.request(clusters.list(&ListParams::default())).await {
        Ok(list) => Ok(list.items),
        Err(RequestError::NotFound { .. }) => Err(HubError::NoClusterApi.into()),
        Err(error) => Err(error.into()),
    }
}

/// Every MultiClusterService; `None` where the person may not see them.
async fn services(hub: &ApiServer) -> Result<Option<Vec<MultiClusterService>>, RequestError> {
    let services: Api<MultiClusterService> = Api::all(hub.client.clone());
    match hub.request(services.list(&ListParams::default())).await {
        Ok(list) => Ok(Some(list.items)),
        Err(RequestError::NotFound { .. }) => Ok(Some(Vec::new())),
        Err(RequestError::NotAllowed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets or removes the annotation.
async fn mark(hub: &ApiServer, name: &ClusterName, args: &DrainArgs) -> Result<(), DrainError> {
    let value = (!args.undo).then_some("true");
    match annotate(hub, name, labels::WITHDRAW, value, args.dry_run).await {
        Ok(()) => Ok(()),
        Err(RequestError::NotFound { .. }) => Err(DrainError::Removed(name.clone())),
        Err(error) => Err(error.into()),
    }
}

fn done(name: &ClusterName, was: bool, args: &DrainArgs) -> String {
    let what = match (was, args.undo) {
        (false, false) => "drained",
        (true, false) => "is drained already",
        (true, true) => "in use again",
        (false, true) => "is not drained",
    };
    let dry_run = if args.dry_run { " (dry run)" } else { "" };
    format!("hub: cluster.cluster.karmada.io/{name} {what}{dry_run}")
}

/// What it means.
fn print_effect(name: &ClusterName, effect: &Effect, args: &DrainArgs) -> Result<(), OutputError> {
    let services = effect.provides.len();
    let plural = if services == 1 { "" } else { "s" };
    if args.undo {
        return output::result(format_args!(
            "{services} MultiClusterService{plural} may use {name}: {}",
            effect::listed(&effect.provides)
        ));
    }
    output::result(format_args!(
        "{services} MultiClusterService{plural} lose {name}: {}; its exports are not used either; what it consumes stays",
        effect::listed(&effect.provides)
    ))?;
    if effect.alone.is_empty() {
        return Ok(());
    }
    output::progress(format_args!(
        "warning: no other cluster in use provides {}: clients in other clusters lose all its endpoints; \
         add a provider, or undo it: kubectl mcs drain {name} --undo",
        effect::listed(&effect.alone)
    ))
}

/// Waits until no copy that comes from the cluster is left in a member that can be reached.
async fn withdrawn(
    hub: &ApiServer,
    name: &ClusterName,
    args: &DrainArgs,
) -> Result<(), DrainError> {
    let deadline = Instant::now() + args.waiting.timeout;
    let hub_uid = hub.uid().await?;
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = "no member was read yet".to_owned();
    loop {
        ticks.tick().await;
        let Ok(read) = timeout_at(deadline, read_left(hub, &hub_uid, name, args)).await else {
            return Err(late(name, args, last));
        };
        let left = read?;
        let now = left.to_string();
        if left.counts.is_empty() {
            return Ok(output::result(format_args!("{name} is withdrawn{now}"))?);
        }
        if now != last {
            output::progress(format_args!("waiting for {name} to be withdrawn: {now}"))?;
        }
        last = now;
        if Instant::now() >= deadline {
            return Err(late(name, args, last));
        }
    }
}

fn late(name: &ClusterName, args: &DrainArgs, left: String) -> DrainError {
    DrainError::NotWithdrawn {
        name: name.clone(),
        seconds: args.waiting.timeout.as_secs(),
        left,
    }
}

/// Copies that are left, and members of which it is not known.
#[derive(Debug, Default)]
struct Left {
    counts: BTreeMap<String, usize>,
    unread: BTreeMap<String, ConnectError>,
}

impl std::fmt::Display for Left {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.counts.iter();
        let counts: Vec<_> = counts
            .map(|(member, count)| format!("{count} in {member}"))
            .collect();
        if !counts.is_empty() {
            write!(out, "EndpointSlices left: {}", counts.join(", "))?;
        }
        let unread = self.unread.iter();
        let unread: Vec<_> = unread
            .map(|(name, why)| format!("{name} ({why})"))
            .collect();
        if !unread.is_empty() {
            write!(out, "; cannot read {}", unread.join(", "))?;
        }
        Ok(())
    }
}

async fn read_left(
    hub: &ApiServer,
    hub_uid: &str,
    name: &ClusterName,
    args: &DrainArgs,
) -> Result<Left, DrainError> {
    let clusters = clusters(hub).await?;
    let ours = format!(
        "{}={name},{}={hub_uid},{}={}",
        labels::SOURCE_CLUSTER,
        labels::HUB,
        labels::SLICE_MANAGED_BY,
        labels::SLICE_DISPATCHER
    );
    let parameters = &ListParams::default().labels(&ours);
    // What the cluster copies of itself for the clusterset is its own.
    let others = clusters
        .iter()
        .filter(|cluster| cluster.name_any() != name.as_str());
    let read = connectivity::read_each(
        hub,
        others,
        args.insecure.allow_insecure_members,
        |member| async move {
            let slices: Api<EndpointSlice> = Api::all(member.client.clone());
            let list = member.request(slices.list_metadata(parameters)).await?;
            Ok(list.items.len())
        },
    );
    let mut left = Left::default();
    for (member, answer) in read.await {
        match answer {
            Ok(0) => {}
            Ok(count) => {
                left.counts.insert(member, count);
            }
            Err(why) => {
                left.unread.insert(member, why);
            }
        }
    }
    Ok(left)
}

/// The key of a service, and what is desired.
fn desired(service: &MultiClusterService) -> Option<(ServiceKey, domain::MultiClusterService)> {
    let desired = domain::MultiClusterService::try_from(service).ok()?;
    let key = ServiceKey::new(service.namespace().unwrap_or_default(), service.name_any());
    Some((key, desired))
}
