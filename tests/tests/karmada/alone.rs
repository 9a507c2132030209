//! The imitation by itself: without it, what the other tests show would be worth nothing.

use std::time::Duration;

use causeway_tests::eventually::throughout;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::karmada::{ConflictResolution, ResourceBinding, at_rest, names, works_of};
use causeway_tests::{Fleet, Installation, Karmada, SOON, Space, addresses, eventually, service};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::DeleteParams;

/// A hub with causeway's definitions and Karmada, and two members.
struct Alone {
    karmada: Karmada,
    installation: Installation,
    fleet: Fleet,
}

impl Alone {
    async fn start() -> Self {
        let fleet = Fleet::builder().members(2).start().await;
        let installation = Installation::new(&fleet).await;
        let karmada = Karmada::start(&fleet).await;
        Self {
            karmada,
            installation,
            fleet,
        }
    }
}

async fn foo(space: &Space<'_>) -> Vec<RunningPod> {
    space.expose("foo", ["member1"], ["member2"]).await;
    space.pods("foo", "member1", 2).await
}

async fn reached(space: &Space<'_>, pods: &[RunningPod]) {
    for member in ["member1", "member2"] {
        space.reaches(member, "foo", &addresses(pods)).await;
    }
}

#[tokio::test]
async fn karmada_alone_does_here_what_it_does_there() {
    let alone = Alone::start().await;
    a_policy_overwrites_a_members_service_or_leaves_it_as_it_says(&alone).await;
    it_carries_a_service_follows_a_rollout_and_takes_it_back(&alone).await;
    a_collected_work_that_is_deleted_takes_the_providers_own_slice_along(&alone).await;
}

async fn it_carries_a_service_follows_a_rollout_and_takes_it_back(alone: &Alone) {
    alone.karmada.gate(true);
    let fleet = &alone.fleet;
    let space = fleet.space("alone").await;
    let old = foo(&space).await;
    reached(&space, &old).await;

    let versions = at_rest(fleet.hub(), &space, "foo").await;
    throughout(
        "nothing is written while nothing happens",
        Duration::from_secs(2),
        async || at_rest(fleet.hub(), &space, "foo").await == versions,
    )
    .await;

    // A rollout, during which it is killed and started again.
    let new = space.pods("foo", "member1", 2).await;
    alone.karmada.stop();
    old[0].delete().await;
    alone.karmada.resume();
    old[1].delete().await;
    reached(&space, &new).await;

    space.delete("foo").await;
    eventually("nothing of it is left", SOON, async || {
        let works = works_of(alone.fleet.hub(), &space, "foo").await.len();
        let slices = space.slices(space.member("member2"), "foo").await;
        let dispatched = slices
            .iter()
            .filter(|one| one.labels().contains_key(names::MANAGED))
            .count();
        // The consumer's own, which Kubernetes keeps for the Service, bears Karmada's label too.
        (works == 0 && dispatched <= 1)
            .then_some(())
            .ok_or(format!("{works} Works, {dispatched} slices"))
    })
    .await;
    // Its binding stays, and so does the Service.
    space
        .api::<Service>(space.member("member2"))
        .get("foo")
        .await
        .expect("the Service");
}

/// And it hangs while the gate is off.
async fn a_collected_work_that_is_deleted_takes_the_providers_own_slice_along(alone: &Alone) {
    alone.karmada.gate(true);
    let space = alone.fleet.space("harm").await;
    let pods = foo(&space).await;
    reached(&space, &pods).await;
    let own = async || -> EndpointSlice {
        let mut slices = space.slices(space.member("member1"), "foo").await;
        slices.pop().expect("a slice of the provider")
    };
    let before = eventually(
        "Kubernetes copies the Service's labels to its slices",
        SOON,
        async || {
            let slice = own().await;
            (slice.labels().get(names::MANAGED).map(String::as_str) == Some("true"))
                .then_some(slice)
        },
    )
    .await;
    let works = works_of(alone.fleet.hub(), &space, "foo").await;
    let collected = works
        .iter()
        .find(|work| work.labels().contains_key(names::COLLECTED_BY));
    let collected = collected
        .expect("a Work that holds what was collected")
        .clone();

    alone.karmada.gate(false);
    let works = kube::Api::<causeway_tests::karmada::Work>::namespaced(
        alone.fleet.hub().client(),
        &names::execution_space("member1"),
    );
    let deleted = works
        .delete(&collected.name_any(), &DeleteParams::default())
        .await;
    deleted.expect("the Work is to go");
    eventually("the slice is another", SOON, async || {
        let slices = space.slices(space.member("member1"), "foo").await;
        slices.iter().all(|slice| slice.uid() != before.uid())
    })
    .await;
    let hangs = works.get(&collected.name_any()).await.expect("the Work");
    assert!(hangs.metadata.deletion_timestamp.is_some());

    alone.karmada.gate(true);
    reached(&space, &pods).await;

    // And what it carries outlives causeway.
    uninstall_keeps_karmadas_cluster_with_an_agent(alone).await;
    let get = [
        "get",
        "mcs",
        "foo",
        "-n",
        space.name(),
        "-o=jsonpath={.metadata.deletionTimestamp}",
    ];
    assert_eq!(alone.fleet.hub().kubectl(get).await.ok(), "");
    reached(&space, &pods).await;
}

/// A user annotated it, so that causeway reaches the member through its agent.
async fn uninstall_keeps_karmadas_cluster_with_an_agent(alone: &Alone) {
    let hub = alone.fleet.hub();
    // On a Karmada control plane, the definition of Cluster is not causeway's.
    let unmark = [
        "label",
        "crd/clusters.cluster.karmada.io",
        "app.kubernetes.io/managed-by-",
        "app.kubernetes.io/name-",
    ];
    hub.kubectl(unmark).await.ok();
    let edge = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: edge, \
                annotations: {mcs.causeway.dev/tunnel: 'true', \
                mcs.causeway.dev/credentials: agent}}, spec: {syncMode: Pull}}";
    hub.apply(edge).await.ok();
    let plain = ["uninstall", "--dry-run"];
    alone.installation.kubectl_mcs(plain).await.ok();
    let uninstall = ["uninstall", "--cascade", "--yes"];
    alone.installation.kubectl_mcs(uninstall).await.ok();
    let path = "-o=jsonpath={.metadata.deletionTimestamp}";
    let get = ["get", "clusters.cluster.karmada.io", "edge", path];
    assert_eq!(hub.kubectl(get).await.ok(), "");
}

async fn a_policy_overwrites_a_members_service_or_leaves_it_as_it_says(alone: &Alone) {
    let space = alone.fleet.space("policy").await;
    let (hub, consumer) = (space.hub(), space.member("member2"));
    for name in ["mild", "harsh"] {
        service(name).port("http", 80).create(hub, &space).await;
        service(name)
            .port("http", 80)
            .selector("app", "other")
            .create(consumer, &space)
            .await;
    }
    let clusters = ["member2"];
    let karmada = &alone.karmada;
    karmada
        .propagate(&space, "mild", &clusters, ConflictResolution::Abort)
        .await;
    karmada
        .propagate(&space, "harsh", &clusters, ConflictResolution::Overwrite)
        .await;
    let bindings = space.api::<ResourceBinding>(hub);
    let applied = async |service: &str, expected: &str| {
        let name = names::binding_name("Service", service);
        let what = format!("FullyApplied of {name} is {expected}");
        eventually(&what, SOON, async || {
            let status = bindings.get(&name).await.ok()?.status?;
            let condition = status
                .conditions
                .iter()
                .find(|one| one.type_ == "FullyApplied")?;
            // Until a Work was tried there is no message.
            let tried = status
                .aggregated_status
                .iter()
                .all(|one| one.applied || !one.applied_message.is_empty());
            let tried = tried && status.aggregated_status.len() == clusters.len();
            (condition.status == expected && tried).then_some(status)
        })
        .await
    };
    let refused = applied("mild", "False").await;
    let message = &refused.aggregated_status[0].applied_message;
    assert!(
        message.contains("already exists in the cluster member2"),
        "{message}"
    );
    applied("harsh", "True").await;
    let selected = async |name: &str| {
        let service = space
            .api::<Service>(consumer)
            .get(name)
            .await
            .expect("a Service");
        let managed = service.labels().contains_key(names::MANAGED);
        (
            service
                .spec
                .and_then(|spec| spec.selector)
                .unwrap_or_default()["app"]
                .clone(),
            managed,
        )
    };
    assert_eq!(selected("mild").await, ("other".to_owned(), false));
    assert_eq!(selected("harsh").await, ("harsh".to_owned(), true));

    // Whoever changes it sees it put back.
    let other = r#"{"spec":{"selector":{"app":"other"}}}"#;
    let patch = ["patch", "service", "harsh", "-n", space.name(), "-p", other];
    consumer.kubectl(patch).await.ok();
    eventually("it is put back", SOON, async || {
        selected("harsh").await.0 == "harsh"
    })
    .await;
}
