//! M1 and M2.

use causeway_webhook::decide::{self, Decision};
use causeway_webhook::review::Subject;
use serde_json::{Value, json};

use crate::ask::{Ask, ID, UID, create, spec, update};

fn operations(ask: &Ask, id_taken: bool) -> Value {
    match decide::mutate(ask.change(), id_taken) {
        Decision::Allow { .. } => json!([]),
        Decision::Patch { operations, .. } => json!(operations),
        Decision::Deny { refusal, .. } => panic!("{refusal:?}"),
    }
}

/// What the spec becomes, with the warnings; applying the mutation to its outcome changes nothing.
fn converted(ask: &Ask) -> (Value, Vec<String>) {
    let (object, warnings) = ask.mutate(false);
    let again = ask.clone().with(|known| *known = object.clone());
    assert_eq!(
        operations(&again, false),
        json!([]),
        "a second time for {:#}",
        ask.object
    );
    let mut spec = object["spec"].clone();
    spec.as_object_mut().expect("a spec").remove("types");
    (spec, warnings)
}

fn list(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

#[test]
fn a_new_object_gets_the_uid_of_its_request_as_its_permanent_id() {
    let path = "/metadata/labels/multiclusterservice.karmada.io~1permanent-id";
    for (labels, patch) in [
        (json!({ID: "mine"}), json!([])),
        (
            json!({}),
            json!([{"op": "add", "path": path, "value": UID}]),
        ),
        (
            json!({"a": "b"}),
            json!([{"op": "add", "path": path, "value": UID}]),
        ),
        (
            json!({ID: ""}),
            json!([{"op": "add", "path": path, "value": UID}]),
        ),
        (
            json!(null),
            json!([{"op": "add", "path": "/metadata/labels", "value": {ID: UID}}]),
        ),
    ] {
        let ask = create(spec(json!({}))).with(|object| object["metadata"]["labels"] = labels);
        assert_eq!(operations(&ask, false), patch, "{:#}", ask.object);
        let (object, _) = ask.mutate(false);
        assert_eq!(
            operations(&ask.with(|known| *known = object), false),
            json!([])
        );
    }
    let bare = create(spec(json!({}))).with(|object| {
        object["metadata"]
            .as_object_mut()
            .expect("metadata")
            .remove("labels");
    });
    assert_eq!(
        operations(&bare, false),
        json!([{"op": "add", "path": "/metadata/labels", "value": {ID: UID}}])
    );
}

#[test]
fn a_copied_id_is_replaced_on_create_only() {
    let ask = create(spec(json!({})));
    assert_eq!(decide::contested_id(&ask.change()), Some("kept"));
    let (copy, warnings) = ask.mutate(true);
    assert_eq!(copy["metadata"]["labels"][ID], json!(UID));
    assert_eq!(
        warnings,
        [format!(
            "metadata.labels[{ID}]: another MultiClusterService has the permanent-id \"kept\", so this one was given its \
             own; remove the label from the manifest, or it is refused when it is applied again"
        )]
    );
    let (original, warnings) = ask.mutate(false);
    assert_eq!(original["metadata"]["labels"][ID], json!("kept"));
    assert!(warnings.is_empty(), "{warnings:?}");

    let ask = update(spec(json!({})), spec(json!({})));
    assert_eq!(decide::contested_id(&ask.change()), None);
    assert_eq!(operations(&ask, true), json!([]));

    for id in ["", "no label value", "a,b=c"] {
        let ask =
            create(spec(json!({}))).with(|object| object["metadata"]["labels"][ID] = json!(id));
        assert_eq!(decide::contested_id(&ask.change()), None, "{id:?}");
    }
}

#[test]
fn a_dropped_id_is_put_back_on_update() {
    for labels in [json!(null), json!({}), json!({ID: ""}), json!({"a": "b"})] {
        let ask = update(spec(json!({})), spec(json!({})))
            .with(|object| object["metadata"]["labels"] = labels.clone());
        assert_eq!(
            ask.mutate(false).0["metadata"]["labels"][ID],
            json!("kept"),
            "{labels}"
        );
    }
    let never = update(spec(json!({})), spec(json!({})))
        .with(|object| object["metadata"]["labels"] = json!({}))
        .with_stored(|object| object["metadata"]["labels"] = json!({}));
    assert_eq!(never.mutate(false).0["metadata"]["labels"][ID], json!(UID));
    let changed = update(spec(json!({})), spec(json!({})))
        .with(|object| object["metadata"]["labels"][ID] = json!("other"));
    assert_eq!(
        operations(&changed, false),
        json!([]),
        "a changed id is for the validation to refuse"
    );
}

/// What every conversion asks for.
fn instead(old: &str, new: &str) -> String {
    format!("write {new} instead: when {old} goes from the manifest, {new} stays as it is")
}

#[test]
fn deprecated_fields_become_their_successors() {
    let convert = |old: &str, new: &str| {
        format!(
            "{old} is deprecated and was converted to {new}; {}",
            instead(old, new)
        )
    };
    let redundant = |old: &str, new: &str| {
        format!(
            "{old} is deprecated and was removed, for {new} names the same clusters; {}",
            instead(old, new)
        )
    };
    let (range, consumption) = ("spec.range.clusterNames", "spec.serviceConsumptionClusters");
    let (provision, consumers, providers) = (
        "spec.serviceProvisionClusters",
        "spec.consumerClusters",
        "spec.providerClusters",
    );
    let cases: Vec<(Value, Value, Vec<String>)> = vec![
        (
            json!({"range": {"clusterNames": ["b", "a", "b"]}}),
            json!({"consumerClusters": list(&["b", "a", "b"])}),
            vec![convert(range, consumers)],
        ),
        (
            json!({"serviceConsumptionClusters": ["a"]}),
            json!({"consumerClusters": list(&["a"])}),
            vec![convert(consumption, consumers)],
        ),
        (
            json!({"serviceProvisionClusters": ["a"], "providerClusters": []}),
            json!({"providerClusters": list(&["a"])}),
            vec![convert(provision, providers)],
        ),
        (
            json!({"range": {"clusterNames": ["a", "b"]}, "serviceConsumptionClusters": ["b", "a"], "serviceProvisionClusters": ["c"]}),
            json!({"consumerClusters": list(&["a", "b"]), "providerClusters": list(&["c"])}),
            vec![
                convert(range, consumers),
                convert(consumption, consumers),
                convert(provision, providers),
            ],
        ),
        (
            json!({"range": {"clusterNames": ["a", "b"]}, "consumerClusters": list(&["b", "a"])}),
            json!({"consumerClusters": list(&["b", "a"])}),
            vec![redundant(range, consumers)],
        ),
        (json!({"range": {}}), json!({}), vec![]),
        (
            json!({"range": {"clusterNames": []}, "serviceProvisionClusters": []}),
            json!({}),
            vec![],
        ),
        (
            json!({"serviceConsumptionClusters": [], "range": {"clusterNames": ["a"]}}),
            json!({"consumerClusters": list(&["a"])}),
            vec![convert(range, consumers)],
        ),
        (
            json!({"consumerClusters": list(&["a"])}),
            json!({"consumerClusters": list(&["a"])}),
            vec![],
        ),
    ];
    for (before, after, warnings) in cases {
        let ask = create(spec(before.clone()));
        assert_eq!(converted(&ask), (after, warnings), "{before}");
    }
}

#[test]
fn a_conversion_is_the_fewest_operations() {
    let ask = create(spec(
        json!({"range": {"clusterNames": ["a"]}, "providerClusters": list(&["b"])}),
    ));
    assert_eq!(
        operations(&ask, false),
        json!([
            {"op": "add", "path": "/spec/consumerClusters", "value": [{"name": "a"}]},
            {"op": "remove", "path": "/spec/range"},
        ])
    );
}

#[test]
fn what_names_no_cluster_stays_for_the_validation_to_refuse_where_it_stands() {
    for fields in [
        json!({"range": {"clusterNames": ["a", "clusterB"]}}),
        json!({"serviceProvisionClusters": [""]}),
        json!({"range": {"clusterNames": ["clusterB"]}, "serviceConsumptionClusters": ["clusterB"]}),
    ] {
        let ask = create(spec(fields.clone()));
        assert_eq!(converted(&ask), (fields, vec![]));
    }
}

#[test]
fn a_null_list_or_object_is_as_if_it_were_absent() {
    let cases = [
        (
            json!({"consumerClusters": null, "range": {"clusterNames": ["a"]}}),
            json!({"consumerClusters": list(&["a"])}),
        ),
        (
            json!({"providerClusters": null, "serviceProvisionClusters": ["a"], "ports": null}),
            json!({"providerClusters": list(&["a"]), "ports": null}),
        ),
        (
            json!({"range": {"clusterNames": null}, "consumerClusters": list(&["a"])}),
            json!({"consumerClusters": list(&["a"])}),
        ),
        (
            json!({"range": null, "serviceConsumptionClusters": null}),
            json!({"range": null, "serviceConsumptionClusters": null}),
        ),
    ];
    for (before, after) in cases {
        let ask = create(spec(before.clone()));
        assert_eq!(converted(&ask).0, after, "{before}");
        ask.passes();
    }
    create(json!({"types": null}))
        .is_refused(&["spec.types: Required value: name one type: CrossCluster or LoadBalancer"]);
}

#[test]
fn what_disagrees_stays_for_the_validation_to_refuse() {
    for fields in [
        json!({"consumerClusters": list(&["a"]), "range": {"clusterNames": ["b"]}}),
        json!({"range": {"clusterNames": ["a"]}, "serviceConsumptionClusters": ["b"]}),
        json!({"providerClusters": list(&["a"]), "serviceProvisionClusters": ["a", "b"]}),
    ] {
        let ask = create(spec(fields.clone()));
        assert_eq!(converted(&ask), (fields, vec![]));
    }
}

#[test]
fn an_edited_deprecated_manifest_is_the_newer_wish() {
    let stored = spec(json!({"consumerClusters": list(&["a"])}));
    let merged = |names: Value| {
        spec(json!({"consumerClusters": list(&["a"]), "range": {"clusterNames": names}}))
    };
    let (range, consumers) = ("spec.range.clusterNames", "spec.consumerClusters");
    let replaced = format!(
        "{range} is deprecated and has, being newer, replaced {consumers}, whoever set that; {}",
        instead(range, consumers)
    );
    let ask = update(stored.clone(), merged(json!(["a", "b"])));
    assert_eq!(
        converted(&ask),
        (
            json!({"consumerClusters": list(&["a", "b"])}),
            vec![replaced]
        )
    );
    let unchanged = update(stored.clone(), merged(json!(["a"])));
    assert_eq!(
        converted(&unchanged).0,
        json!({"consumerClusters": list(&["a"])})
    );

    let both_edited = update(
        stored,
        spec(json!({"consumerClusters": list(&["c"]), "range": {"clusterNames": ["b"]}})),
    );
    assert_eq!(operations(&both_edited, false), json!([]));
    let long_disagreed =
        spec(json!({"consumerClusters": list(&["a"]), "range": {"clusterNames": ["b"]}}));
    let mut edited = long_disagreed.clone();
    edited["ports"] = json!([{"port": 80}]);
    assert_eq!(
        operations(&update(long_disagreed, edited), false),
        json!([])
    );
}

#[test]
fn a_stored_deprecated_field_is_left_until_the_spec_changes() {
    let stored = spec(json!({"range": {"clusterNames": ["a"]}}));
    let same = update(stored.clone(), stored.clone())
        .with(|object| object["metadata"]["labels"]["tier"] = json!("gold"));
    assert_eq!(operations(&same, false), json!([]));
    let mut edited = stored.clone();
    edited["ports"] = json!([{"port": 80}]);
    let ask = update(stored, edited);
    assert_eq!(
        converted(&ask).0,
        json!({"consumerClusters": list(&["a"]), "ports": [{"port": 80}]})
    );
}

#[test]
fn an_object_on_its_way_out_is_not_converted() {
    let stored = spec(json!({"range": {"clusterNames": ["a"]}}));
    let edited = spec(json!({"range": {"clusterNames": ["b"]}}));
    let ask = update(stored, edited).with_stored(|object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(operations(&ask, false), json!([]));
    let nameless = ask.with(|object| object["metadata"]["labels"] = json!({}));
    assert_eq!(
        nameless.mutate(false).0["metadata"]["labels"][ID],
        json!("kept"),
        "Karmada finds what it has to clean up by this label"
    );
}

#[test]
fn what_does_not_decode_is_no_change() {
    let ask = create(json!({"types": "CrossCluster"}));
    assert!(matches!(ask.subject(), Subject::Unreadable(_)));
}

#[test]
fn a_subresource_is_not_judged() {
    let mut review = create(json!({"types": 1})).review();
    review["request"]["subResource"] = json!("status");
    let text = review.to_string();
    let request = causeway_webhook::review::read(text.as_bytes()).expect("a request");
    assert!(matches!(request.subject, Subject::Nothing));
}
