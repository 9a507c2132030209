//! Errors of the review.

use serde_json::{Value, json};

use super::{Row, fine_with};
use crate::client::{UID, fine, post};

pub(super) fn rows() -> Vec<Row> {
    let with = |path: &str, change: &dyn Fn(&mut Value)| {
        let mut review = fine();
        change(&mut review);
        post(path, &review.to_string())
    };
    let mutate = |change: &dyn Fn(&mut Value)| with("/mutate", change);
    let request = |change: &dyn Fn(&mut Value)| mutate(&|review| change(&mut review["request"]));
    let twice = |from: &str, to: &str| post("/mutate", &fine_with(from, to));
    let uid = format!("\"uid\":\"{UID}\"");
    let long_name = |review: &mut Value| {
        let name = json!("x".repeat(254));
        review["request"]["name"] = name.clone();
        review["request"]["object"]["metadata"]["name"] = name;
    };
    vec![
        (
            "v1beta1",
            mutate(&|review| review["apiVersion"] = json!("admission.k8s.io/v1beta1")),
            "400 the body is \"AdmissionReview\" of \"admission.k8s.io/v1beta1\", not an AdmissionReview of admission.k8s.io/v1; register the webhook with admissionReviewVersions: [v1]",
        ),
        (
            "another kind of review",
            mutate(&|review| review["kind"] = json!("ConversionReview")),
            "400 the body is \"ConversionReview\" of \"admission.k8s.io/v1\", not an AdmissionReview of admission.k8s.io/v1; register the webhook with admissionReviewVersions: [v1]",
        ),
        (
            "no version",
            mutate(&|review| review["apiVersion"] = json!(null)),
            "400 the body is no AdmissionReview: invalid type: null, expected a string at line 1 column 18",
        ),
        (
            "no request",
            mutate(&|review| review["request"] = json!(null)),
            "400 the AdmissionReview has no request with a uid",
        ),
        (
            "a request that is a list",
            mutate(&|review| review["request"] = json!([UID])),
            "400 the body is no AdmissionReview: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            "the review as a list",
            post(
                "/mutate",
                &json!(["admission.k8s.io/v1", "AdmissionReview", fine()["request"]]).to_string(),
            ),
            "400 the body is no AdmissionReview: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            "a response beside the request",
            mutate(&|review| review["response"] = json!({"uid": UID, "allowed": true})),
            "allowed, patched",
        ),
        (
            "keys in capitals",
            post("/mutate", &fine_with("\"request\":", "\"Request\":")),
            "400 the AdmissionReview has no request with a uid",
        ),
        (
            "no uid",
            request(&|request| request["uid"] = json!(null)),
            "400 the body is no AdmissionReview: invalid type: null, expected a string at line 1 column 452",
        ),
        (
            "an empty uid",
            request(&|request| request["uid"] = json!("")),
            "400 the AdmissionReview has no request with a uid",
        ),
        (
            "a uid of 129 bytes",
            request(&|request| request["uid"] = json!("x".repeat(129))),
            "400 the uid of the request has 129 bytes, more than 128",
        ),
        (
            "a name of 254 bytes, to be changed",
            mutate(&long_name),
            "allowed, patched",
        ),
        (
            "a name of 254 bytes",
            with("/validate", &long_name),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
        (
            "a uid, a namespace and a name of the largest size, and no object",
            request(&|request| {
                request["uid"] = json!("x".repeat(128));
                request["namespace"] = json!("x".repeat(63));
                request["name"] = json!("x".repeat(253));
                request["object"] = json!(null);
            }),
            "allowed",
        ),
        (
            "a number as uid",
            request(&|request| request["uid"] = json!(7)),
            "400 the body is no AdmissionReview: invalid type: integer `7`, expected a string at line 1 column 449",
        ),
        (
            "a uid of markup",
            with("/validate", &|review| {
                review["request"]["uid"] = json!("\"}<script>\r\n\u{0}")
            }),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
        (
            "an operation in small letters",
            request(&|request| request["operation"] = json!("create")),
            "400 the body is no AdmissionReview: unknown variant `create`, expected one of `CREATE`, `UPDATE`, `DELETE`, `CONNECT` at line 1 column 341",
        ),
        (
            "no operation",
            request(&|request| request["operation"] = json!(null)),
            "400 the body is no AdmissionReview: expected value at line 1 column 334",
        ),
        (
            "a number as namespace",
            request(&|request| request["namespace"] = json!(7)),
            "400 the body is no AdmissionReview: invalid type: integer `7`, expected a string at line 1 column 133",
        ),
        (
            "a text as dryRun",
            request(&|request| request["dryRun"] = json!("true")),
            "400 the body is no AdmissionReview: invalid type: string \"true\", expected a boolean at line 1 column 16",
        ),
        (
            "a text as kind",
            request(&|request| request["kind"] = json!("MultiClusterService")),
            "400 the body is no AdmissionReview: invalid type: string \"MultiClusterService\", expected an object at line 1 column 44",
        ),
        (
            "two versions",
            twice(
                "\"kind\":\"AdmissionReview\"",
                "\"kind\":\"AdmissionReview\",\"kind\":\"AdmissionReview\"",
            ),
            "400 the body is no AdmissionReview: duplicate field `kind` at line 1 column 67",
        ),
        (
            "two requests",
            twice(
                "\"apiVersion\":\"admission.k8s.io/v1\"",
                "\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{}",
            ),
            "400 the body is no AdmissionReview: duplicate field `request` at line 1 column 83",
        ),
        (
            "two uids",
            twice(&uid, &format!("{uid},{uid}")),
            "400 the body is no AdmissionReview: duplicate field `uid` at line 1 column 492",
        ),
        (
            "two uids, one disguised",
            twice(&uid, &format!("{uid},\"\\u0075id\":\"x\"")),
            "400 the body is no AdmissionReview: duplicate field `uid` at line 1 column 497",
        ),
        (
            "two operations",
            twice(
                "\"operation\":\"CREATE\"",
                "\"operation\":\"DELETE\",\"operation\":\"CREATE\"",
            ),
            "400 the body is no AdmissionReview: duplicate field `operation` at line 1 column 353",
        ),
        (
            "two objects",
            twice("\"oldObject\":null", "\"oldObject\":null,\"object\":null"),
            "400 the body is no AdmissionReview: duplicate field `object` at line 1 column 329",
        ),
        (
            "two keys that are not read",
            twice("\"userInfo\":{}", "\"userInfo\":{\"a\":1,\"a\":2}"),
            "allowed, patched",
        ),
    ]
}
