//! One way in which endpoints reach consumers, whatever asked for it.

use std::collections::BTreeMap;

use causeway::api::labels;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::ResourceExt as _;

use super::super::report::{
    ConsumerReport, EndpointReport, Fate, Finding, ProviderReport, Reason, Way,
};
use super::super::standing;
use super::fate;
use super::plan::Plan;

/// What became of it all.
pub(super) fn carry_out(plan: &Plan<'_>, mut findings: Vec<Finding>, address: String) -> Way {
    findings.extend(plan.obstacle.clone());
    let providers: Vec<_> = plan
        .providers
        .iter()
        .map(|name| provider(plan, name))
        .collect();
    let mut endpoints = providers.iter().flat_map(|one| &one.endpoints);
    if !endpoints.any(|one| one.ready) {
        findings.push(no_endpoints(plan));
    }
    let consumers = plan.consumers.iter().map(|name| ConsumerReport {
        cluster: name.clone(),
        findings: plan
            .consumer_obstacle(name)
            .or_else(|| plan.unresolved(name))
            .into_iter()
            .collect(),
    });
    Way {
        path: plan.path,
        address,
        findings,
        consumers: consumers.collect(),
        providers,
    }
}

fn no_endpoints(plan: &Plan<'_>) -> Finding {
    let (namespace, name) = (&plan.scene.key.namespace, &plan.scene.key.name);
    let providers = match plan.providers.as_slice() {
        [] => "there is none".to_owned(),
        names => names.join(", "),
    };
    let message = format!("no provider has a ready endpoint ({providers}): nothing can answer");
    Finding::new(Reason::NoEndpoints, message).mend(format!(
        "in a provider: kubectl -n {namespace} get endpointslices -l {}={name}; kubectl -n {namespace} get pods",
        labels::SERVICE_NAME
    ))
}

fn provider(plan: &Plan<'_>, name: &str) -> ProviderReport {
    let obstacle = plan.provider_obstacle(name);
    let mut findings: Vec<_> = obstacle.clone().into_iter().collect();
    findings.extend(standing::not_believed(plan.scene, name));
    let endpoints = match plan.scene.held(name) {
        Some(held) => held
            .sources(&plan.scene.key.name)
            .flat_map(|slice| slice.endpoints.iter().map(move |one| (slice, one)))
            .map(|(slice, one)| endpoint(plan, name, slice, one, obstacle.as_ref()))
            .collect(),
        None => last_known(plan, name, obstacle.as_ref()),
    };
    ProviderReport {
        cluster: name.to_owned(),
        findings,
        endpoints,
    }
}

fn endpoint(
    plan: &Plan<'_>,
    provider: &str,
    slice: &EndpointSlice,
    endpoint: &Endpoint,
    obstacle: Option<&Finding>,
) -> EndpointReport {
    let consumers = plan.consumers.iter();
    let fates = consumers.map(|consumer| {
        let question = fate::Question {
            plan,
            provider,
            consumer,
            slice,
            endpoint,
            obstacle,
        };
        question.fate()
    });
    EndpointReport {
        slice: Some(slice.name_any()),
        ..report(endpoint, fates.collect())
    }
}

/// What the consumers hold of a provider that cannot be read.
fn last_known(plan: &Plan<'_>, provider: &str, obstacle: Option<&Finding>) -> Vec<EndpointReport> {
    let mut known: BTreeMap<Vec<String>, &Endpoint> = BTreeMap::new();
    for consumer in &plan.consumers {
        let held = plan.scene.held(consumer).into_iter();
        let copies = held.flat_map(|held| plan.scene.copies(held, &plan.service, provider));
        for endpoint in copies.flat_map(|copy| &copy.endpoints) {
            known.insert(endpoint.addresses.clone(), endpoint);
        }
    }
    let known = known.into_values();
    known
        .map(|endpoint| {
            let consumers = plan.consumers.iter();
            let others = consumers.filter(|consumer| *consumer != provider);
            let fates =
                others.map(|consumer| fate::kept(plan, provider, consumer, endpoint, obstacle));
            report(endpoint, fates.collect())
        })
        .collect()
}

fn report(endpoint: &Endpoint, consumers: Vec<Fate>) -> EndpointReport {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let ready = conditions.ready.unwrap_or(true);
    EndpointReport {
        addresses: endpoint.addresses.clone(),
        slice: None,
        node: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        ready,
        serving: conditions.serving.unwrap_or(ready),
        terminating: conditions.terminating.unwrap_or(false),
        consumers,
    }
}
