//! Questions to API servers that their watches do not answer, or not for sure.

mod lookups;

use std::time::Duration;

use causeway::api;
use causeway::domain::ServiceKey;
use http::Request;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::event::Event;
use crate::failure::Failure;
use crate::karmada::binding;

pub use self::lookups::{Lookups, REMEMBERED};

/// When a question that found no answer is put again.
pub const AGAIN: Duration = Duration::from_secs(5);

/// For how long what a propagation came to is not asked for again: once it has come to its end, and where it cannot be asked for.
pub const SELDOM: Duration = Duration::from_secs(300);

const DEADLINE: Duration = Duration::from_secs(10);

/// Asks whether the MultiClusterService exists; the answer comes as [`Event::Asked`].
pub async fn multi_cluster_service(hub: Client, key: ServiceKey, events: mpsc::Sender<Event>) {
    let api = Api::<api::MultiClusterService>::namespaced(hub, &key.namespace);
    let exists = match timeout(DEADLINE, api.get_metadata_opt(&key.name)).await {
        Ok(found) => found.map(|found| found.is_some()).map_err(Failure::from),
        Err(_) => Err(Failure::timeout()),
    };
    tell(&events, Event::Asked { key, exists }).await;
}

/// Asks what became of Karmada's propagation of a Service; the answer comes as [`Event::Propagated`].
pub async fn propagation(hub: Client, key: ServiceKey, events: mpsc::Sender<Event>) {
    let outcome = binding::propagation(&hub, &key).await;
    tell(&events, Event::Propagated { key, outcome }).await;
}

/// Asks for a document; `None` where the API server does not serve it.
pub(crate) async fn document<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    deadline: Duration,
) -> Result<Option<T>, Failure> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(|error| Failure::from(kube::Error::HttpError(error)))?;
    let answer = timeout(deadline, client.request::<T>(request)).await;
    match answer.map_err(|_| Failure::timeout())? {
        Ok(document) => Ok(Some(document)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("nobody listens for an answer any more");
    }
}
