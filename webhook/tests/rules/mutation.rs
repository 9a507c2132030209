//! M1 and M2.

use causeway_webhook::decide::{self, Decision, ServiceKind};
use causeway_webhook::review::Subject;
use serde_json::{Value, json};

use crate::request::{ID, Request, UID, create, spec, update};

fn operations(request: &Request, id_taken: bool) -> Value {
    match decide::mutate(request.change(), id_taken) {
        Decision::Allow { .. } => json!([]),
        Decision::Patch { operations, .. } => json!(operations),
        Decision::Deny { denial, .. } => panic!("{denial:?}"),
    }
}

/// Returns the mutated spec with the warnings. A second mutation must change nothing.
fn converted(request: &Request) -> (Value, Vec<String>) {
    let (object, warnings) = request.mutate(false);
    let again = request.clone().with(|known| *known = object.clone());
    assert_eq!(
        operations(&again, false),
        json!([]),
        "a second time for {:#}",
        request.object
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
        let request = create(spec(json!({}))).with(|object| object["metadata"]["labels"] = labels);
        assert_eq!(operations(&request, false), patch, "{:#}", request.object);
        let (object, _) = request.mutate(false);
        assert_eq!(
            operations(&request.with(|known| *known = object), false),
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
    let request = create(spec(json!({})));
    assert_eq!(decide::contested_id(&request.change()), Some("kept"));
    let (copy, warnings) = request.mutate(true);
    assert_eq!(copy["metadata"]["labels"][ID], json!(UID));
    assert_eq!(
        warnings,
        [format!(
            "metadata.labels[{ID}]: another MultiClusterService has the permanent-id \"kept\", so this one was given its \
             own; remove the label from the manifest, or it is refused when it is applied again"
        )]
    );
    let (original, warnings) = request.mutate(false);
    assert_eq!(original["metadata"]["labels"][ID], json!("kept"));
    assert!(warnings.is_empty(), "{warnings:?}");

    let request = update(spec(json!({})), spec(json!({})));
    assert_eq!(decide::contested_id(&request.change()), None);
    assert_eq!(operations(&request, true), json!([]));

    for id in ["", "no label value", "a,b=c"] {
        let request =
            create(spec(json!({}))).with(|object| object["metadata"]["labels"][ID] = json!(id));
        assert_eq!(decide::contested_id(&request.change()), None, "{id:?}");
    }
}

#[test]
fn a_dropped_id_is_put_back_on_update() {
    for labels in [json!(null), json!({}), json!({ID: ""}), json!({"a": "b"})] {
        let request = update(spec(json!({})), spec(json!({})))
            .with(|object| object["metadata"]["labels"] = labels.clone());
        assert_eq!(
            request.mutate(false).0["metadata"]["labels"][ID],
            json!("kept"),
            "{labels}"
        );
    }
    let never = update(spec(json!({})), spec(json!({})))
        .with(|object| object["metadata"]["labels"] = json!({}))
        .with_stored(|object| object["metadata"]["labels"] = json!({}));
    assert_eq!(never.mutate(false).0["metadata"]["labels"][ID], json!(UID));
    // No API server stores such a label.
    let no_label = update(spec(json!({})), spec(json!({})))
        .with(|object| object["metadata"]["labels"] = json!({}))
        .with_stored(|object| object["metadata"]["labels"][ID] = json!("x".repeat(64)));
    assert_eq!(
        no_label.mutate(false).0["metadata"]["labels"][ID],
        json!(UID)
    );
    let changed = update(spec(json!({})), spec(json!({})))
        .with(|object| object["metadata"]["labels"][ID] = json!("other"));
    assert_eq!(
        operations(&changed, false),
        json!([]),
        "a changed id is for the validation to refuse"
    );
}

/// Returns the end of the warning of each conversion.
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
    let ineffective = |old: &str, new: &str| {
        format!(
            "{old} is deprecated and empty, which changes nothing: {new} still names clusters; edit \
             {new} instead"
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
            json!({"serviceProvisionClusters": [], "providerClusters": list(&["a"])}),
            json!({"providerClusters": list(&["a"])}),
            vec![ineffective(provision, providers)],
        ),
        (
            json!({"range": {"clusterNames": []}, "consumerClusters": list(&["a"])}),
            json!({"consumerClusters": list(&["a"])}),
            vec![ineffective(range, consumers)],
        ),
        // Karmada's webhook adds it to each object that has none.
        (
            json!({"range": {}, "consumerClusters": list(&["a"])}),
            json!({"consumerClusters": list(&["a"])}),
            vec![],
        ),
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
        let request = create(spec(before.clone()));
        assert_eq!(converted(&request), (after, warnings), "{before}");
    }
}

#[test]
fn range_of_type_load_balancer_is_removed() {
    let balanced = |mut fields: Value| {
        fields["types"] = json!(["LoadBalancer"]);
        spec(fields)
    };
    let removed = "spec.range.clusterNames is deprecated and was removed: it is valid for type \
                   CrossCluster only and has no effect here; name entry clusters in \
                   spec.consumerClusters";
    let (consumption, consumers) = ("spec.serviceConsumptionClusters", "spec.consumerClusters");
    let converted_consumption = format!(
        "{consumption} is deprecated and was converted to {consumers}; {}",
        instead(consumption, consumers)
    );
    let cases = [
        (
            json!({"range": {"clusterNames": ["a"]}}),
            json!({}),
            vec![removed],
        ),
        (
            json!({"range": {"clusterNames": ["clusterB"]}, "consumerClusters": list(&["a"])}),
            json!({"consumerClusters": list(&["a"])}),
            vec![removed],
        ),
        (
            json!({"range": {"clusterNames": ["b"]}, "serviceConsumptionClusters": ["a"]}),
            json!({"consumerClusters": list(&["a"])}),
            vec![removed, converted_consumption.as_str()],
        ),
        (json!({"range": {}}), json!({}), vec![]),
    ];
    for (before, after, warnings) in cases {
        let warnings: Vec<_> = warnings.into_iter().map(str::to_owned).collect();
        let request =
            create(balanced(before.clone())).service(ServiceKind::LoadBalancer, &[("http", 80)]);
        assert_eq!(converted(&request), (after, warnings), "{before}");
        request.passes();
    }
    let range = json!({"range": {"clusterNames": ["a"]}});
    assert_eq!(
        operations(&create(balanced(range.clone())), false),
        json!([{"op": "remove", "path": "/spec/range"}])
    );
    let stored = update(balanced(range.clone()), balanced(range));
    assert_eq!(operations(&stored, false), json!([]));
    stored.passes();
}

#[test]
fn a_conversion_is_the_fewest_operations() {
    let request = create(spec(
        json!({"range": {"clusterNames": ["a"]}, "providerClusters": list(&["b"])}),
    ));
    assert_eq!(
        operations(&request, false),
        json!([
            {"op": "add", "path": "/spec/consumerClusters", "value": [{"name": "a"}]},
            {"op": "remove", "path": "/spec/range"},
        ])
    );
}

#[test]
fn invalid_cluster_name_is_not_converted() {
    for fields in [
        json!({"range": {"clusterNames": ["a", "clusterB"]}}),
        json!({"serviceProvisionClusters": [""]}),
        json!({"range": {"clusterNames": ["clusterB"]}, "serviceConsumptionClusters": ["clusterB"]}),
    ] {
        let request = create(spec(fields.clone()));
        assert_eq!(converted(&request), (fields, vec![]));
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
        let request = create(spec(before.clone()));
        assert_eq!(converted(&request).0, after, "{before}");
        request.passes();
    }
    create(json!({"types": null}))
        .is_refused(&["spec.types: Required value: name one type: CrossCluster or LoadBalancer"]);
}

#[test]
fn disagreeing_fields_are_not_converted() {
    for fields in [
        json!({"consumerClusters": list(&["a"]), "range": {"clusterNames": ["b"]}}),
        json!({"range": {"clusterNames": ["a"]}, "serviceConsumptionClusters": ["b"]}),
        json!({"providerClusters": list(&["a"]), "serviceProvisionClusters": ["a", "b"]}),
    ] {
        let request = create(spec(fields.clone()));
        assert_eq!(converted(&request), (fields, vec![]));
    }
}

#[test]
fn an_edited_deprecated_manifest_is_the_newer_spec() {
    let stored = spec(json!({"consumerClusters": list(&["a"])}));
    let merged = |names: Value| {
        spec(json!({"consumerClusters": list(&["a"]), "range": {"clusterNames": names}}))
    };
    let (range, consumers) = ("spec.range.clusterNames", "spec.consumerClusters");
    let replaced = format!(
        "{range} is deprecated and has, being newer, replaced {consumers}, whoever set that; {}",
        instead(range, consumers)
    );
    let request = update(stored.clone(), merged(json!(["a", "b"])));
    assert_eq!(
        converted(&request),
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
    let request = update(stored, edited);
    assert_eq!(
        converted(&request).0,
        json!({"consumerClusters": list(&["a"]), "ports": [{"port": 80}]})
    );
}

#[test]
fn an_object_that_is_being_deleted_is_not_converted() {
    let stored = spec(json!({"range": {"clusterNames": ["a"]}}));
    let edited = spec(json!({"range": {"clusterNames": ["b"]}}));
    let request = update(stored, edited).with_stored(|object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert_eq!(operations(&request, false), json!([]));
    let nameless = request.with(|object| object["metadata"]["labels"] = json!({}));
    assert_eq!(
        nameless.mutate(false).0["metadata"]["labels"][ID],
        json!("kept"),
        "Karmada finds what it has to clean up by this label"
    );
}

#[test]
fn undecodable_object_is_not_mutated() {
    let request = create(json!({"types": "CrossCluster"}));
    assert!(matches!(request.subject(), Subject::Unreadable(_)));
}

#[test]
fn a_subresource_is_not_validated() {
    let mut review = create(json!({"types": 1})).review();
    review["request"]["subResource"] = json!("status");
    let text = review.to_string();
    let request = causeway_webhook::review::read(text.as_bytes()).expect("a request");
    assert!(matches!(request.subject, Subject::Nothing));
}
