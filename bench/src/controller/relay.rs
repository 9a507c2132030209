//! The floor: the least that a program can do. It watches each provider and makes one write into
//! each consumer for each event. For a start, it reads the same lists and passes over them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use causeway::api::labels;
use causeway::process::kube_client::name_client;
use causeway_wire::PageReader;
use futures::{TryStreamExt as _, future};
use http::HeaderValue;
use http::header::{ACCEPT, ACCEPT_ENCODING};
use http_body_util::BodyExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::core::Request;
use kube::{Api, Client, Config, Resource as _};
use serde::{Deserialize, Serialize};

use super::sim::Simulation;
use super::sim::slices::{SliceId, member_name, texts};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file with the members, and the consumers of each service
    config: PathBuf,
    /// List everything once and end
    #[arg(long)]
    list: bool,
    /// Accepted as of the controller, and ignored
    #[arg(long)]
    admin_bind: Option<String>,
}

/// Members, and the consumers of each service.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Wiring {
    /// URL of each member.
    members: Vec<String>,
    /// Members that are watched.
    pub(crate) providers: BTreeSet<usize>,
    /// Members with copies, by number of the service.
    consumers: Vec<Vec<u16>>,
}

impl Wiring {
    pub(crate) fn of(simulation: &Simulation) -> Self {
        let members = 0..simulation.members();
        let services = simulation.services.iter();
        Self {
            members: members.map(|one| simulation.member_url(one)).collect(),
            providers: services.clone().map(|one| one.provider.into()).collect(),
            consumers: services.map(|one| one.consumers.to_vec()).collect(),
        }
    }
}

/// Relays until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let text = std::fs::read(&args.config)
        .with_context(|| format!("cannot read {}", args.config.display()))?;
    let wiring: Wiring = serde_json::from_slice(&text)?;
    crate::runtime()?.block_on(async {
        let clients = wiring.members.iter().map(|member| client(member));
        let clients = clients.collect::<anyhow::Result<Vec<_>>>()?;
        if args.list {
            let lists = future::try_join_all(clients.iter().map(list));
            return lists.await.map(drop);
        }
        let relay = Arc::new(Relay { wiring, clients });
        let providers = relay.wiring.providers.iter();
        let following = providers.map(|provider| tokio::spawn(follow(relay.clone(), *provider)));
        for ended in future::join_all(following).await {
            ended??;
        }
        Ok(())
    })
}

/// Returns a client that repeats nothing and requests nothing compressed.
fn client(url: &str) -> anyhow::Result<Client> {
    let mut config = Config::new(url.parse()?);
    config.default_retry = false;
    config.disable_compression = true;
    name_client(&mut config, "causeway-bench-floor")?;
    Ok(Client::try_from(config)?)
}

/// Approximate bytes of a page.
const PAGE: usize = 2 * 1024 * 1024;
/// Objects of the first page, as their size is unknown.
const FIRST_PAGE: u32 = 50;

/// Lists all EndpointSlices as protobuf, in pages of the size that the controller requests, and
/// passes over them.
pub(crate) async fn list(client: &Client) -> anyhow::Result<()> {
    let all = Request::new(EndpointSlice::url_path(&(), None));
    let mut params = ListParams::default().limit(FIRST_PAGE);
    let mut buffer = Vec::new();
    loop {
        let mut request = all.list(&params)?;
        let protobuf = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
        request.headers_mut().insert(ACCEPT, protobuf);
        let uncompressed = HeaderValue::from_static("identity");
        request.headers_mut().insert(ACCEPT_ENCODING, uncompressed);
        let answer = client.send(request.map(Body::from)).await?;
        let status = answer.status();
        ensure!(status.is_success(), "an API server answers {status}");
        let body = answer.into_body().collect().await?.to_bytes();
        let (mut reader, mut part) = (PageReader::new(PAGE, usize::MAX, &mut buffer), &*body);
        let mut count = 0;
        while reader.next(&mut part)?.is_some() {
            count += 1;
        }
        let each = body.len() / count.max(1);
        params.limit = Some(u32::try_from(PAGE / each.max(1))?.clamp(2, 500));
        params.continue_token = reader.finish()?.0.token;
        if params.continue_token.is_none() {
            return Ok(());
        }
    }
}

struct Relay {
    wiring: Wiring,
    clients: Vec<Client>,
}

async fn follow(relay: Arc<Relay>, provider: usize) -> anyhow::Result<()> {
    let slices = Api::<EndpointSlice>::all(relay.clients[provider].clone());
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
                    relay.copy(provider, &slice);
                    version = slice.metadata.resource_version.unwrap_or(version);
                }
                WatchEvent::Error(status) => bail!("the watch was refused: {status:?}"),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            }
        }
    }
}

impl Relay {
    /// Starts the writes of a copy into each consumer.
    fn copy(&self, provider: usize, source: &EndpointSlice) {
        let Some((id, copy)) = copied(source, &member_name(provider)) else {
            return;
        };
        let namespace = source.metadata.namespace.clone().unwrap_or_default();
        let copy = Arc::new(copy);
        for consumer in &self.wiring.consumers[id.service as usize] {
            let client = self.clients[usize::from(*consumer)].clone();
            let api = Api::<EndpointSlice>::namespaced(client, &namespace);
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
}

/// Returns the copy of a slice; `None` if the slice is no source.
fn copied(source: &EndpointSlice, provider: &str) -> Option<(SliceId, EndpointSlice)> {
    let meta = &source.metadata;
    let uid = meta.uid.as_deref()?;
    let id = SliceId::of_uid(uid)?;
    let service = meta.labels.as_ref()?.get(labels::SERVICE_NAME)?;
    let version = meta.resource_version.as_deref()?;
    let mut copy = source.clone();
    copy.metadata = ObjectMeta {
        name: Some(id.copy_name(provider)),
        namespace: meta.namespace.clone(),
        labels: texts([
            (labels::SERVICE_NAME, service),
            (labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER),
            (labels::SOURCE_CLUSTER, provider),
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
