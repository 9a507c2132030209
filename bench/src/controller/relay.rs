//! The floor: the least that a program can do. It watches the provider and makes one write into
//! each consumer for each event.

use std::pin::pin;
use std::sync::Arc;

use anyhow::bail;
use causeway::api::labels;
use causeway::process::kube_client::name_client;
use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, Config};

use super::sim::slices::{SliceId, member_name, texts};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the API servers: `/1` is the provider, the next ones are consumers
    url: String,
    /// Number of services with each number of consumers
    services: u32,
    /// Numbers of consumers
    consumers: Vec<u16>,
}

/// Relays until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    crate::runtime()?.block_on(async { tokio::spawn(follow(args.clone())).await? })
}

/// Returns a client that repeats nothing and requests nothing compressed.
fn client(url: &str) -> anyhow::Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    config.disable_compression = true;
    name_client(&mut config, "causeway-bench-floor")?;
    Ok(Client::try_from(config)?)
}

async fn follow(args: Args) -> anyhow::Result<()> {
    let members = 1..=args.consumers.iter().max().map_or(1, |most| most + 1);
    let clients = members.map(|member| client(&format!("{}/{member}", args.url)));
    let clients = clients.collect::<anyhow::Result<Vec<_>>>()?;
    let slices = Api::<EndpointSlice>::all(clients[0].clone());
    let newest = ListParams::default().limit(1);
    let newest = slices.list_metadata(&newest).await?.metadata;
    let mut version = newest.resource_version.unwrap_or_default();
    let params = WatchParams::default().timeout(290);
    // An API server ends a watch now and then.
    loop {
        let mut events = pin!(slices.watch(&params, &version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                    write_copies(&args, &clients, &slice);
                    version = slice.metadata.resource_version.unwrap_or(version);
                }
                WatchEvent::Error(status) => bail!("the watch was refused: {status:?}"),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            }
        }
    }
}

/// Starts the writes of a copy into each consumer.
fn write_copies(args: &Args, clients: &[Client], source: &EndpointSlice) {
    let Some((id, copy)) = copied(source) else {
        return;
    };
    let namespace = source.metadata.namespace.clone().unwrap_or_default();
    let copy = Arc::new(copy);
    let consumers = args.consumers[(id.service / args.services) as usize];
    for consumer in &clients[1..=usize::from(consumers)] {
        let api = Api::<EndpointSlice>::namespaced(consumer.clone(), &namespace);
        let copy = copy.clone();
        tokio::spawn(async move {
            let name = copy.metadata.name.as_deref().unwrap_or_default();
            let written = api.replace(name, &PostParams::default(), &copy).await;
            if let Err(error) = written {
                eprintln!("a copy was not written: {error}");
            }
        });
    }
}

/// Returns the copy of a slice; `None` if the slice is no source.
fn copied(source: &EndpointSlice) -> Option<(SliceId, EndpointSlice)> {
    let (provider, meta) = (member_name(0_u16), &source.metadata);
    let uid = meta.uid.as_deref()?;
    let id = SliceId::of_uid(uid)?;
    let service = meta.labels.as_ref()?.get(labels::SERVICE_NAME)?;
    let version = meta.resource_version.as_deref()?;
    let mut copy = source.clone();
    copy.metadata = ObjectMeta {
        name: Some(id.copy_name(&provider)),
        namespace: meta.namespace.clone(),
        labels: texts([
            (labels::SERVICE_NAME, service),
            (labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER),
            (labels::SOURCE_CLUSTER, &provider),
        ]),
        annotations: texts([(labels::SOURCE, &format!("{uid}/{version}"))]),
        ..ObjectMeta::default()
    };
    for endpoint in &mut copy.endpoints {
        endpoint.node_name = None;
        endpoint.target_ref = None;
    }
    Some((id, copy))
}
