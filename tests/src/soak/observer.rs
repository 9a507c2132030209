//! Watches what consumers hold all the time: an endpoint that goes, or is there twice, is noted, and decided when it is known
//! what was changed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway::api::labels;
use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::task::AbortHandle;

use crate::Cluster;
use crate::soak::snapshot::{Key, Snapshot, is_copy, key, label};

/// Forbidden observation of an endpoint in a consumer, of a service that nobody changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The consumer.
    pub member: String,
    /// The service: a copy of the clusterset counts for the exported one.
    pub service: Key,
    what: String,
}

impl fmt::Display for Sight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = &self.service;
        write!(out, "{}: {namespace}/{name}: {}", self.member, self.what)
    }
}

/// A watch on the copies in one member.
pub struct Observer {
    member: String,
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
}

impl Observer {
    /// Begins to watch, with that client of the member.
    pub fn of(member: &Cluster, client: Client) -> Self {
        let seen = Arc::new(Mutex::new(Seen {
            member: member.name().to_owned(),
            slices: BTreeMap::new(),
            sights: Vec::new(),
        }));
        let task = tokio::spawn(watch(client, Arc::clone(&seen))).abort_handle();
        Self {
            member: member.name().to_owned(),
            seen,
            task,
        }
    }

    /// Returns the observations since the last call.
    pub fn noted(&self) -> Vec<Sight> {
        assert!(!self.task.is_finished(), "a observer has left");
        std::mem::take(&mut lock(&self.seen).sights)
    }

    /// Whether it has seen all that is there now.
    pub(super) fn has_seen(&self, snapshot: &Snapshot) -> bool {
        let there = snapshot.members[&self.member].slices.iter();
        let copies = there.filter(|(_, slice)| is_copy(slice));
        let there = copies.map(|(key, slice)| (key, slice.metadata.resource_version.as_ref()));
        let seen = lock(&self.seen);
        let known = seen.slices.iter();
        there.eq(known.map(|(key, copy)| (key, copy.version.as_ref())))
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Seen {
    member: String,
    slices: BTreeMap<Key, Copied>,
    sights: Vec<Sight>,
}

/// The Service that a copy belongs to, and its ready endpoints.
#[derive(Clone, Default)]
struct Copied {
    version: Option<String>,
    service: Key,
    addresses: BTreeSet<String>,
}

async fn watch(client: Client, seen: Arc<Mutex<Seen>>) {
    let copies = format!("{}={}", labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER);
    let config = watcher::Config::default().labels(&copies);
    let events = watcher(Api::<EndpointSlice>::all(client), config);
    let mut events = std::pin::pin!(events.default_backoff());
    let mut listed = BTreeMap::new();
    loop {
        let event = events.try_next().await;
        let mut seen = lock(&seen);
        match event {
            Ok(Some(watcher::Event::Apply(slice))) => {
                seen.replace(key(&slice), Some(copied(&slice)));
            }
            Ok(Some(watcher::Event::Delete(slice))) => seen.replace(key(&slice), None),
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(slice))) => {
                listed.insert(key(&slice), copied(&slice));
            }
            Ok(Some(watcher::Event::InitDone)) => seen.take(std::mem::take(&mut listed)),
            Ok(None) => return,
            // Its API server is away; the watch is begun again.
            Err(_) => {}
        }
    }
}

impl Seen {
    /// All that is there now. What is new comes first, so that what only moved is not missed.
    fn take(&mut self, listed: BTreeMap<Key, Copied>) {
        let known = self.slices.keys();
        let gone: Vec<Key> = known
            .filter(|key| !listed.contains_key(*key))
            .cloned()
            .collect();
        for (key, copy) in listed {
            self.replace(key, Some(copy));
        }
        for key in gone {
            self.replace(key, None);
        }
    }

    fn replace(&mut self, key: Key, copy: Option<Copied>) {
        let old = match copy.clone() {
            Some(copy) => self.slices.insert(key, copy),
            None => self.slices.remove(&key),
        };
        let (old, new) = (old.unwrap_or_default(), copy.unwrap_or_default());
        for address in old.addresses.difference(&new.addresses) {
            if self.count(&old.service, address) == 0 {
                self.note(&old.service, format!("{address} was withdrawn"));
            }
        }
        for address in new.addresses.difference(&old.addresses) {
            if self.count(&new.service, address) > 1 {
                self.note(&new.service, format!("{address} was there twice"));
            }
        }
    }

    fn count(&self, service: &Key, address: &str) -> usize {
        let copies = self.slices.values().filter(|copy| copy.service == *service);
        copies
            .filter(|copy| copy.addresses.contains(address))
            .count()
    }

    fn note(&mut self, (namespace, name): &Key, what: String) {
        let exported = name.strip_prefix("derived-").unwrap_or(name);
        self.sights.push(Sight {
            member: self.member.clone(),
            service: (namespace.clone(), exported.to_owned()),
            what: format!("in {name}, {what}"),
        });
    }
}

fn copied(slice: &EndpointSlice) -> Copied {
    let namespace = slice.metadata.namespace.clone().unwrap_or_default();
    let is_ready = |conditions: &k8s_openapi::api::discovery::v1::EndpointConditions| {
        conditions.ready.unwrap_or(true)
    };
    let ready = slice.endpoints.iter();
    let ready = ready.filter(|endpoint| endpoint.conditions.as_ref().is_none_or(is_ready));
    Copied {
        version: slice.metadata.resource_version.clone(),
        service: (namespace, label(slice, labels::SERVICE_NAME).to_owned()),
        addresses: ready
            .flat_map(|endpoint| endpoint.addresses.clone())
            .collect(),
    }
}
