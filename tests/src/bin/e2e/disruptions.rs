//! Disruptions of pods: they are replaced, evicted, and stopped.

use std::time::Duration;

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::eventually;

use crate::Clusters;
use crate::installed::{PROGRAMS, pods, rolled_out, text};
use crate::processes::process;

/// Three probes that fail, and a pod that starts.
const RESTARTED: Duration = Duration::from_secs(180);

pub(crate) struct Disruptions<'a> {
    clusters: &'a Clusters,
}

impl<'a> Disruptions<'a> {
    pub(crate) fn of(clusters: &'a Clusters) -> Self {
        Self { clusters }
    }

    async fn types(&self, command: &str) -> String {
        self.clusters.person.types(command).await
    }

    /// Every pod of both programs is replaced.
    pub(crate) async fn rolling_restart(&self) {
        self.types(&format!(
            "kubectl rollout restart -n {NAMESPACE} deployment"
        ))
        .await;
        rolled_out(self.clusters).await;
        self.clusters
            .did("kubectl rollout restart: every pod was replaced");
    }

    /// Each node of the hub is drained in turn.
    pub(crate) async fn drain_of_each_node(&self) {
        for node in self.nodes().await {
            self.types(&format!(
                "kubectl drain {node} --ignore-daemonsets --timeout=180s"
            ))
            .await;
            rolled_out(self.clusters).await;
            self.types(&format!("kubectl uncordon {node}")).await;
            self.clusters.did(&format!(
                "kubectl drain {node}: the other node runs all pods"
            ));
        }
    }

    async fn nodes(&self) -> Vec<String> {
        let names = "kubectl get nodes -o jsonpath='{.items[*].metadata.name}'";
        let names = self.types(names).await;
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// Checks the disruption budget: with no room for another pod, the first eviction is granted
    /// and the second refused.
    pub(crate) async fn budget_is_respected(&self) {
        self.types("kubectl cordon --selector=kubernetes.io/os=linux")
            .await;
        let pods = pods(self.clusters, "causeway-webhook").await;
        let names: Vec<_> = pods
            .iter()
            .map(|pod| text(&pod["metadata"]["name"]))
            .collect();
        let [first, second] = names.as_slice() else {
            panic!("two pods, not {names:?}");
        };
        self.evict(first).await.ok();
        let refused = self.evict(second).await.refused();
        assert!(refused.contains("disruption budget"), "{refused}");
        self.types("kubectl uncordon --selector=kubernetes.io/os=linux")
            .await;
        rolled_out(self.clusters).await;
        self.clusters
            .did("the disruption budget lets one webhook be evicted, and not the second");
    }

    async fn evict(&self, pod: &str) -> causeway_tests::kubectl::Output {
        let eviction = format!(
            "{{\"apiVersion\": \"policy/v1\", \"kind\": \"Eviction\", \"metadata\": {{\"name\": \"{pod}\", \"namespace\": \"{NAMESPACE}\"}}}}"
        );
        let url = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction");
        let create = format!("kubectl create --raw {url} -f - <<< '{eviction}'");
        self.clusters.person.tries(&create).await
    }

    /// A process that answers no more is ended by the liveness probe, and started again.
    pub(crate) async fn stopped_process_is_restarted(&self) {
        for program in PROGRAMS {
            let pod = &pods(self.clusters, program).await[0];
            let name = text(&pod["metadata"]["name"]);
            let process = process(&text(&pod["metadata"]["uid"]), program);
            self.types(&format!("kill -STOP {process}")).await;
            let what = format!("{name} is started again");
            eventually(&what, RESTARTED, async || {
                let all = pods(self.clusters, program).await;
                let pod = all
                    .iter()
                    .find(|pod| text(&pod["metadata"]["name"]) == name);
                let status = pod.map(|pod| pod["status"]["containerStatuses"][0].clone());
                let again = status
                    .as_ref()
                    .is_some_and(|status| status["restartCount"] == 1 && status["ready"] == true);
                again.then_some(()).ok_or_else(|| format!("{status:?}"))
            })
            .await;
            self.clusters.did(&format!(
                "{program} was stopped; its liveness probe had it started again"
            ));
        }
    }
}
