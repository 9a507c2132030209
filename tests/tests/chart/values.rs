//! The values of the chart: the schema describes each of them, and refuses others with a sentence.

use std::collections::BTreeMap;

use causeway_tests::{binaries, chart};
use serde_json::Value;

fn read(file: &str) -> String {
    std::fs::read_to_string(chart::directory().join(file)).expect(file)
}

fn schema() -> Value {
    serde_json::from_str(&read("values.schema.json")).expect("a schema")
}

/// Every object of a schema that has properties, by its path.
fn parts(schema: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    if let Some(properties) = schema["properties"].as_object() {
        found.insert(path.to_owned(), schema.clone());
        for (name, property) in properties {
            parts(property, &format!("{path}/{name}"), found);
        }
    }
    if schema["items"].is_object() {
        parts(&schema["items"], &format!("{path}/items"), found);
    }
}

#[test]
fn every_value_is_described_and_no_other_is_let_in() {
    let mut found = BTreeMap::new();
    parts(&schema(), "", &mut found);
    assert!(found.len() > 15);
    for (path, part) in found {
        assert_eq!(part["additionalProperties"], false, "{path}");
        for (name, property) in part["properties"].as_object().unwrap() {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(description.ends_with('.'), "{path}/{name}: {description:?}");
        }
    }
}

#[test]
fn the_values_are_those_of_the_schema() {
    fn compare(values: &Value, schema: &Value, path: &str) {
        let Some(properties) = schema["properties"].as_object() else {
            return;
        };
        let Some(values) = values.as_object() else {
            panic!("{path} is no object");
        };
        // Empty: a person fills it in.
        if values.is_empty() {
            return;
        }
        for name in values.keys() {
            assert!(properties.contains_key(name), "{path}/{name}");
        }
        // What Kubernetes has beside them is only passed on.
        let passed_on = [
            "/global",
            "/webhook/resources/claims",
            "/controller/resources/claims",
            "/tunnel/resources/claims",
        ];
        for (name, property) in properties {
            let path = format!("{path}/{name}");
            match values.get(name) {
                Some(value) => compare(value, property, &path),
                None => assert!(
                    passed_on.contains(&path.as_str()),
                    "values.yaml lacks {path}"
                ),
            }
        }
    }
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).expect("YAML");
    compare(&values, &schema(), "");
}

/// Values that the schema refuses, with words of the refusal. Helm names all of a list at once.
const REFUSED_BY_SCHEMA: [&[(&str, &str)]; 3] = [
    &[
        (
            "webhook.replicas=two",
            "at '/webhook/replicas': got string, want integer",
        ),
        (
            "webhook.replica=3",
            "at '/webhook': additional properties 'replica' not allowed",
        ),
        (
            "image.repository=a",
            "at '/image': additional properties 'repository' not allowed",
        ),
        (
            "image.registry=https://registry.example",
            "at '/image/registry': 'https://registry.example' does not match pattern",
        ),
        ("image.tag=1", "at '/image/tag': got number, want string"),
        (
            "webhook.image.digest=sha256:12",
            "at '/webhook/image/digest'",
        ),
        (
            "webhook.missingService=maybe",
            "at '/webhook/missingService': value must be one of",
        ),
        (
            "webhook.certificates.source=vault",
            "value must be one of 'selfManaged', 'certManager', 'secret'",
        ),
        (
            "webhook.extraArgs[0]=unknown-cluster",
            "at '/webhook/extraArgs/0'",
        ),
        (
            "external.enabled=true,external.webhookURL=http://a",
            "at '/external/webhookURL'",
        ),
        (
            "metrics.podMonitor.interval=often",
            "at '/metrics/podMonitor/interval'",
        ),
        (
            "tracing.endpoint=collector:4318",
            "at '/tracing/endpoint': 'collector:4318' does not match pattern",
        ),
        (
            "tracing.sampler=sometimes",
            "at '/tracing/sampler': value must be one of",
        ),
        (
            "webhook.timeoutSeconds=60",
            "at '/webhook/timeoutSeconds': maximum: got 60, want 30",
        ),
        (
            "tunnel.replicas=9",
            "at '/tunnel/replicas': maximum: got 9, want 8",
        ),
    ],
    &[
        (
            "webhook.replicas=0",
            "at '/webhook/replicas': minimum: got 0, want 1",
        ),
        (
            "controller.replicas=null",
            "at '/controller': missing property 'replicas'",
        ),
        (
            "tunnel.replicas=null",
            "at '/tunnel': missing property 'replicas'",
        ),
        (
            "webhook.timeoutSeconds=null",
            "at '/webhook': missing property 'timeoutSeconds'",
        ),
    ],
    &[(
        "webhook.replicas=null",
        "at '/webhook': missing property 'replicas'",
    )],
];

#[test]
fn schema_refuses_wrong_values_and_names_each() {
    for list in REFUSED_BY_SCHEMA {
        let set = list.iter().map(|(value, _)| format!("--set={value}"));
        let refused = chart::template(set).expect_err("wrong values");
        for (value, words) in list {
            assert!(refused.contains(words), "{value}: {refused}");
        }
    }
}

/// Contradictions that no schema can state.
#[test]
fn a_wrong_value_is_refused_with_a_sentence_that_names_it() {
    for (values, words) in [
        (
            "commonLabels.app\\.kubernetes\\.io/name=mine",
            "cannot have app.kubernetes.io/name, which the chart or Helm sets",
        ),
        (
            "controller.podLabels.app\\.kubernetes\\.io/component=mine",
            "cannot have app.kubernetes.io/component, which the chart or Helm sets",
        ),
        (
            "tunnel.extraArgs[0]=--replicas=3",
            "tunnel.extraArgs has --replicas=3, which the chart gives itself",
        ),
        (
            "tunnel.extraArgs[0]=--auth-front-bind=0.0.0.0:1",
            "see tunnel.replicas, tunnel.secretName, tunnel.throughApiServer, tunnel.authenticatedFront and",
        ),
        (
            "tunnel.extraArgs[0]=--enrolment-dir=/a",
            "tunnel.authenticatedFront and tunnel.enrolment",
        ),
        (
            "tunnel.enrolment.enabled=true",
            "tunnel.enrolment is for agents of causeway-tunnel",
        ),
        (
            "tunnel.authenticatedFront.enabled=true",
            "which tunnel.enabled runs: enable it too",
        ),
        (
            "tunnel.authenticatedFront.tls=false,tunnel.authenticatedFront.tlsSecretName=a",
            "tunnel.authenticatedFront.tls is false: leave one of them out",
        ),
        (
            "tunnel.throughApiServer=true",
            "which tunnel.enabled runs: enable it too",
        ),
        (
            "tunnel.enabled=true,tunnel.throughApiServer=true,karmada.enabled=true",
            "reaches no pods: leave one of them out",
        ),
        (
            "tunnel.enabled=true,external.enabled=true",
            "start causeway-tunnel there",
        ),
        (
            "webhook.clientCA.names={a}",
            "webhook.clientCA.configMapName, which is empty: give both",
        ),
        (
            "external.enabled=true,webhook.clientCA.configMapName=a",
            "start that with --client-ca, and leave the value empty",
        ),
        (
            "external.webhookURL=https://a",
            "set external.enabled too, or leave them empty",
        ),
        (
            "external.enabled=true,external.caBundle=-----BEGIN CERTIFICATE-----",
            "external.webhookURL, which is empty: give both",
        ),
        (
            "external.enabled=true,webhook.certificates.source=certManager",
            "with external.enabled the webhook runs elsewhere",
        ),
        (
            "external.enabled=true,webhook.missingService=warn",
            "start that with --missing-service",
        ),
        (
            "webhook.certificates.source=secret",
            "give the Secret's name in webhook.certificates.secretName",
        ),
        (
            "webhook.certificates.secretName=a",
            "are for source secret, and the source is selfManaged",
        ),
        (
            "webhook.certificates.issuerRef.name=a",
            "is for source certManager, and the source is selfManaged",
        ),
        (
            "webhook.certificates.source=secret,webhook.certificates.secretName=a,webhook.certificates.caBundle=LS0t",
            "is a certificate in PEM",
        ),
        (
            "tracing.sampler=always_on",
            "tracing.endpoint, which is empty: give it too",
        ),
        (
            "controller.extraArgs[0]=--otlp-endpoint=http://a",
            "which the chart gives itself: leave it out, and see tracing.endpoint",
        ),
        (
            "webhook.extraArgs[0]=--tls-dir=/a",
            "webhook.extraArgs has --tls-dir=/a, which the chart gives itself",
        ),
        (
            "karmada.enabled=true,clusterProfiles.namespaces[0]=a",
            "so none is made of a ClusterProfile: leave one of them out",
        ),
        (
            "clusterProfiles.secrets=true",
            "clusterProfiles.namespaces, which is empty: give it too",
        ),
        (
            "clusterProfiles.secrets=true,clusterProfiles.namespaces[0]=a,controller.extraArgs[0]=--secret-namespace=b",
            "a flag that clusterProfiles.secrets gives too: leave one of them out",
        ),
        (
            "controller.extraArgs[0]=--lease=a/b",
            "controller.extraArgs has --lease=a/b, which the chart gives itself",
        ),
    ] {
        let refused = chart::template([format!("--set={values}")]).expect_err(values);
        assert!(refused.contains(words), "{values}: {refused}");
    }
}

#[test]
fn another_namespace_is_refused_with_the_flags_to_give() {
    let refused = chart::template(["--namespace=default"]).expect_err("the wrong namespace");
    assert!(
        refused.contains("not in default: give --namespace causeway-system --create-namespace"),
        "{refused}"
    );
}

#[test]
fn helm_lint_finds_nothing() {
    let output = std::process::Command::new(binaries::helm())
        .args(["lint", "--strict"])
        .arg(chart::directory())
        .args(chart::IN_NAMESPACE)
        .envs(chart::environment())
        .output()
        .expect("helm");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    for mark in ["[WARNING]", "[ERROR]"] {
        assert!(!said.contains(mark), "{said}");
    }
}
