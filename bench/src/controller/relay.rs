//! The floor: the least that a program could do. One watch on each provider, and for each event one write into each consumer;
//! and, for the start, the same lists read and passed over.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use anyhow::Context as _;
use causeway::api::labels;
use causeway::process::kube_client::name_client;
use causeway_engine::model::protobuf::{self, Fields};
use futures::io::AsyncReadExt as _;
use futures::{TryStreamExt as _, future};
use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::{Api, Client, Config, Resource as _};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::sim::text::{SliceId, service_number};

/// What the program calls itself.
pub(crate) const NAME: &str = "causeway-bench-floor";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file that says where the members are and what goes where
    config: PathBuf,
    /// List everything once, in that encoding, and end
    #[arg(long)]
    list: Option<Encoding>,
}

/// How EndpointSlices are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        }
    }
}

/// Where the members are, and what goes where.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Wiring {
    /// The URL of each member.
    pub(crate) members: Vec<String>,
    /// The name of each member.
    pub(crate) names: Vec<String>,
    /// The members that are watched.
    pub(crate) providers: Vec<usize>,
    /// By number of the service, the members that have copies.
    pub(crate) consumers: Vec<Vec<u16>>,
}

/// Relays until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let text = std::fs::read(&args.config)
        .with_context(|| format!("cannot read {}", args.config.display()))?;
    let wiring: Wiring = serde_json::from_slice(&text)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let relay = Arc::new(Relay::new(wiring)?);
        match args.list {
            Some(encoding) => relay.list_all(encoding).await,
            None => relay.follow_all().await,
        }
    })
}

struct Relay {
    wiring: Wiring,
    clients: Vec<Client>,
}

impl Relay {
    fn new(wiring: Wiring) -> anyhow::Result<Self> {
        let client = |url: &String| {
            let mut config = Config::new(url.parse()?);
            config.default_retry = false;
            name_client(&mut config, NAME)?;
            Ok(Client::try_from(config)?)
        };
        let clients = wiring.members.iter().map(client);
        Ok(Self {
            clients: clients.collect::<anyhow::Result<_>>()?,
            wiring,
        })
    }

    async fn follow_all(self: &Arc<Self>) -> anyhow::Result<()> {
        let providers = self.wiring.providers.iter().copied();
        let following = providers.map(|provider| {
            let relay = self.clone();
            tokio::spawn(async move { relay.follow(provider).await })
        });
        for ended in future::join_all(following).await {
            ended??;
        }
        Ok(())
    }

    async fn follow(self: &Arc<Self>, provider: usize) -> anyhow::Result<()> {
        let slices = Api::<EndpointSlice>::all(self.clients[provider].clone());
        let newest = slices
            .list_metadata(&ListParams::default().limit(1))
            .await?;
        let version = newest.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().timeout(290);
        let mut events = pin!(slices.watch(&params, &version).await?);
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(slice) | WatchEvent::Modified(slice) = event {
                self.copy(provider, &slice);
            }
        }
        anyhow::bail!("the watch of {} ended", self.wiring.names[provider])
    }

    /// Starts the writes of a copy into each consumer.
    fn copy(self: &Arc<Self>, provider: usize, source: &EndpointSlice) {
        let Some((id, copy)) = copied(source, &self.wiring.names[provider]) else {
            return;
        };
        let namespace = source.metadata.namespace.clone().unwrap_or_default();
        let copy = Arc::new(copy);
        for consumer in self.wiring.consumers[id.service as usize].iter() {
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

    async fn list_all(&self, encoding: Encoding) -> anyhow::Result<()> {
        let lists = self.clients.iter().map(|client| list(client, encoding));
        let bytes = future::try_join_all(lists).await?;
        println!("{}", bytes.into_iter().sum::<usize>());
        Ok(())
    }
}

/// The copy of a slice, as little as it may be changed.
fn copied(source: &EndpointSlice, provider: &str) -> Option<(SliceId, EndpointSlice)> {
    let meta = &source.metadata;
    let uid = meta.uid.as_deref()?;
    let id = SliceId::of_uid(uid)?;
    let service = meta.labels.as_ref()?.get(labels::SERVICE_NAME)?;
    service_number(service)?;
    let version = meta.resource_version.as_deref()?;
    let mut copy = source.clone();
    copy.metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        name: Some(id.copy_name(provider)),
        namespace: meta.namespace.clone(),
        labels: Some(BTreeMap::from(
            [
                (labels::SERVICE_NAME, service.as_str()),
                (labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER),
                (labels::SOURCE_CLUSTER, provider),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        )),
        annotations: Some([(labels::SOURCE.to_owned(), format!("{uid}/{version}"))].into()),
        ..Default::default()
    };
    for endpoint in &mut copy.endpoints {
        endpoint.node_name = None;
        endpoint.target_ref = None;
    }
    Some((id, copy))
}

/// Bytes of a page, about.
const PAGE: usize = 2 * 1024 * 1024;

/// A page that was passed over: how many objects it has, and where it goes on.
fn pass_over(body: &[u8], encoding: Encoding) -> anyhow::Result<(usize, Option<String>)> {
    #[derive(Deserialize)]
    struct Page {
        metadata: ListMeta,
        items: Vec<IgnoredAny>,
    }
    if encoding == Encoding::Json {
        let page: Page = serde_json::from_slice(body)?;
        return Ok((page.items.len(), page.metadata.continue_));
    }
    let (mut objects, mut token) = (0, None);
    for field in Fields::of(protobuf::object(body)?) {
        match field? {
            (1, meta) => {
                for field in Fields::of(meta.bytes()) {
                    if let (3, value) = field? {
                        token = Some(value.text()?.to_owned());
                    }
                }
            }
            (2, object) => {
                let all_read = Fields::of(object.bytes()).all(|field| field.is_ok());
                anyhow::ensure!(all_read, "an object is malformed");
                objects += 1;
            }
            _ => {}
        }
    }
    Ok((objects, token))
}

/// Lists the slices of a member in pages, as the controller does, and passes over them; gives how many bytes they were.
async fn list(client: &Client, encoding: Encoding) -> anyhow::Result<usize> {
    let request = Request::new(EndpointSlice::url_path(&(), None));
    let (mut total, mut token, mut limit) = (0, None, 50);
    loop {
        let params = ListParams {
            limit: Some(limit),
            continue_token: token,
            ..ListParams::default()
        };
        let mut request = request.list(&params)?;
        if encoding == Encoding::Protobuf {
            let protobuf = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
            request.headers_mut().insert(ACCEPT, protobuf);
        }
        let mut stream = pin!(client.request_stream(request).await?);
        let mut body = Vec::new();
        stream.read_to_end(&mut body).await?;
        total += body.len();
        let (objects, next) = pass_over(&body, encoding)?;
        let each = body.len() / objects.max(1);
        limit = u32::try_from(PAGE / each.max(1))?.clamp(2, 500);
        token = next.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(total);
        }
    }
}
