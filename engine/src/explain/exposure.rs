//! ExposedService of a service to other clusters under one name, by whatever object.

use std::collections::BTreeMap;

use causeway::domain::{ClusterName, ServiceKey};

use super::observed::HeldSlice;
use super::{Diagnosis, Facts};
use crate::messages::explain::slice::Slice;
use crate::messages::explain::{clusterset, service as words};
use crate::model::slice::Exposure;
use crate::plan::Members;
use crate::plan::copies::{CopyDecision, DesiredCopies, Skipped};
use crate::plan::ignored::ignored;
use crate::plan::providers::Unfit;
use crate::problem::ServiceProblem;

/// Name under which a service reaches other clusters.
pub(super) struct ExposedService<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) exposure: Exposure,
    pub(super) address: String,
    /// Service of a consumer that receives the endpoints.
    pub(super) service: ServiceKey,
    pub(super) providers: Vec<ClusterName>,
    pub(super) consumers: Vec<ClusterName>,
    /// Diagnosis of an obstacle for every endpoint in every consumer.
    pub(super) obstacle: Option<Diagnosis>,
    /// Diagnoses of the exposure as a whole.
    pub(super) diagnoses: Vec<Diagnosis>,
    /// Copies that each consumer holds.
    pub(super) copies: BTreeMap<ClusterName, Vec<HeldSlice>>,
    /// Slices of Karmada's own controllers, by member; empty for ServiceExports.
    pub(super) karmadas: BTreeMap<ClusterName, Vec<HeldSlice>>,
}

impl<'a> ExposedService<'a> {
    /// Returns the copies that the plan wants in a consumer; `None` if it wants none there, or
    /// leaves the consumer unchanged.
    pub(super) fn desired(&self, consumer: &ClusterName) -> Option<&'a DesiredCopies> {
        let desired = self.facts.desired;
        match (self.exposure, &desired.members) {
            (Exposure::Native, Members::Untouched) => None,
            (Exposure::Native, Members::Wanted(members)) => Some(&members.get(consumer)?.copies),
            (Exposure::Clusterset, _) => Some(&desired.clusterset.imports.of(consumer)?.copies),
        }
    }

    /// Returns the reason why a consumer's Service cannot serve as requested.
    pub(super) fn problem(&self, consumer: &ClusterName) -> Option<&'a ServiceProblem> {
        let desired = self.facts.desired;
        match (self.exposure, &desired.members) {
            (Exposure::Native, Members::Untouched) => None,
            (Exposure::Native, Members::Wanted(members)) => members.get(consumer)?.problem.as_ref(),
            (Exposure::Clusterset, _) => desired.clusterset.imports.of(consumer)?.problem.as_ref(),
        }
    }

    /// Returns the plan's decision about a copy in a consumer.
    pub(super) fn decision(
        &self,
        copies: &'a DesiredCopies,
        provider: &ClusterName,
        name: &str,
    ) -> CopyDecision<'a> {
        let (index, key) = (self.facts.index, self.facts.key);
        copies.decide(index, key, provider.as_str(), name)
    }

    /// Whether the plan leaves a copy unchanged.
    pub(super) fn keeps(&self, provider: &ClusterName, consumer: &ClusterName, name: &str) -> bool {
        match self.desired(consumer) {
            None => self.leaves_all(),
            Some(copies) => {
                let decision = self.decision(copies, provider, name);
                matches!(decision, CopyDecision::Hold(_))
            }
        }
    }

    /// Returns the reason why nothing of a provider is used.
    pub(super) fn unused(&self, provider: &ClusterName) -> Option<Diagnosis> {
        let unused = self.facts.unused(provider);
        unused.or_else(|| match self.exposure {
            Exposure::Native => None,
            Exposure::Clusterset => self.facts.export(provider),
        })
    }

    /// Lists the diagnoses of a provider, the most important first.
    pub(super) fn provider(&self, name: &ClusterName) -> Vec<Diagnosis> {
        let facts = self.facts;
        let first = self
            .unused(name)
            .or_else(|| facts.member(name))
            .or_else(|| {
                facts
                    .namespace(name)
                    .filter(|_| self.exposure == Exposure::Native)
            })
            .or_else(|| facts.provider_service(name));
        let slices = self.skipped_slices(name);
        let all = first.into_iter().chain(slices);
        all.chain(facts.suspended(name)).collect()
    }

    /// Reports slices of a provider that cannot be read, that hold endpoints without a usable
    /// address, or that disagree with slices which Kubernetes manages.
    fn skipped_slices(&self, provider: &ClusterName) -> Vec<Diagnosis> {
        let key = self.facts.key;
        let member = self.facts.index.member(provider).into_iter();
        let sources = member.flat_map(|member| member.sources(key));
        let copies = || self.consumers.iter().filter_map(|name| self.desired(name));
        let reported = sources.filter_map(|(name, source)| {
            let slice = Slice {
                key,
                provider,
                name,
            };
            match copies().find_map(|copies| copies.skipped(provider, name)) {
                Some(why @ Skipped::Unfit(Unfit::AddressType | Unfit::Unreadable)) => {
                    Some(slice.skipped(why))
                }
                Some(Skipped::Unfit(Unfit::Redundant(Some(disagreement)))) => {
                    Some(slice.writers_disagree(disagreement))
                }
                _ => (source.odd > 0).then(|| slice.without_address(source)),
            }
        });
        reported.collect()
    }

    /// Returns the reason why nothing, or not all, reaches a consumer.
    pub(super) fn consumer(&self, name: &ClusterName) -> Option<Diagnosis> {
        let facts = self.facts;
        facts
            .member(name)
            .or_else(|| match self.exposure {
                Exposure::Native => facts.namespace(name),
                Exposure::Clusterset => facts.not_importing(name),
            })
            .or_else(|| {
                let problem = self.problem(name)?;
                Some(words::problem(&self.service, name, problem))
            })
            .or_else(|| self.service_missing(name))
            .or_else(|| self.unserved(name))
            .or_else(|| self.unresolved(name))
            .or_else(|| self.ignored(name))
    }

    /// Reports a preference that leads to no provider.
    fn unserved(&self, name: &ClusterName) -> Option<Diagnosis> {
        let tiers = self.desired(name)?.tiers.as_ref()?;
        let is_unserved = tiers.lack_providers();
        is_unserved.then(|| words::no_preferred_provider(name, tiers))
    }

    /// Reports that clients do not reach the copies in a consumer.
    fn ignored(&self, name: &ClusterName) -> Option<Diagnosis> {
        let service = self.facts.index.member(name)?.service(&self.service)?;
        let ignored = ignored(self.exposure, name, service, self.desired(name)?)?;
        Some(words::ignored(&self.service, name, &ignored))
    }

    /// Reports that names of the clusterset lead elsewhere although the endpoints are in the
    /// consumer.
    fn unresolved(&self, name: &ClusterName) -> Option<Diagnosis> {
        let import = self.facts.desired.clusterset.imports.of(name);
        let import = import.filter(|_| self.exposure == Exposure::Clusterset)?;
        let unresolved = import.unresolved.as_ref()?;
        Some(clusterset::name_not_resolved(
            self.facts.key,
            name,
            unresolved,
        ))
    }

    pub(super) fn no_endpoints(&self) -> Diagnosis {
        words::no_endpoints(self.facts.key, &self.providers)
    }
}
