//! A member behind NAT, through Konnectivity: its agent dials out, and nothing dials in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway_tests::causeway::MEMBERS_NAMESPACE;
use causeway_tests::konnectivity::{Konnectivity, private_url};
use causeway_tests::{Cluster, Fleet, Installation, SOON, eventually};

use crate::behind_nat::{HubSide, Services, watches_resumed_since};
use crate::packets;

/// API server of a member without an agent (RFC 5737).
const ABSENT: &str = "192.0.2.1:6443";

/// Adds a Cluster behind the proxy for a host that no agent is connected for.
async fn add_absent(hub: &Cluster, proxy: &Konnectivity) {
    let ca = STANDARD.encode(proxy.ca_pem());
    let objects = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: absent, namespace: {MEMBERS_NAMESPACE}}}, \
         data: {{token: YWJj, caBundle: {ca}, proxyCaBundle: {ca}}}}}\n---\n\
         {{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: absent}}, \
         spec: {{syncMode: Push, apiEndpoint: \"https://{ABSENT}\", proxyURL: \"{}\", \
         secretRef: {{name: absent, namespace: {MEMBERS_NAMESPACE}}}}}}}\n",
        proxy.url()
    );
    hub.apply(&objects).await.ok();
}

#[tokio::test]
async fn member_behind_nat_is_served_through_konnectivity() {
    if !packets() {
        return;
    }
    let fleet = Fleet::builder().members(2).packets().start().await;
    let installation = Installation::new(&fleet).await;
    let [hidden, open] = ["member1", "member2"].map(|name| fleet.member(name));
    let space = fleet.space("nat").await;

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
    add_absent(fleet.hub(), &proxy).await;
    let answered = format!(
        "its proxy {} answered 500 Internal Server Error to CONNECT {ABSENT}: ",
        proxy.url()
    );
    let remedy = "no agent for that host is connected";
    side.reports("absent", &["False|Unreachable|", &answered, remedy])
        .await;

    let mut services = Services::create(&space, hidden, open).await;
    services.are_answered().await;

    // An outage ends all watches. They resume with the changes of that time, and nothing is listed.
    let mark = hidden.mark().await;
    proxy.stop().await;
    services.change().await;
    proxy.start_again().await;
    services.are_answered().await;
    side.reports("member1", &["True|Synced|"]).await;
    watches_resumed_since(hidden, mark).await;
}
