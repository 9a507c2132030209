//! The explanation as a person reads it.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{
    EndpointReport, Explanation, Fate, Finding, Path, ProviderReport, Reason, Way,
};
use crate::table::Table;

/// Endpoints with the same fate are one line, unless all are to be listed; below it what is to be said of them, and what mends it.
pub(super) fn render(explanation: &Explanation, endpoints: bool) -> String {
    let mut blocks = Vec::new();
    let verdict = match (explanation.ready, all_are_there(explanation)) {
        (true, _) => "every ready endpoint is in every consumer",
        (false, true) => {
            "something is wrong, see below; every ready endpoint that is known is in every consumer"
        }
        (false, false) => "not every ready endpoint is in every consumer, see below",
    };
    blocks.push(format!(
        "{}/{}: {verdict}\n",
        explanation.namespace, explanation.name
    ));
    for way in &explanation.ways {
        blocks.push(heading(way));
        let table = if endpoints { each(way) } else { grouped(way) };
        blocks.push(table.render());
    }
    blocks.extend(findings(explanation));
    blocks.join("\n")
}

/// Whether there are ready endpoints, and all of them are where they should be.
fn all_are_there(explanation: &Explanation) -> bool {
    let providers = explanation.ways.iter().flat_map(|way| &way.providers);
    let endpoints = providers.flat_map(|one| &one.endpoints);
    let ready = endpoints.filter(|endpoint| endpoint.ready);
    let fates: Vec<_> = ready.flat_map(|endpoint| &endpoint.consumers).collect();
    !fates.is_empty() && fates.iter().all(|fate| fate.there)
}

fn heading(way: &Way) -> String {
    let asked = match way.path {
        Path::Native => "MultiClusterService",
        Path::Clusterset => "ServiceExport",
    };
    let consumers = way.consumers.iter().map(|one| one.cluster.as_str());
    let consumers: Vec<_> = consumers.collect();
    let consumers = match consumers.join(", ") {
        none if none.is_empty() => "no cluster".to_owned(),
        names => names,
    };
    format!("{} ({asked}), in {consumers}:\n", way.address)
}

fn grouped(way: &Way) -> Table {
    let mut table = Table::new(["PROVIDER", "ENDPOINTS", "CONSUMER", "STATE", "COPIED IN"]);
    for provider in &way.providers {
        let mut groups: BTreeMap<Group<'_>, usize> = BTreeMap::new();
        for endpoint in &provider.endpoints {
            for fate in &endpoint.consumers {
                *groups.entry(Group::of(endpoint, fate)).or_default() += 1;
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
                format!("{:?}", group.finding.reason),
                group.slice.unwrap_or_default().to_owned(),
            ];
            table.row(cells, None);
        }
    }
    table
}

/// Endpoints of which the same is to be said.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Group<'a> {
    consumer: &'a str,
    condition: &'static str,
    finding: &'a Finding,
    slice: Option<&'a str>,
}

impl<'a> Group<'a> {
    fn of(endpoint: &EndpointReport, fate: &'a Fate) -> Self {
        Self {
            consumer: &fate.cluster,
            condition: condition(endpoint),
            finding: &fate.finding,
            slice: fate.slice.as_deref(),
        }
    }
}

fn each(way: &Way) -> Table {
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
    for provider in &way.providers {
        for endpoint in &provider.endpoints {
            for fate in &endpoint.consumers {
                let cells = [
                    provider.cluster.clone(),
                    endpoint.addresses.join(","),
                    condition(endpoint).to_owned(),
                    endpoint.node.clone().unwrap_or_default(),
                    endpoint.zone.clone().unwrap_or_default(),
                    fate.cluster.clone(),
                    format!("{:?}", fate.finding.reason),
                    fate.slice.clone().unwrap_or_default(),
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
    let first = provider.findings.first();
    first
        .map(|finding| format!("{:?}", finding.reason))
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

/// What is to be said, once each: what is wrong first.
fn findings(explanation: &Explanation) -> Option<String> {
    let ways = explanation.ways.iter();
    let of_ways = ways.flat_map(|way| {
        let consumers = way.consumers.iter().flat_map(|one| &one.findings);
        let providers = way.providers.iter().flat_map(|one| &one.findings);
        let endpoints = way.providers.iter().flat_map(|one| &one.endpoints);
        let fates = endpoints.flat_map(|one| &one.consumers);
        let fates = fates.map(|fate| &fate.finding);
        way.findings
            .iter()
            .chain(consumers)
            .chain(providers)
            .chain(fates)
    });
    let told = |finding: &&Finding| {
        !matches!(
            finding.reason,
            Reason::Copied | Reason::CopiedByKarmada | Reason::Own
        )
    };
    let all = explanation.findings.iter().chain(of_ways).filter(told);
    let distinct: BTreeSet<_> = all.map(|one| (one.reason.is_well(), one)).collect();
    if distinct.is_empty() {
        return None;
    }
    let text = distinct.into_iter().map(|(_, finding)| {
        let remedy = finding.remedy.iter();
        let remedy: String = remedy.map(|remedy| format!("  -> {remedy}\n")).collect();
        format!("{:?}: {}\n{remedy}", finding.reason, finding.message)
    });
    Some(text.collect())
}
