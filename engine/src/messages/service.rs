//! Sentences about the Services of members, about clients that they do not lead to the copies, and
//! about preferences of consumers.

use std::collections::BTreeSet;

use causeway::api::labels;
use causeway::domain::{ClusterName, ServiceKey, describe_ports};

use super::{Diagnosis, edit_service, extend_preference, in_cluster, join, names, status};
use crate::observed::member::NamespaceState;
use crate::observed::service::ServiceView;
use crate::plan::hostnames::Ambiguous;
use crate::plan::ignored::Ignored;
use crate::plan::tiers::Tiers;
use crate::problem::ServiceProblem;
use crate::reasons::Reason;

impl Ignored {
    /// Returns a sentence that describes the Service in these clusters.
    pub(crate) fn sentence(&self, service: &ServiceKey, clusters: &str) -> String {
        match self {
            Self::LocalPolicy => format!(
                "in {clusters} Service {service} has internalTrafficPolicy Local, so its clients reach no other cluster's pods"
            ),
            Self::Families {
                has,
                offered,
                providers,
            } => {
                let offered: Vec<_> = offered.iter().copied().collect();
                format!(
                    "in {clusters} Service {service} has {} alone, and the endpoints of {} have {}, so its clients do not reach them",
                    has.join(" and "),
                    names(providers),
                    offered.join(" and ")
                )
            }
        }
    }

    /// Returns the remedy for a person.
    pub(crate) fn remedy(&self, service: &ServiceKey, clusters: &str) -> String {
        match self {
            Self::LocalPolicy => {
                let patch = r#"--type=merge -p '{"spec":{"internalTrafficPolicy":"Cluster"}}'"#;
                let patch = format!("patch service {} {patch}", service.name);
                in_cluster(clusters, service, patch)
            }
            Self::Families { .. } => {
                "set spec.ipFamilyPolicy: PreferDualStack on these Services, where the clusters have both families".to_owned()
            }
        }
    }
}

impl Ambiguous {
    /// Returns a sentence that names one hostname and two of its clusters.
    pub(crate) fn sentence(&self, key: &ServiceKey) -> String {
        let [first, other] = &self.clusters;
        let more = match self.count {
            1 => String::new(),
            count => format!(" (one of {count} such hostnames)"),
        };
        format!(
            "{}.{}.{}.svc leads to pods of {first} and of {other}{more}",
            self.hostname, key.name, key.namespace
        )
    }

    /// Returns a remedy: a name that leads to the pod of one cluster, and its precondition.
    pub(crate) fn remedy(&self, key: &ServiceKey) -> String {
        format!(
            "use {}.{}.{}.{}.svc.clusterset.local, with a ServiceExport {key} in each of these clusters",
            self.hostname, self.clusters[0], key.name, key.namespace
        )
    }
}

/// Reports that no provider has a ready endpoint.
pub(crate) fn no_endpoints(key: &ServiceKey, providers: &BTreeSet<ClusterName>) -> Diagnosis {
    let (namespace, name) = (&key.namespace, &key.name);
    let providers = match providers.is_empty() {
        true => "there is none".to_owned(),
        false => names(providers),
    };
    let message = format!("no provider has a ready endpoint ({providers}): nothing can answer");
    Diagnosis::new(Reason::NoEndpoints, message).fix(format!(
        "in a provider: kubectl -n {namespace} get endpointslices -l {}={name}; kubectl -n {namespace} get pods",
        labels::SERVICE_NAME
    ))
}

/// Reports that the preference of a consumer leads to no provider.
pub(crate) fn no_preferred_provider(consumer: &ClusterName, tiers: &Tiers) -> Diagnosis {
    let message = format!("{consumer} has no endpoint: {}", tiers.why_unused());
    Diagnosis::new(Reason::NoPreferredProvider, message).fix(extend_preference())
}

/// Reports that clients of a consumer do not reach the copies behind its Service.
pub(crate) fn ignored(
    service: &ServiceKey,
    consumer: &ClusterName,
    ignored: &Ignored,
) -> Diagnosis {
    let reason = match ignored {
        Ignored::LocalPolicy => Reason::InternalTrafficPolicyLocal,
        Ignored::Families { .. } => Reason::AddressFamilyMismatch,
    };
    let sentence = ignored.sentence(service, consumer.as_str());
    Diagnosis::new(reason, sentence).fix(ignored.remedy(service, consumer.as_str()))
}

/// Reports that the Service of a consumer cannot serve as requested.
pub(crate) fn problem(
    service: &ServiceKey,
    consumer: &ClusterName,
    problem: &ServiceProblem,
) -> Diagnosis {
    let (namespace, own) = (&service.namespace, &service.name);
    let delete = || in_cluster(consumer, service, format_args!("delete service {own}"));
    let (reason, message, remedy) = match problem {
        ServiceProblem::StandsFor { of, .. } => (
            Reason::ServiceConflict,
            format!("Service {service} of {consumer} stands for the imported service {of}"),
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
            Reason::ServiceConflict,
            format!(
                "Service {service} of {consumer} has the name under which {imported} is imported, and is another; it gets no \
                 endpoints of {imported}"
            ),
            match delivered {
                true => format!("give MultiClusterService {service} another name"),
                false => format!(
                    "give that Service another name, or, if nobody needs it: {}",
                    delete()
                ),
            },
        ),
        ServiceProblem::ExternalName(_) => (
            Reason::ForeignService,
            format!("Service {service} of {consumer} is somebody else's and is an ExternalName"),
            format!(
                "{}, or give the alias another name; causeway then creates the Service",
                delete()
            ),
        ),
        ServiceProblem::MissingPorts { missing, has, .. } => (
            Reason::ForeignService,
            format!(
                "Service {service} of {consumer} is somebody else's and lacks {}; it has {}",
                describe_ports(missing),
                describe_ports(has)
            ),
            format!(
                "{} to have the ports; or, if nobody needs it: kubectl -n {namespace} delete service {own}",
                edit_service(consumer, service)
            ),
        ),
    };
    Diagnosis::new(reason, message).fix(remedy)
}

/// Reports that a consumer has no such Service, with the reason if it is known.
pub(crate) fn missing(
    key: &ServiceKey,
    service: &ServiceKey,
    consumer: &ClusterName,
    why: Option<&str>,
) -> Diagnosis {
    let why = why.map_or_else(|| " yet".to_owned(), |why| format!(": {why}"));
    let message = format!("{consumer} has no Service {service}{why}");
    Diagnosis::new(Reason::ServiceMissing, message).fix(status(key))
}

/// Reports that the Service of a provider is missing, or is an ExternalName; `None` otherwise.
pub(crate) fn of_provider(
    key: &ServiceKey,
    provider: &ClusterName,
    service: Option<&ServiceView>,
) -> Option<Diagnosis> {
    match service {
        None => Some(no_provider_service(key, provider)),
        Some(service) if service.is_external_name() => Some(external_name(key, provider)),
        Some(_) => None,
    }
}

/// Reports that a provider has no such Service.
pub(super) fn no_provider_service(key: &ServiceKey, provider: &ClusterName) -> Diagnosis {
    let message = format!("{provider} has no Service {key}");
    let create = format!(
        "create service clusterip {} --tcp=PORT:TARGETPORT",
        key.name
    );
    Diagnosis::new(Reason::NoProviderService, message).fix(in_cluster(provider, key, create))
}

/// Reports that the Service of a provider is an ExternalName.
pub(super) fn external_name(key: &ServiceKey, provider: &ClusterName) -> Diagnosis {
    let message = format!("Service {key} of {provider} is an ExternalName, which has no endpoints");
    let delete = format!("delete service {}", key.name);
    Diagnosis::new(Reason::ExternalName, message).fix(in_cluster(provider, key, delete))
}

/// Reports that the namespace of a member is missing or terminating; `None` while it is active.
pub(crate) fn namespace(
    namespace: &str,
    member: &ClusterName,
    state: NamespaceState,
) -> Option<Diagnosis> {
    match state {
        NamespaceState::Active => None,
        NamespaceState::Missing => {
            let message = format!("{member} has no namespace {namespace}");
            let missing = Diagnosis::new(Reason::NamespaceMissing, message);
            Some(missing.fix(format!(
                "in {member}: kubectl create namespace {namespace}; or let causeway make it: \
                 {} --allow-namespace-creation",
                join(member)
            )))
        }
        NamespaceState::Terminating => {
            let message = format!("namespace {namespace} of {member} is terminating");
            let terminating = Diagnosis::new(Reason::NamespaceTerminating, message);
            Some(terminating.fix(format!(
                "in {member}: kubectl describe namespace {namespace} says what it waits for"
            )))
        }
    }
}
