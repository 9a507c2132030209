//! A member behind NAT, joined by `kubectl mcs` through causeway-tunnel: its agent dials out, and
//! nothing dials in.

use std::time::Instant;

use causeway_tests::tunnel::Tunnel;
use causeway_tests::{Fleet, Installation, soak};

use crate::behind_nat::{HubSide, Services, watches_resumed_since};
use crate::packets;

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn member_behind_nat_is_served_through_the_tunnel() {
    if !packets() {
        return;
    }
    let fleet = Fleet::builder().members(2).packets().start().await;
    let installation = Installation::new(&fleet).await;
    let [hidden, open] = ["member1", "member2"].map(|name| fleet.member(name));
    let space = fleet.space("nat").await;

    let side = HubSide::new(&fleet, &installation);
    side.dial(hidden).await.expect_err("it is behind NAT");
    let controller = installation.controller();
    let controller = controller.arg(format!("--tunnel-front={}", Tunnel::front()));
    let _controller = controller.in_network(side.host.namespace()).start_unready();
    let kubeconfig = open.kubeconfig().display().to_string();
    side.join("member2", &["--member-kubeconfig", &kubeconfig])
        .await
        .ok();
    let address = Tunnel::address(&side.host);
    let install = ["install", "--external", "--skip-crds", "--tunnel", &address];
    installation.kubectl_mcs(install).await.ok();
    let kubeconfig = hidden.kubeconfig().display().to_string();
    let join = ["join", "member1", "--member-kubeconfig", &kubeconfig];
    let through = ["--pull", "--tunnel", &address, "--timeout", "15s"];
    let joined = installation
        .kubectl_mcs([&join[..], &through].concat())
        .await;
    let said = format!("causeway-agent must reach {address} from the member");
    assert!(joined.stderr.contains(&said), "{joined:?}");
    side.reports(
        "member1",
        &["False|Unreachable|", "causeway-tunnel http://127.0.0.1:"],
    )
    .await;

    let tunnel = Tunnel::start(&fleet, &side.host).await;
    let words = "its agent is not connected to causeway-tunnel";
    side.reports("member1", &["False|Unreachable|", words])
        .await;
    let agent = tunnel.agent(&fleet, hidden).await;
    side.reports("member1", &["True|Synced|"]).await;
    for replica in [0, 1] {
        tunnel.has_connections(replica, "member1", 1).await;
    }
    let mut services = Services::create(&space, hidden, open).await;
    services.are_answered().await;

    // One replica ends in order: the other one serves.
    let mark = hidden.mark().await;
    tunnel.replicas()[0].terminate();
    services.change().await;
    services.are_answered().await;
    let ended = tunnel.replicas()[0].exited(causeway_tests::SOON * 2).await;
    assert!(ended.success(), "{ended:?}");
    services.change().await;
    services.are_answered().await;
    tunnel.restart(0).await;
    tunnel.has_connections(0, "member1", 1).await;

    // Both are killed, and things change meanwhile.
    for replica in tunnel.replicas() {
        replica.kill().await;
    }
    services.change().await;
    for replica in [0, 1] {
        tunnel.restart(replica).await;
    }
    services.are_answered().await;

    // The agent is killed and starts again.
    agent.kill().await;
    side.reports("member1", &[words, "since ", "last from "])
        .await;
    services.change().await;
    agent.restart().await;
    services.are_answered().await;

    // Packets are lost in silence until the tunnel notices; in the long form for as long as
    // `CAUSEWAY_SOAK` says.
    let address = hidden.node_address().expect("a node");
    side.host.cut(&address);
    let begun = Instant::now();
    services.change().await;
    for replica in [0, 1] {
        tunnel.has_connections(replica, "member1", 0).await;
    }
    let long = soak::soak().unwrap_or_default();
    tokio::time::sleep(long.saturating_sub(begun.elapsed())).await;
    let lasted = begun.elapsed();
    side.host.heal();
    let healed = Instant::now();
    services.are_answered().await;
    side.reports("member1", &["True|Synced|"]).await;
    let after = healed.elapsed();
    eprintln!("a cut of {lasted:.1?}: all is as before {after:.1?} after its end");
    watches_resumed_since(hidden, mark).await;
}
