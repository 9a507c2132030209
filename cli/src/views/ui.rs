//! Rows of the page: reports of `status` and counted results of `explain`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use causeway::api::Cluster;
use causeway::domain::ClusterName;
use causeway::domain::path::{Path, PathLease};
use causeway_engine::explain::{
    ConsumerReport, Diagnosis, EndpointState, Explanation, ExposureReport, ProviderReport,
    TierReport,
};
use causeway_engine::messages::member_unread;
use causeway_engine::model::slice::Exposure;
use causeway_engine::reasons::Reason;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::cluster::conditions::Conditions as _;
use crate::observe::connect::ConnectError;
use crate::observe::link::ConnectionRow;
use crate::observe::networking::NetworkReport;
use crate::views::explain::text::tiers_text;
use crate::views::status::clusterset::ExportedReport;
use crate::views::status::condition::ConditionReport;
use crate::views::status::report::{MemberReport, ServiceReport};

/// State of the server and of the hub connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerRow {
    pub version: String,
    pub context: String,
    pub hub: String,
    /// Shown namespace. Absent if all namespaces are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether everything was read at least once.
    pub synced: bool,
    #[serde(flatten)]
    pub connection: ConnectionRow,
    /// Problem of the controller according to its Lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Runs of `verify`. Absent if the page may start none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyRow>,
}

/// Runs of `verify` that the page started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct VerifyRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Finished>,
}

/// Active run of `verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Running {
    pub service: String,
    pub since: Timestamp,
    pub step: String,
}

/// Ended run of `verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finished {
    pub service: String,
    pub time: Timestamp,
    /// Whether every path was tried and works.
    pub works: bool,
    /// Whether a path is known to fail.
    pub fails: bool,
    /// Result, or the error that ended the run.
    pub summary: String,
    pub untried: Vec<String>,
}

/// Row of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterRow {
    pub name: String,
    pub state: State,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    pub zones: Vec<String>,
    #[serde(flatten)]
    pub networking: NetworkReport,
    pub version: String,
    pub api_endpoint: String,
    pub sync_mode: String,
    pub drained: bool,
    /// Message about the deletions that the controller suspends in the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions_suspended: Option<String>,
    #[serde(flatten)]
    pub connection: ConnectionRow,
    pub conditions: Vec<ConditionReport>,
    /// Reports of causeway-agent in the member on paths to other clusters; unknown paths have none.
    /// Absent if the member reports no paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathRow>>,
}

/// Report on the path from a member to the endpoints of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PathRow {
    pub cluster: String,
    pub path: Path,
    pub since: Timestamp,
}

/// State derived from the condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    Ready,
    NotReady,
    Pending,
    Deleting,
}

impl State {
    fn of(ready: bool, reason: &str) -> Self {
        match Reason::of(reason) {
            _ if ready => Self::Ready,
            Some(Reason::Pending) => Self::Pending,
            Some(Reason::Deleting) => Self::Deleting,
            _ => Self::NotReady,
        }
    }
}

/// Row of a MultiClusterService, or of the exports under one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRow {
    pub key: String,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub state: State,
    pub reason: String,
    pub message: String,
    /// DNS name of the service for clients.
    pub address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    pub ports: Vec<String>,
    pub conditions: Vec<ConditionReport>,
    pub providers: Vec<ProviderRow>,
    pub consumers: Vec<ConsumerRow>,
    /// Problems of the service as a whole.
    pub problems: Vec<Diagnosis>,
}

/// Cluster whose pods back a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProviderRow {
    pub cluster: String,
    pub endpoints: usize,
    pub ready: usize,
    /// Way by which clusters of other networks reach it, if one is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Diagnosis>,
}

/// Cluster whose clients may reach a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConsumerRow {
    pub cluster: String,
    #[serde(flatten)]
    pub counts: Counts,
    /// Numbers of endpoints in `missing`, by provider.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing_of: BTreeMap<String, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Diagnosis>,
    /// Providers with a problem in the consumer. Empty if `problem` concerns all providers.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub problem_of: BTreeSet<String>,
}

/// Numbers of endpoints of a service in a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    endpoints: usize,
    /// Ready endpoints, included in `endpoints`.
    ready: usize,
    /// Ready endpoints of providers that are missing in the consumer because of a problem.
    missing: usize,
    /// Standby endpoints, included in `endpoints`: traffic reaches them only after nearer ones
    /// fail.
    standby: usize,
}

/// Returns the key of a service's row.
pub(crate) fn row_key(exposure: Exposure, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind(exposure))
}

fn kind(exposure: Exposure) -> &'static str {
    match exposure {
        Exposure::Native => "MultiClusterService",
        Exposure::Clusterset => "ServiceExport",
    }
}

impl ClusterRow {
    pub(crate) fn new(cluster: &Cluster, report: MemberReport, connection: ConnectionRow) -> Self {
        let conditions = cluster.conditions().iter().cloned();
        Self {
            name: cluster.name_any(),
            state: State::of(report.ready, &report.state),
            reason: report.state,
            message: report.message,
            since: report.since,
            region: report.region,
            zones: report.zones,
            networking: report.networking,
            version: report.kubernetes_version,
            api_endpoint: report.api_endpoint,
            sync_mode: report.sync_mode,
            drained: report.drained,
            deletions_suspended: report.deletions_suspended,
            connection,
            conditions: conditions.map(ConditionReport::from).collect(),
            paths: None,
        }
    }

    /// Returns the row with the reports on paths from its member, if the Cluster has it report
    /// them.
    pub(crate) fn with_paths<'a>(
        mut self,
        cluster: &Cluster,
        leases: impl Iterator<Item = &'a PathLease>,
    ) -> Self {
        self.paths = cluster.reports_paths().then(|| {
            let rows = leases.filter_map(|lease| {
                let report = lease.report.as_ref()?;
                Some(PathRow {
                    cluster: lease.source.to_string(),
                    path: report.path,
                    since: report.since,
                })
            });
            rows.collect()
        });
        self
    }
}

impl ServiceRow {
    /// Returns the row of a MultiClusterService.
    pub(crate) fn native(report: ServiceReport, explanation: &Explanation) -> Self {
        let found = Found::of(explanation, Exposure::Native);
        Self {
            key: row_key(Exposure::Native, &report.namespace, &report.name),
            kind: kind(Exposure::Native),
            state: State::of(report.ready, &report.reason),
            namespace: report.namespace,
            name: report.name,
            reason: report.reason,
            message: report.message,
            address: found.address,
            created: report.created,
            ports: report.ports,
            conditions: report.conditions,
            providers: found.providers,
            consumers: found.consumers,
            problems: found.problems,
        }
    }

    /// Returns the row of an exported service.
    pub(crate) fn exported(report: ExportedReport, explanation: &Explanation) -> Self {
        let found = Found::of(explanation, Exposure::Clusterset);
        let exports = report.clusters.iter();
        let exports = exports.filter_map(|cluster| cluster.export.as_ref()?.created);
        Self {
            key: row_key(Exposure::Clusterset, &report.namespace, &report.name),
            kind: kind(Exposure::Clusterset),
            state: State::of(report.ready, &report.reason),
            created: exports.min(),
            namespace: report.namespace,
            name: report.name,
            reason: report.reason,
            message: report.message,
            address: found.address,
            ports: report.ports,
            conditions: Vec::new(),
            providers: found.providers,
            consumers: found.consumers,
            problems: found.problems,
        }
    }

    /// Returns the row of an exported service of which only unread members had objects when they
    /// were last read. `lost` has the error of each of them.
    pub(crate) fn lost(
        report: ExportedReport,
        explanation: &Explanation,
        lost: &BTreeMap<String, ConnectError>,
    ) -> Self {
        let unread = |name: &String| {
            let why = lost.get(name)?;
            let name = ClusterName::try_from(name.as_str()).ok()?;
            Some(member_unread(&name, why))
        };
        let providers = report.exporters.iter().map(|name| ProviderRow {
            cluster: name.clone(),
            endpoints: 0,
            ready: 0,
            reach: None,
            problem: unread(name),
        });
        let consumers = report.importers.iter().map(|name| ConsumerRow {
            cluster: name.clone(),
            counts: Counts::default(),
            missing_of: BTreeMap::new(),
            serving: None,
            standby_from: None,
            problem: unread(name),
            problem_of: BTreeSet::new(),
        });
        Self {
            address: format!("{}.{}.svc.clusterset.local", report.name, report.namespace),
            providers: providers.collect(),
            consumers: consumers.collect(),
            ..Self::exported(report, explanation)
        }
    }
}

/// Results of an explanation for one exposure.
#[derive(Default)]
struct Found {
    address: String,
    providers: Vec<ProviderRow>,
    consumers: Vec<ConsumerRow>,
    problems: Vec<Diagnosis>,
}

impl Found {
    fn of(explanation: &Explanation, exposure: Exposure) -> Self {
        let mut reports = explanation.exposures.iter();
        let report = reports.find(|report| report.exposure == exposure);
        let of_exposure = report.map(|exposure| exposure.diagnoses.as_slice());
        let problems = explanation
            .diagnoses
            .iter()
            .chain(of_exposure.unwrap_or_default());
        let problems = problems.filter(|one| !one.is_healthy()).cloned().collect();
        let Some(exposure) = report else {
            return Self {
                problems,
                ..Self::default()
            };
        };
        let mut outcomes = outcomes(exposure);
        let consumers = exposure.consumers.iter().map(|consumer| {
            let outcome = outcomes.remove(consumer.cluster.as_str());
            consumer_row(consumer, outcome.unwrap_or_default())
        });
        Self {
            address: exposure.address.clone(),
            providers: exposure.providers.iter().map(provider_row).collect(),
            consumers: consumers.collect(),
            problems,
        }
    }
}

/// Endpoint counts in a consumer, and the diagnosis of its first ready endpoint with a problem.
#[derive(Default)]
struct Outcome<'a> {
    counts: Counts,
    problem: Option<&'a Diagnosis>,
    /// Providers with such endpoints, and how many of these are missing.
    affected: BTreeMap<&'a str, usize>,
}

fn outcomes(exposure: &ExposureReport) -> HashMap<&str, Outcome<'_>> {
    let mut outcomes: HashMap<&str, Outcome<'_>> = HashMap::new();
    let providers = exposure.providers.iter();
    let endpoints = providers.flat_map(|one| one.endpoints.iter().map(move |end| (one, end)));
    for (provider, endpoint) in endpoints {
        for state in &endpoint.consumers {
            let outcome = outcomes.entry(state.cluster.as_str()).or_default();
            let counts = &mut outcome.counts;
            let is_missing = state.state == EndpointState::Missing;
            if !is_missing {
                counts.endpoints += 1;
                counts.ready += usize::from(endpoint.ready);
                counts.standby += usize::from(state.diagnosis.reason == Reason::Standby);
            }
            if endpoint.ready && !state.diagnosis.is_healthy() {
                let missing = usize::from(is_missing);
                counts.missing += missing;
                outcome.problem.get_or_insert(&state.diagnosis);
                *outcome.affected.entry(&provider.cluster).or_default() += missing;
            }
        }
    }
    outcomes
}

fn provider_row(provider: &ProviderReport) -> ProviderRow {
    let ready = provider.endpoints.iter().filter(|one| one.ready);
    ProviderRow {
        cluster: provider.cluster.clone(),
        endpoints: provider.endpoints.len(),
        ready: ready.count(),
        reach: provider.reach,
        problem: first_problem(&provider.diagnoses).cloned(),
    }
}

fn consumer_row(consumer: &ConsumerReport, outcome: Outcome<'_>) -> ConsumerRow {
    let text = |tiers: &[TierReport]| Some(tiers_text(tiers)).filter(|text| !text.is_empty());
    let tiers = consumer.tiers.as_ref();
    let whole = first_problem(&consumer.diagnoses);
    let owned = |(name, missing): (&str, usize)| (name.to_owned(), missing);
    let mut missing_of: BTreeMap<_, _> = outcome.affected.into_iter().map(owned).collect();
    let affected = missing_of.keys().filter(|_| whole.is_none());
    let problem_of = affected.cloned().collect();
    missing_of.retain(|_, missing| *missing > 0);
    ConsumerRow {
        cluster: consumer.cluster.clone(),
        counts: outcome.counts,
        missing_of,
        serving: tiers.and_then(|tiers| text(&tiers.serving_from)),
        standby_from: tiers.and_then(|tiers| text(&tiers.standby)),
        problem: whole.or(outcome.problem).cloned(),
        problem_of,
    }
}

fn first_problem(diagnoses: &[Diagnosis]) -> Option<&Diagnosis> {
    diagnoses.iter().find(|one| !one.is_healthy())
}

#[cfg(test)]
mod tests {
    use causeway_engine::explain::{ConsumerState, EndpointReport};
    use serde_json::json;

    use super::*;

    /// Returns a provider with ready endpoints, each with its state in consumer `z`.
    fn provider(cluster: &str, states: &[(EndpointState, Reason)]) -> ProviderReport {
        let endpoints = states.iter().map(|(state, reason)| EndpointReport {
            addresses: Vec::new(),
            slice: None,
            node: None,
            zone: None,
            ready: true,
            serving: true,
            terminating: false,
            consumers: vec![ConsumerState {
                cluster: "z".to_owned(),
                state: *state,
                slice: None,
                diagnosis: Diagnosis::new(*reason, "test"),
            }],
        });
        ProviderReport {
            cluster: cluster.to_owned(),
            reach: None,
            diagnoses: Vec::new(),
            endpoints: endpoints.collect(),
        }
    }

    #[test]
    fn consumer_names_the_providers_that_a_problem_concerns() {
        use EndpointState::{Missing, Present};
        let (copied, late) = (Reason::Copied, Reason::Progressing);
        let mut exposure = ExposureReport {
            exposure: Exposure::Native,
            address: String::new(),
            defaults: Vec::new(),
            diagnoses: Vec::new(),
            consumers: vec![ConsumerReport {
                cluster: "z".to_owned(),
                tiers: None,
                shares: Vec::new(),
                diagnoses: Vec::new(),
            }],
            providers: vec![
                provider("a", &[(Present, copied)]),
                provider("b", &[(Missing, late), (Present, copied)]),
                provider("c", &[(Present, late)]),
            ],
        };
        let row = |exposure: &ExposureReport| {
            let outcome = outcomes(exposure).remove("z").unwrap_or_default();
            let row = json!(consumer_row(&exposure.consumers[0], outcome));
            json!([row["missing"], row["missingOf"], row["problemOf"]])
        };
        assert_eq!(row(&exposure), json!([1, { "b": 1 }, ["b", "c"]]));
        let whole = Diagnosis::new(Reason::ServiceMissing, "test");
        exposure.consumers[0].diagnoses.push(whole);
        assert_eq!(row(&exposure), json!([1, { "b": 1 }, null]));
    }
}
