//! Exposure of a service by ServiceExports.

use std::fmt;

use causeway::api::labels;
use causeway::domain::protected::Protected;
use causeway::domain::{ClusterName, ServiceKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{quote, quoted, status};
use crate::messages::{Diagnosis, names};
use crate::plan::clusterset::Unresolved;
use crate::reasons::Reason;

/// Reports that the namespace may not be exported from.
pub(crate) fn protected(protected: &Protected) -> Diagnosis {
    Diagnosis::new(Reason::NamespaceProtected, protected.to_string()).fix(
        "start causeway-controller with --allow-namespace, if the namespace is meant to be exported from",
    )
}

/// Reports members that lack the namespace; `None` without any.
pub(crate) fn not_imported(key: &ServiceKey, members: &[&ClusterName]) -> Option<Diagnosis> {
    let namespace = &key.namespace;
    let first = members.first()?;
    let message = format!(
        "{} without namespace {namespace} do not import it",
        names(members.iter().copied())
    );
    let remedy = format!("in {first}: kubectl create namespace {namespace}");
    Some(Diagnosis::new(Reason::NotImported, message).fix(remedy))
}

/// Reports the conflicts of the exports, by the reason and the message of their condition.
pub(crate) fn disagreement(key: &ServiceKey, reason: &str, message: &str) -> Diagnosis {
    let message = format!(
        "the exports disagree, and the oldest decides: {}",
        quoted(reason, message)
    );
    Diagnosis::new(Reason::ExportsDisagree, message)
        .fix(format!("{} shows them beside each other", status(key)))
}

/// Reports a member that has endpoints behind a Service of the name and does not export it.
pub(crate) fn not_exported(key: &ServiceKey, member: &ClusterName) -> Diagnosis {
    let message = format!("{member} has endpoints of its own for {key} and does not export them");
    Diagnosis::new(Reason::NotNamed, message).fix(format!(
        "in {member}: make a ServiceExport {key} (multicluster.x-k8s.io)"
    ))
}

/// Reports that the hub does not permit a cluster to export from the namespace. `allowed` are the
/// namespaces that it permits.
pub(crate) fn forbidden<'a>(
    key: &'a ServiceKey,
    exporter: &ClusterName,
    allowed: impl Iterator<Item = &'a str>,
) -> Diagnosis {
    let namespace = &*key.namespace;
    let message = format!("the hub does not let {exporter} export from namespace {namespace}");
    let allowed: Vec<_> = allowed.chain([namespace]).collect();
    Diagnosis::new(Reason::ExportRefused, message).fix(format!(
        "kubectl annotate cluster {exporter} --overwrite {}={}",
        labels::EXPORT_NAMESPACES,
        allowed.join(",")
    ))
}

/// Reports an export beyond the quota of its member.
pub(crate) fn quota_exceeded(
    key: &ServiceKey,
    exporter: &ClusterName,
    why: &dyn fmt::Display,
) -> Diagnosis {
    let message = format!("the ServiceExport {key} of {exporter} is not served: {why}");
    Diagnosis::new(Reason::QuotaExceeded, message).fix(format!(
        "in {exporter}: delete ServiceExports that nobody needs; or start causeway-controller with a larger --max-member-exports or \
         --max-member-exported-mib"
    ))
}

/// Reports that a member does not serve ServiceImports, as the condition of its Cluster has it.
pub(crate) fn not_served(member: &ClusterName, served: Option<&Condition>) -> Diagnosis {
    let why = served.map_or_else(|| "it does not serve ServiceImport".to_owned(), quote);
    let message = format!("{member} takes no part in the clusterset: {why}");
    Diagnosis::new(Reason::DefinitionMissing, message).fix(format!(
        "kubectl mcs join {member} --member-kubeconfig FILE"
    ))
}

/// Reports that the exports do not name a member among their consumers.
pub(crate) fn not_consumer(key: &ServiceKey, member: &ClusterName) -> Diagnosis {
    let consumers = labels::CONSUMERS;
    let message = format!("the exports do not name {member} among their consumers ({consumers})");
    Diagnosis::new(Reason::NotConsumer, message).fix(format!(
        "in the cluster of the oldest export: kubectl -n {} annotate serviceexport {} --overwrite {consumers}=...",
        key.namespace, key.name
    ))
}

/// Reports that names of the clusterset lead elsewhere although the endpoints are in the consumer.
pub(crate) fn name_not_resolved(
    key: &ServiceKey,
    consumer: &ClusterName,
    found: &Unresolved,
) -> Diagnosis {
    let message = format!("{consumer} {}", found.why(key));
    let remedy = format!("in {consumer}: {}", found.remedy(key));
    Diagnosis::new(Reason::NameNotResolved, message).fix(remedy)
}
