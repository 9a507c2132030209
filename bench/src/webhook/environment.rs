//! What the webhook is measured in: a hub with its Services, the webhook as it is delivered, and the floor.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use causeway::api::{Cluster, ClusterSpec};
use causeway_tests::reaper::{Process, Program};
use causeway_tests::{Fleet, Installation, Running, SOON, eventually, service};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::reviews;
use crate::cores;

/// How many creates are under way at once while the hub is filled.
const FILLERS: usize = 32;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A server that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) process: u32,
}

/// Everything, running. The servers are dropped before the hub.
pub(crate) struct Environment {
    pub(crate) webhook: Running,
    noop: Process,
    noop_address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) installation: Installation,
    pub(crate) fleet: Fleet,
}

impl Environment {
    /// Starts the hub, fills it, and starts the servers on their core.
    pub(crate) async fn start(services: usize) -> anyhow::Result<Self> {
        let fleet = Fleet::builder().start().await;
        let installation = Installation::new(&fleet).await;
        let begun = Instant::now();
        fill(&fleet.hub().client(), services).await?;
        let took = begun.elapsed().as_secs_f64();
        eprintln!("the hub holds {services} Services ({took:.0} s)");

        let webhook = installation.webhook().on_core(cores::SERVER).start().await;
        let directory = fleet.directory().join("noop");
        installation.write_certificate(&directory, &installation.certificate(DAY));
        let noop_address = free_address()?;
        let program = Program::new(std::env::current_exe()?, fleet.directory().join("noop.log"))
            .arg("noop")
            .arg(format!("--bind={noop_address}"))
            .arg(format!("--tls-dir={}", directory.display()))
            .on_core(cores::SERVER);
        fleet.add_log(&fleet.directory().join("noop.log"));
        let noop = fleet.reaper().run(program);
        eventually("the floor listens", SOON, || async {
            TcpStream::connect(noop_address).await.map(drop)
        })
        .await;
        Ok(Self {
            noop,
            webhook,
            noop_address,
            tls: Arc::new(client_config(installation.authority().pem())?),
            installation,
            fleet,
        })
    }

    pub(crate) fn webhook(&self) -> anyhow::Result<Target> {
        Ok(Target {
            address: self.webhook.bind().parse()?,
            process: self.webhook.process().pid(),
        })
    }

    pub(crate) fn floor(&self) -> Target {
        Target {
            address: self.noop_address,
            process: self.noop.pid(),
        }
    }
}

/// Taken by nobody at this moment.
fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?)
}

fn client_config(authority: &str) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    Ok(ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth())
}

async fn fill(client: &Client, services: usize) -> anyhow::Result<()> {
    let namespaces = (0..reviews::NAMESPACES).map(|number| Namespace {
        metadata: named(reviews::namespace(number)),
        ..Namespace::default()
    });
    create(namespaces.map(|namespace| (Api::all(client.clone()), namespace))).await?;
    let members =
        (0..reviews::MEMBERS).map(|number| Cluster::new(&reviews::member(number), member()));
    create(members.map(|cluster| (Api::all(client.clone()), cluster))).await?;
    let services = (0..services).map(|number| {
        let api = Api::namespaced(client.clone(), &reviews::namespace(number));
        (api, object(number))
    });
    create(services).await
}

fn named(name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        ..ObjectMeta::default()
    }
}

/// A member of which nothing but its name counts.
fn member() -> ClusterSpec {
    ClusterSpec {
        sync_mode: Some(causeway::api::SyncMode::Push),
        ..ClusterSpec::default()
    }
}

/// A Service as a Helm chart has it. Headless, for an API server gives out no more than a hundred addresses a second.
fn object(number: usize) -> Service {
    let name = reviews::service(number);
    let mut object = service(&name)
        .headless()
        .port("http", 80)
        .port("metrics", 9090)
        .annotation("meta.helm.sh/release-name", &name)
        .annotation("meta.helm.sh/release-namespace", "shop")
        .object();
    let labels = [
        ("app.kubernetes.io/name", name.as_str()),
        ("app.kubernetes.io/managed-by", "Helm"),
        ("helm.sh/chart", "shop-1.2.3"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    object.metadata.labels = Some(labels.into());
    object
}

async fn create<K>(objects: impl Iterator<Item = (Api<K>, K)>) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    stream::iter(objects)
        .map(async |(api, object)| {
            let made = api.create(&PostParams::default(), &object).await;
            made.map(drop).context("the hub cannot be filled")
        })
        .buffer_unordered(FILLERS)
        .try_collect()
        .await
}
