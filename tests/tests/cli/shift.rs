//! `kubectl mcs shift` on a hub with the webhook and the controller.

use causeway::api::{MultiClusterService, labels};
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{Environment, Fleet, SOON, eventually, multi_cluster_service, service};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::ends;

/// Waits until so many services have this result of their shares, and one deviates by so much.
async fn deviates(env: &Environment, result: &str, services: f64, deviation: f64) {
    let metric = |name| format!("causeway_controller_{name}");
    let expected = [Some(services), Some(deviation)];
    let what = format!("{services} services are {result}, and {deviation} is the deviation");
    eventually(&what, SOON, async || {
        let metrics = env.controller.metrics().await;
        let services = metrics.get(&metric("shared_services"), &[("result", result)]);
        let found = [services, metrics.get(&metric("share_deviation_ratio"), &[])];
        (found == expected)
            .then_some(())
            .ok_or(format!("{found:?}"))
    })
    .await;
}

/// Stores the Deployment of a controller with this tag, of which no pod runs.
async fn deploy(env: &Environment, tag: &str) {
    let labels = json!({"app": "controller"});
    let image = format!("causeway/causeway-controller:{tag}");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "causeway-controller", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "controller", "image": image}]},
        }},
    });
    env.hub().apply(&deployment.to_string()).await.ok();
}

#[tokio::test]
async fn shift_stops_at_a_failed_path_and_where_the_service_is_not_ready() {
    let fleet = Fleet::builder().members(2).start().await;
    let env = Environment::builder().webhook().start(fleet).await;
    let space = env.fleet.space("shift").await;
    let name = space.name();
    let shift_to = async |service: &str, to: &str, more: &[&str]| {
        let args = ["shift", service, "-n", name, "--to", to, "--every", "1s"];
        env.mcs(args.into_iter().chain(more.iter().copied())).await
    };
    let shift = async |more: &[&str]| shift_to("foo", "member1", more).await;
    let step = ["--step", "50%"];
    let missing = "the hub has no MultiClusterService foo";
    ends(&shift(&step).await, 1, missing);

    space
        .expose("foo", ["member1", "member2"], ["member2"])
        .await;
    space.says("foo", "Ready", "True|").await;
    let stored = async || {
        let services = space.api::<MultiClusterService>(env.fleet.hub());
        let stored = services.get("foo").await.expect("it is there");
        stored.annotations().get(labels::SHARE).cloned()
    };
    space.expose("all", [], ["member2"]).await;
    let balanced = service("balanced").port("http", 80).type_("LoadBalancer");
    balanced.create(env.hub(), &space).await;
    let balanced = multi_cluster_service("balanced").type_("LoadBalancer");
    balanced.create(&space).await;
    ends(&env.mcs(["drain", "member1"]).await, 0, "");
    let undo = ["drain", "member1", "--undo"];
    let drained = "member1 is drained | kubectl mcs drain member1 --undo";
    let elsewhere = "other does not provide foo | spec.providerClusters";
    let own = "balanced is of type LoadBalancer without spec.consumerClusters";
    for (service, to, refused) in [
        ("foo", "other", elsewhere),
        ("all", "other", "other is not joined"),
        ("balanced", "member1", own),
        ("foo", "member1", drained),
    ] {
        for more in [&["--step", "50%", "--dry-run"][..], &step] {
            ends(&shift_to(service, to, more).await, 1, refused);
        }
    }
    ends(&env.mcs(undo).await, 0, "");
    space.says("foo", "Ready", "True|").await;
    let both = "cluster/member1=50%, rest\nafter 1 s: cluster/member1=100%, rest";
    ends(&shift(&["--step", "50%", "--dry-run"]).await, 0, both);
    let older = "causeway-controller 0.1.0, which applies no shares";
    let unknown = "note: Deployment causeway-system/causeway-controller";
    for (tag, code, text) in [("0.1.0", 1, older), ("latest", 0, unknown)] {
        deploy(&env, tag).await;
        ends(&shift(&["--step", "50%", "--dry-run"]).await, code, text);
    }
    assert_eq!(stored().await, None);
    let shifted = shift(&step).await;
    let first = "note: member1 has no share yet | the first step sets 50%";
    ends(
        &shifted,
        0,
        &format!("foo: cluster/member1=50%, rest | {first}"),
    );
    assert_eq!(
        stored().await.as_deref(),
        Some("cluster/member1=100%, rest")
    );
    let note = "has no result, so paths are not checked";
    assert_eq!(
        shifted.stderr.matches(note).count(),
        1,
        "{}",
        shifted.stderr
    );
    ends(&shift(&step).await, 0, "member1 has 100% already");
    let lower = shift(&["--step", "50%", "--until", "50%"]).await;
    ends(&lower, 1, "member1 has 100%, more than 50%");
    let pods = ["member1", "member2"].map(|member| space.pod("foo", member));
    let _pods = futures::future::join_all(pods).await;
    deviates(&env, "coarse", 1.0, 0.5).await;
    let data_plane = async |standby: &str| {
        let annotation = format!("{}{standby}", labels::STANDBY);
        let annotate = ["annotate", "cluster", "member2", &annotation];
        space.kubectl(env.hub(), annotate).await;
    };
    data_plane("=false").await;
    let unapplied = "note: mcs.causeway.dev/share is not applied in member2: the data plane";
    eventually("a shift notes the data plane", SOON, async || {
        let noted = shift(&step).await.stderr;
        noted.contains(unapplied).then_some(()).ok_or(noted)
    })
    .await;
    data_plane("-").await;
    deviates(&env, "coarse", 1.0, 0.5).await;
    let without_share = ["annotate", "mcs", "foo", "mcs.causeway.dev/share-"];

    // What kubectl mcs verify keeps of a run.
    let keep = async |result: Value| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "causeway-verify.foo", "namespace": name},
            "data": {"result.json": result.to_string()},
        });
        env.hub().apply(&map.to_string()).await;
    };
    let verified = async |hours: i64| {
        let time = Timestamp::now() - SignedDuration::from_hours(hours);
        let result = json!({"time": time, "results": [{
            "from": "member2", "to": {"Provider": "member1"}, "works": 0, "tried": 2,
            "problem": "connection refused",
        }]});
        keep(result).await;
    };
    space.kubectl(env.hub(), without_share).await;
    deviates(&env, "coarse", 0.0, 0.0).await;
    verified(1).await;
    let failed = "found failed paths to pods of member1 60m ago: from member2 to pods of member1 0 of 2 work \
                  (connection refused)";
    ends(&shift(&step).await, 1, failed);
    assert_eq!(stored().await, None);
    let time = Timestamp::now();
    keep(json!({"time": time, "untried": 1, "results": []})).await;
    let partial = "lacks outcomes of paths to pods of member1, so not all paths are checked";
    ends(&shift(&["--step", "50%", "--dry-run"]).await, 0, partial);
    verified(48).await;
    let shifted = shift(&["--step", "50%", "--until", "50%"]).await;
    ends(
        &shifted,
        0,
        "is 2d old, so paths are not checked | foo: cluster/member1=50%, rest",
    );

    let delete = ["delete", "service", "foo", "-n", name];
    env.hub().kubectl(delete).await.ok();
    space.says("foo", "Ready", "False|ServiceNotFound").await;
    space.kubectl(env.hub(), without_share).await;
    ends(
        &shift(&step).await,
        1,
        "is not ready: the hub has no Service",
    );
    assert_eq!(stored().await, None);
}
