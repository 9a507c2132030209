//! `kubectl mcs status`: reports the members, the services and their problems.

mod watch;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep, timeout_at};

use super::overview::{Overview, Snapshot};
use crate::args::{Awaited, StatusArgs};
use crate::cluster::access::HubArgs;
use crate::observe::kubeconfigs;
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

/// Pause between two looks during `--wait`.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

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
        query.wait(snapshot, deadline).await?;
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
    /// Looks again every 2 seconds, also after a failed look. Also returns if the named service is
    /// known to be gone. If the user may not list Clusters, `wait` returns once everything visible
    /// is healthy.
    async fn wait(&self, first: Snapshot, deadline: Instant) -> Result<(), Failure> {
        let (mut looked, mut last) = (Ok(first), String::new());
        loop {
            let state = match looked {
                Ok(snapshot) => {
                    let report = self.overview.report(&snapshot);
                    if self.is_over(&report, snapshot.clusters.is_some()) {
                        return Ok(());
                    }
                    self.problems(&report)
                }
                Err(why) => format!("a read failed, trying again: {why}"),
            };
            if state != last {
                output::progress(format_args!("waiting: {state}"))?;
                last = state;
            }
            let again = async {
                sleep(LOOK_AGAIN).await;
                self.overview.look().await
            };
            match timeout_at(deadline, again).await {
                Ok(again) => looked = again,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Whether the awaited state is reached, or the named service is known to be gone.
    fn is_over(&self, report: &Report, may_see_clusters: bool) -> bool {
        let gone = self.args.name.is_some() && report.is_empty();
        match self.awaited(report) {
            ExitState::Good => true,
            ExitState::Unknown => !may_see_clusters,
            ExitState::Problem => gone && (report.is_complete() || !may_see_clusters),
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
