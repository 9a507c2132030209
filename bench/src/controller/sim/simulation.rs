//! A hub and its members, served.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::journal::Journal;
use super::kind::{Kind, key};
use super::server::{Shared, serve};
use super::services::{ServiceSpec, Services};
use super::store::{Body, Store};
use super::text::{SliceId, namespace};

/// A hub and its members. They are served until it is dropped.
pub(crate) struct Simulation {
    pub(crate) address: SocketAddr,
    pub(crate) services: Arc<Services>,
    pub(crate) journal: Arc<Journal>,
    shared: Arc<Shared>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Simulation {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Simulation {
    /// Serves API servers that hold nothing yet.
    pub(super) async fn empty(members: usize, services: Vec<ServiceSpec>) -> anyhow::Result<Self> {
        let services = Arc::new(Services::new(services));
        let journal = Arc::new(Journal::default());
        let stores = (0..=members).map(|number| Arc::new(Store::new(number, services.clone())));
        let shared = Arc::new(Shared {
            stores: stores.collect(),
            journal: journal.clone(),
        });
        let (address, task) = serve(shared.clone(), None).await?;
        Ok(Self {
            address,
            services,
            journal,
            shared,
            tasks: vec![task],
        })
    }

    /// Serves the same over TLS as well, on the port that it gives.
    pub(super) async fn serve_over_tls(&mut self, tls: TlsAcceptor) -> anyhow::Result<SocketAddr> {
        let (address, task) = serve(self.shared.clone(), Some(tls)).await?;
        self.tasks.push(task);
        Ok(address)
    }

    pub(crate) fn members(&self) -> usize {
        self.shared.stores.len() - 1
    }

    pub(crate) fn hub(&self) -> &Arc<Store> {
        &self.shared.stores[0]
    }

    pub(crate) fn member(&self, number: usize) -> &Arc<Store> {
        &self.shared.stores[number + 1]
    }

    /// The URL of the hub's API server.
    pub(crate) fn hub_url(&self) -> String {
        format!("http://{}/hub", self.address)
    }

    /// The URL of a member's API server.
    pub(crate) fn member_url(&self, number: usize) -> String {
        format!("http://{}/member/{number}", self.address)
    }

    /// A pod of the slice is replaced by another. It is awaited in all consumers that answer.
    pub(crate) fn replace_pod(&self, id: SliceId) {
        let service = self.services.get(id.service);
        let key = key(Some(&namespace(id.service)), &id.name());
        let provider = self.member(service.provider.into());
        let change = provider.change(Kind::EndpointSlice, &key);
        let Some(Body::Source(_, version)) = change.entry().map(|entry| &entry.body) else {
            panic!("there is no slice {key}");
        };
        let body = Body::Source(id, version + 1);
        let version = change.next_version();
        let answers = |consumer: &u16| !self.member((*consumer).into()).hangs();
        let consumers = service.consumers.iter().copied().filter(answers).collect();
        self.journal.changed(id, version, consumers, Instant::now());
        change.put(body);
    }
}
