//! Connections to endpoints.

use std::collections::BTreeMap;
use std::future::ready;
use std::net::SocketAddr;
use std::time::Duration;

use causeway::api::labels;
use causeway::domain::ClusterName;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::REQUEST;
use super::copies::{MOST_TARGETS, addresses};
use crate::metrics::Metrics;

/// Maximum time of a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Maximum number of connections at one time.
const WIDTH: usize = 64;
/// Service of the cluster's own DNS, whose pods each cluster has.
const DNS: &str = "kube-dns";

/// Answers of the endpoints of a cluster in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Number that accepted a connection.
    pub(super) answered: u32,
    /// Number of all that were tried.
    pub(super) tried: u32,
}

/// Connects to all targets once.
pub(super) async fn all(
    targets: &BTreeMap<ClusterName, Vec<SocketAddr>>,
    metrics: &Metrics,
) -> BTreeMap<ClusterName, Answer> {
    let mut each = Vec::new();
    for (source, all) in targets {
        each.extend(all.iter().map(|target| (source.clone(), *target)));
    }
    let mut probes = stream::iter(each)
        .map(|(source, target)| async move { (source, answers(target).await) })
        .buffer_unordered(WIDTH);
    let mut found = BTreeMap::<ClusterName, Answer>::new();
    while let Some((source, has_answered)) = probes.next().await {
        metrics.probed(has_answered);
        let answer = found.entry(source).or_default();
        answer.tried += 1;
        answer.answered += u32::from(has_answered);
    }
    found
}

async fn answers(target: SocketAddr) -> bool {
    matches!(
        timeout(CONNECT, TcpStream::connect(target)).await,
        Ok(Ok(_))
    )
}

/// Whether pods of this cluster answer: those of its DNS. Without an answer, or without such pods,
/// nothing is known about the network of this process.
pub(super) async fn own_pods_answer(client: &Client) -> bool {
    let slices = Api::<EndpointSlice>::namespaced(client.clone(), "kube-system");
    let of_dns = ListParams::default()
        .labels(&format!("{}={DNS}", labels::SERVICE_NAME))
        .limit(10);
    let Ok(Ok(slices)) = timeout(REQUEST, slices.list(&of_dns)).await else {
        return false;
    };
    let pods = slices.iter().flat_map(addresses).take(MOST_TARGETS);
    let probes = stream::iter(pods.collect::<Vec<_>>()).map(answers);
    probes.buffer_unordered(WIDTH).any(ready).await
}
