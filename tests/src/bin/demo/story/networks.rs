//! The act of the networks: the clusters lose the routes to each other's pods, and clustera reaches
//! the service by node ports of clusterb.

use causeway_tests::Fleet;

use super::{SLICES, SOON, Story, curl, reach};
use crate::shell::Shell;
use crate::stage::{CONSUMER, PROVIDER};

/// Plays the act: clusterb has pods, and nothing is exposed when it begins. The clusters remain of
/// two networks.
pub(crate) async fn play(story: &Story, shell: &Shell, fleet: &Fleet) -> anyhow::Result<()> {
    story.begin("Pods of clustera and clusterb no longer reach each other: two networks");
    let (consumer, provider) = (fleet.member(CONSUMER), fleet.member(PROVIDER));
    let names = [consumer, provider].map(|cluster| cluster.network_namespace());
    let ([Some(client), Some(server)], Some(curl)) = (names, curl(consumer)) else {
        println!("\nSkipped, because no packets are sent here: docs/networks.md describes it.");
        return Ok(());
    };
    shell.run("kubectl apply -f tests/demo/mcs.yaml").await?;
    shell.run("kubectl mcs status foo --wait").await?;
    reach(shell, consumer).await?;
    println!("\nThe routes to the pods are deleted, in both directions.");
    for (namespace, other) in [(client, provider), (server, consumer)] {
        let pods = other.pod_cidr();
        let delete = format!("ip -n {namespace} route delete {pods}");
        shell.run(&delete).await?;
    }
    let address =
        "kubectl --context clusterb get pods -l app=foo -o jsonpath='{.items[0].status.podIP}'";
    let pod = shell.run(address).await?;
    let by_pod = format!("ip netns exec {client} curl -sS --max-time 3 http://{pod}:8080");
    for request in [&by_pod, &curl] {
        shell.refused(request, &["curl: ("]).await?;
    }

    story.begin("clusterb gets a network of its own, and a way into it: its node ports");
    shell
        .run(&format!(
            "kubectl mcs join {PROVIDER} --member-kubeconfig $KUBECONFIG --member-context {PROVIDER} \
             --network edge --reach node-ports"
        ))
        .await?;
    reach(shell, consumer).await?;
    println!(
        "\nThe same name and port as before. causeway created a Service with a node port in clusterb,\n\
         and gave clustera the node's address with that port in place of the pods' addresses."
    );
    shell
        .run("kubectl --context clusterb get services -l app.kubernetes.io/managed-by=causeway")
        .await?;
    shell.run(SLICES).await?;
    shell
        .until("kubectl mcs explain foo", SOON, |answer| {
            answer.text.contains("by node port")
        })
        .await?;
    Ok(())
}
