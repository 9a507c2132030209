//! A member of the oldest release that takes part.

use std::time::Duration;

use causeway_tests::causeway::Installation;
use causeway_tests::{
    Fault, Fleet, Proxy, SOON, eventually, multi_cluster_service, service, service_export,
};

use super::{NOTICED, condition, reaches, says};

/// Longer than a copy that is not as it should be may go without being written again.
const AT_REST: Duration = Duration::from_secs(40);

#[tokio::test]
async fn member_of_kubernetes_1_21_is_ready_and_at_rest() {
    let fleet = Fleet::builder().members(2).clusterset().start().await;
    let installation = Installation::new(&fleet).await;
    let (provider, old) = (fleet.member("member1"), fleet.member("member2"));
    let proxy = Proxy::before(old).await;
    proxy.set(Fault::Kubernetes121);
    let _controller = installation.controller().start().await;
    installation.join(provider).await;
    installation.join_at(old, &proxy.url()).await;
    let version = [
        "get",
        "cluster",
        "member2",
        "-o",
        "jsonpath={.status.kubernetesVersion}",
    ];
    eventually("the old release is known", NOTICED, async || {
        let version = fleet.hub().kubectl(version).await.stdout;
        if version == "v1.21.14" {
            Ok(())
        } else {
            Err(version)
        }
    })
    .await;
    let space = fleet.space("old").await;
    let near = || {
        service("foo")
            .port("http", 80)
            .with(|spec| spec.traffic_distribution = Some("PreferSameNode".to_owned()))
    };
    near().create(fleet.hub(), &space).await;
    let foo = multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"]);
    foo.create(&space).await;
    let pods = space.backends("foo").count(2).create(provider).await;
    let mut addresses: Vec<_> = pods.iter().map(|pod| pod.ip().to_owned()).collect();
    addresses.sort();
    // What Kubernetes says of these pods is more than the old release stores.
    eventually("slices with all conditions", SOON, async || {
        let slices = space.slices(provider, "foo").await;
        let conditions = slices.iter().flat_map(|slice| &slice.endpoints);
        let conditions: Vec<_> = conditions
            .filter_map(|one| one.conditions.as_ref()?.serving)
            .collect();
        if conditions.len() == 2 {
            Ok(())
        } else {
            Err(format!("{slices:?}"))
        }
    })
    .await;
    reaches(&space, old, &addresses, SOON).await;
    says(&space, "Ready", "True|Ready|", SOON).await;
    service_export("foo").create(provider, &space).await;
    let export = ["get", "serviceexport", "foo", "-n", space.name()];
    condition(provider, &export, "Ready", "True|Exported|", SOON).await;
    let copies = space.slices(old, "foo").await;
    let mut endpoints = copies.iter().flat_map(|copy| &copy.endpoints);
    let conditions = endpoints.find_map(|endpoint| endpoint.conditions.clone());
    let conditions = conditions.expect("conditions");
    assert_eq!(
        (conditions.ready, conditions.serving, conditions.terminating),
        (Some(true), None, None)
    );

    let mark = old.mark().await;
    tokio::time::sleep(AT_REST).await;
    assert_eq!(old.writes_since(mark, "causeway").await, []);
    says(&space, "Ready", "True|Ready|", SOON).await;
}
