//! Objects as large as an API server takes: the answer stays small, and the work grows with the
//! object, not with its square.

use causeway::api::labels::PREFER;
use causeway_webhook::decide::{ENTRIES_MAX, ServiceKind, Strictness};
use serde_json::{Value, json};

use crate::request::{Request, create, spec, update};

/// Entries of a list. Under CAUSEWAY_SOAK as many as fit into 3 MiB: were each compared with each,
/// that would not end.
fn entries() -> usize {
    match std::env::var_os("CAUSEWAY_SOAK") {
        Some(_) => 200_000,
        None => 2_000,
    }
}

fn many(entry: impl Fn(usize) -> Value) -> Value {
    (0..entries()).map(entry).collect()
}

/// An answer to each object, as it is made and as it replaces one that is like it but for one
/// entry.
fn answers(fields: &Value) -> Vec<Request> {
    let mut before = fields.clone();
    for (_, list) in before.as_object_mut().expect("fields") {
        if let Some(list) = list.as_array_mut() {
            list.remove(0);
        }
    }
    let (now, before) = (spec(fields.clone()), spec(before));
    vec![
        create(now.clone()),
        update(before.clone(), now.clone()),
        update(now, before),
    ]
}

#[track_caller]
fn is_bounded(request: &Request) {
    let outcome = request.validate();
    assert!(
        outcome.errors.len() <= 20,
        "{} errors",
        outcome.errors.len()
    );
    assert!(
        outcome.warnings.len() <= 11,
        "{} warnings",
        outcome.warnings.len()
    );
    let texts = outcome.errors.iter().chain(&outcome.warnings);
    let size: usize = texts.map(String::len).sum();
    assert!(size < 64 * 1024, "{size} bytes");
}

#[test]
fn huge_lists_are_validated_and_answered_briefly() {
    let names = |prefix: &'static str| many(move |index| json!(format!("{prefix}{index}")));
    let selectors =
        |prefix: &'static str| many(move |index| json!({"name": format!("{prefix}{index}")}));
    for fields in [
        json!({"types": many(|_| json!("CrossCluster"))}),
        json!({"types": names("Cross")}),
        json!({"ports": many(|_| json!({"port": 80}))}),
        json!({"ports": many(|index| json!({"port": index % 65536}))}),
        json!({"ports": many(|index| json!({"name": format!("p{index}"), "port": 80}))}),
        json!({"ports": many(|index| json!({"name": format!("P{index}"), "port": -1}))}),
        json!({"providerClusters": selectors("a")}),
        json!({"consumerClusters": selectors("A")}),
        json!({"consumerClusters": many(|_| json!({"name": ""}))}),
        json!({"serviceProvisionClusters": names("a")}),
        json!({"range": {"clusterNames": names("a")}, "serviceConsumptionClusters": names("b")}),
        json!({"providerClusters": selectors("a"), "serviceProvisionClusters": names("b")}),
    ] {
        for request in answers(&fields) {
            is_bounded(&request);
            is_bounded(&request.clone().unknown_cluster(Strictness::Deny));
            request.mutate(false);
        }
    }
}

#[test]
fn longer_list_than_its_bound_is_refused_as_invalid() {
    let list = |number: usize| -> Value { vec![json!("a"); number].into() };
    let refusal = |path: &str| format!("{path}: Too many: must have at most 1024 items");
    let (short, long) = (ENTRIES_MAX, ENTRIES_MAX + 1);
    let ports = |number: u16| -> Value { (1..=number).map(|port| json!({"port": port})).collect() };
    let named = |number: usize| -> Value { vec![json!({"name": "a"}); number].into() };
    for (path, fields) in [
        ("spec.types", json!({"types": list(long)})),
        ("spec.ports", json!({"ports": ports(2000)})),
        (
            "spec.providerClusters",
            json!({"providerClusters": named(long)}),
        ),
        (
            "spec.consumerClusters",
            json!({"consumerClusters": named(100_000)}),
        ),
        (
            "spec.range.clusterNames",
            json!({"range": {"clusterNames": list(long)}}),
        ),
        (
            "spec.serviceProvisionClusters",
            json!({"serviceProvisionClusters": list(long)}),
        ),
        (
            "spec.serviceConsumptionClusters",
            json!({"serviceConsumptionClusters": list(long)}),
        ),
    ] {
        let created = create(spec(fields.clone()));
        created.is_refused(&[&refusal(path)]);
        let (untouched, _) = created.mutate(false);
        assert_eq!(untouched["spec"], created.object["spec"], "{path}");
        update(spec(json!({})), spec(fields.clone())).is_refused(&[&refusal(path)]);
        // A stored list stays: labels, annotations and finalizers may change.
        let stored = update(spec(fields.clone()), spec(fields));
        assert!(stored.validate().errors.is_empty(), "{path}");
    }
    let fine = create(spec(json!({"providerClusters": named(short)})));
    assert!(fine.validate().errors.is_empty());
    let tiers = |number: usize| vec!["local"; number].join(",");
    create(spec(json!({})))
        .with(|object| object["metadata"]["annotations"] = json!({PREFER: tiers(long)}))
        .is_refused(&[&refusal("metadata.annotations[mcs.causeway.dev/prefer]")]);
}

#[test]
fn huge_preference_is_validated_tier_by_tier() {
    let tiers = |tier: &dyn Fn(usize) -> String| {
        let tiers: Vec<_> = (0..ENTRIES_MAX).map(tier).collect();
        json!(tiers.join(","))
    };
    let names = many(|index| json!({"name": format!("a{index}")}));
    let listed = spec(json!({"providerClusters": names, "consumerClusters": names}));
    for preference in [
        tiers(&|index| format!("cluster/a{index}")),
        tiers(&|index| format!("cluster/A{index}")),
        tiers(&|_| "local".to_owned()),
        tiers(&|_| String::new()),
        tiers(&|_| "any".to_owned()),
    ] {
        let annotate = |object: &mut Value| {
            object["metadata"]["annotations"] = json!({PREFER: preference});
        };
        let created = create(spec(json!({}))).with(annotate);
        let added = update(listed.clone(), listed.clone()).with(annotate);
        let moved = update(spec(json!({})), listed.clone()).with(annotate);
        for request in [created, added, moved.with_stored(annotate)] {
            is_bounded(&request.clone().unknown_cluster(Strictness::Deny));
            is_bounded(&request);
        }
    }
}

#[test]
fn service_of_many_ports_is_indexed_once() {
    let names: Vec<_> = (0..20_000).map(|index| format!("p{index}")).collect();
    let ports: Vec<_> = names.iter().map(|name| (name.as_str(), 80)).collect();
    let wanted = (0..ENTRIES_MAX).map(|index| json!({"name": format!("q{index}"), "port": 80}));
    let wanted: Value = wanted.collect();
    let request = create(spec(json!({"ports": wanted}))).service(ServiceKind::Other, &ports);
    is_bounded(&request);
}

#[test]
fn text_of_megabytes_is_quoted_briefly() {
    let long = "x".repeat(3_000_000);
    for fields in [
        json!({"types": [long, long]}),
        json!({"ports": [{"name": long, "port": 80}, {"name": long, "port": 80}]}),
        json!({"providerClusters": [{"name": long}, {"name": long}]}),
        json!({"range": {"clusterNames": [long]}, "serviceConsumptionClusters": [long, "b"]}),
    ] {
        is_bounded(&create(spec(fields)));
    }
    for tier in [
        "",
        "cluster/",
        "same(",
        "property(a)",
        "property(a)=%",
        "property(a)&",
    ] {
        is_bounded(&create(spec(json!({}))).with(|object| {
            object["metadata"]["annotations"] = json!({PREFER: format!("{tier}{long}")});
        }));
    }
}
