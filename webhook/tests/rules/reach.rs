//! V12: the annotation that names the way from other networks.

use causeway::api::labels::REACH;
use causeway_webhook::decide::{Impact, ServiceKind, Unconfirmed};
use serde_json::{Value, json};

use crate::request::{annotate, annotated, at, reannotated, spec, update};

const PORTS: [(&str, u16); 1] = [("http", 80)];

fn reach(text: &str) -> Value {
    json!({ REACH: text })
}

fn unsupported(text: &str) -> String {
    at(
        REACH,
        &format!(
            r#"Unsupported value: {text:?}: supported values: "node-ports", "node-ports=external", "load-balancer", "cluster-ip""#
        ),
    )
}

fn headless() -> String {
    at(
        REACH,
        "has no effect: Service shop/foo is headless, and its names lead to pods alone; remove \
         the annotation, or give the Service a virtual address",
    )
}

#[test]
fn each_way_is_accepted_without_a_warning() {
    for text in causeway::domain::Reach::VALUES {
        annotated(&reach(text), json!({})).passes();
        reannotated(&json!({}), &reach(text), json!({})).passes();
        reannotated(&reach(text), &json!({ REACH: null }), json!({})).passes();
    }
}

#[test]
fn unknown_way_is_refused_with_value_and_remedy() {
    for text in ["", "nodeports", "node-ports=internal", "LoadBalancer"] {
        let error = unsupported(text);
        annotated(&reach(text), json!({})).is_refused(&[&error]);
        annotated(&reach(text), json!({}))
            .dry_run()
            .is_refused(&[&error]);
        reannotated(&reach("cluster-ip"), &reach(text), json!({})).is_refused(&[&error]);
        annotated(&reach(text), json!({"types": ["LoadBalancer"]}))
            .service(ServiceKind::LoadBalancer, &PORTS)
            .is_refused(&[&error]);
    }
}

#[test]
fn stored_unknown_way_blocks_no_update() {
    let wrong = reach("nodeports");
    reannotated(&wrong, &wrong, json!({})).passes();
    update(
        spec(json!({})),
        spec(json!({"providerClusters": [{"name": "c"}]})),
    )
    .with(|object| annotate(object, &wrong))
    .with_stored(|object| annotate(object, &wrong))
    .passes();
    reannotated(&wrong, &json!({ REACH: null }), json!({})).passes();
    reannotated(&wrong, &reach("node-port"), json!({})).is_refused(&[&unsupported("node-port")]);
}

#[test]
fn way_to_a_headless_service_is_warned_of() {
    for request in [
        annotated(&reach("node-ports"), json!({})),
        reannotated(&json!({}), &reach("node-ports"), json!({})),
    ] {
        let request = request.service(ServiceKind::Headless, &PORTS);
        request.warns(&[&headless()]);
        let unconfirmed = request.cached().validate().unconfirmed;
        assert_eq!(unconfirmed.service, Some(Impact::Warning));
    }
    let stored = reach("node-ports");
    reannotated(&stored, &stored, json!({}))
        .service(ServiceKind::Headless, &PORTS)
        .passes();
}

#[test]
fn unobserved_service_is_requested_for_a_changed_way_alone() {
    let way = reach("cluster-ip");
    let service = Unconfirmed {
        service: Some(Impact::Warning),
        clusters: None,
    };
    for (request, unconfirmed) in [
        (reannotated(&json!({}), &way, json!({})), service),
        (reannotated(&way, &way, json!({})), Unconfirmed::default()),
    ] {
        assert_eq!(request.unobserved().validate().unconfirmed, unconfirmed);
    }
}
