//! Defaults of a Namespace of the hub for the MultiClusterServices in it.

use causeway::api::labels::PREFER;
use causeway_tests::{SOON, eventually};

use super::space;

#[tokio::test]
async fn namespace_of_the_hub_gives_defaults_that_an_object_overrides() {
    let space = space("defaults").await;
    let annotate = async |object: [&str; 2], annotation: &str| {
        let args = ["annotate", "--overwrite", object[0], object[1], annotation];
        space.kubectl(space.hub(), args).await;
    };
    let namespace = ["namespace", space.name()];
    let foo = ["mcs", "foo"];
    let preferring = |tiers: &str| format!("{PREFER}={tiers}");
    let none = format!("{PREFER}-");

    annotate(namespace, &preferring("cluster/member1")).await;
    let providers = ["member1", "member2"];
    space.expose("foo", providers, ["member3"]).await;
    let one = space.pod("foo", "member1").await;
    let two = space.pod("foo", "member2").await;
    space.reaches("member3", "foo", &[one.ip()]).await;

    annotate(namespace, &preferring("cluster/member2")).await;
    space.reaches("member3", "foo", &[two.ip()]).await;

    annotate(foo, &preferring("cluster/member1")).await;
    space.reaches("member3", "foo", &[one.ip()]).await;
    annotate(foo, &none).await;
    space.reaches("member3", "foo", &[two.ip()]).await;

    annotate(namespace, &preferring("nearest")).await;
    space.reaches("member3", "foo", &[one.ip(), two.ip()]).await;
    let name = space.name();
    let wrong = format!("not followed: Namespace {name}: metadata.annotations[{PREFER}]");
    let is_reported = async |expected: bool| {
        eventually(
            "Ready reports an invalid default, or none",
            SOON,
            async || {
                let message = space.says("foo", "Ready", "True|Ready|").await;
                let is_reported = message.contains(&wrong);
                (is_reported == expected).then_some(()).ok_or(message)
            },
        )
        .await;
    };
    is_reported(true).await;
    annotate(namespace, &none).await;
    is_reported(false).await;
    space.reaches("member3", "foo", &[one.ip(), two.ip()]).await;
}
