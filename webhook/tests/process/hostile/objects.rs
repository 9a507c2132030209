//! Errors of the reviewed object.

use serde_json::{Value, json};

use super::{Row, fine_with};
use crate::client::{fine, post};

pub(super) fn rows() -> Vec<Row> {
    let with = |path: &str, change: &dyn Fn(&mut Value)| {
        let mut review = fine();
        change(&mut review["request"]);
        post(path, &review.to_string())
    };
    let validate = |change: &dyn Fn(&mut Value)| with("/validate", change);
    let spec = |spec: Value| validate(&|request| request["object"]["spec"] = spec.clone());
    let validate_text = |from: &str, to: &str| post("/validate", &fine_with(from, to));
    let ports = |port: &str| {
        let spec =
            format!("\"spec\":{{\"types\":[\"CrossCluster\"],\"ports\":[{{\"port\":{port}}}]}}");
        validate_text("\"spec\":{\"types\":[]}", &spec)
    };
    let types: Vec<_> = (0..300_000).map(|_| "X").collect();
    let clusters: Vec<_> = (0..100_000)
        .map(|n| json!({"name": format!("{n}_")}))
        .collect();
    let numbers: Vec<_> = (0..100_000).map(|n| json!({"port": n + 1})).collect();
    vec![
        (
            "as it should be",
            validate(&|_| ()),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
        (
            "no object",
            validate(&|request| request["object"] = json!(null)),
            "denied 400 the MultiClusterService cannot be read: the request holds no object",
        ),
        (
            "a list as object",
            validate(&|request| request["object"] = json!([{}, {}])),
            "denied 400 the MultiClusterService cannot be read: invalid type: sequence, expected an object at line 1 column 0",
        ),
        (
            "a text as object",
            validate(&|request| request["object"] = json!("x")),
            "denied 400 the MultiClusterService cannot be read: invalid type: string \"x\", expected an object at line 1 column 3",
        ),
        (
            "the same, to be changed",
            with("/mutate", &|request| request["object"] = json!("x")),
            "allowed",
        ),
        (
            "a list as metadata",
            validate(&|request| request["object"]["metadata"] = json!(["a"])),
            "denied 400 the MultiClusterService cannot be read: invalid type: sequence, expected an object at line 1 column 87",
        ),
        (
            "a list as spec",
            spec(json!([["CrossCluster"]])),
            "denied 400 the MultiClusterService cannot be read: invalid type: sequence, expected an object at line 1 column 135",
        ),
        (
            "a text as types",
            spec(json!({"types": "CrossCluster"})),
            "denied 400 the MultiClusterService cannot be read: invalid type: string \"CrossCluster\", expected a sequence at line 1 column 158",
        ),
        (
            "a list in types",
            spec(json!({"types": [["CrossCluster"]]})),
            "denied 400 the MultiClusterService cannot be read: invalid type: sequence, expected a string at line 1 column 145",
        ),
        (
            "null in types",
            spec(json!({"types": [null]})),
            "denied 400 the MultiClusterService cannot be read: invalid type: null, expected a string at line 1 column 149",
        ),
        (
            "two specs",
            validate_text(
                "\"spec\":{\"types\":[]}",
                "\"spec\":{\"types\":[]},\"spec\":{\"types\":[\"CrossCluster\"]}",
            ),
            "denied 400 the MultiClusterService cannot be read: duplicate field `spec` at line 1 column 154",
        ),
        (
            "two specs, one disguised",
            validate_text(
                "\"spec\":{\"types\":[]}",
                "\"spec\":{\"types\":[]},\"sp\\u0065c\":{\"types\":[\"CrossCluster\"]}",
            ),
            "denied 400 the MultiClusterService cannot be read: duplicate field `spec` at line 1 column 159",
        ),
        (
            "two specs, to be changed",
            post(
                "/mutate",
                &fine_with(
                    "\"spec\":{\"types\":[]}",
                    "\"spec\":{\"types\":[]},\"spec\":{}",
                ),
            ),
            "allowed",
        ),
        (
            "two lists of types",
            validate_text("\"types\":[]", "\"types\":[],\"types\":[\"CrossCluster\"]"),
            "denied 400 the MultiClusterService cannot be read: duplicate field `types` at line 1 column 154",
        ),
        (
            "two names",
            validate_text(
                "\"metadata\":{\"name\":\"a.b\"",
                "\"metadata\":{\"name\":\"x\",\"name\":\"a.b\"",
            ),
            "denied 400 the MultiClusterService cannot be read: duplicate field `name` at line 1 column 105",
        ),
        (
            "two permanent-ids",
            validate_text(
                "\"metadata\":{\"name\":\"a.b\"",
                "\"metadata\":{\"labels\":{\"multiclusterservice.karmada.io/permanent-id\":\"a\",\"multiclusterservice.karmada.io/permanent-id\":\"b\"},\"name\":\"a.b\"",
            ),
            "denied 400 the MultiClusterService cannot be read: duplicate field `multiclusterservice.karmada.io/permanent-id` at line 1 column 193",
        ),
        (
            "a number as permanent-id",
            validate(&|request| {
                request["object"]["metadata"]["labels"] =
                    json!({"multiclusterservice.karmada.io/permanent-id": 1})
            }),
            "denied 400 the MultiClusterService cannot be read: invalid type: integer `1`, expected a string at line 1 column 145",
        ),
        (
            "port 0",
            ports("0"),
            "denied 422 rs or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive]",
        ),
        (
            "port -1",
            ports("-1"),
            "denied 422 s or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.ports[0].port: Invalid value: -1: must be between 1 and 65535, inclusive]",
        ),
        (
            "port 2^31",
            ports("2147483648"),
            "denied 400 the MultiClusterService cannot be read: invalid value: integer `2147483648`, expected i32 at line 1 column 188",
        ),
        (
            "port 80.5",
            ports("80.5"),
            "denied 400 the MultiClusterService cannot be read: invalid type: floating point `80.5`, expected i32 at line 1 column 182",
        ),
        (
            "port 8e1",
            ports("8e1"),
            "denied 400 the MultiClusterService cannot be read: invalid type: floating point `80.0`, expected i32 at line 1 column 181",
        ),
        (
            "port \"80\"",
            ports("\"80\""),
            "denied 400 the MultiClusterService cannot be read: invalid type: string \"80\", expected i32 at line 1 column 182",
        ),
        (
            "port null",
            ports("null"),
            "denied 400 the MultiClusterService cannot be read: invalid type: null, expected i32 at line 1 column 182",
        ),
        (
            "300,000 types",
            spec(json!({"types": types})),
            "denied 422 spec.types: Too many: must have at most 1024 items",
        ),
        (
            "100,000 clusters",
            spec(json!({"types": ["CrossCluster"], "providerClusters": clusters})),
            "denied 422 spec.providerClusters: Too many: must have at most 1024 items",
        ),
        (
            "100,000 ports",
            spec(json!({"types": ["CrossCluster"], "ports": numbers})),
            "denied 422 spec.ports: Too many: must have at most 1024 items",
        ),
        (
            "a name of a megabyte",
            validate(&|request| request["object"]["metadata"]["name"] = json!("x".repeat(1 << 20))),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
        (
            "a name with a zero byte",
            validate(&|request| request["object"]["metadata"]["name"] = json!("a\u{0}b")),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
        (
            "a namespace that leads elsewhere",
            validate(&|request| request["namespace"] = json!("../../api")),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
        (
            "a namespace of megabytes and 1,024 ports",
            validate(&|request| {
                request["namespace"] = json!("x".repeat(6 << 20));
                request["object"]["spec"] =
                    json!({"types": ["CrossCluster"], "ports": numbers[..1024]});
            }),
            "400 the namespace of the request has 6291456 bytes, more than 63",
        ),
        (
            "a deletion of rubbish",
            validate(&|request| {
                request["operation"] = json!("DELETE");
                request["object"] = json!([]);
            }),
            "allowed",
        ),
        (
            "a status of rubbish",
            validate(&|request| {
                request["subResource"] = json!("status");
                request["object"] = json!([]);
            }),
            "allowed",
        ),
        (
            "another kind",
            validate(&|request| request["kind"]["kind"] = json!("Secret")),
            "denied 400 networking.karmada.io/v1alpha1 Secret was sent to causeway's webhook, which validates MultiClusterServices of networking.karmada.io/v1alpha1 only; correct the rules of the webhook configuration",
        ),
        (
            "another group",
            validate(&|request| request["kind"]["group"] = json!("evil.io")),
            "denied 400 evil.io/v1alpha1 MultiClusterService was sent to causeway's webhook, which validates MultiClusterServices of networking.karmada.io/v1alpha1 only; correct the rules of the webhook configuration",
        ),
        (
            "an update of rubbish",
            validate(&|request| {
                request["operation"] = json!("UPDATE");
                request["oldObject"] = json!([]);
            }),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
        (
            "an update of nothing",
            validate(&|request| request["operation"] = json!("UPDATE")),
            "denied 422 racters or '-', must start and end with an alphanumeric character, and has at most 63 characters (e.g. 'my-name' or '123-abc'), spec.types: Required value: name one type: CrossCluster or LoadBalancer]",
        ),
    ]
}
