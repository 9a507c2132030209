//! Questions to the hub that its watches do not answer for sure.

use std::time::Duration;

use causeway::api::{self, labels};
use causeway::domain::ServiceKey;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use tokio::sync::mpsc;

use crate::event::Event;
use crate::failure::Failure;

/// When a question that found no answer is put again.
pub const AGAIN: Duration = Duration::from_secs(5);

/// When Works that are there are looked for again: they may be gone.
pub const WORKS_AGAIN: Duration = Duration::from_secs(60);

const DEADLINE: Duration = Duration::from_secs(10);

/// Asks whether the MultiClusterService exists; the answer comes as [`Event::Asked`].
pub async fn multi_cluster_service(hub: Client, key: ServiceKey, events: mpsc::Sender<Event>) {
    let api = Api::<api::MultiClusterService>::namespaced(hub, &key.namespace);
    let exists = match tokio::time::timeout(DEADLINE, api.get_metadata_opt(&key.name)).await {
        Ok(found) => found.map(|found| found.is_some()).map_err(Failure::from),
        Err(_) => Err(Failure::timeout()),
    };
    tell(&events, Event::Asked { key, exists }).await;
}

/// Asks, after a while, whether Karmada's own controllers carry the service: whether there are Works that bear its permanent-id.
/// The answer comes as [`Event::WorksSought`].
pub async fn works(
    hub: Client,
    key: ServiceKey,
    permanent_id: String,
    after: Duration,
    events: mpsc::Sender<Event>,
) {
    tokio::time::sleep(after).await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "work.karmada.io",
        "v1alpha1",
        "Work",
    ));
    let api = Api::<DynamicObject>::all_with(hub, &kind);
    let params = ListParams::default()
        .labels(&format!("{}={permanent_id}", labels::PERMANENT_ID))
        .limit(1);
    let found = match tokio::time::timeout(DEADLINE, api.list_metadata(&params)).await {
        Ok(found) => found
            .map(|found| !found.items.is_empty())
            .map_err(Failure::from),
        Err(_) => Err(Failure::timeout()),
    };
    tell(&events, Event::WorksSought { key, found }).await;
}

async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("nobody listens for an answer any more");
    }
}
