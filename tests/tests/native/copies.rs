//! Copies of a provider's EndpointSlices in a consumer, and their cost.

use std::time::Duration;

use causeway_tests::{SOON, eventually, multi_cluster_service, service};

use super::Stage;

#[tokio::test]
async fn a_copy_bears_the_names_and_labels_that_others_rely_on() {
    let stage = Stage::new("labels").await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(stage.hub(), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    stage.pod_that_member2_reaches().await;
    let slices = stage.space.slices(stage.member("member2"), "foo").await;
    let source = &stage.space.slices(stage.member("member1"), "foo").await[0];
    let copy = slices
        .iter()
        .find(|slice| {
            slice
                .metadata
                .labels
                .as_ref()
                .is_some_and(|l| l.contains_key("multicluster.kubernetes.io/source-cluster"))
        })
        .expect("there is a copy");
    let label = |name: &str| {
        copy.metadata
            .labels
            .as_ref()
            .and_then(|all| all.get(name))
            .map(String::as_str)
    };
    let annotation = |name: &str| {
        copy.metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(name))
            .cloned()
    };
    assert_eq!(label("kubernetes.io/service-name"), Some("foo"));
    assert_eq!(
        label("endpointslice.kubernetes.io/managed-by"),
        Some("endpointslice-dispatch-controller.karmada.io")
    );
    assert_eq!(
        label("multicluster.kubernetes.io/source-cluster"),
        Some("member1")
    );
    assert_eq!(label("app.kubernetes.io/managed-by"), Some("causeway"));
    assert!(label("mcs.causeway.dev/hub").is_some());
    assert_eq!(
        annotation("endpointslice.karmada.io/provision-cluster").as_deref(),
        Some("member1")
    );
    let version = (
        source.metadata.uid.as_deref(),
        source.metadata.resource_version.as_deref(),
    );
    let expected = format!(
        "{}/{}",
        version.0.unwrap_or_default(),
        version.1.unwrap_or_default()
    );
    assert_eq!(annotation("mcs.causeway.dev/source"), Some(expected));
    let name = copy.metadata.name.as_deref().unwrap_or_default();
    let source_name = source.metadata.name.as_deref().unwrap_or_default();
    assert!(
        name.starts_with(&format!("member1-{source_name}-")),
        "{name}"
    );
    let endpoint = &copy.endpoints[0];
    assert_eq!(endpoint.zone, Some(stage.member("member1").zone()));
    assert_eq!(
        (&endpoint.node_name, &endpoint.target_ref, &endpoint.hints),
        (&None, &None, &None)
    );
    assert_eq!(
        endpoint
            .conditions
            .as_ref()
            .and_then(|conditions| conditions.serving),
        Some(true)
    );
}

#[tokio::test]
async fn under_a_traffic_preference_every_copied_endpoint_bears_hints() {
    let stage = Stage::new("hints").await;
    service("foo")
        .port("http", 80)
        .with(|spec| spec.traffic_distribution = Some("PreferSameNode".to_owned()))
        .create(stage.hub(), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    stage.pod_that_member2_reaches().await;
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    let hints = "jsonpath={.items[0].endpoints[0].hints.forZones[0].name} {.items[0].endpoints[0].hints.forNodes[0].name}";
    let expected = format!("{} member1.remote", stage.member("member1").zone());
    stage
        .prints(
            stage.member("member2"),
            ["get", "endpointslices", copies, "-o", hints],
            &expected,
        )
        .await;
}

#[tokio::test]
async fn endpoint_change_costs_one_write_per_consumer_and_none_on_hub() {
    let stage = Stage::new("cost").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2", "member3"])
        .create(&stage.space)
        .await;
    let pods = stage.pods("member1", 2).await;
    let both = [pods[0].ip(), pods[1].ip()];
    stage.reaches("member2", &both).await;
    stage.reaches("member3", &both).await;
    stage.ready().await;
    let hub = stage.hub().mark().await;
    let marks = [
        stage.member("member2").mark().await,
        stage.member("member3").mark().await,
    ];
    let started = std::time::Instant::now();
    pods[0].set_ready(false).await;
    stage.reaches("member2", &[pods[1].ip()]).await;
    stage.reaches("member3", &[pods[1].ip()]).await;
    let taken = started.elapsed();
    assert!(taken < Duration::from_secs(5), "it took {taken:?}");
    for (member, mark) in ["member2", "member3"].into_iter().zip(marks) {
        let mut writes = stage.member(member).writes_since(mark, "causeway").await;
        writes.retain(|write| write.namespace == stage.space.name());
        let writes: Vec<_> = writes
            .iter()
            .map(|write| (write.verb.as_str(), write.resource.as_str()))
            .collect();
        assert_eq!(writes, [("update", "endpointslices")], "{member}");
    }
    let mut writes = stage.hub().writes_since(hub, "causeway").await;
    writes.retain(|write| write.namespace == stage.space.name());
    assert_eq!(writes, [], "on the hub");
}

#[tokio::test]
async fn removed_port_leaves_service_and_copies() {
    let stage = Stage::new("unport").await;
    service("foo")
        .port("http", 80)
        .port("metrics", 9090)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"])
        .port("http", 80)
        .port("metrics", 9090)
        .create(&stage.space)
        .await;
    stage.pod_that_member2_reaches().await;
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    let ports = "jsonpath={.items[0].ports[*].name}";
    stage
        .prints(
            stage.member("member2"),
            ["get", "endpointslices", copies, "-o", ports],
            "http metrics",
        )
        .await;
    stage
        .edit_spec(r#"{"ports":[{"name":"http","port":80}]}"#)
        .await;
    stage
        .prints(
            stage.member("member2"),
            ["get", "endpointslices", copies, "-o", ports],
            "http",
        )
        .await;
    let service_ports = "jsonpath={.spec.ports[*].name}";
    stage
        .prints(
            stage.member("member2"),
            ["get", "svc", "foo", "-o", service_ports],
            "http",
        )
        .await;
}

#[tokio::test]
async fn renamed_port_is_held_and_reported_until_the_entry_is_fixed() {
    let stage = Stage::new("rename").await;
    service("foo")
        .port("http", 80)
        .create(stage.hub(), &stage.space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"])
        .port("http", 80)
        .create(&stage.space)
        .await;
    let pod = stage.pod_that_member2_reaches().await;
    let rename = r#"[{"op": "replace", "path": "/spec/ports/0/name", "value": "web"}]"#;
    stage
        .hub_kubectl(["patch", "svc", "foo", "--type=json", "-p", rename])
        .await;
    let message = stage.condition("Ready", "False", "PortNotFound").await;
    assert!(
        message.contains(
            "has no port http 80; it has web 80/TCP; what the clusters hold is kept until"
        ),
        "{message}"
    );
    stage.reaches("member2", &[pod.ip()]).await;
    stage
        .edit_spec(r#"{"ports":[{"name":"web","port":80}]}"#)
        .await;
    stage.ready().await;
    stage.reaches("member2", &[pod.ip()]).await;
    let ports = "jsonpath={.spec.ports[*].name}";
    stage
        .prints(
            stage.member("member2"),
            ["get", "svc", "foo", "-o", ports],
            "web",
        )
        .await;
}

#[tokio::test]
async fn copy_without_its_label_is_restored_and_follows_its_source() {
    let stage = Stage::new("lostlabel").await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(stage.hub(), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    let pod = stage.pod_that_member2_reaches().await;
    let member = stage.member("member2");
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    stage
        .kubectl(
            member,
            ["label", "endpointslice", copies, "mcs.causeway.dev/hub-"],
        )
        .await;
    let another = stage.pods("member1", 1).await.remove(0);
    stage.reaches("member2", &[pod.ip(), another.ip()]).await;
    let ours = format!("{copies},mcs.causeway.dev/hub");
    stage
        .prints(
            member,
            [
                "get",
                "endpointslice",
                &ours,
                "-o",
                "jsonpath={.items[*].addressType}",
            ],
            "IPv4",
        )
        .await;
}

#[tokio::test]
async fn handmade_slices_are_copied_and_imported_ones_are_not() {
    let stage = Stage::new("byhand").await;
    service("foo")
        .port("http", 80)
        .without_selector()
        .create(stage.hub(), &stage.space)
        .await;
    stage.carry_from_member1_to_member2().await;
    stage.ready().await;
    let slice = |name: &str, more: &str, address: &str| {
        format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: {}, labels: \
             {{kubernetes.io/service-name: foo{more}}}}}, addressType: IPv4, ports: [{{name: http, port: 80}}], \
             endpoints: [{{addresses: [{address}]}}]}}",
            stage.space.name()
        )
    };
    let manager = ", endpointslice.kubernetes.io/managed-by";
    let member = stage.member("member1");
    for (name, more, address) in [
        ("by-hand", "", "10.77.0.1"),
        (
            "by-a-controller",
            &*format!("{manager}: example.com"),
            "10.77.0.2",
        ),
        (
            "imported",
            &*format!("{manager}: lighthouse-agent.submariner.io"),
            "10.77.0.3",
        ),
    ] {
        member.apply(&slice(name, more, address)).await.ok();
    }
    stage.reaches("member2", &["10.77.0.1", "10.77.0.2"]).await;
    for name in ["by-hand", "by-a-controller"] {
        stage
            .kubectl(member, ["delete", "endpointslice", name])
            .await;
    }
    eventually("the copies are withdrawn", SOON, async || {
        stage
            .space
            .ready_addresses(stage.member("member2"), "foo")
            .await
            .is_empty()
    })
    .await;
}
