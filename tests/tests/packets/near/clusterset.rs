//! Tiers of an exported service, on real packets to its clusterset name.

use causeway::api::labels;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, Space, service_export};

use super::{DEMOTED, own_are_ready};
use crate::{answered_within, env, in_clusterset, said_by, web};

/// Creates `foo` with one ready pod in a member, and exports it with the preference "local, any".
async fn export(member: &Cluster, space: &Space<'_>) -> RunningPod {
    let fixture = web();
    fixture.create(member, space).await;
    let pod = space.backends("foo").create(member).await.remove(0);
    own_are_ready(space, member, 1).await;
    let export = service_export("foo").own_annotation(labels::PREFER, "local, any");
    export.create(member, space).await;
    pod
}

#[tokio::test]
async fn clusterset_clients_fail_over_to_the_next_tier_and_back() {
    let Some(env) = env().await else { return };
    let space = env.fleet.space("exported-tiers").await;
    let [far, near, without_pods] =
        ["member1", "member2", "member3"].map(|name| env.fleet.member(name));
    let (local, remote) = (export(near, &space).await, export(far, &space).await);
    let said_far = said_by(&[(&remote, "member1")]);
    let said_near = said_by(&[(&local, "member2")]);
    let both = said_by(&[(&remote, "member1"), (&local, "member2")]);
    let url = format!("http://{}", in_clusterset(&space));
    // member1 imports the export of member2 first, so its own tier becomes active only after 30 s;
    // the last loop asserts that.
    for (client, expected) in [(near, &said_near), (without_pods, &both)] {
        answered_within(DEMOTED, client, &url, expected).await;
    }

    local.set_ready(false).await;
    for client in [near, far, without_pods] {
        answered_within(DEMOTED, client, &url, &said_far).await;
    }

    local.set_ready(true).await;
    for (client, expected) in [(near, &said_near), (far, &said_far), (without_pods, &both)] {
        answered_within(DEMOTED, client, &url, expected).await;
    }
}
