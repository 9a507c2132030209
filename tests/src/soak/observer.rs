//! Watches what consumers hold all the time, and the addresses that the hub reports: one that goes,
//! or is there twice, is noted, and decided when it is known what was changed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::sync::Arc;

use causeway::api::{MultiClusterService, labels};
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::task::AbortHandle;

use crate::Cluster;
use crate::soak::snapshot::{Key, Snapshot, ingress, is_copy, key, label};
use crate::space::ready_of;

/// Name of the hub among the clusters that are observed.
const HUB: &str = "hub";

/// Forbidden observation of an endpoint in a consumer, or of an address in the status of a
/// MultiClusterService, of a service that nobody changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The consumer, or [`HUB`].
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

/// A watch on the copies in one member, or on the MultiClusterServices of the hub.
pub struct Observer {
    member: String,
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
}

impl Observer {
    /// Begins to watch, with that client of the member.
    pub fn of(member: &Cluster, client: Client) -> Self {
        let copies = format!("{}={}", labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER);
        let copies = watcher::Config::default().labels(&copies);
        Self::start(member.name(), Api::all(client), copies, copied)
    }

    /// Begins to watch the addresses of load balancers that the hub reports.
    pub fn of_hub(client: Client) -> Self {
        Self::start(HUB, Api::all(client), watcher::Config::default(), reported)
    }

    fn start<K>(cluster: &str, api: Api<K>, config: watcher::Config, read: fn(&K) -> Copied) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let seen = Arc::new(Mutex::new(Seen {
            member: cluster.to_owned(),
            slices: BTreeMap::new(),
            sights: Vec::new(),
        }));
        let task = watch(watcher(api, config), read, Arc::clone(&seen));
        Self {
            member: cluster.to_owned(),
            seen,
            task: tokio::spawn(task).abort_handle(),
        }
    }

    /// Returns the observations since the last call.
    pub fn noted(&self) -> Vec<Sight> {
        assert!(!self.task.is_finished(), "a observer has left");
        std::mem::take(&mut self.seen.lock().sights)
    }

    /// Whether it has seen all that is there now.
    pub(super) fn has_seen(&self, snapshot: &Snapshot) -> bool {
        let there: Vec<_> = match snapshot.members.get(&self.member) {
            Some(member) => {
                let copies = member.slices.iter().filter(|(_, slice)| is_copy(slice));
                copies.map(|(key, one)| (key, &one.metadata)).collect()
            }
            None => {
                let exposed = snapshot.exposed.iter();
                exposed.map(|(key, one)| (key, &one.metadata)).collect()
            }
        };
        let there = there.into_iter();
        let seen = self.seen.lock();
        let known = seen.slices.iter();
        there
            .map(|(key, metadata)| (key, metadata.resource_version.as_ref()))
            .eq(known.map(|(key, copy)| (key, copy.version.as_ref())))
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Seen {
    member: String,
    slices: BTreeMap<Key, Copied>,
    sights: Vec<Sight>,
}

/// The Service that an object belongs to, and its addresses: the ready endpoints of a copy, or the
/// ingress of a status.
#[derive(Clone, Default)]
struct Copied {
    version: Option<String>,
    service: Key,
    addresses: BTreeSet<String>,
}

async fn watch<K: Resource + Clone>(
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send,
    read: fn(&K) -> Copied,
    seen: Arc<Mutex<Seen>>,
) {
    let mut events = std::pin::pin!(events.default_backoff());
    let mut listed = BTreeMap::new();
    loop {
        let event = events.try_next().await;
        let mut seen = seen.lock();
        match event {
            Ok(Some(watcher::Event::Apply(object))) => {
                seen.replace(key(&object), Some(read(&object)));
            }
            Ok(Some(watcher::Event::Delete(object))) => seen.replace(key(&object), None),
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(object))) => {
                listed.insert(key(&object), read(&object));
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

/// The addresses in the status of a MultiClusterService.
fn reported(object: &MultiClusterService) -> Copied {
    Copied {
        version: object.metadata.resource_version.clone(),
        service: key(object),
        addresses: ingress(object).map(str::to_owned).collect(),
    }
}

fn copied(slice: &EndpointSlice) -> Copied {
    let namespace = slice.metadata.namespace.clone().unwrap_or_default();
    Copied {
        version: slice.metadata.resource_version.clone(),
        service: (namespace, label(slice, labels::SERVICE_NAME).to_owned()),
        addresses: ready_of([slice]).collect(),
    }
}

#[test]
fn address_that_leaves_a_status_is_noted() {
    let mut seen = Seen {
        member: HUB.to_owned(),
        slices: BTreeMap::new(),
        sights: Vec::new(),
    };
    for addresses in [&["203.0.113.1", "203.0.113.2"][..], &["203.0.113.2"]] {
        let ingress = addresses.iter().map(|ip| serde_json::json!({ "ip": ip }));
        let ingress: Vec<_> = ingress.collect();
        let object = serde_json::json!({
            "metadata": { "name": "foo", "namespace": "red" },
            "spec": { "types": ["LoadBalancer"] },
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        let object: MultiClusterService = serde_json::from_value(object).expect("an object");
        seen.replace(key(&object), Some(reported(&object)));
    }
    let noted: Vec<_> = seen.sights.iter().map(ToString::to_string).collect();
    assert_eq!(noted, ["hub: red/foo: in foo, 203.0.113.1 was withdrawn"]);
}
