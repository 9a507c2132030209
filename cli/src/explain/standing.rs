//! Why a member as a whole, the hub, or the controller keeps endpoints from where they should be.

use causeway::api::condition::{self, reason};
use causeway::api::{Cluster, SyncMode, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::report::{Finding, Reason};
use super::scene::Scene;
use crate::kubernetes_version::KubernetesVersion;
use crate::{drain, lease};

/// Why a member cannot take part, be it as provider or as consumer.
pub(super) fn member(scene: &Scene, name: &str) -> Option<Finding> {
    let Some(cluster) = scene.cluster(name) else {
        let message = format!("{name} is not joined: no Cluster of the hub bears the name");
        return Some(
            Finding::new(Reason::NotJoined, message)
                .mend(format!("kubectl mcs join {name} --member-kubeconfig FILE")),
        );
    };
    leaving(name, cluster)
        .or_else(|| left_out(name, cluster))
        .or_else(|| unready(name, cluster))
        .or_else(|| unread(scene, name))
}

/// Why nothing is used of what a member provides, beside what [`member`] tells.
pub(super) fn drained(scene: &Scene, name: &str) -> Option<Finding> {
    let cluster = scene.cluster(name).filter(|one| drain::is_drained(one))?;
    let message = format!(
        "{} is drained: a person said that nothing it provides is to be used",
        cluster.name_any()
    );
    Some(Finding::new(Reason::Drained, message).mend(format!("kubectl mcs drain {name} --undo")))
}

fn leaving(name: &str, cluster: &Cluster) -> Option<Finding> {
    let since = cluster.metadata.deletion_timestamp.as_ref()?.0;
    let message = format!(
        "{name} is being taken out: its Cluster is deleted since {since:.0}, and it is being cleaned"
    );
    Some(Finding::new(Reason::Leaving, message).mend(format!(
        "if that is not meant, once it is gone: kubectl mcs join {name} --member-kubeconfig FILE"
    )))
}

fn left_out(name: &str, cluster: &Cluster) -> Option<Finding> {
    if cluster.spec.sync_mode == Some(SyncMode::Pull) {
        let message = format!("{name} is in Pull mode, which causeway leaves out");
        return Some(Finding::new(Reason::LeftOut, message).mend(format!(
            "join {name} in Push mode: karmadactl join, or kubectl mcs join"
        )));
    }
    let version = cluster.status.as_ref()?.kubernetes_version.as_deref()?;
    (KubernetesVersion::read(version)? < KubernetesVersion::OLDEST_MEMBER).then(|| {
        let message = format!("{name} runs Kubernetes {version}; causeway needs 1.21 or later");
        Finding::new(Reason::LeftOut, message)
    })
}

fn unready(name: &str, cluster: &Cluster) -> Option<Finding> {
    let Some(ready) = ready(cluster) else {
        let message = format!("the controller has not taken up {name} yet");
        return Some(Finding::new(Reason::MemberPending, message).mend(lease::LOOK));
    };
    let since = ready.last_transition_time.0;
    let told = format!("{} ({}) since {since:.0}", ready.reason, ready.message);
    // By its last connection it takes part as before.
    let takes_part = ready.reason == reason::INVALID_CONFIGURATION;
    if ready.status == condition::TRUE || takes_part {
        return None;
    }
    Some(match ready.reason.as_str() {
        reason::UNREACHABLE => {
            let message = format!(
                "{name} is unreachable for the controller since {since:.0} ({}); what it last gave, and what it has, is kept",
                ready.message
            );
            Finding::new(Reason::MemberUnreachable, message).mend(format!(
                "restore the API server of {name}, or, if it has another address: kubectl mcs join {name} \
                 --member-kubeconfig FILE --api-endpoint URL; to give up what it provides: kubectl mcs drain {name}"
            ))
        }
        reason::REFUSED => {
            let message = format!("{name} cannot be used: {told}");
            Finding::new(Reason::MemberRefused, message)
                .mend(format!("kubectl mcs join {name} --member-kubeconfig FILE"))
        }
        _ => Finding::new(
            Reason::MemberPending,
            format!("{name} is not synced: {told}"),
        )
        .mend("kubectl mcs status --wait"),
    })
}

fn unread(scene: &Scene, name: &str) -> Option<Finding> {
    let why = scene.members.get(name)?.as_ref().err()?;
    let message = format!("{name} could not be read from here: {why}");
    let finding = Finding::new(Reason::MemberNotRead, message);
    Some(finding.mend("look from where its API server can be reached, with the right to read its Secret on the hub"))
}

/// What is told of a member that takes part.
pub(super) fn not_believed(scene: &Scene, name: &str) -> Option<Finding> {
    let conditions = &scene.cluster(name)?.status.as_ref()?.conditions;
    let believed = condition::find(conditions, condition::LISTS_BELIEVED)?;
    (believed.status == condition::FALSE).then(|| {
        let message = format!(
            "{name}: {}; endpoints that are gone may still be offered",
            believed.message
        );
        let finding = Finding::new(Reason::ListNotBelieved, message);
        finding.mend(format!(
            "wait half a minute, or, if it is meant: kubectl mcs release {name}; if not, look at the API server of {name} (a restored etcd?)"
        ))
    })
}

/// Why a member cannot hold what is delivered to it: its namespace.
pub(super) fn namespace(scene: &Scene, name: &str) -> Option<Finding> {
    let held = scene.held(name)?;
    let wanted = &scene.key.namespace;
    let Some(namespace) = &held.namespace else {
        let message = format!("{name} has no namespace {wanted}");
        return Some(
            Finding::new(Reason::NamespaceMissing, message).mend(format!(
                "in {name}: kubectl create namespace {wanted}; or let causeway make it: \
                 kubectl mcs join {name} --member-kubeconfig FILE --allow-namespace-creation"
            )),
        );
    };
    namespace.metadata.deletion_timestamp.as_ref().map(|since| {
        let message = format!(
            "namespace {wanted} of {name} is terminating since {:.0}",
            since.0
        );
        Finding::new(Reason::NamespaceTerminating, message).mend(format!(
            "in {name}: kubectl describe namespace {wanted} says what it waits for"
        ))
    })
}

/// Whether the controller seems to run.
pub(super) fn controller(scene: &Scene) -> Option<Finding> {
    let trouble = scene.controller.trouble(scene.now)?;
    Some(Finding::new(Reason::ControllerNotRunning, trouble).mend(lease::LOOK))
}

fn ready(cluster: &Cluster) -> Option<&Condition> {
    condition::find(&cluster.status.as_ref()?.conditions, condition::READY)
}

/// Why a member takes no part in the clusterset.
pub(super) fn clusterset(scene: &Scene, name: &str) -> Option<Finding> {
    let conditions = &scene.cluster(name)?.status.as_ref()?.conditions;
    let served = condition::find(conditions, condition::CLUSTERSET_API)?;
    (served.status != condition::TRUE).then(|| {
        let message = format!(
            "{name} takes no part in the clusterset: {} ({})",
            served.reason, served.message
        );
        Finding::new(Reason::DefinitionMissing, message)
            .mend(format!("kubectl mcs join {name} --member-kubeconfig FILE"))
    })
}

fn is_karmadas(ready: &Condition) -> bool {
    ready.reason == reason::MANAGED_BY_KARMADA
}

/// What an export says of Karmada's own controllers, where these import the service too, and what to type.
pub(super) fn karmadas_import(scene: &Scene) -> Option<Finding> {
    let held = scene.members.values().filter_map(|held| held.as_ref().ok());
    let mut exports = held.flat_map(|held| &held.exports);
    let ready = exports.find_map(|export| {
        let conditions = &export.status.as_ref()?.conditions;
        condition::find(conditions, condition::READY).filter(|one| is_karmadas(one))
    })?;
    let (namespace, name) = (&scene.key.namespace, &scene.key.name);
    let finding = Finding::new(Reason::ManagedByKarmada, ready.message.clone());
    Some(finding.mend(format!(
        "on the hub: kubectl -n {namespace} delete serviceimport {name}"
    )))
}

/// Why an export of a member is not used.
pub(super) fn export(scene: &Scene, name: &str) -> Option<Finding> {
    let namespace = &*scene.key.namespace;
    let allowed = scene
        .cluster(name)?
        .annotations()
        .get(labels::EXPORT_NAMESPACES);
    if let Some(allowed) = allowed
        && !allowed.split(',').any(|one| one.trim() == namespace)
    {
        let message = format!("the hub does not let {name} export from namespace {namespace}");
        return Some(Finding::new(Reason::ExportRefused, message).mend(format!(
            "kubectl annotate cluster {name} --overwrite {}={allowed},{namespace}",
            labels::EXPORT_NAMESPACES
        )));
    }
    let exports = &scene.held(name)?.exports;
    let export = exports.iter().find(|export| scene.is_a_persons(*export))?;
    let conditions = &export.status.as_ref()?.conditions;
    let unmet =
        |kind: &str| condition::find(conditions, kind).filter(|one| one.status == condition::FALSE);
    // What Karmada's own controllers import is a matter of each consumer.
    let unready = || unmet(condition::READY).filter(|one| !is_karmadas(one));
    let unmet = unmet(condition::VALID).or_else(unready)?;
    let message = format!(
        "the ServiceExport of {name} is not carried out: {} ({})",
        unmet.reason, unmet.message
    );
    let finding = Finding::new(Reason::ExportRefused, message);
    Some(finding.mend(format!(
        "kubectl mcs status {} -n {namespace}",
        scene.key.name
    )))
}
