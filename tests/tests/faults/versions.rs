//! Members whose API servers are upgraded, or taken back.

use causeway_tests::eventually::eventually;
use causeway_tests::{Cluster, Space};
use k8s_openapi::api::core::v1::Service;

use super::{Environment, NOTICED, reaches, says};

/// Waits until `foo` has this preference in a member.
async fn prefers(space: &Space<'_>, member: &Cluster, expected: &str) {
    let services = space.api::<Service>(member);
    eventually(&format!("foo prefers {expected}"), NOTICED, async || {
        let service = services.get("foo").await.map_err(|e| e.to_string())?;
        let spec = service.spec.unwrap_or_default();
        match spec.traffic_distribution.as_deref() {
            Some(preference) if preference == expected => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn member_gets_the_fields_of_each_version_it_runs() {
    let env = Environment::start(2, &[]).await;
    let (space, addresses) = env.foo("upgrade").await;
    let patch = r#"{"spec":{"trafficDistribution":"PreferSameNode"}}"#;
    let patch = ["patch", "svc", "foo", "-n", space.name(), "-p", patch];
    env.hub().kubectl(patch).await.ok();
    let member = env.member("member2");
    prefers(&space, member, "PreferSameNode").await;

    member.stop().await;
    member.start_as("1.33").await;
    prefers(&space, member, "PreferClose").await;
    says(&space, "Ready", "True|Ready|", NOTICED).await;
    member.stop().await;
    member.start().await;
    prefers(&space, member, "PreferSameNode").await;
    reaches(&space, member, &addresses, NOTICED).await;
    says(&space, "Ready", "True|Ready|", NOTICED).await;
}
