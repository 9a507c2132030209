use serde_json::{Value, json};

use super::*;
use crate::observe::fixtures::from;

/// Returns a Work of shop/foo in the namespace of a member. `own` holds the MultiClusterService,
/// `collected` and `dispatched` hold slices.
pub(crate) fn work(member: &str, what: &str) -> Work {
    let mut meta = json!({
        "namespace": format!("karmada-es-{member}"), "name": format!("foo-{what}"), "uid": format!("{member}-{what}"),
        "resourceVersion": "5", "generation": 1,
        "labels": { labels::WORK_SERVICE_NAMESPACE: "shop", labels::WORK_SERVICE_NAME: "foo" },
        "finalizers": ["karmada.io/execution-controller"],
    });
    match what {
        "collected" => {
            meta["labels"][labels::WORK_COLLECTED_BY] = json!("MultiClusterService");
            meta["finalizers"] = json!([DISPATCH_FINALIZER]);
        }
        "dispatched" => meta["annotations"] = json!({ labels::PROVISION_CLUSTER: "a" }),
        _ => {}
    }
    Work(from(meta))
}

/// Returns the slice that Karmada dispatched into b from a's `foo-abc`, with the given endpoints.
pub(crate) fn dispatched_slice(ready: &[(&str, bool)]) -> EndpointSlice {
    let endpoints = ready.iter().map(
        |(address, ready)| json!({ "addresses": [address], "conditions": { "ready": ready } }),
    );
    from(json!({
        "metadata": {
            "name": "a-foo-abc", "namespace": "shop", "uid": "k1", "resourceVersion": "9",
            "annotations": { labels::PROVISION_CLUSTER: "a" },
            "labels": {
                labels::SERVICE_NAME: "foo",
                labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER,
                labels::KARMADA_MANAGED: "true",
            },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints.collect::<Value>(),
    }))
}

#[test]
fn the_works_of_a_service_are_reported_apart_as_karmada_marks_them() {
    let key = ServiceKey::new("shop", "foo");
    for (what, manages, holds) in [
        ("own", true, true),
        ("collected", false, false),
        ("dispatched", true, false),
    ] {
        let work = work("a", what);
        assert_eq!(
            (work.manages_service(), work.holds_service()),
            (manages, holds),
            "{what}"
        );
        assert_eq!((work.member(), work.service()), ("a", Some(key.clone())));
        assert_eq!(work.others(), None, "{what}");
    }
    let mut shared = work("a", "collected");
    let labels = shared.0.labels.as_mut().expect("labels");
    labels.insert(
        labels::WORK_COLLECTED_BY.to_owned(),
        "ServiceExport.MultiClusterService".to_owned(),
    );
    assert_eq!(shared.others().as_deref(), Some("ServiceExport"));
    assert!(shared.others_finalizers().is_empty());
}

#[test]
fn a_slice_that_karmada_dispatched_names_its_source_and_bears_no_mark_of_causeways() {
    let slice = dispatched_slice(&[]);
    assert!(is_dispatched(&slice));
    assert_eq!(source(&slice), Some(("a", "foo-abc")));
    let marks: [fn(&mut BTreeMap<String, String>); 3] = [
        |labels| drop(labels.insert(labels::HUB.to_owned(), "hub".to_owned())),
        |labels| drop(labels.remove(labels::KARMADA_MANAGED)),
        |labels| {
            let kubernetes = labels::SLICE_CONTROLLER.to_owned();
            drop(labels.insert(labels::SLICE_MANAGED_BY.to_owned(), kubernetes));
        },
    ];
    for mark in marks {
        let mut other = slice.clone();
        mark(other.metadata.labels.as_mut().expect("labels"));
        assert!(!is_dispatched(&other), "{other:?}");
    }
}
