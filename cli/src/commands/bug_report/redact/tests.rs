use serde_json::json;

use super::*;

const JWT: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl";
const KEY: &str =
    "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIOcanaryOfAPrivateKey\n-----END EC PRIVATE KEY-----\n";

fn redactor() -> Redactor {
    Redactor::new().expect("patterns that make sense")
}

/// Texts, a line each, with the redacted text behind an arrow if it differs.
const TEXTS: &str = r#"
before -----BEGIN PRIVATE KEY-----\nMIIcanary and then the log was cut => before [left out]
Authorization: Bearer abc123 => Authorization: [left out] [left out]
header Basic dXNlcjpwYXNz1 => header Basic [left out]
it is no bearer token: it => it is no bearer token: [left out]
a basic problem
GET https://me:pa55@proxy:3128/x => GET https://[left out]@proxy:3128/x
proxyURL: http://me:pa'55@word@proxy:3128 => proxyURL: http://[left out]@proxy:3128
{"password":"ab\\cd\"ef","user":"u"} => {"password":[left out],"user":"u"}
https://member1:6443/api?token=abc&x=1 => https://member1:6443/api?token=[left out]&x=1
{"password":"a b c","user":"u"} => {"password":[left out],"user":"u"}
msg="{\"client-secret\": \"abc\"}" cluster=a => msg="{\"client-secret\": [left out]}" cluster=a
msg="retry, token=abc" cluster=a => msg="retry, token=[left out]" cluster=a
run --token abc --user me => run --token [left out] --user me
run --secret-namespace causeway-members
secretName=causeway-webhook-tls
Secret causeway-members/a not found
key AKIAIOSFODNN7EXAMPLE used => key [left out] used
join with abcdef.0123456789abcdef => join with [left out]
leader changed cluster=member1 endpoints=12 uid=1b4e28ba-2fa1-11d2-883f-0016d3cca427
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"#;

#[test]
fn what_looks_like_a_secret_is_left_out_of_a_text_and_the_rest_stays() {
    for line in TEXTS.lines() {
        let (text, expected) = line.split_once(" => ").unwrap_or((line, line));
        assert_eq!(redactor().text(text), expected, "{text}");
    }
    let authority = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let public = format!("caBundle {}", STANDARD.encode(authority));
    let both = STANDARD.encode(format!("-----BEGIN CERTIFICATE-----\nMIIB\n{KEY}"));
    let kubeconfig = STANDARD.encode("users: [{name: a, user: {token: swordfish}}]");
    let twice = STANDARD.encode(STANDARD.encode(KEY));
    for (text, expected) in [
        (format!("token is {JWT}, so"), "token is [left out], so"),
        (format!("before {KEY}after"), "before [left out]\nafter"),
        (public.clone(), &*public),
        (format!("pem {both} end"), "pem [left out] end"),
        (format!("config {kubeconfig} end"), "config [left out] end"),
        (format!("twice {twice}"), "twice [left out]"),
    ] {
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

/// Returns an object with its values, and with the redacted values. `object` calls its argument
/// with the value and the redacted value of each field.
fn both(object: impl Fn(&dyn Fn(&str, &str) -> String) -> Value) -> (Value, Value) {
    let given = object(&|value: &str, _: &str| value.to_owned());
    (
        given,
        object(&|_: &str, redacted: &str| redacted.to_owned()),
    )
}

#[test]
fn of_objects_only_what_is_harmless_is_kept_where_people_put_secrets() {
    let (mut given, expected) = both(|or| {
        let left = |value| or(value, LEFT_OUT);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "foo", "namespace": "shop",
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": left("kind: Secret"),
                    "mcs.causeway.dev/prefer": "local, any",
                    "example.com/kubeconfig": left("apiVersion: v1"),
                    "notkubernetes.io/x": left("y"),
                    "mcs.causeway.dev/probe": or(&format!("odd {JWT}"), "odd [left out]"),
                },
            },
            "spec": {
                "serviceAccountName": "causeway", "automountServiceAccountToken": false,
                "containers": [{
                    "args": [
                        "--admin-bind=0.0.0.0:8081", "--token", left("abc"),
                        or("--password=abc", "--password=[left out]"), "--lease=a/b",
                    ],
                    "env": [
                        {"name": "CAUSEWAY_LOG", "value": "info"},
                        {"name": "CAUSEWAY_TOKEN", "value": left("abc")},
                        {"name": "OTEL_EXPORTER_OTLP_HEADERS", "value": left("x-key=abc")},
                        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    ],
                    "livenessProbe": {
                        "httpGet": {"httpHeaders": [{"name": "x-key", "value": left("abc")}]},
                    },
                }],
                "volumes": [{"secret": {"secretName": "tls"}}],
            },
        })
    });
    given["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
    assert_eq!(redactor().object(given), expected);
}

#[test]
fn data_of_secrets_is_left_out_also_within_lists_and_headers_of_proxies_too() {
    let (given, expected) = both(|or| {
        let left = |value| or(value, LEFT_OUT);
        json!({
            "kind": "List",
            "items": [
                {
                    "kind": "Secret", "type": "Opaque",
                    "data": {"token": left("YWJj")}, "stringData": {"a": left("b")},
                },
                {"kind": "ConfigMap", "data": {"kubeconfig": left("abc")}},
                {"kind": "ServiceExport", "spec": {"exportedAnnotations": {
                    "example.com/token": left("abc"), "mcs.causeway.dev/prefer": "any",
                }}},
                {"kind": "Cluster", "spec": {
                    "apiEndpoint": "https://a:6443",
                    "proxyURL": or("http://u:p@proxy:3128", "http://[left out]@proxy:3128"),
                    "proxyHeader": {"Proxy-Authorization": left("abc")},
                    "secretRef": {"namespace": "causeway-members", "name": "a"},
                }},
            ],
        })
    });
    assert_eq!(redactor().object(given), expected);
}
