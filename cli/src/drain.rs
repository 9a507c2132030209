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
use crate::args::{DrainArgs, HubArgs};
use crate::ask::{ApiServer, AskError};
use crate::hub::{HubError, annotate};
use crate::join::{self, JoinError};
use crate::reach::ReachError;
use crate::say::OutputError;
use crate::{reach, say};

mod effect;

/// A cluster could not be drained, or not be taken into use again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrainError {
    #[error(transparent)]
    Name(#[from] JoinError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(ClusterName),
    #[error("{0} was taken out of the hub meanwhile; kubectl mcs status lists the members")]
    Removed(ClusterName),
    #[error(
        "{name} is drained, but not yet withdrawn everywhere within {seconds} s: {left}; check that causeway-controller runs \
         (kubectl mcs status), and run this again to wait on"
    )]
    NotWithdrawn {
        name: ClusterName,
        seconds: u64,
        left: String,
    },
}

/// How often the members are read while something is waited for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
    say::result(done(&name, was, args))?;
    match services {
        Some(services) => tell(&name, &Effect::of(&name, &clusters, &services), args)?,
        None => say::progress(format_args!(
            "note: which services {name} provides for is not told: you may not list MultiClusterServices on the hub"
        ))?,
    }
    if cluster.spec.sync_mode == Some(SyncMode::Pull) {
        say::progress(format_args!(
            "note: {name} is in Pull mode, and causeway uses nothing of such a member"
        ))?;
    }
    if args.waiting.wait {
        withdrawn(&hub, &name, args).await?;
    }
    Ok(())
}

async fn clusters(hub: &ApiServer) -> Result<Vec<Cluster>, DrainError> {
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    match hub.ask(clusters.list(&ListParams::default())).await {
        Ok(list) => Ok(list.items),
        Err(AskError::NotFound { .. }) => Err(HubError::NoClusterApi.into()),
        Err(error) => Err(error.into()),
    }
}

/// Every MultiClusterService; `None` where the person may not see them.
async fn services(hub: &ApiServer) -> Result<Option<Vec<MultiClusterService>>, AskError> {
    let services: Api<MultiClusterService> = Api::all(hub.client.clone());
    match hub.ask(services.list(&ListParams::default())).await {
        Ok(list) => Ok(Some(list.items)),
        Err(AskError::NotFound { .. }) => Ok(Some(Vec::new())),
        Err(AskError::NotAllowed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets or removes the annotation.
async fn mark(hub: &ApiServer, name: &ClusterName, args: &DrainArgs) -> Result<(), DrainError> {
    let value = (!args.undo).then_some("true");
    match annotate(hub, name, labels::WITHDRAW, value, args.dry_run).await {
        Ok(()) => Ok(()),
        Err(AskError::NotFound { .. }) => Err(DrainError::Removed(name.clone())),
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
fn tell(name: &ClusterName, effect: &Effect, args: &DrainArgs) -> Result<(), OutputError> {
    let services = effect.provides.len();
    let plural = if services == 1 { "" } else { "s" };
    if args.undo {
        return say::result(format_args!(
            "{services} MultiClusterService{plural} may use {name}: {}",
            effect::listed(&effect.provides)
        ));
    }
    say::result(format_args!(
        "{services} MultiClusterService{plural} lose {name}: {}; what it exports is not used either, and what it consumes stays",
        effect::listed(&effect.provides)
    ))?;
    if effect.alone.is_empty() {
        return Ok(());
    }
    say::progress(format_args!(
        "warning: no other joined cluster that is not drained provides {}: other clusters reach nothing there; \
         name another provider, or undo it: kubectl mcs drain {name} --undo",
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
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = "no member was read yet".to_owned();
    loop {
        ticks.tick().await;
        let Ok(looked) = timeout_at(deadline, look(hub, &hub_uid, name, args)).await else {
            return Err(late(name, args, last));
        };
        let left = looked?;
        let now = left.to_string();
        if left.counts.is_empty() {
            return Ok(say::result(format_args!("{name} is withdrawn{now}"))?);
        }
        if now != last {
            say::progress(format_args!("waiting for {name} to be withdrawn: {now}"))?;
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
    unread: BTreeMap<String, ReachError>,
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
            write!(out, "; not known of {}", unread.join(", "))?;
        }
        Ok(())
    }
}

async fn look(
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
    let read = reach::each(
        hub,
        others,
        args.insecure.allow_insecure_members,
        |member| async move {
            let slices: Api<EndpointSlice> = Api::all(member.client.clone());
            let list = member.ask(slices.list_metadata(parameters)).await?;
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

/// The key of a service, and what it asks for.
fn wish(service: &MultiClusterService) -> Option<(ServiceKey, domain::MultiClusterService)> {
    let wish = domain::MultiClusterService::try_from(service).ok()?;
    let key = ServiceKey::new(service.namespace().unwrap_or_default(), service.name_any());
    Some((key, wish))
}
