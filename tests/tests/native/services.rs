//! Services of members.

use std::time::Duration;

use causeway_tests::eventually::throughout;
use causeway_tests::{Space, addresses, multi_cluster_service, service};

use super::{pod_that_member2_reaches, space};

#[tokio::test]
async fn delivered_service_has_only_the_fields_that_cross_clusters() {
    let space = space("deliver").await;
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
        .create(space.hub(), &space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"])
        .port("http", 80)
        .create(&space)
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
    let fields = "jsonpath={.spec.type} {.spec.internalTrafficPolicy} {.spec.externalIPs} {.spec.sessionAffinity} \
                  {.spec.sessionAffinityConfig.clientIP.timeoutSeconds} {.spec.publishNotReadyAddresses} \
                  {.spec.ports[*].port} {.spec.ports[*].targetPort} {.spec.selector}";
    let common = "ClusterIP Cluster  ClientIP 10800 true 80 8080";
    space
        .shows(
            "member1",
            ["svc", "foo"],
            fields,
            &format!("{common} {{\"app\":\"foo\"}}"),
        )
        .await;
    let nothing = format!("{common} {{\"mcs.causeway.dev/no-local-backends\":\"true\"}}");
    space
        .shows("member2", ["svc", "foo"], fields, &nothing)
        .await;
    space.is_gone(space.member("member3"), "svc", "foo").await;
}

#[tokio::test]
async fn foreign_service_is_used_under_its_own_port_names() {
    let space = space("foreign").await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(space.hub(), &space)
        .await;
    service("foo")
        .port_to("web", 80, 9999)
        .selector("app", "else")
        .create(space.member("member2"), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    pod_that_member2_reaches(&space).await;
    space.says("foo", "Ready", "True|Ready|").await;
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    let ports = "jsonpath={.items[0].ports[0].name} {.items[0].ports[0].port}";
    space
        .shows("member2", ["endpointslices", copies], ports, "web 8080")
        .await;
    let untouched = "jsonpath={.spec.selector} {.metadata.labels}";
    space
        .shows("member2", ["svc", "foo"], untouched, "{\"app\":\"else\"}")
        .await;
}

#[tokio::test]
async fn foreign_service_without_a_port_is_reported_until_fixed() {
    let space = space("misfit").await;
    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    service("foo")
        .port("http", 8000)
        .create(space.member("member2"), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    let message = space
        .says("foo", "ServiceApplied", "False|ServiceAppliedFailed|")
        .await;
    let name = space.name();
    assert_eq!(
        message,
        format!(
            "1 of 2 clusters: member2 has a Service {name}/foo of its own without http 80/TCP; it has http 8000/TCP; \
             add the port there or remove that Service"
        )
    );
    space
        .says("foo", "Ready", "False|ServiceAppliedFailed|")
        .await;
    space
        .kubectl(space.member("member2"), ["delete", "svc", "foo"])
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
    let events = space
        .on_hub(["get", "events", "-o", "jsonpath={.items[*].reason}"])
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
        let space = space(prefix).await;
        space.expose("foo", ["member1"], ["member2"]).await;
        let pod = pod_that_member2_reaches(&space).await;
        space.says("foo", "Ready", "True|Ready|").await;
        let member2 = space.member("member2");
        let selector = ["get", "svc", "foo", "-o", "jsonpath={.spec.selector}"];
        let nothing = "{\"mcs.causeway.dev/no-local-backends\":\"true\"}";
        space
            .kubectl(member2, ["label", "svc", "foo", "team=a"])
            .await;
        let label = [
            "apply",
            "--server-side",
            "--field-manager=labels",
            "-f",
            "-",
            "-n",
            space.name(),
        ];
        let labelled = "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"foo\",\"labels\":{\"note\":\"b\"}}}";
        member2.kubectl_with(label, labelled).await.ok();
        let broken = r#"{"spec":{"selector":{"app":"broken"}}}"#;
        space
            .kubectl(
                member2,
                ["patch", "svc", "foo", "--type=merge", "-p", broken],
            )
            .await;
        space.prints(member2, selector, nothing).await;

        let all = apply.iter().copied().chain(["-f", "-", "-n", space.name()]);
        member2.kubectl_with(all, THEIRS).await.ok();
        let marks =
            "jsonpath={.metadata.labels}{.metadata.annotations['mcs\\.causeway\\.dev/owner']}";
        let left = "{\"note\":\"b\",\"team\":\"a\"}";
        space
            .prints(member2, ["get", "svc", "foo", "-o", marks], left)
            .await;
        space
            .prints(member2, selector, "{\"app\":\"theirs\"}")
            .await;
        // It is used as it is, and stays when nobody asks for it any more.
        space.says("foo", "Ready", "True|Ready|").await;
        space.reaches("member2", "foo", &[pod.ip()]).await;
        let version = [
            "get",
            "svc",
            "foo",
            "-o",
            "jsonpath={.metadata.uid} {.metadata.resourceVersion}",
        ];
        let before = space.kubectl(member2, version).await;
        let events = ["get", "events", "-o", "jsonpath={.items[*].reason}"];
        let events = space.kubectl(space.hub(), events).await;
        assert!(events.contains("ServiceTakenOver"), "{events}");
        space.on_hub(["delete", "mcs", "foo"]).await;
        space.is_clean("member2").await;
        assert_eq!(space.kubectl(member2, version).await, before);
    }
}

#[tokio::test]
async fn service_that_becomes_headless_is_recreated_with_an_event() {
    let space = space("headless").await;
    space.expose("foo", ["member1"], ["member2"]).await;
    let pod = pod_that_member2_reaches(&space).await;
    space.on_hub(["delete", "svc", "foo"]).await;
    service("foo")
        .port("http", 80)
        .headless()
        .create(space.hub(), &space)
        .await;
    for member in ["member1", "member2"] {
        let ip = "jsonpath={.spec.clusterIP}";
        space
            .prints(
                space.member(member),
                ["get", "svc", "foo", "-o", ip],
                "None",
            )
            .await;
    }
    space.reaches("member2", "foo", &[pod.ip()]).await;
    space.says("foo", "Ready", "True|Ready|").await;
    let events = space
        .on_hub(["get", "events", "-o", "jsonpath={.items[*].reason}"])
        .await;
    assert!(events.contains("ServiceRecreated"), "{events}");
}

#[tokio::test]
async fn a_service_that_is_replaced_by_force_is_no_outage() {
    let space = space("force").await;
    space.expose("foo", ["member1"], ["member2"]).await;
    let pods = space.pods("foo", "member1", 2).await;
    let addresses = addresses(&pods);
    space.reaches("member2", "foo", &addresses).await;
    space.says("foo", "Ready", "True|Ready|").await;
    let marks = [
        space.member("member1").mark().await,
        space.member("member2").mark().await,
    ];
    space.on_hub(["delete", "svc", "foo"]).await;
    let message = space.says("foo", "Ready", "False|ServiceNotFound|").await;
    assert!(
        message.contains("what the clusters hold is kept until"),
        "{message}"
    );
    throughout(
        "member2 reaches both pods",
        Duration::from_millis(500),
        async || space.ready_addresses(space.member("member2"), "foo").await == addresses,
    )
    .await;
    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
    for (member, mark) in ["member1", "member2"].into_iter().zip(marks) {
        let mut writes = space.member(member).writes_since(mark, "causeway").await;
        writes.retain(|write| write.namespace == space.name());
        assert_eq!(writes, [], "{member}");
    }
}

#[tokio::test]
async fn what_somebody_breaks_is_put_right() {
    let space = space("drift").await;
    space.expose("foo", ["member1"], ["member2"]).await;
    let pod = pod_that_member2_reaches(&space).await;
    let member2 = space.member("member2");
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    space
        .kubectl(member2, ["delete", "endpointslices", copies])
        .await;
    space.reaches("member2", "foo", &[pod.ip()]).await;
    space.kubectl(member2, ["delete", "svc", "foo"]).await;
    space
        .prints(
            member2,
            ["get", "svc", "foo", "-o", "jsonpath={.spec.ports[*].port}"],
            "80",
        )
        .await;
    let patch = r#"[{"op": "replace", "path": "/spec/ports/0/port", "value": 81}]"#;
    space
        .kubectl(member2, ["patch", "svc", "foo", "--type=json", "-p", patch])
        .await;
    space
        .prints(
            member2,
            ["get", "svc", "foo", "-o", "jsonpath={.spec.ports[*].port}"],
            "80",
        )
        .await;
}

#[tokio::test]
async fn a_namespace_that_is_missing_is_named_and_awaited() {
    let fleet = super::fleet().await;
    let clusters = [fleet.hub(), fleet.member("member1")];
    let space = Space::create(fleet, "nowhere", &clusters).await;
    space.expose("foo", ["member1"], ["member2"]).await;
    let message = space
        .says("foo", "ServiceApplied", "False|ServiceAppliedFailed|")
        .await;
    assert!(
        message.starts_with(&format!(
            "1 of 2 clusters: member2 has no namespace {}, and it cannot be made",
            space.name()
        )),
        "{message}"
    );
    space.create_in(space.member("member2")).await;
    space.says("foo", "Ready", "True|Ready|").await;
}
