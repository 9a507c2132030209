//! Services of members.

use std::time::Duration;

use causeway_tests::eventually::throughout;
use causeway_tests::{multi_cluster_service, service};

use super::Stage;

#[tokio::test]
async fn delivered_service_has_only_the_fields_that_cross_clusters() {
    let stage = Stage::new("deliver").await;
    service("foo")
        .port_to("http", 80, 8080)
        .port("metrics", 9090)
        .with(|spec| {
            spec.session_affinity = Some("ClientIP".to_owned());
            spec.internal_traffic_policy = Some("Local".to_owned());
            spec.external_ips = Some(vec!["198.51.100.7".to_owned()]);
            spec.type_ = Some("NodePort".to_owned());
            spec.publish_not_ready_addresses = Some(true);
        })
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"])
        .port("http", 80)
        .create(&stage.space)
        .await;
    stage.ready().await;
    let fields = "jsonpath={.spec.type} {.spec.internalTrafficPolicy} {.spec.externalIPs} {.spec.sessionAffinity} \
                  {.spec.sessionAffinityConfig.clientIP.timeoutSeconds} {.spec.publishNotReadyAddresses} \
                  {.spec.ports[*].port} {.spec.ports[*].targetPort} {.spec.selector}";
    let common = "ClusterIP Cluster  ClientIP 10800 true 80 8080";
    stage
        .prints(
            stage.member("member1"),
            ["get", "svc", "foo", "-o", fields],
            &format!("{common} {{\"app\":\"foo\"}}"),
        )
        .await;
    let nothing = format!("{common} {{\"mcs.causeway.dev/no-local-backends\":\"true\"}}");
    stage
        .prints(
            stage.member("member2"),
            ["get", "svc", "foo", "-o", fields],
            &nothing,
        )
        .await;
    stage.gone(stage.member("member3"), "svc", "foo").await;
}

#[tokio::test]
async fn foreign_service_is_used_under_its_own_port_names() {
    let stage = Stage::new("foreign").await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(stage.hub(), &stage.space)
        .await;
    service("foo")
        .port_to("web", 80, 9999)
        .selector("app", "else")
        .create(stage.member("member2"), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    stage.pod_that_member2_reaches().await;
    stage.ready().await;
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    let ports = "jsonpath={.items[0].ports[0].name} {.items[0].ports[0].port}";
    stage
        .prints(
            stage.member("member2"),
            ["get", "endpointslices", copies, "-o", ports],
            "web 8080",
        )
        .await;
    let untouched = "jsonpath={.spec.selector} {.metadata.labels}";
    stage
        .prints(
            stage.member("member2"),
            ["get", "svc", "foo", "-o", untouched],
            "{\"app\":\"else\"}",
        )
        .await;
}

#[tokio::test]
async fn foreign_service_without_a_port_is_reported_until_fixed() {
    let stage = Stage::new("misfit").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    service("foo")
        .port("http", 8000)
        .create(stage.member("member2"), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    let message = stage
        .condition("ServiceApplied", "False", "ServiceAppliedFailed")
        .await;
    let name = stage.space.name();
    assert_eq!(
        message,
        format!(
            "1 of 2 clusters: member2 has a Service {name}/foo of its own without http 80/TCP; it has http 8000/TCP; \
             add the port there or remove that Service"
        )
    );
    stage
        .condition("Ready", "False", "ServiceAppliedFailed")
        .await;
    stage
        .kubectl(stage.member("member2"), ["delete", "svc", "foo"])
        .await;
    stage.ready().await;
    let events = stage
        .hub_kubectl(["get", "events", "-o", "jsonpath={.items[*].reason}"])
        .await;
    assert!(
        events.contains("ServiceAppliedFailed") && events.contains("ServiceAppliedSucceed"),
        "{events}"
    );
}

/// `foo` as a person's manifest has it.
const THEIRS: &str = "apiVersion: v1
kind: Service
metadata:
  name: foo
spec:
  selector:
    app: theirs
  ports:
  - name: http
    port: 80
    targetPort: 9999
";

#[tokio::test]
async fn applied_service_changes_owner_and_edited_one_is_restored() {
    for (prefix, apply) in [
        (
            "claim",
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager=kustomize-controller",
            ][..],
        ),
        ("apply", &["apply"]),
    ] {
        let stage = Stage::new(prefix).await;
        stage.serve_http().await;
        let pod = stage.pod_that_member2_reaches().await;
        stage.ready().await;
        let member2 = stage.member("member2");
        let selector = ["get", "svc", "foo", "-o", "jsonpath={.spec.selector}"];
        let nothing = "{\"mcs.causeway.dev/no-local-backends\":\"true\"}";
        stage
            .kubectl(member2, ["label", "svc", "foo", "team=a"])
            .await;
        let label = [
            "apply",
            "--server-side",
            "--field-manager=labels",
            "-f",
            "-",
            "-n",
            stage.space.name(),
        ];
        let labelled = "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"foo\",\"labels\":{\"note\":\"b\"}}}";
        member2.kubectl_with(label, labelled).await.ok();
        let broken = r#"{"spec":{"selector":{"app":"broken"}}}"#;
        stage
            .kubectl(
                member2,
                ["patch", "svc", "foo", "--type=merge", "-p", broken],
            )
            .await;
        stage.prints(member2, selector, nothing).await;

        let all = apply
            .iter()
            .copied()
            .chain(["-f", "-", "-n", stage.space.name()]);
        member2.kubectl_with(all, THEIRS).await.ok();
        let marks =
            "jsonpath={.metadata.labels}{.metadata.annotations['mcs\\.causeway\\.dev/owner']}";
        let left = "{\"note\":\"b\",\"team\":\"a\"}";
        stage
            .prints(member2, ["get", "svc", "foo", "-o", marks], left)
            .await;
        stage
            .prints(member2, selector, "{\"app\":\"theirs\"}")
            .await;
        // It is used as it is, and stays when nobody asks for it any more.
        stage.ready().await;
        stage.reaches("member2", &[pod.ip()]).await;
        let version = [
            "get",
            "svc",
            "foo",
            "-o",
            "jsonpath={.metadata.uid} {.metadata.resourceVersion}",
        ];
        let before = stage.kubectl(member2, version).await;
        let events = ["get", "events", "-o", "jsonpath={.items[*].reason}"];
        let events = stage.hub_kubectl(events).await;
        assert!(events.contains("ServiceTakenOver"), "{events}");
        stage.hub_kubectl(["delete", "mcs", "foo"]).await;
        stage.clean("member2").await;
        assert_eq!(stage.kubectl(member2, version).await, before);
    }
}

#[tokio::test]
async fn service_that_becomes_headless_is_recreated_with_an_event() {
    let stage = Stage::new("headless").await;
    stage.serve_http().await;
    let pod = stage.pod_that_member2_reaches().await;
    stage.hub_kubectl(["delete", "svc", "foo"]).await;
    service("foo")
        .port("http", 80)
        .headless()
        .create(stage.hub(), &stage.space)
        .await;
    for member in ["member1", "member2"] {
        let ip = "jsonpath={.spec.clusterIP}";
        stage
            .prints(
                stage.member(member),
                ["get", "svc", "foo", "-o", ip],
                "None",
            )
            .await;
    }
    stage.reaches("member2", &[pod.ip()]).await;
    stage.ready().await;
    let events = stage
        .hub_kubectl(["get", "events", "-o", "jsonpath={.items[*].reason}"])
        .await;
    assert!(events.contains("ServiceRecreated"), "{events}");
}

#[tokio::test]
async fn a_service_that_is_replaced_by_force_is_no_outage() {
    let stage = Stage::new("force").await;
    stage.serve_http().await;
    let pods = stage.pods("member1", 2).await;
    let mut addresses: Vec<_> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
    addresses.sort();
    stage.reaches("member2", &addresses).await;
    stage.ready().await;
    let marks = [
        stage.member("member1").mark().await,
        stage.member("member2").mark().await,
    ];
    stage.hub_kubectl(["delete", "svc", "foo"]).await;
    let message = stage.condition("Ready", "False", "ServiceNotFound").await;
    assert!(
        message.contains("what the clusters hold is kept until"),
        "{message}"
    );
    throughout(
        "member2 reaches both pods",
        Duration::from_millis(500),
        async || {
            stage
                .space
                .ready_addresses(stage.member("member2"), "foo")
                .await
                == addresses
        },
    )
    .await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    stage.ready().await;
    for (member, mark) in ["member1", "member2"].into_iter().zip(marks) {
        let mut writes = stage.member(member).writes_since(mark, "causeway").await;
        writes.retain(|write| write.namespace == stage.space.name());
        assert_eq!(writes, [], "{member}");
    }
}

#[tokio::test]
async fn what_somebody_breaks_is_put_right() {
    let stage = Stage::new("drift").await;
    stage.serve_http().await;
    let pod = stage.pod_that_member2_reaches().await;
    let member2 = stage.member("member2");
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    stage
        .kubectl(member2, ["delete", "endpointslices", copies])
        .await;
    stage.reaches("member2", &[pod.ip()]).await;
    stage.kubectl(member2, ["delete", "svc", "foo"]).await;
    stage
        .prints(
            member2,
            ["get", "svc", "foo", "-o", "jsonpath={.spec.ports[*].port}"],
            "80",
        )
        .await;
    let patch = r#"[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]"#;
    stage
        .kubectl(member2, ["patch", "svc", "foo", "--type=json", "-p", patch])
        .await;
    stage
        .prints(
            member2,
            ["get", "svc", "foo", "-o", "jsonpath={.spec.ports[*].port}"],
            "80",
        )
        .await;
}

#[tokio::test]
async fn a_namespace_that_is_missing_is_named_and_awaited() {
    let fleet = &super::env().await.fleet;
    let space =
        causeway_tests::Space::create(fleet, "nowhere", &[fleet.hub(), fleet.member("member1")])
            .await;
    let stage = Stage { space };
    stage.serve_http().await;
    let message = stage
        .condition("ServiceApplied", "False", "ServiceAppliedFailed")
        .await;
    assert!(
        message.starts_with(&format!(
            "1 of 2 clusters: member2 has no namespace {}, and it cannot be made",
            stage.space.name()
        )),
        "{message}"
    );
    stage.space.create_in(stage.member("member2")).await;
    stage.ready().await;
}
