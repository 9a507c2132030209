//! Text output of an explanation.

use std::collections::{BTreeMap, BTreeSet};

use crate::term::screen::printable;
use crate::term::table::Table;
use causeway_engine::explain::{
    ConsumerReport, ConsumerState, Diagnosis, EndpointReport, EndpointState, Explanation,
    ExposureReport, ProviderReport, TierReport,
};
use causeway_engine::model::slice::Exposure;

/// Renders an explanation. Groups endpoints in the same state into one line unless `endpoints` is
/// set. Lists the diagnoses with their remedies below.
pub(crate) fn render(explanation: &Explanation, endpoints: bool) -> String {
    let mut blocks = Vec::new();
    let summary = match (explanation.ready, all_are_present(explanation)) {
        (true, _) => "every ready endpoint is in every consumer",
        (false, true) => {
            "something is wrong, see below; every ready endpoint that is known is in every consumer"
        }
        (false, false) => "not every ready endpoint is in every consumer, see below",
    };
    blocks.push(format!(
        "{}/{}: {summary}\n",
        explanation.namespace, explanation.name
    ));
    for exposure in &explanation.exposures {
        blocks.push(heading(exposure));
        blocks.extend(defaults(exposure));
        blocks.extend(tiers(&exposure.consumers));
        blocks.extend(shares(&exposure.consumers));
        let table = if endpoints {
            each(exposure)
        } else {
            grouped(exposure)
        };
        blocks.push(table.render());
    }
    blocks.extend(diagnoses(explanation));
    blocks.join("\n")
}

/// Whether ready endpoints exist and every consumer has all of them.
fn all_are_present(explanation: &Explanation) -> bool {
    let states = explanation.consumer_states(|endpoint| endpoint.ready);
    let mut all = states.iter().map(|state| state.state);
    !states.is_empty() && all.all(|state| state == EndpointState::Present)
}

fn heading(exposure: &ExposureReport) -> String {
    let kind = match exposure.exposure {
        Exposure::Native => "MultiClusterService",
        Exposure::Clusterset => "ServiceExport",
    };
    let consumers = exposure.consumers.iter().map(|one| one.cluster.as_str());
    let consumers: Vec<_> = consumers.collect();
    let consumers = match consumers.join(", ") {
        none if none.is_empty() => "no cluster".to_owned(),
        names => names,
    };
    format!("{} ({kind}), in {consumers}:\n", exposure.address)
}

/// Lists the annotations whose values a Namespace gives. Returns `None` without any.
fn defaults(exposure: &ExposureReport) -> Option<String> {
    let all = exposure.defaults.iter().map(|one| {
        let (value, namespace) = (printable(&one.value), &one.namespace);
        format!("{}: {value} (by Namespace {namespace})\n", one.annotation)
    });
    let text: String = all.collect();
    (!text.is_empty()).then_some(text)
}

/// Renders the providers that consumers use first. Returns `None` if all consumers use all
/// providers equally.
pub(crate) fn tiers(consumers: &[ConsumerReport]) -> Option<String> {
    let mut table = Table::new(["CONSUMER", "SERVING FROM", "STANDBY"]);
    let mut any = false;
    for consumer in consumers {
        let Some(tiers) = &consumer.tiers else {
            continue;
        };
        any = true;
        let cells = [
            consumer.cluster.clone(),
            tiers_text(&tiers.serving_from),
            tiers_text(&tiers.standby),
        ];
        table.row(cells, None);
    }
    any.then(|| table.render())
}

/// Renders the shares of providers. Returns `None` if no consumer has any.
fn shares(consumers: &[ConsumerReport]) -> Option<String> {
    let mut table = Table::new(["CONSUMER", "PROVIDER", "WANTED", "REAL", "READY", "STANDBY"]);
    let mut any = false;
    for consumer in consumers {
        for share in &consumer.shares {
            any = true;
            let cells = [
                consumer.cluster.clone(),
                share.cluster.clone(),
                format!("{}%", share.wanted),
                format!("{}%", share.real),
                share.ready.to_string(),
                share.standby.to_string(),
            ];
            table.row(cells, None);
        }
    }
    any.then(|| table.render())
}

/// Describes tiers: `zone (member1): 3 of 4 ready; region (member2, member3)`.
pub(crate) fn tiers_text(all: &[TierReport]) -> String {
    let text = |tier: &TierReport| {
        let clusters = tier.clusters.join(", ");
        let ready = match tier.endpoints {
            0 => String::new(),
            all => format!(": {} of {all} ready", tier.ready),
        };
        format!("{} ({clusters}){ready}", tier.tier)
    };
    all.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn grouped(exposure: &ExposureReport) -> Table {
    let mut table = Table::new(["PROVIDER", "ENDPOINTS", "CONSUMER", "STATE", "COPIED IN"]);
    for provider in &exposure.providers {
        let mut groups: BTreeMap<Group<'_>, usize> = BTreeMap::new();
        for endpoint in &provider.endpoints {
            for state in &endpoint.consumers {
                *groups.entry(Group::of(endpoint, state)).or_default() += 1;
            }
        }
        if groups.is_empty() {
            bare(&mut table, provider);
        }
        for (group, count) in groups {
            let cells = [
                provider.cluster.clone(),
                format!("{count} {}", group.condition),
                group.consumer.to_owned(),
                format!("{:?}", group.diagnosis.reason),
                group.slice.unwrap_or_default().to_owned(),
            ];
            table.row(cells, None);
        }
    }
    table
}

/// Endpoints with equal state and diagnosis.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Group<'a> {
    consumer: &'a str,
    condition: &'static str,
    diagnosis: &'a Diagnosis,
    slice: Option<&'a str>,
}

impl<'a> Group<'a> {
    fn of(endpoint: &EndpointReport, state: &'a ConsumerState) -> Self {
        Self {
            consumer: &state.cluster,
            condition: condition(endpoint),
            diagnosis: &state.diagnosis,
            slice: state.slice.as_deref(),
        }
    }
}

fn each(exposure: &ExposureReport) -> Table {
    let mut table = Table::new([
        "PROVIDER",
        "ENDPOINT",
        "CONDITION",
        "NODE",
        "ZONE",
        "CONSUMER",
        "STATE",
        "COPIED IN",
    ]);
    for provider in &exposure.providers {
        for endpoint in &provider.endpoints {
            for state in &endpoint.consumers {
                let cells = [
                    provider.cluster.clone(),
                    addresses(endpoint),
                    condition(endpoint).to_owned(),
                    endpoint.node.clone().unwrap_or_default(),
                    endpoint.zone.clone().unwrap_or_default(),
                    state.cluster.clone(),
                    format!("{:?}", state.diagnosis.reason),
                    state.slice.clone().unwrap_or_default(),
                ];
                table.row(cells, None);
            }
        }
        if provider.endpoints.is_empty() {
            let empty = String::new;
            let cells = [
                provider.cluster.clone(),
                "none".to_owned(),
                empty(),
                empty(),
                empty(),
                empty(),
                state(provider),
                empty(),
            ];
            table.row(cells, None);
        }
    }
    table
}

fn bare(table: &mut Table, provider: &ProviderReport) {
    let endpoints = match provider.endpoints.len() {
        0 => "none".to_owned(),
        count => count.to_string(),
    };
    let cells = [
        provider.cluster.clone(),
        endpoints,
        String::new(),
        state(provider),
        String::new(),
    ];
    table.row(cells, None);
}

fn state(provider: &ProviderReport) -> String {
    let first = provider.diagnoses.first();
    first
        .map(|diagnosis| format!("{:?}", diagnosis.reason))
        .unwrap_or_default()
}

fn condition(endpoint: &EndpointReport) -> &'static str {
    match (endpoint.ready, endpoint.terminating, endpoint.serving) {
        (_, true, true) => "terminating, serving",
        (_, true, false) => "terminating",
        (true, false, _) => "ready",
        (false, false, _) => "not ready",
    }
}

fn addresses(endpoint: &EndpointReport) -> String {
    let addresses = endpoint.addresses.iter().map(ToString::to_string);
    addresses.collect::<Vec<_>>().join(",")
}

/// Renders each distinct diagnosis once, problems first.
fn diagnoses(explanation: &Explanation) -> Option<String> {
    let all = explanation.diagnoses_with(|_| true).into_iter();
    let all = all.filter(|one| !one.reason.is_plain());
    let distinct: BTreeSet<_> = all.map(|one| (one.is_healthy(), one)).collect();
    if distinct.is_empty() {
        return None;
    }
    let text = distinct.into_iter().map(|(_, diagnosis)| {
        let remedy = diagnosis.remedy.iter();
        let remedy: String = remedy
            .map(|remedy| format!("  -> {}\n", printable(remedy)))
            .collect();
        let message = printable(&diagnosis.message);
        format!("{:?}: {message}\n{remedy}", diagnosis.reason)
    });
    Some(text.collect())
}
