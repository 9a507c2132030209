//! `kubectl mcs top`: what changes, as watches and the controller's metrics show it.

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{
    Fleet, Installation, SOON, Space, eventually, multi_cluster_service, pod, service,
};
use serde_json::{Value, json};

use crate::pods::Pods;
use crate::{ends, join_all, json as parsed, reader};

/// Makes a pod of the service not ready and ready again, until the other future is done; what that
/// returns.
async fn while_it_changes<T>(
    pod: &causeway_tests::fixtures::RunningPod,
    other: impl Future<Output = T>,
) -> T {
    let changes = async {
        let mut ready = false;
        loop {
            pod.set_ready(ready).await;
            ready = !ready;
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        done = other => done,
        () = changes => unreachable!("it changes for ever"),
    }
}

fn of<'a>(report: &'a Value, list: &str, name: &str) -> &'a Value {
    let all = report[list].as_array().expect("a list");
    let found = all.iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report}"))
}

async fn served(fleet: &Fleet, space: &Space<'_>) -> causeway_tests::fixtures::RunningPod {
    service("foo")
        .port("http", 80)
        .create(fleet.hub(), space)
        .await;
    let mcs = multi_cluster_service("foo").providers(["member1"]);
    mcs.consumers(["member2"]).create(space).await;
    let provider = fleet.member("member1");
    let backend = pod("foo-0", "foo").create(provider, space).await;
    eventually("the consumer has the endpoint", SOON, async || {
        let consumer = fleet.member("member2");
        !space.ready_addresses(consumer, "foo").await.is_empty()
    })
    .await;
    backend
}

/// Whether all these fields of an object are more than nothing.
fn has(object: &Value, fields: &[&str]) -> bool {
    let positive = |field: &&str| object[*field].as_f64().is_some_and(|value| value > 0.0);
    fields.iter().all(positive)
}

/// Measures until something is seen of the service, of both members and of the controller.
async fn measured(installation: &Installation, admin: &str, space: &Space<'_>) -> Value {
    let what = ["top", "-A", "-o", "json"];
    let how = ["--interval", "2s", "--admin-url", admin];
    eventually("all of it is measured", SOON, async || {
        let output = installation.kubectl_mcs(what.into_iter().chain(how)).await;
        ends(&output, 0, "");
        let report = parsed(&output);
        let services = report["services"].as_array().into_iter().flatten();
        let all = [
            "changesPerSecond",
            "writesPerSecond",
            "endpointsPerSecond",
            "lagSeconds",
        ];
        let mut seen = services.filter(|one| one["namespace"] == space.name());
        let is_seen = seen.any(|one| has(one, &all))
            && has(of(&report, "members", "member1"), &["changesPerSecond"])
            && has(
                of(&report, "members", "member2"),
                &["writesPerSecond", "lagSeconds"],
            )
            && has(
                &report["controller"],
                &["writesPerSecond", "propagatedPerSecond"],
            );
        is_seen.then(|| report.clone()).ok_or(report)
    })
    .await
}

#[tokio::test]
async fn services_and_members_are_shown_by_what_happens_in_them() {
    let fleet = Fleet::builder().members(2).start().await;
    let installation = Installation::new(&fleet).await;
    let controller = installation.controller().start().await;
    join_all(&installation, &fleet, &["member1", "member2"]).await;
    let space = fleet.space("busy").await;
    let backend = served(&fleet, &space).await;

    let admin = format!("http://{}", controller.admin());
    let measured = measured(&installation, &admin, &space);
    let report = while_it_changes(&backend, measured).await;
    assert_eq!(
        of(&report, "members", "member2")["state"],
        "synced",
        "{report}"
    );
    assert_eq!(report["notes"], json!([]), "{report}");

    // Of another namespace nothing is shown.
    let top = ["top", "-n", "default", "--interval", "1s"];
    let at = ["--admin-url", admin.as_str()];
    let output = installation.kubectl_mcs(top.into_iter().chain(at)).await;
    let said = "leads: | MEMBER | member1 | synced | No service changed in 1 s";
    ends(&output, 0, said);

    slow_credential_plugins_cost_no_member(&installation, &fleet, &admin).await;
    through_the_api_server(&fleet, &installation, controller.admin()).await;
    who_may_not_read_a_part_sees_what_to_type(&installation, &fleet, &space, &admin).await;
}

/// The plugins of all members run at one time, before the time of the requests begins, and not
/// again for the second connection of the command.
async fn slow_credential_plugins_cost_no_member(
    installation: &Installation,
    fleet: &Fleet,
    admin: &str,
) {
    let plugin = fleet.directory().join("plugin.sh");
    let script = r#"
sleep 1
echo run >> "$0.runs"
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
echo "\"status\": {\"token\": \"$1\"}}"
"#;
    std::fs::write(&plugin, script).expect("a file");
    let plugin = plugin.display();
    let files = ["member1", "member2"].map(|name| {
        let own = fleet.member(name).kubeconfig();
        let text = std::fs::read_to_string(&own).expect("a kubeconfig");
        let (rest, token) = text.split_once("user: {token: ").expect("a token");
        let token = token.trim_end().trim_end_matches('}');
        let exec = format!(
            "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, \
             args: [\"{plugin}\", \"{token}\"]"
        );
        let file = own.with_extension("plugin");
        std::fs::write(&file, format!("{rest}user: {{exec: {{{exec}}}}}\n")).expect("a file");
        format!("--member-kubeconfig={name}={}", file.display())
    });
    let top = ["top", "-A", "--interval=1s", "--admin-url", admin].into_iter();
    let output = installation
        .kubectl_mcs(top.chain(files.iter().map(String::as_str)))
        .await;
    ends(&output, 0, "member1 | member2 | synced");
    let runs = std::fs::read_to_string(format!("{plugin}.runs")).expect("runs");
    // For one client kube-client runs the plugin three times.
    let runs = runs.lines().count();
    assert!(runs <= 3 * files.len(), "{runs} runs");
}

async fn through_the_api_server(fleet: &Fleet, installation: &Installation, admin: &str) {
    let output = installation.kubectl_mcs(["top", "--interval", "1s"]).await;
    ends(
        &output,
        3,
        "MEMBER | there is no pod of causeway-controller in namespace causeway-system | --admin-url",
    );
    let pods = match Pods::start(fleet, installation).await {
        Ok(pods) => pods,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    pods.add("controller-0", "controller", admin, json!({}))
        .await;
    let output = installation.kubectl_mcs(["top", "--interval", "1s"]).await;
    ends(&output, 0, "controller-0 leads: | member1 | synced");
    assert!(!output.stdout.contains("not read"), "{output:?}");
}

async fn who_may_not_read_a_part_sees_what_to_type(
    installation: &Installation,
    fleet: &Fleet,
    space: &Space<'_>,
    admin: &str,
) {
    let hub = fleet.hub();
    let kubeconfig = reader(hub, space.name()).await;
    let reader = ["--kubeconfig", kubeconfig.as_str(), "--interval", "1s"];
    let output = installation
        .kubectl_mcs(["top"].into_iter().chain(reader))
        .await;
    ends(
        &output,
        3,
        "nothing can be measured | you may not list pods in namespace causeway-system | --admin-url",
    );
    let with_url = ["top", "--admin-url", admin].into_iter().chain(reader);
    let output = installation.kubectl_mcs(with_url).await;
    ends(
        &output,
        3,
        "leads: | member1 | what is written into members is not known: forbidden",
    );

    let role = [
        "create",
        "role",
        "pods",
        "--verb=list",
        "--resource=pods",
        "-n",
        NAMESPACE,
    ];
    hub.kubectl(role).await.ok();
    let subject = format!("--serviceaccount={}:reader", space.name());
    let bind = [
        "create",
        "rolebinding",
        "pods",
        "--role=pods",
        &subject,
        "-n",
        NAMESPACE,
    ];
    hub.kubectl(bind).await.ok();
    let output = installation
        .kubectl_mcs(["top"].into_iter().chain(reader))
        .await;
    let forbidden =
        "you may not get pods/proxy in namespace causeway-system | create role causeway-metrics";
    if output.stderr.contains("there is no pod") {
        return eprintln!("skipped: pods of the hub");
    }
    ends(&output, 3, forbidden);
}
