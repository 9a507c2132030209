//! Requests of the webhook to the hub, and the answers while the hub does not respond.

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway::api::labels::PREFER;
use causeway::process::readiness::{Readiness, Unready};
use causeway_webhook::decide::{Policy, Strictness};
use causeway_webhook::hub::Hub;
use causeway_webhook::limits::Limits;
use causeway_webhook::service::{Webhook, router};
use futures::future::join_all;
use http::StatusCode;
use serde_json::{Value, json};

use crate::caller::{Called, UID, create, patch, policy, webhook};
use crate::hub::{self, FakeHub};

const SERVICE: &str = "/api/v1/namespaces/shop/services/foo";
const SERVICES: &str = "/api/v1/services?&limit=16";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters?&limit=16";
const CLUSTER: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/";
const BEARERS: &str = "/apis/networking.karmada.io/v1alpha1/multiclusterservices?&labelSelector=multiclusterservice.karmada.io%2Fpermanent-id%3Dcopied&limit=2";

fn service(port: u16) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "foo", "namespace": "shop"},
        "spec": {"type": "ClusterIP", "ports": [{"name": "http", "port": port, "protocol": "TCP"}]}})
}

fn list(items: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "7"}, "items": items})
}

fn named(namespace: Option<&str>, name: &str) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": name, "namespace": namespace}})
}

fn cluster(name: &str) -> Value {
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name}, "spec": {"zones": ["eu-1"]}})
}

fn exposing(port: u16) -> Value {
    create(json!({"types": ["CrossCluster"], "ports": [{"name": "http", "port": port}]}))
}

fn copied() -> Value {
    let mut review = create(json!({"types": ["CrossCluster"]}));
    review["request"]["object"]["metadata"]["labels"] =
        json!({"multiclusterservice.karmada.io/permanent-id": "copied"});
    review
}

async fn allowed(called: &Called, path: &str, review: &Value) -> bool {
    let (code, answer) = called.review(path, review).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    answer["response"]["allowed"].as_bool().expect("a decision")
}

#[tokio::test]
async fn without_a_cache_requests_go_to_the_hub_itself() {
    let hub = FakeHub::default();
    let called = Called::new(hub.client().await).await;
    assert!(
        !allowed(&called, "/validate", &exposing(80)).await,
        "no Service"
    );
    hub.answers(SERVICE, StatusCode::OK, service(80));
    assert!(allowed(&called, "/validate", &exposing(80)).await);
    assert!(
        !allowed(&called, "/validate", &exposing(81)).await,
        "no such port"
    );
    assert_eq!(hub.requests(), [SERVICE, SERVICE, SERVICE]);
}

#[tokio::test]
async fn flood_of_refusals_costs_the_hub_a_bounded_rate() {
    let hub = FakeHub::default();
    let called = Called::new(hub.client().await).await;
    let begun = Instant::now();
    let mut codes = Vec::new();
    for _ in 0..500 {
        codes.push(called.review("/validate", &exposing(80)).await.0);
    }
    // What was observed a moment ago answers for the same Service.
    assert!(
        codes.iter().all(|code| *code == StatusCode::OK),
        "{codes:?}"
    );
    let allowed = 100 + begun.elapsed().as_secs() * 50 + 50;
    let sent = hub.requests().len() as u64;
    assert!(sent <= allowed, "{sent} requests, {allowed} allowed");

    let others = (0..300).map(|number| {
        let mut review = exposing(80);
        review["request"]["object"]["metadata"]["name"] = json!(format!("s{number}"));
        review
    });
    let others: Vec<_> = others.collect();
    let asked = others
        .iter()
        .map(|review| called.review("/validate", review));
    let answers = join_all(asked).await;
    let is_busy = |(code, _): &&(StatusCode, Value)| *code == StatusCode::TOO_MANY_REQUESTS;
    let (_, busy) = answers.iter().find(is_busy).expect("one is rejected");
    let message = "too many requests to the hub at one time; try again";
    assert_eq!(busy["message"], message);
}

#[tokio::test]
async fn a_service_that_the_cache_does_not_know_yet_is_found() {
    let hub = FakeHub::default();
    hub.answers(SERVICES, StatusCode::OK, list(&json!([service(80)])));
    let called = Called::new(hub.client().await).await;
    let hub_view = Hub::new(hub.client().await);
    let readiness = Readiness::default();
    hub_view.watch(&called.process.tasks, &readiness, &called.metrics);
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(awaited) = readiness.check() {
        assert!(
            Instant::now() < deadline,
            "{awaited:?}, requested {:?}",
            hub.requests()
        );
        if let Unready::Awaits(names) = awaited {
            assert!(
                names.iter().all(
                    |name| ["the Services of the hub", "the Clusters of the hub"]
                        .contains(&name.as_str())
                ),
                "{names:?}"
            );
        }
        tokio::task::yield_now().await;
    }
    let webhook = webhook(hub_view, &called.metrics, &called.process);
    let router = router(Arc::new(webhook));
    let called = Called { router, ..called };

    hub.requests();
    assert!(allowed(&called, "/validate", &exposing(80)).await);
    assert!(
        !hub.requests().contains(&SERVICE.to_owned()),
        "the cache knows it"
    );

    hub.answers(SERVICE, StatusCode::OK, service(81));
    assert!(
        allowed(&called, "/validate", &exposing(81)).await,
        "the Service has just changed"
    );
    assert!(hub.requests().contains(&SERVICE.to_owned()));
}

#[tokio::test]
async fn unknown_clusters_are_requested_by_one_list() {
    let hub = FakeHub::default();
    hub.answers(SERVICE, StatusCode::OK, service(80));
    let called = Called::new(hub.client().await).await;
    let review = create(
        json!({"types": ["CrossCluster"], "providerClusters": [{"name": "a"}, {"name": "b"}]}),
    );
    let (_, answer) = called.review("/validate", &review).await;
    let message = answer["response"]["status"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(
        message.contains("the hub serves no Cluster objects"),
        "{answer}"
    );
    hub.answers(CLUSTERS, StatusCode::OK, list(&json!([named(None, "a")])));
    let (_, answer) = called.review("/validate", &review).await;
    let message = answer["response"]["status"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(
        message.starts_with("spec.providerClusters[1].name: Invalid value: \"b\": no Cluster"),
        "{answer}"
    );
    hub.answers(
        CLUSTERS,
        StatusCode::OK,
        list(&json!([named(None, "a"), named(None, "b")])),
    );
    assert!(allowed(&called, "/validate", &review).await);
    assert!(hub.requests().contains(&CLUSTERS.to_owned()));
}

#[tokio::test]
async fn live_list_of_clusters_is_read_in_pages() {
    let hub = FakeHub::default();
    hub.answers(SERVICE, StatusCode::OK, service(80));
    let mut first = list(&json!([named(None, "a")]));
    first["metadata"]["continue"] = json!("more");
    hub.answers(CLUSTERS, StatusCode::OK, first);
    let rest = format!("{CLUSTERS}&continue=more");
    hub.answers(&rest, StatusCode::OK, list(&json!([named(None, "b")])));
    let called = Called::new(hub.client().await).await;
    let review = create(
        json!({"types": ["CrossCluster"], "providerClusters": [{"name": "a"}, {"name": "b"}]}),
    );
    assert!(allowed(&called, "/validate", &review).await);
    assert!(hub.requests().contains(&rest));

    let many: Value = (0..4097)
        .map(|number| named(None, &format!("c{number}")))
        .collect();
    hub.answers(CLUSTERS, StatusCode::OK, list(&many));
    let (code, answer) = called.review("/validate", &review).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    let message = answer["message"].as_str().expect("a message");
    assert!(message.contains("more than 4096 Clusters"), "{message}");
}

/// Returns a webhook with filled caches that only warns of unknown Clusters.
async fn watching(hub: &FakeHub) -> Called {
    // The watch of Clusters is answered by 404, which must not pass for a hub without Clusters.
    let mut groups = hub::groups();
    let group = json!({"name": "cluster.karmada.io",
        "versions": [{"groupVersion": "cluster.karmada.io/v1alpha1", "version": "v1alpha1"}]});
    groups["groups"].as_array_mut().expect("groups").push(group);
    hub.answers("/apis", StatusCode::OK, groups);
    let called = Called::new(hub.client().await).await;
    let view = Hub::new(hub.client().await);
    let readiness = Readiness::default();
    view.watch(&called.process.tasks, &readiness, &called.metrics);
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(awaited) = readiness.check() {
        assert!(Instant::now() < deadline, "{awaited:?}");
        tokio::task::yield_now().await;
    }
    let lenient = Policy {
        unknown_cluster: Strictness::Warn,
        ..policy()
    };
    let (metrics, tasks) = (called.metrics.clone(), called.process.tasks.clone());
    let webhook = Webhook::new(view, lenient, &Limits::default(), metrics, tasks);
    let router = router(Arc::new(webhook));
    Called { router, ..called }
}

#[tokio::test]
async fn of_many_clusters_only_those_that_the_cache_lacks_are_requested() {
    let hub = FakeHub::default();
    hub.answers(SERVICES, StatusCode::OK, list(&json!([service(80)])));
    let cached: Vec<_> = (1..=8).map(|number| format!("member{number}")).collect();
    let all: Vec<_> = cached.iter().map(|name| cluster(name)).collect();
    hub.answers(CLUSTERS, StatusCode::OK, list(&json!(all)));
    let called = watching(&hub).await;
    // The Cluster is newer than the cache. A list fails, as does a request for a cached one.
    let late = format!("{CLUSTER}late");
    hub.answers(&late, StatusCode::OK, cluster("late"));
    let failure = StatusCode::INTERNAL_SERVER_ERROR;
    hub.answers(CLUSTERS, failure, json!("etcd is gone"));
    hub.requests();

    let providers: Vec<_> = cached.iter().map(|name| json!({ "name": name })).collect();
    let review = create(json!({
        "types": ["CrossCluster"], "providerClusters": providers,
        "consumerClusters": [{"name": "late"}],
    }));
    let (code, answer) = called.review("/validate", &review).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    assert!(answer["response"]["warnings"].is_null(), "{answer}");
    let mut requests = hub.requests();
    requests.retain(|path| path.starts_with(CLUSTER));
    assert_eq!(requests, [late]);
}

#[tokio::test]
async fn live_clusters_update_the_cached_ones() {
    let hub = FakeHub::default();
    hub.answers(SERVICES, StatusCode::OK, list(&json!([service(80)])));
    let all = ["member1", "member2", "member3"].map(cluster);
    hub.answers(CLUSTERS, StatusCode::OK, list(&json!(all)));
    let member1 = format!("{CLUSTER}member1");
    hub.answers(&member1, StatusCode::OK, cluster("member1"));
    let called = watching(&hub).await;

    let unknown = |path: &str, name: &str| {
        format!("{path}: no Cluster is named {name:?}; join it, or correct the name")
    };
    let preferred = unknown(
        "metadata.annotations[mcs.causeway.dev/prefer]",
        "not-joined-yet",
    );
    let removed = unknown("spec.consumerClusters[0].name", "member3");
    for (consumer, warnings) in [
        ("member1", vec![&preferred]),
        ("member3", vec![&removed, &preferred]),
    ] {
        let mut review = create(json!({
            "types": ["CrossCluster"], "consumerClusters": [{"name": consumer}],
        }));
        review["request"]["object"]["metadata"]["annotations"] =
            json!({PREFER: "local, zone, cluster/not-joined-yet, any"});
        let (code, answer) = called.review("/validate", &review).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        assert_eq!(
            answer["response"]["warnings"],
            json!(warnings),
            "{consumer}"
        );
    }
}

#[tokio::test]
async fn answer_404_does_not_prove_that_clusters_are_not_served() {
    let hub = FakeHub::default();
    hub.answers(SERVICE, StatusCode::OK, service(80));
    hub.answers(SERVICES, StatusCode::OK, list(&json!([])));
    let html = json!("<html>404 page not found</html>");
    for path in [CLUSTERS, "/apis"] {
        hub.answers(path, StatusCode::NOT_FOUND, html.clone());
    }
    let called = Called::new(hub.client().await).await;
    let named = json!({"types": ["CrossCluster"], "providerClusters": [{"name": "a"}]});
    let (code, answer) = called.review("/validate", &create(named)).await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{answer}");

    let view = Hub::new(hub.client().await);
    let readiness = Readiness::default();
    view.watch(&called.process.tasks, &readiness, &called.metrics);
    let requested = async |path: &str, times: usize| {
        let (deadline, mut seen) = (Instant::now() + Duration::from_secs(20), 0);
        while seen < times {
            assert!(Instant::now() < deadline, "{path} is not requested");
            seen += hub
                .requests()
                .iter()
                .filter(|one| one.starts_with(path))
                .count();
            tokio::task::yield_now().await;
        }
    };
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
    requested(clusters, 3).await;
    let Err(Unready::Awaits(awaited)) = readiness.check() else {
        panic!("ready, or ends: {:?}", readiness.check());
    };
    assert!(
        awaited
            .iter()
            .any(|one| one.contains("the Clusters of the hub")),
        "{awaited:?}"
    );
    let metrics = called.process.metrics.encode().expect("metrics");
    let failures = r#"causeway_webhook_hub_watch_failures_total{resource="clusters"}"#;
    let failures = metrics.lines().find_map(|line| line.strip_prefix(failures));
    assert!(
        failures.is_some_and(|count| count.trim() != "0"),
        "{metrics}"
    );

    hub.answers("/apis", StatusCode::OK, hub::groups());
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(awaited) = readiness.check() {
        assert!(Instant::now() < deadline, "{awaited:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_permanent_id_is_kept_unless_another_object_has_it() {
    let hub = FakeHub::default();
    let called = Called::new(hub.client().await).await;
    let cases = [
        (json!([]), false),
        (json!([named(Some("shop"), "foo")]), false),
        (json!([named(Some("shop"), "bar")]), true),
        (
            json!([named(Some("shop"), "foo"), named(Some("other"), "foo")]),
            true,
        ),
    ];
    for (bearers, taken) in cases {
        hub.answers(BEARERS, StatusCode::OK, list(&bearers));
        let (code, answer) = called.review("/mutate", &copied()).await;
        assert_eq!(
            code,
            StatusCode::OK,
            "{answer}, requested {:?}",
            hub.requests()
        );
        if taken {
            assert_eq!(patch(&answer)[0]["value"], UID, "{bearers}");
        } else {
            assert!(answer["response"]["patch"].is_null(), "{bearers}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_failed_request_to_the_hub_is_an_error_and_no_decision() {
    let broken = FakeHub::default();
    for path in [SERVICE, BEARERS] {
        broken.answers(
            path,
            StatusCode::INTERNAL_SERVER_ERROR,
            json!("etcd is gone"),
        );
    }
    let forbidden = FakeHub::default();
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "services \"foo\" is forbidden"});
    for path in [SERVICE, BEARERS] {
        forbidden.answers(path, StatusCode::FORBIDDEN, status.clone());
    }
    let front_end = FakeHub::default();
    for path in [SERVICE, BEARERS, CLUSTERS, "/apis"] {
        front_end.answers(path, StatusCode::NOT_FOUND, json!("<html>404</html>"));
    }
    let hubs = [
        ("front end", front_end.client().await, "request to the hub"),
        ("broken", broken.client().await, "etcd is gone"),
        ("forbidden", forbidden.client().await, "is forbidden"),
        ("gone", hub::unreachable().await, "request to the hub"),
        ("silent", hub::silent().await, "did not answer the request"),
    ];
    for (what, client, words) in hubs {
        let called = Called::new(client).await;
        for (path, review) in [("/validate", exposing(80)), ("/mutate", copied())] {
            let begun = Instant::now();
            let (code, status) = called.review(path, &review).await;
            assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE, "{what}: {status}");
            assert_eq!(
                (&status["kind"], &status["code"]),
                (&json!("Status"), &json!(503))
            );
            let message = status["message"].as_str().expect("a message");
            assert!(message.contains(words), "{what}: {message}");
            assert!(!message.contains("Status {"), "{what}: {message}");
            assert!(
                begun.elapsed() < Duration::from_secs(4),
                "{what}: {:?}",
                begun.elapsed()
            );
        }
    }
}

#[tokio::test]
async fn request_without_need_of_the_hub_is_answered_without_it() {
    let called = Called::new(hub::unreachable().await).await;
    let mut update = exposing(80);
    update["request"]["operation"] = json!("UPDATE");
    update["request"]["oldObject"] = update["request"]["object"].clone();
    update["request"]["object"]["spec"]["consumerClusters"] = json!([]);
    assert!(allowed(&called, "/validate", &update).await);
    assert!(allowed(&called, "/mutate", &exposing(80)).await);
}
