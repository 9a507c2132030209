//! Texts of megabytes, which errors would quote. The [`summary`](super::summary) of the answer
//! begins with the last part of each row.

use serde_json::{Value, json};

use super::Row;
use crate::client::{fine, post};

const MIB: usize = 1024 * 1024;

pub(super) fn rows() -> Vec<Row> {
    let with = |path: &str, change: &dyn Fn(&mut Value)| {
        let mut review = fine();
        change(&mut review);
        post(path, &review.to_string())
    };
    let validate = |change: &dyn Fn(&mut Value)| with("/validate", change);
    let request = |change: &dyn Fn(&mut Value)| validate(&|review| change(&mut review["request"]));
    // serde writes six bytes for each of these.
    let escaped = "\u{7f}".repeat(6 * MIB);
    let long = "x".repeat(6 * MIB);
    let cluster = json!([{"name": "x".repeat(3_000_000)}]);
    let annotation = format!("karmada.io/elb.{}", "x".repeat(3_000_000));
    vec![
        (
            "a text as types",
            request(&|request| request["object"]["spec"]["types"] = json!(escaped)),
            "denied 400 ",
        ),
        (
            "a text as dryRun",
            request(&|request| request["dryRun"] = json!(escaped)),
            "400 ",
        ),
        (
            "an unknown operation",
            request(&|request| request["operation"] = json!(escaped)),
            "400 ",
        ),
        (
            "another kind",
            request(&|request| request["kind"]["kind"] = json!(long)),
            "denied 400 ",
        ),
        (
            "another version of the review",
            validate(&|review| review["apiVersion"] = json!(escaped)),
            "400 ",
        ),
        (
            "another kind of review",
            validate(&|review| review["kind"] = json!(escaped)),
            "400 ",
        ),
        (
            "the name of the only cluster",
            request(&|request| {
                request["object"]["spec"] = json!({
                    "types": ["CrossCluster"],
                    "providerClusters": cluster,
                    "consumerClusters": cluster,
                });
            }),
            "denied 422 ",
        ),
        (
            "the name of an annotation",
            request(&|request| {
                request["object"]["metadata"]["annotations"] = json!({ &annotation: "x" });
            }),
            "denied 422 ",
        ),
        (
            "the name of the object",
            request(&|request| {
                request["name"] = json!(long);
                request["object"]["metadata"]["name"] = json!("");
            }),
            "denied 422 ",
        ),
        (
            "the same, to be changed",
            with("/mutate", &|review| review["request"]["name"] = json!(long)),
            "allowed, patched",
        ),
    ]
}
