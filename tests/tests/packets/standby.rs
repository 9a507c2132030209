//! Use of standby endpoints by kube-proxy (KEP-1669): only while a Service has no ready one. Only
//! the consumer's own cluster takes part: no hub, no controller.

use std::time::Instant;

use causeway_tests::fixtures::RunningPod;
use causeway_tests::write::merge;
use causeway_tests::{Cluster, Fleet, SOON, Space, eventually, service};
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use serde_json::json;

use super::{answered_by, copy_by_hand, packets, said_by};

/// Requests of one client after the other, each on a connection of its own.
const REQUESTS: usize = 300;

#[tokio::test]
async fn standby_endpoints_answer_only_without_a_ready_one() {
    if !packets() {
        return;
    }
    let fleet = Fleet::builder().members(2).packets().start().await;
    let space = fleet.space("standby").await;
    let [near, far] = ["member2", "member1"].map(|name| fleet.member(name));
    for member in [near, far] {
        let foo = service("foo").port_to("http", 80, 8080);
        foo.create(member, &space).await;
    }
    let local = space.backends("foo").count(2).create(near).await;
    let remote = space.backends("foo").create(far).await;
    eventually("the far cluster has its slice", SOON, || async {
        space.ready_addresses(far, "foo").await.len() == 1
    })
    .await;
    copy_by_hand(&space, far, near).await;
    stand_by(&space, near).await;
    let said_near = said_by(&local.iter().map(|pod| (pod, "member2")).collect::<Vec<_>>());
    let said_far = said_by(&[(&remote[0], "member1")]);
    let url = format!("http://foo.{}.svc.cluster.local", space.name());
    answered_by(near, &url, &said_near).await;

    let began = Instant::now();
    let (failed, ()) = tokio::join!(failing(near, &url), all_become(&local, false));
    answered_by(near, &url, &said_far).await;
    eprintln!(
        "{REQUESTS} requests while both local pods became unready: {failed} failed; {:.1} s",
        began.elapsed().as_secs_f64()
    );
    assert_eq!(failed, 0);

    let (failed, ()) = tokio::join!(failing(near, &url), all_become(&local, true));
    answered_by(near, &url, &said_near).await;
    assert_eq!(failed, 0, "on the way back");
}

async fn all_become(pods: &[RunningPod], ready: bool) {
    for pod in pods {
        pod.set_ready(ready).await;
    }
}

/// Returns the number of failed requests of a client.
async fn failing(cluster: &Cluster, url: &str) -> usize {
    let each = format!(
        "for number in $(seq {REQUESTS}); do curl -sS -o /dev/null --fail --max-time 3 {url} || echo failed; done"
    );
    let said = cluster.exec("bash", ["-c", &each]).await.ok();
    said.lines().count()
}

/// Makes standby endpoints of those that were copied.
async fn stand_by(space: &Space<'_>, cluster: &Cluster) {
    let slices = space.api::<EndpointSlice>(cluster);
    let mut copy = slices.get("copied-by-hand").await.expect("the copy");
    for endpoint in &mut copy.endpoints {
        endpoint.conditions = Some(EndpointConditions {
            ready: Some(false),
            serving: Some(true),
            terminating: Some(true),
        });
    }
    let patch = json!({ "endpoints": copy.endpoints });
    merge(&slices, "copied-by-hand", patch).await;
}
