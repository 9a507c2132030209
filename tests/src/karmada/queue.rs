//! Imitation of controller-runtime and client-go's informers: watches with the old object of a
//! change, and a queue of keys with retries.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// Namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of(object: &impl Resource) -> Self {
        Self {
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }
}

/// Reason for another try of a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Refused(String),
    #[error("not what Karmada writes: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 409)
    }
}

/// The keys that wait for a controller; one that waits already is not added again.
pub(super) struct Queue {
    controller: &'static str,
    sender: UnboundedSender<ScheduleRequest<Key>>,
    receiver: UnboundedReceiver<ScheduleRequest<Key>>,
}

/// Adds keys to a [`Queue`].
#[derive(Clone)]
pub(super) struct Adder(UnboundedSender<ScheduleRequest<Key>>);

impl Adder {
    pub(super) fn add(&self, key: Key) {
        self.add_after(key, Duration::ZERO);
    }

    fn add_after(&self, message: Key, pause: Duration) {
        let run_at = Instant::now() + pause;
        // The worker that would receive it ends together with whoever adds.
        self.0
            .unbounded_send(ScheduleRequest { message, run_at })
            .ok();
    }
}

impl Queue {
    pub(super) fn new(controller: &'static str) -> Self {
        let (sender, receiver) = unbounded();
        Self {
            controller,
            sender,
            receiver,
        }
    }

    pub(super) fn adder(&self) -> Adder {
        Adder(self.sender.clone())
    }

    /// Works off the keys for ever, one at a time. What fails is tried again after 5 ms, twice
    /// that, and so on (`pkg/sharedcli/ratelimiterflag`); here for 5 s at most.
    pub(super) async fn work(self, mut reconcile: impl AsyncFnMut(&Key) -> Result<(), Error>) {
        let adder = self.adder();
        let mut failures: HashMap<Key, u32> = HashMap::new();
        let mut due = std::pin::pin!(scheduler(self.receiver));
        while let Some(key) = due.next().await {
            let Err(error) = reconcile(&key).await else {
                failures.remove(&key);
                continue;
            };
            let controller = self.controller;
            tracing::debug!(controller, ?key, %error, "reconcile failed");
            let failed = failures.entry(key.clone()).or_default();
            let pause = Duration::from_millis(5) * 2_u32.pow((*failed).min(10));
            *failed += 1;
            adder.add_after(key, pause.min(Duration::from_secs(5)));
        }
    }
}

/// Event that an informer sends to its handlers.
pub(super) enum Change<K> {
    Added(K),
    Updated(K, K),
    Deleted(K),
}

impl<K> Change<K> {
    pub(super) fn latest(&self) -> &K {
        match self {
            Self::Added(object) | Self::Updated(_, object) | Self::Deleted(object) => object,
        }
    }
}

/// Watches for ever, and tells every change once; a relist tells what it finds changed.
pub(super) async fn watch<K>(api: Api<K>, mut on: impl FnMut(Change<K>))
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut known = Known::default();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => known.apply(event).into_iter().for_each(&mut on),
            Err(error) => tracing::debug!(%error, "watch failed"),
        }
    }
}

struct Known<K> {
    objects: HashMap<Key, K>,
    /// The keys of a list that has begun.
    listed: HashSet<Key>,
}

impl<K> Default for Known<K> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            listed: HashSet::new(),
        }
    }
}

impl<K: Resource + Clone> Known<K> {
    fn apply(&mut self, event: watcher::Event<K>) -> Vec<Change<K>> {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.listed.insert(Key::of(&object));
                self.insert(object).into_iter().collect()
            }
            watcher::Event::InitDone => {
                let gone = self.objects.extract_if(|key, _| !self.listed.contains(key));
                gone.map(|(_, old)| Change::Deleted(old)).collect()
            }
            watcher::Event::Apply(object) => self.insert(object).into_iter().collect(),
            watcher::Event::Delete(object) => {
                self.objects.remove(&Key::of(&object));
                vec![Change::Deleted(object)]
            }
        }
    }

    fn insert(&mut self, object: K) -> Option<Change<K>> {
        match self.objects.insert(Key::of(&object), object.clone()) {
            None => Some(Change::Added(object)),
            Some(old) if old.meta().resource_version == object.meta().resource_version => None,
            Some(old) => Some(Change::Updated(old, object)),
        }
    }
}
