use causeway_tests::reaper::{Exit, Program};
use causeway_tests::{
    Fleet, Installation, SOON, Space, binaries, eventually, multi_cluster_service, service,
};
use serde_json::Value;

use crate::{ends, env, join, json};
use causeway_tests::Environment;

#[tokio::test]
async fn a_service_is_waited_for_and_reported() {
    let env = env().await;
    let (hub, member) = (env.fleet.hub(), env.fleet.member("member4"));
    ends(
        &join(&env.installation, "member4", member, &[]).await,
        0,
        "",
    );
    let space = env.fleet.space("status").await;
    let name = space.name();
    ends(
        &env.mcs(["status", "foo", "-n", name]).await,
        1,
        "\"foo\" not found | neither a MultiClusterService | -A",
    );
    ends(
        &env.mcs(["status", "foo", "-n", name, "-o", "json"]).await,
        1,
        "not found",
    );

    hub.apply(&format!(
        "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\n\
         metadata: {{name: foo, namespace: {name}}}\n\
         spec: {{types: [CrossCluster], providerClusters: [{{name: member4}}], consumerClusters: [{{name: member4}}]}}\n"
    ))
    .await
    .ok();
    let unready = eventually("the controller says what is missing", SOON, || async {
        let output = env.mcs(["status", "foo", "-n", name]).await;
        output.stdout.contains("ServiceNotFound").then_some(output)
    })
    .await;
    ends(
        &unready,
        1,
        "False (ServiceNotFound) | the hub has no Service",
    );
    let late = env
        .mcs(["status", "foo", "-n", name, "--wait", "--timeout", "3s"])
        .await;
    ends(
        &late,
        1,
        "
            waiting: 
            not ready within 3 s
            ServiceNotFound
        ",
    );

    is_waited_for(env, &space).await;
    endpoints_are_waited_for(env, &space).await;
    is_reported(env, name).await;
}

async fn is_waited_for(env: &Environment, space: &Space<'_>) {
    let (hub, name) = (env.fleet.hub(), space.name());
    let wait = env.mcs([
        "status",
        "foo",
        "-n",
        name,
        "--wait",
        "--timeout",
        "60s",
        "-o",
        "json",
    ]);
    let (waited, ()) = tokio::join!(wait, async {
        service("foo").port("http", 80).create(hub, space).await;
    });
    ends(&waited, 0, "");
    let report = json(&waited);
    assert_eq!(report["ready"], true);
    assert_eq!(
        report["members"],
        Value::Null,
        "one service was asked about"
    );
    let reported = &report["services"][0];
    assert_eq!(
        (reported["name"].as_str(), reported["ready"].as_bool()),
        (Some("foo"), Some(true))
    );
    assert_eq!(reported["members"][0]["service"], "yes", "{reported}");
}

/// It is Ready without any.
async fn endpoints_are_waited_for(env: &Environment, space: &Space<'_>) {
    let wait = |timeout| {
        let (name, wait) = (space.name(), "--wait");
        env.mcs([
            "status",
            "foo",
            "-n",
            name,
            wait,
            "--for=endpoints",
            timeout,
        ])
    };
    let none = wait("--timeout=3s").await;
    ends(&none, 1, "True (Ready) | no consumer has a ready endpoint");
    let member = env.fleet.member("member4");
    let (waited, _) = tokio::join!(wait("--timeout=180s"), space.backends("foo").create(member));
    ends(&waited, 0, "CONSUMER   READY ENDPOINTS | member4");
}

async fn is_reported(env: &Environment, name: &str) {
    let details = env.mcs(["status", "foo", "-n", name]).await;
    ends(
        &details,
        0,
        "
            True (Ready)
            EndpointSliceAppliedSuccess
            provider, consumer
            there
        ",
    );
    let yaml = env.mcs(["status", "-A", "-o", "yaml"]).await.stdout;
    let yaml: Value = serde_saphyr::from_str(&yaml).expect("YAML");
    let services = yaml["services"].as_array().expect("services");
    assert!(
        services.iter().any(|service| service["namespace"] == name),
        "{yaml}"
    );
}

#[tokio::test]
async fn wait_that_loses_the_hub_is_unknown() {
    let fleet = Fleet::builder().start().await;
    let hub = fleet.hub();
    Installation::new(&fleet).await;
    let space = fleet.space("lost").await;
    multi_cluster_service("foo").create(&space).await;
    let log = fleet.directory().join("status-wait");
    let errors = log.with_extension("errors");
    let wait = ["--wait", "--timeout=6s", "--request-timeout=2s"];
    let program = Program::new(binaries::causeway("kubectl-mcs"), log)
        .stderr(errors.clone())
        .args(["status", "foo", "-n", space.name()])
        .args(wait)
        .env("KUBECONFIG", hub.kubeconfig().display().to_string());
    let status = fleet.reaper().run(program);
    let text = || std::fs::read_to_string(&errors).unwrap_or_default();
    eventually("it waits", SOON, async || text().contains("waiting: ")).await;
    hub.pause();
    let exit = status.exited(SOON).await;
    hub.resume();
    assert_eq!(exit, Exit::Code(3), "{}", text());
    assert!(text().contains("cannot reach the hub"), "{}", text());
}

#[tokio::test]
async fn status_works_without_rights_on_members() {
    let env = env().await;
    let hub = env.fleet.hub();
    let space = env.fleet.space("reader").await;
    let n = space.name();
    hub.kubectl(["create", "serviceaccount", "reader", "-n", n])
        .await
        .ok();
    let role = [
        "create",
        "role",
        "reader",
        "--verb=get,list,watch",
        "--resource=multiclusterservices",
        "-n",
        n,
    ];
    hub.kubectl(role).await.ok();
    let account = format!("--serviceaccount={n}:reader");
    hub.kubectl([
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        account.as_str(),
        "-n",
        n,
    ])
    .await
    .ok();
    let kubeconfig = hub.kubeconfig_as(n, "reader").await;
    let kubeconfig = kubeconfig.display().to_string();
    multi_cluster_service("foo").create(&space).await;
    let output = env
        .mcs(["status", "-n", n, "--kubeconfig", &kubeconfig])
        .await;
    ends(
        &output,
        1,
        "Members, and what they export, are not shown: you may not list clusters | foo",
    );
    ends(
        &env.mcs(["status", "-A", "--kubeconfig", &kubeconfig]).await,
        3,
        "forbidden by the",
    );
}
