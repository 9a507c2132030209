//! Selection of exported labels and annotations.

use causeway::api::labels;
use serde_json::json;

use super::{export, merged};

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
