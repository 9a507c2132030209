//! Services that stay as they are, beside others that change.

use causeway::api::labels;

use super::churn::{balance, make_namespace};
use crate::{Cluster, Fleet, Space, multi_cluster_service, service, service_export};

/// The namespace of what nobody ever changes.
pub const ROCK: &str = "rock";

/// The service of [`ROCK`] whose endpoints go on standby while their provider is unreachable.
pub const STANDBY: &str = "standby";

/// Service of [`ROCK`] with entry clusters.
const BALANCED: &str = "balanced";

/// Number of pods of each service of [`ROCK`] in each of its members.
pub const ROCK_PODS: usize = 3;

/// Services that stay as they are, one of each exposure and [`STANDBY`], with pods in two members
/// that stay.
pub async fn rock(fleet: &Fleet, steady: [&str; 2]) {
    let clusters: Vec<&Cluster> = fleet.clusters().collect();
    make_namespace(fleet, ROCK, &clusters).await;
    let space = Space::existing(fleet, ROCK);
    for (name, unreachable) in [("native", "keep"), (STANDBY, "standby")] {
        let fixture = service(name).port("http", 80);
        fixture.create(fleet.hub(), &space).await;
        let object = multi_cluster_service(name).providers(steady);
        let object = object.consumers(steady);
        object
            .annotation(labels::UNREACHABLE, unreachable)
            .create(&space)
            .await;
    }
    for name in steady {
        let member = fleet.member(name);
        service("exported")
            .port("http", 80)
            .create(member, &space)
            .await;
        let export = service_export("exported");
        // Members of other networks import it, whatever becomes of the Clusters' annotations.
        let export = export.own_annotation(labels::REACH, "node-ports");
        export.create(member, &space).await;
        for backed in ["native", STANDBY, "exported"] {
            space.backends(backed).count(ROCK_PODS).create(member).await;
        }
    }
}

/// A service of [`ROCK`] of type LoadBalancer. Two members that stay provide it and are its entry
/// clusters.
pub async fn balanced(fleet: &Fleet, steady: [&str; 2]) {
    let space = Space::existing(fleet, ROCK);
    let fixture = service(BALANCED).port("http", 80);
    fixture.create(fleet.hub(), &space).await;
    let object = multi_cluster_service(BALANCED).type_("LoadBalancer");
    let object = object.providers(steady).consumers(steady);
    object.create(&space).await;
    for name in steady {
        let pods = space.backends(BALANCED).count(ROCK_PODS);
        pods.create(fleet.member(name)).await;
    }
}

/// Has the load balancers of [`balanced`] give addresses, which then stay.
pub async fn give_addresses(fleet: &Fleet, steady: [&str; 2]) {
    let space = Space::existing(fleet, ROCK);
    for name in steady {
        let cluster = fleet.member(name);
        let address = cluster.fresh_pod_ip();
        let is_given = balance(&space.api(cluster), BALANCED, Some(&address)).await;
        assert!(is_given, "{name} has a Service of type LoadBalancer");
    }
}

/// A service of [`ROCK`] with pods in two members of different networks that stay, where each
/// reaches the other by node ports.
pub async fn entered(fleet: &Fleet, steady: [&str; 2]) {
    let space = Space::existing(fleet, ROCK);
    let fixture = service("entered").port("http", 80);
    fixture.create(fleet.hub(), &space).await;
    let object = multi_cluster_service("entered").providers(steady);
    let object = object.consumers(steady);
    let object = object.annotation(labels::REACH, "node-ports");
    object.create(&space).await;
    for name in steady {
        let pods = space.backends("entered").count(ROCK_PODS);
        pods.create(fleet.member(name)).await;
    }
}
