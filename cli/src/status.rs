//! `kubectl mcs status`: reports the members, the services and their problems.

pub(crate) mod clusterset;
pub(crate) mod condition;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod karmada;
pub(crate) mod report;
pub(crate) mod text;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use causeway::api::{Cluster, MultiClusterService};
use causeway::domain::{Failover, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout_at};

use self::karmada::Observations;
use self::report::{Report, Scope};
use crate::api_server::{ApiServer, RequestError, allowed};
use crate::args::{Awaited, HubArgs, StatusArgs};
use crate::exit::{CommandError, ExitState, PROBLEM, UNKNOWN};
use crate::explain::{self, Exposed};
use crate::karmada::binding;
use crate::misplaced::{self, Misplaced};
use crate::observe::follow::follow;
use crate::observe::hub::Hub;
use crate::observe::once::{self, GatherError};
use crate::observe::scope::{self, Breadth};
use crate::observe::service::{self, Readings};
use crate::output;
use crate::output::OutputError;
use crate::screen::{Screen, printable};

/// Failure to read or to show the status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error(transparent)]
    Gather(#[from] GatherError),
    #[error(
        "{name:?} not found {place}: neither a MultiClusterService on the hub nor a ServiceExport or ServiceImport in a \
         member{unread}; kubectl mcs status -A shows all namespaces"
    )]
    NotFound {
        name: String,
        place: String,
        unread: String,
    },
    #[error("not ready within {seconds} s: {what}")]
    NotInTime { seconds: u64, what: String },
    #[error("unknown after {seconds} s whether all is ready: {what}")]
    NotKnown { seconds: u64, what: String },
}

impl CommandError for StatusError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Request(error) => error.exit_code(),
            Self::Gather(error) => error.exit_code(),
            Self::NotKnown { .. } => UNKNOWN,
            Self::NotFound { unread, .. } if !unread.is_empty() => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

impl StatusError {
    /// Returns the error of a hub that does not serve MultiClusterService.
    fn no_api() -> Self {
        GatherError::NoApi("MultiClusterService").into()
    }
}

const TIERS: &str = "Tiers of the service";
const MISPLACED: &str = "ServiceExports and ServiceImports on the hub";

/// Interval between two reads of the members during `--wait`.
const MEMBERS_EVERY: Duration = Duration::from_secs(2);

/// Arguments of the command and the hub that it reads.
struct Query<'a> {
    hub: ApiServer,
    args: &'a StatusArgs,
}

/// Shows the status and returns its exit state.
pub(crate) async fn run(hub: &HubArgs, args: &StatusArgs) -> Result<ExitState, StatusError> {
    let query = Query {
        hub: ApiServer::hub(hub).await?,
        args,
    };
    let deadline = Instant::now() + args.waiting.timeout;
    if args.watch {
        return watch::run(&query).await;
    }
    let mut snapshot = query.look().await?;
    if args.waiting.wait {
        query.wait(&mut snapshot, deadline).await?;
        // The awaited change in one member may have followed the read of another.
        query.read_members(&mut snapshot).await;
    }
    let report = query.report(&snapshot);
    query.show(&report)?;
    query.found(&report)?;
    if args.waiting.wait {
        let (seconds, what) = (args.waiting.timeout.as_secs(), query.problems(&report));
        match query.awaited(&report) {
            ExitState::Good => {}
            ExitState::Problem => return Err(StatusError::NotInTime { seconds, what }),
            ExitState::Unknown => return Err(StatusError::NotKnown { seconds, what }),
        }
    }
    Ok(report.exit_state())
}

/// Reads the status once.
///
/// # Errors
/// The hub cannot be read.
pub(crate) async fn read(hub: ApiServer, args: &StatusArgs) -> Result<Report, StatusError> {
    let query = Query { hub, args };
    Ok(query.report(&query.look().await?))
}

/// Objects that a status is computed from.
#[derive(Default)]
struct Snapshot {
    services: Vec<MultiClusterService>,
    /// `None` if the user may not list Clusters.
    clusters: Option<Arc<Vec<Cluster>>>,
    /// Exports, imports and their objects in each member, or the error of the read.
    readings: Readings,
    /// Observations of services that involve Karmada.
    karmadas: Observations,
    /// Tiers and ready endpoints of the consumers. `None` unless one service is named and read.
    exposed: Option<Exposed>,
    /// ServiceExports and ServiceImports on the hub, without any effect there.
    misplaced: Vec<Misplaced>,
    /// Failed reads other than those of members, a sentence each.
    unknown: Vec<String>,
}

impl Query<'_> {
    fn place(&self) -> String {
        if self.args.all_namespaces {
            return "in any namespace".to_owned();
        }
        format!("in namespace {:?}", self.hub.config.default_namespace)
    }

    /// Returns the set of objects that the command observes.
    fn scope(&self) -> scope::Scope {
        let namespace = self.hub.config.default_namespace.clone();
        scope::Scope {
            namespace: (!self.args.all_namespaces).then_some(namespace),
            name: self.args.name.clone(),
            allow_insecure: self.args.insecure.allow_insecure_members,
            breadth: Breadth::Clusterset,
        }
    }

    /// Checks that the named service exists.
    ///
    /// # Errors
    /// `NotFound` if a name is given and the report holds no service.
    fn found(&self, report: &Report) -> Result<(), StatusError> {
        match &self.args.name {
            Some(name) if report.is_empty() => Err(StatusError::NotFound {
                name: name.clone(),
                place: self.place(),
                unread: unread(report),
            }),
            _ => Ok(()),
        }
    }

    async fn look(&self) -> Result<Snapshot, StatusError> {
        let services = once::multi_cluster_services(&self.hub, &self.scope()).await?;
        // A hub that does not serve Cluster yields an empty list.
        let clusters = allowed(once::clusters(&self.hub).await)?;
        let mut snapshot = Snapshot {
            services,
            clusters: clusters.map(|clusters| Arc::new(clusters.unwrap_or_default())),
            ..Snapshot::default()
        };
        self.read_members(&mut snapshot).await;
        Ok(snapshot)
    }

    async fn read_members(&self, snapshot: &mut Snapshot) {
        let Some(clusters) = &snapshot.clusters else {
            return;
        };
        let scope = self.scope();
        let (services, insecure) = (&snapshot.services, scope.allow_insecure);
        // `one` reads the named service with Karmada's objects, so `karmada::read` skips it.
        let several = match self.args.name {
            Some(_) => &[],
            None => services.as_slice(),
        };
        let (readings, misplaced, mut karmadas, one) = tokio::join!(
            once::clusterset(&self.hub, clusters, &scope),
            misplaced::read(&self.hub, clusters, &scope),
            karmada::read(&self.hub, several, insecure),
            self.one()
        );
        snapshot.unknown.clear();
        snapshot.exposed = None;
        if let (Some(key), Some(one)) = (self.key(), one) {
            let observed = match &one {
                Ok(one) => karmada::observed(one),
                Err(_) => karmada::Observed {
                    health: None,
                    unapplied: binding::unapplied(&self.hub, &key)
                        .await
                        .unwrap_or_default(),
                },
            };
            karmadas.insert((key.namespace.to_string(), key.name.to_string()), observed);
            snapshot.exposed = match one {
                Ok(one) => Some(explain::exposed(&one)),
                Err(why) if asks_for_tiers(services, &readings) => snapshot.unknown(TIERS, &why),
                Err(_) => None,
            };
        }
        snapshot.karmadas = karmadas;
        snapshot.readings = readings;
        snapshot.misplaced = misplaced.unwrap_or_else(|why| snapshot.unknown(MISPLACED, &why));
    }

    /// Returns the key of the named service.
    fn key(&self) -> Option<ServiceKey> {
        let name = self.args.name.as_deref()?;
        let namespace = self.hub.config.default_namespace.as_str();
        Some(ServiceKey::new(namespace, name))
    }

    /// Reads the named service.
    async fn one(&self) -> Option<Result<service::Snapshot, GatherError>> {
        let insecure = self.args.insecure.allow_insecure_members;
        Some(once::read(&self.hub, &self.key()?, insecure).await)
    }

    fn report(&self, snapshot: &Snapshot) -> Report {
        let scope = if self.args.name.is_some() {
            Scope::One
        } else {
            Scope::All
        };
        let clusters = snapshot
            .clusters
            .as_ref()
            .map(|clusters| clusters.as_slice());
        Report::new(scope, clusters, &snapshot.services)
            .with_karmadas(&snapshot.karmadas)
            .with(&snapshot.readings)
            .with_exposed(snapshot.exposed.as_ref())
            .with_misplaced(&snapshot.misplaced)
            .with_unknown(&snapshot.unknown)
    }

    /// Waits until the awaited state is reached or the deadline passes.
    ///
    /// Follows the hub and reads the members every 2 seconds. Also returns if the named service is
    /// known to be gone. If the user may not list Clusters, `wait` returns once everything visible
    /// is healthy.
    async fn wait(&self, snapshot: &mut Snapshot, deadline: Instant) -> Result<(), StatusError> {
        let may_see_clusters = snapshot.clusters.is_some();
        let scope = scope::Scope {
            breadth: Breadth::Hub,
            ..self.scope()
        };
        let (mut follow, mut changes) = follow(self.hub.clone(), scope);
        let mut members = interval_at(Instant::now() + MEMBERS_EVERY, MEMBERS_EVERY);
        members.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut failure) = (String::new(), String::new());
        loop {
            let report = self.report(snapshot);
            let gone = self.args.name.is_some() && report.is_empty();
            let is_over = match self.awaited(&report) {
                ExitState::Good => true,
                ExitState::Unknown => !may_see_clusters,
                ExitState::Problem => gone && (report.is_complete() || !may_see_clusters),
            };
            if is_over {
                return Ok(());
            }
            let problems = self.problems(&report);
            if problems != last {
                output::progress(format_args!("waiting: {problems}"))?;
                last = problems;
            }
            tokio::select! {
                Some(change) = changes.recv() => {
                    follow.apply(change);
                    let hub = &mut follow.fleet.hub;
                    if let Some(why) = hub.ended.take().map(|why| why.to_string()) {
                        if why != failure {
                            output::progress(format_args!(
                                "waiting: a watch failed, trying again: {why}"
                            ))?;
                        }
                        failure = why;
                    } else if hub.link.row().connected {
                        snapshot.take_hub(hub);
                    }
                }
                _ = members.tick() => {
                    if timeout_at(deadline, self.read_members(snapshot)).await.is_err() {
                        return Ok(());
                    }
                }
                () = sleep_until(deadline) => return Ok(()),
            }
        }
    }

    /// Returns the exit state of the state that `--wait` awaits.
    fn awaited(&self, report: &Report) -> ExitState {
        let has_endpoints = match self.args.awaited {
            Awaited::Ready => Some(true),
            Awaited::Endpoints => report.has_endpoints(),
        };
        let is_good = report.ready && has_endpoints != Some(false);
        ExitState::new(is_good, report.is_complete() && has_endpoints.is_some())
    }

    /// Returns problems and unknown values in one line.
    fn problems(&self, report: &Report) -> String {
        let endpoints = match (self.args.awaited, report.has_endpoints()) {
            (Awaited::Endpoints, Some(false)) => "no consumer has a ready endpoint",
            (Awaited::Endpoints, None) => "the endpoints of the consumers are unknown",
            _ => "",
        };
        let both = [problems(report), endpoints.to_owned()];
        both.into_iter()
            .filter(|one| !one.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }

    fn show(&self, report: &Report) -> Result<(), StatusError> {
        let now = Timestamp::now();
        let screen = Screen::stdout(self.args.color.color);
        output::report_on(screen, report, self.args.output.format, || {
            match self.args.name.is_some() {
                true => text::all_details(report, now, screen),
                false => text::overview(report, now, screen),
            }
        })?;
        self.note_empty(report)
    }

    fn note_empty(&self, report: &Report) -> Result<(), StatusError> {
        if report.is_empty() && self.args.name.is_none() && self.args.output.format.is_none() {
            output::progress(format_args!(
                "No MultiClusterServices and no exported services found {}.",
                self.place()
            ))?;
        }
        Ok(())
    }
}

impl Snapshot {
    /// Replaces services and Clusters by those of a followed hub.
    fn take_hub(&mut self, hub: &Hub) {
        self.services = hub.mcs.all().cloned().collect();
        self.clusters = hub.may_list_clusters.then(|| hub.all_clusters.clone());
    }

    /// Records that `what` could not be read, and returns an empty value.
    fn unknown<T: Default>(&mut self, what: &str, why: &dyn std::error::Error) -> T {
        self.unknown.push(format!("{what} are not shown: {why}"));
        T::default()
    }
}

/// Whether an annotation requests tiers instead of equal use of all providers.
fn asks_for_tiers(services: &[MultiClusterService], readings: &Readings) -> bool {
    let asks = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        annotations.is_some_and(|all| {
            let mut names = Failover::ANNOTATIONS.into_iter();
            names.any(|name| all.contains_key(name))
        })
    };
    let exports = readings.values().flatten().flat_map(|held| &held.exports);
    let mut metas = services
        .iter()
        .map(Resource::meta)
        .chain(exports.map(Resource::meta));
    metas.any(asks)
}

/// Returns a suffix that lists unread parts, any of which may hold the named service.
fn unread(report: &Report) -> String {
    let members = report.unread.iter();
    let members = members.map(|member| format!("{} ({})", member.name, member.message));
    let unknown = report.unknown.iter().cloned();
    match members
        .chain(unknown)
        .collect::<Vec<_>>()
        .join(", ")
        .as_str()
    {
        "" => String::new(),
        members => format!(", not read: {members}"),
    }
}

/// Returns the problems in one line.
fn problems(report: &Report) -> String {
    let services = report
        .services
        .iter()
        .filter(|service| !service.ready)
        .map(|service| {
            format!(
                "{}/{}: {} ({})",
                service.namespace, service.name, service.reason, service.message
            )
        });
    let members = report
        .members
        .iter()
        .flatten()
        .filter(|member| !member.is_healthy())
        .map(|member| {
            let problem = member.problem().unwrap_or_default();
            format!("member {}: {} ({problem})", member.name, member.state)
        });
    let exported = report.exports.iter();
    let exports = exported.filter(|service| !service.ready).map(|service| {
        format!(
            "export of {}/{}: {} ({})",
            service.namespace, service.name, service.reason, service.message
        )
    });
    let misplaced = report.misplaced.iter().map(|one| one.message.clone());
    let unread = report.unread.iter();
    let unread = unread.map(|one| format!("member {} is not read: {}", one.name, one.message));
    members
        .chain(services)
        .chain(exports)
        .chain(misplaced)
        .chain(unread)
        .chain(report.unknown.iter().cloned())
        .map(|problem| printable(&problem).into_owned())
        .collect::<Vec<_>>()
        .join("; ")
}
