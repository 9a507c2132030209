//! scratch
use causeway_tests::keeper::Program;
use causeway_tests::{Fleet, SOON, binaries, eventually, multi_cluster_service, service};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn smoke() {
    let fleet = Fleet::builder().members(2).start().await;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    println!(
        "{}",
        fleet
            .hub()
            .kubectl(["apply", "-f", &format!("{root}/manifests/crds/hub")])
            .await
            .ok()
    );
    println!(
        "{}",
        fleet
            .hub()
            .kubectl(["apply", "-f", &format!("{root}/manifests/hub/rbac.yaml")])
            .await
            .ok()
    );
    let log = fleet.directory().join("controller.log");
    fleet.add_log(&log);
    let controller = fleet.keeper().run(
        Program::new(binaries::causeway("causeway-controller"), &log).args([
            "--kubeconfig".to_owned(),
            fleet.hub().kubeconfig().display().to_string(),
            "--admin-bind=127.0.0.1:18081".to_owned(),
            "--log=info,causeway_controller=debug".to_owned(),
        ]),
    );
    fleet.hub().kubectl(["create", "ns", "causeway-system"]).await;
    for name in ["member1", "member2"] {
        let m = fleet.member(name);
        let token = m.kubectl(["config", "view", "--raw", "-o", "jsonpath={.users[0].user.token}"]).await.ok();
        std::fs::write(fleet.directory().join("ca"), m.ca_pem()).unwrap();
        fleet.hub().kubectl(["create", "secret", "generic", name, "-n", "causeway-system", &format!("--from-literal=token={token}"), &format!("--from-file=caBundle={}", fleet.directory().join("ca").display())]).await.ok();
        println!("{}", fleet.hub().apply(&format!("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{syncMode: Push, apiEndpoint: '{}', secretRef: {{namespace: causeway-system, name: {name}}}}}\n", m.url())).await.ok());
    }
    let space = fleet.space("smoke").await;
    service("foo")
        .port_to("http", 80, 8080)
        .create(fleet.hub(), &space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1"])
        .consumers(["member2"])
        .create(&space)
        .await;
    let pods = space
        .backends("foo")
        .count(2)
        .create(fleet.member("member1"))
        .await;
    let mut expected: Vec<String> = pods.iter().map(|p| p.ip().to_owned()).collect();
    expected.sort();
    tokio::time::sleep(Duration::from_secs(3)).await;
    for m in ["member1","member2"] { println!("{}", fleet.member(m).kubectl(["get", "svc,endpointslices", "-n", space.name(), "-o", "yaml"]).await.ok()); }
    eventually("copies", SOON, || async {
        space.ready_addresses(fleet.member("member2"), "foo").await == expected
    })
    .await;
    println!(
        "{}",
        fleet
            .hub()
            .kubectl(["describe", "mcs", "foo", "-n", space.name()])
            .await
            .ok()
    );
    println!(
        "{}",
        fleet
            .hub()
            .kubectl(["get", "mcs,clusters", "-A", "-o", "wide"])
            .await
            .ok()
    );
    println!(
        "{}",
        fleet
            .member("member2")
            .kubectl([
                "get",
                "svc,endpointslices",
                "-n",
                space.name(),
                "-o",
                "yaml"
            ])
            .await
            .ok()
    );
    println!(
        "{}",
        fleet
            .hub()
            .kubectl(["delete", "mcs", "foo", "-n", space.name(), "--timeout=20s"])
            .await
            .ok()
    );
    println!(
        "{}",
        fleet
            .member("member2")
            .kubectl(["get", "svc,endpointslices", "-n", space.name()])
            .await
            .ok()
    );
    controller.terminate();
    println!("{:?}", controller.exited(Duration::from_secs(10)).await);
    println!("{}", controller.log_tail(200));
}
