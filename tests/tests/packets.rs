//! Real packets between clusters. Skipped, with a line that says so, where there is no root.

use causeway_tests::keeper::Exit;
use causeway_tests::{Cluster, Fleet, SOON, Space, eventually, network, service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ObjectMeta, PostParams};

/// A fleet with packets, or a line that says why there is none.
async fn fleet(members: usize) -> Option<Fleet> {
    match network::prerequisites() {
        Ok(()) => Some(Fleet::builder().members(members).packets().start().await),
        Err(missing) => {
            eprintln!("skipped, no real packets: {missing}");
            None
        }
    }
}

/// What a client in the cluster gets from a Service, when it gets something.
async fn answer(cluster: &Cluster, space: &Space<'_>, service: &str) -> Result<String, String> {
    let url = format!("http://{service}.{}.svc.cluster.local", space.name());
    let output = cluster.curl(&url).await;
    if output.exit.success() {
        Ok(output.stdout.trim().to_owned())
    } else {
        Err(output.stderr)
    }
}

#[tokio::test]
async fn a_service_is_answered_by_a_pod_of_another_cluster() {
    let Some(fleet) = fleet(2).await else { return };
    let space = fleet.space("packets").await;
    let (provider, consumer) = (fleet.member("member1"), fleet.member("member2"));
    for member in [provider, consumer] {
        service("foo")
            .port_to("http", 80, 8080)
            .create(member, &space)
            .await;
    }
    let pods = space.backends("foo").create(provider).await;
    let expected = format!("pod {} in member1", pods[0].name());
    eventually("the provider's own clients are answered", SOON, || async {
        answer(provider, &space, "foo")
            .await
            .map(|text| assert_eq!(text, expected))
    })
    .await;
    assert!(answer(consumer, &space, "foo").await.is_err());

    let source = space.slices(provider, "foo").await.remove(0);
    let copy = EndpointSlice {
        metadata: ObjectMeta {
            name: Some("copied-by-hand".to_owned()),
            labels: Some([("kubernetes.io/service-name".to_owned(), "foo".to_owned())].into()),
            ..ObjectMeta::default()
        },
        endpoints: source
            .endpoints
            .into_iter()
            .map(|mut endpoint| {
                endpoint.target_ref = None;
                endpoint.node_name = None;
                endpoint
            })
            .collect(),
        ..source
    };
    space
        .api::<EndpointSlice>(consumer)
        .create(&PostParams::default(), &copy)
        .await
        .unwrap();
    eventually("the consumer's node is answered", SOON, || async {
        answer(consumer, &space, "foo")
            .await
            .map(|text| assert_eq!(text, expected))
    })
    .await;

    let client = space.backends("client").create(consumer).await.remove(0);
    let url = format!("http://foo.{}", space.name());
    let from_pod = client
        .network()
        .exec(consumer, "curl", ["-sS", "--max-time", "3", &url])
        .await
        .ok();
    assert_eq!(from_pod.trim(), expected);

    pods[0].network().kill().await;
    let refused = consumer.curl(&url).await;
    assert_eq!(refused.exit, Exit::Code(7), "{}", refused.stderr);
}

#[tokio::test]
async fn nothing_of_a_fleet_with_packets_is_left() {
    let Some(fleet) = fleet(1).await else { return };
    let member = fleet.member("member1");
    let own = member.exec("ip", ["netns", "identify"]).await.ok();
    let own = own.trim();
    let prefix = own
        .strip_suffix("-member1")
        .expect("the name of the namespace");
    let space = fleet.space("left").await;
    space.backends("foo").create(member).await;
    drop(space);
    drop(fleet);
    let list = |args: &[&str]| {
        let output = std::process::Command::new("ip")
            .args(args)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let left = list(&["netns", "list"]) + &list(&["-brief", "link", "show"]);
    assert!(!left.contains(prefix), "{left}");
    let resolv_left = std::fs::read_dir("/etc/netns").unwrap().flatten();
    let resolv_left: Vec<_> = resolv_left
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .collect();
    assert!(resolv_left.is_empty(), "{resolv_left:?}");
}
