//! Front ends of API servers that answer 404 with a page of their own.

use std::time::Duration;

use causeway_tests::causeway::{Installation, Running};
use causeway_tests::eventually::throughout;
use causeway_tests::{
    Cluster, Fault, Fleet, Proxy, SOON, Space, eventually, karmada, multi_cluster_service, service,
    service_export,
};

use super::{NOTICED, cleaned, condition, own_objects, reaches};

/// Longer than four looks at what is served.
const LASTING: Duration = Duration::from_secs(45);

struct Fronted {
    hub: Proxy,
    member1: Proxy,
    member2: Proxy,
    _controller: Running,
    fleet: Fleet,
}

impl Fronted {
    async fn start() -> Self {
        let fleet = Fleet::builder().members(2).start().await;
        let installation = Installation::new(&fleet).await;
        karmada::define(fleet.hub()).await;
        let hub = Proxy::before(fleet.hub()).await;
        let controller = installation.controller_through(fleet.hub(), &hub.url());
        let controller = controller.start().await;
        let [member1, member2] = fleet.members() else {
            panic!("two members");
        };
        let proxies = [Proxy::before(member1).await, Proxy::before(member2).await];
        installation.join_at(member1, &proxies[0].url()).await;
        installation.join_at(member2, &proxies[1].url()).await;
        let [member1, member2] = proxies;
        Self {
            hub,
            member1,
            member2,
            _controller: controller,
            fleet,
        }
    }

    fn set(&self, fault: Fault) {
        for proxy in [&self.hub, &self.member1] {
            proxy.set(fault);
        }
    }
}

/// Exposes `foo` of member1 to member2, and exports `exported` of member1.
async fn expose(fleet: &Fleet, space: &Space<'_>) -> [Vec<String>; 2] {
    let (hub, member1, member2) = (
        fleet.hub(),
        fleet.member("member1"),
        fleet.member("member2"),
    );
    service("foo").port("http", 80).create(hub, space).await;
    let exposed = multi_cluster_service("foo").providers(["member1"]);
    exposed.consumers(["member2"]).create(space).await;
    let native = space.backends("foo").create(member1).await;
    let native = vec![native[0].ip().to_owned()];
    reaches(space, member2, &native, SOON).await;
    service("exported")
        .port("http", 80)
        .create(member1, space)
        .await;
    let exported = space.backends("exported").create(member1).await;
    service_export("exported").create(member1, space).await;
    let exported = vec![exported[0].ip().to_owned()];
    eventually("the export is imported", NOTICED, async || {
        let ready = space.ready_addresses(member2, "derived-exported").await;
        (ready == exported)
            .then_some(())
            .ok_or(format!("{ready:?}"))
    })
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
    let object = ["get", "mcs", "managed", "-n", name];
    condition(hub, &object, "Ready", "False|ManagedByKarmada|", NOTICED).await;
}

#[tokio::test]
async fn front_end_that_answers_404_is_no_evidence_of_a_deletion() {
    let fronted = Fronted::start().await;
    let fleet = &fronted.fleet;
    let (hub, member2) = (fleet.hub(), fleet.member("member2"));
    let space = fleet.space("fronted").await;
    let [foo, exported] = expose(fleet, &space).await;
    manage(hub, &space).await;
    let unchanged = async || {
        let native = space.ready_addresses(member2, "foo").await;
        let imported = space.ready_addresses(member2, "derived-exported").await;
        let own = own_objects(&space, member2).await;
        let is_managed = !own.iter().any(|name| name.contains("managed"));
        match native == foo && imported == exported && is_managed {
            true => Ok(()),
            false => Err(format!("{native:?}, {imported:?}, {own:?}")),
        }
    };
    fronted.set(Fault::NotFound);
    throughout(
        "nothing changes while the front ends answer 404",
        LASTING,
        unchanged,
    )
    .await;
    fronted.set(Fault::None);
    throughout("nothing changes after that", LASTING, unchanged).await;

    // Deletions that a front end answers are repeated once the API server answers.
    fronted.member2.set(Fault::NotFound);
    let delete = ["delete", "mcs", "foo", "-n", space.name(), "--wait=false"];
    hub.kubectl(delete).await.ok();
    let member1 = fleet.member("member1");
    let delete = ["delete", "serviceexport", "exported", "-n", space.name()];
    member1.kubectl(delete).await.ok();
    throughout("nothing is deleted", Duration::from_secs(5), unchanged).await;
    fronted.member2.set(Fault::None);
    cleaned(&space, member2, NOTICED).await;
}
