//! A hub with its Services, the webhook as it is delivered, and the floor.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use causeway_tests::reaper::{Process, Program};
use causeway_tests::{Cluster, Fleet, Installation, Running, SOON, eventually, ports, service};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Api;
use kube::api::PostParams;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;

use super::reviews;
use crate::machine;

/// Hub and servers. The servers are dropped before the hub.
pub(crate) struct Environment {
    pub(crate) webhook: Running,
    pub(crate) noop: Process,
    /// Host and port of the floor.
    pub(crate) floor: String,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) installation: Installation,
    pub(crate) fleet: Fleet,
}

impl Environment {
    /// Starts the hub, fills it, and starts the servers on their core.
    pub(crate) async fn start(services: usize) -> anyhow::Result<Self> {
        let fleet = Fleet::builder().start().await;
        let installation = Installation::new(&fleet).await;
        fill(fleet.hub(), services).await?;
        let webhook = installation.webhook().on_core(machine::SERVER);
        let webhook = webhook.start().await;
        let free = format!("127.0.0.1:{}", ports::fresh());
        let log = fleet.directory().join("noop.log");
        fleet.add_log(&log);
        let program = Program::new(std::env::current_exe()?, log)
            .arg("noop")
            .arg(format!("--bind={free}"))
            .arg(format!("--tls-dir={}", webhook.tls().display()))
            .on_core(machine::SERVER);
        let noop = fleet.reaper().run(program);
        eventually("the floor listens", SOON, || async {
            TcpStream::connect(&free).await.map(drop)
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
            floor: free,
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

async fn fill(hub: &Cluster, services: usize) -> anyhow::Result<()> {
    const AT_ONCE: usize = 32;
    let of = |header: &str, name: String, rest: &str| {
        format!("---\n{{{header}, metadata: {{name: {name}}}{rest}}}\n")
    };
    let namespaces = (0..reviews::NAMESPACES).map(|number| {
        let header = "apiVersion: v1, kind: Namespace";
        of(header, reviews::namespace(number), "")
    });
    let members = (0..reviews::MEMBERS).map(|number| {
        let header = "apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster";
        of(header, reviews::member(number), ", spec: {syncMode: Push}")
    });
    let manifest: String = namespaces.chain(members).collect();
    hub.apply(&manifest).await.ok();
    // Headless, as an API server allocates no more than a hundred addresses a second.
    let services = stream::iter(0..services).map(async |number| {
        let object = service(&reviews::service(number)).headless();
        let object = object.port("http", 80).port("metrics", 9090).object();
        let api = Api::namespaced(hub.client(), &reviews::namespace(number));
        let made = api.create(&PostParams::default(), &object).await;
        made.map(drop).context("the hub cannot be filled")
    });
    services.buffer_unordered(AT_ONCE).try_collect().await
}
