//! Rights on the hub that are missing.

use std::time::Duration;

use causeway_tests::causeway::{Lent, MEMBERS_NAMESPACE};
use causeway_tests::{SOON, eventually, throughout};
use serde_json::json;

const ELSEWHERE: &str = "elsewhere";

#[tokio::test]
async fn unreadable_secrets_delay_only_their_own_clusters() {
    let mut env = Lent::take().await;
    env.hub()
        .kubectl(["create", "namespace", ELSEWHERE])
        .await
        .ok();
    let flag = format!("--secret-namespace={MEMBERS_NAMESPACE},{ELSEWHERE}");
    let launch = env.installation.controller().arg(flag);
    env.relaunch_unready(launch).await;
    let (space, addresses) = env.foo("rights").await;

    let secret = env.secrets().get("member2").await.expect("a Secret");
    env.put_secret(ELSEWHERE, "member2", &secret).await;
    let reference = json!({ "spec": { "secretRef": { "namespace": ELSEWHERE } } });
    env.patch_cluster("member2", reference).await;
    let said = env
        .cluster_says("member2", "False|InvalidConfiguration|")
        .await;
    assert!(
        said.contains("Secrets in namespace elsewhere cannot be read (forbidden: "),
        "{said}"
    );
    let controller = env.controller.process();
    controller.end().await;
    controller.restart().await;
    env.cluster_says("member2", "False|Refused|Secrets in namespace elsewhere")
        .await;
    let hub_says = async || env.controller.get("/readyz").await.expect("an answer");
    eventually("/readyz names what is awaited", SOON, async || {
        let (status, text) = hub_says().await;
        let named = text.contains("awaiting the hub's Secrets in namespace elsewhere\n");
        let why = text.contains("in namespace elsewhere: forbidden: ");
        (status == 503 && named && why).then_some(()).ok_or(text)
    })
    .await;
    let resource = |resource| [("resource", resource)];
    let up = async |of: &'static str| {
        let metrics = env.controller.metrics().await;
        metrics.get("causeway_controller_hub_watch_up", &resource(of))
    };
    eventually("all watches but one are up", SOON, async || {
        let all = ["secrets/elsewhere", "secrets/causeway-members", "services"].map(up);
        let all = futures::future::join_all(all).await;
        let expected = [Some(0.0), Some(1.0), Some(1.0)];
        (all == expected).then_some(()).ok_or(format!("{all:?}"))
    })
    .await;
    let log = env.controller.process().log_tail(200);
    let reported = log.lines().filter(|line| line.contains("hub watch failed"));
    let reported: Vec<_> = reported
        .filter(|line| line.contains("secrets/elsewhere"))
        .collect();
    assert!(
        (1..=2).contains(&reported.len()),
        "once in each life: {reported:#?}"
    );
    let check = env.mcs(["check"]).await.stdout;
    assert!(
        check.contains("cannot list and watch secrets in namespace elsewhere"),
        "{check}"
    );
    let reached = async || space.ready_addresses(env.member("member2"), "foo").await;
    throughout("the copies stay", Duration::from_secs(2), async || {
        reached().await == addresses
    })
    .await;

    let role = ["create", "role", "reader", "-n", ELSEWHERE];
    let of = ["--verb=list,watch", "--resource=secrets"];
    env.hub().kubectl(role.into_iter().chain(of)).await.ok();
    let binding = ["create", "rolebinding", "reader", "-n", ELSEWHERE];
    let account = "--serviceaccount=causeway-system:causeway-controller";
    let of = ["--role=reader", account];
    env.hub().kubectl(binding.into_iter().chain(of)).await.ok();
    env.is_synced("member2").await;
    env.controller.ready().await;
    assert_eq!(up("secrets/elsewhere").await, Some(1.0));
    space.reaches("member2", "foo", &addresses).await;
    let reference = json!({ "spec": { "secretRef": { "namespace": MEMBERS_NAMESPACE } } });
    env.patch_cluster("member2", reference).await;
}
