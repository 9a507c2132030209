//! Interpretation of each of causeway's conditions by tools for GitOps.

use causeway::domain::ClusterField;
use causeway_engine::reasons::Reason;
use causeway_tests::health::{in_argo_cd, in_kstatus};
use serde_json::{Value, json};

use crate::{fleet, manifest, read};

const SERVICE: &str = "networking.karmada.io_MultiClusterService";
const CLUSTER: &str = "cluster.karmada.io_Cluster";
const EXPORT: &str = "multicluster.x-k8s.io_ServiceExport";
const IMPORT: &str = "multicluster.x-k8s.io_ServiceImport";

/// A condition: its type, status and reason, and the generation that it speaks of.
type Written<'a> = (&'a str, &'a str, &'a str, Option<i64>);

/// An object of the second generation with these conditions.
fn object(kind: &str, conditions: &[Written<'_>]) -> Value {
    let (group, kind) = kind.split_once('_').expect("group and kind");
    let conditions = conditions
        .iter()
        .map(|(type_, status, reason, generation)| {
            let mut condition = json!({
                "type": type_, "status": status, "reason": reason, "message": "why",
                "lastTransitionTime": "2026-11-21T00:00:00Z",
            });
            if let Some(generation) = generation {
                condition["observedGeneration"] = json!(generation);
            }
            condition
        });
    let conditions: Vec<_> = conditions.collect();
    let mut object = json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": kind,
        "metadata": { "name": "foo", "namespace": "shop", "generation": 2 }, "spec": {},
    });
    if !conditions.is_empty() {
        object["status"] = json!({ "conditions": conditions });
    }
    object
}

#[test]
fn argo_cd_and_kstatus_say_of_an_object_what_its_conditions_say() {
    let ready = |status: &'static str, reason: &'static str| [("Ready", status, reason, Some(2))];
    let old = [("Ready", "True", Reason::Ready.as_str(), Some(1))];
    let suspended = [
        ("Ready", "True", Reason::Synced.as_str(), Some(2)),
        (
            "DeletionsSuspended",
            "True",
            Reason::DeletionsSuspended.as_str(),
            Some(2),
        ),
    ];
    let of_karmada = [("Ready", "True", "ClusterReady", None)];
    let invalid = [
        ("Valid", "False", Reason::NoService.as_str(), Some(2)),
        ("Ready", "False", Reason::Failed.as_str(), Some(2)),
    ];
    let disagreeing = [
        ("Valid", "True", Reason::Valid.as_str(), Some(2)),
        ("Ready", "True", Reason::Exported.as_str(), Some(2)),
        ("Conflict", "True", "PortConflict", Some(2)),
    ];
    let table: [(&str, &[Written<'_>], &str, &str); 19] = [
        (
            SERVICE,
            &ready("True", Reason::Ready.as_str()),
            "Healthy",
            "Current",
        ),
        (
            SERVICE,
            &ready("False", Reason::ServiceNotFound.as_str()),
            "Degraded",
            "InProgress",
        ),
        (
            SERVICE,
            &ready("False", Reason::ManagedByKarmada.as_str()),
            "Healthy",
            "InProgress",
        ),
        // What docs/gitops.md warns of: kstatus compares no generation of a condition.
        (SERVICE, &old, "Progressing", "Current"),
        (SERVICE, &[], "Progressing", "Current"),
        (
            CLUSTER,
            &ready("True", Reason::Synced.as_str()),
            "Healthy",
            "Current",
        ),
        (CLUSTER, &of_karmada, "Healthy", "Current"),
        (
            CLUSTER,
            &ready("False", Reason::Syncing.as_str()),
            "Progressing",
            "InProgress",
        ),
        (
            CLUSTER,
            &ready("False", Reason::Unreachable.as_str()),
            "Degraded",
            "InProgress",
        ),
        (CLUSTER, &suspended, "Suspended", "Current"),
        (CLUSTER, &old, "Progressing", "Current"),
        (EXPORT, &disagreeing, "Healthy", "Current"),
        (
            EXPORT,
            &ready("False", Reason::Pending.as_str()),
            "Progressing",
            "InProgress",
        ),
        (
            EXPORT,
            &ready("False", Reason::ManagedByKarmada.as_str()),
            "Healthy",
            "InProgress",
        ),
        (EXPORT, &invalid, "Degraded", "InProgress"),
        (EXPORT, &old, "Progressing", "Current"),
        (EXPORT, &[], "Progressing", "Current"),
        (
            IMPORT,
            &ready("False", Reason::ServiceConflict.as_str()),
            "Degraded",
            "InProgress",
        ),
        (IMPORT, &[], "Healthy", "Current"),
    ];
    for (kind, conditions, argo_cd, kstatus) in table {
        let object = object(kind, conditions);
        let found = in_argo_cd(&object);
        assert_eq!(found.status, argo_cd, "Argo CD of {object}");
        let is_said = conditions.is_empty() || argo_cd == "Progressing";
        let is_said = is_said || found.message.ends_with("why");
        assert!(is_said, "Argo CD says {found:?} of {object}");
        assert_eq!(in_kstatus(&object).status, kstatus, "kstatus of {object}");
    }
}

#[tokio::test]
async fn the_health_checks_are_patched_into_argo_cds_settings() {
    let hub = fleet().await.hub();
    let settings = "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd}\n---\n\
                    apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: argocd}\n\
                    data: {url: \"https://argocd.example\"}\n";
    hub.apply(settings).await.ok();
    let file = manifest("argocd/argocd-cm.patch.yaml");
    let patch = [
        "-n",
        "argocd",
        "patch",
        "configmap",
        "argocd-cm",
        "--patch-file",
        &file,
    ];
    hub.kubectl(patch).await.ok();
    let get = ["-n", "argocd", "get", "configmap", "argocd-cm", "-o=json"];
    let stored: Value = serde_json::from_str(&hub.kubectl(get).await.ok()).expect("JSON");
    let data = stored["data"].as_object().expect("data");
    assert_eq!(data["url"], "https://argocd.example");
    for kind in [SERVICE, CLUSTER, EXPORT, IMPORT] {
        let key = format!("resource.customizations.health.{kind}");
        assert!(data.contains_key(&key), "{key}");
    }
}

#[test]
fn argo_cd_ignores_the_deprecated_fields_of_a_service() {
    let patch: Value = serde_saphyr::from_str(&read("argocd/argocd-cm.patch.yaml")).expect("YAML");
    let key = format!("resource.customizations.ignoreDifferences.{SERVICE}");
    let ignored = patch["data"][&key].as_str().expect(&key);
    let ignored: Value = serde_saphyr::from_str(ignored).expect("YAML");
    // The webhook removes the field of the spec, which the list may be a part of.
    let pointers = ClusterField::DEPRECATED.map(|field| {
        let names: Vec<_> = field.path().split('.').take(2).collect();
        format!("/{}", names.join("/"))
    });
    assert_eq!(ignored, json!({ "jsonPointers": pointers }));
}
