use std::path::PathBuf;

use causeway_tests::causeway::MEMBERS_NAMESPACE;
use causeway_tests::reaper::Exit;
use causeway_tests::ui::Page;

use crate::{copied, env, is_copied};
use causeway_tests::{Environment, LONG};

/// The kubeconfig of an account of the hub.
async fn account(env: &Environment, name: &str) -> PathBuf {
    let hub = env.fleet.hub();
    let create = ["create", "serviceaccount", name, "-n", "default"];
    hub.kubectl(create).await.ok();
    hub.kubeconfig_as("default", name).await
}

/// Gives an account rights, in one namespace or in all.
async fn allow(
    env: &Environment,
    name: &str,
    role: &str,
    rights: &[&str],
    namespace: Option<&str>,
) {
    let hub = env.fleet.hub();
    let subject = format!("--serviceaccount=default:{name}");
    let place: Vec<&str> = namespace
        .map(|place| ["-n", place])
        .into_iter()
        .flatten()
        .collect();
    let (kind, of, binding) = match namespace {
        Some(_) => ("role", format!("--role={role}"), "rolebinding"),
        None => (
            "clusterrole",
            format!("--clusterrole={role}"),
            "clusterrolebinding",
        ),
    };
    let create = ["create", kind, role]
        .into_iter()
        .chain(rights.iter().copied());
    hub.kubectl(create.chain(place.iter().copied())).await.ok();
    let bind = ["create", binding, role, of.as_str(), subject.as_str()];
    hub.kubectl(bind.into_iter().chain(place)).await.ok();
}

const CLUSTERS: [&str; 2] = [
    "--verb=list,watch",
    "--resource=clusters.cluster.karmada.io",
];
const SERVICES: [&str; 2] = [
    "--verb=list,watch",
    "--resource=multiclusterservices,services",
];
const NAMESPACES: [&str; 2] = ["--verb=list,watch", "--resource=namespaces"];
const SECRET_OF_B: [&str; 3] = ["--verb=get", "--resource=secrets", "--resource-name=b"];

#[tokio::test]
async fn a_right_that_is_missing_is_named_with_what_to_do() {
    let env = env().await;
    let kubeconfig = account(env, "nobody").await;
    let kubeconfig = kubeconfig.display().to_string();
    let args = ["ui", "--no-browser", "--kubeconfig", kubeconfig.as_str()];
    let output = env.mcs(args).await;
    assert_eq!(output.exit, Exit::Code(3), "{}", output.stderr);
    for said in [
        "you may not list",
        "list and watch MultiClusterServices",
        "docs/ui.md",
    ] {
        assert!(output.stderr.contains(said), "{}", output.stderr);
    }
    assert!(!output.stdout.contains("http://"), "nothing is served");
}

#[tokio::test]
async fn member_with_an_unreadable_secret_is_reported() {
    let env = env().await;
    let space = copied(env, "partly").await;
    let kubeconfig = account(env, "partly").await;
    allow(env, "partly", "partly-clusters", &CLUSTERS, None).await;
    allow(env, "partly", "partly-services", &SERVICES, None).await;
    let members = Some(MEMBERS_NAMESPACE);
    allow(env, "partly", "partly-secrets", &SECRET_OF_B, members).await;
    let ui = env.ui_of(&kubeconfig, &[]).await;
    let mut page = ui.page().await;
    page.until(
        "a is said to be out of sight, and b is shown",
        LONG,
        |page| {
            let (a, b) = (page.cluster("a"), page.cluster("b"));
            let why = a["disconnectedWhy"].as_str().unwrap_or_default();
            a["connected"] == false
                && why.contains("you may not read the Secrets")
                && a["state"] == "Ready"
                && b["connected"] == true
        },
    )
    .await;
    page.until("what b holds is shown", LONG, |page| {
        page.service(space.name(), "foo")["consumers"][0]["ready"] == 2
    })
    .await;
}

#[tokio::test]
async fn who_has_rights_in_one_namespace_sees_that_one() {
    let env = env().await;
    let space = copied(env, "mine").await;
    let kubeconfig = account(env, "mine").await;
    allow(env, "mine", "mine-clusters", &CLUSTERS, None).await;
    allow(env, "mine", "mine-services", &SERVICES, Some(space.name())).await;
    let secrets = ["--verb=get", "--resource=secrets"];
    let members = Some(MEMBERS_NAMESPACE);
    allow(env, "mine", "mine-secrets", &secrets, members).await;
    let everywhere = kubeconfig.display().to_string();
    let args = ["ui", "--no-browser", "--kubeconfig", everywhere.as_str()];
    let output = env.mcs(args).await;
    assert_eq!(output.exit, Exit::Code(3), "{}", output.stderr);
    assert!(output.stderr.contains("-n NAMESPACE"), "{}", output.stderr);
    let ui = env.ui_of(&kubeconfig, &["-n", space.name()]).await;
    let mut page = ui.page().await;
    page.until("the namespace is shown", LONG, |page| {
        is_copied(page.service(space.name(), "foo"), 2)
    })
    .await;
    let is_unread = |page: &Page| {
        let problems = page.service(space.name(), "foo")["problems"].as_array();
        let mut problems = problems.into_iter().flatten();
        problems.any(|one| one["reason"] == "NamespaceNotRead")
    };
    page.until("its Namespace is unread", LONG, is_unread).await;
    allow(env, "mine", "mine-namespaces", &NAMESPACES, None).await;
    page.until("the new right is noticed", LONG, |page| !is_unread(page))
        .await;
}
