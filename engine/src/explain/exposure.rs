//! ExposedService of a service to other clusters under one name, by whatever object.

use std::collections::BTreeMap;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey, describe_ports};

use super::observed::HeldSlice;
use super::{Diagnosis, Facts};
use crate::model::slice::Exposure;
use crate::plan::Members;
use crate::plan::copies::{CopyDecision, DesiredCopies, Skipped};
use crate::plan::disagreement;
use crate::plan::ignored::{self, Ignored};
use crate::problem::ServiceProblem;
use crate::reasons::Reason;

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

    /// Whether the plan leaves a copy unchanged.
    pub(super) fn keeps(&self, provider: &ClusterName, consumer: &ClusterName, name: &str) -> bool {
        match self.desired(consumer) {
            Some(copies) => {
                let (index, key) = (self.facts.index, self.facts.key);
                let decision = copies.decide(index, key, provider.as_str(), name);
                matches!(decision, CopyDecision::Hold(_))
            }
            None => self.leaves_all(),
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
        let member = self.facts.index.member(provider).into_iter();
        let sources = member.flat_map(|member| member.sources(self.facts.key));
        let wanted = || self.consumers.iter().filter_map(|name| self.desired(name));
        let unreadable = sources.filter_map(|(name, source)| {
            let passed = wanted().find_map(|copies| copies.skipped(provider, name));
            let odd = format!(
                "{} endpoints of EndpointSlice {name} of {provider} have no {} address",
                source.odd,
                source.address_type.as_str()
            );
            match passed {
                Some(why @ (Skipped::AddressType | Skipped::Unreadable)) => {
                    Some(skipped(provider, name, why))
                }
                Some(Skipped::Redundant(Some(disagreement))) => {
                    let message = disagreement::sentence((provider, name), disagreement);
                    let message = format!("{message}, and the latter decide");
                    let disagreement = Diagnosis::new(Reason::WritersDisagree, message);
                    Some(disagreement.fix(stop_writer(self, provider)))
                }
                _ if source.odd > 0 => Some(Diagnosis::new(Reason::SliceInvalid, odd)),
                _ => None,
            }
        });
        unreadable.collect()
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
                self.problem(name)
                    .map(|why| self.service_problem(name, why))
            })
            .or_else(|| self.service_missing(name))
            .or_else(|| self.unserved(name))
            .or_else(|| self.unresolved(name))
            .or_else(|| self.ignored(name))
    }

    /// Reports a preference that leads to no provider.
    fn unserved(&self, name: &ClusterName) -> Option<Diagnosis> {
        let tiers = self.desired(name)?.tiers.as_ref()?;
        tiers.lack_providers().then(|| {
            let message = format!("{name} has no endpoint: {}", tiers.why_unused());
            Diagnosis::new(Reason::NoPreferredProvider, message).fix(format!(
                "add any, or cluster/NAME, to the annotation {}",
                labels::PREFER
            ))
        })
    }

    /// Reports that clients do not reach the copies in a consumer.
    fn ignored(&self, name: &ClusterName) -> Option<Diagnosis> {
        let service = self.facts.index.member(name)?.service(&self.service)?;
        let ignored = ignored::ignored(self.exposure, name, service, self.desired(name)?)?;
        let reason = match ignored {
            Ignored::LocalPolicy => Reason::InternalTrafficPolicyLocal,
            Ignored::Families { .. } => Reason::AddressFamilyMismatch,
        };
        let sentence = ignored.sentence(&self.service, name.as_str());
        let remedy = ignored.remedy(&self.service, name.as_str());
        Some(Diagnosis::new(reason, sentence).fix(remedy))
    }

    /// Reports that names of the clusterset lead elsewhere although the endpoints are in the
    /// consumer.
    fn unresolved(&self, name: &ClusterName) -> Option<Diagnosis> {
        let import = self.facts.desired.clusterset.imports.of(name);
        let import = import.filter(|_| self.exposure == Exposure::Clusterset)?;
        let unresolved = import.unresolved.as_ref()?;
        let diagnosis = Diagnosis::new(
            Reason::NameNotResolved,
            format!("{name} {}", unresolved.why),
        );
        Some(diagnosis.fix(format!("in {name}: {}", unresolved.remedy)))
    }

    fn service_problem(&self, name: &ClusterName, problem: &ServiceProblem) -> Diagnosis {
        let (namespace, own) = (&self.service.namespace, &self.service.name);
        let reason = match problem {
            ServiceProblem::StandsFor { .. } | ServiceProblem::NameTaken { .. } => {
                Reason::ServiceConflict
            }
            ServiceProblem::ExternalName(_) | ServiceProblem::MissingPorts { .. } => {
                Reason::ForeignService
            }
        };
        let (message, remedy) = match problem {
            ServiceProblem::StandsFor { of, .. } => (
                format!("Service {namespace}/{own} of {name} stands for the imported service {of}"),
                format!(
                    "give this service another name, or, if nobody needs {of}, in its exporters: kubectl -n {namespace} delete \
                     serviceexport {of}"
                ),
            ),
            ServiceProblem::NameTaken {
                imported,
                delivered,
                ..
            } => (
                format!(
                    "Service {namespace}/{own} of {name} has the name under which {imported} is imported, and is another; it gets no \
                     endpoints of {imported}"
                ),
                match delivered {
                    true => format!("give MultiClusterService {namespace}/{own} another name"),
                    false => format!(
                        "give that Service another name, or, if nobody needs it: in {name}: kubectl -n {namespace} delete service {own}"
                    ),
                },
            ),
            ServiceProblem::ExternalName(_) => (
                format!(
                    "Service {namespace}/{own} of {name} is somebody else's and is an ExternalName"
                ),
                format!(
                    "in {name}: kubectl -n {namespace} delete service {own}, or give the alias another \
                     name; causeway then creates the Service"
                ),
            ),
            ServiceProblem::MissingPorts { missing, has, .. } => (
                format!(
                    "Service {namespace}/{own} of {name} is somebody else's and lacks {}; it has {}",
                    describe_ports(missing),
                    describe_ports(has)
                ),
                self.edit_ports(name),
            ),
        };
        Diagnosis::new(reason, message).fix(remedy)
    }

    fn edit_ports(&self, name: &ClusterName) -> String {
        let (namespace, own) = (&self.service.namespace, &self.service.name);
        format!(
            "in {name}: kubectl -n {namespace} edit service {own} to have the ports; or, if nobody needs it: \
             kubectl -n {namespace} delete service {own}"
        )
    }

    pub(super) fn no_endpoints(&self) -> Diagnosis {
        let (namespace, name) = (&self.facts.key.namespace, &self.facts.key.name);
        let providers: Vec<_> = self.providers.iter().map(ClusterName::as_str).collect();
        let providers = match providers.as_slice() {
            [] => "there is none".to_owned(),
            names => names.join(", "),
        };
        let message = format!("no provider has a ready endpoint ({providers}): nothing can answer");
        Diagnosis::new(Reason::NoEndpoints, message).fix(format!(
            "in a provider: kubectl -n {namespace} get endpointslices -l {}={name}; kubectl -n {namespace} get pods",
            labels::SERVICE_NAME
        ))
    }
}

/// Returns the remedy for two writers of the same endpoints.
pub(super) fn stop_writer(exposure: &ExposedService<'_>, provider: &ClusterName) -> String {
    let key = exposure.facts.key;
    format!(
        "in {provider}, stop one of the writers and delete what it wrote: kubectl -n {} get endpointslices -l {}={} \
         --show-managed-fields -o yaml names them",
        key.namespace,
        labels::SERVICE_NAME,
        key.name
    )
}

/// Returns the reason why nothing of a slice is copied.
pub(super) fn skipped(provider: &ClusterName, slice: &str, why: &Skipped) -> Diagnosis {
    let reason = match why {
        Skipped::AddressType => Reason::AddressTypeNotSupported,
        Skipped::Unreadable => Reason::SliceInvalid,
        Skipped::TooManyEndpoints => Reason::TooManyEndpoints,
        Skipped::TooManySlices => Reason::TooManySlices,
        Skipped::Behind | Skipped::NoPort(_) => Reason::PortNotInSlice,
        Skipped::Redundant(_) => Reason::Progressing,
    };
    let message = format!("EndpointSlice {slice} of {provider} is not copied: {why}");
    Diagnosis::new(reason, message)
}
