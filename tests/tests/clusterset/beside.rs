//! A service that has a MultiClusterService and exports too.

use causeway_tests::{SOON, eventually, multi_cluster_service, service};
use kube::api::DeleteParams;

use super::Stage;

#[tokio::test]
async fn the_own_name_and_the_clusterset_s_live_side_by_side() {
    let stage = Stage::on_three().await;
    let hub = stage.space.fleet().hub();
    let foo = || service("foo").port_to("http", 80, 8080);
    foo().create(hub, &stage.space).await;
    let native = multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"]);
    native.create(&stage.space).await;
    let near = stage.pod("member1").await;
    let reached = async |member: &str, expected: &[&str]| {
        let what = format!("{member} reaches {expected:?} by its own name");
        eventually(&what, SOON, async || {
            let member = stage.member(member);
            let ready = stage.space.ready_addresses(member, "foo").await;
            if ready == expected {
                Ok(())
            } else {
                Err(format!("{ready:?}"))
            }
        })
        .await;
    };
    reached("member2", &[near.ip()]).await;
    let far = stage.exporter("member3").await;
    stage.export_later("member1").await;
    for member in stage.members() {
        stage
            .imported_from(member.name(), &["member1", "member3"])
            .await;
        stage.reaches(member.name(), &[near.ip(), far.ip()]).await;
    }
    // The own name reaches the providers alone, as before.
    reached("member2", &[near.ip()]).await;
    reached("member3", &[far.ip()]).await;

    let objects = stage.space.api::<causeway::api::MultiClusterService>(hub);
    objects
        .delete("foo", &DeleteParams::default())
        .await
        .expect("a deletion");
    eventually("the own name is gone in member2", SOON, async || {
        let get = ["get", "svc", "foo", "--ignore-not-found", "-o", "name"];
        let left = stage.kubectl("member2", get).await;
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    let left = stage
        .space
        .ready_addresses(stage.member("member2"), "derived-foo");
    assert!(left.await.iter().any(|ip| ip == far.ip()));
}
