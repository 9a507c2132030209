//! Watches what consumers hold all the time: an endpoint that goes, or is there twice, is noted, and judged when it is known
//! what was changed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use causeway::api::labels;
use causeway_tests::Cluster;
use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::task::AbortHandle;

use crate::scene::{Key, key, label};

/// What was seen of an endpoint in a consumer that is not to be while nothing was changed about its service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// The consumer.
    pub(super) member: String,
    /// The service: a copy of the clusterset counts for the exported one.
    pub(super) service: Key,
    what: String,
}

impl fmt::Display for Sight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = &self.service;
        write!(out, "{}: {namespace}/{name}: {}", self.member, self.what)
    }
}

/// A watch on the copies in one member.
pub(super) struct Witness {
    seen: Arc<Mutex<Vec<Sight>>>,
    task: AbortHandle,
}

impl Witness {
    pub(super) fn of(member: &Cluster, client: Client) -> Self {
        let seen = Arc::default();
        let watch = Watch {
            member: member.name().to_owned(),
            slices: BTreeMap::new(),
            seen: Arc::clone(&seen),
        };
        let task = tokio::spawn(watch.run(client)).abort_handle();
        Self { seen, task }
    }

    /// What was noted since the last time.
    pub(super) fn noted(&self) -> Vec<Sight> {
        assert!(!self.task.is_finished(), "a witness has left");
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Watch {
    member: String,
    slices: BTreeMap<Key, Copied>,
    seen: Arc<Mutex<Vec<Sight>>>,
}

/// The Service that a copy belongs to, and its ready endpoints.
#[derive(Clone, Default)]
struct Copied {
    service: Key,
    addresses: BTreeSet<String>,
}

impl Watch {
    async fn run(mut self, client: Client) {
        let copies = format!("{}={}", labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER);
        let config = watcher::Config::default().labels(&copies);
        let mut events = std::pin::pin!(watcher(Api::<EndpointSlice>::all(client), config));
        let mut listed = BTreeMap::new();
        loop {
            match events.try_next().await {
                Ok(Some(watcher::Event::Apply(slice))) => {
                    self.replace(key(&slice), Some(copied(&slice)));
                }
                Ok(Some(watcher::Event::Delete(slice))) => self.replace(key(&slice), None),
                Ok(Some(watcher::Event::Init)) => listed.clear(),
                Ok(Some(watcher::Event::InitApply(slice))) => {
                    listed.insert(key(&slice), copied(&slice));
                }
                Ok(Some(watcher::Event::InitDone)) => self.take(std::mem::take(&mut listed)),
                Ok(None) => return,
                Err(error) => {
                    eprintln!(
                        "{}: the watch of its copies is begun anew: {error}",
                        self.member
                    );
                }
            }
        }
    }

    /// All that is there now. What is new comes first, so that what only moved is not missed.
    fn take(&mut self, listed: BTreeMap<Key, Copied>) {
        let gone: Vec<Key> = self
            .slices
            .keys()
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

    fn note(&self, (namespace, name): &Key, what: String) {
        let exported = name.strip_prefix("derived-").unwrap_or(name);
        let sight = Sight {
            member: self.member.clone(),
            service: (namespace.clone(), exported.to_owned()),
            what: format!("in {name}, {what}"),
        };
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sight);
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
        service: (namespace, label(slice, labels::SERVICE_NAME).to_owned()),
        addresses: ready
            .flat_map(|endpoint| endpoint.addresses.clone())
            .collect(),
    }
}
