//! State of the endpoints of a provider in every consumer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use causeway::domain::{ClusterName, Reach};

use super::ConsumerState;
use super::endpoint::Place;
use super::exposure::ExposedService;
use super::report::{EndpointReport, ProviderReport};
use crate::messages::endpoint::Endpoint;
use crate::model::slice::{SourceEndpoint, SourceSlice};
use crate::plan::entry::Site;

impl ExposedService<'_> {
    /// Reports a provider. If it cannot be read, its endpoints are those that the consumers hold.
    pub(super) fn provider_report(&self, provider: &ClusterName) -> ProviderReport {
        let facts = self.facts;
        let member = facts.index.member(provider);
        let endpoints = match member.filter(|_| facts.is_read(provider)) {
            Some(member) => {
                let sources = member.sources(facts.key);
                let endpoints = sources.flat_map(|(slice, source)| {
                    let endpoints = source.endpoints();
                    endpoints.map(|one| self.endpoint_report(provider, slice, source, &one))
                });
                endpoints.collect()
            }
            None => self.last_known(provider),
        };
        let declared = match member {
            Some(member) => {
                let provider = (provider, member);
                Site::of(facts.index, facts.key, self.exposure, provider).reach()
            }
            None => facts.index.reach(provider),
        };
        ProviderReport {
            cluster: provider.to_string(),
            reach: declared.map(Reach::as_str),
            diagnoses: self.provider(provider),
            endpoints,
        }
    }

    fn words<'b>(
        &'b self,
        provider: &'b ClusterName,
        consumer: &'b ClusterName,
        slice: &'b str,
    ) -> Endpoint<'b> {
        Endpoint {
            key: self.facts.key,
            provider,
            consumer,
            slice,
        }
    }

    fn endpoint_report(
        &self,
        provider: &ClusterName,
        slice: &str,
        source: &SourceSlice,
        endpoint: &SourceEndpoint<'_>,
    ) -> EndpointReport {
        let states = self.consumers.iter().map(|consumer| {
            let place = Place {
                exposure: self,
                words: self.words(provider, consumer, slice),
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
    fn last_known(&self, provider: &ClusterName) -> Vec<EndpointReport> {
        let held = self.copies.values().flatten();
        let held = held.filter(|slice| slice.provider == provider.as_str());
        let known: BTreeMap<_, _> = held.flat_map(|slice| &slice.endpoints).collect();
        let known = known.into_iter().map(|(addresses, ready)| {
            let others = self
                .consumers
                .iter()
                .filter(|consumer| *consumer != provider);
            let states =
                others.map(|consumer| self.last_known_state(provider, consumer, addresses));
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
        &self,
        provider: &ClusterName,
        consumer: &ClusterName,
        addresses: &Vec<IpAddr>,
    ) -> ConsumerState {
        let mut held = self.copies.get(consumer).into_iter().flatten();
        let slice = held.find(|slice| {
            slice.provider == provider.as_str() && slice.endpoints.contains_key(addresses)
        });
        let words = self.words(provider, consumer, "");
        let unused = self.unused(provider);
        let diagnosis = match (slice, unused) {
            (Some(_), None) => words.kept(),
            (Some(_), Some(unused)) => words.still_there(&unused),
            (None, unused) => unused
                .or_else(|| self.obstacle.clone())
                .or_else(|| self.consumer(consumer))
                .or_else(|| self.facts.member(provider))
                .unwrap_or_else(|| words.no_copy()),
        };
        ConsumerState::new(consumer, slice.map(|slice| slice.name.clone()), diagnosis)
    }
}
