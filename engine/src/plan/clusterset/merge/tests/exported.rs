//! Selection of exported labels and annotations.

use causeway::api::multicluster::{ServiceImportSpec, Version};
use causeway::api::{bounds, labels};
use causeway::domain::{Consumers, Failover, ServiceKey};
use serde_json::json;

use super::{export, merged};
use crate::plan::clusterset::import::OwnImport;
use crate::plan::clusterset::merge::ImportShape;

#[test]
fn an_export_forges_no_label_and_one_that_no_api_server_takes_is_left_out() {
    let long = "x".repeat(64);
    for (name, is_exported) in [
        ("team", true),
        ("Team_1.a-b", true),
        ("example.com/team", true),
        ("app.kubernetes.io/name", true),
        ("notmcs.causeway.dev/hub", true),
        (labels::HUB, false),
        (labels::OWNER, false),
        ("sub.mcs.causeway.dev/x", false),
        (labels::MULTICLUSTER_SERVICE_NAME, false),
        (labels::SOURCE_CLUSTER, false),
        (labels::DERIVED_SERVICE, false),
        (labels::SLICE_MANAGED_BY, false),
        (labels::PROVISION_CLUSTER, false),
        (labels::SERVICE_NAME, false),
        (labels::MANAGED_BY, false),
        (labels::LAST_APPLIED, false),
        (labels::HELM_RELEASE, false),
        (labels::HELM_RELEASE_NAMESPACE, false),
        (labels::KARMADA_MANAGED, false),
        ("", false),
        ("-team", false),
        ("team-", false),
        ("te am", false),
        ("größe", false),
        ("/team", false),
        ("example.com/", false),
        ("example..com/team", false),
        ("a/b/c", false),
        (&long, false),
        (&long[1..], true),
    ] {
        let exported = json!({"exportedLabels": {name: "v"}, "exportedAnnotations": {name: "v"}});
        let shape = merged(&[export(1, json!({})).exporting(exported)]).shape;
        assert_eq!(
            shape.labels.contains_key(name),
            is_exported,
            "label {name:?}"
        );
        assert_eq!(
            shape.annotations.contains_key(name),
            is_exported,
            "annotation {name:?}"
        );
    }
    for (value, is_exported) in [
        ("", true),
        ("a", true),
        ("A_b.c-1", true),
        ("a b", false),
        ("-", false),
        (&long, false),
    ] {
        let exported =
            json!({"exportedLabels": {"team": value}, "exportedAnnotations": {"team": value}});
        let shape = merged(&[export(1, json!({})).exporting(exported)]).shape;
        assert_eq!(shape.labels.contains_key("team"), is_exported, "{value:?}");
        assert!(
            shape.annotations.contains_key("team"),
            "an annotation is any text"
        );
    }
    let upper = json!({"exportedLabels": {"Example.com/team": "a"}, "exportedAnnotations": {"Example.com/team": "a"}});
    let shape = merged(&[export(1, json!({})).exporting(upper)]).shape;
    assert_eq!((shape.labels.len(), shape.annotations.len()), (0, 1));
}

#[test]
fn annotations_that_no_object_can_hold_are_left_out() {
    let exported = json!({"exportedAnnotations": {"a": "x".repeat(200 * 1024), "b": "x".repeat(200 * 1024), "c": "x"}});
    let shape = merged(&[export(1, json!({})).exporting(exported)]).shape;
    assert_eq!(shape.annotations.keys().collect::<Vec<_>>(), ["a", "c"]);
}

/// Returns the size of all annotations of an import of that shape, in bytes.
fn size_of_annotations(shape: &ImportShape) -> usize {
    let own = OwnImport {
        spec: ServiceImportSpec::default(),
        labels: shape.labels.clone(),
        annotations: shape.annotations.clone(),
        failover: shape.failover.clone(),
        consumers: shape.consumers.clone(),
        owner: "clusterset".to_owned(),
        service: Some("derived-foo".to_owned()),
        unready: None,
    };
    let import = own.object(&ServiceKey::new("shop", "foo"), Version::V1beta1, "hub");
    let annotations = import.metadata.annotations.expect("it has an owner");
    let sizes = annotations
        .iter()
        .map(|(name, value)| name.len() + value.len());
    sizes.sum()
}

#[test]
fn annotations_of_an_import_have_room_for_recorded_texts() {
    let long = "x".repeat(60 * 1024);
    let prefer = format!("property(a)={long}");
    let read = |name: &str| (name == labels::PREFER).then_some(prefer.as_str());
    let failover = Failover::read(read, &mut |error| panic!("{error}"));
    let consumers = format!("region/{long}");
    let consumers = Consumers::read(Some(&consumers), &mut |error| panic!("{error}"));
    let annotation = |number: usize| (format!("a{number:02}"), "x".repeat(10 * 1024));
    let annotations: serde_json::Map<_, _> = (0..24)
        .map(annotation)
        .map(|(name, value)| (name, json!(value)))
        .collect();
    let plain = export(1, json!({})).exporting(json!({ "exportedAnnotations": annotations }));
    let exporting = |failover: &Failover, consumers: &Consumers| {
        let mut export = plain.clone();
        (export.failover, export.consumers) = (failover.clone(), consumers.clone());
        let exports = [export];
        merged(&exports).shape
    };
    for (failover, consumers, number) in [
        (&Failover::default(), &Consumers::All, 23),
        (&failover, &Consumers::All, 17),
        (&Failover::default(), &consumers, 17),
        (&failover, &consumers, 11),
    ] {
        let shape = exporting(failover, consumers);
        assert_eq!(shape.annotations.len(), number);
        let size = size_of_annotations(&shape);
        assert!(size <= bounds::ANNOTATIONS, "{size} bytes");
    }
}
