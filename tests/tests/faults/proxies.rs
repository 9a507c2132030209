//! Members behind a proxy.

use causeway_tests::causeway::Installation;
use causeway_tests::forward_proxy::{ForwardProxy, Protocol};
use causeway_tests::{Fleet, SOON, multi_cluster_service, service};
use k8s_openapi::ByteString;

use super::{NOTICED, condition, reaches};

#[tokio::test]
async fn members_are_served_through_proxies_of_every_kind() {
    let fleet = Fleet::builder().members(4).start().await;
    let installation = Installation::new(&fleet).await;
    let _controller = installation.controller().start().await;
    let mut proxies = Vec::new();
    for (number, protocol) in [
        (1, Protocol::Http),
        (2, Protocol::Https),
        (3, Protocol::Socks5),
    ] {
        let proxy = ForwardProxy::start(protocol).await;
        let member = fleet.member(&format!("member{number}"));
        installation
            .join_by_hand(fleet.hub(), member, |cluster, secret| {
                cluster.proxy_url = Some(proxy.url());
                let data = secret.data.as_mut().expect("the data of a Secret");
                let ca = ByteString(proxy.ca_pem().as_bytes().to_vec());
                data.insert("proxyCaBundle".to_owned(), ca);
            })
            .await;
        proxies.push(proxy);
    }
    installation.join(fleet.member("member4")).await;

    let space = fleet.space("proxies").await;
    service("foo")
        .port("http", 80)
        .create(fleet.hub(), &space)
        .await;
    multi_cluster_service("foo")
        .providers(["member1", "member2", "member3"])
        .consumers(["member4"])
        .create(&space)
        .await;
    let mut all = Vec::new();
    for name in ["member1", "member2", "member3"] {
        let pods = space.backends("foo").create(fleet.member(name)).await;
        all.push(pods[0].ip().to_owned());
    }
    all.sort();
    reaches(&space, fleet.member("member4"), &all, NOTICED).await;
    for proxy in &proxies {
        // Watches of every kind, and writes.
        assert!(proxy.opened() >= 3, "{} of {}", proxy.opened(), proxy.url());
    }
}

#[tokio::test]
async fn refusal_of_a_proxy_names_it_its_status_and_the_remedy() {
    let fleet = Fleet::builder().members(3).start().await;
    let installation = Installation::new(&fleet).await;
    let _controller = installation.controller().start().await;
    let strict = ForwardProxy::start(Protocol::Http).await;
    strict.require("X-Pass: open sesame");
    let secured = ForwardProxy::start(Protocol::Https).await;
    let lost = ForwardProxy::start(Protocol::Socks5).await;
    let hub = fleet.hub();
    for (member, proxy) in [
        ("member1", strict.url()),
        ("member2", secured.url()),
        ("member3", lost.url()),
    ] {
        installation
            .join_by_hand(hub, fleet.member(member), |cluster, _| {
                cluster.proxy_url = Some(proxy);
                if member == "member3" {
                    cluster.api_endpoint = Some("https://127.0.0.1:1".to_owned());
                }
            })
            .await;
    }
    let says = async |member: &str, expected: &[&str]| {
        let cluster = ["get", "cluster", member];
        let message = condition(hub, &cluster, "Ready", "False|Unreachable|", NOTICED).await;
        for expected in expected {
            assert!(message.contains(expected), "{message}");
        }
    };
    let answered = format!("its proxy {} answered 407", strict.url());
    says(
        "member1",
        &[&answered, "Proxy-Authorization in spec.proxyHeader"],
    )
    .await;
    let untrusted = format!("its proxy {}: ", secured.url());
    says("member2", &[&untrusted, "proxyCaBundle"]).await;
    let refused = format!(
        "its proxy {} made no connection to 127.0.0.1:1: ",
        lost.url()
    );
    says("member3", &[&refused]).await;

    // The remedy, as it says.
    let headers = r#"{"spec":{"proxyHeader":{"X-Pass":"open sesame"}}}"#;
    hub.kubectl(["patch", "cluster", "member1", "--type=merge", "-p", headers])
        .await
        .ok();
    condition(hub, &["get", "cluster", "member1"], "Ready", "True|", SOON).await;
    assert!(strict.opened() >= 3);
}
