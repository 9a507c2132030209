//! A hub with its Services, the webhook as it is delivered, and the floor.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use causeway::api::{Cluster, ClusterSpec, SyncMode};
use causeway_tests::reaper::{Process, Program};
use causeway_tests::{Fleet, Installation, Running, SOON, eventually, service};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::load::Load;
use super::reviews;
use crate::machine;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Hub and servers. The servers are dropped before the hub.
pub(crate) struct Environment {
    pub(crate) webhook: Running,
    noop: Process,
    /// Host and port of the floor.
    pub(crate) floor: String,
    tls: Arc<ClientConfig>,
    pub(crate) installation: Installation,
    pub(crate) fleet: Fleet,
}

impl Environment {
    /// Starts the hub, fills it, and starts the servers on their core.
    pub(crate) async fn start(services: usize) -> anyhow::Result<Self> {
        let fleet = Fleet::builder().start().await;
        let installation = Installation::new(&fleet).await;
        fill(&fleet.hub().client(), services).await?;
        let webhook = installation.webhook().on_core(machine::SERVER);
        let webhook = webhook.start().await;
        let directory = fleet.directory().join("noop");
        installation.write_certificate(&directory, &installation.certificate(DAY));
        let free = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let log = fleet.directory().join("noop.log");
        fleet.add_log(&log);
        let program = Program::new(std::env::current_exe()?, log)
            .arg("noop")
            .arg(format!("--bind={free}"))
            .arg(format!("--tls-dir={}", directory.display()))
            .on_core(machine::SERVER);
        let noop = fleet.reaper().run(program);
        eventually("the floor listens", SOON, || async {
            TcpStream::connect(free).await.map(drop)
        })
        .await;
        let mut roots = RootCertStore::empty();
        let authority = installation.authority().pem().as_bytes();
        roots.add(CertificateDer::from_pem_slice(authority)?)?;
        let tls = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            noop,
            webhook,
            floor: free.to_string(),
            tls: Arc::new(tls),
            installation,
            fleet,
        })
    }

    /// Has the hub run for a moment, so that the webhooks' watches do not find it gone.
    pub(crate) fn wake_hub(&self) {
        self.fleet.hub().resume();
        self.fleet.hub().pause();
    }

    /// Returns the process of the floor.
    pub(crate) fn noop(&self) -> u32 {
        self.noop.pid()
    }

    /// Returns requests to the server at an address, sent for so long after a time to warm up.
    pub(crate) fn load(
        &self,
        (address, process): (&str, u32),
        requests: impl Iterator<Item = Bytes>,
        connections: usize,
        [warm_up, measured]: [Duration; 2],
    ) -> anyhow::Result<Load> {
        Ok(Load {
            address: address.parse()?,
            tls: self.tls.clone(),
            server: process,
            requests: requests.collect(),
            connections,
            warm_up,
            measured,
        })
    }
}

/// Checks that a webhook has allowed every request.
pub(crate) async fn nothing_was_refused(webhook: &Running) -> anyhow::Result<()> {
    let metrics = webhook.metrics().await;
    let name = "causeway_webhook_request_duration_seconds_count";
    let count = |decision| metrics.get(name, &[("decision", decision)]);
    ensure!(count("allowed").is_some(), "no answer was counted");
    for decision in ["denied", "error"] {
        let count = count(decision).unwrap_or_default();
        ensure!(count == 0.0, "{count} answers were {decision}");
    }
    Ok(())
}

async fn fill(client: &Client, services: usize) -> anyhow::Result<()> {
    let all = || client.clone();
    let namespaces = (0..reviews::NAMESPACES).map(|number| {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(reviews::namespace(number));
        (Api::all(all()), namespace)
    });
    create(namespaces).await?;
    let spec = ClusterSpec {
        sync_mode: Some(SyncMode::Push),
        ..ClusterSpec::default()
    };
    let members = (0..reviews::MEMBERS).map(reviews::member);
    let clusters = members.map(|name| (Api::all(all()), Cluster::new(&name, spec.clone())));
    create(clusters).await?;
    // Headless, as an API server allocates no more than a hundred addresses a second.
    let services = (0..services).map(|number| {
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
        (Api::namespaced(all(), &reviews::namespace(number)), object)
    });
    create(services).await
}

async fn create<K>(objects: impl Iterator<Item = (Api<K>, K)>) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    const AT_ONCE: usize = 32;
    let created = stream::iter(objects).map(async |(api, object)| {
        let made = api.create(&PostParams::default(), &object).await;
        made.map(drop).context("the hub cannot be filled")
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}
