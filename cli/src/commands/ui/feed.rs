//! Feed of the page: snapshots of everything shown, and changes.
//!
//! Memory is bounded for any behaviour of the clients. They share every event, a client that lags
//! by more than 64 changes receives a new snapshot, and the feed retains only the last event of
//! each explanation.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use causeway::domain::ServiceKey;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, mpsc, watch};

/// Maximum number of changes that a client may lag behind.
const KEPT: usize = 64;
/// Maximum number of pending requests for explanations.
const REQUESTS: usize = 64;

/// JSON as sent to clients.
type Json = Box<RawValue>;

/// Current rows. `None` marks a removed row.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub server: Option<Json>,
    pub clusters: BTreeMap<String, Option<Json>>,
    pub services: BTreeMap<String, Option<Json>>,
}

/// Shown state and its subscribers.
#[derive(Debug)]
pub(super) struct Feed {
    shown: Mutex<Shown>,
    changes: broadcast::Sender<Bytes>,
    explained: Mutex<HashMap<ServiceKey, watch::Sender<Option<Bytes>>>>,
    requests: mpsc::Sender<ServiceKey>,
}

#[derive(Debug, Default)]
struct Shown {
    server: Option<Json>,
    clusters: BTreeMap<String, Json>,
    services: BTreeMap<String, Json>,
    /// Cached event with the complete state, valid until the next change.
    snapshot: Option<Bytes>,
}

#[derive(Serialize)]
struct Snapshot<'a> {
    server: &'a Option<Json>,
    clusters: Vec<&'a RawValue>,
    services: Vec<&'a RawValue>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clusters: Vec<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    services: Vec<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed_clusters: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed_services: Vec<String>,
}

/// Serializes a value to JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Json, serde_json::Error> {
    serde_json::value::to_raw_value(value)
}

/// Returns a server-sent event (HTML, section 9.2). `data` has no line break.
pub(super) fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl Feed {
    /// Returns an empty feed and the receiver of requested explanations.
    pub(super) fn new() -> (Self, mpsc::Receiver<ServiceKey>) {
        let (requests, requested) = mpsc::channel(REQUESTS);
        let feed = Self {
            shown: Mutex::default(),
            changes: broadcast::Sender::new(KEPT),
            explained: Mutex::default(),
            requests,
        };
        (feed, requested)
    }

    /// Returns a snapshot as one event, and a receiver of all later changes.
    pub(super) fn subscribe(
        &self,
    ) -> Result<(Bytes, broadcast::Receiver<Bytes>), serde_json::Error> {
        let mut shown = self.shown.lock();
        let snapshot = match &shown.snapshot {
            Some(snapshot) => snapshot.clone(),
            None => shown.snapshot()?,
        };
        shown.snapshot = Some(snapshot.clone());
        Ok((snapshot, self.changes.subscribe()))
    }

    /// Whether the page shows a row.
    pub(super) fn shows(&self, row_key: &str) -> bool {
        self.shown.lock().services.contains_key(row_key)
    }

    /// Stores an update and sends the difference to all clients.
    pub(super) fn publish(&self, update: Update) -> Result<(), serde_json::Error> {
        let mut shown = self.shown.lock();
        let Some(changed) = shown.take(update) else {
            return Ok(());
        };
        let data = serde_json::to_string(&changed)?;
        // Fails without any client.
        self.changes.send(event("change", &data)).ok();
        Ok(())
    }

    /// Subscribes to the explanation of a service. The value is `None` until the first computation.
    pub(super) async fn explain(&self, key: ServiceKey) -> watch::Receiver<Option<Bytes>> {
        let receiver = {
            let mut explained = self.explained.lock();
            let sender = explained
                .entry(key.clone())
                .or_insert_with(|| watch::Sender::new(None));
            sender.subscribe()
        };
        self.requests.send(key).await.ok();
        receiver
    }

    /// Whether a client may be subscribed to the explanation of the service.
    pub(super) fn is_explained(&self, key: &ServiceKey) -> bool {
        self.explained.lock().contains_key(key)
    }

    /// Returns the services with subscribers to their explanation.
    pub(super) fn explained(&self) -> Vec<ServiceKey> {
        let mut explained = self.explained.lock();
        explained.retain(|_, sender| sender.receiver_count() > 0);
        explained.keys().cloned().collect()
    }

    /// Sends an explanation, as an event, to its subscribers.
    pub(super) fn show(&self, key: &ServiceKey, event: Bytes) {
        let mut explained = self.explained.lock();
        let Some(sender) = explained.get(key) else {
            return;
        };
        if sender.receiver_count() == 0 {
            explained.remove(key);
            return;
        }
        sender.send_if_modified(|last| {
            let is_new = last.as_ref() != Some(&event);
            *last = Some(event);
            is_new
        });
    }
}

impl Shown {
    fn snapshot(&self) -> Result<Bytes, serde_json::Error> {
        let snapshot = Snapshot {
            server: &self.server,
            clusters: self.clusters.values().map(AsRef::as_ref).collect(),
            services: self.services.values().map(AsRef::as_ref).collect(),
        };
        Ok(event("snapshot", &serde_json::to_string(&snapshot)?))
    }

    /// Stores an update and returns the difference to the state before.
    fn take(&mut self, update: Update) -> Option<Changed> {
        let mut changed = Changed::default();
        if let Some(server) = update.server
            && self.server.as_deref().map(RawValue::get) != Some(server.get())
        {
            changed.server = Some(server.clone());
            self.server = Some(server);
        }
        (changed.clusters, changed.removed_clusters) = take(&mut self.clusters, update.clusters);
        (changed.services, changed.removed_services) = take(&mut self.services, update.services);
        let is_new = changed.server.is_some()
            || !changed.clusters.is_empty()
            || !changed.services.is_empty()
            || !changed.removed_clusters.is_empty()
            || !changed.removed_services.is_empty();
        is_new.then(|| {
            self.snapshot = None;
            changed
        })
    }
}

/// Stores an update of rows and returns changed rows and the keys of removed ones.
fn take(
    shown: &mut BTreeMap<String, Json>,
    update: BTreeMap<String, Option<Json>>,
) -> (Vec<Json>, Vec<String>) {
    let (mut new, mut gone) = (Vec::new(), Vec::new());
    for (key, row) in update {
        match row {
            Some(row) if shown.get(&key).is_some_and(|last| last.get() == row.get()) => {}
            Some(row) => {
                new.push(row.clone());
                shown.insert(key, row);
            }
            None => gone.extend(shown.remove(&key).map(|_| key)),
        }
    }
    (new, gone)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn services<const N: usize>(rows: [(&str, Option<u32>); N]) -> Update {
        let rows = rows.map(|(key, row)| {
            let row = row.map(|row| super::json(&row).expect("JSON"));
            (key.to_owned(), row)
        });
        Update {
            services: rows.into(),
            ..Update::default()
        }
    }

    /// Returns the name of an event and its data.
    fn parsed(event: &Bytes) -> (String, Value) {
        let text = std::str::from_utf8(event).expect("text");
        let (name, data) = text.split_once('\n').expect("two lines");
        let data = data.strip_prefix("data: ").expect("data");
        let data = data.strip_suffix("\n\n").expect("an end");
        assert!(!data.contains('\n'), "{data}");
        let name = name.strip_prefix("event: ").expect("a name");
        (name.to_owned(), serde_json::from_str(data).expect("JSON"))
    }

    #[test]
    fn a_client_gets_everything_and_then_what_changes() {
        let (feed, _) = Feed::new();
        feed.publish(services([("a", Some(1)), ("b", Some(2))]))
            .expect("JSON");
        let (snapshot, mut changes) = feed.subscribe().expect("JSON");
        let (name, data) = parsed(&snapshot);
        assert_eq!(
            (name.as_str(), &data["services"]),
            ("snapshot", &json!([1, 2]))
        );
        feed.publish(services([("a", Some(1))])).expect("JSON");
        assert!(changes.try_recv().is_err(), "nothing is new");
        feed.publish(services([("a", Some(3)), ("b", None), ("c", None)]))
            .expect("JSON");
        let (name, data) = parsed(&changes.try_recv().expect("a change"));
        assert_eq!(name, "change");
        assert_eq!(data, json!({ "services": [3], "removedServices": ["b"] }));
        let (snapshot, _) = feed.subscribe().expect("JSON");
        assert_eq!(parsed(&snapshot).1["services"], json!([3]));
    }

    #[test]
    fn clients_share_what_they_are_sent() {
        let (feed, _) = Feed::new();
        feed.publish(services([("a", Some(1))])).expect("JSON");
        let (one, _) = feed.subscribe().expect("JSON");
        let (two, _) = feed.subscribe().expect("JSON");
        assert_eq!(one.as_ptr(), two.as_ptr());
    }

    #[tokio::test]
    async fn an_explanation_that_nobody_looks_at_any_more_is_dropped() {
        let (feed, mut requested) = Feed::new();
        let key = ServiceKey::new("shop", "foo");
        let mut receiver = feed.explain(key.clone()).await;
        assert_eq!(requested.recv().await, Some(key.clone()));
        feed.show(&key, event("explain", "{}"));
        receiver.changed().await.expect("it is shown");
        assert!(receiver.borrow_and_update().is_some());
        feed.show(&key, event("explain", "{}"));
        assert!(!receiver.has_changed().expect("it is kept"));
        drop(receiver);
        feed.show(&key, event("gone", "{}"));
        assert!(!feed.is_explained(&key));
    }
}
