//! State of the endpoints of every provider of an exposure in every consumer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway::domain::ClusterName;

use super::endpoint::Place;
use super::exposure::ExposedService;
use super::report::{ConsumerReport, EndpointReport, ExposureReport, ProviderReport, TiersReport};
use super::{ConsumerState, EndpointState};
use crate::messages::explain::endpoint::Endpoint;
use crate::model::slice::{SourceEndpoint, SourceSlice};

/// Returns the report of an exposure: its providers, its consumers, and the state of each endpoint.
pub(super) fn report(mut exposure: ExposedService<'_>) -> ExposureReport {
    exposure.diagnoses.extend(exposure.obstacle.clone());
    let providers = exposure.providers.iter();
    let providers: Vec<_> = providers
        .map(|name| provider_report(&exposure, name))
        .collect();
    let mut endpoints = providers.iter().flat_map(|one| &one.endpoints);
    if !endpoints.any(|one| one.ready) {
        let none = exposure.no_endpoints();
        exposure.diagnoses.push(none);
    }
    let consumers = exposure.consumers.iter().map(|name| ConsumerReport {
        cluster: name.to_string(),
        tiers: exposure
            .desired(name)
            .and_then(|copies| copies.tiers.as_ref())
            .map(TiersReport::of),
        diagnoses: exposure.consumer(name).into_iter().collect(),
    });
    let consumers = consumers.collect();
    ExposureReport {
        exposure: exposure.exposure,
        address: exposure.address,
        diagnoses: exposure.diagnoses,
        consumers,
        providers,
    }
}

fn provider_report(exposure: &ExposedService<'_>, name: &ClusterName) -> ProviderReport {
    let facts = exposure.facts;
    let is_read = facts.members.get(name).is_some_and(Result::is_ok);
    let endpoints = match facts.index.member(name).filter(|_| is_read) {
        Some(member) => {
            let sources = member.sources(facts.key);
            let all = sources.flat_map(|(slice, source)| {
                let endpoints = source.endpoints();
                endpoints.map(move |one| endpoint_report(exposure, name, slice, source, &one))
            });
            all.collect()
        }
        None => last_known(exposure, name),
    };
    ProviderReport {
        cluster: name.to_string(),
        diagnoses: exposure.provider(name),
        endpoints,
    }
}

fn endpoint_report(
    exposure: &ExposedService<'_>,
    provider: &ClusterName,
    slice: &str,
    source: &SourceSlice,
    endpoint: &SourceEndpoint<'_>,
) -> EndpointReport {
    let states = exposure.consumers.iter().map(|consumer| {
        let place = Place {
            exposure,
            provider,
            consumer,
            slice,
            source,
            endpoint,
        };
        place.state()
    });
    let [ready, serving, terminating] = endpoint.conditions;
    let ready = ready.unwrap_or(true);
    EndpointReport {
        addresses: endpoint.addresses().collect(),
        slice: Some(slice.to_owned()),
        node: endpoint.node.map(ToOwned::to_owned),
        zone: endpoint.zone.map(ToOwned::to_owned),
        ready,
        serving: serving.unwrap_or(ready),
        terminating: terminating.unwrap_or(false),
        consumers: states.collect(),
    }
}

/// Returns the endpoints that the consumers hold of a provider that cannot be read.
fn last_known(exposure: &ExposedService<'_>, provider: &ClusterName) -> Vec<EndpointReport> {
    let held = exposure.copies.values().flatten();
    let held = held.filter(|slice| *slice.provider == *provider.as_str());
    let known: BTreeMap<_, _> = held.flat_map(|slice| &slice.endpoints).collect();
    let known = known.into_iter().map(|(addresses, ready)| {
        let consumers = exposure.consumers.iter();
        let others = consumers.filter(|consumer| *consumer != provider);
        let states =
            others.map(|consumer| last_known_state(exposure, provider, consumer, addresses));
        EndpointReport {
            addresses: addresses.clone(),
            slice: None,
            node: None,
            zone: None,
            ready: *ready,
            serving: *ready,
            terminating: false,
            consumers: states.collect(),
        }
    });
    known.collect()
}

/// Returns the state in a consumer of an endpoint whose provider cannot be read.
fn last_known_state(
    exposure: &ExposedService<'_>,
    provider: &ClusterName,
    consumer: &ClusterName,
    addresses: &Vec<IpAddr>,
) -> ConsumerState {
    let held = exposure.copies.get(consumer).into_iter().flatten();
    let mut held = held.filter(|slice| *slice.provider == *provider.as_str());
    let slice = held.find(|slice| slice.endpoints.contains_key(addresses));
    let words = Endpoint {
        key: exposure.facts.key,
        provider,
        consumer,
        slice: "",
    };
    let diagnosis = match (slice, exposure.unused(provider)) {
        (Some(_), None) => words.kept(),
        (Some(_), Some(unused)) => words.still_there(&unused),
        (None, unused) => unused
            .or_else(|| exposure.obstacle.clone())
            .or_else(|| exposure.consumer(consumer))
            .or_else(|| exposure.facts.member(provider))
            .unwrap_or_else(|| words.no_copy()),
    };
    ConsumerState {
        cluster: consumer.to_string(),
        state: match slice {
            Some(_) => EndpointState::Present,
            None => EndpointState::Missing,
        },
        slice: slice.map(|slice| slice.name.clone()),
        diagnosis,
    }
}
