//! Traces that nobody takes.

use crate::client::Client;
use crate::running::{Webhook, files, nobody};

const LOGGED: &str = "traces not sent, spans are dropped";
const CANARY: &str = "s3cret-of-the-collector";

#[tokio::test]
async fn missing_collector_is_logged_once_without_credentials() {
    let files = files(nobody());
    let endpoint = format!("http://{}/v1/traces", nobody());
    let headers = format!("authorization=Bearer%20{CANARY}");
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("CAUSEWAY_LOG", "debug"),
    ];
    let mut webhook = Webhook::start_with(files.path(), &[], &variables);
    let client = Client::new(&webhook, files.path());
    client.send_usual().await;
    webhook.until("it is logged", |webhook| webhook.log().contains(LOGGED));
    client.send_usual().await;
    webhook.signal("-TERM");
    let (status, log) = webhook.ends();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(log.matches("traces not sent").count(), 1, "{log}");
    assert!(!log.contains(CANARY), "{log}");
}
