//! Report of a run: a matrix for users, and stable fields for programs. Pure.

use std::collections::{BTreeMap, BTreeSet};

use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::diagnosis::{Evidence, diagnose, words};
use super::named;
use super::probe::{Dialled, Outcome, Path};
use crate::observe::verification::{Destination, Reached, Verification};
use crate::term::exit::ExitState;
use crate::term::screen::{Screen, Tone};
use crate::term::table::{Cell, Table};

/// Result of a run. Programs read this format, and its field names must not change.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Whether no tried path fails.
    pub works: bool,
    /// Whether every path could be tried, and no outcome is unknown.
    pub complete: bool,
    pub services: Vec<ServiceReport>,
    /// Reasons that some paths could not be tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<String>,
}

/// Result of one service.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServiceReport {
    pub namespace: String,
    pub name: String,
    pub consumers: Vec<ConsumerReport>,
}

/// Result of one service from one consumer, or from one of its nodes.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsumerReport {
    pub cluster: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub paths: Vec<PathReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untried: Vec<String>,
}

/// Result of one path.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PathReport {
    #[serde(flatten)]
    pub path: Path,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub milliseconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Report {
    /// Creates the report of the given services.
    pub(super) fn new(services: Vec<ServiceReport>, untried: Vec<String>) -> Self {
        let consumers = || services.iter().flat_map(|service| &service.consumers);
        let works = || {
            let paths = consumers().flat_map(|consumer| &consumer.paths);
            paths.map(|path| path.outcome.works())
        };
        let has_consumers = consumers().next().is_some();
        Self {
            works: works().all(|works| works != Some(false)),
            complete: has_consumers
                && works().all(|works| works.is_some())
                && untried.is_empty()
                && consumers().all(|consumer| consumer.untried.is_empty()),
            services,
            untried,
        }
    }

    /// Returns the exit state of the command.
    pub(super) fn exit_state(&self) -> ExitState {
        ExitState::new(self.works, self.complete)
    }

    /// Renders the report as text for users.
    pub(super) fn render(&self, screen: Screen) -> String {
        let mut text = String::new();
        for service in &self.services {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&service.render(screen));
        }
        for why in &self.untried {
            text.push_str(&format!("not tried: {why}\n"));
        }
        text
    }
}

impl ServiceReport {
    /// Returns the key of the service.
    pub(crate) fn key(&self) -> ServiceKey {
        ServiceKey::new(self.namespace.as_str(), self.name.as_str())
    }

    /// Returns the part to store on the hub, or `None` if no path was tried.
    pub(crate) fn verification(&self, time: Timestamp) -> Option<Verification> {
        let mut results = BTreeMap::new();
        for consumer in &self.consumers {
            for path in &consumer.paths {
                let key = (consumer.from(), column(&path.path));
                let (from, to) = key.clone();
                let reached = results.entry(key).or_insert_with(|| Reached::new(from, to));
                reached.tried += 1;
                match path.outcome.works() {
                    Some(true) => reached.works += 1,
                    Some(false) => {
                        reached.problem.get_or_insert_with(|| words(&path.outcome));
                    }
                    None => reached.unknown += 1,
                }
            }
        }
        // Nodes of a cluster share most reasons.
        let untried = self.consumers.iter().flat_map(|consumer| {
            let untried = consumer.untried.iter();
            untried.map(move |why| (&consumer.cluster, why))
        });
        let untried: BTreeSet<_> = untried.collect();
        Verification::new(time, untried.len(), results.into_values().collect())
    }

    fn render(&self, screen: Screen) -> String {
        let columns = self.consumers.iter().flat_map(|consumer| &consumer.paths);
        let columns: BTreeSet<_> = columns.map(|path| column(&path.path)).collect();
        let heading = columns.iter().map(|column| match column {
            Destination::Provider(provider) => provider.clone(),
            Destination::ClusterIp => "CLUSTERIP".to_owned(),
            Destination::Names => "NAMES".to_owned(),
        });
        let first = format!("FROM {}", self.key());
        let mut table = Table::new(std::iter::once(first).chain(heading));
        for consumer in &self.consumers {
            let cells = columns.iter().map(|column| consumer.cell(column));
            let from = Cell::new(consumer.from(), Tone::Plain);
            table.row(std::iter::once(from).chain(cells), consumer.notes());
        }
        table.render_on(screen)
    }
}

impl ConsumerReport {
    /// Creates the report of one pod's outcomes. Paths without an outcome are untried, because of
    /// the error of the pod if it has one. `entered` has the members of other networks.
    pub(super) fn new(
        (cluster, node): (&str, Option<&str>),
        paths: &[Path],
        (dialled, error): (Vec<Dialled>, Option<&str>),
        mut untried: Vec<String>,
        entered: &BTreeSet<String>,
    ) -> Self {
        let servers = dialled
            .iter()
            .filter(|one| one.outcome.works() == Some(true));
        let servers: BTreeSet<_> = servers
            .filter(|one| matches!(one.path, Path::Server { .. }))
            .map(|one| column(&one.path))
            .collect();
        let endpoints_fail = dialled.iter().any(|one| {
            matches!(one.path, Path::Endpoint { .. }) && one.outcome.works() == Some(false)
        });
        let outcomes = dialled.into_iter().map(|one| {
            let evidence = Evidence {
                network_works: servers.contains(&column(&one.path)),
                endpoints_fail,
                is_entry: matches!(&one.path, Path::Endpoint { provider, .. }
                    if entered.contains(provider)),
            };
            one.report(cluster, evidence)
        });
        let outcomes: Vec<_> = outcomes.collect();
        let missing = paths.len().saturating_sub(outcomes.len());
        if missing > 0 {
            let why = error.map(|why| format!(": {why}")).unwrap_or_default();
            untried.push(format!("{missing} paths have no outcome{why}"));
        }
        Self {
            cluster: cluster.to_owned(),
            node: node.map(ToOwned::to_owned),
            paths: outcomes,
            untried,
        }
    }

    /// Returns the cluster, and the node if there is one.
    pub(crate) fn from(&self) -> String {
        match &self.node {
            Some(node) => format!("{} ({node})", self.cluster),
            None => self.cluster.clone(),
        }
    }

    fn cell(&self, of: &Destination) -> Cell {
        let paths = self.paths.iter().filter(|one| column(&one.path) == *of);
        let paths: Vec<_> = paths.collect();
        let count = |works| {
            paths
                .iter()
                .filter(|one| one.outcome.works() == works)
                .count()
        };
        let (all, works, unknown) = (paths.len(), count(Some(true)), count(None));
        let tone = match (all, works + unknown == all, unknown) {
            (0, ..) => return Cell::new("", Tone::Plain),
            (_, true, 0) => Tone::Good,
            (_, true, _) => Tone::Unsure,
            (_, false, _) => Tone::Bad,
        };
        let also = match unknown {
            0 => String::new(),
            unknown => format!(", {unknown} unknown"),
        };
        Cell::new(format!("{works} of {all} work{also}"), tone)
    }

    /// Returns one line for each problem. Paths of equal kind and outcome share a line.
    fn notes(&self) -> Vec<String> {
        let mut problems: BTreeMap<(Destination, bool, String), Vec<&PathReport>> = BTreeMap::new();
        for one in self
            .paths
            .iter()
            .filter(|one| one.outcome != Outcome::Works)
        {
            let is_server = matches!(one.path, Path::Server { .. });
            let key = (column(&one.path), is_server, words(&one.outcome));
            problems.entry(key).or_default().push(one);
        }
        let mut notes = Vec::new();
        for ((column, is_server, words), paths) in problems {
            let to = match column {
                Destination::Provider(provider) if is_server => {
                    format!("{provider}: pod of this run at ")
                }
                Destination::Provider(provider) => format!("{provider}: "),
                _ => String::new(),
            };
            let named = named(paths.iter().map(|one| &one.path));
            notes.push(format!("{to}{named} {words}"));
            if let Some(PathReport {
                cause: Some(cause),
                remedy: Some(remedy),
                ..
            }) = paths.first()
            {
                notes.push(format!("   {cause}"));
                notes.push(format!("   -> {remedy}"));
            }
        }
        notes.extend(self.untried.iter().map(|why| format!("not tried: {why}")));
        notes
    }
}

/// Returns the column of a path.
pub(super) fn column(path: &Path) -> Destination {
    match path {
        Path::Endpoint { provider, .. } | Path::Server { provider, .. } => {
            Destination::Provider(provider.clone())
        }
        Path::ClusterIp(_) => Destination::ClusterIp,
        Path::Name { .. } => Destination::Names,
    }
}

impl Dialled {
    fn report(self, from: &str, evidence: Evidence) -> PathReport {
        let (cause, remedy) = match diagnose(from, &self.path, &self.outcome, evidence) {
            Some(found) => (Some(found.cause), Some(found.remedy)),
            None => (None, None),
        };
        PathReport {
            path: self.path,
            outcome: self.outcome,
            milliseconds: self.milliseconds,
            cause,
            remedy,
        }
    }
}
