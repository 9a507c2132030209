//! Objects of causeway's that somebody applies over are foreign then; mere edits of them are
//! reverted.

use super::*;
use crate::fixtures::HUB_UID;
use crate::fixtures::objects::export;
use crate::model::ObjectId;

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
}

/// Merges a part into member2's object, as its API server stores it then.
fn over(env: &mut Environment, kind: Kind, name: &str, part: &Value) {
    env.amend("member2", kind, name, part.clone());
}

/// Returns a patch for each record by which an apply is recognized.
fn applies() -> Vec<Value> {
    let spec = || json!({"f:spec": {"f:ports": {}}});
    let server_side = |manager| {
        json!({"metadata": {"managedFields": [
            entry("causeway", "Update", spec()), entry(manager, "Apply", spec()),
        ]}})
    };
    vec![
        server_side("kubectl"),
        server_side("argocd-controller"),
        server_side("kustomize-controller"),
        json!({"metadata": {"annotations": {labels::LAST_APPLIED: "{}"}}}),
        json!({"metadata": {"annotations": {labels::HELM_RELEASE: "shop"}, "labels": {labels::MANAGED_BY: "Helm"}}}),
        json!({"metadata": {"labels": {labels::KARMADA_MANAGED: "true"}}}),
    ]
}

#[test]
fn a_delivered_service_that_somebody_applies_over_is_theirs_and_used_where_its_ports_fit() {
    let mut spec = json!({"spec": {"ports": [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": 9999}],
                                   "selector": {"app": "theirs"}}});
    spec["spec"]["sessionAffinity"] = json!("ClientIP");
    for apply in applies() {
        let mut env = provided();
        over(&mut env, Kind::Service, "foo", &spec);
        over(&mut env, Kind::Service, "foo", &apply);
        env.forget_writes().settle();
        let to_service = env
            .written
            .iter()
            .filter(|(to, write)| to == "member2" && write.object().kind() == "Service");
        assert_eq!(to_service.count(), 1, "the marks go in one write: {apply}");
        let theirs = env.service("member2", "foo").expect("the Service").clone();
        assert_eq!(theirs["spec"]["ports"], spec["spec"]["ports"], "{apply}");
        assert_eq!(
            theirs["spec"]["selector"],
            json!({"app": "theirs"}),
            "{apply}"
        );
        for mark in [labels::HUB, labels::OWNER] {
            let meta = &theirs["metadata"];
            assert!(
                meta["labels"][mark].is_null() && meta["annotations"][mark].is_null(),
                "{meta}"
            );
        }
        assert_ne!(
            theirs["metadata"]["labels"][labels::MANAGED_BY],
            labels::MANAGER
        );
        assert!(
            env.recorded
                .iter()
                .any(|event| event.reason == "ServiceTakenOver"),
            "{apply}"
        );
        let copy = env.copies("member2", "foo").remove(0);
        assert_eq!(
            copy.ports.expect("ports")[0].name.as_deref(),
            Some("web"),
            "{apply}"
        );
        assert!(env.is_ready("foo"));
        env.assert_at_rest();
        env.restart().assert_at_rest();
        // Ports that do not fit are reported, and left.
        let other = json!({"spec": {"ports": [{"name": "web", "port": 81, "protocol": "TCP", "targetPort": 81}]}});
        over(&mut env, Kind::Service, "foo", &other);
        env.settle();
        let applied = env.says("foo", "ServiceApplied");
        assert!(
            applied.contains("member2 has a Service shop/foo of its own without http 80/TCP"),
            "{applied}"
        );
        let theirs = env.service("member2", "foo").expect("the Service").clone();
        env.off_hub(Kind::Mcs, "foo").settle();
        assert!(env.mcs("foo").is_none(), "{apply}");
        assert_eq!(env.service("member2", "foo"), Some(&theirs), "{apply}");
    }
}

#[test]
fn service_that_loses_the_hub_label_loses_every_other_mark() {
    let mut env = provided();
    let bare = json!({"metadata": {"labels": {labels::HUB: null}}});
    over(&mut env, Kind::Service, "foo", &bare);
    env.settle();
    let theirs = env.service("member2", "foo").expect("the Service");
    let meta = &theirs["metadata"];
    assert_eq!(
        (&meta["labels"], &meta["annotations"]),
        (&json!({}), &json!({}))
    );
    assert_eq!(theirs["spec"]["selector"], json!({}));
    assert!(env.is_ready("foo"));
    env.assert_at_rest();
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.service("member2", "foo").is_some());
}

/// Kubernetes copies a Service's labels to the slices that it makes for it, and maintains them
/// while the Service has a selector.
#[test]
fn empty_slice_is_deleted_once_a_foreign_service_has_no_selector() {
    let karmadas = json!({"metadata": {"labels": {labels::KARMADA_MANAGED: "true"}}});
    let copied = json!({"metadata": {"labels": {
        labels::HUB: HUB_UID, labels::SLICE_MANAGED_BY: labels::SLICE_CONTROLLER,
    }}});
    let empty = || slice("foo-kube", "foo").port("http", 8080);
    let of_others = json!({"metadata": {"labels": {labels::HUB: "another"}}});
    for (made, selector, is_deleted) in [
        (empty(), json!(null), true),
        (
            empty(),
            json!({labels::NO_LOCAL_BACKENDS: null, "app": "theirs"}),
            false,
        ),
        (empty().endpoint("10.2.0.9"), json!(null), false),
        (empty().with(of_others), json!(null), false),
    ] {
        let mut env = provided();
        let labelled = copied.clone();
        let made = match made.value["metadata"]["labels"][labels::HUB].is_null() {
            true => made.with(labelled),
            false => made.with(json!({"metadata": {"labels": {labels::SLICE_MANAGED_BY: labels::SLICE_CONTROLLER}}})),
        };
        env.on("member2", made.clone()).settle();
        let is_there = |env: &Environment| {
            env.members["member2"]
                .get(Kind::Slice, "shop", "foo-kube")
                .is_some()
        };
        assert!(is_there(&env), "while causeway manages the Service");
        over(&mut env, Kind::Service, "foo", &karmadas);
        over(
            &mut env,
            Kind::Service,
            "foo",
            &json!({"spec": {"selector": selector}}),
        );
        // The controller may be another by then.
        env.off_hub(Kind::Mcs, "foo").restart().settle();
        assert_eq!(is_there(&env), !is_deleted, "{}", made.value);
        env.assert_at_rest();
    }
}

#[test]
fn what_is_only_edited_or_labelled_stays_causeways_and_is_put_right() {
    let entries = |other: Value| {
        json!({"metadata": {"managedFields": [
            entry("causeway", "Update", json!({"f:spec": {"f:ports": {}}})), other,
        ]}})
    };
    let spec = || json!({"f:spec": {"f:ports": {}, "f:selector": {}}});
    let mut of_status = entry("cloud-controller", "Apply", spec());
    of_status["subresource"] = json!("status");
    let label = json!({"f:metadata": {"f:labels": {"f:team": {}}}});
    for other in [
        entry("kubectl-edit", "Update", spec()),
        entry("kubectl-patch", "Update", spec()),
        entry("kubectl-label", "Update", label.clone()),
        entry(
            "kubectl-annotate",
            "Update",
            json!({"f:metadata": {"f:annotations": {"f:note": {}}}}),
        ),
        entry("kubectl", "Apply", label),
        entry(
            "kube-controller-manager",
            "Update",
            json!({"f:metadata": {"f:finalizers": {}}}),
        ),
        entry("causeway", "Apply", spec()),
        of_status,
    ] {
        let mut env = provided();
        let before = env.service("member2", "foo").expect("the Service")["spec"].clone();
        let mut part = entries(other);
        part["metadata"]["labels"] = json!({"team": "a"});
        part["spec"] = json!({"selector": {"app": "broken"}, "sessionAffinity": "ClientIP"});
        over(&mut env, Kind::Service, "foo", &part);
        env.settle();
        let service = env.service("member2", "foo").expect("the Service");
        assert_eq!(service["spec"]["selector"], before["selector"], "{part}");
        assert_eq!(
            service["spec"]["sessionAffinity"], before["sessionAffinity"],
            "{part}"
        );
        assert_eq!(service["metadata"]["labels"]["team"], "a");
        assert_eq!(service["metadata"]["labels"][labels::HUB], HUB_UID);
        env.assert_at_rest();
        env.off_hub(Kind::Mcs, "foo").settle();
        assert!(env.service("member2", "foo").is_none(), "{part}");
    }
}

#[test]
fn what_the_claimant_applied_of_causeways_marks_stays() {
    let mut env = provided();
    let labels = json!({labels::HUB: HUB_UID, labels::MANAGED_BY: labels::MANAGER});
    let text = json!({"metadata": {"labels": labels}}).to_string();
    let apply = json!({"metadata": {"annotations": {labels::LAST_APPLIED: text}}});
    over(&mut env, Kind::Service, "foo", &apply);
    env.forget_writes().settle();
    let wrote = env
        .log()
        .into_iter()
        .filter(|line| line.starts_with("member2"));
    assert_eq!(wrote.collect::<Vec<_>>(), Vec::<String>::new());
    env.off_hub(Kind::Mcs, "foo").settle();
    assert!(env.mcs("foo").is_none());
    assert!(env.service("member2", "foo").is_some());
}

#[test]
fn an_import_that_somebody_applies_over_is_theirs_and_a_derived_service_is_in_the_way() {
    for apply in applies() {
        let mut env = env();
        env.member("member1").member("member2");
        env.on("member1", foo())
            .on("member1", source("10.1.0.5"))
            .on("member1", export("foo"))
            .settle();
        let spec = json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}]}});
        over(&mut env, Kind::Import, "foo", &spec);
        over(&mut env, Kind::Import, "foo", &apply);
        env.forget_writes().settle();
        let theirs = env.members["member2"]
            .get(Kind::Import, "shop", "foo")
            .expect("the import")
            .clone();
        assert_eq!(theirs["spec"]["ports"], spec["spec"]["ports"], "{apply}");
        assert!(
            theirs["metadata"]["labels"][labels::HUB].is_null(),
            "{apply}"
        );
        assert_eq!(
            env.addresses("member2", "derived-foo"),
            ["10.1.0.5"],
            "{apply}"
        );
        let to_import = env
            .written
            .iter()
            .filter(|(to, write)| to == "member2" && write.object().kind() == "ServiceImport")
            .map(|(_, write)| matches!(write.object(), ObjectId::ServiceImportStatus(..)));
        let to_import: Vec<_> = to_import.collect();
        assert_eq!(
            to_import,
            [false, true],
            "first the marks, then the status: {apply}"
        );
        assert!(theirs["status"].is_null(), "{apply}");
        env.assert_at_rest();
        over(&mut env, Kind::Service, "derived-foo", &apply);
        env.settle();
        // Karmada's own controllers bring endpoints of their own; until then causeway's stay.
        let by_karmada = !apply["metadata"]["labels"][labels::KARMADA_MANAGED].is_null();
        let has_copies = !env.addresses("member2", "derived-foo").is_empty();
        assert_eq!(has_copies, by_karmada, "{apply}");
        env.off("member1", Kind::Export, "foo").settle();
        let left = env.members["member2"]
            .get(Kind::Import, "shop", "foo")
            .expect("the import");
        assert_eq!(left["spec"], theirs["spec"], "{apply}");
        let derived = env.service("member2", "derived-foo").expect("the Service");
        assert!(
            derived["metadata"]["labels"][labels::HUB].is_null(),
            "{apply}"
        );
        env.assert_at_rest();
    }
}
