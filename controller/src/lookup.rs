//! Single requests to API servers for what their watches do not show, or not for sure.

mod queue;

use std::time::Duration;

use causeway::api;
use causeway::domain::ServiceKey;
use causeway_engine::model::{Failure, Propagation};
use http::Request;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::event::Event;
use crate::failure::{Classify as _, classify};

pub use self::queue::{LookupQueue, REMEMBERED};

/// When a lookup that failed is repeated.
pub const AGAIN: Duration = Duration::from_secs(5);

/// After how long a propagation is looked up again that has come to its end, or cannot be read.
pub const SELDOM: Duration = Duration::from_secs(300);

const DEADLINE: Duration = Duration::from_secs(10);

/// Looks up whether the MultiClusterService exists; the result comes as [`Event::LookedUp`].
pub async fn multi_cluster_service(hub: Client, key: ServiceKey, events: mpsc::Sender<Event>) {
    let api = Api::<api::MultiClusterService>::namespaced(hub, &key.namespace);
    let exists = match timeout(DEADLINE, api.get_metadata_opt(&key.name)).await {
        Ok(found) => found.map(|found| found.is_some()).classified(),
        Err(_) => Err(Failure::timeout()),
    };
    tell(&events, Event::LookedUp { key, exists }).await;
}

/// Looks up the state of Karmada's propagation of a Service, by its ResourceBinding if there is one; the result comes as [`Event::Propagated`].
pub async fn propagation(hub: Client, key: ServiceKey, events: mpsc::Sender<Event>) {
    let path = format!(
        "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings/{}-service",
        key.namespace, key.name
    );
    let binding = document::<Propagation>(&hub, &path, DEADLINE).await;
    let outcome = binding.map(Option::unwrap_or_default);
    tell(&events, Event::Propagated { key, outcome }).await;
}

/// Gets a document; `None` where the API server does not serve it.
pub(crate) async fn document<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    deadline: Duration,
) -> Result<Option<T>, Failure> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)
        .classified()?;
    let answer = timeout(deadline, client.request::<T>(request)).await;
    match answer.map_err(|_| Failure::timeout())? {
        Ok(document) => Ok(Some(document)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(classify(&error)),
    }
}

async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("lookup result dropped, shutting down");
    }
}
