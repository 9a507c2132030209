//! `kubectl mcs verify`: connects from pods to the destinations of a service, and reports failures.

mod diagnosis;
mod dialling;
mod paths;
mod pods;
pub(crate) mod probe;
mod report;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::ServiceKey;
use futures::{StreamExt as _, stream};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use self::pods::Run;
pub(crate) use self::report::Report;
use self::targets::{Dialler, Targets, left_out};
use crate::args::{PodArgs, VerifyArgs, WhatArgs};
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::cluster::images;
use crate::cluster::random;
use crate::observe::connect::UNSERVED;
use crate::observe::kubeconfigs;
use crate::observe::verification::Verification;
use crate::term::exit::{CommandError, ExitState, Failure, PROBLEM, UNKNOWN, USAGE};
use crate::term::interrupt::interrupted;
use crate::term::output::{self, OutputError};
use crate::term::screen::Screen;

/// Maximum number of services that one run verifies.
const MAX_SERVICES: usize = 200;
/// Maximum number of nodes of a consumer that one run connects from.
const MAX_NODES: usize = 100;
/// Maximum number of paths or pods that one line names.
const MAX_NAMED: usize = 3;
/// Maximum time in which a run stores its results.
const STORE_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of results that are stored concurrently.
const STORED_AT_ONCE: usize = 16;
/// Exit code of a program that the user interrupts (POSIX shells: 128 + SIGINT).
const INTERRUPTED: u8 = 130;

/// Failed verification of services.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    #[error(
        "{what} not found: no MultiClusterService on the hub and no ServiceImport in a member that \
         could be read{unread}"
    )]
    NotFound {
        what: String,
        /// Suffix that lists the members that could not be read. Empty if all were read.
        unread: String,
    },
    #[error("{0} is not joined; kubectl mcs status lists the members")]
    NotJoined(String),
    #[error("{0} is {UNSERVED}")]
    Unserved(String),
    #[error(
        "{count} services are more than the {MAX_SERVICES} of one run; name a namespace or a service"
    )]
    TooMany { count: usize },
    #[error("--print-job dials from one member; give --from once")]
    OneMember,
    #[error("the system has no random numbers")]
    NoRandomness,
    #[error("interrupted; the pods are deleted")]
    Interrupted,
    #[error(
        "some pods may be left; those that have started end by themselves 30 s after --timeout: {0}"
    )]
    Left(String),
}

impl CommandError for VerifyError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::TooMany { .. } | Self::OneMember => USAGE,
            Self::Interrupted => INTERRUPTED,
            Self::NotFound { unread, .. } if !unread.is_empty() => UNKNOWN,
            _ => PROBLEM,
        }
    }
}

/// Receiver of one-line messages about the progress.
pub(crate) type Notes<'a> = &'a (dyn Fn(String) -> Result<(), OutputError> + Send + Sync);

/// Report of a run, and the pods that may still exist.
struct Ended {
    report: Report,
    left: Option<VerifyError>,
    /// Services whose results the hub does not have, with the reasons.
    unstored: Vec<String>,
}

/// Run whose pods do not exist yet.
struct Prepared {
    hub: ApiServer,
    targets: Targets,
    run: Run,
    diallers: Vec<Dialler>,
    untried: Vec<String>,
    /// Members that the user chose. Without any, all consumers.
    from: Vec<String>,
}

/// Verifies services and returns the exit state of their paths.
pub(crate) async fn run(args: &HubArgs, verify: &VerifyArgs) -> Result<ExitState, Failure> {
    if verify.print_job && verify.what.from.len() != 1 {
        return Err(VerifyError::OneMember.into());
    }
    let prepared = Prepared::read(args, &verify.what, &verify.pods).await?;
    if verify.print_job || verify.dry_run {
        let untried = prepared.all_untried();
        for why in &untried {
            output::progress(format_args!("not tried: {why}"))?;
        }
        let (run, diallers) = (&prepared.run, &prepared.diallers);
        let objects = prepared.targets.objects(run, diallers, verify.print_job)?;
        output::raw(format!("{}\n", output::manifest(&objects)?).as_bytes())?;
        return Ok(ExitState::new(true, untried.is_empty()));
    }
    let stop = async {
        // Without signals the pods are deleted at the timeout.
        if interrupted().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let Ended {
        mut report,
        left,
        unstored,
    } = prepared
        .verify(&|text| output::progress(text), stop)
        .await?;
    // In text the notes name them.
    if verify.output.format.is_some() {
        report.untried.extend(unstored);
    }
    let screen = Screen::stdout(verify.color.color);
    output::report_on(screen, &report, verify.output.format, || {
        report.render(screen)
    })?;
    match left {
        Some(left) => Err(left.into()),
        None => Ok(report.exit_state()),
    }
}

/// Verifies services, and deletes the pods early once `stop` completes. The first of the untried
/// parts names the pods that may still exist, the last ones name results that are not stored.
pub(crate) async fn examine(
    args: &HubArgs,
    (what, pods): (&WhatArgs, &PodArgs),
    notes: Notes<'_>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Report, Failure> {
    let mut stop = std::pin::pin!(stop);
    let prepared = tokio::select! {
        prepared = Prepared::read(args, what, pods) => prepared?,
        () = &mut stop => return Err(VerifyError::Interrupted.into()),
    };
    let Ended {
        mut report,
        left,
        unstored,
    } = prepared.verify(notes, stop).await?;
    report.untried.extend(unstored);
    if let Some(left) = left {
        report.untried.insert(0, left.to_string());
    }
    Ok(report)
}

impl Prepared {
    async fn read(args: &HubArgs, what: &WhatArgs, pods: &PodArgs) -> Result<Self, Failure> {
        let hub = kubeconfigs::hub(args, &pods.members).await?;
        let targets = Targets::read(&hub, what).await?;
        let run = Run {
            id: random::digits::<4>().map_err(|_| VerifyError::NoRandomness)?,
            namespace: pods.probe_namespace.clone(),
            image: match &pods.image {
                Some(image) => image.clone(),
                None => image(&hub).await?,
            },
            timeout: pods.timeout,
        };
        let (diallers, untried) = targets.diallers(what).await;
        Ok(Self {
            hub,
            targets,
            run,
            diallers,
            untried,
            from: what.from.clone(),
        })
    }

    /// Returns the parts of the run and of its services that cannot be tried.
    fn all_untried(&self) -> BTreeSet<&String> {
        let services = self.diallers.iter().flat_map(|dialler| &dialler.services);
        let of_services = services.flat_map(|(_, paths)| &paths.untried);
        self.untried.iter().chain(of_services).collect()
    }

    /// Runs the pods, and stores the results on the hub.
    async fn verify(
        self,
        notes: Notes<'_>,
        stop: impl Future<Output = ()>,
    ) -> Result<Ended, Failure> {
        let planned = (self.diallers, self.untried);
        let verified = self.targets.verify(&self.run, planned, notes, stop);
        let mut ended = verified.await?;
        let (hub, targets, from) = (&self.hub, &self.targets, &*self.from);
        let report = &ended.report;
        let deadline = Instant::now() + STORE_WITHIN;
        let stores = report.services.iter().map(|service| async move {
            let key = service.key();
            let mut verification = service.verification(Timestamp::now())?;
            verification.untried += targets.untried_of(&key, &report.untried);
            let consumers = targets.possible_consumers(&key);
            let left_out = left_out(&consumers, from);
            let stored = store(hub, &key, verification, (&consumers, &left_out));
            let why = match timeout_at(deadline, stored).await {
                Ok(stored) => stored.err()?,
                Err(_) => format!("no answer within {} s", STORE_WITHIN.as_secs()),
            };
            Some(format!(
                "the result of {key} is not stored on the hub: {why}"
            ))
        });
        let stores: Vec<_> = stores.collect();
        let stored = stream::iter(stores).buffered(STORED_AT_ONCE);
        let stored: Vec<_> = stored.collect().await;
        for unstored in stored.into_iter().flatten() {
            notes(unstored.clone())?;
            ended.unstored.push(unstored);
        }
        Ok(ended)
    }
}

/// Stores the result of a service, with the earlier results that it does not replace. Without the
/// right to read these, stores only a result that is not partial, and replaces all of them. Returns
/// an error as a message, because the user gets the report.
async fn store(
    hub: &ApiServer,
    key: &ServiceKey,
    verification: Verification,
    (consumers, left_out): (&BTreeSet<String>, &BTreeSet<String>),
) -> Result<(), String> {
    let earlier = match Verification::stored(hub, key).await {
        Err(RequestError::NotAllowed { .. }) if !verification.is_partial(left_out) => None,
        earlier => earlier.map_err(|error| error.to_string())?,
    };
    let stored = verification.after(earlier, consumers, left_out);
    let written = stored.write(hub, key).await;
    written.map_err(|error| error.to_string())
}

/// Names the first [`MAX_NAMED`] items, and counts the others.
fn named(all: impl ExactSizeIterator<Item: ToString>) -> String {
    let more = all.len().saturating_sub(MAX_NAMED);
    let first: Vec<_> = all.take(MAX_NAMED).map(|one| one.to_string()).collect();
    let first = first.join(", ");
    match more {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns the image of this program, from the registry of the hub's own controller.
async fn image(hub: &ApiServer) -> Result<String, Failure> {
    Ok(match images::registry(hub).await? {
        Some(registry) => format!("{registry}/kubectl-mcs:{}", env!("CARGO_PKG_VERSION")),
        None => images::by_default("kubectl-mcs", ("pods", "--image"))?,
    })
}
