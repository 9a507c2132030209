//! Sentences about ServiceExports and ServiceImports: their conditions, and their exposure.

use std::fmt;

use causeway::api::{condition, labels};
use causeway::domain::protected::Protected;
use causeway::domain::{ClusterName, FieldError, ServiceKey, quoted};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Diagnosis, first, in_cluster, join, names, quote, status};
use crate::observed::clusterset::EXPORTED_MAX;
use crate::observed::member::OtherController;
use crate::observed::quota::BeyondQuota;
use crate::plan::clusterset::exports::Validity;
use crate::plan::clusterset::import::Unready;
use crate::plan::clusterset::merge::{ExportObstacle, NotExported};
use crate::plan::clusterset::precedence::{SEAL, SealedTime};
use crate::plan::clusterset::{ImportedByKarmada, Unresolved};
use crate::reasons::Reason;

/// Message of Ready of an export that every member imports which can.
pub(crate) const EXPORTED: &str = "the service is exported to the clusterset";
/// Message of Ready of an export whose imports are being written.
pub(crate) const EXPORTING: &str = "the service is being exported";
/// Message of Ready of an import.
pub(crate) const IMPORTED: &str = "the service is imported";

/// Maximum number of labels and annotations that a message names.
const NAMED_AT_MOST: usize = 3;

/// Returns the message of Valid. `left_out` are the labels and annotations that cannot be exported.
pub(crate) fn can_be_exported(key: &ServiceKey, left_out: &[NotExported]) -> String {
    let not_exported = match left_out {
        [] => String::new(),
        some => format!("; not exported: {}", first(some, NAMED_AT_MOST)),
    };
    format!("Service {key} can be exported{not_exported}")
}

/// Writes `label team/x (not a valid name and value)`.
impl fmt::Display for NotExported {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_label { "label" } else { "annotation" };
        write!(out, "{kind} {} (", quoted(&self.name))?;
        match self.why {
            ExportObstacle::Reserved => out.write_str("reserved)"),
            ExportObstacle::Invalid => out.write_str("not a valid name and value)"),
            ExportObstacle::TooLarge => write!(out, "beyond {} KiB in all)", EXPORTED_MAX / 1024),
        }
    }
}

impl SealedTime {
    /// Returns the condition of an export that counts from this time for the hub.
    pub(crate) fn condition(&self, hub: &str) -> Condition {
        Condition {
            type_: format!("{hub}{}", condition::PRECEDENCE_SUFFIX),
            status: condition::TRUE.to_owned(),
            reason: Reason::FirstSeen.into(),
            message: format!(
                "where exports disagree, the one with the earliest lastTransitionTime of this condition decides, then the oldest{SEAL}{}",
                self.seal
            ),
            observed_generation: None,
            last_transition_time: Time(self.since),
        }
    }
}

impl Unready {
    /// Returns the message of Ready of an import without addresses.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Families(families) => format!(
                "the service has {}, which this cluster has not",
                families.join(" and ")
            ),
            Self::Conflict(why) => format!("this cluster {why}"),
        }
    }
}

impl ImportedByKarmada {
    /// Returns the message of Ready of an export, with the remedy.
    pub(crate) fn sentence(&self, key: &ServiceKey) -> String {
        let left = match self.left.as_slice() {
            [] => String::new(),
            left => format!("; causeway leaves it to them in {}", names(left)),
        };
        let own = match self.own.as_slice() {
            [] => String::new(),
            own => format!("; causeway, which was first, goes on in {}", names(own)),
        };
        format!(
            "Karmada's own controllers import this service (ServiceImport {key} on the hub){left}{own}. For causeway to import it \
             everywhere: kubectl -n {} delete serviceimport {} on the hub; Karmada then takes out of the members what it put there, and \
             clients that it serves are without the service for a moment",
            key.namespace, key.name
        )
    }
}

impl Unresolved {
    /// Returns a statement about the member, which follows its name.
    pub(crate) fn why(&self, key: &ServiceKey) -> String {
        let has = match self.has.as_slice() {
            [] => "no addresses".to_owned(),
            has => names(has),
        };
        format!(
            "has a ServiceImport {key} of its own with {has} in spec.ips, so {}.{}.svc.clusterset.local does not lead to Service {}, \
             which has {}",
            key.name,
            key.namespace,
            key.derived(),
            names(&self.wants)
        )
    }

    /// Returns the command to run in the member.
    pub(crate) fn remedy(&self, key: &ServiceKey) -> String {
        format!(
            "kubectl -n {} patch serviceimport {} --type=merge -p '{{\"spec\":{{\"ips\":[\"{}\"]}}}}'; or delete that ServiceImport, and \
             causeway makes one",
            key.namespace,
            key.name,
            self.wants.join("\",\"")
        )
    }
}

/// Returns the message of Valid that is False for that reason.
pub(crate) fn invalid(reason: Reason, exporter: &ClusterName, key: &ServiceKey) -> String {
    match reason {
        Reason::NoService => {
            format!("{exporter} has no Service {key}; make it, or delete the ServiceExport")
        }
        _ => format!(
            "Service {key} is an ExternalName and has no endpoints; export a Service with a selector"
        ),
    }
}

/// Returns the message of Valid that is False because of a selector.
pub(crate) fn invalid_selectors(error: &FieldError) -> String {
    format!("spec.clusterSelectors is not followed, and the service is exported without: {error}")
}

/// Returns the message of Valid that is False because a headless Service has selectors.
pub(crate) fn selectors_of_headless(key: &ServiceKey) -> String {
    format!(
        "Service {key} is headless, so no proxy chooses its endpoints: remove spec.clusterSelectors, \
         which is not followed; the service is exported"
    )
}

/// Reports that another controller manages the exports and imports of a cluster, or of a namespace
/// in it.
pub(crate) fn managed_by_other(cluster: &ClusterName, other: &OtherController) -> Diagnosis {
    let (program, kind, object) = (&other.program, other.kind, &other.object);
    let scope = match other.is_everywhere {
        true => "there".to_owned(),
        false => format!("in namespace {}", object.namespace),
    };
    let message = format!(
        "{program} manages ServiceExports and ServiceImports in {cluster} (it writes the status of \
         {kind} {object}), and causeway leaves to it what causeway does not serve {scope} yet"
    );
    let remedy = format!(
        "stop one of the two controllers for {cluster}, or delete {kind} {object} if {program} \
         does not run there: docs/clusterset.md"
    );
    Diagnosis::new(Reason::ManagedByOther, message).fix(remedy)
}

/// Returns the message of Conflict that is False.
pub(crate) fn no_conflict(validity: Validity) -> &'static str {
    match validity {
        Validity::Leaving => "the service is not exported any more",
        _ => "all exports of the service agree",
    }
}

/// Returns the message of Ready of an export that no member imports.
pub(crate) fn not_exported(key: &ServiceKey, validity: Validity) -> String {
    match validity {
        Validity::Valid => EXPORTING.to_owned(),
        Validity::Leaving => {
            "this cluster is taken out of the clusterset, and with it what it exports".to_owned()
        }
        Validity::NoService => format!("waits for Service {key}"),
        Validity::Forbidden => format!(
            "the hub does not let this cluster export from namespace {} (annotation {} of its Cluster)",
            key.namespace,
            labels::EXPORT_NAMESPACES
        ),
        Validity::Withdrawn => format!(
            "nothing that this cluster provides is used (annotation {} of its Cluster)",
            labels::WITHDRAW
        ),
        Validity::BeyondQuota(beyond) => format!(
            "{beyond}; the oldest are served: delete ServiceExports that are not needed, or raise the flag"
        ),
        Validity::InvalidServiceType => format!("Service {key} cannot be exported"),
        Validity::ManagedByOther => "another controller manages it".to_owned(),
    }
}

/// Writes the limit with its flag.
impl fmt::Display for BeyondQuota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exports(most) => write!(
                out,
                "the cluster exports more than {most} services (--max-member-exports of causeway-controller)"
            ),
            Self::Metadata(most) => write!(
                out,
                "what imports copy of the cluster's exports has more than {} MiB (--max-member-exported-mib \
                 of causeway-controller)",
                most / (1024 * 1024)
            ),
        }
    }
}

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
        names(members)
    );
    let remedy = format!("in {first}: kubectl create namespace {namespace}");
    Some(Diagnosis::new(Reason::NotImported, message).fix(remedy))
}

/// Reports the conflicts of the exports, by the reason and the message of their condition.
pub(crate) fn disagreement(key: &ServiceKey, reason: &str, message: &str) -> Diagnosis {
    let message = format!(
        "the exports disagree, and the oldest decides: {}",
        super::quoted(reason, message)
    );
    Diagnosis::new(Reason::ExportsDisagree, message)
        .fix(format!("{} shows them beside each other", status(key)))
}

/// Reports a member that has endpoints behind a Service of the name and does not export it.
pub(crate) fn does_not_export(key: &ServiceKey, member: &ClusterName) -> Diagnosis {
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
        "{}; or apply manifests/crds/member/ in {member}",
        join(member)
    ))
}

/// Reports that the exports do not name a member among their consumers.
pub(crate) fn not_consumer(key: &ServiceKey, member: &ClusterName) -> Diagnosis {
    let consumers = labels::CONSUMERS;
    let message = format!("the exports do not name {member} among their consumers ({consumers})");
    let annotate = format!(
        "annotate serviceexport {} --overwrite {consumers}=...",
        key.name
    );
    let remedy = in_cluster("the cluster of the oldest export", key, annotate);
    Diagnosis::new(Reason::NotConsumer, message).fix(remedy)
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
