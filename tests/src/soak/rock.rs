//! Services that stay as they are, beside others that change.

use super::churn::make_namespace;
use crate::{Cluster, Fleet, Space, multi_cluster_service, service, service_export};

/// The namespace of what nobody ever changes.
pub const ROCK: &str = "rock";

/// Services that stay as they are, one of each exposure, with pods in two members that stay.
pub async fn rock(fleet: &Fleet, steady: [&str; 2]) {
    let clusters: Vec<&Cluster> = fleet.clusters().collect();
    make_namespace(fleet, ROCK, &clusters).await;
    let space = Space::existing(fleet, ROCK);
    service("native")
        .port("http", 80)
        .create(fleet.hub(), &space)
        .await;
    let object = multi_cluster_service("native")
        .providers(steady)
        .consumers(steady);
    object.create(&space).await;
    for name in steady {
        let member = fleet.member(name);
        service("exported")
            .port("http", 80)
            .create(member, &space)
            .await;
        service_export("exported").create(member, &space).await;
        space.backends("native").count(3).create(member).await;
        space.backends("exported").count(3).create(member).await;
    }
}
