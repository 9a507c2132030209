//! A member whose agent reaches nothing but the hub's API server: it comes to causeway-tunnel by
//! the Service proxy of that.

use std::net::SocketAddr;

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::reaper::Process;
use causeway_tests::tunnel::IssuedTunnel;
use causeway_tests::write::merge;
use causeway_tests::{Cluster, Fleet, Installation, LONG, Running, eventually, ports, service};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::pods::Pods;
use crate::{ends, join};

const MANIFEST: &str = "hub/options/tunnel-through-api-server.yaml";
const SERVICE: &str = "causeway-tunnel-upgrade";

struct Stage<'a> {
    fleet: &'a Fleet,
    installation: Installation,
    controller: Running,
    tunnel: IssuedTunnel,
}

impl Stage<'_> {
    fn hub(&self) -> &Cluster {
        self.fleet.hub()
    }

    fn edge(&self) -> &Cluster {
        self.fleet.member("member1")
    }

    async fn joined(&self) -> causeway_tests::kubectl::Output {
        let address = self.tunnel.address();
        let flags = ["--pull", "--tunnel", &address, "--through-api-server"];
        join(&self.installation, "edge", self.edge(), &flags).await
    }

    /// Waits until the controller watches the member. The condition of its Cluster may follow late,
    /// where the hub was away.
    async fn is_synced(&self) {
        let synced = [("cluster", "edge"), ("state", "synced")];
        eventually("edge is synced", LONG, async || {
            let metrics = self.controller.metrics().await;
            let state = metrics.get("causeway_controller_member_state", &synced);
            (state == Some(1.0)).then_some(()).ok_or("it is not")
        })
        .await;
    }

    /// Waits until the log of the agent has all of these words.
    async fn logs(&self, agent: &Process, said: &str) {
        eventually(&format!("the agent logs {said:?}"), LONG, async || {
            let log = agent.log_tail(20);
            let has_all = said.split(" | ").all(|part| log.contains(part));
            has_all.then_some(()).ok_or(log)
        })
        .await;
    }
}

#[tokio::test]
async fn member_is_reached_through_the_api_server_of_the_hub() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let tunnel = IssuedTunnel::new();
    let front = format!("--tunnel-front={}", tunnel.front());
    let controller = installation.controller().arg(front).start().await;
    let stage = Stage {
        fleet: &fleet,
        installation,
        controller,
        tunnel,
    };
    let address = stage.tunnel.address();
    let install = ["install", "--external", "--skip-crds", "--tunnel", &address];
    stage.installation.kubectl_mcs(install).await.ok();
    let said =
        "no account for agents | kubectl mcs install --tunnel HOST[:PORT] --through-api-server";
    ends(&stage.joined().await, 1, said);
    let pods = match Pods::start(&fleet, &stage.installation).await {
        Ok(pods) => pods,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let hub = fleet.hub();
    let manifest = stage.installation.manifest(MANIFEST);
    hub.kubectl(["apply", "-f", &manifest]).await.ok();
    let address = fleet.endpoint_address().expect("an address");
    let listener = SocketAddr::new(address, ports::fresh());
    let bind = format!("--agents-upgrade-bind={listener}");
    let replica = stage.tunnel.start_with(&fleet, &[&bind]).await;
    pods.add("tunnel-0", "tunnel", &stage.tunnel.admin(), json!({}))
        .await;
    hub.apply(&endpoints(listener).to_string()).await.ok();
    let resident = fleet.space("resident").await;
    service("resident")
        .port("http", 80)
        .create(stage.edge(), &resident)
        .await;
    resident.backends("resident").create(stage.edge()).await;

    let agent = stage.tunnel.agent(&fleet, stage.edge());
    let (joined, agent) = tokio::join!(stage.joined(), agent);
    ends(&joined, 0, "edge is synced");
    let show = ["tunnel", "--admin-url", &stage.tunnel.admin()];
    let shown = stage.installation.kubectl_mcs(show).await;
    ends(&shown, 0, "edge | through the API server | 1/1");
    way_stays_without_its_flag(&stage).await;
    let mark = stage.edge().mark().await;
    hub.stop().await;
    hub.start().await;
    stage.tunnel.is_connected_to("edge").await;
    stage.is_synced().await;
    replica.restart().await;
    stage.tunnel.is_connected_to("edge").await;
    stage.is_synced().await;
    let listed = stage.edge().whole_lists_since(mark).await;
    assert!(listed.is_empty(), "{listed:?}");

    only_that_request_is_passed_on(&stage).await;
    missing_right_is_named(&stage, &agent).await;
}

/// Asserts that neither a later `join` nor an upgrade takes the way through the API server away.
async fn way_stays_without_its_flag(stage: &Stage<'_>) {
    let address = stage.tunnel.address();
    let flags = ["--pull", "--tunnel", &address];
    let joined = join(&stage.installation, "edge", stage.edge(), &flags).await;
    let said = "deployment.apps/causeway-agent unchanged | edge is synced";
    ends(&joined, 0, said);
    stored_address_stays_without_the_flag(stage, &flags).await;
    let upgrade = ["install", "--skip-crds", "--dry-run=server", "--tunnel"];
    let upgrade = upgrade.into_iter().chain([&*address]);
    let rehearsed = stage.installation.kubectl_mcs(upgrade).await;
    let lost = "loses --agents-upgrade-bind";
    assert!(!rehearsed.stderr.contains(lost), "{}", rehearsed.stderr);
}

/// Asserts that a `join` without the flag keeps the address of the hub that the agent has, and
/// renews the token. The flag replaces the address.
async fn stored_address_stays_without_the_flag(stage: &Stage<'_>, flags: &[&str]) {
    let secrets = Api::<Secret>::namespaced(stage.edge().client(), NAMESPACE);
    let stored = async || -> Value {
        let secret = secrets.get("causeway-agent").await.expect("the Secret");
        let kubeconfig = secret.data.expect("data")["kubeconfig"].0.clone();
        serde_json::from_slice(&kubeconfig).expect("JSON")
    };
    let before = stored().await;
    let mut changed = before.clone();
    changed["clusters"][0]["cluster"]["server"] = json!("https://hub.example:6443");
    let expected = changed.clone();
    changed["users"][0]["user"]["token"] = json!("old");
    let patch = json!({"stringData": {"kubeconfig": changed.to_string()}});
    merge(&secrets, "causeway-agent", patch).await;
    let joined = join(&stage.installation, "edge", stage.edge(), flags).await;
    ends(&joined, 0, "edge is synced");
    assert_eq!(stored().await, expected);
    ends(&stage.joined().await, 0, "edge is synced");
    assert_eq!(stored().await, before);
}

/// Endpoints of the Service, which the API server reads: no controller of the hub makes them here.
fn endpoints(listener: SocketAddr) -> Value {
    let (address, port) = (listener.ip(), listener.port());
    let pod = json!({"kind": "Pod", "name": "tunnel-0", "namespace": NAMESPACE});
    let port = json!({"name": "upgrade", "port": port, "protocol": "TCP"});
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "causeway-tunnel-upgrade-0", "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": true}, "targetRef": pod},
        ],
        "ports": [port],
    });
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "subsets": [{"addresses": [{"ip": address, "targetRef": pod}], "ports": [port]}],
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [slice, endpoints]})
}

/// The account of agents has no other right than that on the Service, and the listener has no other
/// path.
async fn only_that_request_is_passed_on(stage: &Stage<'_>) {
    let secrets = Api::<Secret>::namespaced(stage.hub().client(), NAMESPACE);
    let secret = secrets.get(SERVICE).await.expect("the account's Secret");
    let token = secret.data.expect("data")["token"].0.clone();
    let token = String::from_utf8(token).expect("text");
    let client = stage.hub().client_with_token(&token);
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    let proxy = format!("{services}/http:{SERVICE}:80/proxy");
    for (path, status) in [
        (format!("{proxy}/connect"), 426),
        (format!("{proxy}/tunnels"), 404),
        (
            format!("{services}/http:causeway-tunnel:7080/proxy/connect"),
            403,
        ),
        (format!("{services}/{SERVICE}"), 403),
        (
            format!("/api/v1/namespaces/{NAMESPACE}/secrets/{SERVICE}"),
            403,
        ),
    ] {
        let request = http::Request::get(&path).body(Vec::new()).expect("one");
        let answered = client.request_text(request).await;
        match answered.expect_err(&path) {
            kube::Error::Api(refused) => assert_eq!(refused.code, status, "{path}: {refused}"),
            other => panic!("{path}: {other}"),
        }
    }
}

/// An account without the right is refused with words that name the right.
async fn missing_right_is_named(stage: &Stage<'_>, agent: &Process) {
    let accounts = Api::<ServiceAccount>::namespaced(stage.hub().client(), "default");
    let request = TokenRequest {
        spec: TokenRequestSpec::default(),
        ..TokenRequest::default()
    };
    let create = PostParams::default();
    let other = accounts
        .create_token_request("default", &create, &request)
        .await;
    let other = other.expect("a token").status.expect("a token").token;
    let directory = stage.fleet.directory().join("causeway-agent-member1");
    let file = directory.join("kubeconfig");
    let kubeconfig = std::fs::read_to_string(&file).expect("a kubeconfig");
    let mut changed: Value = serde_json::from_str(&kubeconfig).expect("JSON");
    changed["users"][0]["user"]["token"] = json!(other);
    std::fs::write(&file, changed.to_string()).expect("a file");
    agent.restart().await;
    let said = "is forbidden | \
                needs the verb get on services/proxy with the resourceName \
                http:causeway-tunnel-upgrade:80 in namespace causeway-system";
    stage.logs(agent, said).await;
    changed["users"][0]["user"]["token"] = json!("nonsense");
    std::fs::write(&file, changed.to_string()).expect("a file");
    stage.logs(agent, "it answered 401").await;
    // A renewed token counts without a restart.
    std::fs::write(&file, kubeconfig).expect("a file");
    stage.tunnel.is_connected_to("edge").await;
    stage.is_synced().await;
}
