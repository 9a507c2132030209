//! `kubectl mcs drain`: withdraws all endpoints that a cluster provides, whether or not the cluster
//! is reachable.

use std::collections::BTreeMap;

use causeway::api::{MultiClusterService, labels, ownership};
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::ListParams;
use tokio::time::{Instant, timeout_at};

use self::effect::Effect;
use crate::args::DrainArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError, allowed};
use crate::cluster::objects::Run;
use crate::cluster::wait;
use crate::commands::membership::hub::{self, HubError, annotate};
use crate::observe::connect::{self, ConnectError, UNSERVED};
use crate::observe::kubeconfigs;
use crate::observe::once;
use crate::term::exit::{CommandError, ExitState, Failure, PROBLEM, UNKNOWN};
use crate::term::output::{self, OutputError};
use crate::term::table::listed;

mod effect;

/// Failed drain, or failed undo of a drain.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DrainError {
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
    #[error(
        "{name} is drained, but after {seconds} s it is unknown whether its endpoints are withdrawn \
         everywhere: {left}"
    )]
    NotKnown {
        name: ClusterName,
        seconds: u64,
        left: String,
    },
}

impl CommandError for DrainError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotKnown { .. } => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

/// Drains a cluster, or undoes a drain.
pub(crate) async fn run(hub: &HubArgs, args: &DrainArgs) -> Result<ExitState, Failure> {
    let name = hub::cluster_name(&args.name)?;
    let hub = kubeconfigs::hub(hub, &args.members).await?;
    let clusters = once::served_clusters(&hub).await?;
    let found = clusters.iter().find(|one| one.name_any() == name.as_str());
    let cluster = found.ok_or_else(|| HubError::NotJoined(name.clone()))?;
    let services: Option<Option<Vec<MultiClusterService>>> = allowed(once::all(&hub).await)?;
    let services = services.map(Option::unwrap_or_default);
    // A dry run only reports the affected services.
    let is_complete = services.is_some() || !args.dry_run;
    let was = cluster.is_drained();
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
    if !cluster.takes_part() {
        output::progress(format_args!("note: {name} is {UNSERVED}"))?;
    }
    if args.waiting.wait {
        withdrawn(&hub, &name, args).await?;
    }
    Ok(ExitState::new(true, is_complete))
}

/// Sets or removes the annotation that drains a cluster.
async fn mark(hub: &ApiServer, name: &ClusterName, args: &DrainArgs) -> Result<(), Failure> {
    let value = (!args.undo).then_some("true");
    match annotate(hub, name, labels::WITHDRAW, value, Run::of(args.dry_run)).await {
        Err(RequestError::NotFound { .. }) => Err(DrainError::Removed(name.clone()).into()),
        annotated => Ok(annotated?),
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

/// Prints the effect of the drain on the hub's services.
fn print_effect(name: &ClusterName, effect: &Effect, args: &DrainArgs) -> Result<(), OutputError> {
    let (one, many, rest) = match args.undo {
        true => ("may use", "may use", ""),
        false => (
            "loses",
            "lose",
            "; its exports are not used either; what it consumes stays",
        ),
    };
    let affected = |services: &[ServiceKey]| match services.len() {
        1 => format!("1 MultiClusterService {one}"),
        count => format!("{count} MultiClusterServices {many}"),
    };
    output::result(format_args!(
        "{} {name}: {}{rest}",
        affected(&effect.provides),
        listed(&effect.provides)
    ))?;
    if !effect.enters.is_empty() {
        output::result(format_args!(
            "{} the address of {name}: {}",
            affected(&effect.enters),
            listed(&effect.enters)
        ))?;
    }
    if !args.undo && !effect.alone.is_empty() {
        output::progress(format_args!(
            "warning: no other cluster in use provides {}: clients in other clusters lose all its endpoints; \
             add a provider, or undo it: kubectl mcs drain {name} --undo",
            listed(&effect.alone)
        ))?;
    }
    if !args.undo && !effect.only_entry.is_empty() {
        output::progress(format_args!(
            "warning: no other entry cluster of {} is in use: clients outside lose its address; \
             add one to spec.consumerClusters, or undo it: kubectl mcs drain {name} --undo",
            listed(&effect.only_entry)
        ))?;
    }
    Ok(())
}

/// Waits until every member was read and none holds a copy of the cluster's endpoints.
async fn withdrawn(hub: &ApiServer, name: &ClusterName, args: &DrainArgs) -> Result<(), Failure> {
    let deadline = Instant::now() + args.waiting.timeout;
    let hub_uid = hub.uid().await?;
    let waiting = format!("{name} to be withdrawn: ");
    let mut last = None;
    let left = wait::none_left(deadline, &waiting, async || {
        if let Ok(read) = timeout_at(deadline, read_left(hub, &hub_uid, name, args)).await {
            last = Some(read?);
        }
        let is_withdrawn = last.as_ref().is_some_and(Left::is_withdrawn);
        Ok((!is_withdrawn).then(|| text(last.as_ref())))
    });
    match left.await? {
        None => Ok(output::result(format_args!("{name} is withdrawn"))?),
        Some(_) => Err(late(name, args, last.as_ref()).into()),
    }
}

fn text(last: Option<&Left>) -> String {
    last.map_or_else(|| "no member was read yet".to_owned(), ToString::to_string)
}

/// Returns the error at the deadline. The result is unknown if only unread members are missing.
fn late(name: &ClusterName, args: &DrainArgs, last: Option<&Left>) -> DrainError {
    let (name, seconds) = (name.clone(), args.waiting.timeout.as_secs());
    let left = text(last);
    if last.is_none_or(|left| left.counts.is_empty()) {
        return DrainError::NotKnown {
            name,
            seconds,
            left,
        };
    }
    DrainError::NotWithdrawn {
        name,
        seconds,
        left,
    }
}

/// Remaining copies by member, and the members that could not be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    counts: BTreeMap<String, usize>,
    unread: BTreeMap<String, ConnectError>,
}

impl Left {
    /// Whether every member was read and holds no copy.
    fn is_withdrawn(&self) -> bool {
        self.counts.is_empty() && self.unread.is_empty()
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.counts.iter();
        let counts: Vec<_> = counts
            .map(|(member, count)| format!("{count} in {member}"))
            .collect();
        let counts =
            (!counts.is_empty()).then(|| format!("EndpointSlices left: {}", counts.join(", ")));
        let unread = self.unread.iter();
        let unread: Vec<_> = unread
            .map(|(name, why)| format!("{name} ({why})"))
            .collect();
        let unread = (!unread.is_empty()).then(|| format!("cannot read {}", unread.join(", ")));
        let both: Vec<_> = counts.into_iter().chain(unread).collect();
        out.write_str(&both.join("; "))
    }
}

async fn read_left(
    hub: &ApiServer,
    hub_uid: &str,
    name: &ClusterName,
    args: &DrainArgs,
) -> Result<Left, Failure> {
    let clusters = once::served_clusters(hub).await?;
    let own = clusters.iter().find(|one| one.name_any() == name.as_str());
    let id = own.and_then(|cluster| cluster.annotations().get(labels::CLUSTER_ID));
    let ours = format!(
        "{} in ({name},{}),{}={hub_uid},{}={}",
        labels::SOURCE_CLUSTER,
        id.map_or(name.as_str(), String::as_str),
        labels::HUB,
        labels::SLICE_MANAGED_BY,
        labels::SLICE_DISPATCHER
    );
    let parameters = &ListParams::default().labels(&ours);
    // The drained cluster retains its own copies of its endpoints for the clusterset.
    let others = clusters
        .iter()
        .filter(|cluster| cluster.name_any() != name.as_str());
    let read = connect::read_each(
        hub,
        others,
        args.insecure.allow_insecure_members,
        |member| async move {
            let slices = member.list_metadata::<EndpointSlice>(member.all(), parameters);
            let slices = slices.await?;
            let left = slices.iter().filter(|copy| {
                // The id of another cluster may briefly be the name of this one.
                ownership::source_member(&copy.metadata) == Some(name.as_str())
            });
            Ok(left.count())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, CommandLine};
    use clap::Parser as _;

    #[test]
    fn a_drain_is_over_only_when_every_member_was_read() {
        let line = ["kubectl-mcs", "drain", "a", "--wait"];
        let Command::Drain(args) = CommandLine::parse_from(line).command else {
            panic!("no drain");
        };
        let name = ClusterName::try_from("a").expect("a name");
        let two = || BTreeMap::from([("c".to_owned(), 2)]);
        let one = || BTreeMap::from([("b".to_owned(), ConnectError::Timeout(5))]);
        assert!(Left::default().is_withdrawn());
        assert!(matches!(
            late(&name, &args, None),
            DrainError::NotKnown { .. }
        ));
        let unread = "cannot read b (no answer within 5 s)";
        let copies = "EndpointSlices left: 2 in c";
        let both = "EndpointSlices left: 2 in c; cannot read b (";
        for (counts, unread, is_known, text) in [
            (BTreeMap::new(), one(), false, unread),
            (two(), BTreeMap::new(), true, copies),
            (two(), one(), true, both),
        ] {
            let left = Left { counts, unread };
            assert!(!left.is_withdrawn());
            assert!(left.to_string().starts_with(text), "{left}");
            let error = late(&name, &args, Some(&left));
            let known = !matches!(error, DrainError::NotKnown { .. });
            assert_eq!(known, is_known, "{error}");
        }
    }
}
