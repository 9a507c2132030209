//! Every combination of the three fields that name the consumers, of each type, before and after.

use causeway::api::MultiClusterServiceSpec;
use causeway::domain::MultiClusterService;
use serde_json::{Value, json};

use crate::request::{Request, create, update};

const TYPES: [&str; 2] = ["CrossCluster", "LoadBalancer"];

/// Each field absent, empty, or naming one cluster or another.
fn specs(type_: &str) -> Vec<Value> {
    let names = [
        None,
        Some(json!([])),
        Some(json!(["a"])),
        Some(json!(["b"])),
    ];
    let mut specs = Vec::new();
    for consumers in &names {
        for range in &names {
            for consumption in &names {
                let mut spec = json!({"types": [type_]});
                if let Some(names) = consumers {
                    let names = names.as_array().expect("names").iter();
                    spec["consumerClusters"] = names.map(|name| json!({"name": name})).collect();
                }
                if let Some(names) = range {
                    spec["range"] = json!({"clusterNames": names});
                }
                if let Some(names) = consumption {
                    spec["serviceConsumptionClusters"] = names.clone();
                }
                specs.push(spec);
            }
        }
    }
    specs
}

fn decoded(spec: &Value) -> MultiClusterServiceSpec {
    serde_json::from_value(spec.clone()).expect("a spec")
}

fn is_readable(spec: &Value) -> bool {
    MultiClusterService::try_from(&decoded(spec)).is_ok()
}

fn has_deprecated(spec: &Value) -> bool {
    spec.get("range").is_some() || spec.get("serviceConsumptionClusters").is_some()
}

/// The request as the validation gets it.
fn mutated(request: &Request) -> Request {
    let (object, _) = request.mutate(false);
    request.clone().with(|known| *known = object)
}

fn every_request() -> impl Iterator<Item = Request> {
    TYPES.into_iter().flat_map(|type_| {
        let updates = specs(type_).into_iter().flat_map(move |stored| {
            specs(type_)
                .into_iter()
                .map(move |spec| update(stored.clone(), spec))
        });
        specs(type_).into_iter().map(create).chain(updates)
    })
}

#[test]
fn mutation_is_idempotent() {
    for request in every_request() {
        let once = mutated(&request);
        let (twice, warnings) = once.mutate(false);
        assert_eq!(once.object, twice, "of {:#}", request.object);
        assert!(warnings.is_empty(), "{warnings:?} of {:#}", once.object);
    }
}

#[test]
fn decision_is_the_same_with_and_without_the_mutation() {
    for request in every_request() {
        let (raw, after) = (request.validate(), mutated(&request).validate());
        assert_eq!(raw.errors, after.errors, "of {:#}", request.object);
        assert_eq!(raw.warnings, after.warnings, "of {:#}", request.object);
    }
}

#[test]
fn accepted_object_parses_and_holds_no_changed_deprecation() {
    let mut accepted = 0;
    for request in every_request() {
        let after = mutated(&request);
        let spec = &after.object["spec"];
        let stored = request.stored.as_ref().map(|stored| &stored["spec"]);
        let changed =
            stored.is_none_or(|stored| decoded(stored) != decoded(&request.object["spec"]));
        if !after.validate().errors.is_empty() {
            assert!(changed, "an unchanged object was refused: {spec:#}");
            continue;
        }
        accepted += 1;
        let was_readable = stored.is_none_or(is_readable);
        assert!(
            is_readable(spec) || !was_readable,
            "{spec:#} after {stored:#?}"
        );
        assert!(
            !changed || !has_deprecated(spec) || !was_readable,
            "{spec:#} after {stored:#?}"
        );
    }
    assert!(accepted > 1000, "only {accepted} were accepted");
}
