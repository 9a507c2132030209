//! The floor: the least that a program could do. One watch on each provider, and for each event one write into each consumer;
//! and, for the start, the same lists read and passed over.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use causeway::api::labels;
use causeway::process::kube_client::name_client;
use futures::{TryStreamExt as _, future};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::{Deserialize, Serialize};

use super::pages::Asked;
pub(crate) use super::pages::Encoding;
use super::sim::simulation::Simulation;
use super::sim::text::{SliceId, member_name};

/// What the program calls itself.
const NAME: &str = "causeway-bench-floor";
/// What it says when it watches a provider.
pub(crate) const WATCHES: &str = "it watches";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file that says where the members are and what goes where
    config: PathBuf,
    /// List everything once, in that encoding, and end
    #[arg(long)]
    list: Option<Encoding>,
}

/// How a member is reached.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Access {
    /// At this URL, by anybody.
    Url(String),
    /// As a file says, in its current context.
    Kubeconfig(PathBuf),
}

impl Access {
    /// A client that repeats nothing, and asks for nothing compressed by itself.
    pub(crate) async fn client(&self) -> anyhow::Result<Client> {
        let mut config = match self {
            Self::Url(url) => Config::new(url.parse()?),
            Self::Kubeconfig(file) => {
                let kubeconfig = Kubeconfig::read_from(file)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
            }
        };
        config.default_retry = false;
        config.disable_compression = true;
        name_client(&mut config, NAME)?;
        Ok(Client::try_from(config)?)
    }
}

/// Where the members are, and what goes where.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Wiring {
    /// How each member is reached.
    pub(crate) members: Vec<Access>,
    /// The name of each member.
    pub(crate) names: Vec<String>,
    /// The members that are watched.
    pub(crate) providers: Vec<usize>,
    /// By number of the service, the members that have copies.
    pub(crate) consumers: Vec<Vec<u16>>,
    /// The only namespace that is watched; all if there is none.
    pub(crate) namespace: Option<String>,
}

impl From<&Simulation> for Wiring {
    fn from(simulation: &Simulation) -> Self {
        let members = 0..simulation.members();
        let services = || simulation.services.all().map(|(_, service)| service);
        let mut providers: Vec<_> = services()
            .map(|service| usize::from(service.provider))
            .collect();
        providers.sort_unstable();
        providers.dedup();
        Self {
            members: members
                .clone()
                .map(|number| Access::Url(simulation.member_url(number)))
                .collect(),
            names: members.map(member_name).collect(),
            providers,
            consumers: services()
                .map(|service| service.consumers.to_vec())
                .collect(),
            namespace: None,
        }
    }
}

impl Wiring {
    /// Only the first so many members.
    pub(crate) fn first(mut self, members: usize) -> Self {
        self.members.truncate(members);
        self
    }
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
        let relay = Arc::new(Relay::new(wiring).await?);
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
    async fn new(wiring: Wiring) -> anyhow::Result<Self> {
        let clients = wiring.members.iter().map(Access::client);
        Ok(Self {
            clients: future::try_join_all(clients).await?,
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
        let client = self.clients[provider].clone();
        let slices: Api<EndpointSlice> = match &self.wiring.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let newest = slices
            .list_metadata(&ListParams::default().limit(1))
            .await?;
        let mut version = newest.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().timeout(290);
        // An API server ends a watch now and then.
        loop {
            let mut events = pin!(slices.watch(&params, &version).await?);
            println!("{WATCHES}");
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                        self.copy(provider, &slice);
                        version = slice.metadata.resource_version.unwrap_or(version);
                    }
                    WatchEvent::Error(status) => bail!("the watch was refused: {status:?}"),
                    WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                }
            }
        }
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
        let asked = Asked {
            encoding,
            gzip: false,
        };
        let lists = self.clients.iter().map(|client| asked.list(client));
        let listed = future::try_join_all(lists).await?;
        println!("{}", listed.iter().map(|list| list.bytes).sum::<usize>());
        Ok(())
    }
}

/// The copy of a slice, as little as it may be changed.
pub(crate) fn copied(source: &EndpointSlice, provider: &str) -> Option<(SliceId, EndpointSlice)> {
    let meta = &source.metadata;
    let uid = meta.uid.as_deref()?;
    // What is no source is called otherwise.
    let id = SliceId::of_name(meta.name.as_deref()?)?;
    let service = meta.labels.as_ref()?.get(labels::SERVICE_NAME)?;
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
