//! Pods of both clusters, and what they reach under which name.

use causeway_tests::kubectl::Output;
use causeway_tests::{Cluster, SOON, eventually};

use crate::Clusters;

/// The namespace of all of it.
pub(crate) const SHOP: &str = "shop";

/// A name, the cluster whose pods ask for it, and the expected answer.
pub(crate) struct Way {
    pub(crate) from: &'static str,
    pub(crate) url: &'static str,
    pub(crate) answer: &'static str,
}

const WAYS: [Way; 3] = [
    Way {
        from: "member1",
        url: "http://foo.shop",
        answer: "foo of hub",
    },
    Way {
        from: "hub",
        url: "http://bar.shop.svc.clusterset.local",
        answer: "bar of member1",
    },
    Way {
        from: "member1",
        url: "http://bar.shop.svc.clusterset.local",
        answer: "bar of member1",
    },
];

/// `foo` runs on the hub and is exposed by a MultiClusterService; `bar` runs in the member and is
/// exported.
pub(crate) struct Workloads;

impl Workloads {
    pub(crate) async fn start(clusters: &Clusters) -> Self {
        let (hub, member) = (clusters.hub(), clusters.member());
        for cluster in [hub, member] {
            let namespace = ["create", "namespace", SHOP];
            cluster.kubectl(namespace).await.ok();
            deploy(cluster, "client", &["pause"]).await;
        }
        deploy(hub, "foo", &["serve", "foo of hub", ":8080"]).await;
        deploy(member, "bar", &["serve", "bar of member1", ":8080"]).await;
        for (cluster, name) in [(hub, "foo"), (member, "bar")] {
            let expose = ["expose", "deployment", name, "-n", SHOP];
            let ports = ["--port=80", "--target-port=8080"];
            cluster.kubectl(expose.into_iter().chain(ports)).await.ok();
        }
        let exposed = "apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: foo, namespace: shop}
spec:
  types: [CrossCluster]
  providerClusters: [{name: hub}]
  consumerClusters: [{name: member1}]
";
        hub.apply(exposed).await.ok();
        let exported = "apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: bar, namespace: shop}
";
        member.apply(exported).await.ok();
        Self
    }

    /// Each name is answered, asked for in a pod of the other cluster.
    pub(crate) async fn reach_each_other(&self, clusters: &Clusters) {
        for way in &WAYS {
            way.is_answered(clusters).await;
        }
    }

    /// `kubectl mcs verify` finds that everything works, from each node, and leaves no pod.
    pub(crate) async fn verify(&self, clusters: &Clusters) {
        let contexts = "KUBECONFIG=$HOME/.kube/config:$HOME/.kube/member1";
        let command = "kubectl mcs verify -n shop --nodes --timeout 120s";
        let shown = clusters
            .person
            .types(&format!("{contexts} {command}"))
            .await;
        clusters.did(&format!("{command}\n{}", shown.trim_end()));
        for cluster in [clusters.hub(), clusters.member()] {
            let pods = [
                "get",
                "pods",
                "-A",
                "-l",
                "mcs.causeway.dev/verify",
                "-o",
                "name",
            ];
            assert_eq!(
                cluster.kubectl(pods).await.ok(),
                "",
                "in {}",
                cluster.name()
            );
        }
    }
}

impl Way {
    /// Waits until a pod of its cluster gets the answer.
    pub(crate) async fn is_answered(&self, clusters: &Clusters) {
        let Self { from, url, answer } = self;
        let cluster = match *from {
            "hub" => clusters.hub(),
            member => clusters.fleet.member(member),
        };
        let what = format!("a pod of {from} reaches {url}");
        eventually(&what, SOON, async || {
            let asked = ask(cluster, url).await;
            let seen = format!("{}{}", asked.stdout, asked.stderr);
            (asked.stdout.trim() == *answer).then_some(()).ok_or(seen)
        })
        .await;
        clusters.did(&format!("a pod of {from} gets {url}: {answer}"));
    }
}

/// Requests a URL in the client pod of a cluster.
pub(crate) async fn ask(cluster: &Cluster, url: &str) -> Output {
    let exec = ["exec", "-n", SHOP, "deploy/client", "--"];
    let get = ["/pod", "get", url];
    cluster.kubectl(exec.into_iter().chain(get)).await
}

/// Pods of the testbed's own image, two where there are two nodes, ready.
pub(crate) async fn deploy(cluster: &Cluster, name: &str, args: &[&str]) {
    let replicas = if name == "foo" { 2 } else { 1 };
    let deployment = serde_json::json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": SHOP },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "pod",
                        "image": "registry.example/testbed/pod:1",
                        "args": args,
                    }],
                },
            },
        },
    });
    cluster.apply(&deployment.to_string()).await.ok();
    let status = ["rollout", "status", "--timeout=100s", "-n", SHOP];
    let deployment = format!("deployment/{name}");
    cluster
        .kubectl(status.into_iter().chain([deployment.as_str()]))
        .await
        .ok();
}
