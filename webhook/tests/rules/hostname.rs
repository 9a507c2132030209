//! V13: the annotations that name the service in DNS.

use causeway::api::labels::{HOSTNAME, HOSTNAME_ROUTING, PREFER, UNREACHABLE};
use causeway_webhook::decide::ServiceKind;
use serde_json::{Value, json};

use crate::request::{Request, annotated, at, reannotated};

fn balanced(annotations: &Value) -> Request {
    let request = annotated(annotations, json!({"types": ["LoadBalancer"]}));
    request.service(ServiceKind::LoadBalancer, &[("http", 80)])
}

#[test]
fn names_of_a_load_balancer_are_accepted() {
    for text in ["foo.example.com", "a.example.com, b.example.com"] {
        balanced(&json!({ HOSTNAME: text })).passes();
        balanced(&json!({ HOSTNAME: text, UNREACHABLE: "standby" })).passes();
    }
    let warning = at(
        PREFER,
        "has no effect on a MultiClusterService of type LoadBalancer without spec.consumerClusters",
    );
    balanced(&json!({ HOSTNAME: "foo.example.com", PREFER: "any" })).warns(&[&warning]);
}

#[test]
fn wrong_name_is_refused_where_it_is_new() {
    let error = at(
        HOSTNAME,
        r#"Invalid value: "foo": write a full DNS name in lower case, without a dot at its end, of at most 253 characters and with at most 63 between two dots, such as foo.example.com"#,
    );
    let wrong = json!({ HOSTNAME: "foo" });
    balanced(&wrong).is_refused(&[&error]);
    balanced(&wrong).dry_run().is_refused(&[&error]);
    let types = json!({"types": ["LoadBalancer"]});
    reannotated(&json!({}), &wrong, types.clone()).is_refused(&[&error]);
    reannotated(&wrong, &wrong, types.clone()).passes();
    reannotated(&wrong, &json!({ HOSTNAME: null }), types).passes();
}

#[test]
fn name_of_another_type_has_no_effect() {
    let warnings = [HOSTNAME, HOSTNAME_ROUTING].map(|name| {
        at(
            name,
            "has no effect on a MultiClusterService of type CrossCluster, which has no address \
             outside the clusters; remove the annotation, or create a MultiClusterService of type \
             LoadBalancer",
        )
    });
    let named = json!({ HOSTNAME: "foo.example.com" });
    annotated(&named, json!({})).warns(&[&warnings[0]]);
    let routed = json!({ HOSTNAME: "foo.example.com", HOSTNAME_ROUTING: "aws/region" });
    annotated(&routed, json!({})).warns(&[&warnings[0], &warnings[1]]);
    reannotated(&named, &routed, json!({})).warns(&[&warnings[1]]);
}

#[test]
fn routing_is_a_property_and_needs_a_name() {
    let named = json!({ HOSTNAME: "foo.example.com" });
    let routed = json!({ HOSTNAME: "foo.example.com", HOSTNAME_ROUTING: "aws/region" });
    let alone = json!({ HOSTNAME_ROUTING: "aws/region" });
    let types = json!({"types": ["LoadBalancer"]});
    balanced(&routed).passes();
    let warning = at(
        HOSTNAME_ROUTING,
        "has no effect without a name; set mcs.causeway.dev/hostname too",
    );
    balanced(&alone).warns(&[&warning]);
    reannotated(&routed, &alone, types.clone()).warns(&[&warning]);
    reannotated(&alone, &alone, types.clone()).passes();
    let wrong = json!({ HOSTNAME: "foo.example.com", HOSTNAME_ROUTING: "region" });
    let error = at(
        HOSTNAME_ROUTING,
        r#"Invalid value: "region": write one property of ExternalDNS as provider/property, such as aws/region"#,
    );
    balanced(&wrong).is_refused(&[&error]);
    reannotated(&named, &wrong, types.clone()).is_refused(&[&error]);
    reannotated(&wrong, &wrong, types).passes();
}
