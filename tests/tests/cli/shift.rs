//! `kubectl mcs shift` on a hub with the webhook and the controller.

use causeway::api::{MultiClusterService, labels};
use causeway_tests::{Environment, Fleet};
use kube::ResourceExt as _;

use crate::ends;

#[tokio::test]
async fn shift_stops_where_the_service_is_not_ready() {
    let fleet = Fleet::builder().members(2).start().await;
    let env = Environment::builder().webhook().start(fleet).await;
    let space = env.fleet.space("shift").await;
    let name = space.name();
    let shift = async |more: &[&str]| {
        let args = [
            "shift", "foo", "-n", name, "--to", "member1", "--every", "1s",
        ];
        env.mcs(args.into_iter().chain(more.iter().copied())).await
    };
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
    let both = "cluster/member1=50%, rest\nafter 1 s: cluster/member1=100%, rest";
    ends(&shift(&["--step", "50%", "--dry-run"]).await, 0, both);
    assert_eq!(stored().await, None);
    ends(&shift(&step).await, 0, "foo: cluster/member1=50%, rest");
    assert_eq!(
        stored().await.as_deref(),
        Some("cluster/member1=100%, rest")
    );
    ends(&shift(&step).await, 0, "member1 has 100% already");

    let delete = ["delete", "service", "foo", "-n", name];
    env.hub().kubectl(delete).await.ok();
    space.says("foo", "Ready", "False|ServiceNotFound").await;
    let annotate = [
        "annotate",
        "mcs",
        "foo",
        "-n",
        name,
        "mcs.causeway.dev/share-",
    ];
    env.hub().kubectl(annotate).await.ok();
    ends(
        &shift(&step).await,
        1,
        "is not ready: the hub has no Service",
    );
    assert_eq!(stored().await, None);
}
