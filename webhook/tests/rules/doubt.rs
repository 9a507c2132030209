//! What rests on a cache is looked at again before it is refused.

use causeway_webhook::decide::{Doubts, ServiceKind, Stake, Strictness};
use serde_json::json;

use crate::ask::{Ask, create, spec, update};

fn service(stake: Stake) -> Doubts {
    Doubts {
        service: Some(stake),
        clusters: None,
    }
}

fn clusters(stake: Stake) -> Doubts {
    Doubts {
        service: None,
        clusters: Some(stake),
    }
}

#[test]
fn a_finding_that_rests_on_the_cache_is_in_doubt_until_it_is_seen_live() {
    let port = || create(spec(json!({"ports": [{"port": 81}]})));
    let unknown = || create(spec(json!({"providerClusters": [{"name": "zz"}]})));
    let balanced = || create(json!({"types": ["LoadBalancer"]}));
    let cases: Vec<(&str, Ask, Doubts)> = vec![
        (
            "a Service is missing",
            create(spec(json!({}))).no_service(),
            service(Stake::Refusal),
        ),
        (
            "a Service is missing on dry-run",
            create(spec(json!({}))).no_service().dry_run(),
            service(Stake::Warning),
        ),
        ("a port is missing", port(), service(Stake::Refusal)),
        (
            "a port is missing on dry-run",
            port().dry_run(),
            service(Stake::Warning),
        ),
        (
            "a Service is an alias",
            create(spec(json!({}))).service(ServiceKind::ExternalName, &[]),
            service(Stake::Refusal),
        ),
        (
            "a name is no Service's yet",
            create(spec(json!({}))).named("shop", "1foo").no_service(),
            service(Stake::Refusal),
        ),
        ("no load balancer", balanced(), service(Stake::Warning)),
        ("a cluster is unknown", unknown(), clusters(Stake::Warning)),
        (
            "a cluster is unknown to a strict webhook",
            unknown().unknown_cluster(Strictness::Deny),
            clusters(Stake::Refusal),
        ),
        (
            "there are no clusters for a strict webhook",
            unknown()
                .no_clusters_served()
                .unknown_cluster(Strictness::Deny),
            clusters(Stake::Refusal),
        ),
    ];
    for (what, ask, doubts) in cases {
        assert_eq!(ask.clone().cached().validate().doubts, doubts, "{what}");
        assert_eq!(
            ask.validate().doubts,
            Doubts::default(),
            "{what}, seen live"
        );
    }
}

#[test]
fn what_is_accepted_or_refused_for_itself_needs_no_second_look() {
    for ask in [
        create(spec(
            json!({"ports": [{"name": "http", "port": 80}], "providerClusters": [{"name": "a"}]}),
        )),
        create(json!({"types": []})),
        create(spec(json!({"providerClusters": [{"name": "B"}]}))),
        create(spec(json!({}))).named("kube-system", "foo"),
        create(spec(json!({"providerClusters": [{"name": "zz"}]}))).no_clusters_served(),
    ] {
        assert_eq!(ask.cached().validate().doubts, Doubts::default());
    }
}

#[test]
fn in_the_dark_only_what_needs_light_is_in_doubt() {
    let doubts = |ask: Ask| ask.in_the_dark().validate().doubts;
    assert_eq!(doubts(create(spec(json!({})))), service(Stake::Refusal));
    let clusters_too = create(spec(json!({"providerClusters": [{"name": "a"}]})));
    assert_eq!(
        doubts(clusters_too),
        Doubts {
            service: Some(Stake::Refusal),
            clusters: Some(Stake::Warning)
        }
    );
    let stored = spec(json!({}));
    assert_eq!(
        doubts(update(stored.clone(), stored.clone())),
        Doubts::default()
    );
    let strict = update(
        stored.clone(),
        spec(json!({"consumerClusters": [{"name": "a"}]})),
    )
    .unknown_cluster(Strictness::Deny);
    assert_eq!(doubts(strict), clusters(Stake::Refusal));
    let ports = update(stored, spec(json!({"ports": [{"port": 80}]})));
    assert_eq!(doubts(ports), service(Stake::Refusal));
}
