//! MultiClusterServices on a hub and three members.

mod copies;
mod defaults;
mod entry_clusters;
mod names;
mod placement;
mod services;
mod status;

use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Environment, Fleet, Space};
use tokio::sync::OnceCell;

/// A namespace on a hub with three members and one controller, which all tests here share.
async fn space(prefix: &str) -> Space<'static> {
    fleet().await.space(prefix).await
}

async fn fleet() -> &'static Fleet {
    static ENVIRONMENT: OnceCell<Environment> = OnceCell::const_new();
    let start = async || Environment::start(Fleet::builder().members(3).start().await).await;
    &ENVIRONMENT.get_or_init(start).await.fleet
}

/// Adds a pod of `foo` to member1, and waits until member2 reaches it.
async fn pod_that_member2_reaches(space: &Space<'_>) -> RunningPod {
    let pod = space.pod("foo", "member1").await;
    space.reaches("member2", "foo", &[pod.ip()]).await;
    pod
}
