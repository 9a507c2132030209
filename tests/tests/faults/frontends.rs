//! Front ends of API servers that answer 404 with a page of their own.

use std::time::Duration;

use causeway_tests::{
    Cluster, Environment, Fault, Fleet, Installation, SOON, Space, addresses, eventually, karmada,
    multi_cluster_service, service, service_export, throughout,
};

/// Longer than four looks at what is served.
const LASTING: Duration = Duration::from_secs(45);

/// Exposes `foo` of member1 to member2, and exports `exported` of member1.
async fn expose(space: &Space<'_>) -> [Vec<String>; 2] {
    let native = space.foo().await;
    let member1 = space.member("member1");
    let exported = service("exported").port("http", 80);
    exported.create(member1, space).await;
    let exported = addresses(&space.backends("exported").create(member1).await);
    service_export("exported").create(member1, space).await;
    space
        .reaches("member2", "derived-exported", &exported)
        .await;
    [native, exported]
}

/// Has Karmada manage `managed`, as its Work shows.
async fn manage(hub: &Cluster, space: &Space<'_>) {
    hub.kubectl(["create", "namespace", "karmada-es-member1"])
        .await
        .ok();
    let name = space.name();
    let work = format!(
        "apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata:
  name: managed-5d5d
  namespace: karmada-es-member1
  labels:
    multiclusterservice.karmada.io/namespace: {name}
    multiclusterservice.karmada.io/name: managed
"
    );
    eventually("the Work is stored", SOON, async || {
        let applied = hub.apply(&work).await;
        applied.exit.success().then_some(()).ok_or(applied.stderr)
    })
    .await;
    service("managed").port("http", 80).create(hub, space).await;
    multi_cluster_service("managed").create(space).await;
    space
        .says("managed", "Ready", "False|ManagedByKarmada|")
        .await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn front_end_that_answers_404_is_no_evidence_of_a_deletion() {
    let fleet = Fleet::builder().members(2).start().await;
    // Karmada is there before causeway.
    Installation::new(&fleet).await;
    karmada::define(fleet.hub()).await;
    let env = Environment::builder().proxies().start(fleet).await;
    let (hub, member2) = (env.hub(), env.member("member2"));
    let space = env.space("fronted").await;
    let [foo, exported] = expose(&space).await;
    manage(hub, &space).await;
    let unchanged = async || {
        let native = space.ready_addresses(member2, "foo").await;
        let imported = space.ready_addresses(member2, "derived-exported").await;
        let own = space.own_objects("member2").await;
        let is_managed = !own.iter().any(|name| name.contains("managed"));
        match native == foo && imported == exported && is_managed {
            true => Ok(()),
            false => Err(format!("{native:?}, {imported:?}, {own:?}")),
        }
    };
    for front in ["hub", "member1"] {
        env.set(front, Fault::NotFound);
    }
    throughout(
        "nothing changes while the front ends answer 404",
        LASTING,
        unchanged,
    )
    .await;
    for front in ["hub", "member1"] {
        env.set(front, Fault::None);
    }
    throughout("nothing changes after that", LASTING, unchanged).await;

    // Deletions that a front end answers are repeated once the API server answers.
    env.set("member2", Fault::NotFound);
    space
        .kubectl(hub, ["delete", "mcs", "foo", "--wait=false"])
        .await;
    let delete = ["delete", "serviceexport", "exported"];
    space.kubectl(env.member("member1"), delete).await;
    throughout("nothing is deleted", Duration::from_secs(5), unchanged).await;
    env.set("member2", Fault::None);
    space.is_clean("member2").await;
}
