//! `kubectl mcs join` and the definitions of ServiceExport and ServiceImport.

use causeway_tests::{Cluster, SOON, eventually};

use crate::{ends, env, join};
use causeway_tests::Environment;

const DEFINITION: &str = "crd/serviceexports.multicluster.x-k8s.io";

/// Returns the definitions that Karmada installs: v1alpha1 only, without causeway's fields.
fn of_karmada(kind: &str) -> String {
    let lower = kind.to_lowercase();
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {lower}s.multicluster.x-k8s.io}}\n\
         spec:\n  group: multicluster.x-k8s.io\n  scope: Namespaced\n  \
         names: {{plural: {lower}s, singular: {lower}, kind: {kind}}}\n  versions:\n  - name: v1alpha1\n    \
         served: true\n    storage: true\n    subresources: {{status: {{}}}}\n    \
         schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}\n"
    )
}

async fn define(member: &Cluster, kind: &str) {
    member.apply(&of_karmada(kind)).await.ok();
    let definition = format!("crd/{}s.multicluster.x-k8s.io", kind.to_lowercase());
    let wait = ["wait", "--for=condition=Established", "--timeout=180s"];
    member
        .kubectl(wait.into_iter().chain([definition.as_str()]))
        .await
        .ok();
}

async fn version_of_definition(member: &Cluster) -> String {
    let args = ["get", DEFINITION, "-o=jsonpath={.metadata.resourceVersion}"];
    member.kubectl(args).await.ok()
}

#[tokio::test]
async fn join_brings_the_definitions_and_unjoin_leaves_them() {
    let env = env().await;
    let member = env.fleet.member("member6");
    let joined = join(&env.installation, "member6", member, &[]).await;
    ends(
        &joined,
        0,
        "
            member: customresourcedefinition.apiextensions.k8s.io/serviceexports.multicluster.x-k8s.io created
            member: customresourcedefinition.apiextensions.k8s.io/serviceimports.multicluster.x-k8s.io created
            member6 is synced
        ",
    );
    for version in ["v1beta1", "v1alpha1"] {
        for kind in ["serviceexports", "serviceimports"] {
            let list = format!("/apis/multicluster.x-k8s.io/{version}/{kind}");
            member.kubectl(["get", "--raw", &list]).await.ok();
        }
    }
    clusterset_is(env, "member6", "Served").await;

    an_older_definition_of_causeways_is_renewed(env, member).await;
    changed_definition_is_a_conflict(env, member).await;

    let kubeconfig = member.kubeconfig().display().to_string();
    let out = env
        .mcs(["unjoin", "member6", "--member-kubeconfig", &kubeconfig])
        .await;
    ends(
        &out,
        0,
        "
            serviceexports.multicluster.x-k8s.io kept; deleting it would delete every ServiceExport there
            serviceimports.multicluster.x-k8s.io kept
        ",
    );
    member.kubectl(["get", DEFINITION]).await.ok();
}

async fn an_older_definition_of_causeways_is_renewed(env: &Environment, member: &Cluster) {
    let before = version_of_definition(member).await;
    ends(
        &join(&env.installation, "member6", member, &[]).await,
        0,
        "serviceexports.multicluster.x-k8s.io unchanged",
    );
    assert_eq!(version_of_definition(member).await, before);
    let file = "crds/member/serviceexports.multicluster.x-k8s.io.yaml";
    let file = env.installation.manifest(file);
    let older = std::fs::read_to_string(file).expect("a manifest");
    let older = older.replace("name: Ready", "name: State");
    let apply = ["apply", "--server-side", "-f", "-"];
    let apply = apply.into_iter().chain(["--field-manager=kubectl-mcs"]);
    member.kubectl_with(apply, older).await.ok();
    ends(
        &join(&env.installation, "member6", member, &[]).await,
        0,
        "serviceexports.multicluster.x-k8s.io configured",
    );
}

/// Asserts that a definition that another field manager changed stays until a person decides.
async fn changed_definition_is_a_conflict(env: &Environment, member: &Cluster) {
    let theirs = r#"[{"op":"remove","path":"/spec/versions/0/additionalPrinterColumns"}]"#;
    let patch = ["patch", DEFINITION, "--type=json", "-p", theirs];
    member.kubectl(patch).await.ok();
    let mark = member.mark().await;
    let refused = join(&env.installation, "member6", member, &[]).await;
    ends(
        &refused,
        1,
        "
            nothing was applied
            serviceexports.multicluster.x-k8s.io
            .spec.versions
            --force-conflicts
        ",
    );
    let mut written = member.writes_since(mark, "kubectl-mcs").await;
    written.retain(|write| !write.dry_run);
    assert!(written.is_empty(), "{written:?}");
    let forced = join(&env.installation, "member6", member, &["--force-conflicts"]).await;
    ends(
        &forced,
        0,
        "taken over | serviceexports.multicluster.x-k8s.io configured | member6 is synced",
    );
}

#[tokio::test]
async fn join_can_skip_definitions_and_keeps_foreign_ones() {
    let env = env().await;
    let member = env.fleet.member("member7");
    let bare = join(&env.installation, "member7", member, &["--skip-crds"]).await;
    ends(&bare, 0, "member7 is synced");
    assert!(
        !bare.stdout.contains("customresourcedefinition"),
        "{}",
        bare.stdout
    );
    let missing = member.kubectl(["get", DEFINITION]).await.refused();
    assert!(missing.contains("NotFound"), "{missing}");
    clusterset_is(env, "member7", "NotServed").await;

    define(member, "ServiceExport").await;
    let half = join(&env.installation, "member7", member, &[]).await;
    ends(
        &half,
        0,
        "
            member: ServiceExport v1alpha1 is already served, unchanged
            member: ServiceImport is not served; the member takes no part
        ",
    );
    let imports = "crd/serviceimports.multicluster.x-k8s.io";
    member.kubectl(["get", imports]).await.refused();

    define(member, "ServiceImport").await;
    let before = version_of_definition(member).await;
    let whole = join(&env.installation, "member7", member, &[]).await;
    ends(
        &whole,
        0,
        "
            member: ServiceExport v1alpha1 is already served, unchanged
            member: ServiceImport v1alpha1 is already served, unchanged
        ",
    );
    assert_eq!(version_of_definition(member).await, before);
    clusterset_is(env, "member7", "Served").await;
    an_older_export_is_shown(env, member).await;
    let kubeconfig = member.kubeconfig().display().to_string();
    let out = env
        .mcs(["unjoin", "member7", "--member-kubeconfig", &kubeconfig])
        .await;
    ends(&out, 0, "member: serviceaccount/causeway deleted");
    assert!(
        !out.stdout.contains("multicluster.x-k8s.io"),
        "{}",
        out.stdout
    );
}

async fn an_older_export_is_shown(env: &Environment, member: &Cluster) {
    let space = env.fleet.space("older").await;
    let n = space.name();
    let export = format!(
        "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceExport\nmetadata: {{name: foo, namespace: {n}}}\n"
    );
    member.apply(&export).await.ok();
    let shown = eventually("the controller says what is missing", SOON, || async {
        let output = env.mcs(["status", "foo", "-n", n]).await;
        output.stdout.contains("NoService").then_some(output)
    })
    .await;
    ends(&shown, 1, "EXPORT IN | member7 has no Service");
}

/// Waits until the status shows that of a member.
async fn clusterset_is(env: &Environment, name: &str, expected: &str) {
    let what = format!("{name} is shown as {expected}");
    eventually(&what, SOON, || async {
        let shown = env.mcs(["status"]).await.stdout;
        let row = shown.lines().find(|line| line.starts_with(name));
        let column = row.and_then(|row| row.split_whitespace().nth(4));
        if column == Some(expected) {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await;
}
