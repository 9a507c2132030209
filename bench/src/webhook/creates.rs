//! What the webhook adds to a create, through a real API server.
//!
//! The same creates go into three namespaces: one that no webhook is asked for, one for which the floor is asked, and one for which
//! the webhook is. They take turns one by one, so that what else the API server and the machine do hits all three alike.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use causeway::api::{
    ClusterSelector, ExposurePort, MultiClusterService, MultiClusterServiceSpec, labels,
};
use causeway_tests::{SOON, eventually};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::environment::Environment;
use super::load::{Load, ask, percentile};
use super::{Extent, noop, reviews};
use crate::pairs::{Pairs, median};
use crate::report::Row;

/// Creates per second, a third of them for each namespace.
const RATE: usize = 200;
/// How much more the webhook may add at p99 than the floor does, in milliseconds.
const ADDED: f64 = 1.0;
/// The label of a namespace that says which webhook is asked for it.
const LABEL: &str = "bench.causeway.dev/webhook";

/// Who is asked about a create.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    Nobody,
    Floor,
    Webhook,
}

const ALL: [Asked; 3] = [Asked::Nobody, Asked::Floor, Asked::Webhook];

impl Asked {
    fn label(self) -> &'static str {
        match self {
            Self::Nobody => "none",
            Self::Floor => "floor",
            Self::Webhook => "causeway",
        }
    }

    fn namespace(self) -> usize {
        self as usize
    }
}

/// One of the numbers of a block.
type Pick = fn(&(f64, f64)) -> f64;

/// The latencies of the blocks of one kind: p50 and p99 of each, in milliseconds.
#[derive(Default)]
struct Blocks(Vec<(f64, f64)>);

pub(crate) async fn measure(env: &Environment, extent: &Extent) -> anyhow::Result<Vec<Row>> {
    let client = env.fleet.hub().client();
    for asked in ALL {
        let patch = json!({"metadata": {"labels": {LABEL: asked.label()}}});
        let namespaces = Api::<Namespace>::all(client.clone());
        let name = reviews::namespace(asked.namespace());
        namespaces
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    register(env).await?;
    let services = Services::new(extent.services);
    let mut blocks: [Blocks; 3] = Default::default();
    // The first round opens the connections and is not counted.
    for round in 0..=extent.create_rounds {
        let latencies = block(&client, &services, extent.create_time).await?;
        for (mut latencies, blocks) in latencies.into_iter().zip(&mut blocks) {
            latencies.sort_unstable();
            if round > 0 {
                let of = |part| percentile(&latencies, part);
                blocks.0.push((of(0.5), of(0.99)));
            }
        }
    }
    Ok(rows(&blocks))
}

/// Registers the webhook with the project's own manifest, and the floor with the same, each for its namespace.
async fn register(env: &Environment) -> anyhow::Result<()> {
    let file = causeway_tests::repository().join("manifests/hub/options/webhook-by-url.yaml");
    let manifest = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let floor = env.floor().address;
    let admit = format!("https://{floor}{}", noop::ADMIT);
    for asked in [Asked::Floor, Asked::Webhook] {
        let selector = format!(
            "namespaceSelector: {{matchLabels: {{{LABEL}: {}}}}}\n    matchConditions:",
            asked.label()
        );
        let manifest = manifest
            .replace(
                "name: causeway\n",
                &format!("name: bench-{}\n", asked.label()),
            )
            .replace("matchConditions:", &selector)
            .replace(
                "CA_BUNDLE",
                &STANDARD.encode(env.installation.authority().pem()),
            );
        let manifest = if asked == Asked::Floor {
            manifest
                .replace("WEBHOOK_URL/mutate", &admit)
                .replace("WEBHOOK_URL/validate", &admit)
        } else {
            manifest.replace("WEBHOOK_URL", &format!("https://{}", env.webhook.bind()))
        };
        env.fleet.hub().apply(&manifest).await.ok();
    }
    until_asked(env).await
}

/// An API server learns of its webhooks a moment after they are stored.
async fn until_asked(env: &Environment) -> anyhow::Result<()> {
    let client = env.fleet.hub().client();
    eventually("the floor is asked", SOON, || async {
        let before = admitted(env).await.map_err(|e| format!("{e:#}"))?;
        try_create(&client, Asked::Floor)
            .await
            .map_err(|e| e.to_string())?;
        let after = admitted(env).await.map_err(|e| format!("{e:#}"))?;
        // Once to mutate, once to validate.
        if after >= before + 2 {
            Ok(())
        } else {
            Err(format!("{before} and {after} admitted"))
        }
    })
    .await;
    eventually("the webhook is asked", SOON, || async {
        let made = try_create(&client, Asked::Webhook).await;
        made.map(|made| made.labels().contains_key(labels::PERMANENT_ID))
            .unwrap_or_default()
    })
    .await;
    let made = try_create(&client, Asked::Nobody).await?;
    ensure!(
        made.labels().is_empty(),
        "a webhook is asked where none should be"
    );
    Ok(())
}

async fn try_create(client: &Client, asked: Asked) -> kube::Result<MultiClusterService> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let object = object(asked.namespace());
    api(client, asked).create(&params, &object).await
}

async fn admitted(env: &Environment) -> anyhow::Result<u64> {
    let target = env.floor();
    let host = target.address.to_string();
    let request = reviews::request(noop::ADMITTED, &host, "", b"");
    let load = Load {
        address: target.address,
        tls: env.tls.clone(),
        server: target.process,
        requests: [request.clone()].into(),
        connections: 1,
        warm_up: Duration::ZERO,
        measured: Duration::ZERO,
    };
    let (_, body) = ask(&load, &request).await?;
    Ok(std::str::from_utf8(&body)?.parse()?)
}

/// The Services of each namespace, by number.
struct Services {
    in_each: usize,
}

impl Services {
    fn new(all: usize) -> Self {
        Self {
            in_each: all / reviews::NAMESPACES,
        }
    }
}

fn api(client: &Client, asked: Asked) -> Api<MultiClusterService> {
    Api::namespaced(client.clone(), &reviews::namespace(asked.namespace()))
}

/// The MultiClusterService of a Service.
fn object(number: usize) -> MultiClusterService {
    let port = |name: &str, port| ExposurePort {
        name: Some(name.to_owned()),
        port,
    };
    let cluster = |number| ClusterSelector {
        name: reviews::member(number),
    };
    let spec = MultiClusterServiceSpec {
        types: vec!["CrossCluster".to_owned()],
        ports: vec![port("http", 80), port("metrics", 9090)],
        provider_clusters: vec![cluster(0), cluster(1)],
        consumer_clusters: vec![cluster(2), cluster(3)],
        ..MultiClusterServiceSpec::default()
    };
    MultiClusterService::new(&reviews::service(number), spec)
}

/// Creates at the rate, whether earlier ones are answered or not; then deletes all of it. The latencies of each kind.
async fn block(
    client: &Client,
    services: &Services,
    time: Duration,
) -> anyhow::Result<[Vec<Duration>; 3]> {
    let count = (RATE as f64 * time.as_secs_f64()) as usize;
    ensure!(
        count <= services.in_each * ALL.len(),
        "{count} creates need as many Services"
    );
    let mut ticks = interval(Duration::from_secs(1) / RATE as u32);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut creates = JoinSet::new();
    for turn in 0..count {
        let asked = ALL[turn % ALL.len()];
        let object = object(turn / ALL.len() * reviews::NAMESPACES + asked.namespace());
        let api = api(client, asked);
        ticks.tick().await;
        creates.spawn(async move {
            let begun = Instant::now();
            let made = api.create(&PostParams::default(), &object).await;
            made.map(|_| (asked, begun.elapsed()))
        });
    }
    let mut latencies: [Vec<_>; 3] = Default::default();
    while let Some(created) = creates.join_next().await {
        let (asked, latency) = created??;
        latencies[asked as usize].push(latency);
    }
    for asked in ALL {
        api(client, asked)
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await?;
    }
    tokio::time::sleep(time / 8).await;
    Ok(latencies)
}

fn rows(blocks: &[Blocks; 3]) -> Vec<Row> {
    let [nobody, floor, webhook] = blocks;
    let of = |blocks: &Blocks, pick: Pick| median(blocks.0.iter().map(pick));
    // Each block is compared with the one of the same moments, which had the same machine.
    let beside = |blocks: &Blocks, others: &Blocks, pick: Pick| -> Pairs {
        let pairs = others.0.iter().zip(&blocks.0);
        pairs
            .map(|(other, block)| (pick(other), pick(block)))
            .collect()
    };
    let percentiles: [(&str, Pick); 2] = [("p50", |block| block.0), ("p99", |block| block.1)];
    let mut rows = Vec::new();
    for (name, pick) in percentiles {
        let name = |what: &str| format!("create at {RATE}/s, {what}: {name}");
        rows.push(Row::new(name("without a webhook"), of(nobody, pick), "ms"));
        rows.push(Row::new(name("with causeway"), of(webhook, pick), "ms").beside(of(floor, pick)));
        rows.push(beside(webhook, nobody, pick).more(name("added"), "ms"));
        let more = beside(webhook, floor, pick).more(name("added, more than by the floor"), "ms");
        rows.push(more.below(ADDED));
    }
    rows
}
