//! A hub on which Karmada's own controllers carry services, as their Works show it.

use std::time::Duration;

use causeway_tests::{
    Cluster, Environment, SOON, Space, eventually, karmada, multi_cluster_service, repository,
    service, soak,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;

use super::own;

/// Longer than the hub's Works are waited for, and than a watch that was refused waits.
const AWAITED: Duration = Duration::from_secs(120);

fn work(name: &str, labels: &str) -> String {
    format!(
        "apiVersion: work.karmada.io/v1alpha1\nkind: Work\nmetadata: {{name: {name}, namespace: karmada-es-member1, labels: \
         {{{labels}}}}}\n"
    )
}

/// The labels of Works by which Karmada carries a service.
fn carrying(space: &Space<'_>, service: &str) -> String {
    format!(
        "multiclusterservice.karmada.io/namespace: {}, multiclusterservice.karmada.io/name: {service}",
        space.name()
    )
}

async fn store(hub: &Cluster, work: &str) {
    eventually("the Work is stored", SOON, async || {
        let applied = hub.apply(work).await;
        applied.exit.success().then_some(()).ok_or(applied.stderr)
    })
    .await;
}

async fn delete(hub: &Cluster, what: &[&str]) {
    let arguments = ["delete"].into_iter().chain(what.iter().copied());
    hub.kubectl(arguments).await.ok();
}

/// Creates the slice that `endpointslice_dispatch_controller.go` writes for foo of member1.
async fn dispatch(env: &Environment, space: &Space<'_>, consumer: &Cluster) -> String {
    let mut slice = space.slices(env.member("member1"), "foo").await.remove(0);
    let source = slice.metadata.name.take().expect("a name");
    let name = format!("member1-{source}");
    let text = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Some(pairs.collect())
    };
    slice.metadata = ObjectMeta {
        name: Some(name.clone()),
        labels: text(&[
            ("kubernetes.io/service-name", "foo"),
            (
                "endpointslice.kubernetes.io/managed-by",
                "endpointslice-dispatch-controller.karmada.io",
            ),
            ("karmada.io/managed", "true"),
        ]),
        annotations: text(&[("endpointslice.karmada.io/provision-cluster", "member1")]),
        ..ObjectMeta::default()
    };
    let api = space.api::<EndpointSlice>(consumer);
    api.create(&PostParams::default(), &slice)
        .await
        .expect("Karmada's slice");
    name
}

/// The slices by which a member reaches foo.
async fn foreign_slices(space: &Space<'_>, member: &Cluster) -> Vec<String> {
    let slices = space.slices(member, "foo").await.into_iter();
    let by_kubernetes = |slice: &EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        let manager = labels.and_then(|all| all.get("endpointslice.kubernetes.io/managed-by"));
        manager.is_some_and(|manager| manager == "endpointslice-controller.k8s.io")
    };
    let foreign_slices = slices.filter(|slice| !by_kubernetes(slice));
    foreign_slices
        .filter_map(|slice| slice.metadata.name)
        .collect()
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn service_moves_to_karmada_and_back_without_a_gap() {
    // Before there are definitions of Works all is as on any hub.
    let env = own().await;
    let (hub, consumer) = (env.hub(), env.member("member2"));
    let (space, mut addresses) = env.foo("works").await;

    // Karmada comes, and carries foo; of bar it propagates the Service alone, by a policy.
    karmada::define(hub).await;
    hub.kubectl(["create", "namespace", "karmada-es-member1"])
        .await
        .ok();
    store(hub, &work("foo-5d5d", &carrying(&space, "foo"))).await;
    let by_a_policy = "resourcebinding.karmada.io/permanent-id: a-policy";
    store(hub, &work("bar-77aa", by_a_policy)).await;
    let message = space.says("foo", "Ready", "False|ManagedByKarmada|").await;
    assert!(message.contains("karmada-es-member1/foo-5d5d"), "{message}");

    // The copy that is there is kept up, and nothing is begun; bar is carried as ever.
    space.grows(&mut addresses).await;
    space.expose("bar", ["member1"], ["member2"]).await;
    space.pods("bar", "member1", 1).await;
    space.says("bar", "Ready", "True|Ready|").await;

    // Karmada's slice comes, and the copy goes; what it serves never does.
    let karmadas = dispatch(&env, &space, consumer).await;
    eventually("Karmada's slice alone is left", SOON, async || {
        let foreign_slices = foreign_slices(&space, consumer).await;
        (foreign_slices == [karmadas.clone()])
            .then_some(())
            .ok_or(format!("{foreign_slices:?}"))
    })
    .await;
    assert_eq!(space.ready_addresses(consumer, "foo").await, addresses);
    let message = space.says("foo", "Ready", "False|ManagedByKarmada|").await;
    let remedy = format!("kubectl mcs adopt foo -n {}", space.name());
    assert!(message.ends_with(&remedy), "{message}");

    // The Works go, and causeway takes over.
    let works = ["works.work.karmada.io", "--all", "-n", "karmada-es-member1"];
    delete(hub, &works).await;
    space.says("foo", "Ready", "True|Ready|").await;
    delete(consumer, &["endpointslice", &karmadas, "-n", space.name()]).await;
    let foreign_slices = foreign_slices(&space, consumer).await;
    assert!(
        foreign_slices.len() == 1 && foreign_slices[0] != karmadas,
        "{foreign_slices:?}"
    );
    assert_eq!(space.ready_addresses(consumer, "foo").await, addresses);

    // A controller that starts again knows the Works before it does anything, and a deletion ends
    // nevertheless.
    store(hub, &work("foo-5d5d", &carrying(&space, "foo"))).await;
    store(hub, &work("new-99cc", &carrying(&space, "new"))).await;
    env.controller.restart_in_order().await;
    space.says("foo", "Ready", "False|ManagedByKarmada|").await;
    service("new").port("http", 80).create(hub, &space).await;
    multi_cluster_service("new").create(&space).await;
    space.says("new", "Ready", "False|ManagedByKarmada|").await;
    let finalizers = ["get", "mcs", "new", "-o", "jsonpath={.metadata.finalizers}"];
    assert_eq!(space.kubectl(hub, finalizers).await, "");
    for name in ["foo", "bar", "new"] {
        space.delete(name).await;
    }
    for member in ["member1", "member2"] {
        assert_eq!(space.own_objects(member).await, Vec::<String>::new());
    }
}

/// A minute and more; behind CAUSEWAY_SOAK.
#[tokio::test]
async fn hub_with_unlistable_works_is_served_and_reported() {
    if soak().is_none() {
        return;
    }
    let env = own().await;
    let hub = env.hub();
    karmada::define(hub).await;
    let right = ["clusterrolebinding", "causeway-controller-karmada"];
    delete(hub, &right).await;
    env.controller.restart_in_order().await;
    let space = env.space("hidden").await;
    space.within(AWAITED).foo().await;
    let message = space.says("foo", "Ready", "True|Ready|").await;
    assert!(message.contains("unknown whether Karmada"), "{message}");

    let rights = repository().join("manifests/hub/options/karmada.yaml");
    let apply = ["apply", "-f", &rights.display().to_string()];
    hub.kubectl(apply).await.ok();
    eventually("its Works can be read", AWAITED, async || {
        let message = space.says("foo", "Ready", "True|Ready|").await;
        (!message.contains("Karmada")).then_some(()).ok_or(message)
    })
    .await;
}
