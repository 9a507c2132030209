//! Confirmation of cached observations before a denial.

use causeway_webhook::decide::{Impact, ServiceKind, Strictness, Unconfirmed};
use serde_json::json;

use crate::request::{Request, create, spec, update};

fn service(stake: Impact) -> Unconfirmed {
    Unconfirmed {
        service: Some(stake),
        clusters: None,
    }
}

fn clusters(stake: Impact) -> Unconfirmed {
    Unconfirmed {
        service: None,
        clusters: Some(stake),
    }
}

#[test]
fn decision_by_the_cache_is_unconfirmed_until_a_live_request() {
    let port = || create(spec(json!({"ports": [{"port": 81}]})));
    let unknown = || create(spec(json!({"providerClusters": [{"name": "zz"}]})));
    let balanced = || create(json!({"types": ["LoadBalancer"]}));
    let cases: Vec<(&str, Request, Unconfirmed)> = vec![
        (
            "a Service is missing",
            create(spec(json!({}))).no_service(),
            service(Impact::Denial),
        ),
        (
            "a Service is missing on dry-run",
            create(spec(json!({}))).no_service().dry_run(),
            service(Impact::Warning),
        ),
        ("a port is missing", port(), service(Impact::Denial)),
        (
            "a port is missing on dry-run",
            port().dry_run(),
            service(Impact::Warning),
        ),
        (
            "a Service is an alias",
            create(spec(json!({}))).service(ServiceKind::ExternalName, &[]),
            service(Impact::Denial),
        ),
        (
            "a name is no Service's yet",
            create(spec(json!({}))).named("shop", "1foo").no_service(),
            service(Impact::Denial),
        ),
        ("no load balancer", balanced(), service(Impact::Warning)),
        ("a cluster is unknown", unknown(), clusters(Impact::Warning)),
        (
            "a cluster is unknown to a strict webhook",
            unknown().unknown_cluster(Strictness::Deny),
            clusters(Impact::Denial),
        ),
        (
            "a cluster is unknown to a strict webhook on dry-run",
            unknown().unknown_cluster(Strictness::Deny).dry_run(),
            clusters(Impact::Warning),
        ),
        (
            "there are no clusters for a strict webhook",
            unknown()
                .no_clusters_served()
                .unknown_cluster(Strictness::Deny),
            clusters(Impact::Denial),
        ),
    ];
    for (what, request, unconfirmed) in cases {
        assert_eq!(
            request.clone().cached().validate().unconfirmed,
            unconfirmed,
            "{what}"
        );
        assert_eq!(
            request.validate().unconfirmed,
            Unconfirmed::default(),
            "{what}, observed live"
        );
    }
}

#[test]
fn decision_without_the_cache_needs_no_confirmation() {
    for request in [
        create(spec(
            json!({"ports": [{"name": "http", "port": 80}], "providerClusters": [{"name": "a"}]}),
        )),
        create(json!({"types": []})),
        create(spec(json!({"providerClusters": [{"name": "B"}]}))),
        create(spec(json!({}))).named("kube-system", "foo"),
        create(spec(json!({"providerClusters": [{"name": "zz"}]}))).no_clusters_served(),
    ] {
        assert_eq!(
            request.cached().validate().unconfirmed,
            Unconfirmed::default()
        );
    }
}

#[test]
fn empty_cache_leaves_rules_about_the_hub_unconfirmed() {
    let unconfirmed = |request: Request| request.unobserved().validate().unconfirmed;
    assert_eq!(
        unconfirmed(create(spec(json!({})))),
        service(Impact::Denial)
    );
    let clusters_too = create(spec(json!({"providerClusters": [{"name": "a"}]})));
    assert_eq!(
        unconfirmed(clusters_too),
        Unconfirmed {
            service: Some(Impact::Denial),
            clusters: Some(Impact::Warning)
        }
    );
    let stored = spec(json!({}));
    assert_eq!(
        unconfirmed(update(stored.clone(), stored.clone())),
        Unconfirmed::default()
    );
    let strict = update(
        stored.clone(),
        spec(json!({"consumerClusters": [{"name": "a"}]})),
    )
    .unknown_cluster(Strictness::Deny);
    assert_eq!(unconfirmed(strict), clusters(Impact::Denial));
    let ports = update(stored, spec(json!({"ports": [{"port": 80}]})));
    assert_eq!(unconfirmed(ports), service(Impact::Denial));
}
