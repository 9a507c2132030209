//! Objects that come in an order that nobody chose: a backup that is restored, a directory that is
//! applied.

use serde_json::json;

use crate::hub::{Hub, holds, mcs};

#[tokio::test]
async fn lenient_webhook_accepts_objects_in_any_order() {
    let hub = Hub::start_with(&["--missing-service=warn"], async |_| ()).await;
    let shop = hub.empty_shop().await;
    let namespace = shop.space.name();
    let exposing = |port: &str| mcs("foo", json!({"ports": [{"name": port, "port": 80}]}));
    let service = |port: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo"},
            "spec": {"ports": [{"name": port, "port": 80}]}})
    };
    let both = |port: &str| json!({"apiVersion": "v1", "kind": "List", "items": [exposing(port), service(port)]});

    let first = shop.apply(&both("http")).await;
    assert_eq!(
        first.stderr.trim_end(),
        format!(
            "Warning: metadata.name: there is no Service {namespace}/foo yet; nothing is exposed until there is"
        )
    );
    first.ok();

    let renamed = shop.apply(&both("web")).await;
    assert_eq!(
        renamed.stderr.trim_end(),
        format!(
            "Warning: spec.ports[0].name: Service {namespace}/foo has no port named \"web\"; it has http 80/TCP"
        )
    );
    renamed.ok();
    let again = shop.apply(&both("web")).await;
    assert_eq!(again.stderr, "");
    again.ok();

    shop.kubectl(["delete", "service", "foo"]).await.ok();
    let added = shop.apply(&exposing("grpc")).await;
    assert_eq!(
        added.stderr.trim_end(),
        format!(
            "Warning: spec.ports[0].name: there is no Service {namespace}/foo yet; it has to have the port named \"grpc\""
        )
    );
    added.ok();
    // What no Service could be is refused as ever.
    let wrong = shop.apply(&mcs("foo.bar", json!({}))).await;
    holds(
        &wrong.refused(),
        &["metadata.name: Invalid value: \"foo.bar\""],
    );
}
