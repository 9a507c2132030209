//! The story: refused, converted, accepted, reached, cut off, restored, scaled, failed over,
//! deleted, exported, reached across networks.

mod clusterset;
mod near;
mod networks;

use std::time::Duration;

use anyhow::{Context as _, bail};
use causeway_tests::kubelet::Kubelet;
use causeway_tests::{Cluster, Fleet, Running};
use parking_lot::Mutex;

use crate::shell::{Shell, show_command};
use crate::stage::{self, CONSUMER, PROVIDER};

pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Maximum time until a silent API server counts as unreachable.
const UNREACHABLE: Duration = Duration::from_secs(150);

const SLICES: &str = "kubectl --context clustera get endpointslices -l kubernetes.io/service-name=foo \
    -o custom-columns=NAME:.metadata.name,ADDRESSES:.endpoints[*].addresses[*],PORTS:.ports[*].port --no-headers";

/// Tells the story, and knows how far it is.
#[derive(Default)]
pub(crate) struct Story {
    step: Mutex<(u32, String)>,
}

impl Story {
    /// The number and title of the current step.
    pub(crate) fn step(&self) -> String {
        let step = self.step.lock();
        format!("{}: {}", step.0, step.1)
    }

    pub(crate) fn begin(&self, title: &str) {
        let mut step = self.step.lock();
        *step = (step.0 + 1, title.to_owned());
        println!("\n=== {}. {title}", step.0);
    }

    /// The whole story; with `keep` everything is left running at its end, until Ctrl-C.
    pub(crate) async fn tell(&self, keep: bool) -> anyhow::Result<()> {
        self.begin("A hub and two clusters start: etcd, API servers, controller managers");
        let fleet = stage::clusters().await;
        let shell = Shell::new(&fleet)?;
        let kubelets = [CONSUMER, PROVIDER].map(|name| Kubelet::new(fleet.member(name)).run());
        let [first, second] = kubelets;
        tokio::select! {
            reported = self.scenes(&fleet, &shell, keep) => reported,
            () = async { tokio::join!(first, second); } => bail!("the clusters' pods are no longer served"),
        }
    }

    async fn scenes(&self, fleet: &Fleet, shell: &Shell, keep: bool) -> anyhow::Result<()> {
        self.begin("causeway is installed on the hub with its own manifests");
        let causeway = stage::install(fleet, shell).await?;
        self.begin("The clusters join the hub");
        stage::join(shell).await?;
        self.begin("A workload in clusterb, and its Service on the hub");
        shell
            .run("kubectl --context clusterb apply -f tests/demo/deployment.yaml")
            .await?;
        shell
            .run("kubectl --context clusterb rollout status deployment/foo --timeout=60s")
            .await?;
        shell
            .run("kubectl apply -f tests/demo/service.yaml")
            .await?;
        self.admission(shell).await?;
        self.propagation(shell).await?;
        let consumer = fleet.member(CONSUMER);
        self.begin("The service is reached from clustera");
        reach(shell, consumer).await?;
        self.outage(shell, fleet).await?;
        self.begin("The workload in clusterb is scaled, and clustera knows");
        scale(shell).await?;
        reach(shell, consumer).await?;
        near::play(self, shell, consumer, &causeway.controller).await?;
        self.removal(shell, consumer).await?;
        clusterset::play(self, shell, consumer).await?;
        networks::play(self, shell, fleet).await?;
        if keep {
            self.keep(shell, fleet, &causeway.controller).await?;
        }
        self.begin("Both processes end as they should");
        for (name, running) in [
            ("controller", causeway.controller),
            ("webhook", causeway.webhook),
        ] {
            show_command(&format!(
                "kill -TERM {}   # causeway-{name}",
                running.process().pid()
            ));
            running.process().terminate();
            let exit = running.process().exited(SOON).await;
            println!("causeway-{name} ended: {exit:?}");
            anyhow::ensure!(exit.success(), "causeway-{name} ended with {exit:?}");
        }
        Ok(())
    }

    async fn admission(&self, shell: &Shell) -> anyhow::Result<()> {
        self.begin("A wrong mcs.yaml is refused: cluster names are lower case");
        shell.run("cat tests/demo/mcs-as-printed.yaml").await?;
        let apply = |file: &str| format!("kubectl apply -f tests/demo/{file}");
        let words = [
            "spec.providerClusters[0].name",
            "clusterB",
            "spec.consumerClusters[0].name",
            "clusterA",
        ];
        shell.refused(&apply("mcs-as-printed.yaml"), &words).await?;
        self.begin("Another is refused: the Service has no such port");
        let words = ["spec.ports[0].name", "\"htp\"", "http 80/TCP"];
        shell.refused(&apply("mcs-wrong-port.yaml"), &words).await?;
        self.begin("One with deprecated fields is converted");
        let said = shell.run(&apply("mcs-deprecated.yaml")).await?;
        for field in ["serviceProvisionClusters", "serviceConsumptionClusters"] {
            if !said.contains(field) {
                bail!("no warning speaks of {field}");
            }
        }
        let spec = shell
            .run("kubectl get mcs foo -o jsonpath='{.spec}'")
            .await?;
        let converted =
            r#""consumerClusters":[{"name":"clustera"}],"providerClusters":[{"name":"clusterb"}]"#;
        if !spec.contains(converted) {
            bail!("the stored object is not converted");
        }
        self.begin("The right one is accepted");
        shell.run(&apply("mcs.yaml")).await?;
        Ok(())
    }

    async fn propagation(&self, shell: &Shell) -> anyhow::Result<()> {
        self.begin("Service and EndpointSlices are where they belong");
        shell.run("kubectl mcs status foo --wait").await?;
        let described = shell.run("kubectl describe mcs foo").await?;
        if !described.contains("EndpointSliceAppliedSuccess") {
            bail!("the conditions do not say that the EndpointSlices are applied");
        }
        shell
            .run("kubectl --context clustera get service foo")
            .await?;
        shell.run(SLICES).await?;
        println!(
            "\nThe slice with addresses is a copy of clusterb's. Kubernetes made the other one, which is\n\
             empty: the Service has no pods in clustera."
        );
        Ok(())
    }

    async fn outage(&self, shell: &Shell, fleet: &Fleet) -> anyhow::Result<()> {
        let (consumer, provider) = (fleet.member(CONSUMER), fleet.member(PROVIDER));
        self.begin("clusterb is cut off: its API server answers nothing any more");
        show_command(&format!(
            "kill -STOP {}   # its kube-apiserver",
            provider.api_server().pid()
        ));
        provider.pause();
        let lost = |clusters: &str| {
            clusters
                .lines()
                .any(|line| line.starts_with(PROVIDER) && !line.contains("True"))
        };
        shell
            .until("kubectl get clusters", UNREACHABLE, |answer| {
                lost(&answer.text)
            })
            .await?;
        println!("\nWhat it provides is unknown now, not gone: the traffic goes on.");
        reach(shell, consumer).await?;
        self.begin("clusterb is back");
        show_command(&format!("kill -CONT {}", provider.api_server().pid()));
        provider.resume();
        shell
            .until("kubectl get clusters", UNREACHABLE, |answer| {
                !lost(&answer.text)
            })
            .await?;
        shell.run("kubectl mcs status foo --wait").await?;
        Ok(())
    }

    async fn removal(&self, shell: &Shell, consumer: &Cluster) -> anyhow::Result<()> {
        self.begin("The MultiClusterService is deleted, and everything that was made for it");
        shell.run("kubectl delete mcs foo").await?;
        for member in [CONSUMER, PROVIDER] {
            let get = format!(
                "kubectl --context {member} get services,endpointslices -l app.kubernetes.io/managed-by=causeway"
            );
            shell
                .until(&get, SOON, |answer| {
                    answer.text.contains("No resources found")
                })
                .await?;
        }
        if let Some(curl) = curl(consumer) {
            shell
                .until(&curl, SOON, |answer| {
                    answer.text.contains("Could not resolve host")
                })
                .await?;
        }
        Ok(())
    }

    async fn keep(&self, shell: &Shell, fleet: &Fleet, controller: &Running) -> anyhow::Result<()> {
        self.begin("It is left running, for you");
        shell.run("kubectl apply -f tests/demo/mcs.yaml").await?;
        shell.run("kubectl mcs status foo --wait").await?;
        println!(
            "\nTry it from another terminal; the contexts are hub, {CONSUMER} and {PROVIDER}:\n"
        );
        for line in shell.environment() {
            println!("  {line}");
        }
        for line in looks(controller) {
            println!("  {line}");
        }
        println!("  kubectl --context {PROVIDER} scale deployment/foo --replicas=5");
        if let Some(curl) = curl(fleet.member(CONSUMER)) {
            println!("  {curl}");
        }
        println!("\nThe kubeconfigs of the administrators, one for each cluster:\n");
        for cluster in fleet.clusters() {
            println!("  {:<9} {}", cluster.name(), cluster.kubeconfig().display());
        }
        println!(
            "\nThe logs are beside them, and in {}. Ctrl-C ends all of it.",
            fleet.directory().join("causeway").display()
        );
        tokio::signal::ctrl_c().await.context("waiting for Ctrl-C")
    }
}

/// Returns the commands that show the state, each with its purpose.
fn looks(controller: &Running) -> [String; 5] {
    let admin = format!("--admin-url http://{}", controller.admin());
    [
        "kubectl mcs status -A -w                              # what is so, and what changes"
            .to_owned(),
        "kubectl mcs ui                                        # the same in the browser"
            .to_owned(),
        "kubectl mcs explain foo                               # where each endpoint is".to_owned(),
        format!("kubectl mcs top -A {admin}   # what is busy"),
        format!("kubectl mcs bug-report {admin}   # all of it, for somebody else to look at"),
    ]
}

/// The command that asks the service from the consumer, where there are packets.
pub(crate) fn curl(consumer: &Cluster) -> Option<String> {
    let namespace = consumer.network_namespace()?;
    Some(format!(
        "ip netns exec {namespace} curl -sS --max-time 3 http://foo:80"
    ))
}

/// Asks the service from the consumer: the answer must come from a pod of the provider. Without
/// packets the consumer's slices must be there.
async fn reach(shell: &Shell, consumer: &Cluster) -> anyhow::Result<()> {
    let Some(curl) = curl(consumer) else {
        let slices = shell.run(SLICES).await?;
        if !slices.contains("10.") {
            bail!("{CONSUMER} has no addresses of the service");
        }
        return Ok(());
    };
    shell
        .until(&curl, SOON, |answer| {
            answer.text.contains(&format!("in {PROVIDER}"))
        })
        .await?;
    Ok(())
}

async fn scale(shell: &Shell) -> anyhow::Result<()> {
    shell
        .run("kubectl --context clusterb scale deployment/foo --replicas=4")
        .await?;
    let addresses = |slices: &str| slices.matches("10.").count();
    shell
        .until(SLICES, SOON, |answer| addresses(&answer.text) == 4)
        .await?;
    Ok(())
}
