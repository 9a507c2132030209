//! Requests other than admission requests, and the form of answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame};
use serde_json::{Value, json};

use crate::caller::{Called, UID, create, patch, post, read};
use crate::hub;

async fn called() -> Called {
    Called::new(hub::unreachable().await).await
}

#[tokio::test]
async fn answer_to_another_method_names_post() {
    let called = called().await;
    for path in ["/mutate", "/validate"] {
        for method in ["GET", "HEAD", "PUT"] {
            let request = Request::builder().method(method).uri(path);
            let request = request.body(Full::<Bytes>::default()).expect("a request");
            let response = called.send(request).await;
            assert_eq!(response.status().as_u16(), 405, "{method} {path}");
            assert_eq!(response.headers()["allow"], "POST", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn an_answer_bears_the_uid_and_a_patch_as_base64() {
    let called = called().await;
    let review = create(json!({"types": ["CrossCluster"], "range": {"clusterNames": ["a"]}}));
    let (code, answer) = called.review("/mutate", &review).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], UID);
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(
        patch(&answer),
        json!([
            {"op": "add", "path": "/metadata/labels", "value": {"multiclusterservice.karmada.io/permanent-id": UID}},
            {"op": "add", "path": "/spec/consumerClusters", "value": [{"name": "a"}]},
            {"op": "remove", "path": "/spec/range"},
        ])
    );
    assert_eq!(
        answer["response"]["warnings"],
        json!([
            "spec.range.clusterNames is deprecated and was converted to spec.consumerClusters; write spec.consumerClusters instead: when spec.range.clusterNames goes from the manifest, spec.consumerClusters stays as it is"
        ])
    );
}

#[tokio::test]
async fn denial_has_the_details_that_kubectl_reads() {
    let called = called().await;
    let (code, answer) = called
        .review("/validate", &kube_system(json!({"types": []})))
        .await;
    assert_eq!(code, StatusCode::OK);
    let response = &answer["response"];
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&json!(UID), &json!(false))
    );
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    let message = status["message"].as_str().expect("a message");
    assert!(
        message.starts_with("[metadata.namespace: Invalid value: \"kube-system\": ")
            && message.ends_with(
                ", spec.types: Required value: name one type: CrossCluster or LoadBalancer]"
            ),
        "{message}"
    );
    assert_eq!(status["details"]["kind"], "MultiClusterService");
    assert_eq!(
        status["details"]["causes"][2],
        json!({"reason": "FieldValueRequired", "field": "spec.types",
            "message": "Required value: name one type: CrossCluster or LoadBalancer"})
    );
}

/// A creation whose faults show without the hub: its name is no Service's.
fn kube_system(spec: Value) -> Value {
    let mut review = create(spec);
    review["request"]["namespace"] = json!("kube-system");
    review["request"]["object"]["metadata"]["name"] = json!("a.b");
    review
}

#[tokio::test]
async fn first_20_errors_and_10_warnings_are_shown() {
    let called = called().await;
    let bad: Vec<_> = (0..25)
        .map(|index| json!({"name": format!("B{index}")}))
        .collect();
    let twice: Vec<_> = (0..13).map(|_| json!("CrossCluster")).collect();
    let mut review = create(json!({"types": ["CrossCluster"]}));
    review["request"]["operation"] = json!("UPDATE");
    review["request"]["oldObject"] = review["request"]["object"].clone();
    review["request"]["object"]["spec"] = json!({"types": twice, "providerClusters": bad});
    let (_, answer) = called.review("/validate", &review).await;
    let causes = answer["response"]["status"]["details"]["causes"]
        .as_array()
        .expect("causes");
    assert_eq!(causes.len(), 21);
    assert_eq!(causes[20]["message"], "5 more errors are not shown");
    let message = answer["response"]["status"]["message"]
        .as_str()
        .expect("a message");
    assert!(
        message.ends_with(", 5 more errors are not shown]"),
        "{message}"
    );
    let warnings = answer["response"]["warnings"].as_array().expect("warnings");
    assert_eq!(warnings.len(), 11);
    assert_eq!(warnings[10], "2 more warnings are not shown");
}

#[tokio::test]
async fn unvalidated_requests_are_allowed_and_other_kinds_denied() {
    let called = called().await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut review = create(json!("unreadable"));
        change(&mut review["request"]);
        review
    };
    let service = json!({"group": "", "version": "v1", "kind": "Service"});
    let later =
        json!({"group": "networking.karmada.io", "version": "v1", "kind": "MultiClusterService"});
    let cases: Vec<(&str, Value, bool, bool)> = vec![
        (
            "a deletion",
            with(&|request| request["operation"] = json!("DELETE")),
            true,
            true,
        ),
        (
            "a connection",
            with(&|request| request["operation"] = json!("CONNECT")),
            true,
            true,
        ),
        (
            "the deletion of another kind",
            with(&|request| {
                request["operation"] = json!("DELETE");
                request["kind"] = service.clone();
            }),
            true,
            true,
        ),
        (
            "a subresource",
            with(&|request| request["subResource"] = json!("status")),
            true,
            true,
        ),
        (
            "another kind",
            with(&|request| request["kind"] = service.clone()),
            false,
            false,
        ),
        (
            "another version",
            with(&|request| request["kind"] = later.clone()),
            false,
            false,
        ),
        ("an object that does not decode", with(&|_| ()), true, false),
        (
            "no object",
            with(&|request| request["object"] = json!(null)),
            true,
            false,
        ),
        (
            "an object that does not decode, of one that is being deleted",
            with(&|request| {
                request["operation"] = json!("UPDATE");
                request["oldObject"] = request["object"].clone();
                request["oldObject"]["metadata"]["deletionTimestamp"] =
                    json!("2026-01-01T00:00:00Z");
            }),
            true,
            true,
        ),
    ];
    for (what, review, mutate, validate) in cases {
        for (path, allowed) in [("/mutate", mutate), ("/validate", validate)] {
            let (code, answer) = called.review(path, &review).await;
            assert_eq!(code, StatusCode::OK, "{what}");
            assert_eq!(answer["response"]["uid"], UID, "{what}");
            assert_eq!(
                answer["response"]["allowed"], allowed,
                "{path} of {what}: {answer}"
            );
            assert!(
                answer["response"]["patch"].is_null(),
                "{path} of {what}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn requests_are_counted_by_webhook_and_decision() {
    let called = called().await;
    called
        .review("/mutate", &create(json!({"types": []})))
        .await;
    called
        .review("/validate", &create(json!("unreadable")))
        .await;
    called.review("/validate", &json!({})).await;
    let text = called.process.metrics.encode().expect("metrics");
    for line in [
        "causeway_webhook_request_duration_seconds_count{webhook=\"mutate\",decision=\"allowed\"} 1",
        "causeway_webhook_request_duration_seconds_count{webhook=\"validate\",decision=\"denied\"} 1",
        "causeway_webhook_request_duration_seconds_count{webhook=\"validate\",decision=\"rejected\"} 1",
        "causeway_webhook_requests_in_flight 0",
        "causeway_certificate_rotations_total 0",
        "causeway_certificate_rotation_failures_total 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

/// A body that panics when it is read.
struct Panics;

impl Body for Panics {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_panic_in_a_request_is_its_internal_error_and_is_counted() {
    let called = called().await;
    for count in 1..=2 {
        let request = post("/mutate").body(Panics).expect("a request");
        let (code, status) = read(called.send(request).await).await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{status}");
        assert_eq!(
            status["message"],
            "an internal error; the log of the webhook has it"
        );
        let text = called.process.metrics.encode().expect("metrics");
        for line in [
            format!("causeway_panics_total{{task=\"request\"}} {count}"),
            "causeway_webhook_requests_in_flight 0".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
    let (code, _) = called
        .review("/mutate", &kube_system(json!({"types": []})))
        .await;
    assert_eq!(code, StatusCode::OK);
}
