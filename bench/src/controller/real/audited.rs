//! Changes of one slice that are counted in the API servers' audit logs: that what is counted among imitated ones is so.

use causeway::api::labels;
use causeway_tests::audit::AuditedWrite;
use causeway_tests::{Cluster, SOON, Space, eventually, multi_cluster_service, service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::clusters::Clusters;
use crate::report::Row;

const SERVICE: &str = "bench";
const CONSUMERS: [&str; 2] = ["member2", "member3"];
/// Longer than the fold of writes to one copy.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(250);

fn slice(address: &str) -> EndpointSlice {
    let object = json!({
        "metadata": {"name": SERVICE, "labels": {labels::SERVICE_NAME: SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    });
    serde_json::from_value(object).expect("an EndpointSlice")
}

async fn arrived(space: &Space<'_>, consumers: &[&Cluster], address: &str) {
    for consumer in consumers {
        eventually("the copy has arrived", SOON, || async {
            let held = space.ready_addresses(consumer, SERVICE).await;
            match held.as_slice() {
                [only] if only == address => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

/// Joins the third member and changes a slice so many times, one change after the other.
pub(super) async fn measure(clusters: &Clusters<'_>, changes: usize) -> anyhow::Result<Vec<Row>> {
    let controller = clusters.synced().await?;
    let consumers = [clusters.consumer(), clusters.join_last(&controller).await?];
    let space = clusters.fleet.space(SERVICE).await;
    let (hub, provider) = (clusters.hub(), clusters.provider());
    let shape = service(SERVICE).without_selector().port("http", 80);
    shape.create(hub, &space).await;
    let mcs = multi_cluster_service(SERVICE).providers(["member1"]);
    mcs.consumers(CONSUMERS).create(&space).await;
    let slices: Api<EndpointSlice> = space.api(provider);
    slices
        .create(&PostParams::default(), &slice("10.1.0.1"))
        .await?;
    arrived(&space, &consumers, "10.1.0.1").await;
    // The status is written when the copies were seen.
    clusters.settled().await;
    let marks = [
        hub.mark().await,
        consumers[0].mark().await,
        consumers[1].mark().await,
    ];
    let mut changed_at = Vec::new();
    for number in 0..changes {
        let address = format!("10.1.1.{number}");
        let patch = json!({"endpoints": slice(&address).endpoints});
        changed_at.push(Timestamp::now());
        slices
            .patch(SERVICE, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        tokio::time::sleep(PAUSE).await;
    }
    let last = format!("10.1.1.{}", changes - 1);
    arrived(&space, &consumers, &last).await;
    let on_hub = without_leases(hub.writes_since(marks[0], "causeway").await);
    let mut written = Vec::new();
    for (consumer, mark) in consumers.iter().zip(&marks[1..]) {
        written.push(consumer.writes_since(*mark, "causeway").await);
    }
    controller.end().await;
    Ok(rows(&written, on_hub.len(), &changed_at))
}

/// What the writes to each consumer, and so many to the hub, come to for changes at these times.
fn rows(written: &[Vec<AuditedWrite>], on_hub: usize, changed_at: &[Timestamp]) -> Vec<Row> {
    let changes = changed_at.len() as f64;
    let writes: usize = written.iter().map(Vec::len).sum();
    let name = |what: &str| {
        format!(
            "real API servers, {} consumers, 4/s: {what}",
            CONSUMERS.len()
        )
    };
    let most = CONSUMERS.len() as f64;
    let mut rows = vec![
        Row::new(name("writes a change"), writes as f64 / changes, "").at_most(most),
        Row::new(name("hub writes a change"), on_hub as f64 / changes, "").at_most(0.0),
    ];
    let took: Vec<_> = written
        .iter()
        .filter(|all| all.len() == changed_at.len())
        .collect();
    if took.len() == CONSUMERS.len() {
        let times = took.iter().flat_map(|all| all.iter().zip(changed_at));
        let times = times.map(|(write, at)| milliseconds(write.received.duration_since(*at)));
        rows.push(Row::new(
            name("p50, from the change's request to the copy's"),
            crate::pairs::median(times),
            "ms",
        ));
    }
    rows
}

fn milliseconds(time: SignedDuration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn without_leases(mut writes: Vec<AuditedWrite>) -> Vec<AuditedWrite> {
    writes.retain(|write| write.resource != "leases");
    writes
}
