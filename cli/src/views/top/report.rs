//! Measured rates. Programs read this format, and its field names must not change. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway::api::Cluster;
use causeway::domain::ServiceKey;
use kube::ResourceExt as _;
use serde::Serialize;

use super::activity::{Activity, Counts};
use super::rates::{ControllerRates, MemberRates};
use crate::args::SortBy;
use crate::observe::networking::NetworkReport;

/// Result of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Report {
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Leading controller. Absent if its metrics could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerRates>,
    pub members: Vec<MemberReport>,
    /// Services with changes or writes.
    pub services: Vec<ServiceReport>,
    /// Parts that could not be measured, with remedies.
    pub notes: Vec<String>,
    #[serde(skip)]
    counts: BTreeMap<(String, ServiceKey), Counts>,
}

/// Rates of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberReport {
    pub name: String,
    /// `synced`, `syncing` or `unreachable`. Empty if the metrics could not be read.
    pub state: String,
    #[serde(flatten)]
    pub networking: NetworkReport,
    #[serde(flatten)]
    pub rates: Rates,
    /// Absent if the metrics could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_writes_per_second: Option<f64>,
    /// Seconds since the member's last event. Absent if the metrics could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<f64>,
}

/// Rates of one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceReport {
    pub namespace: String,
    pub name: String,
    #[serde(flatten)]
    pub rates: Rates,
}

/// Rates of changes and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rates {
    /// Changes of the providers' EndpointSlices.
    pub changes_per_second: f64,
    /// Written copies. For a member, all writes if the metrics could be read.
    pub writes_per_second: f64,
    /// Endpoints in the written copies.
    pub endpoints_per_second: f64,
    /// Longest time from a change in a provider until a consumer had the copy. Absent without such
    /// a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<f64>,
}

impl Rates {
    fn new(counts: &Counts, seconds: f64) -> Self {
        let rate = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from) / seconds;
        Self {
            changes_per_second: rate(counts.changes),
            writes_per_second: rate(counts.writes),
            endpoints_per_second: rate(counts.endpoints),
            lag_seconds: counts.lag.as_ref().map(Duration::as_secs_f64),
        }
    }
}

impl Report {
    /// Creates the report of a measurement of the given members and duration in seconds.
    pub(crate) fn new(
        members: &[String],
        activity: &Activity,
        controller: Option<ControllerRates>,
        seconds: f64,
    ) -> Self {
        let counts = activity.counts();
        let counts =
            counts.map(|(member, key, counts)| ((member.to_owned(), key.clone()), *counts));
        let members = members.iter().map(|name| MemberReport {
            name: name.clone(),
            ..MemberReport::default()
        });
        Self {
            seconds,
            controller,
            members: members.collect(),
            counts: counts.collect(),
            ..Self::default()
        }
    }

    /// Sets the networks of the members.
    pub(crate) fn add_networks(&mut self, clusters: &[Cluster]) {
        for cluster in clusters {
            let name = cluster.name_any();
            let mut members = self.members.iter_mut();
            if let Some(member) = members.find(|member| member.name == name) {
                member.networking = NetworkReport::of(cluster);
            }
        }
    }

    /// Sums the counts of known services and of services with copies. Omits services outside of
    /// `namespace`, but includes them in the sums of members.
    pub(crate) fn keep(&mut self, known: &BTreeSet<ServiceKey>, namespace: Option<&str>) {
        let written = self.counts.iter().filter(|(_, counts)| counts.writes > 0);
        let written: BTreeSet<_> = written.map(|((_, key), _)| key.clone()).collect();
        self.counts
            .retain(|(_, key), _| known.contains(key) || written.contains(key));
        let mut of_members: BTreeMap<&str, Counts> = BTreeMap::new();
        let mut of_services: BTreeMap<&ServiceKey, Counts> = BTreeMap::new();
        for ((member, key), counts) in &self.counts {
            of_members.entry(member).or_default().add(counts);
            of_services.entry(key).or_default().add(counts);
        }
        let is_shown =
            |key: &ServiceKey| namespace.is_none_or(|one| key.namespace.to_string() == one);
        let services = of_services.into_iter().filter(|(key, _)| is_shown(key));
        let services = services.map(|(key, counts)| ServiceReport {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            rates: Rates::new(&counts, self.seconds),
        });
        self.services = services.collect();
        let metrics = self
            .controller
            .as_ref()
            .map(|controller| &controller.members);
        for member in &mut self.members {
            let counts = of_members.get(member.name.as_str()).copied();
            member.rates = Rates::new(&counts.unwrap_or_default(), self.seconds);
            if let Some(rates) = metrics.and_then(|members| members.get(&member.name)) {
                member.take(rates);
            }
        }
    }

    /// Sorts members and services in descending order, and by name if equal.
    pub(crate) fn sort(&mut self, by: SortBy) {
        let members = &mut self.members;
        members.sort_by_cached_key(|one| (order(&one.rates, by), one.name.clone()));
        self.services.sort_by_cached_key(|one| {
            let name = (one.namespace.clone(), one.name.clone());
            (order(&one.rates, by), name)
        });
    }
}

impl MemberReport {
    fn take(&mut self, rates: &MemberRates) {
        self.state.clone_from(&rates.state);
        self.rates.writes_per_second = rates.writes_per_second;
        self.failed_writes_per_second = Some(rates.failed_writes_per_second);
        self.silent_seconds = rates.silent_seconds;
    }
}

/// Returns the sort key of rates for descending order, in millionths.
fn order(rates: &Rates, by: SortBy) -> Reverse<u64> {
    let value = match by {
        SortBy::Changes => rates.changes_per_second,
        SortBy::Writes => rates.writes_per_second,
        SortBy::Endpoints => rates.endpoints_per_second,
        SortBy::Lag => rates.lag_seconds.unwrap_or_default(),
        SortBy::Name => 0.0,
    };
    Reverse((value * 1e6) as u64)
}

#[cfg(test)]
mod tests;
