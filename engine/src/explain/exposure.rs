//! Service under one of its names: the providers, the consumers, and the report.

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::condition;
use causeway::domain::{ClusterName, ClusterSelection, MultiClusterService, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::held::HeldSlice;
use super::report::{ConsumerReport, DefaultReport, ExposureReport, ShareReport, TiersReport};
use super::{Diagnosis, Facts};
use crate::messages::conflict;
use crate::messages::{address, exports, karmada, name, native, service};
use crate::model::slice::Exposure;
use crate::observed::hub::McsView;
use crate::plan::clusterset::NotImporting;
use crate::plan::copies::DesiredCopies;
use crate::plan::placement::place;
use crate::plan::{Members, hostnames};

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
    /// Copies that each consumer holds.
    pub(super) copies: BTreeMap<ClusterName, Vec<HeldSlice>>,
    /// Slices of Karmada's own controllers, by member; empty for ServiceExports.
    pub(super) karmadas: BTreeMap<ClusterName, Vec<HeldSlice>>,
}

impl<'a> Facts<'a> {
    /// Reports the exposure by the service's own name, if the hub has a MultiClusterService of it.
    pub(super) fn native(&self) -> Option<ExposureReport> {
        let mcs = self.index.multi_cluster_service(self.key)?;
        let why = match &mcs.spec {
            Err(errors) => native::invalid(self.key, errors),
            Ok(spec) if !spec.dispatches_endpoints() => native::load_balancer(self.key),
            Ok(spec) => return Some(self.dispatched(mcs, spec).report()),
        };
        Some(ExposureReport {
            exposure: Exposure::Native,
            address: address(Exposure::Native, self.key),
            defaults: self.defaults(),
            diagnoses: [why].into_iter().chain(self.names(mcs)).collect(),
            consumers: Vec::new(),
            providers: Vec::new(),
        })
    }

    /// Lists the annotations whose values the Namespace gives.
    fn defaults(&self) -> Vec<DefaultReport> {
        let all = self.index.defaulted(self.key).into_iter();
        all.map(|(annotation, value)| DefaultReport {
            annotation: annotation.to_owned(),
            value: value.to_owned(),
            namespace: self.key.namespace.to_string(),
        })
        .collect()
    }

    /// Reports the state of the names that DNS is to publish.
    fn names(&self, mcs: &McsView) -> Vec<Diagnosis> {
        let Some(name) = self.desired.name.wanted() else {
            return Vec::new();
        };
        let states = name
            .states(self.index, (self.key, &*mcs.uid), None)
            .into_iter();
        let reported = states.map(|(names, state)| name::diagnosis(self.key, &names, &state));
        reported.collect()
    }

    fn dispatched(&self, mcs: &McsView, spec: &MultiClusterService) -> ExposedService<'_> {
        let placement = place(self.index, spec);
        let left_out = |selection: &ClusterSelection| {
            let names = placement.left_out.keys();
            names
                .filter(|name| selection.includes(name))
                .collect::<Vec<_>>()
        };
        let providers = placement.providers().chain(left_out(&spec.providers));
        let consumers = placement.consumers().chain(left_out(&spec.consumers));
        let members = self.members.keys();
        let karmadas = members.map(|name| (name.clone(), self.karmadas_slices(name)));
        ExposedService {
            obstacle: self.obstacle(mcs),
            karmadas: karmadas.collect(),
            ..self.exposed(Exposure::Native, providers, consumers)
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
        let consumers = self.participants().filter(|name| {
            let why = clusterset.not_importing(name);
            !matches!(
                why,
                Some(NotImporting::NamespaceMissing | NotImporting::NotConsumer)
            )
        });
        let exposed = ExposedService {
            obstacle: self.protected(),
            ..self.exposed(Exposure::Clusterset, providers, consumers)
        };
        Some(exposed.report())
    }

    /// Returns the exposure without obstacle and without slices of Karmada.
    fn exposed<'n>(
        &self,
        exposure: Exposure,
        providers: impl Iterator<Item = &'n ClusterName>,
        consumers: impl Iterator<Item = &'n ClusterName>,
    ) -> ExposedService<'_> {
        let consumers: BTreeSet<_> = consumers.cloned().collect();
        let copies = consumers.iter();
        let copies = copies.map(|name| (name.clone(), self.copies(name, exposure)));
        ExposedService {
            facts: self,
            exposure,
            service: match exposure {
                Exposure::Native => self.key.clone(),
                Exposure::Clusterset => self.key.derived(),
            },
            providers: providers.cloned().collect(),
            copies: copies.collect(),
            consumers,
            obstacle: None,
            karmadas: BTreeMap::new(),
        }
    }

    /// Lists the clusters that take part in the clusterset.
    fn participants(&self) -> impl Iterator<Item = &ClusterName> {
        let clusters = self.index.clusters();
        let participants = clusters.filter(|(_, cluster)| cluster.takes_part);
        participants.map(|(name, _)| name)
    }

    /// Lists the clusters that import nothing for this reason.
    fn not_importing_by(&self, why: NotImporting) -> Vec<&ClusterName> {
        let clusterset = &self.desired.clusterset;
        let participants = self.participants();
        participants
            .filter(|name| clusterset.not_importing(name) == Some(why))
            .collect()
    }

    /// Returns the diagnosis of an obstacle for every endpoint in every other cluster.
    fn obstacle(&self, mcs: &McsView) -> Option<Diagnosis> {
        if mcs.is_deleting() {
            let holders = self.index.native_holders(self.key).collect();
            return Some(native::deleting(self.key, holders, mcs.finalizers.others()));
        }
        let problem = self.desired.problem.as_ref()?;
        // Some of the ports may be there.
        let is_partial = matches!(&self.desired.members, Members::Wanted(all) if !all.is_empty());
        native::problem(self.key, problem, is_partial)
    }

    pub(super) fn protected(&self) -> Option<Diagnosis> {
        self.desired
            .clusterset
            .problem
            .as_ref()
            .map(exports::protected)
    }

    /// Reports ports of the hub's Service that the plan does not expose, if it exposes any.
    fn ports_not_exposed(&self) -> Option<Diagnosis> {
        let exposed = &self.desired.exposed;
        let mut hidden = self.index.hub_service(self.key)?.ports();
        hidden.retain(|port| exposed.iter().all(|one| one.id != port.id));
        native::ports_not_exposed(self.key, &hidden).filter(|_| !exposed.is_empty())
    }

    /// Reports that the controller has not processed the object, or its last change, yet.
    fn not_observed(&self) -> Option<Diagnosis> {
        let mcs = self.index.multi_cluster_service(self.key)?;
        let ready = condition::find(&mcs.conditions, condition::READY);
        let observed = ready.map(|ready| ready.observed_generation.unwrap_or_default());
        let is_behind = observed.is_none_or(|observed| observed < mcs.generation);
        is_behind.then(|| native::not_observed(self.key, ready.is_none()))
    }
}

impl<'a> ExposedService<'a> {
    /// Reports the providers, the consumers, and the state of each endpoint.
    fn report(self) -> ExposureReport {
        let mut diagnoses = match self.exposure {
            Exposure::Native => self.of_mcs(),
            Exposure::Clusterset => self.of_exports(),
        };
        let providers: Vec<_> = self
            .providers
            .iter()
            .map(|name| self.provider_report(name))
            .collect();
        let mut endpoints = providers.iter().flat_map(|one| &one.endpoints);
        let lacks_endpoints = !endpoints.any(|one| one.ready);
        diagnoses.extend(self.obstacle.clone());
        diagnoses.extend(
            lacks_endpoints.then(|| service::no_endpoints(self.facts.key, &self.providers)),
        );
        let consumers = self.consumers.iter().map(|name| ConsumerReport {
            cluster: name.to_string(),
            tiers: self.tiers(name).map(TiersReport::of),
            shares: self.shares(name).map(ShareReport::all).unwrap_or_default(),
            diagnoses: self
                .consumer(name)
                .into_iter()
                .chain(self.entry_cluster(name))
                .collect(),
        });
        ExposureReport {
            exposure: self.exposure,
            address: address(self.exposure, self.facts.key),
            defaults: match self.exposure {
                Exposure::Native => self.facts.defaults(),
                Exposure::Clusterset => Vec::new(),
            },
            consumers: consumers.collect(),
            diagnoses,
            providers,
        }
    }

    /// Lists the diagnoses of a MultiClusterService as a whole.
    fn of_mcs(&self) -> Vec<Diagnosis> {
        let facts = self.facts;
        let key = facts.key;
        let others = self
            .backed_elsewhere()
            .map(|name| native::not_named(key, name));
        let of_karmada = match &facts.desired.karmada {
            Some(managed) => Some(karmada::managed(key, &managed.work)),
            None => self.left_by_karmada(),
        };
        let first = facts
            .ports_not_exposed()
            .into_iter()
            .chain(facts.not_observed());
        let all = first.chain(others).chain(self.ambiguous_hostname());
        let mcs = facts.index.multi_cluster_service(key);
        let names = mcs.into_iter().flat_map(|mcs| facts.names(mcs));
        all.chain(of_karmada)
            .chain(self.stale())
            .chain(names)
            .collect()
    }

    /// Lists the diagnoses of the exports as a whole.
    fn of_exports(&self) -> Vec<Diagnosis> {
        let (facts, key) = (self.facts, self.facts.key);
        let clusterset = &facts.desired.clusterset;
        let follows = |name: &&ClusterName| {
            let member = facts.index.member(*name);
            member.is_some_and(|member| member.exports_followed().is_some())
        };
        let others = self.backed_elsewhere().filter(follows);
        let others = others.map(|name| exports::does_not_export(key, name));
        let conflicts = conflict::conflicts(&clusterset.conflicts);
        let conflicts = conflicts.map(|(reason, text)| exports::disagreement(key, &reason, &text));
        let imported = clusterset.karmadas.as_ref();
        let imported = imported.map(|imported| karmada::imported(key, imported.sentence(key)));
        let absent = facts.not_importing_by(NotImporting::NamespaceMissing);
        let kept = facts
            .not_importing_by(NotImporting::NotConsumer)
            .into_iter();
        let kept = kept.map(|name| exports::not_consumer(key, name));
        let all = others.chain(conflicts).chain(imported);
        all.chain(exports::not_imported(key, &absent))
            .chain(kept)
            .collect()
    }

    /// Lists members that have endpoints of their own behind a Service of the name and are no
    /// providers.
    fn backed_elsewhere(&self) -> impl Iterator<Item = &'a ClusterName> {
        let facts = self.facts;
        let others = facts.index.members().filter(|(name, member)| {
            let mut sources = member.sources(facts.key);
            !self.providers.contains(*name) && sources.any(|(_, source)| !source.is_empty())
        });
        others.map(|(name, _)| name)
    }

    /// Reports hostnames of a headless service that lead to pods of several clusters.
    fn ambiguous_hostname(&self) -> Option<Diagnosis> {
        let (index, key) = (self.facts.index, self.facts.key);
        self.consumers.first()?;
        let providers = self.providers.iter();
        let used = providers.filter(|name| self.unused(name).is_none());
        let found = hostnames::ambiguous(index, key, used)?;
        Some(native::ambiguous_hostname(key, &found))
    }

    /// Reports members with slices of Karmada's controllers that nobody updates any more.
    fn left_by_karmada(&self) -> Option<Diagnosis> {
        let slices = self.karmadas.iter();
        let holders = slices.filter(|(_, slices)| !slices.is_empty());
        let holders: Vec<_> = holders.map(|(name, _)| name).collect();
        (!holders.is_empty()).then(|| karmada::left(self.facts.key, holders))
    }

    /// Reports endpoints that consumers offer although their provider no longer has them as ready.
    /// It covers Karmada's slices, and causeway's copies while Karmada manages the service.
    fn stale(&self) -> Vec<Diagnosis> {
        let copies = self.copies.iter().filter(|_| self.is_managed_by_karmada());
        let all = self.karmadas.iter().chain(copies);
        let all = all.flat_map(|(consumer, slices)| slices.iter().map(move |one| (consumer, one)));
        let stale = all.filter_map(|(consumer, slice)| {
            let provider = slice.provider.as_str();
            let gone = slice.stale(&self.facts.ready_in(provider)?);
            let stale = karmada::Stale {
                consumer,
                provider,
                slice: &slice.name,
                addresses: &gone,
            };
            (!gone.is_empty()).then(|| karmada::stale(self.facts.key, &stale))
        });
        stale.collect()
    }

    /// Whether Karmada's own controllers manage the MultiClusterService.
    pub(super) fn is_managed_by_karmada(&self) -> bool {
        self.exposure == Exposure::Native && self.facts.desired.karmada.is_some()
    }

    /// Returns the copies that the plan wants in a consumer; `None` if it wants none there, or
    /// leaves the consumer unchanged.
    pub(super) fn desired(&self, consumer: &ClusterName) -> Option<&'a DesiredCopies> {
        self.facts.desired.copies_in(self.exposure, consumer)
    }

    /// Whether the plan leaves all objects of consumers unchanged.
    pub(super) fn leaves_all(&self) -> bool {
        let desired = self.facts.desired;
        match self.exposure {
            Exposure::Native => matches!(desired.members, Members::Untouched),
            Exposure::Clusterset => desired.clusterset.problem.is_some(),
        }
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
