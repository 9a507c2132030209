//! Karmada's older guide: a person makes the import too. The YAML is the guide's own.

use std::time::Duration;

use causeway::api::multicluster::ServiceImportStatus;
use causeway_tests::eventually::throughout;
use causeway_tests::{SOON, eventually};
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::{Turn, cluster_set_ip};

const SERVICE: &str = "apiVersion: v1
kind: Service
metadata:
  name: serve
spec:
  ports:
  - port: 80
    targetPort: 8080
  selector:
    app: serve
";

const EXPORT: &str = "apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata:
  name: serve
";

const IMPORT: &str = "apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata:
  name: serve
spec:
  type: ClusterSetIP
  ports:
  - port: 80
    protocol: TCP
";

impl Turn {
    async fn apply(&self, member: &str, yaml: &str) {
        let apply = ["apply", "-n", self.name(), "-f", "-"];
        self.member(member).kubectl_with(apply, yaml).await.ok();
    }

    async fn reaches_serve(&self, member: &str, address: &str) {
        let what = format!("{member} reaches {address}");
        eventually(&what, SOON, async || {
            let cluster = self.member(member);
            let ready = self.ready_addresses(cluster, "derived-serve").await;
            if ready == [address] {
                Ok(())
            } else {
                Err(format!("{ready:?}"))
            }
        })
        .await;
    }

    async fn spec_of_serve(&self, member: &str) -> Value {
        let get = ["get", "serviceimports", "serve", "-o", "jsonpath={.spec}"];
        let spec = self.kubectl(member, get).await;
        serde_json::from_str(&spec).expect("JSON")
    }
}

#[tokio::test]
async fn the_older_guide_works_as_it_is_written() {
    let turn = Turn::on_three().await;
    turn.apply("member1", SERVICE).await;
    let pods = turn.backends("serve");
    let pod = pods.create(turn.member("member1")).await.remove(0);
    turn.apply("member1", EXPORT).await;
    turn.reaches_serve("member2", pod.ip()).await;
    // causeway has imported it by now; what a person applies over that is theirs.
    turn.apply("member2", IMPORT).await;
    turn.derived_serve_is_as_in_the_guide(pod.ip()).await;
    let spec = turn.spec_of_serve("member2").await;
    assert_eq!(spec["ports"], json!([{"port": 80, "protocol": "TCP"}]));
}

impl Turn {
    async fn derived_serve_is_as_in_the_guide(&self, address: &str) {
        self.reaches_serve("member2", address).await;
        let fields = "jsonpath={.spec.type} {.spec.ports[*].port}/{.spec.ports[*].protocol}";
        let derived = ["get", "svc", "derived-serve", "-o", fields];
        assert_eq!(self.kubectl("member2", derived).await, "ClusterIP 80/TCP");
        let address = "jsonpath={.spec.clusterIP}";
        let address = ["get", "svc", "derived-serve", "-o", address];
        let address = self.kubectl("member2", address).await;
        assert!(address.starts_with("10."), "{address}");
    }
}

#[tokio::test]
async fn an_import_that_a_person_made_first_is_left_as_it_is() {
    let turn = Turn::on_three().await;
    turn.apply("member2", IMPORT).await;
    let version = "jsonpath={.metadata.resourceVersion} {.metadata.labels}";
    let version = ["get", "serviceimports", "serve", "-o", version];
    let before = turn.kubectl("member2", version).await;
    turn.apply("member1", SERVICE).await;
    let pods = turn.backends("serve");
    let pod = pods.create(turn.member("member1")).await.remove(0);
    turn.apply("member1", EXPORT).await;
    turn.derived_serve_is_as_in_the_guide(pod.ip()).await;
    let written = json!({"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]});
    assert_eq!(turn.spec_of_serve("member2").await, written);
    assert_eq!(turn.kubectl("member2", version).await, before);
    // Its slices belong to it as they do to an import of causeway's.
    let slices = turn.slices(turn.member("member2"), "derived-serve").await;
    let owners = slices
        .iter()
        .flat_map(|slice| slice.metadata.owner_references.iter().flatten());
    let owners: Vec<_> = owners.map(|owner| (&*owner.kind, &*owner.name)).collect();
    assert_eq!(owners, [("ServiceImport", "serve")]);
    // The end of the export takes the endpoints away, and the person's object stays.
    turn.kubectl("member1", ["delete", "serviceexport", "serve"])
        .await;
    eventually("no endpoint is left", SOON, async || {
        let slices = turn.slices(turn.member("member2"), "derived-serve").await;
        if slices.is_empty() {
            Ok(())
        } else {
            Err(format!("{slices:?}"))
        }
    })
    .await;
    assert_eq!(turn.spec_of_serve("member2").await, written);
}

/// Waits until `derived-serve` and the slices behind it have these ports alone.
async fn serves(turn: &Turn, member: &str, names: &[Option<&str>]) {
    let cluster = turn.member(member);
    let services = turn.api::<Service>(cluster);
    let what = format!("derived-serve in {member} has ports {names:?}");
    eventually(&what, SOON, async || {
        let derived = services.get("derived-serve").await;
        let spec = derived.map_err(|e| e.to_string())?.spec.unwrap_or_default();
        let ports = spec.ports.unwrap_or_default();
        let ports: Vec<_> = ports.iter().map(|port| port.name.as_deref()).collect();
        let slices = turn.slices(cluster, "derived-serve").await;
        let carried = slices.iter().flat_map(|slice| slice.ports.iter().flatten());
        let carried: Vec<_> = carried.map(|port| port.name.as_deref()).collect();
        if ports == names && carried == names {
            Ok(())
        } else {
            Err(format!("{ports:?} and {carried:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn applied_import_changes_owner_and_reports_an_unresolved_name() {
    let turn = Turn::on_three().await;
    let pod = turn.exporter("member1").await;
    turn.reaches("member2", &[pod.ip()]).await;
    let own = turn.imported_from("member2", &["member1"]).await;
    let import = IMPORT.replace("name: serve", "name: foo");
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=argocd-controller",
    ];
    let apply = apply.into_iter().chain(["-n", turn.name(), "-f", "-"]);
    turn.member("member2")
        .kubectl_with(apply, &import)
        .await
        .ok();
    let theirs = turn
        .imported_as("member2", "no mark of causeway's", |import| {
            import
                .metadata
                .labels
                .clone()
                .unwrap_or_default()
                .is_empty()
        })
        .await;
    assert_eq!(theirs.metadata.uid, own.metadata.uid);
    turn.reaches("member2", &[pod.ip()]).await;
    // The addresses are theirs to write from now on.
    let nowhere = r#"{"spec": {"ips": ["192.0.2.7"]}}"#;
    turn.kubectl(
        "member2",
        [
            "patch",
            "serviceimport",
            "foo",
            "--type=merge",
            "-p",
            nowhere,
        ],
    )
    .await;
    let near = turn.exporter("member2").await;
    let said = async |what: &str, holds: fn(&str) -> bool| {
        eventually(what, SOON, async || {
            let said = turn.says("member2", "Ready", "True", "Exported").await;
            if holds(&said) { Ok(said) } else { Err(said) }
        })
        .await
    };
    let reported = said("the name leads elsewhere", |said| {
        said.contains("with 192.0.2.7 in spec.ips")
    })
    .await;
    turn.reaches("member2", &[pod.ip(), near.ip()]).await;
    let elsewhere = turn.says("member1", "Ready", "True", "Exported").await;
    assert!(!elsewhere.contains("192.0.2.7"), "{elsewhere}");
    let command = reported.split_once("kubectl ").expect("a command").1;
    let patch = command.split('\'').nth(1).expect("a patch");
    turn.kubectl(
        "member2",
        ["patch", "serviceimport", "foo", "--type=merge", "-p", patch],
    )
    .await;
    said("the name leads there", |said| !said.contains("spec.ips")).await;
    turn.unexport("member2").await;
    turn.unexport("member1").await;
    turn.reaches::<&str>("member2", &[]).await;
    let left = turn.import("member2").await.expect("their import");
    assert_eq!(left.metadata.uid, own.metadata.uid);
}

#[tokio::test]
async fn what_a_person_asks_of_an_import_shapes_its_service() {
    let turn = Turn::on_three().await;
    let wanted = IMPORT.replace("  - port: 80", "  - name: web\n    port: 80");
    turn.apply("member2", &wanted).await;
    let ports = SERVICE.replace(
        "targetPort: 8080",
        "targetPort: 8080\n    name: http\n  - port: 9090\n    name: metrics",
    );
    turn.apply("member1", &ports).await;
    turn.apply("member1", EXPORT).await;
    let pods = turn.backends("serve");
    let pod = pods.create(turn.member("member1")).await.remove(0);
    let clusterset_s = [Some("http"), Some("metrics")];
    serves(&turn, "member2", &[Some("web")]).await;
    serves(&turn, "member3", &clusterset_s).await;
    turn.apply("member3", &wanted).await;
    serves(&turn, "member3", &[Some("web")]).await;
    // When the person's is gone, the clusterset's takes its place.
    turn.kubectl("member2", ["delete", "serviceimport", "serve"])
        .await;
    serves(&turn, "member2", &clusterset_s).await;
    let imports = turn.imports(turn.member("member2"));
    let import = imports.get("serve").await.expect("an import of causeway's");
    assert_eq!(import.spec.ports.len(), 2);
    assert!(cluster_set_ip(&import).starts_with("10."));
    turn.reaches_serve("member2", pod.ip()).await;
}

#[tokio::test]
async fn import_status_is_cleared_when_a_user_replaces_it() {
    let turn = Turn::on_three().await;
    turn.apply("member1", SERVICE).await;
    turn.apply("member1", EXPORT).await;
    let imports = turn.imports(turn.member("member2"));
    let says = async |what: &str, is_so: fn(&ServiceImportStatus) -> bool| {
        eventually(what, SOON, async || {
            let import = imports.get("serve").await.map_err(|e| e.to_string())?;
            let status = import.status.unwrap_or_default();
            if is_so(&status) {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await;
    };
    says("it names its exporter", |status| {
        !status.clusters.is_empty() && !status.conditions.is_empty()
    })
    .await;
    let member = turn.member("member2");
    let mark = member.mark().await;
    let replace = ["replace", "-n", turn.name(), "-f", "-"];
    member.kubectl_with(replace, IMPORT).await.ok();
    says("nothing is said of it", |status| {
        *status == ServiceImportStatus::default()
    })
    .await;
    let written = json!({"type": "ClusterSetIP", "ports": [{"port": 80, "protocol": "TCP"}]});
    assert_eq!(turn.spec_of_serve("member2").await, written);
    // What another says of it from then on stays.
    let theirs = r#"{"status": {"clusters": [{"cluster": "elsewhere"}]}}"#;
    let patch = ["patch", "serviceimport", "serve", "--subresource=status"];
    let patch = patch.into_iter().chain(["--type=merge", "-p", theirs]);
    let patch = patch.chain(["-n", turn.name()]);
    member.kubectl(patch).await.ok();
    let gone = ["delete", "serviceexport", "serve"];
    turn.kubectl("member1", gone).await;
    let others = turn.imports(turn.member("member3"));
    eventually("the imports of causeway's are gone", SOON, async || {
        matches!(others.get_opt("serve").await, Ok(None))
    })
    .await;
    throughout("theirs stays", Duration::from_secs(3), async || {
        let import = imports.get("serve").await.map_err(|e| e.to_string())?;
        let said = import.status.unwrap_or_default().clusters;
        let is_theirs = said.len() == 1 && said[0].cluster == "elsewhere";
        is_theirs.then_some(()).ok_or(format!("{said:?}"))
    })
    .await;
    let mut writes = member.writes_since(mark, "causeway-controller").await;
    writes.retain(|write| write.resource == "serviceimports" && write.namespace == turn.name());
    let of_status = writes.iter().filter(|write| write.subresource == "status");
    assert_eq!((of_status.count(), writes.len()), (1, 1), "{writes:#?}");
}
