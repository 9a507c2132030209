//! Time that the webhook adds to a create, through a real API server.
//!
//! The same creates go into a namespace for which the floor is called, and into one for which the
//! webhook is. They take turns one by one, so that both meet the same API server and machine.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::api::{MultiClusterService, labels};
use causeway_tests::{SOON, eventually, multi_cluster_service};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinSet;
use tokio::time::interval;

use super::environment::Environment;
use super::{noop, reviews};
use crate::pairs::{Pairs, percentile};
use crate::report::Row;

/// Creates a second, half of them for each namespace.
const RATE: usize = 200;
/// Maximum milliseconds that the webhook adds besides those of the floor.
const ADDED: f64 = 1.0;
/// Servers that are called, in the order of their namespaces.
const CALLED: [&str; 2] = ["floor", "causeway"];

pub(crate) async fn measure(env: &Environment, quick: bool) -> anyhow::Result<Vec<Row>> {
    let (rounds, milliseconds) = if quick { (1, 200) } else { (21, 3000) };
    let count = RATE * milliseconds / 1000;
    let client = env.fleet.hub().client();
    register(env, &client).await?;
    // The first round opens connections.
    block(&client, count).await?;
    let mut latencies = Vec::new();
    for _ in 0..rounds {
        latencies.push(block(&client, count).await?);
    }
    let added = |what: &str, part: f64| {
        let name = format!("create at {RATE}/s, added, more than by the floor: {what}");
        let times = Pairs::of(&latencies, |times: &Vec<_>| percentile(times, 0, part));
        times.more(name, "ms").at_most(ADDED)
    };
    Ok(vec![added("p50", 0.5), added("p99", 0.99)])
}

/// Registers the floor and the webhook with the project's own manifest, each for its namespace.
async fn register(env: &Environment, client: &Client) -> anyhow::Result<()> {
    let file = causeway_tests::repository().join("manifests/hub/options/webhook-by-url.yaml");
    let manifest = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let authority = STANDARD.encode(env.installation.authority().pem());
    for (number, called) in CALLED.into_iter().enumerate() {
        let label = "kubernetes.io/metadata.name";
        let namespace = reviews::namespace(number);
        let selector = format!("namespaceSelector: {{matchLabels: {{{label}: {namespace}}}}}");
        let selected = format!("{selector}\n    matchConditions:");
        let server = [&env.floor, env.webhook.bind()][number];
        let paths = [[noop::ADMIT, noop::ADMIT], ["/mutate", "/validate"]][number];
        let [mutate, validate] = paths.map(|path| format!("https://{server}{path}"));
        let manifest = manifest
            .replace("name: causeway\n", &format!("name: bench-{called}\n"))
            .replace("matchConditions:", &selected)
            .replace("CA_BUNDLE", &authority)
            .replace("WEBHOOK_URL/mutate", &mutate)
            .replace("WEBHOOK_URL/validate", &validate);
        env.fleet.hub().apply(&manifest).await.ok();
    }
    // An API server notices its webhooks a moment after they are stored.
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    eventually("the floor is called", SOON, || async {
        api(client, 0).create(&dry_run, &object(0)).await.is_err()
    })
    .await;
    eventually("the webhook is called", SOON, || async {
        let made = api(client, 1).create(&dry_run, &object(1)).await;
        made.is_ok_and(|made| made.labels().contains_key(labels::PERMANENT_ID))
    })
    .await;
    Ok(())
}

fn api(client: &Client, namespace: usize) -> Api<MultiClusterService> {
    Api::namespaced(client.clone(), &reviews::namespace(namespace))
}

/// Returns the MultiClusterService of a Service.
fn object(number: usize) -> MultiClusterService {
    let [a, b, c, d] = [0, 1, 2, 3].map(reviews::member);
    multi_cluster_service(&reviews::service(number))
        .port("http", 80)
        .port("metrics", 9090)
        .providers([&a, &b])
        .consumers([&c, &d])
        .object()
}

/// Creates at the rate, whether earlier creates are answered or not, and then deletes all. Returns
/// the latencies of each namespace.
async fn block(client: &Client, count: usize) -> anyhow::Result<[Vec<Duration>; 2]> {
    let mut ticks = interval(Duration::from_secs(1) / RATE as u32);
    let mut creates = JoinSet::new();
    for turn in 0..count {
        let (number, namespace) = (turn / CALLED.len(), turn % CALLED.len());
        let object = object(number * reviews::NAMESPACES + namespace);
        let api = api(client, namespace);
        ticks.tick().await;
        creates.spawn(async move {
            let begun = Instant::now();
            let made = api.create(&PostParams::default(), &object).await;
            made.map(|_| (namespace, begun.elapsed()))
        });
    }
    let mut latencies: [Vec<_>; 2] = Default::default();
    while let Some(created) = creates.join_next().await {
        let (namespace, latency) = created??;
        latencies[namespace].push(latency);
    }
    for namespace in 0..CALLED.len() {
        api(client, namespace)
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(latencies)
}
