//! `kubectl mcs status -w`: prints every item, then each change, as `kubectl get -w` does.
//!
//! The command follows hub and members and lists each kind once. A change on the hub triggers a
//! read of the health of services that Karmada manages.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, timeout_at};

use super::Query;
use crate::cluster::api_server::RequestError;
use crate::commands::overview::{MISPLACED, Snapshot, karmadas};
use crate::observe::connect::READ_WITHIN;
use crate::observe::fleet::Change;
use crate::observe::follow::{Changes, Follow, follow};
use crate::observe::misplaced;
use crate::term::exit::{ExitState, Failure};
use crate::term::output::{self, Reader};
use crate::term::screen::Screen;
use crate::views::status::changes::Printer;

/// Prints the status and its changes until the reader of standard output is gone.
pub(super) async fn run(query: &Query<'_>) -> Result<ExitState, Failure> {
    let screen = Screen::stdout(query.args.color.color);
    let format = query.args.output.format;
    let mut printer = Printer::new(format, screen);
    let (follow, mut received) = follow(query.overview.hub.clone(), query.overview.scope());
    let mut live = Live {
        query,
        follow,
        snapshot: Snapshot::default(),
        members: BTreeSet::new(),
        hub_changed: true,
        is_listed: false,
        failure: String::new(),
    };
    live.read(&mut received).await?;
    let first = query.overview.report(&live.snapshot);
    query.found(&first)?;
    let mut reader = output::stream(&printer.next(&first, Timestamp::now())?, format, screen)?;
    query.note_empty(&first)?;
    while reader == Reader::Reads {
        let Some(change) = received.recv().await else {
            break;
        };
        live.apply(change)?;
        while let Ok(change) = received.try_recv() {
            live.apply(change)?;
        }
        live.settle().await;
        let report = query.overview.report(&live.snapshot);
        let text = printer.next(&report, Timestamp::now())?;
        if !text.is_empty() {
            reader = output::stream(&text, format, screen)?;
        }
    }
    Ok(ExitState::Good)
}

/// Followed objects and the status computed from them.
struct Live<'a> {
    query: &'a Query<'a>,
    follow: Follow,
    snapshot: Snapshot,
    /// Members with changes that `settle` has not processed.
    members: BTreeSet<String>,
    hub_changed: bool,
    /// Whether the initial lists of the hub are complete.
    is_listed: bool,
    /// Error of the last broken connection to the hub.
    failure: String,
}

impl Live<'_> {
    /// Waits for the initial lists of the hub, then at most 5 seconds for those of the members.
    ///
    /// # Errors
    /// The hub refuses or does not answer within its timeout.
    async fn read(&mut self, received: &mut Changes) -> Result<(), Failure> {
        let by = Instant::now() + self.query.overview.hub.answer_within;
        while !self.follow.fleet.hub.link.row().connected {
            match timeout_at(by, received.recv()).await {
                Ok(Some(change)) => self.apply(change)?,
                Ok(None) | Err(_) => return Err(self.query.overview.hub.late().into()),
            }
        }
        self.is_listed = true;
        let by = Instant::now() + READ_WITHIN;
        let is_untried = |live: &Self| {
            let mut members = live.follow.fleet.members.values();
            members.any(|member| !member.link.is_tried())
        };
        while is_untried(self) {
            match timeout_at(by, received.recv()).await {
                Ok(Some(change)) => self.apply(change)?,
                Ok(None) | Err(_) => break,
            }
        }
        for (name, member) in &self.follow.fleet.members {
            let readings = &mut self.snapshot.readings;
            readings.insert(name.clone(), Err(member.failure.clone()));
            self.members.insert(name.clone());
        }
        self.settle().await;
        Ok(())
    }

    fn apply(&mut self, change: Change) -> Result<(), Failure> {
        let touched = self.follow.apply(change);
        match touched.member {
            Some(name) => {
                self.members.insert(name);
            }
            None => {
                self.hub_changed |=
                    touched.link || !touched.clusters.is_empty() || !touched.services.is_empty();
            }
        }
        match self.follow.fleet.hub.ended.take() {
            Some(why) => self.hub_ended(why),
            None => Ok(()),
        }
    }

    /// Updates the parts of the snapshot that depend on changed objects.
    async fn settle(&mut self) {
        let fleet = &self.follow.fleet;
        let readings = &mut self.snapshot.readings;
        readings.retain(|name, _| fleet.members.contains_key(name));
        for name in std::mem::take(&mut self.members) {
            let member = fleet.members.get(&name);
            if let Some(reading) = member.and_then(|member| member.clusterset()) {
                readings.insert(name, reading);
            }
        }
        if !std::mem::take(&mut self.hub_changed) {
            return;
        }
        self.snapshot.take_hub(&fleet.hub);
        let hub = &self.query.overview.hub;
        let insecure = self.query.args.insecure.allow_insecure_members;
        self.snapshot.karmadas = karmadas(hub, &self.snapshot.services, insecure).await;
        self.snapshot.unknown.clear();
        let Some(clusters) = &self.snapshot.clusters else {
            return;
        };
        if let Some(why) = fleet.hub.clusterset_unread() {
            self.snapshot.misplaced = self.snapshot.unknown(MISPLACED, why);
            return;
        }
        let exports: Vec<_> = fleet.hub.exports.objects.all().cloned().collect();
        let imports: Vec<_> = fleet.hub.imports.objects.all().cloned().collect();
        let read = misplaced::among(hub, clusters, &exports, &imports).await;
        self.snapshot.misplaced = read.unwrap_or_else(|why| self.snapshot.unknown(MISPLACED, &why));
    }

    /// Ends the command if the hub refuses a request or was never listed. Reports any other failure
    /// once: the watches restart.
    fn hub_ended(&mut self, why: RequestError) -> Result<(), Failure> {
        match why {
            RequestError::NotFound { .. } => {
                let hub = &self.query.overview.hub;
                return Err(hub.not_served("MultiClusterService").into());
            }
            RequestError::NotAllowed { .. } => return Err(why.into()),
            why if !self.is_listed => return Err(why.into()),
            _ => {}
        }
        let why = why.to_string();
        if why != self.failure {
            output::progress(format_args!("a watch failed, trying again: {why}"))?;
            self.failure = why;
        }
        Ok(())
    }
}
