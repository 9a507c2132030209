//! A member whose agent gives the controller its token: the hub stores none.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway::process::Process;
use causeway::process::kube_client::HubAccess;
use causeway_tests::causeway::{MEMBERS_NAMESPACE, NAMESPACE, Running};
use causeway_tests::kubectl::Output;
use causeway_tests::reaper::Process as Program;
use causeway_tests::tunnel::IssuedTunnel;
use causeway_tests::{Cluster, Fleet, Installation, LONG, SOON, Space, eventually};
use causeway_tunnel::agent::{Agent, Peers, Route};
use causeway_tunnel::credentials::Credentials;
use causeway_tunnel::limits::Limits;
use causeway_tunnel::metrics::Metrics;
use causeway_tunnel::splice::Shared;
use causeway_tunnel::tokens::Issuer;
use hyper_util::client::proxy::matcher::Matcher;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use serde_json::Value;

use crate::{credentials, ends, join};

const ACCOUNT: &str = "causeway-system/causeway";
/// Life of a token in the test of renewals.
const LIFE: Duration = Duration::from_secs(6);

/// A hub with a tunnel, member1, whose agent gives credentials, and member2, which the hub dials.
struct Stage {
    fleet: Fleet,
    installation: Installation,
    tunnel: IssuedTunnel,
}

impl Stage {
    fn edge(&self) -> &Cluster {
        self.fleet.member("member1")
    }

    async fn mcs(&self, args: &[&str]) -> Output {
        self.installation.kubectl_mcs(args.iter().copied()).await
    }

    async fn join(&self, more: &[&str]) -> Output {
        let address = self.tunnel.address();
        let flags = ["--pull", "--tunnel", &address];
        let flags = [&flags, more].concat();
        join(&self.installation, "member1", self.edge(), &flags).await
    }

    async fn says(&self, expected: &str) -> String {
        let hub = self.fleet.hub();
        hub.says("clusters/member1", "Ready", expected, LONG).await
    }

    /// Returns a kubeconfig of the agent's own account in the member.
    async fn kubeconfig(&self) -> String {
        let create = ["create", "token", "causeway-agent", "-n", NAMESPACE];
        let create = [&create[..], &["--duration=24h"]].concat();
        let what = "the account of the agent is there";
        let token = eventually(what, SOON, async || {
            let token = self.edge().kubectl(create.iter().copied()).await;
            match token.exit.success() {
                true => Ok(token.stdout),
                false => Err(token.stderr),
            }
        });
        let token = token.await;
        let file = self
            .edge()
            .kubeconfig_with_token("agent.kubeconfig", token.trim());
        file.display().to_string()
    }
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn hub_stores_no_token_of_a_member_whose_agent_gives_it() {
    let fleet = Fleet::builder().members(2).start().await;
    let installation = Installation::new(&fleet).await;
    let tunnel = IssuedTunnel::new();
    let controller = installation
        .controller()
        .arg(format!("--tunnel-front={}", tunnel.front()))
        .arg(format!(
            "--tunnel-tls-dir={}",
            IssuedTunnel::controller_files(&fleet).display()
        ))
        .start()
        .await;
    let stage = Stage {
        fleet,
        installation,
        tunnel,
    };
    let address = stage.tunnel.address();
    let install = ["install", "--external", "--skip-crds", "--tunnel", &address];
    ends(
        &stage.mcs(&install).await,
        0,
        "secret/causeway-controller-tunnel created",
    );
    ends(
        &stage.mcs(&install).await,
        0,
        "secret/causeway-controller-tunnel unchanged",
    );
    let replica = stage.tunnel.start(&stage.fleet).await;

    let (joined, agent) = tokio::join!(
        stage.join(&["--token-from=agent", "--timeout=180s"]),
        each_obstacle_is_named(&stage)
    );
    let said = "
        member: serviceaccount/causeway-agent created
        member: role.rbac.authorization.k8s.io/causeway-agent-credentials created
        member: deployment.apps/causeway-agent created
        hub: cluster.cluster.karmada.io/member1 created
        member1 is synced
    ";
    ends(&joined, 0, said);
    no_token_is_stored(&stage).await;
    let member2 = stage.fleet.member("member2");
    ends(
        &join(&stage.installation, "member2", member2, &[]).await,
        0,
        "synced",
    );

    let space = stage.fleet.space("given").await;
    space.expose("foo", ["member1"], ["member2"]).await;
    let pod = space.backends("foo").count(1).create(stage.edge()).await;
    let mut addresses = causeway_tests::addresses(&pod);
    space.reaches("member2", "foo", &addresses).await;
    commands_do_not_read_the_member(&stage, &space).await;
    own_kubeconfig_reads_the_member(&stage, &space).await;

    // Neither side begins again when an agent or the controller does.
    let mark = stage.edge().mark().await;
    agent.kill().await;
    stage
        .says("False|Unreachable|its agent is not connected")
        .await;
    agent.restart().await;
    stage.says("True|Synced|").await;
    space.grows(&mut addresses).await;
    let listed = stage.edge().whole_lists_since(mark).await;
    assert!(listed.is_empty(), "{listed:?}");
    controller.restart_in_order().await;
    space.grows(&mut addresses).await;
    account_that_is_created_again_is_used(&stage, &space, &mut addresses).await;
    agent.kill().await;
    controller_that_starts_without_the_agent_keeps_endpoints(
        &stage,
        &space,
        &addresses,
        &controller,
    )
    .await;
    renewed_tokens_list_nothing(&stage, &space, &mut addresses).await;
    agent.restart().await;
    member_is_joined_with_a_stored_token_and_back(&stage, &agent).await;
    drop(replica);
}

/// Follows the reasons in Ready until the member is synced, and returns its agent.
async fn each_obstacle_is_named(stage: &Stage) -> Program {
    let uncertified = "False|Refused|causeway-controller has no certificate that its agent accepts";
    let said = stage.says(uncertified).await;
    assert!(said.contains("kubectl mcs install --tunnel"), "{said}");
    stage.tunnel.certify_controller(&stage.fleet).await;
    stage
        .says("False|Unreachable|its agent is not connected to causeway-tunnel")
        .await;
    let plain = stage.tunnel.agent(&stage.fleet, stage.edge()).await;
    let said = stage.says("False|Refused|its agent answered 501").await;
    assert!(said.contains("--token-account"), "{said}");
    plain.kill().await;
    let kubeconfig = stage.kubeconfig().await;
    let flags = [
        format!("--token-account={ACCOUNT}"),
        format!("--kubeconfig={kubeconfig}"),
    ];
    stage
        .tunnel
        .agent_with(&stage.fleet, stage.edge(), &flags)
        .await
}

async fn no_token_is_stored(stage: &Stage) {
    let hub = stage.fleet.hub();
    let of_members = Api::<Secret>::namespaced(hub.client(), MEMBERS_NAMESPACE);
    for secrets in [of_members, Api::all(stage.edge().client())] {
        let secrets = secrets.list(&ListParams::default()).await.expect("Secrets");
        let with_token = secrets.items.iter().filter(|secret| {
            let data = secret.data.as_ref();
            data.is_some_and(|data| data.contains_key("token"))
        });
        let names: Vec<_> = with_token.map(|one| one.metadata.name.as_deref()).collect();
        assert!(names.is_empty(), "{names:?}");
    }
    let get = ["get", "cluster", "member1", "-o", "json"];
    let cluster: Value = serde_json::from_str(&hub.kubectl(get).await.ok()).expect("JSON");
    let annotations = &cluster["metadata"]["annotations"];
    assert_eq!(
        annotations["mcs.causeway.dev/credentials"], "agent",
        "{annotations}"
    );
    assert!(cluster["spec"]["secretRef"].is_null(), "{cluster}");
    assert!(cluster["spec"]["id"].is_string(), "{cluster}");
    let removed = stage.mcs(&["tunnel", "remove", "member1"]).await;
    ends(&removed, 1, "kubectl mcs unjoin member1");
}

async fn commands_do_not_read_the_member(stage: &Stage, space: &Space<'_>) {
    let name = space.name();
    let said =
        "its agent gives its token to causeway-controller alone | --member-kubeconfig member1=FILE";
    for command in [
        &["explain", "foo", "-n", name][..],
        &["top", "-n", name, "--interval=1s"],
    ] {
        let output = stage.mcs(command).await;
        let text = format!("{}{}", output.stdout, output.stderr);
        for words in said.split('|').map(str::trim) {
            assert!(text.contains(words), "{command:?}: {text}");
        }
    }
    let check = stage.mcs(&["check", "-o", "json"]).await;
    let checks: Value = serde_json::from_str(&check.stdout).expect("JSON");
    let text = checks.to_string();
    let all = checks["checks"].as_array().expect("checks");
    let of_member = all.iter().find(|one| one["name"] == "cluster member1");
    assert_eq!(of_member.expect("a check")["state"], "Healthy", "{text}");
}

/// A kubeconfig of the user serves in place of the token, at its address, or through the tunnel if
/// that does not answer.
async fn own_kubeconfig_reads_the_member(stage: &Stage, space: &Space<'_>) {
    let explain = ["explain", "foo", "-n", space.name()];
    let front = format!("--tunnel-front={}", stage.tunnel.front());
    let of = |member: &str, path: &Path| format!("--member-kubeconfig={member}={}", path.display());
    let file = stage.edge().kubeconfig();
    let (host, port) = stage.edge().address();
    let text = std::fs::read_to_string(&file).expect("a kubeconfig");
    let moved = text.replace(&format!("{host}:{port}"), &format!("{host}:1"));
    assert_ne!(moved, text);
    let closed = file.with_extension("closed");
    std::fs::write(&closed, moved).expect("a file");
    let member2 = stage.fleet.member("member2").kubeconfig();
    let another = "current context is of another cluster than member1 | --member member1=CONTEXT";
    let complete = "every ready endpoint is in every consumer";
    let nobody = "member9 is not joined | kubectl mcs status";
    for (flags, code, said) in [
        (vec![], 3, "--member-kubeconfig member1=FILE"),
        (vec![of("member1", &file)], 0, complete),
        (vec![of("member1", &closed), front], 0, complete),
        (
            vec![of("member1", &closed)],
            3,
            "nor through causeway-tunnel",
        ),
        (vec![of("member1", &member2)], 3, another),
        (vec![of("member9", &file)], 2, nobody),
    ] {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let output = stage.mcs(&[&explain[..], &flags].concat()).await;
        ends(&output, code, said);
    }
}

async fn account_that_is_created_again_is_used(
    stage: &Stage,
    space: &Space<'_>,
    addresses: &mut Vec<String>,
) {
    let edge = stage.edge();
    let mark = edge.mark().await;
    let delete = ["delete", "serviceaccount", "causeway", "-n", NAMESPACE];
    edge.kubectl(delete).await.ok();
    let said = stage
        .says("False|Unreachable|its agent gives no credentials")
        .await;
    assert!(said.contains("causeway-system/causeway"), "{said}");
    assert!(said.contains("not found"), "{said}");
    let create = ["create", "serviceaccount", "causeway", "-n", NAMESPACE];
    edge.kubectl(create).await.ok();
    stage.says("True|Synced|").await;
    space.grows(addresses).await;
    let listed = edge.whole_lists_since(mark).await;
    assert!(listed.is_empty(), "{listed:?}");
}

async fn controller_that_starts_without_the_agent_keeps_endpoints(
    stage: &Stage,
    space: &Space<'_>,
    addresses: &[String],
    controller: &Running,
) {
    controller.restart_in_order().await;
    stage
        .says("False|Unreachable|its agent is not connected to causeway-tunnel")
        .await;
    space.reaches("member2", "foo", addresses).await;
}

/// An agent in this process gives tokens that end soon: API servers issue none for less than ten
/// minutes.
async fn renewed_tokens_list_nothing(
    stage: &Stage,
    space: &Space<'_>,
    addresses: &mut Vec<String>,
) {
    let edge = stage.edge();
    let process = Process::start(([127, 0, 0, 1], 0).into())
        .await
        .expect("a process");
    let metrics = Metrics::default();
    let kubeconfig = Kubeconfig::read_from(stage.kubeconfig().await).expect("a kubeconfig");
    let access = HubAccess::Kubeconfig(Box::new(kubeconfig));
    let (host, port) = edge.address();
    let api = format!("{host}:{port}");
    let account = ACCOUNT.parse().expect("an account");
    let peers = Peers {
        route: Route::Dialled(stage.tunnel.address().parse().expect("an address")),
        proxies: Matcher::builder().build(),
        tokens: Some(Issuer::new(access, account, &api).with_life(LIFE)),
        api,
    };
    let files = IssuedTunnel::agent_files(&stage.fleet, edge);
    let own: Arc<Credentials<_>> = Credentials::read(&files, &metrics).expect("credentials");
    let shared = Shared::new(Limits::default(), &metrics);
    let agent = Agent::new(peers, own, shared, process.tasks.clone());
    process.tasks.spawn("connections", agent.run());
    stage.says("True|Synced|").await;
    // The first lists are over.
    space.grows(addresses).await;

    let mark = edge.mark().await;
    let since = "jsonpath={.status.conditions[?(@.type==\"Ready\")].lastTransitionTime}";
    let transition = ["get", "cluster", "member1", "-o", since];
    let synced = stage.fleet.hub().kubectl(transition).await.ok();
    eventually("three tokens are issued", LONG, async || {
        let writes = edge.all_writes_since(mark).await;
        let issued = writes.iter().filter(|write| write.subresource == "token");
        let issued = issued.count();
        (issued >= 3).then_some(()).ok_or(issued)
    })
    .await;
    space.grows(addresses).await;
    let listed = edge.whole_lists_since(mark).await;
    assert!(listed.is_empty(), "{listed:?}");
    let still = stage.fleet.hub().kubectl(transition).await.ok();
    assert_eq!(still, synced, "the member was not ready for a while");
    process.tasks.shutdown().cancel();
}

async fn member_is_joined_with_a_stored_token_and_back(stage: &Stage, agent: &Program) {
    let kept = "deployment.apps/causeway-agent unchanged | cluster.cluster.karmada.io/member1 unchanged | synced";
    ends(&stage.join(&[]).await, 0, kept);
    let lifetime = ["--token-lifetime=1h"];
    ends(
        &stage.join(&lifetime).await,
        2,
        "leave --token-lifetime out",
    );
    let stored = stage.join(&["--token-from=secret"]).await;
    let said = "
        member: serviceaccount/causeway-agent deleted
        hub: secret/member1 created
        synced
    ";
    ends(&stored, 0, said);
    let pod = "jsonpath={.spec.template.spec.serviceAccountName}";
    let account = [
        "get",
        "deployment",
        "causeway-agent",
        "-n",
        NAMESPACE,
        "-o",
        pod,
    ];
    assert_eq!(stage.edge().kubectl(account).await.ok(), "default");
    stored_token_stays_until_the_agent_gives_one(stage, agent).await;
    let given = stage.join(&["--token-from=agent"]).await;
    ends(&given, 0, "synced | hub: secret/member1 deleted");
    no_token_of_member1(stage).await;
    let kubeconfig = stage.edge().kubeconfig().display().to_string();
    let unjoin = ["unjoin", "member1", "--member-kubeconfig", &kubeconfig];
    let said = "
        member: deployment.apps/causeway-agent deleted
        member: rolebinding.rbac.authorization.k8s.io/causeway-agent-credentials deleted
        member: serviceaccount/causeway-agent deleted
        member: secret/causeway-agent deleted
        member: serviceaccount/causeway deleted
    ";
    ends(&stage.mcs(&unjoin).await, 0, said);
}

/// The running agent has no --token-account, as where the pod of the new Deployment does not start.
async fn stored_token_stays_until_the_agent_gives_one(stage: &Stage, agent: &Program) {
    agent.kill().await;
    let plain = stage.tunnel.agent(&stage.fleet, stage.edge()).await;
    stage.says("True|Synced|").await;
    let given = stage.join(&["--token-from=agent", "--timeout=20s"]).await;
    let text = format!("{}{}", given.stdout, given.stderr);
    assert!(!given.exit.success(), "{text}");
    for words in ["serviceaccount/causeway-agent created", "not synced"] {
        assert!(text.contains(words), "{text}");
    }
    assert!(credentials(stage.fleet.hub(), "member1").await.is_some());
    plain.kill().await;
    // Its account is another one of the same name: the file gets a token of it.
    stage.kubeconfig().await;
    agent.restart().await;
}

async fn no_token_of_member1(stage: &Stage) {
    assert!(credentials(stage.fleet.hub(), "member1").await.is_none());
    let secrets = Api::<Secret>::namespaced(stage.edge().client(), NAMESPACE);
    let secrets = secrets.list(&ListParams::default()).await.expect("Secrets");
    let names: Vec<_> = secrets
        .items
        .into_iter()
        .filter_map(|one| one.metadata.name)
        .collect();
    assert_eq!(names, ["causeway-agent"]);
}
