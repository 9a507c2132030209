//! `kubectl mcs dns` against a real API server, and a real CoreDNS with the Corefile that comes of
//! it.

use causeway_tests::dns::{Answer, Nameserver, NameserverPorts};
use causeway_tests::kubectl::Output;
use causeway_tests::{
    Cluster, Fleet, Installation, SOON, eventually, network, service, service_export,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::{ends, join};

/// CoreDNS's objects in every distribution, without pods: none run here.
const COREDNS: &str = "apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: 'system:coredns'}
rules:
- {apiGroups: [''], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: 'system:coredns'}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:coredns'}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  replicas: 1
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      containers:
      - name: coredns
        image: registry.k8s.io/coredns/coredns:v1.12.1
        args: [-conf, /etc/coredns/Corefile]
        volumeMounts: [{name: config-volume, mountPath: /etc/coredns, readOnly: true}]
      volumes:
      - name: config-volume
        configMap: {name: coredns, items: [{key: Corefile, path: Corefile}]}
";

/// A member's CoreDNS, and a person who sets it up.
struct Site<'a> {
    installation: &'a Installation,
    member: &'a Cluster,
}

impl Site<'_> {
    /// `kubectl mcs dns member1` with the kubeconfig of a cluster.
    async fn dns_with(&self, cluster: &Cluster, more: &[&str]) -> Output {
        let kubeconfig = cluster.kubeconfig().display().to_string();
        let args = ["dns", "member1", "--member-kubeconfig", kubeconfig.as_str()];
        let args = args.into_iter().chain(more.iter().copied());
        self.installation.kubectl_mcs(args).await
    }

    async fn dns(&self, more: &[&str]) -> Output {
        self.dns_with(self.member, more).await
    }

    async fn kubectl<const N: usize>(&self, args: [&str; N]) -> String {
        let all = ["-n", "kube-system"].into_iter().chain(args);
        self.member.kubectl(all).await.ok()
    }

    async fn corefile(&self) -> String {
        let path = "jsonpath={.data.Corefile}";
        self.kubectl(["get", "configmap", "coredns", "-o", path])
            .await
    }

    async fn set_corefile(&self, text: &str) {
        let patch = json!({ "data": { "Corefile": text } }).to_string();
        let args = [
            "patch",
            "configmap",
            "coredns",
            "--type=merge",
            "-p",
            &patch,
        ];
        self.kubectl(args).await;
    }

    /// Puts a CoreDNS there whose account is the one that distributions make.
    async fn bring_coredns(
        &self,
        NameserverPorts { names: port, ready }: NameserverPorts,
    ) -> String {
        self.member.apply(COREDNS).await.ok();
        let token = self.member.token("kube-system", "coredns").await;
        let kubeconfig = self
            .member
            .kubeconfig_with_token("account.kubeconfig", &token);
        let corefile = format!(
            "# ours\n.:{port} {{\n    bind 127.0.0.1\n    errors\n    ready 127.0.0.1:{ready}\n    kubernetes cluster.local {{\n        \
             kubeconfig {} {}\n        ttl 1\n    }}\n}}",
            kubeconfig.display(),
            self.member.name()
        );
        let file = kubeconfig.with_file_name("Corefile-before");
        std::fs::write(&file, &corefile).expect("a Corefile");
        let from = format!("--from-file=Corefile={}", file.display());
        self.kubectl(["create", "configmap", "coredns", &from])
            .await;
        corefile
    }

    /// Does what kubelets do: the pods of CoreDNS run, those that do not yet since then, until its
    /// Deployment is available.
    async fn run_pods(&self, since: &str) {
        let status = json!({
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": since }],
            "containerStatuses": [{
                "name": "coredns", "image": "coredns", "imageID": "coredns", "ready": true, "restartCount": 0,
                "state": { "running": { "startedAt": since } },
            }],
        });
        let status = json!({ "status": status }).to_string();
        eventually("CoreDNS is available", SOON, async || {
            let pending = ["get", "pods", "-l", "k8s-app=kube-dns", "--field-selector=status.phase=Pending", "-o", "name"];
            for pod in self.kubectl(pending).await.lines() {
                let patch = ["patch", pod, "--subresource=status", "--type=merge", "-p", &status];
                self.member.kubectl(["-n", "kube-system"].into_iter().chain(patch)).await;
            }
            let fields = "jsonpath={.metadata.generation} {.status.observedGeneration} {.status.replicas} {.status.updatedReplicas} \
                          {.status.availableReplicas}";
            let shown = self.kubectl(["get", "deployment", "coredns", "-o", fields]).await;
            match shown.split_whitespace().collect::<Vec<_>>().as_slice() {
                [generation, observed, "1", "1", "1"] if generation == observed => Ok(()),
                _ => Err(shown),
            }
        })
        .await;
    }
}

async fn answers(
    nameserver: &Nameserver,
    cluster: &Cluster,
    name: &str,
    holds: impl Fn(&Answer) -> bool,
) {
    eventually(&format!("what is answered for {name}"), SOON, async || {
        let answer = nameserver.dig(cluster, name, "A").await;
        match holds(&answer) {
            true => Ok(()),
            false => Err(format!("{answer:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn dns_fix_makes_coredns_answer_for_the_clusterset() {
    let fleet = Fleet::builder().members(1).start().await;
    let installation = Installation::new(&fleet).await;
    let _controller = installation.controller().start().await;
    let member = fleet.member("member1");
    let site = Site {
        installation: &installation,
        member,
    };
    ends(
        &site.dns(&[]).await,
        1,
        "member1 is not joined | kubectl mcs status",
    );
    ends(&join(&installation, "member1", member, &[]).await, 0, "");
    let other = "is of another cluster than member1";
    ends(
        &site.dns_with(fleet.hub(), &["--fix", "--yes"]).await,
        1,
        other,
    );
    let none = "no Deployment in kube-system is CoreDNS";
    ends(&site.dns(&[]).await, 1, none);
    ends(&site.dns(&["--fix", "--yes"]).await, 1, none);

    let ports = NameserverPorts::fresh();
    let before = site.bring_coredns(ports).await;
    site.run_pods("2020-01-01T00:00:00Z").await;
    ends(
        &site.dns(&[]).await,
        1,
        "1 of 1 replicas are available | no server block serves clusterset.local | CoreDNS 1.12.1 | \
         account kube-system/coredns may not list and watch serviceimports | -> kubectl mcs dns member1 --member-kubeconfig FILE --fix",
    );
    // A word that the image does not know would keep CoreDNS from starting.
    let old = "nothing was changed: image: CoreDNS 1.12.1 | bring CoreDNS 1.12.2 or later";
    ends(&site.dns(&["--fix", "--yes"]).await, 1, old);
    let image = "coredns=registry.k8s.io/coredns/coredns:v1.14.7";
    site.kubectl(["set", "image", "deployment/coredns", image])
        .await;
    site.run_pods("2020-01-01T00:00:00Z").await;
    ends(
        &site.dns(&["--fix"]).await,
        2,
        "standard input is not a terminal",
    );
    let shown = format!(
        "+clusterset.local:{} {{ | configmap/coredns configured (server dry run)",
        ports.names
    );
    ends(&site.dns(&["--fix", "--dry-run"]).await, 0, &shown);
    assert_eq!(site.corefile().await, before);

    // A Corefile with imports is the user's to change. Its CoreDNS gets the rights all the same.
    let imports = format!("{before}\nimport custom/*.server\n");
    site.set_corefile(&imports).await;
    let by_hand = "# To be added by hand to the end of key Corefile of ConfigMap kube-system/coredns | clusterset.local:53 { | \
                   clusterrolebinding.rbac.authorization.k8s.io/coredns-serviceimports created | the Corefile was not changed | \
                   import of custom/*.server | kubectl -n kube-system edit configmap coredns";
    ends(&site.dns(&["--fix", "--yes"]).await, 1, by_hand);
    assert_eq!(site.corefile().await, imports);
    site.set_corefile(&before).await;

    let fixed = "configmap/coredns configured | serves clusterset.local (kubernetes with option multicluster) | a pod runs since 2020-01-01T00:00:00Z | \
                 kubectl -n kube-system rollout restart deployment coredns";
    ends(&site.dns(&["--fix", "--yes"]).await, 1, fixed);
    site.kubectl(["rollout", "restart", "deployment", "coredns"])
        .await;
    site.run_pods(&format!("{:.0}", Timestamp::now())).await;
    let after = site.corefile().await;
    assert!(after.starts_with(&before), "{after}");
    ends(&site.dns(&["--fix", "--yes"]).await, 0, "nothing to set up");
    assert_eq!(site.corefile().await, after, "once is enough");
    let report = crate::json(&site.dns(&["-o", "json"]).await);
    assert_eq!(report["healthy"], true, "{report:#}");

    if let Err(missing) = network::dig() {
        eprintln!("skipped, no names: {missing}");
        return;
    }
    let space = fleet.space("named").await;
    service("foo").port("http", 80).create(member, &space).await;
    service_export("foo").create(member, &space).await;
    let name = format!("foo.{}.svc.clusterset.local", space.name());
    let unknown = format!("bar.{}.svc.cluster.local", space.name());
    let is_unknown = |answer: &Answer| answer.status == "NXDOMAIN";
    let nameserver = Nameserver::with(member, &after, ports).await;
    let address = eventually("the import has an address", SOON, async || {
        let path = "jsonpath={.spec.ips[0]}";
        let get = [
            "get",
            "serviceimport",
            "foo",
            "-n",
            space.name(),
            "-o",
            path,
        ];
        let output = member.kubectl(get).await;
        match output.stdout.trim() {
            "" => Err(format!("{output:?}")),
            found => Ok(found.to_owned()),
        }
    })
    .await;
    let resolves = |answer: &Answer| answer.records == [address.as_str()];
    answers(&nameserver, member, &name, resolves).await;
    answers(&nameserver, member, &unknown, is_unknown).await;

    // Without its rights the zone is not served, and the cluster's own names are as before.
    let binding = "coredns-serviceimports";
    site.kubectl(["delete", "clusterrolebinding", binding])
        .await;
    eventually("the right is gone", SOON, async || {
        let output = site.dns(&[]).await;
        let missing = "may not list and watch serviceimports";
        match output.stdout.contains(missing) {
            true => Ok(()),
            false => Err(format!("{output:?}")),
        }
    })
    .await;
    let again = NameserverPorts::fresh();
    let corefile = after.replace(&ports.names.to_string(), &again.names.to_string());
    let corefile = corefile.replace(&ports.ready.to_string(), &again.ready.to_string());
    let nameserver = Nameserver::with(member, &corefile, again).await;
    let fails = |answer: &Answer| answer.status == "SERVFAIL";
    answers(&nameserver, member, &name, fails).await;
    answers(&nameserver, member, &unknown, is_unknown).await;
}
