//! Stage of the story: a hub, two members, and causeway, installed as users install it.

use std::time::Duration;

use causeway_tests::causeway::NAMESPACE;
use causeway_tests::{Fleet, Installation, Running, network};

use crate::shell::{Shell, show_command};

/// The member that uses the service.
pub(crate) const CONSUMER: &str = "clustera";
/// The member whose pods back the service.
pub(crate) const PROVIDER: &str = "clusterb";

/// Hub and members; nothing of causeway.
pub(crate) async fn clusters() -> Fleet {
    let builder = Fleet::builder()
        .named_members([CONSUMER, PROVIDER])
        .clusterset();
    let fleet = match network::prerequisites() {
        Ok(()) => builder.packets().start().await,
        Err(missing) => {
            println!("No packets are sent, EndpointSlices are shown instead: {missing}.");
            builder.start().await
        }
    };
    for cluster in fleet.clusters() {
        println!("{:<9} {}", cluster.name(), cluster.url());
    }
    if fleet.member(CONSUMER).network_namespace().is_some() {
        println!(
            "\nThe node of each cluster is a network namespace of this machine: `ip netns exec` runs a\n\
             command there, with the cluster's DNS and kube-proxy."
        );
    }
    fleet
}

/// Programs of the hub.
pub(crate) struct Causeway {
    pub(crate) webhook: Running,
    pub(crate) controller: Running,
}

/// Installs causeway on the hub with its own manifests, and starts both processes with the rights
/// of their accounts.
pub(crate) async fn install(fleet: &Fleet, shell: &Shell) -> anyhow::Result<Causeway> {
    shell.run("kubectl apply -f manifests/crds/hub").await?;
    shell
        .run("kubectl wait --for=condition=Established -f manifests/crds/hub")
        .await?;
    shell
        .run("kubectl apply -f manifests/hub/rbac.yaml")
        .await?;
    println!(
        "\nThe two processes run beside the hub, each with a token of its own ServiceAccount in {NAMESPACE}:"
    );
    let installation = Installation::applied(fleet).await;
    let launch = installation.webhook();
    show_command(&format!("{} &", launch.command()));
    let webhook = launch.start().await;
    let launch = installation.controller();
    show_command(&format!("{} &", launch.command()));
    let controller = launch.start().await;
    let register = format!(
        "sed -e 's|WEBHOOK_URL|https://{}|' -e \"s|CA_BUNDLE|$(base64 -w0 {})|\" manifests/hub/options/webhook-by-url.yaml | kubectl apply -f -",
        webhook.bind(),
        installation.ca_file().display()
    );
    shell.run(&register).await?;
    installation.asked(&webhook).await;
    Ok(Causeway {
        webhook,
        controller,
    })
}

/// Joins both members with `kubectl mcs join`.
pub(crate) async fn join(shell: &Shell) -> anyhow::Result<()> {
    for member in [CONSUMER, PROVIDER] {
        shell
            .run(&format!(
                "kubectl mcs join {member} --member-kubeconfig $KUBECONFIG --member-context {member}"
            ))
            .await?;
    }
    let synced = |members: &str| members.matches("True").count() == 2;
    shell
        .until("kubectl get clusters", Duration::from_secs(30), |answer| {
            synced(&answer.text)
        })
        .await?;
    Ok(())
}
