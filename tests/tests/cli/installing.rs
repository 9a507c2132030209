//! `kubectl mcs install` and `kubectl mcs uninstall`.

use std::path::Path;
use std::pin::pin;

use causeway_tests::binaries;
use causeway_tests::causeway::replicas::Replicas;
use causeway_tests::causeway::{MEMBERS_NAMESPACE, NAMESPACE};
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::kubelet::Kubelet;
use causeway_tests::{Cluster, Fleet, Installation, SOON, eventually, karmada};
use futures::future::{Either, select};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{credentials, ends, join, join_all};

/// Clusters without anything of causeway: an empty hub, a cluster that runs pods, one with
/// definitions of somebody else's, one that is to be joined, and two more hubs.
async fn fleet() -> &'static Fleet {
    static FLEET: OnceCell<Fleet> = OnceCell::const_new();
    let start = async || {
        let fleet = Fleet::builder().members(5).start().await;
        fleet.let_members_sleep();
        fleet
    };
    FLEET.get_or_init(start).await
}

/// Runs `kubectl mcs` with this cluster for its hub.
async fn mcs(fleet: &Fleet, hub: &Cluster, line: &str) -> Output {
    let program = binaries::causeway("kubectl-mcs");
    Command::new(fleet.reaper(), fleet.directory(), program)
        .env("KUBECONFIG", hub.kubeconfig().display().to_string())
        .args(line.split_whitespace())
        .run()
        .await
}

/// [`mcs`], as a person types it who answers that to what is asked.
async fn at_a_terminal(fleet: &Fleet, hub: &Cluster, line: &str, answer: &str) -> Output {
    let program = binaries::causeway("kubectl-mcs");
    let typed = format!("{} {line}", program.display());
    Command::new(fleet.reaper(), fleet.directory(), "/usr/bin/script")
        .env("KUBECONFIG", hub.kubeconfig().display().to_string())
        .args(["--quiet", "--return", "--command", &typed, "/dev/null"])
        .input(answer)
        .run()
        .await
}

/// Returns the lines of a command about each object, with the object's kind first.
fn said<'a>(output: &'a Output, word: &str) -> Vec<&'a str> {
    let lines = output.stdout.lines();
    let objects = lines.filter_map(|line| line.strip_prefix("hub: ")?.strip_suffix(word));
    objects.map(str::trim_end).collect()
}

/// Number of objects that `kubectl mcs install` creates.
const OBJECTS: usize = 37;

#[tokio::test]
async fn install_upgrade_and_uninstall_on_a_hub_with_nodes() {
    let fleet = fleet().await;
    let hub = fleet.member("member1");
    nothing_is_written_in_a_dry_run(fleet, hub).await;
    the_first_time_all_is_created(fleet, hub).await;
    an_upgrade_writes_what_differs(fleet, hub).await;
    it_is_waited_for(fleet, hub).await;
    it_is_removed_and_its_definitions_stay(fleet, hub).await;
}

async fn nothing_is_written_in_a_dry_run(fleet: &Fleet, hub: &Cluster) {
    let printed = mcs(fleet, hub, "install --dry-run=client --kubeconfig /nowhere").await;
    let note = "images are of registry causeway";
    let expected = format!("kind: CustomResourceDefinition | {note}");
    ends(&printed, 0, &expected);
    for more in ["--registry registry.example", "--crds-only"] {
        let printed = mcs(fleet, hub, &format!("install --dry-run=client {more}")).await;
        assert!(!printed.stderr.contains(note), "{more}: {}", printed.stderr);
    }
    let create = ["create", "--dry-run=client", "-o=name", "-f", "-"];
    let read = hub.kubectl_with(create, printed.stdout).await.ok();
    assert_eq!(read.lines().count(), OBJECTS, "{read}");

    let checked = mcs(fleet, hub, "install --dry-run=server").await;
    ends(
        &checked,
        0,
        "
            clusters.cluster.karmada.io created (server dry run)
            namespace/causeway-system created (server dry run)
            namespace/causeway-members created (server dry run)
            deployment.apps/causeway-webhook created (dry run, not validated
            mutatingwebhookconfiguration.admissionregistration.k8s.io/causeway created (server dry run)
        ",
    );
    let reported = mcs(fleet, hub, "uninstall --dry-run=client").await;
    ends(&reported, 0, "nothing of causeway to remove");
    hub.kubectl(["get", "namespace", NAMESPACE]).await.refused();
    hub.kubectl(["get", "crd", "clusters.cluster.karmada.io"])
        .await
        .refused();
}

async fn the_first_time_all_is_created(fleet: &Fleet, hub: &Cluster) {
    let installed = mcs(fleet, hub, "install --wait=false").await;
    ends(&installed, 0, "kubectl mcs check");
    let created = said(&installed, "created");
    let place = |what: &str| created.iter().position(|one| one.starts_with(what));
    let order = [
        "customresourcedefinition",
        "namespace/",
        "clusterrole.",
        "deployment.apps/",
        "mutatingwebhook",
    ]
    .map(place);
    assert!(order[0].is_some() && order.is_sorted(), "{created:?}");
    assert_eq!(created.len(), OBJECTS, "{created:?}");

    let again = mcs(fleet, hub, "install --wait=false").await;
    assert_eq!(said(&again, "unchanged").len(), OBJECTS, "{}", again.stdout);
    let dry = mcs(fleet, hub, "install --dry-run=server").await;
    let unchanged = said(&dry, "unchanged (server dry run)");
    assert_eq!(unchanged.len(), OBJECTS, "{}", dry.stdout);
}

async fn an_upgrade_writes_what_differs(fleet: &Fleet, hub: &Cluster) {
    let older = [
        "set",
        "image",
        "deployment/causeway-webhook",
        "webhook=registry.example/team/causeway-webhook:0.0.9",
    ];
    hub.kubectl(older.into_iter().chain(["-n", NAMESPACE]))
        .await
        .ok();
    let webhook = ["deployment.apps/causeway-webhook"];
    let dry = mcs(fleet, hub, "install --dry-run=server").await;
    let configured = said(&dry, "configured (server dry run)");
    assert_eq!(configured, webhook, "{}", dry.stdout);
    ends(&dry, 1, "--- stored | causeway-webhook:0.0.9 | conflict");
    changes_of_others_are_conflicts(fleet, hub).await;
    let upgraded = mcs(fleet, hub, "install --wait=false --force-conflicts").await;
    assert_eq!(
        said(&upgraded, "configured"),
        [
            "deployment.apps/causeway-webhook",
            "deployment.apps/causeway-controller"
        ]
    );
    let version = env!("CARGO_PKG_VERSION");
    images_are(
        hub,
        [
            format!("registry.example/team/causeway-webhook:{version}"),
            format!("causeway/causeway-controller:{version}"),
        ],
    )
    .await;

    let moved = "install --wait=false --registry other.example --image-tag x";
    ends(&mcs(fleet, hub, moved).await, 0, "");
    let images = ["webhook", "controller"].map(|name| format!("other.example/causeway-{name}:x"));
    images_are(hub, images).await;
}

async fn changes_of_others_are_conflicts(fleet: &Fleet, hub: &Cluster) {
    let argument = r#"[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--client-ca=/ca"}]"#;
    let patch = ["patch", "deployment", "causeway-webhook", "-n", NAMESPACE];
    hub.kubectl(patch.into_iter().chain(["--type=json", "-p", argument]))
        .await
        .ok();
    let refused = mcs(fleet, hub, "install --wait=false").await;
    ends(
        &refused,
        1,
        "
            deployment.apps/causeway-webhook loses --client-ca=/ca
            nothing was applied
            containers[name=\"webhook\"].args
            --force-conflicts
        ",
    );
    let stored = [
        "get",
        "deployment",
        "causeway-webhook",
        "-n",
        NAMESPACE,
        "-o=yaml",
    ];
    let stored = hub.kubectl(stored).await.ok();
    assert!(
        stored.contains("--client-ca=/ca") && stored.contains("0.0.9"),
        "{stored}"
    );
    let names = r#"[{"op":"replace","path":"/spec/names/shortNames","value":["mine"]}]"#;
    let definition = "multiclusterservices.networking.karmada.io";
    let patch = ["patch", "crd", definition, "--type=json", "-p", names];
    hub.kubectl(patch).await.ok();
    let refused = mcs(fleet, hub, "install --wait=false --crds-only").await;
    let expected = "nothing was applied | .spec.names.shortNames | --force-conflicts";
    ends(&refused, 1, expected);
    let forced = "install --wait=false --crds-only --force-conflicts";
    let forced = mcs(fleet, hub, forced).await;
    ends(&forced, 0, "taken over | configured");

    let newer = [
        "set",
        "image",
        "deployment/causeway-controller",
        "controller=a/causeway-controller:99.0.0",
    ];
    hub.kubectl(newer.into_iter().chain(["-n", NAMESPACE]))
        .await
        .ok();
    let older = mcs(fleet, hub, "install --wait=false --force-conflicts").await;
    ends(&older, 1, "v99.0.0, newer than this program | --skip-crds");
    let back = [
        "set",
        "image",
        "deployment/causeway-controller",
        "controller=causeway/causeway-controller:0.0.9",
    ];
    hub.kubectl(back.into_iter().chain(["-n", NAMESPACE]))
        .await
        .ok();
}

/// The images of the webhook and of the controller.
async fn images_are(hub: &Cluster, expected: [String; 2]) {
    let get = ["get", "deployment", "-n", NAMESPACE];
    let names = ["causeway-webhook", "causeway-controller"];
    let path = "-o=jsonpath={.items[*].spec.template.spec.containers[0].image}";
    let found = hub.kubectl(get.into_iter().chain(names).chain([path]));
    assert_eq!(found.await.ok(), expected.join(" "));
}

async fn it_is_waited_for(fleet: &Fleet, hub: &Cluster) {
    let late = mcs(fleet, hub, "install --timeout 5s").await;
    ends(
        &late,
        1,
        "not ready within 5 s | deployment.apps/causeway-webhook: | get pods",
    );
    let kubelet = pin!(Kubelet::new(hub).run());
    let installed = pin!(async {
        for name in ["causeway-webhook", "causeway-controller"] {
            let deployment = format!("deployment/{name}");
            let status = ["rollout", "status", &deployment, "--timeout=100s"];
            let within = ["-n", NAMESPACE];
            hub.kubectl(status.into_iter().chain(within)).await.ok();
        }
        let unknown = mcs(fleet, hub, "install --timeout 3s").await;
        ends(&unknown, 1, "not ready within 3 s");
        // As the webhook does, whose pods run nothing here.
        for kind in ["mutating", "validating"] {
            let bundle =
                r#"[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"LS0t"}]"#;
            let configuration = format!("{kind}webhookconfiguration/causeway");
            let patch = ["patch", &configuration, "--type=json", "-p", bundle];
            hub.kubectl(patch).await.ok();
        }
        mcs(fleet, hub, "install --timeout 10s").await
    });
    let installed = match select(kubelet, installed).await {
        Either::Left(((), _)) => panic!("the kubelet ended"),
        Either::Right((installed, _)) => installed,
    };
    ends(
        &installed,
        1,
        "
            deployment.apps/causeway-webhook is ready
            deployment.apps/causeway-controller is ready
            validatingwebhookconfiguration.admissionregistration.k8s.io/causeway is ready
            no MultiClusterService can be created within 10 s
            failed calling webhook
            docs/troubleshooting.md#the-webhook-cannot-be-called
        ",
    );
    // What the webhook publishes is not taken back.
    let unchanged = said(&installed, "unchanged");
    assert!(
        unchanged.iter().any(|one| one.starts_with("mutating")),
        "{unchanged:?}"
    );
}

async fn it_is_removed_and_its_definitions_stay(fleet: &Fleet, hub: &Cluster) {
    let unasked = mcs(fleet, hub, "uninstall").await;
    ends(&unasked, 2, "not a terminal | --yes");
    let declined = at_a_terminal(fleet, hub, "uninstall", "n\n").await;
    ends(
        &declined,
        1,
        "Remove causeway from the hub at | nothing was removed",
    );
    let dry = mcs(fleet, hub, "uninstall --dry-run=client --yes").await;
    ends(
        &dry,
        0,
        "  deployment.apps/causeway-webhook | nothing was removed",
    );
    let registrations = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    hub.kubectl(["get", registrations, "causeway"]).await.ok();

    let removed = mcs(fleet, hub, "uninstall --yes").await;
    ends(
        &removed,
        0,
        "
            clusters.cluster.karmada.io stays; --crds deletes it
            namespace/causeway-system kept
            namespace/causeway-members kept
        ",
    );
    let deleted = said(&removed, "deleted");
    let first = ["mutatingwebhook", "validatingwebhook"];
    for (title, kind) in deleted.iter().zip(first) {
        assert!(title.starts_with(kind), "{deleted:?}");
    }
    let last = |what: &str| deleted.iter().rposition(|one| one.starts_with(what));
    assert!(
        last("deployment.apps/")
            < deleted
                .iter()
                .position(|one| one.starts_with("clusterrole")),
        "{deleted:?}"
    );
    let again = mcs(fleet, hub, "uninstall --yes").await;
    ends(
        &again,
        0,
        "nothing of causeway to remove | --crds deletes it",
    );

    // Nobody waits for the webhook that is gone.
    let service = multi_cluster_service("foo");
    eventually("a MultiClusterService is made", SOON, async || {
        let made = hub.apply(&service).await;
        made.exit.success().then_some(()).ok_or(made.stderr)
    })
    .await;
    let all = mcs(fleet, hub, "uninstall --yes --crds").await;
    ends(
        &all,
        0,
        "every MultiClusterService (1 now) | clusters.cluster.karmada.io deleted",
    );
    hub.kubectl(["get", "crd", "multiclusterservices.networking.karmada.io"])
        .await
        .refused();
}

fn multi_cluster_service(name: &str) -> String {
    format!(
        "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{types: [CrossCluster]}}\n"
    )
}

/// A definition that bears nothing of causeway's, as Karmada's does.
fn of_karmada(kind: &str, group: &str, spec: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let scope = if kind == "Cluster" {
        "Cluster"
    } else {
        "Namespaced"
    };
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.{group}, annotations: {{api-approved.kubernetes.io: unapproved}}}}\n\
         spec:\n  group: {group}\n  scope: {scope}\n  names: {{plural: {plural}, kind: {kind}}}\n  versions:\n  \
         - name: v1alpha1\n    served: true\n    storage: true\n    \
         schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, {spec}}}}}}}}}\n"
    )
}

#[tokio::test]
async fn foreign_definitions_are_kept_and_checked_for_needed_fields() {
    let fleet = fleet().await;
    let hub = fleet.member("member2");
    let group = "networking.karmada.io";
    let old = of_karmada(
        "MultiClusterService",
        group,
        "properties: {types: {type: array, items: {type: string}}}",
    );
    let any = "x-kubernetes-preserve-unknown-fields: true";
    hub.apply(&old).await.ok();
    hub.apply(&of_karmada("Cluster", "cluster.karmada.io", any))
        .await
        .ok();
    let refused = mcs(fleet, hub, "install --wait=false").await;
    ends(
        &refused,
        1,
        "is not managed by causeway and has no spec.ports, spec.providerClusters | Nothing was changed",
    );
    hub.kubectl(["get", "namespace", NAMESPACE]).await.refused();

    hub.apply(&of_karmada("MultiClusterService", group, any))
        .await
        .ok();
    let stored = async || {
        let path = "-o=jsonpath={.items[*].metadata.generation} {.items[*].metadata.labels} {.items[*].spec}";
        hub.kubectl(["get", "crd", path]).await.ok()
    };
    eventually("the definitions are served", SOON, async || {
        let served = ["get", "multiclusterservices,clusters", "-A"];
        hub.kubectl(served).await.exit.success()
    })
    .await;
    let before = stored().await;
    let install = "install --karmada --external --webhook-url https://127.0.0.1:1/";
    let none = mcs(fleet, hub, install).await;
    ends(&none, 1, "no namespace karmada-cluster");
    let namespace = ["create", "namespace", "karmada-cluster"];
    hub.kubectl(namespace).await.ok();
    let installed = mcs(fleet, hub, install).await;
    ends(
        &installed,
        0,
        "
            MultiClusterService v1alpha1 is already served, unchanged
            Cluster v1alpha1 is already served, unchanged
            secret/causeway-controller-token created
            start causeway-controller with --secret-namespace=karmada-cluster
        ",
    );
    let roles = ["get", "roles", "-n", "karmada-cluster", "-o=name"];
    assert_ne!(hub.kubectl(roles).await.ok(), "");
    let url = "-o=jsonpath={.webhooks[*].clientConfig}";
    let registered = ["get", "validatingwebhookconfiguration", "causeway", url];
    assert_eq!(
        hub.kubectl(registered).await.ok(),
        r#"{"url":"https://127.0.0.1:1/validate"}"#
    );
    let removed = mcs(fleet, hub, "uninstall --yes --crds").await;
    ends(
        &removed,
        0,
        "
            validatingwebhookconfiguration.admissionregistration.k8s.io/causeway deleted
            MultiClusterService is not managed by causeway, unchanged
            Cluster is not managed by causeway, unchanged
        ",
    );
    assert_eq!(hub.kubectl(roles).await.ok(), "");
    assert_eq!(stored().await, before);
}

#[tokio::test]
async fn what_the_controller_still_serves_is_cleaned_before_it_goes() {
    let fleet = fleet().await;
    let (hub, member) = (fleet.hub(), fleet.member("member3"));
    let installed = mcs(fleet, hub, "install --external").await;
    ends(
        &installed,
        0,
        "secret/causeway-webhook-token created | --webhook-url",
    );
    let installation = Installation::applied(fleet).await;
    let controller = installation.controller().start().await;
    ends(&join(&installation, "member3", member, &[]).await, 0, "");
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: foo, namespace: default}\nspec: {ports: [{port: 80}]}\n";
    hub.apply(service).await.ok();
    hub.apply(&multi_cluster_service("foo")).await.ok();
    let delivered = ["get", "service", "foo", "-o=name"];
    eventually("the Service is delivered", SOON, async || {
        member.kubectl(delivered).await.exit.success()
    })
    .await;

    let refused = mcs(fleet, hub, "uninstall --yes").await;
    ends(
        &refused,
        1,
        "
            1 MultiClusterService (default/foo) and 1 Cluster (member3)
            kubectl -n default delete mcs foo
            kubectl mcs unjoin member3
            kubectl mcs uninstall --cascade
        ",
    );
    hub.kubectl(["get", "clusterrole", "causeway-controller"])
        .await
        .ok();
    the_controller_is_waited_for(fleet, hub, &controller).await;

    let removed = mcs(fleet, hub, "uninstall --yes --cascade --crds").await;
    ends(
        &removed,
        0,
        "
            clusterrole.rbac.authorization.k8s.io/causeway-controller deleted
            secret/causeway-controller-token deleted
            lease.coordination.k8s.io/causeway-controller deleted
            clusters.cluster.karmada.io deleted
            account remains in member3
            kubectl mcs unjoin NAME --member-kubeconfig FILE --force
        ",
    );
    assert!(!removed.stdout.contains("rbac.yaml"), "{}", removed.stdout);
    assert!(credentials(hub, "member3").await.is_none());
    the_account_is_deleted_without_definitions(fleet, hub, member).await;
    member.kubectl(delivered).await.refused();
    let again = mcs(fleet, hub, "uninstall --yes --cascade --crds").await;
    ends(&again, 0, "nothing of causeway to remove");
}

#[tokio::test]
async fn services_kept_at_uninstall_are_reported_when_members_are_removed() {
    let fleet = Fleet::builder().members(2).start().await;
    let hub = fleet.hub();
    ends(&mcs(&fleet, hub, "install --external").await, 0, "");
    let installation = Installation::applied(&fleet).await;
    let controller = installation.controller().start().await;
    let names = ["member1", "member2"];
    join_all(&installation, &fleet, &names).await;
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: foo, namespace: default}\n\
                   spec: {ports: [{port: 80}]}\n";
    hub.apply(service).await.ok();
    hub.apply(&multi_cluster_service("foo")).await.ok();
    let delivered = ["get", "service", "foo", "-o=name"];
    eventually("the Service is delivered", SOON, async || {
        let [one, other] = names.map(|name| fleet.member(name));
        one.kubectl(delivered).await.exit.success() && other.kubectl(delivered).await.exit.success()
    })
    .await;
    controller.process().terminate();
    eventually("the controller has ended", SOON, async || {
        !controller.process().is_running()
    })
    .await;
    let path = "-o=jsonpath={.data.key}";
    let seal = [
        "get",
        "secret",
        "causeway-export-seal",
        "-n",
        NAMESPACE,
        path,
    ];
    let key = hub.kubectl(seal).await.ok();
    assert!(!key.is_empty());
    let kept = mcs(&fleet, hub, "uninstall --keep-services --yes").await;
    ends(&kept, 0, "nothing updates what causeway wrote");
    assert_eq!(hub.kubectl(seal).await.ok(), key);

    let unjoined = mcs(&fleet, hub, "unjoin member1").await;
    ends(&unjoined, 0, "objects of causeway remain in member1;");
    let removed = mcs(&fleet, hub, "uninstall --cascade --yes").await;
    ends(&removed, 0, "objects of causeway remain in member2;");
    for name in names {
        assert!(credentials(hub, name).await.is_none());
        fleet.member(name).kubectl(delivered).await.ok();
    }
}

#[tokio::test]
async fn keep_services_deletes_the_registration_first_and_resumes() {
    let fleet = fleet().await;
    let hub = fleet.member("member5");
    ends(&mcs(fleet, hub, "install --wait=false").await, 0, "");
    let uninstall = "uninstall --keep-services --yes --timeout 2s";
    the_lease_is_held(hub).await;
    let late = mcs(fleet, hub, uninstall).await;
    ends(
        &late,
        1,
        "not removed within 2 s; left: a, which holds Lease",
    );
    let kinds = said(&late, "deleted").into_iter();
    let kinds: Vec<_> = kinds.filter_map(|title| title.split('.').next()).collect();
    let expected = [
        "mutatingwebhookconfiguration",
        "validatingwebhookconfiguration",
        "deployment",
        "deployment",
    ];
    assert_eq!(kinds, expected, "{}", late.stdout);
    let service = multi_cluster_service("foo");
    eventually("a MultiClusterService is created", SOON, async || {
        let created = hub.apply(&service).await;
        created.exit.success().then_some(()).ok_or(created.stderr)
    })
    .await;

    the_lease_is_held(hub).await;
    ends(&mcs(fleet, hub, uninstall).await, 1, "a holds Lease");
    let free = ["delete", "lease", "causeway-controller", "-n", NAMESPACE];
    hub.kubectl(free).await.ok();
    let resumed = mcs(fleet, hub, uninstall).await;
    ends(&resumed, 0, "nothing updates what causeway wrote");
}

/// Has `a` renew the controller's Lease.
async fn the_lease_is_held(hub: &Cluster) {
    the_lease_was_renewed(hub, Timestamp::now()).await;
}

/// Has `a` hold the controller's Lease, renewed at this time.
async fn the_lease_was_renewed(hub: &Cluster, time: Timestamp) {
    let lease = format!(
        "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {{name: causeway-controller, namespace: {NAMESPACE}}}\n\
         spec: {{holderIdentity: a, renewTime: '{time:.6}'}}\n"
    );
    hub.apply(&lease).await.ok();
}

async fn the_last_line_knows_whether_a_controller_leads(fleet: &Fleet, hub: &Cluster) {
    let install = "install --external --webhook-url https://127.0.0.1:1";
    let idle = mcs(fleet, hub, install).await;
    ends(&idle, 0, "start causeway-webhook and causeway-controller");
    the_lease_is_held(hub).await;
    let leads = mcs(fleet, hub, install).await;
    ends(&leads, 0, "causeway-controller is running");
    assert!(!leads.stdout.contains("start causeway"), "{}", leads.stdout);
}

/// As the note of `uninstall` advises.
async fn the_account_is_deleted_without_definitions(
    fleet: &Fleet,
    hub: &Cluster,
    member: &Cluster,
) {
    let kubeconfig = member.kubeconfig().display().to_string();
    let unjoin = format!("unjoin member3 --force --member-kubeconfig {kubeconfig}");
    let said = mcs(fleet, hub, &unjoin).await;
    ends(
        &said,
        0,
        "secret/causeway-hub- | member: serviceaccount/causeway deleted",
    );
}

#[tokio::test]
async fn interrupted_uninstall_leaves_no_credentials_when_repeated() {
    let fleet = fleet().await;
    let hub = fleet.member("member4");
    ends(&mcs(fleet, hub, "install --external").await, 0, "");
    // The Clusters of all are gone; a person made the second Secret, and `lost` joined by a file.
    let secret = |namespace: &str, name: &str, manager: &str, cluster: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  namespace: {namespace}\n\
             \x20 labels: {{app.kubernetes.io/managed-by: {manager},\
             \x20mcs.causeway.dev/cluster: {cluster}}}\nstringData: {{token: live}}\n"
        )
    };
    the_last_line_knows_whether_a_controller_leads(fleet, hub).await;
    let enrolment = "causeway-enrolment";
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {enrolment}}}\n");
    hub.apply(&namespace).await.ok();
    for (namespace, name, manager, cluster) in [
        (MEMBERS_NAMESPACE, "gone", "causeway", "gone"),
        (MEMBERS_NAMESPACE, "kept", "somebody", "kept"),
        (enrolment, "bootstrap-lost", "causeway", "lost"),
    ] {
        let secret = secret(namespace, name, manager, cluster);
        hub.apply(&secret).await.ok();
    }
    let removed = mcs(fleet, hub, "uninstall --cascade --yes").await;
    ends(
        &removed,
        0,
        "account remains in gone, lost | hub: secret/gone deleted | secret/bootstrap-lost deleted",
    );
    assert!(credentials(hub, "gone").await.is_none());
    assert!(credentials(hub, "kept").await.is_some());
    finalizers_alone_are_something_of_causeway(fleet, hub).await;
}

/// Only the definitions are left of causeway, and an object that nobody can delete.
async fn finalizers_alone_are_something_of_causeway(fleet: &Fleet, hub: &Cluster) {
    let service = "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\n\
               metadata: {name: foo, namespace: default, finalizers: [mcs.causeway.dev/cleanup]}\n\
               spec: {types: [CrossCluster]}\n";
    hub.apply(service).await.ok();
    let refused = mcs(fleet, hub, "uninstall --yes").await;
    ends(&refused, 1, "1 MultiClusterService (default/foo)");
    cascade_without_a_controller_deletes_nothing(fleet, hub).await;
    let kept = mcs(fleet, hub, "uninstall --yes --keep-services").await;
    ends(&kept, 0, "");
    let finalizers = ["get", "mcs", "foo", "-o", "jsonpath={.metadata.finalizers}"];
    assert_eq!(hub.kubectl(finalizers).await.ok(), "");
    let nothing = mcs(fleet, hub, "uninstall --yes").await;
    ends(&nothing, 0, "nothing of causeway to remove");
}

/// Nobody renews the Lease.
async fn cascade_without_a_controller_deletes_nothing(fleet: &Fleet, hub: &Cluster) {
    the_lease_was_renewed(hub, Timestamp::UNIX_EPOCH).await;
    let refused = mcs(fleet, hub, "uninstall --yes --cascade").await;
    ends(
        &refused,
        1,
        "
            a last renewed Lease causeway-system/causeway-controller
            Nothing was removed
            kubectl -n default patch mcs foo
        ",
    );
    let path = "jsonpath={.metadata.deletionTimestamp}";
    let deletion = ["get", "mcs", "foo", "-o", path];
    assert_eq!(hub.kubectl(deletion).await.ok(), "");
}

/// While the controller is stopped nothing but the object's deletion is asked for.
async fn the_controller_is_waited_for(
    fleet: &Fleet,
    hub: &Cluster,
    controller: &causeway_tests::Running,
) {
    controller.process().pause();
    let late = mcs(fleet, hub, "uninstall --yes --cascade --timeout 5s").await;
    controller.process().resume();
    ends(
        &late,
        1,
        "
            multiclusterservice.networking.karmada.io/foo deleted
            has not cleaned up within 5 s; left: 1 MultiClusterService (default/foo)
            kubectl -n default patch mcs foo
        ",
    );
    hub.kubectl(["get", "clusterrole", "causeway-controller"])
        .await
        .ok();
}

#[tokio::test]
async fn when_install_says_that_it_is_ready_the_webhook_decides() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    let address = match fleet.endpoint_address() {
        Ok(address) => address,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    ends(&mcs(&fleet, hub, "install --wait=false").await, 0, "");
    let installation = Installation::applied(&fleet).await;
    let certificates = format!("--self-managed-certs={NAMESPACE}/causeway-webhook-tls");
    let mut replicas = Replicas::new(hub, || {
        let webhook = installation.webhook_without_certificate(address, Path::new(""));
        webhook.arg(&certificates)
    })
    .await;
    replicas.add().await;
    // As the controller of Deployments says it, which this hub has not.
    let whole = r#"{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}"#;
    for name in ["causeway-webhook", "causeway-controller"] {
        let patch = ["patch", "deployment", name, "--subresource=status"];
        let with = ["--type=merge", "-p", whole, "-n", NAMESPACE];
        hub.kubectl(patch.into_iter().chain(with)).await.ok();
    }
    let installed = mcs(&fleet, hub, "install").await;
    ends(&installed, 0, "causeway is ready | kubectl mcs join NAME");
    let lonely = multi_cluster_service("lonely");
    let refused = hub.apply(&lonely).await.refused();
    assert!(refused.contains("no Service default/lonely"), "{refused}");

    let removed = mcs(&fleet, hub, "uninstall --yes").await;
    for secret in ["causeway-webhook-tls", "causeway-webhook-ca"] {
        ends(&removed, 0, &format!("secret/{secret} deleted"));
    }
    eventually("nobody decides any more", SOON, async || {
        let made = hub.apply(&lonely).await;
        made.exit.success().then_some(()).ok_or(made.stderr)
    })
    .await;
}

#[tokio::test]
async fn uninstall_warns_of_namespaces_that_karmada_propagates() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    ends(&mcs(&fleet, hub, "install --wait=false").await, 0, "");
    let namespaces = Api::<Namespace>::all(hub.client());
    let namespace = namespaces.get(NAMESPACE).await.expect("the namespace");
    let labels = namespace.metadata.labels.expect("labels");
    let skip = "namespace.karmada.io/skip-auto-propagation";
    assert_eq!(labels.get(skip).map(String::as_str), Some("true"));
    karmada::define(hub).await;
    let work = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {
            "name": "causeway-system-1", "namespace": "karmada-es-member1",
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Namespace", "name": NAMESPACE,
                "uid": namespace.metadata.uid,
            }],
        },
        "spec": {"workload": {"manifests": []}},
    });
    let create = ["create", "namespace", "karmada-es-member1"];
    hub.kubectl(create).await.ok();
    eventually("Works are served", SOON, async || {
        let made = hub.apply(&work.to_string()).await;
        made.exit.success().then_some(()).ok_or(made.stderr)
    })
    .await;
    works_that_the_controller_may_not_list_are_reported(&fleet, hub).await;
    let removed = mcs(&fleet, hub, "uninstall --yes").await;
    ends(
        &removed,
        0,
        "
            namespace/causeway-system kept; do not delete it: Karmada propagates it, and would delete it with all that it holds in member1
            namespace/causeway-members kept; delete it if it is empty
        ",
    );
}

async fn works_that_the_controller_may_not_list_are_reported(fleet: &Fleet, hub: &Cluster) {
    let reported =
        "it cannot see which MultiClusterServices Karmada manages, and handles all of them";
    let checked = mcs(fleet, hub, "check").await;
    assert!(!checked.stdout.contains(reported), "{}", checked.stdout);
    let role = "clusterrolebinding/causeway-controller-karmada";
    hub.kubectl(["delete", role]).await.ok();
    eventually("the right is missing", SOON, async || {
        let checked = mcs(fleet, hub, "check").await;
        let is_reported = checked.stdout.contains(reported);
        is_reported.then_some(()).ok_or(checked.stdout)
    })
    .await;
}
