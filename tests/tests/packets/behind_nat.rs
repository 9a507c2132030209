//! A member behind NAT beside one that the hub may dial, and services in both directions.

use std::time::Duration;

use causeway_tests::audit::Mark;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::kubectl::{Command, Output};
use causeway_tests::network::Host;
use causeway_tests::{
    Cluster, Fleet, Installation, Space, eventually, multi_cluster_service, service,
};

use crate::{answered_by, said_by};

/// Delay until the controller notices a broken connection or the end of an outage, at most.
const NOTICED: Duration = Duration::from_secs(45);
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
}

/// Asserts that watches of a member ended since then, and resumed without a list of a whole kind. A
/// watch that ended looks at one object, by which it learns whether the store went back. Exports
/// and imports do not count: initial lists of nothing are confirmed by a second one.
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
struct Served<'a> {
    name: &'a str,
    provider: &'a Cluster,
    consumer: &'a Cluster,
}

impl Served<'_> {
    async fn create(&self, space: &Space<'_>) {
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

    async fn add_pod(&self, space: &Space<'_>) -> RunningPod {
        let pods = space.backends(self.name).create(self.provider);
        pods.await.remove(0)
    }

    /// Waits until a client in the consumer is answered by this pod and by no other.
    async fn is_answered_by(&self, space: &Space<'_>, pod: &RunningPod) {
        let url = format!("http://{}.{}.svc.cluster.local", self.name, space.name());
        let said = said_by(&[(pod, self.provider.name())]);
        answered_by(self.consumer, &url, &said).await;
    }
}

/// Services in both directions, each with a pod that answers.
pub(crate) struct Services<'a> {
    space: &'a Space<'a>,
    served: [Served<'a>; 2],
    pods: Vec<RunningPod>,
}

impl<'a> Services<'a> {
    pub(crate) async fn create(
        space: &'a Space<'a>,
        hidden: &'a Cluster,
        open: &'a Cluster,
    ) -> Self {
        let served = [("out", hidden, open), ("in", open, hidden)];
        let served = served.map(|(name, provider, consumer)| Served {
            name,
            provider,
            consumer,
        });
        for one in &served {
            one.create(space).await;
        }
        let pods = Vec::new();
        let mut services = Self {
            space,
            served,
            pods,
        };
        services.change().await;
        services
    }

    /// Replaces both pods.
    pub(crate) async fn change(&mut self) {
        for pod in self.pods.drain(..) {
            pod.delete().await;
        }
        for served in &self.served {
            self.pods.push(served.add_pod(self.space).await);
        }
    }

    /// Waits until clients are answered by the present pods.
    pub(crate) async fn are_answered(&self) {
        for (served, pod) in self.served.iter().zip(&self.pods) {
            served.is_answered_by(self.space, pod).await;
        }
    }
}
