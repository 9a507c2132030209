//! `kubectl mcs status`: reports the members, the services and their problems.

mod watch;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout_at};

use super::overview::{Overview, Snapshot};
use crate::args::{Awaited, StatusArgs};
use crate::cluster::access::HubArgs;
use crate::observe::follow::follow;
use crate::observe::kubeconfigs;
use crate::observe::scope::{Breadth, Scope};
use crate::term::exit::{CommandError, ExitState, Failure, PROBLEM, UNKNOWN};
use crate::term::output::{self, OutputError};
use crate::term::screen::Screen;
use crate::views::status::report::Report;
use crate::views::status::{summary, text};

/// Failure to read or to show the status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    #[error(
        "{name:?} not found {place}: neither a MultiClusterService on the hub nor a ServiceExport or ServiceImport in a \
         member{unread}; kubectl mcs status -A shows all namespaces"
    )]
    Absent {
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
            Self::NotKnown { .. } => UNKNOWN,
            Self::Absent { unread, .. } if !unread.is_empty() => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

/// Interval between two reads of the members during `--wait`.
const MEMBERS_EVERY: Duration = Duration::from_secs(2);

/// Arguments of the command and the overview that it shows.
struct Query<'a> {
    overview: Overview,
    args: &'a StatusArgs,
}

/// Shows the status and returns its exit state.
pub(crate) async fn run(hub: &HubArgs, args: &StatusArgs) -> Result<ExitState, Failure> {
    let query = Query {
        overview: Overview {
            hub: kubeconfigs::hub(hub, &args.members).await?,
            all_namespaces: args.all_namespaces,
            name: args.name.clone(),
            allow_insecure: args.insecure.allow_insecure_members,
        },
        args,
    };
    let deadline = Instant::now() + args.waiting.timeout;
    if args.watch {
        return watch::run(&query).await;
    }
    let mut snapshot = query.overview.look().await?;
    if args.waiting.wait {
        query.wait(&mut snapshot, deadline).await?;
        // The awaited change in one member may have followed the read of another. The hub may have
        // become unreachable.
        snapshot = query.overview.look().await?;
    }
    let report = query.overview.report(&snapshot);
    query.show(&report)?;
    query.found(&report)?;
    if args.waiting.wait {
        let (seconds, what) = (args.waiting.timeout.as_secs(), query.problems(&report));
        match query.awaited(&report) {
            ExitState::Good => {}
            ExitState::Problem => return Err(StatusError::NotInTime { seconds, what }.into()),
            ExitState::Unknown => return Err(StatusError::NotKnown { seconds, what }.into()),
        }
    }
    Ok(report.exit_state())
}

impl Query<'_> {
    fn place(&self) -> String {
        if self.args.all_namespaces {
            return "in any namespace".to_owned();
        }
        format!(
            "in namespace {:?}",
            self.overview.hub.config.default_namespace
        )
    }

    /// Checks that the named service exists.
    ///
    /// # Errors
    /// `Absent` if a name is given and the report holds no service.
    fn found(&self, report: &Report) -> Result<(), StatusError> {
        match &self.args.name {
            Some(name) if report.is_empty() => Err(StatusError::Absent {
                name: name.clone(),
                place: self.place(),
                unread: summary::unread(report),
            }),
            _ => Ok(()),
        }
    }

    /// Waits until the awaited state is reached or the deadline passes.
    ///
    /// Follows the hub and reads the members every 2 seconds. Also returns if the named service is
    /// known to be gone. If the user may not list Clusters, `wait` returns once everything visible
    /// is healthy.
    async fn wait(&self, snapshot: &mut Snapshot, deadline: Instant) -> Result<(), Failure> {
        let may_see_clusters = snapshot.clusters.is_some();
        let scope = Scope {
            breadth: Breadth::Hub,
            ..self.overview.scope()
        };
        let (mut follow, mut changes) = follow(self.overview.hub.clone(), scope);
        let mut members = interval_at(Instant::now() + MEMBERS_EVERY, MEMBERS_EVERY);
        members.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut failure) = (String::new(), String::new());
        loop {
            let report = self.overview.report(snapshot);
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
                    if timeout_at(deadline, self.overview.read_members(snapshot)).await.is_err() {
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
        let is_good = !report.is_wrong && has_endpoints != Some(false);
        ExitState::new(is_good, report.is_complete() && has_endpoints.is_some())
    }

    /// Returns problems and unknown values in one line.
    fn problems(&self, report: &Report) -> String {
        let endpoints = match (self.args.awaited, report.has_endpoints()) {
            (Awaited::Endpoints, Some(false)) => "no consumer has a ready endpoint",
            (Awaited::Endpoints, None) => "the endpoints of the consumers are unknown",
            _ => "",
        };
        let both = [summary::problems(report), endpoints.to_owned()];
        both.into_iter()
            .filter(|one| !one.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }

    fn show(&self, report: &Report) -> Result<(), OutputError> {
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

    fn note_empty(&self, report: &Report) -> Result<(), OutputError> {
        let is_text = self.args.output.format.is_none();
        if report.is_empty() && report.is_complete() && self.args.name.is_none() && is_text {
            output::progress(format_args!(
                "No MultiClusterServices and no exported services found {}.",
                self.place()
            ))?;
        }
        Ok(())
    }
}
