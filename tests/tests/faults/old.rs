//! A member of the oldest release that takes part.

use std::time::Duration;

use causeway_tests::{
    Environment, Fault, Fleet, LONG, SOON, addresses, eventually, same, service, service_export,
};

/// Longer than a copy that is not as it should be may go without being written again.
const AT_REST: Duration = Duration::from_secs(40);

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn member_of_kubernetes_1_21_is_ready_and_at_rest() {
    let fleet = Fleet::builder().members(2).clusterset().start().await;
    let env = Environment::builder().proxies().unjoined();
    let env = env.start(fleet).await;
    let (provider, old) = (env.member("member1"), env.member("member2"));
    env.set("member2", Fault::Kubernetes121);
    for member in env.fleet.members() {
        env.join(member).await;
    }
    let path = "jsonpath={.status.kubernetesVersion}";
    eventually("the old release is known", LONG, async || {
        let version = ["get", "cluster", "member2", "-o", path];
        same(
            env.hub().kubectl(version).await.stdout.as_str(),
            &"v1.21.14",
        )
    })
    .await;
    let space = env.space("old").await;
    let near = || {
        service("foo")
            .port("http", 80)
            .with(|spec| spec.traffic_distribution = Some("PreferSameNode".to_owned()))
    };
    near().create(env.hub(), &space).await;
    space.offer("foo", ["member1"], ["member2"]).await;
    let pods = space.pods("foo", "member1", 2).await;
    // What Kubernetes says of these pods is more than the old release stores.
    eventually("slices with all conditions", SOON, async || {
        let slices = space.slices(provider, "foo").await;
        let conditions = slices.iter().flat_map(|slice| &slice.endpoints);
        let conditions: Vec<_> = conditions
            .filter_map(|one| one.conditions.as_ref()?.serving)
            .collect();
        if conditions.len() == 2 {
            Ok(())
        } else {
            Err(format!("{slices:?}"))
        }
    })
    .await;
    space.reaches("member2", "foo", &addresses(&pods)).await;
    space.says("foo", "Ready", "True|Ready|").await;
    service_export("foo").create(provider, &space).await;
    space
        .export_says("member1", "foo", "Ready", "True|Exported|")
        .await;
    let copies = space.slices(old, "foo").await;
    let mut endpoints = copies.iter().flat_map(|copy| &copy.endpoints);
    let conditions = endpoints.find_map(|endpoint| endpoint.conditions.clone());
    let conditions = conditions.expect("conditions");
    assert_eq!(
        (conditions.ready, conditions.serving, conditions.terminating),
        (Some(true), None, None)
    );

    let mark = old.mark().await;
    tokio::time::sleep(AT_REST).await;
    assert_eq!(old.writes_since(mark, "causeway").await, []);
    space.says("foo", "Ready", "True|Ready|").await;
}
