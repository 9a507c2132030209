//! Members behind a proxy.

use causeway_tests::causeway::{Lent, MEMBERS_NAMESPACE};
use causeway_tests::forward_proxy::{ForwardProxy, Protocol};
use k8s_openapi::ByteString;

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];

/// Takes an environment and removes its members.
async fn without_members() -> Lent {
    let env = Lent::take().await;
    for member in MEMBERS {
        env.mcs(["unjoin", member]).await.ok();
    }
    env
}

async fn join_again(env: &Lent) {
    for member in MEMBERS {
        let delete = ["delete", "cluster", member, "--timeout=180s"];
        env.hub().kubectl(delete).await.ok();
        let delete = ["delete", "secret", member, "-n", MEMBERS_NAMESPACE];
        env.hub().kubectl(delete).await.ok();
        env.join(env.member(member)).await;
    }
}

#[tokio::test]
async fn members_are_served_through_proxies_of_every_kind() {
    let env = without_members().await;
    let mut proxies = Vec::new();
    for (name, protocol) in
        MEMBERS
            .into_iter()
            .zip([Protocol::Http, Protocol::Https, Protocol::Socks5])
    {
        let proxy = ForwardProxy::start(protocol).await;
        let member = env.member(name);
        env.installation
            .join_by_hand(env.hub(), member, |cluster, secret| {
                cluster.proxy_url = Some(proxy.url());
                let data = secret.data.as_mut().expect("the data of a Secret");
                let ca = ByteString(proxy.ca_pem().as_bytes().to_vec());
                data.insert("proxyCaBundle".to_owned(), ca);
            })
            .await;
        proxies.push(proxy);
    }
    let space = env.space("proxies").await;
    space.expose("foo", MEMBERS, ["member3"]).await;
    let mut all = Vec::new();
    for name in MEMBERS {
        let pods = space.pods("foo", name, 1).await;
        all.push(pods[0].ip().to_owned());
    }
    space.reaches("member3", "foo", &all).await;
    for proxy in &proxies {
        // Watches of every kind, and writes.
        assert!(proxy.opened() >= 3, "{} of {}", proxy.opened(), proxy.url());
    }
    join_again(&env).await;
}

#[ignore = "slow: make test ALL=1"]
#[tokio::test]
async fn refusal_of_a_proxy_names_it_its_status_and_the_remedy() {
    let env = without_members().await;
    let strict = ForwardProxy::start(Protocol::Http).await;
    strict.require("X-Pass: open sesame");
    let secured = ForwardProxy::start(Protocol::Https).await;
    let lost = ForwardProxy::start(Protocol::Socks5).await;
    let hub = env.hub();
    for (member, proxy) in [
        ("member1", strict.url()),
        ("member2", secured.url()),
        ("member3", lost.url()),
    ] {
        env.installation
            .join_by_hand(hub, env.member(member), |cluster, _| {
                cluster.proxy_url = Some(proxy);
                if member == "member3" {
                    cluster.api_endpoint = Some("https://127.0.0.1:1".to_owned());
                }
            })
            .await;
    }
    let says = async |member: &str, expected: &[&str]| {
        let message = env.cluster_says(member, "False|Unreachable|").await;
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
    env.is_synced("member1").await;
    assert!(strict.opened() >= 3);
    join_again(&env).await;
}
