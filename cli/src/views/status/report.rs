//! State of members and services as the hub reports it. Programs parse the serialized form: field
//! names are stable.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::{Cluster, MultiClusterService, SyncMode, condition};
use causeway::domain::{self, ClusterName, ClusterSelection, ServiceKey};
use causeway_engine::messages::REPORT_SECRETS;
use causeway_engine::reasons::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use super::clusterset::{self, ExportedReport};
use super::condition::{ConditionReport, Readiness, deletions_suspended, readiness};
use super::karmada::Observations;
use crate::cluster::karmada;
use crate::cluster::karmada::binding::Unapplied;
use crate::observe::misplaced::Misplaced;
use crate::observe::networking::NetworkReport;
use crate::observe::service::Readings;
use crate::term::exit::ExitState;
use crate::views::explain::{ConsumerEndpoints, Exposed, Serving};

/// Text for a user who may not list Clusters.
const NO_CLUSTERS: &str = "Members, and what they export, are not shown: you may not list clusters.cluster.karmada.io on the hub.";

/// Report of `kubectl mcs status`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Whether everything is healthy. What is unknown is not.
    pub ready: bool,
    /// Whether anything is known not to be healthy.
    #[serde(skip)]
    pub is_wrong: bool,
    /// Members. Absent for one named service and for a user who may not list Clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<MemberReport>>,
    /// Services, sorted by namespace and name.
    pub services: Vec<ServiceReport>,
    /// Services that members export or import, sorted by namespace and name.
    pub exports: Vec<ExportedReport>,
    /// Members with unread exports and imports.
    pub unread: Vec<UnreadReport>,
    /// Other failed reads, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Active providers of each consumer, if a preference exists. Read for one named service only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub serving: Vec<Serving>,
    /// Ready endpoints of each consumer. Read for one named service only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<ConsumerEndpoints>>,
    /// ServiceExports and ServiceImports on the hub, without any effect there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misplaced: Vec<Misplaced>,
}

/// Member with unread exports and imports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct UnreadReport {
    pub name: String,
    /// Error of the read.
    pub message: String,
}

/// State of a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberReport {
    pub name: String,
    pub ready: bool,
    /// Reason of the condition Ready: Synced, Syncing, Unreachable, Refused and others. Pending
    /// without the condition, Deleting during deletion.
    pub state: String,
    pub message: String,
    /// Last transition of the condition Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    pub kubernetes_version: String,
    pub api_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    #[serde(flatten)]
    pub networking: NetworkReport,
    /// Whether a user drained the member (`kubectl mcs drain`): consumers use none of its
    /// endpoints.
    pub drained: bool,
    /// Message about the deletions that the controller suspends in the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions_suspended: Option<String>,
    /// Push or Pull.
    pub sync_mode: String,
    /// Support for the clusterset API. Absent without the condition ClustersetAPI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusterset: Option<ClustersetReport>,
}

/// Support of a member for ServiceExport and ServiceImport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ClustersetReport {
    pub ready: bool,
    /// Served, NotServed or Refused.
    pub reason: String,
    pub message: String,
}

/// State of a MultiClusterService.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceReport {
    pub namespace: String,
    pub name: String,
    pub types: Vec<String>,
    /// Ports, each as `name port` or `port`. Empty: every port of the Service.
    pub ports: Vec<String>,
    /// Provider clusters. Empty: every member.
    pub providers: Vec<String>,
    /// Consumer clusters. Empty: every member.
    pub consumers: Vec<String>,
    pub ready: bool,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    pub conditions: Vec<ConditionReport>,
    /// Hostnames or IPs of load balancers.
    pub load_balancers: Vec<String>,
    /// Members that provide or consume the service.
    pub members: Vec<PartReport>,
    /// Failed propagation of the Service by Karmada. Read for one named service only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Unapplied>,
}

/// Role and state of a member in a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartReport {
    pub name: String,
    pub provider: bool,
    pub consumer: bool,
    /// State as in [`MemberReport::state`]. NotJoined for a cluster that the hub does not have,
    /// Unknown for a user who may not list Clusters.
    pub state: String,
    /// Whether a user drained the member, see [`MemberReport::drained`].
    pub drained: bool,
    /// Whether the controller suspends deletions, see [`MemberReport::deletions_suspended`].
    pub deletions_suspended: bool,
    /// Presence of the Service in the member according to the hub.
    pub service: Presence,
}

/// Presence of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Presence {
    Yes,
    No,
    Unknown,
}

/// Selection of the reported services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Members and all services.
    All,
    /// One named service.
    One,
}

impl Report {
    /// Builds the report. `clusters` is `None` if the user may not list Clusters.
    pub(crate) fn new(
        scope: Scope,
        clusters: Option<&[Cluster]>,
        services: &[MultiClusterService],
    ) -> Self {
        let known: Option<BTreeMap<String, MemberReport>> = clusters.map(|clusters| {
            clusters
                .iter()
                .map(member)
                .map(|member| (member.name.clone(), member))
                .collect()
        });
        let mut services: Vec<_> = services
            .iter()
            .map(|service| service_report(service, known.as_ref()))
            .collect();
        services.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let members = known
            .filter(|_| scope == Scope::All)
            .map(|known| known.into_values().collect::<Vec<_>>());
        let members_are_healthy = members.iter().flatten().all(MemberReport::is_healthy);
        let ready = members_are_healthy && services.iter().all(|service| service.ready);
        Self {
            ready,
            is_wrong: !ready,
            members,
            services,
            exports: Vec::new(),
            unread: Vec::new(),
            unknown: clusters
                .is_none()
                .then(|| NO_CLUSTERS.to_owned())
                .into_iter()
                .collect(),
            serving: Vec::new(),
            endpoints: None,
            misplaced: Vec::new(),
        }
    }

    /// Adds the observations about Karmada. Observed health replaces the readiness of a service
    /// that Karmada manages. A service of unknown health is not ready, and no problem.
    pub(crate) fn with_karmadas(mut self, known: &Observations) -> Self {
        let mut is_any_wrong = false;
        for service in &mut self.services {
            let key = ServiceKey::new(&*service.namespace, &*service.name);
            let Some(known) = known.get(&key) else {
                is_any_wrong |= !service.ready;
                continue;
            };
            if let Some(health) = &known.health {
                service.ready = health.ready;
                service.message.clone_from(&health.message);
                let mut conditions = service.conditions.iter_mut();
                if let Some(ready) = conditions.find(|one| one.type_ == condition::READY) {
                    ready.status = condition_status(health.ready).to_owned();
                    ready.message.clone_from(&health.message);
                }
            }
            service.propagation.clone_from(&known.unapplied);
            is_any_wrong |= !service.ready && known.unknown.is_none();
            let unknown = known.unknown.iter();
            let unknown = unknown.map(|why| format!("Ready of {key} is unknown: {why}"));
            self.unknown.extend(unknown);
        }
        let members_are_healthy = self.members.iter().flatten().all(MemberReport::is_healthy);
        self.ready = members_are_healthy && self.services.iter().all(|one| one.ready);
        self.is_wrong = !members_are_healthy || is_any_wrong;
        self
    }

    /// Adds failed reads other than those of members.
    pub(crate) fn with_unknown(mut self, unknown: &[String]) -> Self {
        self.unknown.extend_from_slice(unknown);
        self
    }

    /// Whether every input of the exit state was read.
    pub(crate) fn is_complete(&self) -> bool {
        self.unread.is_empty() && self.unknown.is_empty()
    }

    /// Returns the exit state of the command.
    pub(crate) fn exit_state(&self) -> ExitState {
        ExitState::new(!self.is_wrong, self.is_complete())
    }

    /// Adds ready endpoints and active providers of each consumer.
    pub(crate) fn with_exposed(mut self, exposed: Option<&Exposed>) -> Self {
        if let Some(exposed) = exposed {
            self.serving.clone_from(&exposed.serving);
            self.endpoints = Some(exposed.endpoints.clone());
        }
        self
    }

    /// Whether any consumer has a ready endpoint. `None` if that is unknown.
    pub(crate) fn has_endpoints(&self) -> Option<bool> {
        let endpoints = self.endpoints.as_deref()?;
        if endpoints
            .iter()
            .any(|one| one.ready.is_some_and(|ready| ready > 0))
        {
            return Some(true);
        }
        let is_known = endpoints.iter().all(|one| one.ready.is_some());
        is_known.then_some(false)
    }

    /// Adds objects on the hub that have no effect there.
    pub(crate) fn with_misplaced(mut self, misplaced: &[Misplaced]) -> Self {
        self.misplaced = misplaced.to_vec();
        self.ready &= misplaced.is_empty();
        self.is_wrong |= !misplaced.is_empty();
        self
    }

    /// Adds the exports and imports of the members.
    pub(crate) fn with(mut self, readings: &Readings) -> Self {
        self.exports = clusterset::exported(readings);
        let unread = readings.iter().filter_map(|(name, reading)| {
            Some(UnreadReport {
                name: name.clone(),
                message: reading.as_ref().err()?.to_string(),
            })
        });
        self.unread = unread.collect();
        let are_ready = self.exports.iter().all(|exported| exported.ready);
        self.ready &= are_ready;
        self.is_wrong |= !are_ready;
        self
    }

    /// Whether the report holds no service.
    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.exports.is_empty() && self.misplaced.is_empty()
    }
}

impl MemberReport {
    /// Whether the member is ready without suspended deletions. The controller skips a cluster in
    /// Pull mode without credentials by design, so such a cluster counts as healthy.
    pub(crate) fn is_healthy(&self) -> bool {
        self.ready && self.deletions_suspended.is_none()
            || self.state == Reason::PullWithoutCredentials.as_str()
    }

    /// Returns the message of an unready member, or the message about suspended deletions.
    pub(crate) fn problem(&self) -> Option<&str> {
        let message = match self.ready {
            true => self.deletions_suspended.as_deref(),
            false => Some(self.message.as_str()),
        };
        message.filter(|message| !message.is_empty())
    }
}

fn condition_status(is_true: bool) -> &'static str {
    match is_true {
        true => condition::TRUE,
        false => condition::FALSE,
    }
}

fn member(cluster: &Cluster) -> MemberReport {
    let status = cluster.status.clone().unwrap_or_default();
    let readiness = match cluster.takes_part() {
        true => readiness(
            &status.conditions,
            cluster.metadata.generation,
            cluster.metadata.deletion_timestamp.is_some(),
        ),
        // Conditions of a Pull cluster come from karmada-agent.
        false => Readiness {
            ready: false,
            reason: Reason::PullWithoutCredentials.into(),
            message: REPORT_SECRETS.to_owned(),
            since: None,
        },
    };
    MemberReport {
        name: cluster.name_any(),
        ready: readiness.ready,
        state: readiness.reason,
        message: readiness.message,
        since: readiness.since,
        kubernetes_version: status.kubernetes_version.unwrap_or_default(),
        api_endpoint: cluster.spec.api_endpoint.clone().unwrap_or_default(),
        region: cluster.spec.region.clone(),
        zones: cluster.spec.effective_zones().to_vec(),
        networking: NetworkReport::of(cluster),
        drained: cluster.is_drained(),
        deletions_suspended: deletions_suspended(cluster).map(ToOwned::to_owned),
        sync_mode: match cluster.spec.sync_mode {
            Some(SyncMode::Pull) => "Pull".to_owned(),
            Some(SyncMode::Push) | None => "Push".to_owned(),
        },
        clusterset: condition::find(&status.conditions, condition::CLUSTERSET_API).map(|served| {
            ClustersetReport {
                ready: served.status == condition::TRUE,
                reason: served.reason.clone(),
                message: served.message.clone(),
            }
        }),
    }
}

fn service_report(
    service: &MultiClusterService,
    known: Option<&BTreeMap<String, MemberReport>>,
) -> ServiceReport {
    let status = service.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let deleting = service.metadata.deletion_timestamp.is_some();
    let mut readiness = readiness(&conditions, service.metadata.generation, deleting);
    let karmadas = karmada::finalizers(service);
    if deleting && !karmadas.is_empty() {
        readiness.message = format!(
            "being deleted, and waiting for Karmada's finalizer {}; if it stays: kubectl mcs explain {} -n {}",
            karmadas.join(", "),
            service.name_any(),
            service.namespace().unwrap_or_default()
        );
    }
    let desired = domain::MultiClusterService::try_from(service).ok();
    let ingress = status
        .load_balancer
        .and_then(|balancer| balancer.ingress)
        .unwrap_or_default();
    ServiceReport {
        namespace: service.namespace().unwrap_or_default(),
        name: service.name_any(),
        types: service.spec.types.clone(),
        ports: service
            .spec
            .ports
            .iter()
            .map(|port| words([port.name.clone(), Some(port.port.to_string())]))
            .collect(),
        providers: desired
            .as_ref()
            .map(|desired| named(&desired.providers))
            .unwrap_or_default(),
        consumers: desired
            .as_ref()
            .map(|desired| named(&desired.consumers))
            .unwrap_or_default(),
        ready: readiness.ready,
        reason: readiness.reason,
        message: readiness.message,
        created: service.creation_timestamp().map(|time| time.0),
        members: desired
            .map(|desired| parts(&desired, &conditions, known))
            .unwrap_or_default(),
        load_balancers: ingress
            .into_iter()
            .filter_map(|one| one.hostname.or(one.ip))
            .collect(),
        conditions: ordered(conditions),
        propagation: None,
    }
}

fn words<const N: usize>(words: [Option<String>; N]) -> String {
    words
        .into_iter()
        .flatten()
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn named(selection: &ClusterSelection) -> Vec<String> {
    selection.named().map(ToString::to_string).collect()
}

/// Sorts conditions by the order in which a service becomes ready, unknown types last.
fn ordered(mut conditions: Vec<Condition>) -> Vec<ConditionReport> {
    const ORDER: [&str; 4] = [
        condition::SERVICE_APPLIED,
        condition::ENDPOINT_SLICE_DISPATCHED,
        condition::ENDPOINT_SLICE_APPLIED,
        condition::READY,
    ];
    let place = |type_: &str| {
        ORDER
            .iter()
            .position(|known| *known == type_)
            .unwrap_or(ORDER.len())
    };
    conditions.sort_by_key(|condition| place(&condition.type_));
    conditions.into_iter().map(ConditionReport::from).collect()
}

fn parts(
    desired: &domain::MultiClusterService,
    conditions: &[Condition],
    known: Option<&BTreeMap<String, MemberReport>>,
) -> Vec<PartReport> {
    let joined = known
        .into_iter()
        .flat_map(|known| known.keys().map(String::as_str));
    let named = desired
        .providers
        .named()
        .chain(desired.consumers.named())
        .map(ClusterName::as_str);
    let names: BTreeSet<ClusterName> = joined
        .chain(named)
        .filter_map(|name| ClusterName::try_from(name).ok())
        .collect();
    let parts = names.iter().map(|name| {
        let member = known.and_then(|known| known.get(name.as_str()));
        let state = match (known, member) {
            (None, _) => "Unknown",
            (Some(_), None) => "NotJoined",
            (Some(_), Some(member)) => &member.state,
        };
        PartReport {
            name: name.to_string(),
            provider: desired.providers.includes(name),
            consumer: desired.consumers.includes(name),
            state: state.to_owned(),
            drained: member.is_some_and(|member| member.drained),
            deletions_suspended: member.is_some_and(|one| one.deletions_suspended.is_some()),
            service: presence(name, member, conditions),
        }
    });
    parts
        .filter(|part| part.provider || part.consumer)
        .collect()
}

/// Returns the presence of the Service in a member. ServiceApplied names the clusters without the
/// Service, unless they are many.
fn presence(
    name: &ClusterName,
    member: Option<&MemberReport>,
    conditions: &[Condition],
) -> Presence {
    let Some(applied) = condition::find(conditions, condition::SERVICE_APPLIED) else {
        return Presence::Unknown;
    };
    if member.is_none_or(|member| !member.ready) {
        return Presence::Unknown;
    }
    if applied.status == condition::TRUE {
        return Presence::Yes;
    }
    let is_named = applied
        .message
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .any(|word| word == name.as_str());
    match Reason::of(&applied.reason) {
        Some(Reason::ServiceAppliedFailed) if is_named => Presence::No,
        Some(Reason::ServiceAppliedFailed) if names_all(&applied.message) => Presence::Yes,
        _ => Presence::Unknown,
    }
}

/// Whether a message names every failed cluster that it counts, as in `1 of 3 clusters: b is not
/// joined`.
fn names_all(message: &str) -> bool {
    let counts = message.split_once(" of ").and_then(|(failed, rest)| {
        let (total, _) = rest.split_once(" clusters: ")?;
        let is_number = |text: &str| text.parse::<usize>().is_ok();
        Some(is_number(failed) && is_number(total))
    });
    counts == Some(true) && !message.contains("; and ")
}

#[cfg(test)]
mod tests;
