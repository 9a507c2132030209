//! Moves services between Karmada's controllers and causeway. Each turn reads hub and members,
//! plans, and carries out the writes that are possible.

#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod gate;
pub(crate) mod outcome;
pub(crate) mod step;

use std::collections::BTreeSet;
use std::time::Duration;

use causeway::domain::ServiceKey;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::gate::{Gate, Manager};
use self::outcome::{Left, Outcome, Plan, Report, State, Written};
use self::step::{Done, Members, Step, StepError};
use crate::args::MoveArgs;
use crate::cluster::access::HubArgs;
use crate::cluster::api_server::ApiServer;
use crate::cluster::karmada;
use crate::cluster::lease::{self, Controller};
use crate::observe::kubeconfigs;
use crate::observe::once;
use crate::observe::service::Snapshot;
use crate::term::exit::{CommandError, ExitState, Failure, PROBLEM, UNKNOWN};
use crate::term::output::{self, OutputError};

/// Interval between two reads of hub and members during a move.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Failure to move services.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveError {
    #[error(
        "you may not get namespace kube-system of the hub, whose UID identifies what causeway wrote; use a kubeconfig that may"
    )]
    HubForbidden,
    #[error(
        "you may not get Lease {0} on the hub, which shows whether causeway-controller runs. \
         Nothing was moved; use a kubeconfig that may"
    )]
    ControllerUnknown(String),
    /// Karmada's controllers wrote nothing, and may not run.
    #[error(
        "you may not get Lease {namespace}/{name} on the hub, which shows whether {name} runs; \
         that it does not write proves nothing if it does not run. Nothing was moved; use a \
         kubeconfig that may",
        namespace = gate::LEASE.0,
        name = gate::LEASE.1
    )]
    ManagerUnknown,
    #[error(
        "MultiClusterService {0} not found on the hub, and no object of Karmada's belongs to one; kubectl mcs status -A shows all namespaces"
    )]
    NotFound(ServiceKey),
}

impl CommandError for MoveError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::HubForbidden | Self::ControllerUnknown(_) | Self::ManagerUnknown => UNKNOWN,
            Self::NotFound(_) => PROBLEM,
        }
    }
}

/// Direction of a move, between Karmada and causeway.
pub(crate) struct Direction {
    /// Participle for messages, such as `adopted`.
    pub done: &'static str,
    /// Message about a service that needs no move.
    pub nothing: &'static str,
    /// Required state of Karmada's controllers: true if they must be running.
    pub gate: bool,
    /// Returns the possible writes and the unfinished rest.
    pub plan: fn(&Snapshot) -> Plan,
    /// Returns all writes of the move, for a dry run.
    pub whole: fn(&Snapshot) -> Plan,
    /// Previous manager, as messages name it.
    pub previous: &'static str,
    /// Returns the members that hold objects of the previous manager, which no object of the hub
    /// names at the end of the move.
    pub holders: fn(&Snapshot) -> BTreeSet<String>,
    /// Returns the reason that makes the move impossible.
    pub obstacle: fn(&Snapshot) -> Option<String>,
    /// Returns the reason to stop the move, given the UIDs of the Works at its start.
    pub halt: fn(&Snapshot, &BTreeSet<String>) -> Option<String>,
    /// Returns the reason to refuse the move, given the state of Karmada's controllers.
    pub refusal: fn(&Gate) -> Option<String>,
}

impl Direction {
    /// Plans the writes that are allowed now. `holders`: the members that held objects when they
    /// were last read, which the function updates. An unread one is left, and its objects may
    /// remain, so the move does not end.
    pub(crate) fn next(&self, snapshot: &Snapshot, holders: &mut BTreeSet<String>) -> Plan {
        holders.retain(|name| !matches!(snapshot.members.get(name), Some(Ok(_))));
        holders.extend((self.holders)(snapshot));
        let mut plan = (self.plan)(snapshot);
        let unread = holders.iter().filter_map(|name| {
            let why = snapshot.members.get(name)?.as_ref().err()?;
            Some(Left::unread(snapshot, name, self.previous, why))
        });
        let unread: Vec<_> = unread.filter(|one| !plan.left.contains(one)).collect();
        if !unread.is_empty() {
            plan.steps
                .retain(|step| !matches!(step, Step::PatchService(..)));
            plan.left.extend(unread);
        }
        plan
    }
}

/// Services that a command without a name moves.
pub(crate) struct Found {
    pub keys: Vec<ServiceKey>,
    /// Whether every member was searched.
    pub is_complete: bool,
}

/// Moves the named service, or all services that `list` finds in the given namespace. Returns
/// [`ExitState::Unknown`] if unread members may have more services, or more to change in a dry run.
pub(crate) async fn run(
    hub: &HubArgs,
    args: &MoveArgs,
    direction: &Direction,
    list: impl AsyncFnOnce(&ApiServer, Option<&str>) -> Result<Found, Failure>,
) -> Result<ExitState, Failure> {
    let namespace = hub.namespace.as_deref();
    let hub = &kubeconfigs::hub(hub, &args.members).await?;
    let found = match &args.name {
        Some(name) => {
            let namespace = hub.config.default_namespace.as_str();
            Found {
                keys: vec![ServiceKey::new(namespace, name.as_str())],
                is_complete: true,
            }
        }
        None => list(hub, namespace).await?,
    };
    let mover = Mover {
        hub,
        args,
        direction,
    };
    let report = mover.run(&found.keys).await?;
    let is_known = report.services.iter().all(Outcome::is_known);
    Ok(ExitState::new(report.done, found.is_complete && is_known))
}

/// Context of a move.
struct Mover<'a> {
    hub: &'a ApiServer,
    args: &'a MoveArgs,
    direction: &'a Direction,
}

impl Mover<'_> {
    /// Moves the services one by one and prints the report.
    async fn run(&self, keys: &[ServiceKey]) -> Result<Report, Failure> {
        let mut outcomes = Vec::new();
        let mut due = Vec::new();
        for key in keys {
            let snapshot = self.look(key).await?;
            if snapshot.mcs.is_none()
                && snapshot.works.iter().flatten().next().is_none()
                && !self.args.all
            {
                return Err(MoveError::NotFound(key.clone()).into());
            }
            match self.settled(key, &snapshot) {
                Some(outcome) => outcomes.push(outcome),
                None => due.push(snapshot),
            }
        }
        for outcome in &outcomes {
            self.print(outcome)?;
        }
        let refused = match due.is_empty() {
            true => None,
            false => self.refused(&due).await?,
        };
        for snapshot in &due {
            let outcome = match &refused {
                Some(why) => Outcome::new(
                    &snapshot.key,
                    State::Refused,
                    format!("not {}: {why}", self.direction.done),
                ),
                None if self.args.dry_run => self.planned(snapshot)?,
                None => self.walk(&snapshot.key).await?,
            };
            self.print(&outcome)?;
            outcomes.push(outcome);
        }
        Ok(self.finish(Report::new(self.args.dry_run, outcomes))?)
    }

    async fn look(&self, key: &ServiceKey) -> Result<Snapshot, Failure> {
        let allow_insecure = self.args.insecure.allow_insecure_members;
        let snapshot = once::read(self.hub, key, allow_insecure).await?;
        if snapshot.works.is_none() {
            return Err(karmada::WorksForbidden.into());
        }
        if snapshot.hub_uid.is_none() {
            return Err(MoveError::HubForbidden.into());
        }
        Ok(snapshot)
    }

    /// Returns the outcome of a service that needs no move or cannot be moved.
    fn settled(&self, key: &ServiceKey, snapshot: &Snapshot) -> Option<Outcome> {
        if (self.direction.plan)(snapshot).is_empty() {
            return Some(Outcome::new(key, State::Done, self.direction.nothing));
        }
        let why = (self.direction.obstacle)(snapshot)?;
        Some(Outcome::new(
            key,
            State::Refused,
            format!("not {}: {why}", self.direction.done),
        ))
    }

    /// Returns the reason to refuse all moves: causeway does not run, or Karmada's controllers are
    /// not in the required state.
    async fn refused(&self, due: &[Snapshot]) -> Result<Option<String>, Failure> {
        let lease = &self.args.controller.lease;
        let controller = Controller::read(self.hub, lease).await?;
        if matches!(controller, Controller::Unknown) {
            let lease = lease.0.iter();
            let lease = lease.map(|(namespace, name)| format!("{namespace}/{name}"));
            return Err(MoveError::ControllerUnknown(lease.collect()).into());
        }
        if let Some(problem) = controller.problem(lease::now(self.hub).await) {
            return Ok(Some(format!(
                "{problem}: nothing would manage the service afterwards. {}",
                lease::REMEDY
            )));
        }
        let manager = gate::manager(self.hub).await?;
        let window = match &manager {
            Manager::Answers(after) => self.args.observe.max(*after),
            Manager::Unknown => self.args.observe,
            Manager::Silent(why) => {
                let reported = "so its feature gates cannot be determined; start it first";
                return Ok(Some(format!("{why}, {reported}")));
            }
        };
        let probed = due
            .iter()
            .filter(|snapshot| snapshot.mcs.is_some() && !self.args.dry_run);
        let probed: Vec<_> = probed.map(|snapshot| snapshot.key.clone()).collect();
        output::progress(format_args!(
            "watching for {} s whether Karmada's MultiClusterService controllers write",
            window.as_secs()
        ))?;
        for key in &probed {
            output::progress(gate::command(key))?;
        }
        let observed = gate::observe(self.hub, &probed, window).await;
        let refusal = observed.map_err(Failure::from).and_then(|gate| {
            if manager.leaves_unknown(&gate) {
                return Err(MoveError::ManagerUnknown.into());
            }
            // Without probes, silence of the controllers proves nothing.
            let unknown = probed.is_empty() && gate == Gate::Off && self.direction.gate;
            Ok((self.direction.refusal)(&gate).filter(|_| !unknown))
        });
        if !matches!(refusal, Ok(None)) {
            for key in &probed {
                gate::probe(self.hub, key, None).await?;
            }
        }
        refusal
    }

    fn planned(&self, snapshot: &Snapshot) -> Result<Outcome, OutputError> {
        let plan = (self.direction.whole)(snapshot);
        let mut outcome = Outcome::new(
            &snapshot.key,
            State::Planned,
            format!("would be {} (dry run)", self.direction.done),
        );
        for step in &plan.steps {
            self.command(&step.located_command())?;
            outcome.commands.push(Written::from(step));
        }
        outcome.left = plan.left;
        Ok(outcome)
    }

    /// Repeats plan and writes until the move is complete, `halt` gives a reason, or the deadline
    /// passes. Without `--wait` it ends after a turn without progress.
    async fn walk(&self, key: &ServiceKey) -> Result<Outcome, Failure> {
        let deadline = Instant::now() + self.args.waiting.timeout;
        let mut ticks = interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outcome = Outcome::new(key, State::Done, self.direction.done);
        let (mut works, mut last) = (None, String::new());
        let mut holders = BTreeSet::new();
        loop {
            ticks.tick().await;
            let snapshot = self.look(key).await?;
            let works = works.get_or_insert_with(|| uids(&snapshot));
            if let Some(why) = (self.direction.halt)(&snapshot, works) {
                outcome.state = State::Refused;
                outcome.message = format!("not {}: {why}", self.direction.done);
                return Ok(outcome);
            }
            let plan = self.direction.next(&snapshot, &mut holders);
            if plan.is_empty() {
                return Ok(outcome);
            }
            let failed = self.write(&plan, &snapshot, &mut outcome).await?;
            let wrote = !plan.steps.is_empty() && failed.is_empty();
            let late = Instant::now() >= deadline;
            if late || (!self.args.waiting.wait && !wrote) {
                outcome.left = plan.left.into_iter().chain(failed).collect();
                outcome.state = State::Unfinished;
                outcome.message = self.unfinished(&snapshot, late);
                return Ok(outcome);
            }
            if wrote {
                ticks.reset_immediately();
                continue;
            }
            let waits = plan.left.iter().chain(&failed).map(ToString::to_string);
            let now = waits.collect::<Vec<_>>().join("; ");
            if now != last {
                output::progress(format_args!("{key}: waiting: {now}"))?;
            }
            last = now;
        }
    }

    /// Carries out and prints the writes of a plan. Returns the writes that members failed to
    /// accept.
    async fn write(
        &self,
        plan: &Plan,
        snapshot: &Snapshot,
        outcome: &mut Outcome,
    ) -> Result<Vec<Left>, Failure> {
        let mut members = Members::new(
            &snapshot.clusters,
            self.args.insecure.allow_insecure_members,
        );
        let mut failed = Vec::new();
        for step in &plan.steps {
            match step.write(self.hub, &mut members).await {
                Ok(Done::Written) => {
                    self.command(&step.located_command())?;
                    outcome.commands.push(Written::from(step));
                }
                Ok(Done::Overtaken) => {}
                Err(StepError::Hub(error)) => return Err(error.into()),
                Err(StepError::Member(why)) => failed.push(Left::hub(why)),
            }
        }
        Ok(failed)
    }

    fn unfinished(&self, snapshot: &Snapshot, late: bool) -> String {
        let within = match late {
            true => format!(" within {} s", self.args.waiting.timeout.as_secs()),
            false => String::new(),
        };
        let reported = snapshot
            .reported()
            .map(|reported| format!("; the controller says {reported}"));
        format!(
            "not {} yet{within}: run this again{}",
            self.direction.done,
            reported.unwrap_or_default()
        )
    }

    fn finish(&self, report: Report) -> Result<Report, OutputError> {
        output::report(&report, self.args.output.format, || {
            match (self.args.all, self.args.dry_run) {
                (false, _) => String::new(),
                (true, true) => report.summary(&format!("would be {}", self.direction.done)),
                (true, false) => report.summary(self.direction.done),
            }
        })?;
        Ok(report)
    }

    fn print(&self, outcome: &Outcome) -> Result<(), OutputError> {
        outcome
            .lines()
            .iter()
            .try_for_each(|line| self.command(line))
    }

    /// Prints a command on standard output, or as progress if programs read standard output.
    fn command(&self, line: &str) -> Result<(), OutputError> {
        match self.args.output.format {
            Some(_) => output::progress(line),
            None => output::result(line),
        }
    }
}

/// Returns the UIDs of the Works.
fn uids(snapshot: &Snapshot) -> BTreeSet<String> {
    let works = snapshot.works.iter().flatten();
    works.map(|work| work.uid().to_owned()).collect()
}
