//! A member that is joined, read and removed through causeway-tunnel: its Cluster has an address
//! that only its own pods reach.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::process::certificate::authorities;
use causeway_tests::causeway::NAMESPACE;
use causeway_tests::kubectl::Output;
use causeway_tests::reaper::{Exit, Process, Program};
use causeway_tests::tunnel::{IssuedTunnel, PASSWORD};
use causeway_tests::{
    Cluster, Fleet, Installation, LONG, SOON, Space, binaries, eventually, ports,
};
use futures::{SinkExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::pods::Pods;
use crate::{credentials, ends, join, json as parsed};

/// A hub with a tunnel, its member edge, and member2, which the hub dials.
struct Stage<'a> {
    fleet: &'a Fleet,
    installation: Installation,
    tunnel: IssuedTunnel,
}

impl Stage<'_> {
    fn edge(&self) -> &Cluster {
        self.fleet.member("member1")
    }

    async fn mcs(&self, args: &[&str]) -> Output {
        self.installation.kubectl_mcs(args.iter().copied()).await
    }

    /// Runs a command with the front of the tunnel.
    async fn through(&self, args: &[&str]) -> Output {
        let front = self.tunnel.front();
        self.mcs(&[args, &["--tunnel-front", &front]].concat())
            .await
    }

    async fn install(&self, address: &str, more: &[&str]) -> Output {
        let install = ["install", "--external", "--skip-crds", "--tunnel", address];
        self.mcs(&[&install, more].concat()).await
    }

    async fn join(&self, more: &[&str]) -> Output {
        let address = self.tunnel.address();
        let flags = ["--pull", "--tunnel", &address];
        join(
            &self.installation,
            "edge",
            self.edge(),
            &[&flags, more].concat(),
        )
        .await
    }

    async fn unjoin(&self, more: &[&str]) -> Output {
        let kubeconfig = self.edge().kubeconfig().display().to_string();
        let unjoin = ["unjoin", "edge", "--member-kubeconfig", &kubeconfig];
        self.mcs(&[&unjoin, more].concat()).await
    }

    /// Returns the URL of the API server of edge, as only its own pods reach it.
    async fn api_endpoint(&self) -> String {
        let path = "jsonpath={.spec.apiEndpoint}";
        let get = ["get", "cluster", "edge", "-o", path];
        self.fleet.hub().kubectl(get).await.ok()
    }

    /// Waits until a command, with the front of the tunnel, ends so and prints all of this.
    async fn shows(&self, args: &[&str], code: i32, said: &str) {
        let what = format!("{args:?} ends with {code} and says {said}");
        eventually(&what, SOON, async || {
            let output = self.through(args).await;
            let text = format!("{}{}", output.stdout, output.stderr);
            let is_said = said.split('|').all(|part| text.contains(part.trim()));
            match is_said && output.exit == Exit::Code(code) {
                true => Ok(()),
                false => Err(format!("{:?}\n{text}", output.exit)),
            }
        })
        .await;
    }
}

async fn secret(cluster: &Cluster, name: &str) -> Option<Secret> {
    let secrets = Api::<Secret>::namespaced(cluster.client(), NAMESPACE);
    secrets.get_opt(name).await.expect("an answer")
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn member_of_the_tunnel_is_joined_read_and_removed() {
    let fleet = Fleet::builder().members(2).start().await;
    let installation = Installation::new(&fleet).await;
    let tunnel = IssuedTunnel::new();
    let front = format!("--tunnel-front={}", tunnel.front());
    let controller = installation.controller().arg(front).start().await;
    let stage = Stage {
        fleet: &fleet,
        installation,
        tunnel,
    };
    without_a_tunnel_the_remedy_is_named(&stage).await;
    authority_is_created_once(&stage).await;
    let replica = stage.tunnel.start(&fleet).await;

    let agent = async {
        let unreachable = "False|Unreachable|";
        let hub = fleet.hub();
        hub.says("clusters/edge", "Ready", unreachable, LONG).await;
        stage.tunnel.agent(&fleet, stage.edge()).await
    };
    let (joined, agent) = tokio::join!(stage.join(&[]), agent);
    let said = "
        member: secret/causeway-agent created
        member: deployment.apps/causeway-agent created
        hub: cluster.cluster.karmada.io/edge created
        waiting for edge: Unreachable (its agent is not connected to causeway-tunnel
        edge is synced, Kubernetes v1.36.3 at https://
        through causeway-tunnel at 127.0.0.1:
    ";
    ends(&joined, 0, said);
    cluster_names_the_address_of_the_pods(&stage).await;
    joined_again_keeps_the_certificate(&stage).await;
    agent_that_reaches_no_tunnel_ends_in_order(&stage).await;
    let plain = join(&stage.installation, "member2", fleet.member("member2"), &[]).await;
    ends(&plain, 0, "member2 is synced");

    let space = fleet.space("nat").await;
    commands_read_the_member(&stage, &space).await;
    agents_are_shown(&stage).await;
    kubectl_uses_the_authenticated_front(&stage, &replica).await;
    upgraded_stream_passes_the_authenticated_front(&stage).await;
    let explain = ["explain", "foo", "-n", space.name()];
    unreached_front_is_unknown(&stage, &explain).await;
    front_is_reached_by_a_forwarded_port(&stage, &explain).await;

    agent.kill().await;
    let lost =
        "its agent is not connected to causeway-tunnel | look at its agent: kubectl mcs tunnel";
    stage.shows(&explain, 1, lost).await;
    let admin = stage.tunnel.admin();
    let show = ["tunnel", "--admin-url", &admin];
    let said = "edge | not for | 127.0.0.1 | 0/1 | logs deployment/causeway-agent";
    stage.shows(&show, 1, said).await;
    agent.restart().await;
    stage.shows(&show, 0, "1/1").await;
    let hub = fleet.hub();
    hub.says("clusters/edge", "Ready", "True|Synced|", LONG)
        .await;

    everything_is_removed(&stage).await;
    upgrade_keeps_the_tunnel(&stage).await;
    drop((replica, controller));
}

async fn without_a_tunnel_the_remedy_is_named(stage: &Stage<'_>) {
    let remedy = "kubectl mcs install --tunnel";
    ends(&stage.join(&[]).await, 1, remedy);
    ends(&stage.join(&["--dry-run"]).await, 1, remedy);
    let none = secret(stage.edge(), "causeway-agent").await;
    assert!(none.is_none(), "{none:?}");
    ends(&stage.mcs(&["tunnel"]).await, 1, remedy);
    for flags in [&["--pull"][..], &["--tunnel", "127.0.0.1"]] {
        let half = join(&stage.installation, "edge", stage.edge(), flags).await;
        ends(&half, 2, "required");
    }
}

async fn authority_is_created_once(stage: &Stage<'_>) {
    let hub = stage.fleet.hub();
    let address = stage.tunnel.address();
    let rehearsed = stage.install(&address, &["--dry-run=server"]).await;
    let said = "secret/causeway-tunnel-ca created (server dry run) | secret/causeway-tunnel created (server dry run)";
    ends(&rehearsed, 0, said);
    assert!(secret(hub, "causeway-tunnel-ca").await.is_none());
    let installed = stage.install(&address, &[]).await;
    let said = "secret/causeway-tunnel-ca created | secret/causeway-tunnel created | --tls-dir";
    ends(&installed, 0, said);
    let first = secret(hub, "causeway-tunnel-ca").await.expect("a CA").data;
    let again = stage.install(&address, &[]).await;
    let said = "secret/causeway-tunnel-ca unchanged | secret/causeway-tunnel unchanged";
    ends(&again, 0, said);
    let elsewhere = "
        secret/causeway-tunnel-ca unchanged
        secret/causeway-tunnel configured
        covers tunnel.example, 127.0.0.1:
    ";
    ends(&stage.install("tunnel.example", &[]).await, 0, elsewhere);
    ends(&stage.install(&address, &[]).await, 0, said);
    let last = secret(hub, "causeway-tunnel-ca").await.expect("a CA").data;
    assert_eq!(first, last);
    // Without the CA, agents may still trust the one that is lost.
    let delete = ["delete", "secret", "causeway-tunnel-ca", "-n", NAMESPACE];
    hub.kubectl(delete).await.ok();
    ends(&stage.install(&address, &[]).await, 1, "another authority");
    for name in ["causeway-tunnel-ca", "causeway-tunnel"] {
        let delete = [
            "delete",
            "secret",
            name,
            "-n",
            NAMESPACE,
            "--ignore-not-found",
        ];
        hub.kubectl(delete).await.ok();
    }
    ends(
        &stage.install(&address, &[]).await,
        0,
        "secret/causeway-tunnel-ca created",
    );
    // Agents go on dialling the earlier host.
    let said = "secret/causeway-tunnel configured | covers tunnel.example, 127.0.0.1:";
    ends(&stage.install("tunnel.example", &[]).await, 0, said);
}

async fn cluster_names_the_address_of_the_pods(stage: &Stage<'_>) {
    let hub = stage.fleet.hub();
    let cluster = hub
        .kubectl(["get", "cluster", "edge", "-o", "json"])
        .await
        .ok();
    let cluster: Value = serde_json::from_str(&cluster).expect("JSON");
    let service = ["get", "service", "kubernetes", "-n", "default", "-o"];
    let service = service.into_iter().chain(["jsonpath={.spec.clusterIP}"]);
    let address = stage.edge().kubectl(service).await.ok();
    assert_eq!(
        cluster["spec"]["apiEndpoint"],
        format!("https://{address}:443")
    );
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    let annotations = &cluster["metadata"]["annotations"];
    assert_eq!(
        annotations["mcs.causeway.dev/tunnel"], "true",
        "{annotations}"
    );
}

async fn joined_again_keeps_the_certificate(stage: &Stage<'_>) {
    let again = stage.join(&[]).await;
    let said = "secret/causeway-agent unchanged | deployment.apps/causeway-agent unchanged | cluster.cluster.karmada.io/edge unchanged | synced";
    ends(&again, 0, said);
    let dialled = join(&stage.installation, "edge", stage.edge(), &[]).await;
    ends(
        &dialled,
        1,
        "through causeway-tunnel | kubectl mcs unjoin edge",
    );
    let printed = stage
        .join(&["--dry-run", "-o", "json", "--only", "member"])
        .await;
    ends(
        &printed,
        0,
        "Secret causeway-system/causeway-agent of the member is left out",
    );
    let list = parsed(&printed);
    let items = list["items"].as_array().expect("items");
    let agents = items
        .iter()
        .filter(|one| one["metadata"]["name"] == "causeway-agent");
    let kinds: Vec<_> = agents
        .map(|one| one["kind"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(kinds, ["Deployment"]);
}

async fn agent_that_reaches_no_tunnel_ends_in_order(stage: &Stage<'_>) {
    let log = stage.fleet.directory().join("causeway-agent-alone.log");
    stage.fleet.add_log(&log);
    let files = IssuedTunnel::agent_files(stage.fleet, stage.edge());
    let program = Program::new(binaries::causeway("causeway-agent"), log)
        .arg("--tunnel=127.0.0.1:1")
        .arg(format!("--tls-dir={}", files.display()))
        .arg("--api-server=127.0.0.1:1")
        .arg(format!("--admin-bind=127.0.0.1:{}", ports::fresh()));
    let agent = stage.fleet.reaper().run(program);
    eventually("the agent dials", SOON, async || {
        let log = agent.log_tail(100);
        let has_dialled = log.contains("causeway-tunnel not reached");
        has_dialled.then_some(()).ok_or(log)
    })
    .await;
    agent.terminate();
    let exit = agent.exited(Duration::from_secs(5)).await;
    assert!(exit.success(), "{exit:?}");
}

async fn commands_read_the_member(stage: &Stage<'_>, space: &Space<'_>) {
    space.expose("foo", ["edge"], ["member2"]).await;
    let pods = space.backends("foo").count(2).create(stage.edge()).await;
    let addresses = causeway_tests::addresses(&pods);
    space.reaches("member2", "foo", &addresses).await;
    let name = space.name();
    let explain = ["explain", "foo", "-n", name];
    let said = "every ready endpoint is in every consumer | edge | 2 ready";
    stage.shows(&explain, 0, said).await;
    stage
        .shows(&["status", "-n", name], 0, "edge | Synced")
        .await;
    stage.shows(&["check"], 1, "cluster edge").await;
    let top = stage.through(&["top", "-A", "--interval", "1s"]).await;
    assert!(!top.stdout.contains("edge not watched"), "{}", top.stdout);
    let hub = stage.fleet.hub();
    let stored = hub
        .kubectl(["get", "mcs", "foo", "-n", name, "-o", "json"])
        .await;
    let stored: Value = serde_json::from_str(&stored.ok()).expect("JSON");
    let unchanged = json!({
        "apiVersion": stored["apiVersion"], "kind": stored["kind"], "spec": stored["spec"],
        "metadata": {"name": "foo", "namespace": name},
    });
    let file = stage.fleet.directory().join("unchanged.json");
    std::fs::write(&file, unchanged.to_string()).expect("a file");
    let file = file.display().to_string();
    ends(&stage.through(&["diff", "-f", &file]).await, 0, "");
    ends(&stage.mcs(&["diff", "-f", &file]).await, 3, "no ready pod");
}

async fn agents_are_shown(stage: &Stage<'_>) {
    let admin = stage.tunnel.admin();
    let show = ["tunnel", "--admin-url", &admin];
    let shown = stage.mcs(&show).await;
    let version = env!("CARGO_PKG_VERSION");
    let said = format!("NAME | CONNECTED | edge | 127.0.0.1 | 1/1 | {version}");
    ends(&shown, 0, &said);
    let report = parsed(&stage.mcs(&[&show[..], &["-o", "json"]].concat()).await);
    let edge = &report["members"][0];
    assert_eq!(edge["connected"], true, "{report}");
    assert_eq!(edge["tunnelled"], true, "{report}");
    assert!(edge["streams"].as_u64() > Some(0), "{report}");
    assert!(edge["certificateExpires"].is_string(), "{report}");
    let dead = ["--admin-url", "127.0.0.1:1"];
    let partly = stage.mcs(&[&show[..], &dead].concat()).await;
    ends(&partly, 3, "edge | 1/2 | 127.0.0.1:1 is not read");
    let unknown = stage.mcs(&[&["tunnel"], &dead[..]].concat()).await;
    ends(&unknown, 3, "edge | unknown | is not read");
}

/// kubectl does as Karmada's aggregated API server: Basic credentials in the URL of the proxy, TLS
/// to it, and CONNECT to an address that only pods of the member reach.
async fn kubectl_uses_the_authenticated_front(stage: &Stage<'_>, replica: &Process) {
    let url = stage.api_endpoint().await;
    let kubectl = async |proxy: &str, args: &[&str]| {
        let addresses = [url.as_str(), proxy];
        let kubeconfig = stage
            .tunnel
            .kubeconfig(stage.fleet, stage.edge(), addresses);
        let kubeconfig = kubeconfig.await;
        let args = [&["--kubeconfig", kubeconfig.as_str()], args].concat();
        stage.edge().kubectl(args).await
    };
    let proxy = stage.tunnel.proxy("edge", PASSWORD);
    let service = ["get", "service", "kubernetes", "-n", "default"];
    ends(
        &kubectl(&proxy, &service).await,
        0,
        "kubernetes | ClusterIP",
    );
    let create = ["create", "configmap", "seen", "-n", "default"];
    let created = kubectl(&proxy, &[&create[..], &["--from-literal=a=1"]].concat()).await;
    ends(&created, 0, "configmap/seen created");
    // A watch lasts until the object changes, by another way.
    let wait = [
        "wait",
        "--for=jsonpath={.data.a}=2",
        "configmap/seen",
        "-n",
        "default",
    ];
    let wait = [&wait[..], &["--timeout=180s"]].concat();
    let of_one = [("resource", "configmaps"), ("scope", "resource")];
    let before = stage.edge().lasting_requests(&of_one).await;
    let changed = async {
        eventually("a watch of the ConfigMap", SOON, async || {
            let now = stage.edge().lasting_requests(&of_one).await;
            (now > before).then_some(()).ok_or(now)
        })
        .await;
        let patch = ["patch", "configmap", "seen", "-n", "default", "-p"];
        let patch = patch.into_iter().chain([r#"{"data":{"a":"2"}}"#]);
        stage.edge().kubectl(patch).await.ok();
    };
    let (waited, ()) = tokio::join!(kubectl(&proxy, &wait), changed);
    ends(&waited, 0, "configmap/seen condition met");
    let wrong = [
        stage.tunnel.proxy("edge", "incorrect-horse-battery-staple"),
        stage.tunnel.proxy("edge", ""),
        stage.tunnel.proxy("member2", PASSWORD),
        stage
            .tunnel
            .proxy("edge", PASSWORD)
            .replace(&format!("edge:{PASSWORD}@"), ""),
    ];
    for proxy in &wrong {
        let refused = kubectl(proxy, &service).await;
        ends(&refused, 1, "Proxy Authentication Required");
    }
    let metrics = stage.tunnel.metrics().await;
    let refused = "causeway_tunnel_clients_refused_total";
    let refused = metrics.get(refused, &[("reason", "password")]);
    let refused = refused.expect("a count");
    assert!(refused >= wrong.len() as f64, "{refused}");
    let log = replica.log_tail(10_000);
    assert!(!log.contains("horse"), "{log}");
}

async fn within_tls<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    authority: &[u8],
    host: &str,
) -> TlsStream<S> {
    let roots = authorities(authority).expect("authorities");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("TLS");
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).expect("a host");
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.expect("a handshake")
}

/// Forwards a port of a pod of the member: CONNECT with a password, TLS of the API server within
/// TLS of the front, and an upgrade to WebSockets, as `exec` and `port-forward` make it.
async fn upgraded_stream_passes_the_authenticated_front(stage: &Stage<'_>) {
    let edge = stage.edge();
    let pods = match Pods::start_on(edge, stage.fleet, &stage.installation).await {
        Ok(pods) => pods,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    pods.add("echo-0", "echo", &stage.tunnel.admin(), json!({}))
        .await;
    let echo = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = echo.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut socket, _) = echo.accept().await?;
        let (mut input, mut output) = socket.split();
        tokio::io::copy(&mut input, &mut output).await
    });

    let url = stage.api_endpoint().await;
    let kubeconfig = stage
        .tunnel
        .kubeconfig(stage.fleet, edge, [url.as_str(), "https://a"]);
    let kubeconfig = std::fs::read_to_string(kubeconfig.await).expect("a kubeconfig");
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).expect("JSON");
    let token = kubeconfig["users"][0]["user"]["token"]
        .as_str()
        .expect("a token");
    let tunnel = secret(stage.fleet.hub(), "causeway-tunnel")
        .await
        .expect("a certificate");
    let authority = tunnel.data.expect("data")["ca.crt"].0.clone();

    let socket = TcpStream::connect(stage.tunnel.authenticated())
        .await
        .expect("the front");
    let mut front = within_tls(socket, &authority, "127.0.0.1").await;
    let target = url.trim_start_matches("https://");
    let basic = STANDARD.encode(format!("edge:{PASSWORD}"));
    let connect = format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic {basic}\r\n\r\n"
    );
    front.write_all(connect.as_bytes()).await.expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(front.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8(head).expect("text");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let host = target.rsplit_once(':').expect("a port").0;
    let api = within_tls(front, edge.ca_pem().as_bytes(), host).await;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/echo-0/portforward?ports={port}");
    let mut request = format!("wss://{target}{path}")
        .into_client_request()
        .expect("a request");
    for (name, value) in [
        ("authorization", format!("Bearer {token}")),
        ("sec-websocket-protocol", "v4.channel.k8s.io".to_owned()),
    ] {
        request
            .headers_mut()
            .insert(name, value.parse().expect("a value"));
    }
    let (mut messages, _) = client_async(request, api).await.expect("an upgrade");
    messages
        .send(Message::binary([&[0][..], b"echoed"].concat()))
        .await
        .expect("it reads");
    let echoed = async {
        loop {
            let message = messages.next().await.expect("a message").expect("one");
            if message.into_data().ends_with(b"echoed") {
                return;
            }
        }
    };
    timeout(SOON, echoed).await.expect("in time");
}

async fn unreached_front_is_unknown(stage: &Stage<'_>, explain: &[&str]) {
    for (front, said) in [
        (&[][..], "no ready pod | --tunnel-front"),
        (&["--tunnel-front", "http://127.0.0.1:1"], "refused"),
    ] {
        let output = stage.mcs(&[explain, front].concat()).await;
        ends(&output, 3, said);
    }
}

async fn front_is_reached_by_a_forwarded_port(stage: &Stage<'_>, explain: &[&str]) {
    let pods = match Pods::start(stage.fleet, &stage.installation).await {
        Ok(pods) => pods,
        Err(missing) => return eprintln!("skipped: {missing}"),
    };
    let front = stage.tunnel.front();
    let port: u16 = front
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    let ports = json!({"ports": [{"name": "front", "containerPort": port}]});
    pods.add("tunnel-0", "tunnel", &stage.tunnel.admin(), ports)
        .await;
    let said = "every ready endpoint is in every consumer | edge | 2 ready";
    ends(&stage.mcs(explain).await, 0, said);
    ends(&stage.mcs(&["tunnel"]).await, 0, "edge | 127.0.0.1 | 1/1");
}

async fn everything_is_removed(stage: &Stage<'_>) {
    let delete = ["delete", "mcs", "--all", "-A", "--timeout=180s"];
    stage.fleet.hub().kubectl(delete).await.ok();
    let said = "
        member: deployment.apps/causeway-agent deleted
        member: secret/causeway-agent deleted
        member: serviceaccount/causeway deleted
    ";
    ends(&stage.unjoin(&["--dry-run"]).await, 0, said);
    assert!(secret(stage.edge(), "causeway-agent").await.is_some());
    ends(&stage.unjoin(&[]).await, 0, said);
    assert!(secret(stage.edge(), "causeway-agent").await.is_none());
    assert!(credentials(stage.fleet.hub(), "edge").await.is_none());
    // An agent of somebody else is neither replaced nor deleted.
    let create = [
        "create",
        "secret",
        "generic",
        "causeway-agent",
        "-n",
        NAMESPACE,
    ];
    stage.edge().kubectl(create).await.ok();
    ends(
        &stage.join(&[]).await,
        1,
        "secret/causeway-agent of the member is not of kubectl mcs join",
    );
    ends(
        &stage.unjoin(&["--force"]).await,
        0,
        "secret/causeway-agent kept",
    );
    assert!(secret(stage.edge(), "causeway-agent").await.is_some());
}

async fn upgrade_keeps_the_tunnel(stage: &Stage<'_>) {
    let hub = stage.fleet.hub();
    let address = stage.tunnel.address();
    let install = [
        "install",
        "--skip-crds",
        "--wait=false",
        "--force-conflicts",
    ];
    let with = [&install[..], &["--tunnel", &address]].concat();
    let said = "secret/causeway-tunnel-ca unchanged | deployment.apps/causeway-tunnel created";
    ends(&stage.mcs(&with).await, 0, said);
    let cluster = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: late, \
                   annotations: {mcs.causeway.dev/tunnel: 'true'}}, spec: {syncMode: Pull}}";
    hub.apply(cluster).await.ok();
    let refused = "the hub reaches late through causeway-tunnel | --tunnel HOST[:PORT] again";
    ends(&stage.mcs(&install).await, 1, refused);
    // As after `uninstall --keep-services`.
    let delete = [
        "delete",
        "deployment",
        "causeway-controller",
        "-n",
        NAMESPACE,
    ];
    hub.kubectl(delete).await.ok();
    ends(&stage.mcs(&install).await, 1, refused);
    ends(
        &stage.mcs(&with).await,
        0,
        "deployment.apps/causeway-controller created",
    );
    let delete = ["delete", "cluster", "late", "--timeout=180s"];
    hub.kubectl(delete).await.ok();
    ends(&stage.mcs(&install).await, 0, "loses --tunnel-front=");

    let uninstall = ["uninstall", "--cascade", "--yes"];
    let kept = ["uninstall", "--keep-services", "--dry-run"];
    let kept = stage.mcs(&kept).await;
    ends(&kept, 0, "deployment.apps/causeway-tunnel");
    assert!(
        !kept.stdout.contains("secret/causeway-tunnel"),
        "{}",
        kept.stdout
    );
    let said = "deployment.apps/causeway-tunnel deleted | secret/causeway-tunnel deleted | secret/causeway-tunnel-ca deleted";
    ends(&stage.mcs(&uninstall).await, 0, said);
}
