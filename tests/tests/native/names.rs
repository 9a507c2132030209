//! Services whose names only newer API servers allow (KEP-5311, RelaxedServiceNameValidation: on by
//! default since Kubernetes 1.36).

use causeway_tests::causeway::Environment;
use causeway_tests::{Fleet, SOON, eventually, multi_cluster_service, service, service_export};
use kube::ResourceExt as _;

const OLDER: &str = "--feature-gates=RelaxedServiceNameValidation=false";

#[tokio::test]
async fn service_name_with_a_digit_is_exposed_where_it_is_allowed() {
    let fleet = Fleet::builder().members(3).clusterset();
    let env = fleet.flag("member3", OLDER).start().await;
    let env = Environment::builder().webhook().start(env).await;
    let fleet = &env.fleet;
    let space = fleet.space("digits").await;
    let (hub, member1, member3) = (
        fleet.hub(),
        fleet.member("member1"),
        fleet.member("member3"),
    );

    let object = multi_cluster_service("1foo").providers(["member1"]);
    let object = object.consumers(["member2", "member3"]).object();
    let manifest = serde_json::to_string(&object).expect("JSON");
    let apply = ["apply", "-n", space.name(), "-f", "-"];
    let refused = hub.kubectl_with(apply, manifest.clone()).await.refused();
    let missing = format!(
        "there is no Service {}/1foo; create the Service first",
        space.name()
    );
    assert!(refused.contains(&missing), "{refused}");
    assert!(!refused.contains("DNS-1035"), "{refused}");
    service("1foo").port("http", 80).create(hub, &space).await;
    let accepted = hub.kubectl_with(apply, manifest).await;
    assert_eq!(accepted.stderr, "");
    accepted.ok();

    let pod = space.backends("1foo").create(member1).await.remove(0);
    space.reaches("member2", "1foo", &[pod.ip()]).await;
    let path = "jsonpath={.status.conditions[?(@.type==\"ServiceApplied\")].message}";
    eventually("the older member is named", SOON, async || {
        let get = ["get", "mcs", "1foo", "-n", space.name(), "-o", path];
        let message = hub.kubectl(get).await.ok();
        let says = message.starts_with("1 of 3 clusters: member3 ")
            && message.contains("a DNS-1035 label must consist of");
        says.then_some(()).ok_or(message)
    })
    .await;
    let none = space.api::<k8s_openapi::api::core::v1::Service>(member3);
    let services = none
        .list(&kube::api::ListParams::default())
        .await
        .expect("Services");
    assert!(services.iter().all(|one| one.name_any() != "1foo"));

    // The clusterset's names are made of it, and allowed everywhere.
    service_export("1foo").create(member1, &space).await;
    space.reaches("member2", "derived-1foo", &[pod.ip()]).await;
    space.reaches("member3", "derived-1foo", &[pod.ip()]).await;
}
