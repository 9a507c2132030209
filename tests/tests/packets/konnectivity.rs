//! A member behind NAT, through Konnectivity: its agent dials out, and nothing dials in.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_tests::audit::Mark;
use causeway_tests::causeway::MEMBERS_NAMESPACE;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::konnectivity::{Konnectivity, private_url};
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::network::Host;
use causeway_tests::{
    Cluster, Fleet, Installation, SOON, Space, eventually, multi_cluster_service, service,
};

use crate::{answered_by, packets, said_by};

/// Delay until the controller notices a broken connection or the end of an outage, at most.
const NOTICED: Duration = Duration::from_secs(45);
/// API server of a member without an agent (RFC 5737).
const ABSENT: &str = "192.0.2.1:6443";

/// The hub's side: a machine that may dial no API servers but those of the hub and of member2.
pub(crate) struct HubSide<'a> {
    fleet: &'a Fleet,
    installation: &'a Installation,
    pub(crate) host: Host,
}

impl<'a> HubSide<'a> {
    pub(crate) fn new(fleet: &'a Fleet, installation: &'a Installation) -> Self {
        let host = fleet.add_host();
        host.dial_only([fleet.hub().url(), fleet.member("member2").url()]);
        Self {
            fleet,
            installation,
            host,
        }
    }

    /// Requests `/readyz` of that API server; returns the error of the connection.
    pub(crate) async fn dial(&self, cluster: &Cluster) -> Result<(), String> {
        let url = format!("{}/readyz", cluster.url());
        let (reaper, directory) = (self.fleet.reaper(), self.fleet.directory());
        let curl = Command::new(reaper, directory, "curl")
            .args(["-sSk", "--max-time", "3", &url])
            .in_network(self.host.namespace());
        let output = curl.run().await;
        let answered = output.exit.success().then_some(());
        answered.ok_or(output.stderr)
    }

    /// Runs `kubectl mcs join` on this machine.
    pub(crate) async fn join(&self, member: &str, more: &[&str]) -> Output {
        let join = ["join", member].into_iter().chain(more.iter().copied());
        let namespace = self.host.namespace();
        self.installation.kubectl_mcs_in(namespace, join).await
    }

    /// Waits until Ready of a Cluster, as `status|reason|message`, contains all of these.
    pub(crate) async fn reports(&self, cluster: &str, expected: &[&str]) {
        let path = "jsonpath={range .status.conditions[?(@.type==\"Ready\")]}{.status}|{.reason}|{.message}{end}";
        let get = ["get", "cluster", cluster, "-o", path];
        let what = format!("Ready of {cluster} contains {expected:?}");
        eventually(&what, NOTICED, async || {
            let seen = self.fleet.hub().kubectl(get).await.stdout;
            let has_all = expected.iter().all(|part| seen.contains(part));
            has_all.then_some(()).ok_or(seen)
        })
        .await;
    }

    /// Adds a Cluster behind the proxy for a host that no agent is connected for.
    async fn add_absent(&self, proxy: &Konnectivity) {
        let ca = STANDARD.encode(proxy.ca_pem());
        let objects = format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: absent, namespace: {MEMBERS_NAMESPACE}}}, \
             data: {{token: YWJj, caBundle: {ca}, proxyCaBundle: {ca}}}}}\n---\n\
             {{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: absent}}, \
             spec: {{syncMode: Push, apiEndpoint: \"https://{ABSENT}\", proxyURL: \"{}\", \
             secretRef: {{name: absent, namespace: {MEMBERS_NAMESPACE}}}}}}}\n",
            proxy.url()
        );
        self.fleet.hub().apply(&objects).await.ok();
    }
}

/// Asserts that watches of a member ended since then, and resumed without a list of a whole kind. A
/// watch that ended looks at one object, by which it learns whether the store went back. Exports and
/// imports do not count: initial lists of nothing are confirmed by a second one.
pub(crate) async fn watches_resumed_since(member: &Cluster, mark: Mark) {
    let mut listed = member.lists_since(mark).await;
    listed.retain(|uri| !uri.contains("/multicluster.x-k8s.io/"));
    let is_look = |uri: &String| uri.ends_with("limit=1");
    assert!(
        listed.len() >= 3 && listed.iter().all(is_look),
        "{listed:?}"
    );
}

/// A Service of one member for clients in another.
pub(crate) struct Served<'a> {
    pub(crate) name: &'a str,
    pub(crate) provider: &'a Cluster,
    pub(crate) consumer: &'a Cluster,
}

impl Served<'_> {
    pub(crate) async fn create(&self, space: &Space<'_>) {
        service(self.name)
            .port_to("http", 80, 8080)
            .create(space.fleet().hub(), space)
            .await;
        multi_cluster_service(self.name)
            .providers([self.provider.name()])
            .consumers([self.consumer.name()])
            .create(space)
            .await;
    }

    pub(crate) async fn add_pod(&self, space: &Space<'_>) -> RunningPod {
        let pods = space.backends(self.name).create(self.provider);
        pods.await.remove(0)
    }

    /// Waits until a client in the consumer is answered by this pod and by no other.
    pub(crate) async fn is_answered_by(&self, space: &Space<'_>, pod: &RunningPod) {
        let url = format!("http://{}.{}.svc.cluster.local", self.name, space.name());
        let said = said_by(&[(pod, self.provider.name())]);
        answered_by(self.consumer, &url, &said).await;
    }
}

#[tokio::test]
async fn member_behind_nat_is_served_through_konnectivity() {
    if !packets() {
        return;
    }
    let fleet = Fleet::builder().members(2).packets().start().await;
    let installation = Installation::new(&fleet).await;
    let [hidden, open] = ["member1", "member2"].map(|name| fleet.member(name));
    // No kind is empty when it is listed first.
    let space = fleet.space("nat").await;
    service("resident")
        .port("http", 80)
        .create(hidden, &space)
        .await;
    space.backends("resident").create(hidden).await;

    let side = HubSide::new(&fleet, &installation);
    side.dial(open).await.expect("member2 can be dialled");
    let error = side.dial(hidden).await.expect_err("it is behind NAT");
    assert!(error.contains("Failed to connect"), "{error}");
    let controller = installation.controller();
    let _controller = controller.in_network(side.host.namespace()).start_unready();
    let kubeconfig = open.kubeconfig().display().to_string();
    let direct = ["--member-kubeconfig", &kubeconfig];
    side.join("member2", &direct).await.ok();
    let kubeconfig = hidden.kubeconfig().display().to_string();
    let direct = ["--member-kubeconfig", &kubeconfig];
    let error = side.join("member1", &direct).await.refused();
    assert!(error.contains("refused"), "{error}");

    let proxy = Konnectivity::start(&fleet, &side.host).await;
    let ca = fleet.directory().join("proxy-ca.pem");
    std::fs::write(&ca, proxy.ca_pem()).expect("certificates");
    // The hub's side does not even resolve the address.
    let url = private_url(hidden);
    let kubeconfig =
        hidden.kubeconfig_through(fleet.directory(), &url, &proxy.url(), proxy.ca_pem());
    let [kubeconfig, ca] = [kubeconfig, ca].map(|path| path.display().to_string());
    let through = ["--member-kubeconfig", &kubeconfig, "--proxy-ca", &ca];
    let error = side.join("member1", &through).await.refused();
    let named = format!("{url} through the proxy {}: ", proxy.url());
    assert!(error.contains(&named), "{error}");

    let _agent = proxy.agent(&fleet, hidden);
    let joined = eventually("member1 is joined", SOON, async || {
        let joined = side.join("member1", &through).await;
        match joined.exit.success() {
            true => Ok(joined.stdout),
            false => Err(joined.stderr),
        }
    })
    .await;
    assert!(joined.contains("member1 is synced"), "{joined}");
    // The proxy answers for a member whose agent is not connected.
    side.add_absent(&proxy).await;
    let answered = format!(
        "its proxy {} answered 500 Internal Server Error to CONNECT {ABSENT}: ",
        proxy.url()
    );
    let remedy = "no agent for that host is connected";
    side.reports("absent", &["False|Unreachable|", &answered, remedy])
        .await;

    let served = [("out", hidden, open), ("in", open, hidden)];
    let [out, into] = served.map(|(name, provider, consumer)| Served {
        name,
        provider,
        consumer,
    });
    for served in [&out, &into] {
        served.create(&space).await;
    }
    let pods = [out.add_pod(&space).await, into.add_pod(&space).await];
    out.is_answered_by(&space, &pods[0]).await;
    into.is_answered_by(&space, &pods[1]).await;

    // An outage ends all watches. They resume with the changes of that time, and nothing is listed.
    let mark = hidden.mark().await;
    proxy.stop().await;
    for pod in pods {
        pod.delete().await;
    }
    let pods = [out.add_pod(&space).await, into.add_pod(&space).await];
    proxy.start_again().await;
    out.is_answered_by(&space, &pods[0]).await;
    into.is_answered_by(&space, &pods[1]).await;
    side.reports("member1", &["True|Synced|"]).await;
    watches_resumed_since(hidden, mark).await;
}
