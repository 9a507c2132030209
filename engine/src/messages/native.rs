//! Sentences about a MultiClusterService: its conditions, and its exposure.

use std::fmt;

use causeway::api::karmada;
use causeway::domain::{ClusterName, ServiceKey, ServicePort, describe_ports};

use super::remarks::not_used;
use super::{Diagnosis, Text, adopt, counted, names, status};
use crate::model::Failure;
use crate::plan::hostnames::Ambiguous;
use crate::plan::remark::NotUsed;
use crate::problem::Problem;
use crate::reasons::Reason;

/// Reason and message of ServiceApplied while it holds.
pub(crate) const SERVICE_APPLIED: Text<'static> = (
    Reason::ServiceAppliedSucceed.as_str(),
    "Service is propagated to target clusters.",
);
/// Reason and message of EndpointSliceDispatched while it holds.
pub(crate) const DISPATCHED: Text<'static> = (
    Reason::EndpointSliceDispatchedSucceed.as_str(),
    "EndpointSlice are dispatched successfully",
);
/// Reason and message of EndpointSliceApplied while it holds.
pub(crate) const APPLIED: Text<'static> = (
    Reason::EndpointSliceAppliedSuccess.as_str(),
    "EndpointSlices are propagated to target clusters.",
);
/// Message of ServiceApplied where no member takes part.
pub(crate) const NO_TARGETS: &str = "no cluster takes part; join some with kubectl mcs join";

/// Reports the number of consumers that have the service, and of providers that back it.
pub(crate) fn exposed(key: &ServiceKey, consumers: usize, used: usize, ready: bool) -> String {
    let verb = match ready {
        true => "can be reached from",
        false => "is exposed in",
    };
    let (consumers, used) = (counted(consumers), counted(used));
    format!("{key} {verb} {consumers}, backed by {used}")
}

/// Reports the number of providers whose load balancers are in the status.
pub(crate) fn load_balancers(used: usize) -> String {
    format!("the load balancers of {} are gathered", counted(used))
}

/// Reports that no provider is used.
pub(crate) fn no_providers(key: &ServiceKey, left_out: &[(&ClusterName, NotUsed<'_>)]) -> String {
    let why = match left_out {
        [] => "spec.providerClusters names no joined cluster".to_owned(),
        some => not_used(some),
    };
    format!("no cluster backs {key}: {why}")
}

/// Reports a MultiClusterService whose finalizer cannot be added.
pub(crate) fn finalizer_refused(key: &ServiceKey, failure: &Failure) -> String {
    format!(
        "MultiClusterService {key} cannot get causeway's finalizer ({failure}), so its Service and \
         endpoints are not written to members; let the controller patch it"
    )
}

/// Reports a MultiClusterService that cannot be read.
pub(crate) fn invalid(key: &ServiceKey, errors: &dyn fmt::Display) -> Diagnosis {
    let message = format!("MultiClusterService {key} cannot be read: {errors}");
    Diagnosis::new(Reason::Invalid, message).fix(edit(key))
}

/// Reports that the caller could not read the Namespace of a MultiClusterService on the hub.
pub(crate) fn namespace_unread(key: &ServiceKey, why: &dyn fmt::Display) -> Diagnosis {
    let namespace = &key.namespace;
    let message = format!(
        "Namespace {namespace} of the hub could not be read, and may have defaults for annotations of {key}: {why}"
    );
    Diagnosis::new(Reason::NamespaceNotRead, message).fix(format!(
        "look with the right to get Namespace {namespace} of the hub"
    ))
}

/// Reports a MultiClusterService of type LoadBalancer.
pub(crate) fn load_balancer(key: &ServiceKey) -> Diagnosis {
    let (namespace, name) = (&key.namespace, &key.name);
    let message = format!(
        "MultiClusterService {key} is of type LoadBalancer: its status gathers the addresses of the providers' load \
         balancers, and no endpoint goes to another cluster"
    );
    Diagnosis::new(Reason::LoadBalancer, message).fix(format!(
        "kubectl -n {namespace} get mcs {name} -o jsonpath='{{.status.loadBalancer}}'; for endpoints name entry clusters in \
         spec.consumerClusters, or delete it and create it again with types: [CrossCluster]"
    ))
}

/// Reports the problem by which no endpoint reaches another cluster; `None` where some may
/// (`is_partial`).
pub(crate) fn problem(key: &ServiceKey, problem: &Problem, is_partial: bool) -> Option<Diagnosis> {
    let (namespace, name) = (&key.namespace, &key.name);
    let (reason, remedy) = match problem {
        Problem::ServiceNotFound { .. } => (
            Reason::NoHubService,
            format!("kubectl -n {namespace} create service clusterip {name} --tcp=PORT:TARGETPORT"),
        ),
        Problem::ExternalName => (
            Reason::ExternalName,
            format!("kubectl -n {namespace} edit service {name}: give it a selector and another type"),
        ),
        Problem::PortNotFound { .. } if is_partial => return None,
        Problem::PortNotFound { .. } => (Reason::PortNotFound, edit(key)),
        Problem::Protected(_) => (
            Reason::NamespaceProtected,
            "start causeway-webhook and causeway-controller with --allow-namespace, if the namespace is meant to be exposed"
                .to_owned(),
        ),
        Problem::Invalid(_) => (Reason::Invalid, edit(key)),
    };
    let message = super::problem::problem(key, problem);
    Some(Diagnosis::new(reason, message).fix(remedy))
}

/// Reports a MultiClusterService that is being deleted. `holders` are the members that still hold
/// objects of it, `finalizers` are those of other programs.
pub(crate) fn deleting<'a>(
    key: &ServiceKey,
    holders: Vec<&ClusterName>,
    finalizers: impl Iterator<Item = &'a str>,
) -> Diagnosis {
    let (karmadas, others): (Vec<_>, Vec<_>) =
        finalizers.partition(|one| karmada::FINALIZERS.contains(one));
    let parts = [
        (!holders.is_empty()).then(|| format!("{} to be cleaned", names(holders))),
        (!karmadas.is_empty()).then(|| format!("Karmada's finalizer: {}", karmadas.join(", "))),
        (!others.is_empty()).then(|| format!("somebody else's finalizers: {}", others.join(", "))),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let text = match parts.as_slice() {
        [] => String::new(),
        parts => format!("; it waits for {}", parts.join(", and for ")),
    };
    let message = format!("MultiClusterService {key} is being deleted{text}");
    let deleting = Diagnosis::new(Reason::Deleting, message);
    if karmadas.is_empty() {
        return deleting.fix(format!(
            "wait a moment; if it is to be kept, once it is gone: kubectl -n {} apply -f mcs.yaml",
            key.namespace
        ));
    }
    let (off, on) = (karmada::GATE_OFF, karmada::GATE_ON);
    deleting.fix(format!(
        "{}, with karmada-controller-manager started with {off}: then nobody but a person takes that finalizer off; with {on} \
         karmada-controller-manager does, and its log says why it does not",
        adopt(key)
    ))
}

/// Reports ports of the hub's Service that the MultiClusterService does not expose; `None` without
/// any.
pub(crate) fn ports_not_exposed(key: &ServiceKey, hidden: &[ServicePort]) -> Option<Diagnosis> {
    let first = hidden.first()?;
    let message = format!(
        "spec.ports of the MultiClusterService does not expose {} of Service {key}",
        describe_ports(hidden)
    );
    let name = match &*first.name {
        "" => String::new(),
        name => format!("\"name\":\"{name}\","),
    };
    let entry = format!("{{{name}\"port\":{}}}", first.id.number);
    Some(Diagnosis::new(Reason::PortNotExposed, message).fix(add(key, "ports", &entry)))
}

/// Reports that the controller has not processed the object, or its last change: `is_new` without
/// any report.
pub(crate) fn not_observed(key: &ServiceKey, is_new: bool) -> Diagnosis {
    let behind = match is_new {
        true => "has not processed it yet",
        false => "has not processed its last change yet",
    };
    let message = format!("MultiClusterService {key}: the controller {behind}");
    Diagnosis::new(Reason::NotObserved, message).fix(format!("{} --wait", status(key)))
}

/// Reports a member that has endpoints behind a Service of the name and is no provider.
pub(crate) fn not_named(key: &ServiceKey, member: &ClusterName) -> Diagnosis {
    let message = format!(
        "{member} has endpoints of its own for {key}, and spec.providerClusters does not name it"
    );
    let entry = format!("{{\"name\":\"{member}\"}}");
    Diagnosis::new(Reason::NotNamed, message).fix(add(key, "providerClusters", &entry))
}

/// Reports a hostname of a headless service that leads to pods of several clusters.
pub(crate) fn ambiguous_hostname(key: &ServiceKey, ambiguous: &Ambiguous) -> Diagnosis {
    Diagnosis::new(Reason::AmbiguousHostname, ambiguous.sentence(key)).fix(ambiguous.remedy(key))
}

/// Returns the command that adds an entry to a list in the spec.
fn add(key: &ServiceKey, list: &str, entry: &str) -> String {
    format!(
        "kubectl -n {} patch mcs {} --type=json -p \
         '[{{\"op\":\"add\",\"path\":\"/spec/{list}/-\",\"value\":{entry}}}]'",
        key.namespace, key.name
    )
}

fn edit(key: &ServiceKey) -> String {
    format!("kubectl -n {} edit mcs {}", key.namespace, key.name)
}
