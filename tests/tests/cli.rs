//! `kubectl mcs` against real API servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what fails here fails it"
)]

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::keeper::Exit;
use causeway_tests::kubectl::Output;
use causeway_tests::{
    Cluster, Fleet, Installation, Running, SOON, eventually, multi_cluster_service, service,
};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::Value;
use tokio::sync::OnceCell;

/// A hub with causeway's controller at work, and members that are not joined.
struct Bed {
    fleet: Fleet,
    installation: Installation,
    _controller: Running,
}

async fn bed() -> &'static Bed {
    static BED: OnceCell<Bed> = OnceCell::const_new();
    BED.get_or_init(|| async {
        let fleet = Fleet::builder().members(4).start().await;
        let installation = Installation::new(&fleet).await;
        let controller = installation.controller().start().await;
        Bed {
            fleet,
            installation,
            _controller: controller,
        }
    })
    .await
}

impl Bed {
    async fn mcs<const N: usize>(&self, args: [&str; N]) -> Output {
        self.installation.kubectl_mcs(args).await
    }

    async fn join(&self, name: &str, member: &Cluster) -> Output {
        join(&self.installation, name, member, &[]).await
    }
}

async fn join(installation: &Installation, name: &str, member: &Cluster, more: &[&str]) -> Output {
    let kubeconfig = member.kubeconfig().display().to_string();
    let args = ["join", name, "--member-kubeconfig", kubeconfig.as_str()];
    installation
        .kubectl_mcs(args.into_iter().chain(more.iter().copied()))
        .await
}

#[track_caller]
fn ends(output: &Output, code: i32, said: &[&str]) {
    let text = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(
        output.exit,
        Exit::Code(code),
        "`{}`\n{text}",
        output.command
    );
    for words in said {
        assert!(
            text.contains(words),
            "`{}` does not say {words:?}:\n{text}",
            output.command
        );
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout).unwrap_or_else(|e| {
        panic!(
            "`{}`: {e}\n{}{}",
            output.command, output.stdout, output.stderr
        )
    })
}

async fn credentials(hub: &Cluster, name: &str) -> Option<Secret> {
    let secrets = Api::<Secret>::namespaced(hub.client(), NAMESPACE);
    secrets.get_opt(name).await.expect("an answer of the hub")
}

fn token(secret: &Secret) -> String {
    let data = secret.data.as_ref().expect("data");
    String::from_utf8(data["token"].0.clone()).expect("a token")
}

#[tokio::test]
async fn a_cluster_is_joined_seen_and_taken_out_again() {
    let bed = bed().await;
    let (hub, member) = (bed.fleet.hub(), bed.fleet.member("member1"));
    let joined = bed.join("member1", member).await;
    ends(
        &joined,
        0,
        &[
            "member: serviceaccount/causeway created",
            "member: clusterrole.rbac.authorization.k8s.io/causeway-member created",
            "hub: secret/member1 created",
            "hub: cluster.cluster.karmada.io/member1 created",
            "member1 is synced, Kubernetes v1.36.3",
        ],
    );
    assert!(
        !joined.stdout.contains("namespace-creation"),
        "{}",
        joined.stdout
    );

    let again = bed.join("member1", member).await;
    ends(
        &again,
        0,
        &[
            "hub: cluster.cluster.karmada.io/member1 unchanged",
            "member1 is synced",
        ],
    );
    assert!(!again.stdout.contains("created"), "{}", again.stdout);
    ends(
        &bed.join("another", member).await,
        1,
        &["named member1", "kubectl mcs unjoin member1"],
    );

    let overview = bed.mcs(["status"]).await;
    let row = overview
        .stdout
        .lines()
        .find(|line| line.starts_with("member1 "))
        .expect("a row");
    assert!(
        row.contains("v1.36.3") && row.contains("Synced") && row.contains(member.url()),
        "{row}"
    );

    let kubeconfig = member.kubeconfig().display().to_string();
    let out = bed
        .mcs(["unjoin", "member1", "--member-kubeconfig", &kubeconfig])
        .await;
    ends(
        &out,
        0,
        &[
            "hub: cluster.cluster.karmada.io/member1 deleted",
            "hub: secret/member1 deleted",
            "member: serviceaccount/causeway deleted",
            "member: namespace/causeway-system left",
        ],
    );
    assert!(credentials(hub, "member1").await.is_none());
    let account = member
        .kubectl(["get", "serviceaccount", "causeway", "-n", NAMESPACE])
        .await;
    assert!(account.refused().contains("not found"));
    ends(
        &bed.mcs(["unjoin", "member1"]).await,
        1,
        &["member1 is not joined"],
    );
}

#[tokio::test]
async fn the_token_on_the_hub_reads_services_in_the_member_and_no_secrets() {
    let bed = bed().await;
    let member = bed.fleet.member("member2");
    ends(&bed.join("member2", member).await, 0, &[]);
    let secret = credentials(bed.fleet.hub(), "member2")
        .await
        .expect("credentials");
    let client = member.client_with_token(&token(&secret));
    let services = Api::<Service>::all(client.clone());
    services
        .list(&ListParams::default())
        .await
        .expect("services may be read");
    let secrets = Api::<Secret>::all(client);
    let error = secrets
        .list(&ListParams::default())
        .await
        .expect_err("secrets may not be read");
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error}"
    );

    // The member forgets the token: a second join brings a new one.
    let tokens = Api::<Secret>::namespaced(member.client(), NAMESPACE);
    let name = tokens
        .list(&ListParams::default().labels("mcs.causeway.dev/hub"))
        .await
        .unwrap();
    let name = name.items[0].metadata.name.clone().expect("a name");
    tokens
        .delete(&name, &DeleteParams::default())
        .await
        .expect("the token goes");
    let again = bed.join("member2", member).await;
    ends(
        &again,
        0,
        &["hub: secret/member2 configured", "member2 is synced"],
    );
    let renewed = credentials(bed.fleet.hub(), "member2")
        .await
        .expect("credentials");
    assert_ne!(token(&renewed), token(&secret));
    let services = Api::<Service>::all(member.client_with_token(&token(&renewed)));
    services
        .list(&ListParams::default())
        .await
        .expect("the new token works");
}

#[tokio::test]
async fn the_making_of_namespaces_is_granted_and_withdrawn_by_join() {
    let bed = bed().await;
    let member = bed.fleet.member("member3");
    let role = ["get", "clusterrole", "causeway-member-namespace-creation"];
    let granted = join(
        &bed.installation,
        "member3",
        member,
        &["--allow-namespace-creation"],
    )
    .await;
    ends(
        &granted,
        0,
        &[
            "member: clusterrole.rbac.authorization.k8s.io/causeway-member-namespace-creation created",
        ],
    );
    member.kubectl(role).await.ok();
    let withdrawn = bed.join("member3", member).await;
    ends(
        &withdrawn,
        0,
        &[
            "member: clusterrole.rbac.authorization.k8s.io/causeway-member-namespace-creation deleted",
        ],
    );
    member.kubectl(role).await.refused();
}

#[tokio::test]
async fn a_service_is_waited_for_and_told_of() {
    let bed = bed().await;
    let (hub, member) = (bed.fleet.hub(), bed.fleet.member("member4"));
    ends(&bed.join("member4", member).await, 0, &[]);
    let space = bed.fleet.space("status").await;
    let name = space.name();
    ends(
        &bed.mcs(["status", "foo", "-n", name]).await,
        1,
        &["MultiClusterService \"foo\" not found", "-A"],
    );
    ends(
        &bed.mcs(["status", "foo", "-n", name, "-o", "json"]).await,
        1,
        &["not found"],
    );

    hub.apply(&format!(
        "apiVersion: networking.karmada.io/v1alpha1\nkind: MultiClusterService\n\
         metadata: {{name: foo, namespace: {name}}}\n\
         spec: {{types: [CrossCluster], providerClusters: [{{name: member4}}], consumerClusters: [{{name: member4}}]}}\n"
    ))
    .await
    .ok();
    let unready = eventually("the controller says what is missing", SOON, || async {
        let output = bed.mcs(["status", "foo", "-n", name]).await;
        output.stdout.contains("ServiceNotFound").then_some(output)
    })
    .await;
    ends(
        &unready,
        1,
        &["False (ServiceNotFound)", "the hub has no Service"],
    );
    let late = bed
        .mcs(["status", "foo", "-n", name, "--wait", "--timeout", "1s"])
        .await;
    ends(
        &late,
        1,
        &["waiting: ", "not ready within 1 s", "ServiceNotFound"],
    );

    let wait = bed.mcs([
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
        service("foo").port("http", 80).create(hub, &space).await;
    });
    ends(&waited, 0, &[]);
    let report = json(&waited);
    assert_eq!(report["ready"], true);
    assert_eq!(
        report["members"],
        Value::Null,
        "one service was asked about"
    );
    let foo = &report["services"][0];
    assert_eq!(
        (foo["name"].as_str(), foo["ready"].as_bool()),
        (Some("foo"), Some(true))
    );
    assert_eq!(foo["members"][0]["service"], "yes", "{foo}");
    let details = bed.mcs(["status", "foo", "-n", name]).await;
    ends(
        &details,
        0,
        &[
            "True (Ready)",
            "EndpointSliceAppliedSuccess",
            "provider, consumer",
            "there",
        ],
    );
    let yaml = bed.mcs(["status", "-A", "-o", "yaml"]).await.stdout;
    let yaml: Value = serde_saphyr::from_str(&yaml).expect("YAML");
    let services = yaml["services"].as_array().expect("services");
    assert!(
        services.iter().any(|service| service["namespace"] == name),
        "{yaml}"
    );
}

#[tokio::test]
async fn who_may_not_see_the_members_still_sees_the_services_of_a_namespace() {
    let bed = bed().await;
    let hub = bed.fleet.hub();
    let space = bed.fleet.space("reader").await;
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
    let token = hub
        .kubectl(["create", "token", "reader", "-n", n])
        .await
        .ok();
    let kubeconfig = hub
        .kubeconfig_with_token("reader.kubeconfig", token.trim())
        .display()
        .to_string();
    multi_cluster_service("foo").create(&space).await;
    let output = bed
        .mcs(["status", "-n", n, "--kubeconfig", &kubeconfig])
        .await;
    ends(&output, 1, &["you may not list clusters", "foo"]);
    ends(
        &bed.mcs(["status", "-A", "--kubeconfig", &kubeconfig]).await,
        3,
        &["does not allow it"],
    );
}

#[tokio::test]
async fn wrong_usage_exits_with_2_and_says_what_is_wrong() {
    let bed = bed().await;
    let member = bed
        .fleet
        .member("member1")
        .kubeconfig()
        .display()
        .to_string();
    let too_long = "x".repeat(49);
    for (args, said) in [
        (
            vec!["join", "clusterB", "--member-kubeconfig", &member],
            "\"clusterB\" cannot be the name of a member",
        ),
        (
            vec!["join", &too_long, "--member-kubeconfig", &member],
            "at most 48 characters",
        ),
        (vec!["join", "a"], "--member-kubeconfig"),
        (
            vec!["join", "a", "--member-kubeconfig", "/nowhere"],
            "/nowhere",
        ),
        (
            vec![
                "join",
                "a",
                "--member-kubeconfig",
                &member,
                "--member-context",
                "other",
            ],
            "other",
        ),
        (
            vec![
                "join",
                "a",
                "--member-kubeconfig",
                &member,
                "--api-endpoint",
                "nowhere",
            ],
            "https://",
        ),
        (vec!["status", "--kubeconfig", "/nowhere"], "/nowhere"),
        (vec!["status", "--context", "other"], "other"),
        (vec!["frobnicate"], "frobnicate"),
    ] {
        let output = bed.installation.kubectl_mcs(args).await;
        ends(&output, 2, &[said]);
    }
    let help = bed.mcs(["join", "--help"]).await;
    ends(&help, 0, &["Usage: kubectl mcs join", "--api-endpoint"]);
    ends(&bed.mcs(["completion", "bash"]).await, 0, &["complete -F"]);
}

#[tokio::test]
async fn an_api_server_that_cannot_be_asked_exits_with_3() {
    let bed = bed().await;
    let directory = bed.fleet.directory();
    let rewritten = |file: &str, cluster: &Cluster, from: &str, to: &str| {
        let text = std::fs::read_to_string(cluster.kubeconfig())
            .unwrap()
            .replace(from, to);
        let path = directory.join(file);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (hub, member) = (bed.fleet.hub(), bed.fleet.member("member1"));
    let closed = rewritten("closed", hub, hub.url(), "https://127.0.0.1:1");
    for args in [vec!["status"], vec!["version"], vec!["unjoin", "a"]] {
        let args = args.into_iter().chain(["--kubeconfig", closed.as_str()]);
        let output = bed.installation.kubectl_mcs(args).await;
        ends(
            &output,
            3,
            &["the hub at https://127.0.0.1:1 cannot be asked", "refused"],
        );
    }
    let closed = rewritten("closed-member", member, member.url(), "https://127.0.0.1:1");
    let output = bed.mcs(["join", "a", "--member-kubeconfig", &closed]).await;
    ends(
        &output,
        3,
        &[
            "the member at https://127.0.0.1:1 cannot be asked",
            "--member-kubeconfig",
        ],
    );
    let stranger = rewritten(
        "stranger",
        member,
        member.url(),
        bed.fleet.member("member2").url(),
    );
    let output = bed
        .mcs(["join", "a", "--member-kubeconfig", &stranger])
        .await;
    ends(&output, 3, &["certificate"]);
    let nobody = member
        .kubeconfig_with_token("nobody", "wrong")
        .display()
        .to_string();
    let output = bed.mcs(["join", "a", "--member-kubeconfig", &nobody]).await;
    ends(&output, 3, &["the member does not allow it"]);
}

#[tokio::test]
async fn a_hub_without_the_definitions_is_told_how_to_get_them() {
    let bed = bed().await;
    let bare = bed
        .fleet
        .member("member4")
        .kubeconfig()
        .display()
        .to_string();
    let member = bed
        .fleet
        .member("member1")
        .kubeconfig()
        .display()
        .to_string();
    let apply = "kubectl apply -f manifests/crds/hub/";
    let args = [
        "join",
        "a",
        "--member-kubeconfig",
        &member,
        "--kubeconfig",
        &bare,
    ];
    ends(&bed.mcs(args).await, 1, &["serves no Cluster", apply]);
    ends(
        &bed.mcs(["status", "--kubeconfig", &bare]).await,
        1,
        &["serves no MultiClusterService", apply],
    );
    let version = bed.mcs(["version", "--kubeconfig", &bare]).await;
    ends(
        &version,
        0,
        &["Client Version: v", "Hub Version: v1.36.3", "not served"],
    );
    let version = bed.mcs(["version"]).await;
    ends(
        &version,
        0,
        &["MultiClusterService: networking.karmada.io/v1alpha1"],
    );
}

#[tokio::test]
async fn without_a_controller_join_and_unjoin_say_so_and_can_be_taken_up_again() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let (hub, member) = (fleet.hub(), fleet.member("member1"));
    let unseen = join(&installation, "member1", member, &["--timeout", "1s"]).await;
    ends(
        &unseen,
        1,
        &[
            "not synced within 1 s",
            "has not taken it up yet",
            "causeway-controller",
        ],
    );

    let patch = async |body: &str| {
        let args = [
            "patch",
            "cluster.cluster.karmada.io",
            "member1",
            "--type=merge",
            "-p",
            body,
        ];
        hub.kubectl(args).await.ok();
    };
    patch(r#"{"spec":{"id":"of-another-cluster"}}"#).await;
    let other = join(&installation, "member1", member, &["--timeout", "1s"]).await;
    ends(
        &other,
        1,
        &[
            "member1 is another cluster",
            "of-another-cluster",
            "kubectl mcs unjoin member1",
        ],
    );
    let kubeconfig = member.kubeconfig().display().to_string();
    let args = ["unjoin", "member1", "--member-kubeconfig", &kubeconfig];
    ends(
        &installation.kubectl_mcs(args).await,
        1,
        &["of another cluster than member1"],
    );
    patch(r#"{"spec":{"id":null}}"#).await;
    let mended = join(&installation, "member1", member, &["--timeout", "1s"]).await;
    let configured = "cluster.cluster.karmada.io/member1 configured";
    ends(&mended, 1, &[configured, "not synced"]);

    patch(r#"{"metadata":{"finalizers":["mcs.causeway.dev/cleanup"]}}"#).await;
    let held = installation
        .kubectl_mcs(["unjoin", "member1", "--timeout", "1s"])
        .await;
    ends(
        &held,
        1,
        &[
            "waiting for member1",
            "within 1 s",
            "mcs.causeway.dev/cleanup",
            "kubectl patch cluster",
        ],
    );
    assert!(
        credentials(hub, "member1").await.is_some(),
        "the controller still needs them"
    );
    patch(r#"{"metadata":{"finalizers":null}}"#).await;
    let freed = installation.kubectl_mcs(args).await;
    ends(
        &freed,
        0,
        &[
            "hub: secret/member1 deleted",
            "member: serviceaccount/causeway deleted",
        ],
    );
}
