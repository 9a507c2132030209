//! `kubectl mcs shift`: moves the traffic of a service to a cluster, step by step.

use std::time::Duration;

use causeway::api::condition::{FALSE, READY};
use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::{self, ClusterName, Failover, FieldErrors, ServiceKey, Share};
use causeway_engine::messages::unapplied_shares;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::args::ShiftArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError, allowed};
use crate::cluster::conditions::Conditions as _;
use crate::cluster::deployed;
use crate::cluster::lease::{self, Controller, Renewals};
use crate::cluster::objects::{self, ObjectError, Run};
use crate::commands::membership::hub::{self, HubError};
use crate::observe::verification::{self, COUNTS_FOR, Reached, Verification};
use crate::term::age;
use crate::term::exit::{CommandError, Failure};
use crate::term::output::{self, OutputError};

/// Failed shift of traffic. The share of the last step stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShiftError {
    #[error("the hub has no MultiClusterService {0}; kubectl mcs status lists them")]
    NotFound(String),
    #[error("{0}; correct or remove the annotation")]
    Wrong(FieldErrors),
    #[error(
        "{cluster} does not provide {name}; add it to spec.providerClusters, or give another --to"
    )]
    NotProvided { cluster: ClusterName, name: String },
    #[error(
        "{0} is of type LoadBalancer without spec.consumerClusters: each load balancer leads to its \
         own cluster, so a share has no effect"
    )]
    NotDispatched(String),
    #[error("{0} is drained; use it again first: kubectl mcs drain {0} --undo")]
    Drained(ClusterName),
    #[error(
        "the hub runs causeway-controller {0}, which applies no shares; upgrade the hub to \
         {SHARES_SINCE} or later first (docs/install.md#upgrade-and-roll-back)"
    )]
    OlderController(String),
    #[error(
        "{cluster} has {from}%, more than {until}%; edit annotation {annotation} to lower it",
        annotation = labels::SHARE
    )]
    Above {
        cluster: ClusterName,
        from: u8,
        until: u8,
    },
    #[error(
        "the other shares of {before} leave less than {percent}% to {cluster}; lower --until or these shares"
    )]
    TooMuch {
        before: String,
        cluster: ClusterName,
        percent: u8,
    },
    #[error("stopped at {share:?}: {name} is not ready: {message}")]
    NotReady {
        name: String,
        share: String,
        message: String,
    },
    #[error(
        "stopped: kubectl mcs verify found failed paths to pods of {cluster} {age} ago: {paths}; \
         correct them, and then run {verify}"
    )]
    PathsFail {
        cluster: ClusterName,
        age: String,
        paths: String,
        /// Command whose result replaces the failed ones.
        verify: String,
    },
    #[error(
        "stopped: {why}. Start the controller ({remedy}), or delete that Lease if the controller \
         uses another, then run this again",
        remedy = lease::REMEDY
    )]
    NoController { why: String },
    #[error("stopped: {name} has another share meanwhile, {found:?}")]
    Changed { name: String, found: String },
    #[error("stopped: {0} changes faster than it can be written; run this again")]
    Busy(String),
}

impl CommandError for ShiftError {}

/// First version whose controller applies shares.
const SHARES_SINCE: &str = "0.2.0";

/// Interval at which the service is read between two steps.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum time in which another replica takes over from a controller that ends.
const SUCCEEDED_WITHIN: Duration = Duration::from_secs(30);

/// Number of attempts to write a share of a service that the controller writes too.
const ATTEMPTS: usize = 5;

/// Writes one share after another, as long as the service is ready, the controller is not known to
/// be stopped, and no path to the cluster is known to fail.
pub(crate) async fn run(hub: &HubArgs, args: &ShiftArgs) -> Result<(), Failure> {
    let cluster = hub::cluster_name(&args.to)?;
    let hub = ApiServer::hub(hub).await?;
    let services = hub.within::<MultiClusterService>(&hub.config.default_namespace);
    let found = hub.request(services.get_opt(&args.name)).await?;
    let service = found.ok_or_else(|| ShiftError::NotFound(args.name.clone()))?;
    let (failover, errors) = Failover::of(&service.metadata);
    if !errors.is_empty() {
        return Err(ShiftError::Wrong(errors).into());
    }
    check_provider(&hub, &service, &cluster).await?;
    check_version(&hub).await?;
    let present = failover.share.as_ref();
    let steps = steps(present, &cluster, args)?;
    let name = format!("multiclusterservice.networking.karmada.io/{}", args.name);
    let mut before = text(&service).map(ToOwned::to_owned);
    check(&service, &name)?;
    if steps.is_empty() {
        output::result(format_args!(
            "{name}: {cluster} has {}% already",
            args.until
        ))?;
    }
    if let Some(note) = without_share(present, &cluster, &steps) {
        output::progress(format_args!("note: {note}"))?;
    }
    let mut paths = Paths {
        key: ServiceKey::new(hub.config.default_namespace.as_str(), args.name.as_str()),
        cluster,
        is_noted: false,
    };
    let mut leader = Leader::default();
    leader.note_unapplied(&service)?;
    for (index, share) in steps.iter().enumerate() {
        paths.check(&hub).await?;
        if args.dry_run {
            let after = args.every.as_secs() * index as u64;
            output::result(format_args!("after {after} s: {share}"))?;
            continue;
        }
        let written = Written {
            hub: &hub,
            services: &services,
            title: &name,
            share: before.as_deref(),
        };
        leader.check(&hub).await?;
        written.replace(&args.name, share).await?;
        output::result(format_args!("{name}: {share}"))?;
        let share = share.to_string();
        if index + 1 < steps.len() {
            let share = Some(&*share);
            let written = Written { share, ..written };
            written.hold(args, &mut leader).await?;
        }
        before = Some(share);
    }
    Ok(())
}

/// Checks that a cluster can get traffic of a service: the service names it as a provider, or all
/// clusters, consumers get its endpoints, and its Cluster is in use. Without the right to read the
/// Cluster, prints a note.
async fn check_provider(
    hub: &ApiServer,
    service: &MultiClusterService,
    cluster: &ClusterName,
) -> Result<(), Failure> {
    if let Ok(desired) = domain::MultiClusterService::try_from(service) {
        let (cluster, name) = (cluster.clone(), service.name_any());
        if !desired.providers.includes(&cluster) {
            return Err(ShiftError::NotProvided { cluster, name }.into());
        }
        if !desired.dispatches_endpoints() {
            return Err(ShiftError::NotDispatched(name).into());
        }
    }
    match allowed(hub.get::<Cluster>(hub.all(), cluster.as_str()).await)? {
        None => Ok(output::progress(format_args!(
            "note: you may not get Clusters on the hub, so whether {cluster} is joined and in use \
             is not checked"
        ))?),
        Some(None) => Err(HubError::NotJoined(cluster.clone()).into()),
        Some(Some(found)) if found.is_drained() => Err(ShiftError::Drained(cluster.clone()).into()),
        Some(Some(_)) => Ok(()),
    }
}

/// Checks that the hub's controller applies shares. Prints a note if its version is unknown.
async fn check_version(hub: &ApiServer) -> Result<(), Failure> {
    let tag = match deployed::controller_tag(hub).await {
        Err(ObjectError::Request(RequestError::NotAllowed { .. })) => None,
        tag => tag?,
    };
    if let Some(note) = evaluate_version(tag)? {
        output::progress(format_args!("note: {note}"))?;
    }
    Ok(())
}

/// Returns a note if the tag of the controller's image shows no version.
///
/// # Errors
/// [`ShiftError::OlderController`] if the version applies no shares.
fn evaluate_version(tag: Option<String>) -> Result<Option<String>, ShiftError> {
    let is_older = tag
        .as_deref()
        .and_then(|tag| deployed::is_older(tag, SHARES_SINCE));
    match (tag, is_older) {
        (Some(tag), Some(true)) => Err(ShiftError::OlderController(tag)),
        (_, Some(_)) => Ok(None),
        (_, None) => Ok(Some(
            "Deployment causeway-system/causeway-controller of the hub shows you no version, so \
             whether the controller applies shares is not checked"
                .to_owned(),
        )),
    }
}

/// Returns a note if the cluster has no share yet: the first step may lower its traffic.
fn without_share(
    present: Option<&Share>,
    cluster: &ClusterName,
    steps: &[Share],
) -> Option<String> {
    let first = steps.first()?.of(cluster)?;
    let has_share = present.is_some_and(|share| share.of(cluster).is_some());
    (!has_share).then(|| {
        format!(
            "{cluster} has no share yet, so its ready endpoints decide its part; the first step \
             sets {first}%"
        )
    })
}

/// Returns the shares to write, in turn.
fn steps(
    before: Option<&Share>,
    cluster: &ClusterName,
    args: &ShiftArgs,
) -> Result<Vec<Share>, ShiftError> {
    let from = before
        .and_then(|share| share.of(cluster))
        .unwrap_or_default();
    if from > args.until {
        return Err(ShiftError::Above {
            cluster: cluster.clone(),
            from,
            until: args.until,
        });
    }
    let step = usize::from(args.step.max(1));
    let next = from.saturating_add(args.step.max(1));
    let percents = (next..args.until).step_by(step);
    let percents = percents.chain((from < args.until).then_some(args.until));
    let share = |percent| {
        Share::with(before, cluster, percent).ok_or_else(|| ShiftError::TooMuch {
            before: before.map(ToString::to_string).unwrap_or_default(),
            cluster: cluster.clone(),
            percent,
        })
    };
    percents.map(share).collect()
}

fn text(service: &MultiClusterService) -> Option<&str> {
    service.annotations().get(labels::SHARE).map(String::as_str)
}

/// Checks that a service is ready, or that its readiness is unknown.
fn check(service: &MultiClusterService, name: &str) -> Result<(), ShiftError> {
    let ready = service.condition(READY);
    match ready.filter(|ready| ready.status == FALSE) {
        None => Ok(()),
        Some(ready) => Err(ShiftError::NotReady {
            name: name.to_owned(),
            share: text(service).unwrap_or_default().to_owned(),
            message: ready.message.clone(),
        }),
    }
}

/// Paths to the pods of the cluster that gets the traffic.
struct Paths {
    key: ServiceKey,
    cluster: ClusterName,
    /// Whether a note about a missing result was printed.
    is_noted: bool,
}

impl Paths {
    /// Checks the last result of `verify`. A shift continues without a usable result, and a note
    /// says so once.
    async fn check(&mut self, hub: &ApiServer) -> Result<(), Failure> {
        let last = Verification::read(hub, &self.key).await;
        let note = self.evaluate(last, Timestamp::now())?;
        Ok(print_once(note, &mut self.is_noted)?)
    }

    /// Returns a note if there is no usable result, or if it lacks paths to the cluster.
    fn evaluate(
        &self,
        last: verification::Read,
        now: Timestamp,
    ) -> Result<Option<String>, ShiftError> {
        let verify = format!(
            "kubectl mcs verify {} -n {}",
            self.key.name, self.key.namespace
        );
        let unchecked = "so paths are not checked";
        let last = match last {
            Ok(Some(last)) => last,
            Ok(None) => return Ok(Some(format!("{verify} has no result, {unchecked}"))),
            Err(why) => {
                let last = format!("the last result of {verify} is unknown");
                return Ok(Some(format!("{last}, {unchecked}: {why}")));
            }
        };
        if now.duration_since(last.time) > COUNTS_FOR {
            let age = age::since(last.time, now);
            let last = format!("the last result of {verify} is {age} old");
            return Ok(Some(format!("{last}, {unchecked}")));
        }
        let cluster = &self.cluster;
        let failed = last.failed_to(cluster.as_str(), now);
        // While the node's cluster is a consumer, only a run from nodes replaces its failure.
        let nodes = match failed.iter().any(|one| one.is_of_node()) {
            true => " --nodes",
            false => "",
        };
        let times = failed.iter().map(|one| one.time.unwrap_or(last.time));
        match times.max() {
            Some(latest) => {
                let paths: Vec<_> = failed.into_iter().filter_map(Reached::problem).collect();
                Err(ShiftError::PathsFail {
                    cluster: cluster.clone(),
                    age: age::since(latest, now),
                    paths: paths.join("; "),
                    verify: format!("{verify}{nodes}"),
                })
            }
            None if last.is_complete_to(cluster.as_str(), now) => Ok(None),
            None => Ok(Some(format!(
                "the last result of {verify} lacks outcomes of paths to pods of {cluster}, so not \
                 all paths are checked"
            ))),
        }
    }
}

/// Leading controller, which alone carries out shares and reports readiness.
#[derive(Default)]
struct Leader {
    renewals: Renewals,
    /// Whether a note about unknown leadership was printed.
    is_noted: bool,
    /// Whether a note about consumers that do not apply shares was printed.
    is_unapplied_noted: bool,
}

impl Leader {
    /// Prints a note, once, if Ready reports consumers in which the share is not applied.
    fn note_unapplied(&mut self, service: &MultiClusterService) -> Result<(), OutputError> {
        let ready = service.condition(READY);
        let note = ready.and_then(|ready| unapplied_shares(&ready.message));
        print_once(note.map(ToOwned::to_owned), &mut self.is_unapplied_noted)
    }

    /// Checks that a controller leads. A shift continues if that is unknown, and a note says so
    /// once.
    async fn check(&mut self, hub: &ApiServer) -> Result<(), Failure> {
        let deadline = Instant::now() + SUCCEEDED_WITHIN;
        let (controller, runs) = lease::leader(hub, &mut self.renewals, deadline).await?;
        if runs {
            return Ok(());
        }
        let note = evaluate(&controller, lease::now(hub).await)?;
        Ok(print_once(note, &mut self.is_noted)?)
    }
}

/// Prints a note, unless an earlier one was printed.
fn print_once(note: Option<String>, is_noted: &mut bool) -> Result<(), OutputError> {
    match note {
        Some(note) if !std::mem::replace(is_noted, true) => {
            output::progress(format_args!("note: {note}"))
        }
        _ => Ok(()),
    }
}

/// Returns a note if whether a controller leads is unknown from one read of its Lease.
///
/// # Errors
/// [`ShiftError::NoController`] if the Lease shows that none does.
fn evaluate(controller: &Controller, now: Timestamp) -> Result<Option<String>, ShiftError> {
    match (controller.stopped(now), controller) {
        (Some(why), _) => Err(ShiftError::NoController { why }),
        (None, Controller::Unknown) => Ok(Some(format!(
            "you may not read Lease {}, so whether the controller runs is not checked",
            lease::CONTROLLER_LEASE
        ))),
        (None, _) => Ok(controller.problem(now)),
    }
}

/// Service with the share of the last step.
#[derive(Clone, Copy)]
struct Written<'a> {
    hub: &'a ApiServer,
    services: &'a Api<MultiClusterService>,
    title: &'a str,
    share: Option<&'a str>,
}

impl Written<'_> {
    /// Reads the service. Checks that it is ready and has the share.
    async fn read(&self, name: &str) -> Result<MultiClusterService, Failure> {
        let found = self.hub.request(self.services.get_opt(name)).await?;
        let service = found.ok_or_else(|| ShiftError::NotFound(name.to_owned()))?;
        if text(&service) != self.share {
            return Err(ShiftError::Changed {
                name: self.title.to_owned(),
                found: text(&service).unwrap_or_default().to_owned(),
            }
            .into());
        }
        check(&service, self.title)?;
        Ok(service)
    }

    /// Writes the next share, unless somebody else changes the service after it was read: then
    /// reads it again.
    async fn replace(&self, name: &str, share: &Share) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS {
            let version = self.read(name).await?.resource_version();
            let annotations = json!({ labels::SHARE: share.to_string() });
            let metadata = json!({ "resourceVersion": version, "annotations": annotations });
            let patch = json!({ "metadata": metadata });
            match objects::merge(self.hub, self.services, name, &patch, Run::Real).await {
                Err(RequestError::Conflict { .. }) => {}
                merged => return Ok(merged?),
            }
        }
        Err(ShiftError::Busy(self.title.to_owned()).into())
    }

    /// Waits for the next step while the service is ready and has the share, and the controller
    /// is not known to be stopped.
    async fn hold(&self, args: &ShiftArgs, leader: &mut Leader) -> Result<(), Failure> {
        let until = Instant::now() + args.every;
        while Instant::now() < until {
            sleep_until(until.min(Instant::now() + POLL_INTERVAL)).await;
            leader.note_unapplied(&self.read(&args.name).await?)?;
            leader.check(self.hub).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::jiff::SignedDuration;

    use super::*;
    use crate::observe::verification::Destination;
    use crate::term::exit::PROBLEM;

    const VERIFY: &str = "kubectl mcs verify foo -n shop";
    const REFUSED: Option<&str> = Some("connection refused");

    fn share(text: &str) -> Share {
        let annotations = [(labels::SHARE.to_owned(), text.to_owned())];
        let meta = kube::api::ObjectMeta {
            annotations: Some(annotations.into()),
            ..Default::default()
        };
        Failover::of(&meta).0.share.expect("a share")
    }

    fn now() -> Timestamp {
        "2026-11-28T12:00:00Z".parse().expect("a time")
    }

    fn provider(name: &str) -> Destination {
        Destination::Provider(name.to_owned())
    }

    fn reached(to: Destination, problem: Option<&str>) -> Reached {
        Reached {
            from: "member1".to_owned(),
            to,
            works: 1,
            tried: 2,
            unknown: 0,
            problem: problem.map(ToOwned::to_owned),
            time: None,
        }
    }

    fn after(hours: i64, results: &[Reached]) -> verification::Read {
        let time = now() - SignedDuration::from_hours(hours);
        Ok(Verification::new(time, 0, results.to_vec()))
    }

    fn untried(result: verification::Read) -> verification::Read {
        result.map(|last| last.map(|last| Verification { untried: 1, ..last }))
    }

    fn stopped(at: &str) -> String {
        format!(
            "stopped: kubectl mcs verify found failed paths to pods of new 23h ago: from member1 \
             to pods of new 1 of 2 work (connection refused){at}; correct them, and then run \
             {VERIFY}"
        )
    }

    fn partial() -> Result<Option<String>, String> {
        Ok(Some(format!(
            "the last result of {VERIFY} lacks outcomes of paths to pods of new, so not all paths \
             are checked"
        )))
    }

    /// Returns last results of `verify`, each with its evaluation.
    fn last_results() -> Vec<(verification::Read, Result<Option<String>, String>)> {
        let works = reached(provider("new"), None);
        let fails = reached(provider("new"), REFUSED);
        let unknown_outcome = Reached {
            unknown: 1,
            ..works.clone()
        };
        let of_earlier_run = |hours: i64| Reached {
            time: Some(now() - SignedDuration::from_hours(hours)),
            ..reached(provider("new"), REFUSED)
        };
        let of_node = Reached {
            from: "member1 (node-a)".to_owned(),
            ..fails.clone()
        };
        let stopped_at_node = stopped("").replace("member1", "member1 (node-a)") + " --nodes";
        let old = format!("the last result of {VERIFY} is 25h old, so paths are not checked");
        let unknown =
            format!("the last result of {VERIFY} is unknown, so paths are not checked: forbidden");
        let none = format!("{VERIFY} has no result, so paths are not checked");
        vec![
            (
                after(1, &[works.clone(), reached(provider("old"), REFUSED)]),
                Ok(None),
            ),
            (
                after(1, &[reached(Destination::ClusterIp, REFUSED)]),
                partial(),
            ),
            (untried(after(1, std::slice::from_ref(&works))), partial()),
            (after(1, &[unknown_outcome]), partial()),
            (after(1, &[of_earlier_run(25)]), partial()),
            (after(1, &[works.clone(), of_earlier_run(25)]), partial()),
            (
                after(1, &[works.clone(), of_earlier_run(23)]),
                Err(stopped(", at 2026-11-27T13:00:00Z")),
            ),
            (after(23, &[works, fails.clone()]), Err(stopped(""))),
            (after(23, &[of_node]), Err(stopped_at_node)),
            (after(25, &[fails]), Ok(Some(old))),
            (Ok(None), Ok(Some(none))),
            (Err("forbidden".to_owned()), Ok(Some(unknown))),
        ]
    }

    #[test]
    fn failed_path_of_the_last_day_stops_a_shift() {
        let paths = Paths {
            key: ServiceKey::new("shop", "foo"),
            cluster: ClusterName::try_from("new").expect("a name"),
            is_noted: false,
        };
        for (last, expected) in last_results() {
            let evaluated = paths.evaluate(last, now()).map_err(|error| {
                assert_eq!(error.exit_code(), PROBLEM);
                error.to_string()
            });
            assert_eq!(evaluated, expected);
        }
    }

    #[test]
    fn controller_older_than_shares_refuses_a_shift() {
        let refused = Err("the hub runs causeway-controller 0.1.0, which applies no shares");
        let noted = Ok(Some("Deployment causeway-system/causeway-controller"));
        for (tag, expected) in [
            (Some("0.1.0"), refused),
            (Some("0.2.0-dev"), Ok(None)),
            (Some("0.2.0"), Ok(None)),
            (Some("latest"), noted),
            (None, noted),
        ] {
            let evaluated = evaluate_version(tag.map(ToOwned::to_owned));
            let is_as_expected = match (&evaluated, expected) {
                (Ok(None), Ok(None)) => true,
                (Ok(Some(text)), Ok(Some(start))) => text.starts_with(start),
                (Err(error), Err(start)) => error.to_string().starts_with(start),
                _ => false,
            };
            assert!(is_as_expected, "{tag:?}: {evaluated:?}");
        }
    }

    #[test]
    fn stopped_controller_stops_a_shift() {
        let leased = |lease: Option<Lease>| {
            Controller::Lease(lease::CONTROLLER_LEASE.to_owned(), lease.map(Box::new))
        };
        let held = |renewed: &str| {
            let spec = json!({ "holderIdentity": "one", "renewTime": renewed });
            let lease = serde_json::from_value(json!({ "spec": spec })).expect("a Lease");
            leased(Some(lease))
        };
        let stopped = Err("stopped: causeway-controller is not running: one last renewed");
        for (controller, expected) in [
            (held("2026-11-28T11:59:50.000000Z"), Ok(None)),
            (held("2026-11-28T11:58:00.000000Z"), stopped),
            (Controller::NoLease, Ok(None)),
            (Controller::Unknown, Ok(Some("you may not read Lease"))),
            (leased(None), Ok(Some("Lease causeway-system/"))),
        ] {
            let evaluated = evaluate(&controller, now()).map_err(|error| {
                assert_eq!(error.exit_code(), PROBLEM);
                error.to_string()
            });
            let is_as_expected = match (&evaluated, expected) {
                (Ok(None), Ok(None)) => true,
                (Ok(Some(text)), Ok(Some(start))) | (Err(text), Err(start)) => {
                    text.starts_with(start)
                }
                _ => false,
            };
            assert!(is_as_expected, "{controller:?}: {evaluated:?}");
        }
    }

    #[test]
    fn steps_add_to_the_present_share() {
        let new = ClusterName::try_from("new").expect("a name");
        let args = |step, until| ShiftArgs {
            name: "foo".to_owned(),
            to: "new".to_owned(),
            step,
            every: Duration::ZERO,
            until,
            dry_run: false,
        };
        for (before, step, until, expected) in [
            (
                None,
                50,
                100,
                "cluster/new=50%, rest; cluster/new=100%, rest",
            ),
            (
                None,
                40,
                100,
                "cluster/new=40%, rest; cluster/new=80%, rest; cluster/new=100%, rest",
            ),
            (
                Some("cluster/new=20%, rest"),
                10,
                30,
                "cluster/new=30%, rest",
            ),
            (Some("cluster/new=30%, rest"), 10, 30, ""),
            (
                Some("cluster/old=5%, rest"),
                10,
                10,
                "cluster/old=5%, cluster/new=10%, rest",
            ),
        ] {
            let steps = steps(before.map(share).as_ref(), &new, &args(step, until));
            let steps = steps.expect("steps");
            let steps: Vec<_> = steps.iter().map(ToString::to_string).collect();
            assert_eq!(steps.join("; "), expected);
        }
        let old = share("cluster/old=5%, rest");
        let error = steps(Some(&old), &new, &args(50, 100)).expect_err("105%");
        let expected = "the other shares of cluster/old=5%, rest leave less than 100% to new; lower \
                        --until or these shares";
        assert_eq!(error.to_string(), expected);
        let half = share("cluster/new=50%, rest");
        let error = steps(Some(&half), &new, &args(10, 30)).expect_err("less than 50%");
        let expected =
            "new has 50%, more than 30%; edit annotation mcs.causeway.dev/share to lower it";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn first_share_of_a_cluster_is_noted() {
        let new = ClusterName::try_from("new").expect("a name");
        let note = Some(
            "new has no share yet, so its ready endpoints decide its part; the first step sets 10%",
        );
        let first = [share("cluster/old=5%, cluster/new=10%, rest")];
        for (present, steps, expected) in [
            (None, &first[..], note),
            (Some("cluster/old=5%, rest"), &first, note),
            (Some("cluster/new=5%, rest"), &first, None),
            (None, &[], None),
        ] {
            let present = present.map(share);
            let found = without_share(present.as_ref(), &new, steps);
            assert_eq!(found.as_deref(), expected);
        }
    }
}
