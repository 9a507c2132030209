//! A hub on which Karmada's own ServiceExport controllers import services, as what they make on the
//! hub and in members shows. Each object is as these controllers make it (karmada-io/karmada,
//! pkg/controllers/mcs), and is made and deleted by the test in their place.

use causeway_tests::{Cluster, Environment, SOON, Space, eventually, karmada, service};

use super::own;

/// Returns the objects of `service_import_controller.go` on the hub, which are propagated.
fn import_and_service(name: &str, labels: &str) -> String {
    format!(
        "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {{name: {name}, labels: {{{labels}}}}}
spec: {{type: ClusterSetIP, ports: [{{name: http, port: 80, protocol: TCP}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: derived-{name}, labels: {{{labels}}}}}
spec: {{ports: [{{name: http, port: 80, protocol: TCP}}]}}
"
    )
}

/// Returns the slice that `endpointslice_controller.go` propagates for a slice of member1.
fn collected(name: &str, address: &str) -> String {
    format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: imported-member1-{name}-x
  labels:
    kubernetes.io/service-name: derived-{name}
    endpointslice.kubernetes.io/managed-by: endpointslice-controller.karmada.io
    karmada.io/managed: \"true\"
addressType: IPv4
endpoints: [{{addresses: [\"{address}\"], conditions: {{ready: true}}}}]
ports: [{{name: http, port: 8080, protocol: TCP}}]
"
    )
}

const MANAGED: &str = "karmada.io/managed: \"true\"";

async fn apply(cluster: &Cluster, space: &Space<'_>, yaml: &str) {
    // Not `kubectl apply`: Karmada leaves no record of that.
    let create = ["create", "-n", space.name(), "-f", "-"];
    cluster.kubectl_with(create, yaml).await.ok();
}

async fn delete(cluster: &Cluster, space: &Space<'_>, what: &str) {
    let delete = ["delete", what, "-n", space.name()];
    cluster.kubectl(delete).await.ok();
}

/// Pods behind a Service of member1, and an export that Karmada propagated there; the address of
/// the pod.
async fn exported(env: &Environment, space: &Space<'_>, name: &str) -> String {
    let member = env.member("member1");
    service(name).port("http", 80).create(member, space).await;
    let pods = space.backends(name).count(1).create(member).await;
    let export = format!(
        "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceExport\nmetadata: {{name: {name}, labels: {{{MANAGED}}}}}\n"
    );
    apply(member, space, &export).await;
    pods[0].ip().to_owned()
}

#[tokio::test]
async fn imports_of_karmada_are_left_to_it_until_it_gives_them_up() {
    let env = own().await;
    let (hub, member1, member2) = (env.hub(), env.member("member1"), env.member("member2"));
    karmada::define(hub).await;
    hub.serve_older_clusterset().await;
    let space = env.space("imports").await;

    // An export that Karmada only propagated is carried; once Karmada imports it too, it goes on,
    // and that is said.
    let foo = exported(&env, &space, "foo").await;
    space.reaches("member2", "derived-foo", &[&foo]).await;
    space
        .export_says("member1", "foo", "Ready", "True|Exported|")
        .await;
    apply(hub, &space, &import_and_service("foo", "")).await;
    let reported = space
        .export_says("member1", "foo", "Ready", "False|ManagedByKarmada|")
        .await;
    assert!(
        reported.contains("goes on in member1, member2"),
        "{reported}"
    );
    apply(member2, &space, &collected("foo", &foo)).await;

    // Of what Karmada imports from the start nothing is begun, and what it puts into a member is
    // left alone.
    apply(hub, &space, &import_and_service("bar", "")).await;
    let bar = exported(&env, &space, "bar").await;
    let reported = space
        .export_says("member1", "bar", "Ready", "False|ManagedByKarmada|")
        .await;
    assert!(
        reported.contains("leaves it to them in member1, member2"),
        "{reported}"
    );
    apply(member2, &space, &import_and_service("bar", MANAGED)).await;
    apply(member2, &space, &collected("bar", &bar)).await;
    let karmadas = "serviceimport/bar,service/derived-bar,endpointslice/imported-member1-bar-x";
    let karmadas: Vec<_> = karmadas.split(',').collect();
    let versions = async || {
        let path = "-o=jsonpath={range .items[*]}{.metadata.uid} {.metadata.resourceVersion}{\"\\n\"}{end}";
        let get = ["get", "-n", space.name(), path].into_iter();
        let seen = member2.kubectl(get.chain(karmadas.iter().copied())).await;
        seen.ok()
    };
    let before = versions().await;
    // A change of foo that comes after it is carried.
    let more = space.backends("foo").count(1).create(member1).await;
    let mut all = [foo.as_str(), more[0].ip()];
    all.sort_unstable();
    let expected = |extra: &[&str]| -> Vec<String> {
        let mut both: Vec<_> = all.iter().chain(extra).map(ToString::to_string).collect();
        both.sort_unstable();
        both
    };
    // Karmada's slice, which nobody keeps up here, is beside.
    let expected = expected(&[&foo]);
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    space.reaches("member2", "derived-foo", &expected).await;
    assert_eq!(versions().await, before);
    let own = space.own_objects("member2").await;
    assert!(!own.iter().any(|one| one.contains("bar")), "{own:?}");
    space.reaches("member2", "derived-bar", &[&bar]).await;

    it_is_said_with_what_to_type(&env, &space).await;

    // That is typed; Karmada takes its own away, and causeway takes over.
    for (cluster, what) in [
        (hub, "serviceimport/bar"),
        (hub, "service/derived-bar"),
        (member2, "serviceimport/bar"),
        (member2, "endpointslice/imported-member1-bar-x"),
        (member2, "service/derived-bar"),
    ] {
        delete(cluster, &space, what).await;
    }
    space.reaches("member2", "derived-bar", &[&bar]).await;
    space
        .export_says("member1", "bar", "Ready", "True|Exported|")
        .await;
    let own = space.own_objects("member2").await;
    assert!(
        own.iter().any(|one| one == "service/derived-bar"),
        "{own:?}"
    );
}

async fn it_is_said_with_what_to_type(env: &Environment, space: &Space<'_>) {
    let typed = format!("kubectl -n {} delete serviceimport bar", space.name());
    let n = ["-n", space.name()];
    for (command, reason) in [
        ("status", "ManagedByKarmada"),
        ("explain", "ImportedByKarmada"),
    ] {
        let args = [command, "bar"].into_iter().chain(n);
        let seen = env.mcs(args).await.stdout;
        assert!(seen.contains(reason), "{command}: {seen}");
        assert!(seen.contains(&typed), "{command}: {seen}");
        assert!(!seen.contains("which is no member"), "{command}: {seen}");
    }
    let checked = env.mcs(["check"]).await.stdout;
    assert!(!checked.contains("exports on the hub"), "{checked}");
    let path = "-o=jsonpath={.items[?(@.reason==\"NotAMember\")].metadata.name}";
    let events = ["get", "events", path].into_iter().chain(n);
    let events = eventually("the hub shows its Events", SOON, async || {
        let seen = env.hub().kubectl(events.clone()).await;
        seen.exit.success().then_some(seen.stdout)
    });
    assert_eq!(events.await, "");
}
