//! ExposedService of a service by a MultiClusterService.

use causeway::api::condition;
use causeway::api::karmada;
use causeway::domain::{ClusterName, ExposureType, MultiClusterService, ServicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::exposure::ExposedService;
use super::providers;
use super::report::ExposureReport;
use super::{Diagnosis, Facts};
use crate::messages::explain::{native as words, service};
use crate::model::slice::Exposure;
use crate::observed::hub::McsView;
use crate::plan::Members;
use crate::plan::hostnames;
use crate::plan::placement::place;

/// Returns the exposure by the service's own name, if the hub has a MultiClusterService for it.
pub(super) fn report(facts: &Facts<'_>) -> Option<ExposureReport> {
    let mcs = facts.index.multi_cluster_service(facts.key)?;
    let exposure = match &mcs.spec {
        Err(errors) => {
            return Some(nobodys(facts, words::invalid(facts.key, errors)));
        }
        Ok(spec) if spec.exposure == ExposureType::LoadBalancer => {
            return Some(nobodys(facts, words::load_balancer(facts.key)));
        }
        Ok(spec) => exposure(facts, mcs, spec),
    };
    Some(providers::report(exposure))
}

fn exposure<'a>(
    facts: &'a Facts<'a>,
    mcs: &McsView,
    spec: &MultiClusterService,
) -> ExposedService<'a> {
    let placement = place(facts.index, spec);
    let left_out = |is_one: &dyn Fn(&ClusterName) -> bool| -> Vec<ClusterName> {
        let left_out = placement.left_out.keys().filter(|name| is_one(name));
        left_out.cloned().collect()
    };
    let sorted = |mut names: Vec<ClusterName>| {
        names.sort();
        names
    };
    let providers = placement.providers().cloned();
    let providers = providers.chain(left_out(&|name| spec.providers.includes(name)));
    let consumers = placement.consumers().cloned();
    let consumers = consumers.chain(left_out(&|name| spec.consumers.includes(name)));
    let consumers = sorted(consumers.collect());
    let copies = consumers.iter();
    let copies = copies.map(|name| (name.clone(), facts.copies(name, Exposure::Native)));
    let members = facts.members.keys();
    let karmadas = members.map(|name| (name.clone(), facts.karmadas_slices(name)));
    let mut exposure = ExposedService {
        facts,
        exposure: Exposure::Native,
        address: address(facts),
        service: facts.key.clone(),
        providers: sorted(providers.collect()),
        copies: copies.collect(),
        karmadas: karmadas.collect(),
        consumers,
        obstacle: facts.obstacle(mcs),
        diagnoses: Vec::new(),
    };
    let diagnoses = facts.not_exposed_ports().into_iter();
    let diagnoses = diagnoses
        .chain(facts.not_observed(mcs))
        .chain(facts.not_named(&exposure.providers))
        .chain(exposure.ambiguous_hostname())
        .chain(exposure.of_karmada());
    exposure.diagnoses = diagnoses.collect();
    exposure
}

fn address(facts: &Facts<'_>) -> String {
    format!("{}.{}.svc", facts.key.name, facts.key.namespace)
}

/// Returns an exposure that leads no endpoint to another cluster.
fn nobodys(facts: &Facts<'_>, diagnosis: Diagnosis) -> ExposureReport {
    ExposureReport {
        exposure: Exposure::Native,
        address: address(facts),
        diagnoses: vec![diagnosis],
        consumers: Vec::new(),
        providers: Vec::new(),
    }
}

impl ExposedService<'_> {
    /// Returns the Ready condition of the MultiClusterService, or of the provider's export.
    pub(super) fn reported(&self, provider: &ClusterName) -> Option<&Condition> {
        let (index, key) = (self.facts.index, self.facts.key);
        let conditions = match self.exposure {
            Exposure::Native => &index.multi_cluster_service(key)?.conditions,
            Exposure::Clusterset => &index.member(provider)?.export(key)?.conditions,
        };
        condition::find(conditions, condition::READY)
    }

    /// Whether the plan leaves all objects of consumers unchanged.
    pub(super) fn leaves_all(&self) -> bool {
        let desired = self.facts.desired;
        match self.exposure {
            Exposure::Native => matches!(desired.members, Members::Untouched),
            Exposure::Clusterset => desired.clusterset.problem.is_some(),
        }
    }
}

impl ExposedService<'_> {
    /// Reports hostnames of a headless service that lead to pods of several clusters.
    fn ambiguous_hostname(&self) -> Option<Diagnosis> {
        let (index, key) = (self.facts.index, self.facts.key);
        self.consumers.first()?;
        let providers = self.providers.iter();
        let used = providers.filter(|name| self.unused(name).is_none());
        let found = hostnames::ambiguous(index, key, used)?;
        Some(words::ambiguous_hostname(key, &found))
    }
}

impl Facts<'_> {
    /// Returns the diagnosis of an obstacle for every endpoint in every other cluster.
    fn obstacle(&self, mcs: &McsView) -> Option<Diagnosis> {
        if mcs.is_deleting() {
            return Some(self.deleting(mcs));
        }
        let problem = self.desired.problem.as_ref()?;
        // Some of the ports may be there.
        let is_partial = matches!(&self.desired.members, Members::Wanted(all) if !all.is_empty());
        words::problem(self.key, problem, is_partial)
    }

    fn deleting(&self, mcs: &McsView) -> Diagnosis {
        let finalizers = mcs.finalizers.others();
        let (karmadas, others) = finalizers.partition(|one| karmada::FINALIZERS.contains(one));
        let waits = words::Waits {
            holders: self.index.native_holders(self.key).collect(),
            karmadas,
            others,
        };
        words::deleting(self.key, &waits)
    }

    /// Reports ports of the hub's Service that the plan does not expose, if it exposes any.
    fn not_exposed_ports(&self) -> Option<Diagnosis> {
        let exposed = &self.desired.exposed;
        let service = self.index.hub_service(self.key)?;
        let is_hidden = |port: &ServicePort| exposed.iter().all(|one| one.id != port.id);
        let hidden: Vec<_> = service.ports().into_iter().filter(is_hidden).collect();
        words::ports_not_exposed(self.key, &hidden).filter(|_| !exposed.is_empty())
    }

    /// Reports that the controller has not processed the object, or its last change, yet.
    fn not_observed(&self, mcs: &McsView) -> Option<Diagnosis> {
        let ready = condition::find(&mcs.conditions, condition::READY);
        let observed = ready.map(|ready| ready.observed_generation.unwrap_or_default());
        let is_behind = observed.is_none_or(|observed| observed < mcs.generation);
        is_behind.then(|| words::not_observed(self.key, ready.is_none()))
    }

    /// Lists members that have endpoints of their own behind a Service of the name and are no
    /// providers.
    pub(super) fn backed_but_not(&self, providers: &[ClusterName]) -> Vec<&ClusterName> {
        let members = self.index.members();
        let others = members.filter(|(name, member)| {
            let mut sources = member.sources(self.key);
            !providers.contains(name) && sources.any(|(_, source)| !source.is_empty())
        });
        others.map(|(name, _)| name).collect()
    }

    fn not_named(&self, providers: &[ClusterName]) -> Vec<Diagnosis> {
        let others = self.backed_but_not(providers).into_iter();
        others
            .map(|member| words::not_named(self.key, member))
            .collect()
    }

    /// Reports that the Service of a provider is missing, or is an ExternalName.
    pub(super) fn provider_service(&self, name: &ClusterName) -> Option<Diagnosis> {
        let member = self.index.member(name)?;
        self.members.get(name)?.as_ref().ok()?;
        match member.service(self.key) {
            None => Some(service::no_provider_service(self.key, name)),
            Some(known) if known.is_external_name() => Some(service::external_name(self.key, name)),
            Some(_) => None,
        }
    }
}
