//! Members whose API servers are upgraded, or taken back.

use causeway_tests::causeway::Lent;
use causeway_tests::{Cluster, LONG, Space, eventually};
use k8s_openapi::api::core::v1::Service;

/// Waits until `foo` has this preference in a member.
async fn prefers(space: &Space<'_>, member: &Cluster, expected: &str) {
    let services = space.api::<Service>(member);
    eventually(&format!("foo prefers {expected}"), LONG, async || {
        let service = services.get("foo").await.map_err(|e| e.to_string())?;
        let spec = service.spec.unwrap_or_default();
        match spec.traffic_distribution.as_deref() {
            Some(preference) if preference == expected => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn member_gets_the_fields_of_each_version_it_runs() {
    let env = Lent::take().await;
    let (space, addresses) = env.foo("upgrade").await;
    let patch = r#"{"spec":{"trafficDistribution":"PreferSameNode"}}"#;
    let patch = ["patch", "svc", "foo", "-n", space.name(), "-p", patch];
    env.hub().kubectl(patch).await.ok();
    let member = env.member("member2");
    prefers(&space, member, "PreferSameNode").await;

    member.stop().await;
    member.start_as("1.33").await;
    prefers(&space, member, "PreferClose").await;
    space.says("foo", "Ready", "True|Ready|").await;
    member.stop().await;
    member.start().await;
    prefers(&space, member, "PreferSameNode").await;
    space.reaches("member2", "foo", &addresses).await;
    space.says("foo", "Ready", "True|Ready|").await;
}
