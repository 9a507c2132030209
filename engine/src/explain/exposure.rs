//! Service under one of its names: the providers, the consumers, and the report.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::condition;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::held::HeldSlice;
use super::report::{ConsumerReport, DefaultReport, ExposureReport, ShareReport, TiersReport};
use super::{Diagnosis, Facts};
use crate::messages::{address, conflict, entry_clusters, exports, karmada, name, native, service};
use crate::model::slice::Exposure;
use crate::observed::hub::McsView;
use crate::observed::member::Member;
use crate::plan::clusterset::NotImporting;
use crate::plan::copies::DesiredCopies;
use crate::plan::hostnames;
use crate::plan::placement::place;

/// Service under the name by which it reaches other clusters.
pub(super) struct ExposedService<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) exposure: Exposure,
    /// Service of a consumer that receives the endpoints.
    pub(super) service: ServiceKey,
    pub(super) providers: BTreeSet<ClusterName>,
    pub(super) consumers: BTreeSet<ClusterName>,
    /// Diagnosis of an obstacle for every endpoint in every consumer.
    pub(super) obstacle: Option<Diagnosis>,
    /// Slices that each consumer holds, and those of Karmada's controllers in other members.
    pub(super) held: BTreeMap<ClusterName, Vec<HeldSlice>>,
}

impl<'a> Facts<'a> {
    /// Reports the exposure by the service's own name, if the hub has a MultiClusterService of it.
    pub(super) fn native(&self) -> Option<ExposureReport> {
        let mcs = self.index.multi_cluster_service(self.key)?;
        let why = match &mcs.spec {
            Err(errors) => native::invalid(self.key, errors),
            Ok(spec) if !spec.dispatches_endpoints() => native::load_balancer(self.key),
            Ok(spec) => {
                let placement = place(self.index, spec);
                let all = || placement.targets.keys().chain(placement.left_out.keys());
                let providers = all().filter(|name| spec.providers.includes(name));
                let consumers = all().filter(|name| spec.consumers.includes(name));
                let obstacle = self.obstacle(mcs);
                return Some(self.exposed(Exposure::Native, providers, consumers, obstacle));
            }
        };
        let mut diagnoses = vec![why];
        diagnoses.extend(name::diagnoses(self.index, self.key, &self.desired.name));
        Some(self.bare_report(Exposure::Native, diagnoses))
    }

    /// Returns a report without providers and consumers.
    fn bare_report(&self, exposure: Exposure, diagnoses: Vec<Diagnosis>) -> ExposureReport {
        let is_native = exposure == Exposure::Native;
        let defaults = is_native.then(|| self.index.defaulted(self.key));
        let defaults = defaults.into_iter().flatten();
        let defaults = defaults.map(|(annotation, value)| DefaultReport {
            annotation: annotation.to_owned(),
            value: value.to_owned(),
            namespace: self.key.namespace.to_string(),
        });
        ExposureReport {
            exposure,
            address: address(exposure, self.key),
            defaults: defaults.collect(),
            diagnoses,
            consumers: Vec::new(),
            providers: Vec::new(),
        }
    }

    /// Reports the exposure by the name of the clusterset, if a user exports the service, or if an
    /// export of an unknown member is recorded.
    pub(super) fn clusterset(&self) -> Option<ExposureReport> {
        let clusterset = &self.desired.clusterset;
        let published = &clusterset.published;
        let exports = clusterset.exports.keys();
        let exports = exports.filter(|name| !published.contains_key(*name));
        let recorded = clusterset.exporters.iter().filter(|_| published.is_empty());
        let mut providers = exports.chain(recorded).peekable();
        providers.peek()?;
        let participants = self.index.clusters().filter(|(_, one)| one.takes_part);
        let no_consumers = [NotImporting::NamespaceMissing, NotImporting::NotConsumer];
        let consumers = participants.map(|(name, _)| name).filter(|name| {
            let why = clusterset.not_importing(name);
            why.is_none_or(|why| !no_consumers.contains(&why))
        });
        Some(self.exposed(Exposure::Clusterset, providers, consumers, self.protected()))
    }

    /// Reports the exposure of a service with these providers and consumers.
    fn exposed<'n>(
        &self,
        exposure: Exposure,
        providers: impl Iterator<Item = &'n ClusterName>,
        consumers: impl Iterator<Item = &'n ClusterName>,
        obstacle: Option<Diagnosis>,
    ) -> ExposureReport {
        let consumers: BTreeSet<_> = consumers.cloned().collect();
        let held = self.members.iter().map(|(name, lists)| {
            let slices = lists.iter().flat_map(|lists| &lists.slices);
            let held = slices.filter_map(|slice| HeldSlice::read(slice, self, exposure));
            let held = held.filter(|slice| slice.is_karmadas || consumers.contains(name));
            (name.clone(), held.collect::<Vec<_>>())
        });
        let exposed = ExposedService {
            facts: self,
            exposure,
            service: exposure.service(self.key),
            providers: providers.cloned().collect(),
            held: held.collect(),
            consumers,
            obstacle,
        };
        exposed.report()
    }

    /// Returns the diagnosis of an obstacle for every endpoint in every other cluster.
    fn obstacle(&self, mcs: &McsView) -> Option<Diagnosis> {
        if mcs.is_deleting() {
            let holders = self.index.native_holders(self.key).collect();
            return Some(native::deleting(self.key, holders, mcs.finalizers.others()));
        }
        // Karmada may bring endpoints all the same.
        let problem = self.desired.problem.as_ref();
        let problem = problem.filter(|_| self.desired.karmada.is_none())?;
        // Some of the ports may be there.
        let is_partial = self.desired.members.names().next().is_some();
        native::problem(self.key, problem, is_partial)
    }

    pub(super) fn protected(&self) -> Option<Diagnosis> {
        let problem = self.desired.clusterset.problem.as_ref();
        problem.map(exports::protected)
    }

    /// Reports ports of the hub's Service that the plan does not expose, if it exposes any.
    fn ports_not_exposed(&self) -> Option<Diagnosis> {
        let exposed = &self.desired.exposed;
        let mut hidden = self.index.hub_service(self.key)?.ports();
        hidden.retain(|port| exposed.iter().all(|one| one.id != port.id));
        native::ports_not_exposed(self.key, &hidden).filter(|_| !exposed.is_empty())
    }
}

impl<'a> ExposedService<'a> {
    /// Reports the providers, the consumers, and the state of each endpoint.
    fn report(&self) -> ExposureReport {
        let (facts, key) = (self.facts, self.facts.key);
        let mut diagnoses = match self.exposure {
            Exposure::Native => self.of_mcs(),
            Exposure::Clusterset => self.of_exports(),
        };
        let providers = self.providers.iter();
        let providers: Vec<_> = providers.map(|name| self.provider_report(name)).collect();
        let mut endpoints = providers.iter().flat_map(|one| &one.endpoints);
        let lacks_endpoints = !endpoints.any(|one| one.ready);
        diagnoses.extend(self.obstacle.clone());
        diagnoses.extend(lacks_endpoints.then(|| service::no_endpoints(key, &self.providers)));
        let entries = facts.desired.entry_clusters.as_ref();
        let entries = entries.filter(|_| self.is_native());
        let consumers = self.consumers.iter().map(|name| {
            let entry = entries.and_then(|entries| entries.get(name));
            let entry = entry.map(|entry| entry_clusters::diagnosis(key, name, entry));
            let copies = self.desired(name);
            let tiers = copies.and_then(|copies| copies.tiers.as_ref());
            let shares = copies.and_then(|copies| copies.shares.as_ref());
            ConsumerReport {
                cluster: name.to_string(),
                tiers: tiers.map(TiersReport::of),
                shares: shares.map(ShareReport::all).unwrap_or_default(),
                diagnoses: self.consumer(name).into_iter().chain(entry).collect(),
            }
        });
        ExposureReport {
            consumers: consumers.collect(),
            providers,
            ..facts.bare_report(self.exposure, diagnoses)
        }
    }

    /// Lists the diagnoses of a MultiClusterService as a whole.
    fn of_mcs(&self) -> Vec<Diagnosis> {
        let (facts, key) = (self.facts, self.facts.key);
        let Some(mcs) = facts.index.multi_cluster_service(key) else {
            return Vec::new();
        };
        let mut all: Vec<_> = facts.ports_not_exposed().into_iter().collect();
        let ready = condition::find(&mcs.conditions, condition::READY);
        let observed = ready.map(|ready| ready.observed_generation.unwrap_or_default());
        let is_behind = observed.is_none_or(|observed| observed < mcs.generation);
        all.extend(is_behind.then(|| native::not_observed(key, ready.is_none())));
        let others = self.backed_elsewhere();
        all.extend(others.map(|(name, _)| native::not_named(key, name)));
        let ambiguous = hostnames::ambiguous(facts.index, key, facts.desired);
        all.extend(ambiguous.map(|found| native::ambiguous_hostname(key, &found)));
        let held = self.held.iter();
        let holders = held.filter(|(_, held)| held.iter().any(|one| one.is_karmadas));
        all.extend(match &facts.desired.karmada {
            Some(managed) => Some(karmada::managed(key, &managed.work)),
            None => karmada::left(key, holders.map(|(name, _)| name)),
        });
        all.extend(self.stale());
        all.extend(name::diagnoses(facts.index, key, &facts.desired.name));
        all
    }

    /// Lists the diagnoses of the exports as a whole.
    fn of_exports(&self) -> Vec<Diagnosis> {
        let (facts, key) = (self.facts, self.facts.key);
        let clusterset = &facts.desired.clusterset;
        let others = self.backed_elsewhere();
        let others = others.filter(|(_, member)| member.exports_followed().is_some());
        let others = others.map(|(name, _)| exports::does_not_export(key, name));
        let mut all: Vec<_> = others.collect();
        let conflicts = conflict::conflicts(&clusterset.conflicts);
        all.extend(conflicts.map(|(reason, text)| exports::disagreement(key, &reason, &text)));
        let imported = clusterset.karmadas.as_ref();
        all.extend(imported.map(|imported| karmada::imported(key, imported.sentence(key))));
        let absent = clusterset.without_import(NotImporting::NamespaceMissing);
        all.extend(exports::not_imported(key, &absent.collect::<Vec<_>>()));
        let kept = clusterset.without_import(NotImporting::NotConsumer);
        all.extend(kept.map(|name| exports::not_consumer(key, name)));
        all
    }

    /// Lists members that have endpoints of their own behind a Service of the name and are no
    /// providers.
    fn backed_elsewhere(&self) -> impl Iterator<Item = (&'a ClusterName, &'a Member)> {
        let facts = self.facts;
        facts.index.members().filter(|(name, member)| {
            let mut sources = member.sources(facts.key);
            !self.providers.contains(*name) && sources.any(|(_, source)| !source.is_empty())
        })
    }

    /// Reports endpoints that consumers offer although their provider no longer has them as ready.
    /// It covers Karmada's slices, and causeway's copies while Karmada manages the service.
    fn stale(&self) -> Vec<Diagnosis> {
        let is_managed = self.is_managed_by_karmada();
        let all = self.held.iter();
        let all = all.flat_map(|(consumer, held)| held.iter().map(move |one| (consumer, one)));
        let stale = all.filter(|(_, slice)| slice.is_karmadas || is_managed);
        let stale = stale.filter_map(|(consumer, slice)| {
            let ready = self.facts.ready_in(&slice.provider)?;
            let offered = slice.endpoints.iter().filter(|(_, is_ready)| **is_ready);
            let gone = offered.filter(|(addresses, _)| !ready.contains(*addresses));
            let gone: Vec<_> = gone.flat_map(|(addresses, _)| addresses).copied().collect();
            let (key, provider, name) = (self.facts.key, &slice.provider, &slice.name);
            (!gone.is_empty()).then(|| karmada::stale(key, consumer, provider, name, &gone))
        });
        stale.collect()
    }

    /// Returns the slices of other clusters' endpoints that a consumer holds.
    pub(super) fn held_in(&self, consumer: &ClusterName) -> &[HeldSlice] {
        let held = self.held.get(consumer);
        held.map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn is_native(&self) -> bool {
        self.exposure == Exposure::Native
    }

    /// Whether Karmada's own controllers manage the MultiClusterService.
    pub(super) fn is_managed_by_karmada(&self) -> bool {
        self.is_native() && self.facts.desired.karmada.is_some()
    }

    /// Returns the copies that the plan wants in a consumer; `None` if it wants none there, or
    /// leaves the consumer unchanged.
    pub(super) fn desired(&self, consumer: &ClusterName) -> Option<&'a DesiredCopies> {
        self.facts.desired.copies_in(self.exposure, consumer)
    }

    /// Lists the copies that the plan wants in each consumer.
    pub(super) fn copies(&self) -> impl Iterator<Item = &'a DesiredCopies> {
        let consumers = self.consumers.iter();
        consumers.filter_map(|name| self.desired(name))
    }

    /// Returns the Ready condition of the MultiClusterService, or of the provider's export.
    pub(super) fn reported(&self, provider: &ClusterName) -> Option<&'a Condition> {
        let (index, key) = (self.facts.index, self.facts.key);
        let conditions = match self.exposure {
            Exposure::Native => &index.multi_cluster_service(key)?.conditions,
            Exposure::Clusterset => &index.member(provider)?.export(key)?.conditions,
        };
        condition::find(conditions, condition::READY)
    }
}
