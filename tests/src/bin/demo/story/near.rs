//! The act of the near pods: clustera has pods of its own, loses them while the controller is
//! stopped, and gets them back.

use std::time::Duration;

use causeway_tests::{Cluster, Running};

use super::{SOON, Story, curl};
use crate::shell::{Shell, show_command};
use crate::stage::{CONSUMER, PROVIDER};

/// Command that shows the role of clusterb's endpoints in clustera.
const COPY: &str = "kubectl --context clustera get endpointslices \
    -l kubernetes.io/service-name=foo,multicluster.kubernetes.io/source-cluster=clusterb \
    -o custom-columns=NAME:.metadata.name,READY:.endpoints[*].conditions.ready,\
SERVING:.endpoints[*].conditions.serving,TERMINATING:.endpoints[*].conditions.terminating --no-headers";
/// A farther tier is given up only after half a minute.
const GIVEN_UP: Duration = Duration::from_secs(120);

/// Plays the act: clusterb provides the service to clustera when it begins and when it ends.
pub(crate) async fn play(
    story: &Story,
    shell: &Shell,
    consumer: &Cluster,
    controller: &Running,
) -> anyhow::Result<()> {
    story.begin("clustera has pods of its own now, and is to use these first");
    shell
        .run("kubectl --context clustera apply -f tests/demo/deployment.yaml")
        .await?;
    shell
        .run("kubectl apply -f tests/demo/mcs-near.yaml")
        .await?;
    let is_standby = |text: &str| {
        let ready = text.split_whitespace().nth(1);
        ready.is_some_and(|ready| ready.starts_with("false"))
    };
    shell
        .until(COPY, GIVEN_UP, |answer| is_standby(&answer.text))
        .await?;
    println!(
        "\nNot ready, serving, terminating: kube-proxy uses such endpoints where no other is ready."
    );
    shell
        .until("kubectl mcs status foo", SOON, |answer| {
            answer.text.contains("2 of 2 ready   any (clusterb)")
        })
        .await?;
    from(shell, consumer, CONSUMER).await?;
    story.begin("The controller is stopped, and clustera loses its pods");
    show_command(&format!(
        "kill -STOP {}   # causeway-controller",
        controller.process().pid()
    ));
    controller.process().pause();
    shell
        .run("kubectl --context clustera scale deployment/foo --replicas=0")
        .await?;
    println!("\nNobody writes anything: the node of clustera fails over by itself.");
    from(shell, consumer, PROVIDER).await?;
    show_command(&format!("kill -CONT {}", controller.process().pid()));
    controller.process().resume();
    shell
        .until(COPY, SOON, |answer| !is_standby(&answer.text))
        .await?;
    story.begin("The pods of clustera are back, and half a minute later they serve alone");
    shell
        .run("kubectl --context clustera scale deployment/foo --replicas=2")
        .await?;
    shell
        .until(COPY, GIVEN_UP, |answer| is_standby(&answer.text))
        .await?;
    from(shell, consumer, CONSUMER).await?;
    shell
        .until(
            "kubectl get events --field-selector=involvedObject.kind=MultiClusterService",
            SOON,
            |answer| answer.text.contains("Promoted") && answer.text.contains("Demoted"),
        )
        .await?;
    shell
        .run("kubectl --context clustera delete -f tests/demo/deployment.yaml")
        .await?;
    shell
        .run("kubectl annotate mcs foo mcs.causeway.dev/prefer-")
        .await?;
    Ok(())
}

/// Asks the service from clustera until a pod of that cluster answers, where packets are sent.
async fn from(shell: &Shell, consumer: &Cluster, cluster: &str) -> anyhow::Result<()> {
    if let Some(curl) = curl(consumer) {
        let of_cluster = format!("in {cluster}");
        shell
            .until(&curl, SOON, |answer| answer.text.contains(&of_cluster))
            .await?;
    }
    Ok(())
}
