//! The current state, from what the hub knows; also the form that programs read, so names of fields stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::{Cluster, MultiClusterService, SyncMode, condition};
use causeway::domain::{self, ClusterName, ClusterSelection};
use causeway_engine::messages::REPORT_SECRETS;
use causeway_engine::reasons::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;

use super::clusterset::{self, ExportedReport};
use super::condition::{ConditionReport, Readiness, deletions_suspended, readiness};
use super::karmada::Observations;
use crate::exit::ExitState;
use crate::explain::{ConsumerEndpoints, Exposed, Serving};
use crate::karmada;
use crate::karmada::binding::Unapplied;
use crate::misplaced::Misplaced;
use crate::networking::NetworkReport;
use crate::observe::service::Readings;

/// Where the user may not list Clusters.
const NO_CLUSTERS: &str = "Members, and what they export, are not shown: you may not list clusters.cluster.karmada.io on the hub.";

/// The current state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Whether everything is healthy.
    pub ready: bool,
    /// The members; absent where one service was requested, or the person may not see them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<MemberReport>>,
    /// The services, by namespace and name.
    pub services: Vec<ServiceReport>,
    /// The services that members export or import, by namespace and name.
    pub exports: Vec<ExportedReport>,
    /// The members of which it is not known what they export and import.
    pub unread: Vec<UnreadReport>,
    /// What else could not be read, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Which providers the consumers of the service use first, where they do not use all alike; read where one service is requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub serving: Vec<Serving>,
    /// Ready endpoints in each consumer; read where one service is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<ConsumerEndpoints>>,
    /// ServiceExports and ServiceImports on the hub that do nothing there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misplaced: Vec<Misplaced>,
}

/// A member that was not read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct UnreadReport {
    pub name: String,
    /// Why it was not.
    pub message: String,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberReport {
    pub name: String,
    pub ready: bool,
    /// The reason of its condition Ready: Synced, Syncing, Unreachable, Refused; Pending where there is none yet.
    pub state: String,
    pub message: String,
    /// Since when it is so.
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
    /// Whether a person said that nothing it provides is to be used (`kubectl mcs drain`).
    pub drained: bool,
    /// What the controller says of the deletions that it suspends there; absent where it suspends none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletions_suspended: Option<String>,
    /// Push or Pull.
    pub sync_mode: String,
    /// Whether it takes part in the clusterset; absent where the hub does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clusterset: Option<ClustersetReport>,
}

/// Whether a member serves ServiceExport and ServiceImport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ClustersetReport {
    pub ready: bool,
    /// Served, NotServed or Refused.
    pub reason: String,
    pub message: String,
}

/// A MultiClusterService.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceReport {
    pub namespace: String,
    pub name: String,
    pub types: Vec<String>,
    /// `name port`, `port`; empty: every port of the Service.
    pub ports: Vec<String>,
    /// Empty: every member.
    pub providers: Vec<String>,
    /// Empty: every member.
    pub consumers: Vec<String>,
    pub ready: bool,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    pub conditions: Vec<ConditionReport>,
    /// The addresses of load balancers, hostnames or IPs.
    pub load_balancers: Vec<String>,
    /// The members that take part.
    pub members: Vec<PartReport>,
    /// What Karmada says of its propagation of the Service, where that fails; read where one service is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Unapplied>,
}

/// The part of a member in a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartReport {
    pub name: String,
    pub provider: bool,
    pub consumer: bool,
    /// As [`MemberReport::state`]; NotJoined where the hub knows no such cluster, Unknown where the person may not see it.
    pub state: String,
    /// As [`MemberReport::drained`].
    pub drained: bool,
    /// Whether there is a [`MemberReport::deletions_suspended`].
    pub deletions_suspended: bool,
    /// Whether the member has the Service, as far as the hub knows.
    pub service: Presence,
}

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Presence {
    Yes,
    No,
    Unknown,
}

/// What was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The members, and every service.
    All,
    /// One service.
    One,
}

impl Report {
    /// Reports on these objects; `clusters` is `None` where the person may not see them.
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
        Self {
            ready: members_are_healthy && services.iter().all(|service| service.ready),
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

    /// Adds what is known of services that Karmada has a part in: one that it manages is as what the members hold.
    pub(crate) fn with_karmadas(mut self, known: &Observations) -> Self {
        for service in &mut self.services {
            let key = (service.namespace.clone(), service.name.clone());
            let Some(known) = known.get(&key) else {
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
        }
        let members_are_healthy = self.members.iter().flatten().all(MemberReport::is_healthy);
        self.ready = members_are_healthy && self.services.iter().all(|service| service.ready);
        self
    }

    /// Adds what could not be read beside the members.
    pub(crate) fn with_unknown(mut self, unknown: &[String]) -> Self {
        self.unknown.extend_from_slice(unknown);
        self
    }

    /// Whether everything that the exit state needs could be read.
    pub(crate) fn is_complete(&self) -> bool {
        self.unread.is_empty() && self.unknown.is_empty()
    }

    /// Exit state of the whole.
    pub(crate) fn exit_state(&self) -> ExitState {
        ExitState::new(self.ready, self.is_complete())
    }

    /// Adds the ready endpoints of each consumer, and the providers that it uses first.
    pub(crate) fn with_exposed(mut self, exposed: Option<&Exposed>) -> Self {
        if let Some(exposed) = exposed {
            self.serving.clone_from(&exposed.serving);
            self.endpoints = Some(exposed.endpoints.clone());
        }
        self
    }

    /// Whether any consumer has a ready endpoint; `None` where that is unknown.
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

    /// Adds what is on the hub and does nothing there.
    pub(crate) fn with_misplaced(mut self, misplaced: &[Misplaced]) -> Self {
        self.misplaced = misplaced.to_vec();
        self.ready &= misplaced.is_empty();
        self
    }

    /// Adds what was read of the members.
    pub(crate) fn with(mut self, readings: &Readings) -> Self {
        self.exports = clusterset::exported(readings);
        let unread = readings.iter().filter_map(|(name, reading)| {
            Some(UnreadReport {
                name: name.clone(),
                message: reading.as_ref().err()?.to_string(),
            })
        });
        self.unread = unread.collect();
        self.ready &= self.exports.iter().all(|exported| exported.ready);
        self
    }

    /// Whether there is no service in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.exports.is_empty() && self.misplaced.is_empty()
    }
}

impl MemberReport {
    /// Whether nothing is wrong with it. A cluster in Pull mode without credentials is left out,
    /// which is no fault.
    pub(crate) fn is_healthy(&self) -> bool {
        self.ready && self.deletions_suspended.is_none()
            || self.state == Reason::PullWithoutCredentials.as_str()
    }

    /// What is wrong with it, if something is: why it is not ready, else what is suspended.
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
    let readiness = match cluster.spec.takes_part() {
        true => readiness(
            &status.conditions,
            cluster.metadata.generation,
            cluster.metadata.deletion_timestamp.is_some(),
        ),
        // The conditions on a hub of Karmada are karmada-agent's.
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

/// In the order in which a service becomes ready, what is unknown last.
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

/// Whether a member has the Service: ServiceApplied names those that have it not, unless they are many.
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

/// Whether a message counts the clusters that lack something and names each: `1 of 3 clusters: b is not joined`.
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
