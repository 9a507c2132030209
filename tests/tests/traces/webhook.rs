//! The webhook's part of an API server's trace.

use causeway_tests::causeway::Running;
use causeway_tests::otlp::{Collector, ReceivedSpan};
use causeway_tests::{Cluster, Fleet, Installation, Space, service};
use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::exemplars;

/// Sampled, and never the webhook's own.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const DENIED: &str = "5bf92f3577b34da6a3ce929d0e0e4736";
const UNSAMPLED: &str = "6bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A hub whose API server makes traces of what callers ask for, and sends its own spans nowhere.
async fn tracing_hub(directory: &tempfile::TempDir) -> Fleet {
    let file = directory.path().join("tracing.yaml");
    let configuration = "apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
endpoint: 127.0.0.1:1
samplingRatePerMillion: 0
";
    std::fs::write(&file, configuration).expect("a file");
    Fleet::builder()
        .hub_flag(format!("--tracing-config-file={}", file.display()))
        .start()
        .await
}

/// Creates a MultiClusterService within that trace; the status code.
async fn create(hub: &Cluster, space: &Space<'_>, name: &str, parent: &str, spec: Value) -> u16 {
    let path = format!(
        "/apis/networking.karmada.io/v1alpha1/namespaces/{}/multiclusterservices",
        space.name()
    );
    let object = json!({
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterService",
        "metadata": {"name": name},
        "spec": spec,
    });
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header("traceparent", parent)
        .body(object.to_string().into_bytes().into())
        .expect("a request");
    let answer = hub.client().send(request).await.expect("an answer");
    answer.status().as_u16()
}

fn parent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{CALLER}-{flags}")
}

#[tokio::test]
async fn create_through_an_api_server_is_one_trace() {
    let directory = tempfile::tempdir().expect("a directory");
    let fleet = tracing_hub(&directory).await;
    let installation = Installation::new(&fleet).await;
    let hub = fleet.hub();
    let collector = Collector::with_tls(installation.authority()).await;
    let authority = installation.ca_file().display().to_string();
    let webhook = installation
        .webhook()
        .arg(format!("--otlp-endpoint={}", collector.url()))
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
        .env("OTEL_EXPORTER_OTLP_CERTIFICATE", &authority);
    let webhook = webhook.start().await;
    installation.register(&webhook).await;
    let space = fleet.space("traces").await;
    service("foo").port("http", 80).create(hub, &space).await;
    let right = json!({"types": ["CrossCluster"], "ports": [{"port": 80}]});

    // An unsampled parent stays unsampled. What comes after it arrives after it.
    let unsampled = parent(UNSAMPLED, "00");
    let code = create(
        hub,
        &space,
        "unseen",
        &unsampled,
        json!({"types": ["CrossCluster"]}),
    )
    .await;
    assert_eq!(code, 422, "its Service is missing");
    assert_eq!(
        create(hub, &space, "foo", &parent(TRACE, "01"), right).await,
        201
    );
    let wrong = json!({"types": ["CrossCluster"], "ports": [{"port": 81}]});
    assert_eq!(
        create(hub, &space, "foo", &parent(DENIED, "01"), wrong).await,
        422
    );

    let of_denied = |span: &ReceivedSpan| span.trace == DENIED && span.get("allowed") == "false";
    let denied = collector.received("the denial", 1, of_denied).await;
    assert!(denied[0].get("error").contains("81"), "{denied:#?}");
    assert!(!denied[0].is_error, "a denial is no error of the webhook");
    assert_eq!(collector.trace(UNSAMPLED), []);

    for (name, route) in [("POST /mutate", "/mutate"), ("POST /validate", "/validate")] {
        let of_name = |span: &ReceivedSpan| span.trace == TRACE && span.name == name;
        let spans = collector.received(name, 1, of_name).await;
        let [span] = spans.as_slice() else {
            panic!("{spans:#?}");
        };
        assert!(
            !span.parent.is_empty() && span.parent != CALLER,
            "the API server's: {span:#?}"
        );
        assert_eq!(span.service, "causeway-webhook");
        for (key, value) in [
            ("http.request.method", "POST"),
            ("http.route", route),
            ("http.response.status_code", "200"),
            ("namespace", space.name()),
            ("name", "foo"),
            ("kind", "MultiClusterService"),
            ("operation", "CREATE"),
            ("allowed", "true"),
        ] {
            assert_eq!(span.get(key), value, "{key} of {span:#?}");
        }
        assert!(span.time.0 < span.time.1, "{span:#?}");
    }
    leads_to_the_trace(&webhook).await;
}

/// The webhook's durations lead to the trace, for those who ask for OpenMetrics.
async fn leads_to_the_trace(webhook: &Running) {
    let name = "causeway_webhook_request_duration_seconds_bucket";
    let text = webhook.openmetrics().await;
    let wanted = format!("{{trace_id=\"{TRACE}\"}}");
    let found = exemplars(&text, name).any(|exemplar| exemplar.starts_with(&wanted));
    assert!(found, "{text}");
    let unsampled = exemplars(&text, name).find(|exemplar| exemplar.contains(UNSAMPLED));
    assert_eq!(unsampled, None);
    let (_, text) = webhook.get("/metrics").await.expect("metrics");
    assert_eq!(exemplars(&text, name).next(), None);
}
