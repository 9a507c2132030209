use causeway::api::Cluster;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use causeway_tests::LONG;

use crate::env;

const MARKUP: &str = "<img src=x onerror=alert(1)>\n\ndata: {}\n\"</script>";

#[tokio::test]
async fn what_a_member_says_comes_as_data_whatever_it_says() {
    let env = env().await;
    let clusters: Api<Cluster> = Api::all(env.fleet.hub().client());
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": "hostile" },
        "spec": { "syncMode": "Pull", "region": MARKUP, "zones": [MARKUP] },
        "status": { "kubernetesVersion": MARKUP, "conditions": [{
            "type": "Hostile", "status": "False", "reason": "Markup", "message": MARKUP,
            "lastTransitionTime": "2026-11-23T00:00:00Z",
        }] },
    });
    let parameters = PatchParams::apply("test").force();
    clusters
        .patch("hostile", &parameters, &Patch::Apply(&cluster))
        .await
        .expect("it is made");
    clusters
        .patch_status("hostile", &parameters, &Patch::Apply(&cluster))
        .await
        .expect("it says so");
    let ui = env.ui(&[]).await;
    let mut page = ui.page().await;
    page.until("the cluster is shown as it is", LONG, |page| {
        let row = page.cluster("hostile");
        let mut conditions = row["conditions"].as_array().into_iter().flatten();
        row["region"] == MARKUP
            && row["zones"][0] == MARKUP
            && row["version"] == MARKUP
            && conditions.any(|one| one["message"] == MARKUP)
    })
    .await;
    let answer = ui.send(ui.request("GET", "api/events")).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    let events = answer.body.matches("\n\n").count();
    let named = answer.body.matches("event: ").count();
    assert_eq!(
        events, named,
        "no line of a message is an event: {}",
        answer.body
    );
    let deleted = clusters.delete("hostile", &Default::default()).await;
    deleted.expect("it is deleted");
}
