//! Copies of a provider's EndpointSlices in a consumer, and their cost.

use causeway_tests::{SOON, eventually, multi_cluster_service, service};

use super::{pod_that_member2_reaches, space};

#[tokio::test]
async fn a_copy_bears_the_names_and_labels_that_others_rely_on() {
    let space = space("labels").await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(space.hub(), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    pod_that_member2_reaches(&space).await;
    let slices = space.slices(space.member("member2"), "foo").await;
    let source = &space.slices(space.member("member1"), "foo").await[0];
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
    assert_eq!(endpoint.zone, Some(space.member("member1").zone()));
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
    let space = space("hints").await;
    service("foo")
        .port("http", 80)
        .with(|spec| spec.traffic_distribution = Some("PreferSameNode".to_owned()))
        .create(space.hub(), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    pod_that_member2_reaches(&space).await;
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    let hints = "jsonpath={.items[0].endpoints[0].hints.forZones[0].name} {.items[0].endpoints[0].hints.forNodes[0].name}";
    let expected = format!("{} member1.remote", space.member("member1").zone());
    space
        .shows("member2", ["endpointslices", copies], hints, &expected)
        .await;
}

#[tokio::test]
async fn endpoint_change_costs_one_write_per_consumer_and_none_on_hub() {
    let space = space("cost").await;
    space
        .expose("foo", ["member1"], ["member2", "member3"])
        .await;
    let pods = space.pods("foo", "member1", 2).await;
    let both = [pods[0].ip(), pods[1].ip()];
    space.reaches("member2", "foo", &both).await;
    space.reaches("member3", "foo", &both).await;
    space.says("foo", "Ready", "True|Ready|").await;
    space.events_are_written().await;
    let hub = space.hub().mark().await;
    let marks = [
        space.member("member2").mark().await,
        space.member("member3").mark().await,
    ];
    pods[0].set_ready(false).await;
    space.reaches("member2", "foo", &[pods[1].ip()]).await;
    space.reaches("member3", "foo", &[pods[1].ip()]).await;
    for (member, mark) in ["member2", "member3"].into_iter().zip(marks) {
        let mut writes = space.member(member).writes_since(mark, "causeway").await;
        writes.retain(|write| write.namespace == space.name());
        let writes: Vec<_> = writes
            .iter()
            .map(|write| (write.verb.as_str(), write.resource.as_str()))
            .collect();
        assert_eq!(writes, [("update", "endpointslices")], "{member}");
    }
    let mut writes = space.hub().writes_since(hub, "causeway").await;
    writes.retain(|write| write.namespace == space.name());
    assert_eq!(writes, [], "on the hub");
}

#[tokio::test]
async fn removed_port_leaves_service_and_copies() {
    let space = space("unport").await;
    service("foo")
        .port("http", 80)
        .port("metrics", 9090)
        .create(space.hub(), &space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"])
        .port("http", 80)
        .port("metrics", 9090)
        .create(&space)
        .await;
    pod_that_member2_reaches(&space).await;
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    let ports = "jsonpath={.items[0].ports[*].name}";
    space
        .shows("member2", ["endpointslices", copies], ports, "http metrics")
        .await;
    space
        .edit("foo", r#"{"ports":[{"name":"http","port":80}]}"#)
        .await;
    space
        .shows("member2", ["endpointslices", copies], ports, "http")
        .await;
    let service_ports = "jsonpath={.spec.ports[*].name}";
    space
        .shows("member2", ["svc", "foo"], service_ports, "http")
        .await;
}

#[tokio::test]
async fn renamed_port_is_held_and_reported_until_the_entry_is_fixed() {
    let space = space("rename").await;
    service("foo")
        .port("http", 80)
        .create(space.hub(), &space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"])
        .port("http", 80)
        .create(&space)
        .await;
    let pod = pod_that_member2_reaches(&space).await;
    let rename = r#"[{"op": "replace", "path": "/spec/ports/0/name", "value": "web"}]"#;
    space
        .on_hub(["patch", "svc", "foo", "--type=json", "-p", rename])
        .await;
    let message = space.says("foo", "Ready", "False|PortNotFound|").await;
    assert!(
        message.contains(
            "has no port http 80; it has web 80/TCP; what the clusters hold is kept until"
        ),
        "{message}"
    );
    space.reaches("member2", "foo", &[pod.ip()]).await;
    space
        .edit("foo", r#"{"ports":[{"name":"web","port":80}]}"#)
        .await;
    space.says("foo", "Ready", "True|Ready|").await;
    space.reaches("member2", "foo", &[pod.ip()]).await;
    let ports = "jsonpath={.spec.ports[*].name}";
    space.shows("member2", ["svc", "foo"], ports, "web").await;
}

#[tokio::test]
async fn copy_without_its_label_is_restored_and_follows_its_source() {
    let space = space("lostlabel").await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(space.hub(), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    let pod = pod_that_member2_reaches(&space).await;
    let member = space.member("member2");
    let copies = "--selector=multicluster.kubernetes.io/source-cluster=member1";
    space
        .kubectl(
            member,
            ["label", "endpointslice", copies, "mcs.causeway.dev/hub-"],
        )
        .await;
    let another = space.pods("foo", "member1", 1).await.remove(0);
    space
        .reaches("member2", "foo", &[pod.ip(), another.ip()])
        .await;
    let ours = format!("{copies},mcs.causeway.dev/hub");
    space
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
    let space = space("byhand").await;
    service("foo")
        .port("http", 80)
        .without_selector()
        .create(space.hub(), &space)
        .await;
    space.offer("foo", ["member1"], ["member2"]).await;
    space.says("foo", "Ready", "True|Ready|").await;
    let slice = |name: &str, more: &str, address: &str| {
        format!(
            "{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: {name}, namespace: {}, labels: \
             {{kubernetes.io/service-name: foo{more}}}}}, addressType: IPv4, ports: [{{name: http, port: 80}}], \
             endpoints: [{{addresses: [{address}]}}]}}",
            space.name()
        )
    };
    let manager = ", endpointslice.kubernetes.io/managed-by";
    let member = space.member("member1");
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
    space
        .reaches("member2", "foo", &["10.77.0.1", "10.77.0.2"])
        .await;
    for name in ["by-hand", "by-a-controller"] {
        space
            .kubectl(member, ["delete", "endpointslice", name])
            .await;
    }
    eventually("the copies are withdrawn", SOON, async || {
        space
            .ready_addresses(space.member("member2"), "foo")
            .await
            .is_empty()
    })
    .await;
}
