use serde_json::json;

use super::*;

const JWT: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl";
const KEY: &str =
    "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIOcanaryOfAPrivateKey\n-----END EC PRIVATE KEY-----\n";

fn redactor() -> Redactor {
    Redactor::new().expect("patterns that make sense")
}

#[test]
fn what_looks_like_a_secret_is_left_out_of_a_text_and_the_rest_stays() {
    let authority =
        STANDARD.encode("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    let both = STANDARD.encode(format!("-----BEGIN CERTIFICATE-----\nMIIB\n{KEY}"));
    let kubeconfig = STANDARD.encode("users: [{name: a, user: {token: swordfish}}]");
    for (text, expected) in [
        (format!("token is {JWT}, so"), "token is [left out], so"),
        (format!("before {KEY}after"), "before [left out]\nafter"),
        (
            "before -----BEGIN PRIVATE KEY-----\\nMIIcanary and then the log was cut".to_owned(),
            "before [left out]",
        ),
        (
            "Authorization: Bearer abc123".to_owned(),
            "Authorization: [left out] [left out]",
        ),
        (
            "header Basic dXNlcjpwYXNz1".to_owned(),
            "header Basic [left out]",
        ),
        (
            "it is no bearer token: it".to_owned(),
            "it is no bearer token: [left out]",
        ),
        ("a basic problem".to_owned(), "a basic problem"),
        (
            "GET https://me:pa55@proxy:3128/x".to_owned(),
            "GET https://[left out]@proxy:3128/x",
        ),
        (
            "proxyURL: http://me:pa'55@word@proxy:3128".to_owned(),
            "proxyURL: http://[left out]@proxy:3128",
        ),
        (
            r#"{"password":"ab\\cd\"ef","user":"u"}"#.to_owned(),
            r#"{"password":[left out],"user":"u"}"#,
        ),
        (
            "https://member1:6443/api?token=abc&x=1".to_owned(),
            "https://member1:6443/api?token=[left out]&x=1",
        ),
        (
            r#"{"password":"a b c","user":"u"}"#.to_owned(),
            r#"{"password":[left out],"user":"u"}"#,
        ),
        (
            r#"msg="{\"client-secret\": \"abc\"}" cluster=a"#.to_owned(),
            r#"msg="{\"client-secret\": [left out]}" cluster=a"#,
        ),
        (
            r#"msg="retry, token=abc" cluster=a"#.to_owned(),
            r#"msg="retry, token=[left out]" cluster=a"#,
        ),
        (
            "run --token abc --user me".to_owned(),
            "run --token [left out] --user me",
        ),
        (
            "run --secret-namespace causeway-members".to_owned(),
            "run --secret-namespace causeway-members",
        ),
        (
            "secretName=causeway-webhook-tls".to_owned(),
            "secretName=causeway-webhook-tls",
        ),
        (
            "Secret causeway-members/a not found".to_owned(),
            "Secret causeway-members/a not found",
        ),
        (
            "key AKIAIOSFODNN7EXAMPLE used".to_owned(),
            "key [left out] used",
        ),
        (
            "join with abcdef.0123456789abcdef".to_owned(),
            "join with [left out]",
        ),
        (format!("caBundle {authority}"), ""),
        (format!("pem {both} end"), "pem [left out] end"),
        (format!("config {kubeconfig} end"), "config [left out] end"),
        (
            format!("twice {}", STANDARD.encode(STANDARD.encode(KEY))),
            "twice [left out]",
        ),
        (
            "leader changed cluster=member1 endpoints=12 uid=1b4e28ba-2fa1-11d2-883f-0016d3cca427"
                .to_owned(),
            "",
        ),
        (
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
            "",
        ),
    ] {
        let expected = if expected.is_empty() { &text } else { expected };
        assert_eq!(redactor().text(&text), expected, "{text}");
    }
}

#[test]
fn known_values_are_left_out_wherever_and_however_they_stand() {
    let mut redactor = redactor();
    redactor.know("correct horse battery staple");
    redactor.know(KEY);
    redactor.know("short");
    let encoded = STANDARD.encode("correct horse battery staple");
    let within = STANDARD.encode("x: correct horse battery staple, y");
    for (text, expected) in [
        ("say correct horse battery staple!", "say [left out]!"),
        (&*format!("value {encoded}"), "value [left out]"),
        (&*format!("value {within} end"), "value [left out] end"),
        (
            "a line MHcCAQEEIOcanaryOfAPrivateKey alone",
            "a line [left out] alone",
        ),
        ("in short", "in short"),
    ] {
        assert_eq!(redactor.text(text), expected, "{text}");
    }
    assert!(redactor.counts()[&Secret::Known] >= 4);
}

#[test]
fn of_objects_only_what_is_harmless_is_kept_where_people_put_secrets() {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "foo", "namespace": "shop", "managedFields": [{"manager": "kubectl"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"kind\":\"Secret\"}",
                "mcs.causeway.dev/prefer": "local, any",
                "example.com/kubeconfig": "apiVersion: v1",
                "notkubernetes.io/x": "y",
                "mcs.causeway.dev/probe": format!("odd {JWT}"),
            },
        },
        "spec": {
            "serviceAccountName": "causeway", "automountServiceAccountToken": false,
            "containers": [{
                "args": ["--admin-bind=0.0.0.0:8081", "--token", "abc", "--password=abc", "--lease=a/b"],
                "env": [
                    {"name": "CAUSEWAY_LOG", "value": "info"},
                    {"name": "CAUSEWAY_TOKEN", "value": "abc"},
                    {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": "x-key=abc"},
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "x-key", "value": "abc"}]}},
            }],
            "volumes": [{"secret": {"secretName": "tls"}}],
        },
    });
    let expected = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "foo", "namespace": "shop",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": LEFT_OUT,
                "mcs.causeway.dev/prefer": "local, any",
                "example.com/kubeconfig": LEFT_OUT,
                "notkubernetes.io/x": LEFT_OUT,
                "mcs.causeway.dev/probe": "odd [left out]",
            },
        },
        "spec": {
            "serviceAccountName": "causeway", "automountServiceAccountToken": false,
            "containers": [{
                "args": ["--admin-bind=0.0.0.0:8081", "--token", LEFT_OUT, "--password=[left out]", "--lease=a/b"],
                "env": [
                    {"name": "CAUSEWAY_LOG", "value": "info"},
                    {"name": "CAUSEWAY_TOKEN", "value": LEFT_OUT},
                    {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": LEFT_OUT},
                    {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "x-key", "value": LEFT_OUT}]}},
            }],
            "volumes": [{"secret": {"secretName": "tls"}}],
        },
    });
    assert_eq!(redactor().object(object), expected);
}

#[test]
fn data_of_secrets_is_left_out_also_within_lists_and_headers_of_proxies_too() {
    let object = json!({
        "kind": "List",
        "items": [
            {"kind": "Secret", "type": "Opaque", "data": {"token": "YWJj"}, "stringData": {"a": "b"}},
            {"kind": "ConfigMap", "data": {"kubeconfig": "abc"}},
            {"kind": "Cluster", "spec": {
                "apiEndpoint": "https://a:6443", "proxyURL": "http://u:p@proxy:3128",
                "proxyHeader": {"Proxy-Authorization": "abc"},
                "secretRef": {"namespace": "causeway-members", "name": "a"},
            }},
        ],
    });
    let expected = json!({
        "kind": "List",
        "items": [
            {"kind": "Secret", "type": "Opaque", "data": {"token": LEFT_OUT}, "stringData": {"a": LEFT_OUT}},
            {"kind": "ConfigMap", "data": {"kubeconfig": LEFT_OUT}},
            {"kind": "Cluster", "spec": {
                "apiEndpoint": "https://a:6443", "proxyURL": "http://[left out]@proxy:3128",
                "proxyHeader": {"Proxy-Authorization": LEFT_OUT},
                "secretRef": {"namespace": "causeway-members", "name": "a"},
            }},
        ],
    });
    assert_eq!(redactor().object(object), expected);
}
