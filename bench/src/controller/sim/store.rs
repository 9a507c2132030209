//! Objects of one API server, and its watchers.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use causeway::api::multicluster::{ServiceExport, ServiceImport, Version};
use causeway::api::{Cluster, MultiClusterService};
use causeway_wire::protobuf::{Message as _, enveloped};
use causeway_wire::{Object, encode};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::ServiceSpec;
use super::slices::{self, Encoding, SliceId};

/// Content of an object.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// An object as it was written.
    Stored(Encoding, Bytes),
    /// A source after that number of changes.
    Source(SliceId, u32),
    /// A copy of the first version of a source, which had that resourceVersion.
    Copy(SliceId, u64),
}

/// Object with its resourceVersion.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) version: u64,
    pub(crate) body: Body,
}

/// Target of a request: a collection, or an object of one.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Path of the collection, without a namespace.
    pub(crate) path: String,
    pub(crate) namespace: Option<String>,
    /// Key of the object.
    pub(crate) key: Option<String>,
    pub(crate) is_status: bool,
}

/// Objects of one API server.
pub(crate) struct Store {
    /// 0 for the hub, then the members.
    pub(crate) number: u32,
    services: Arc<[ServiceSpec]>,
    state: Mutex<State>,
    hangs: watch::Sender<bool>,
}

struct State {
    version: u64,
    /// Objects by the path of their collection.
    collections: BTreeMap<String, Collection>,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<Box<str>, Entry>,
    watchers: Vec<Watcher>,
    /// Number of lists that were empty.
    empty_lists: usize,
}

struct Watcher {
    place: Place,
    encoding: Encoding,
    sender: mpsc::UnboundedSender<Bytes>,
}

/// Write of one object, under the lock of its API server.
pub(crate) struct Change<'a> {
    store: &'a Store,
    state: MutexGuard<'a, State>,
    path: &'a str,
    pub(crate) key: &'a str,
}

/// Returns the path of a collection.
pub(crate) fn path<K: Resource<DynamicType = ()>>() -> String {
    K::url_path(&(), None)
}

/// Returns the name of an object within its collection.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or(name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

impl Place {
    /// Reads the path of a request.
    pub(crate) fn read(path: &str) -> Option<Self> {
        let parts: Vec<_> = path.trim_matches('/').split('/').collect();
        let (group, rest) = parts.split_at_checked(if parts[0] == "api" { 2 } else { 3 })?;
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (plural, rest) = rest.split_first()?;
        Some(Self {
            path: format!("/{}/{plural}", group.join("/")),
            namespace: namespace.map(str::to_owned),
            key: rest.first().map(|name| key(namespace, name)),
            is_status: rest.get(1) == Some(&"status"),
        })
    }

    fn contains(&self, key: &str) -> bool {
        let namespace = self.namespace.as_deref();
        namespace.is_none_or(|namespace| {
            let name = key.strip_prefix(namespace);
            name.is_some_and(|name| name.starts_with('/'))
        })
    }
}

impl Store {
    pub(crate) fn new(number: u32, services: Arc<[ServiceSpec]>) -> Self {
        let paths = [
            path::<Namespace>(),
            path::<Secret>(),
            path::<Service>(),
            path::<Event>(),
            path::<EndpointSlice>(),
            path::<Lease>(),
            path::<CustomResourceDefinition>(),
            path::<Cluster>(),
            path::<MultiClusterService>(),
            ServiceExport::url_path(&Version::V1beta1, None),
            ServiceImport::url_path(&Version::V1beta1, None),
        ];
        let collections = paths.map(|path| (path, Collection::default()));
        Self {
            number,
            services,
            // No version has a meaning of its own.
            state: Mutex::new(State {
                version: 1000,
                collections: collections.into(),
            }),
            hangs: watch::Sender::new(false),
        }
    }

    /// Has no request answered and no event sent from now on.
    pub(crate) fn hang(&self) {
        self.hangs.send_replace(true);
    }

    pub(crate) fn hangs(&self) -> bool {
        *self.hangs.borrow()
    }

    /// Waits while the server hangs.
    pub(crate) async fn answers(&self) {
        // The sender lives as long as the store.
        self.hangs.subscribe().wait_for(|hangs| !hangs).await.ok();
    }

    pub(crate) fn serves(&self, path: &str) -> bool {
        self.state.lock().collections.contains_key(path)
    }

    pub(crate) fn version(&self) -> u64 {
        self.state.lock().version
    }

    pub(crate) fn encode(&self, entry: &Entry, encoding: Encoding) -> Bytes {
        let spec = |id: &SliceId| &self.services[id.service as usize];
        let encoded = match &entry.body {
            Body::Source(id, changes) => {
                slices::source(*id, spec(id), *changes, entry.version).encode(encoding)
            }
            Body::Copy(id, source) => {
                let copy = slices::copy(*id, spec(id), self.number, *source, entry.version);
                copy.encode(encoding)
            }
            Body::Stored(as_stored, bytes) if *as_stored == encoding => return bytes.clone(),
            Body::Stored(Encoding::Json, text) => {
                encode(&serde_json::from_slice(text).expect("a stored slice"))
            }
            // Whoever requests JSON of a written copy reads its metadata alone.
            Body::Stored(Encoding::Protobuf, message) => {
                let metadata = Object::Protobuf(message).identity();
                json!({"metadata": metadata}).to_string().into_bytes()
            }
        };
        encoded.into()
    }

    /// Returns the UID of an object; empty if it has none.
    pub(crate) fn uid(&self, entry: &Entry) -> String {
        let object = match &entry.body {
            Body::Source(id, _) => return id.uid(),
            Body::Copy(id, _) => return id.copy_uid(self.number),
            Body::Stored(Encoding::Protobuf, message) => Object::Protobuf(message),
            Body::Stored(_, text) => Object::Json(str::from_utf8(text).unwrap_or_default()),
        };
        object.identity().uid.unwrap_or_default()
    }

    /// Returns objects, their version, and the key after which the list goes on.
    pub(crate) fn list(
        &self,
        place: &Place,
        after: Option<&str>,
        limit: usize,
    ) -> (Vec<Entry>, u64, Option<String>) {
        let state = self.state.lock();
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let collection = state.collections.get(&place.path).into_iter();
        let mut listed = collection
            .flat_map(|all| all.objects.range::<str, _>((start, Bound::Unbounded)))
            .filter(|(key, _)| place.contains(key));
        let page: Vec<_> = listed.by_ref().take(limit).collect();
        let last = page.last().filter(|_| listed.next().is_some());
        let last = last.map(|(key, _)| key.to_string());
        let entries = page.into_iter().map(|(_, entry)| entry.clone());
        (entries.collect(), state.version, last)
    }

    /// Whether a list of the collection is more than a start of the controller takes: it lists an
    /// empty collection again after half a minute (docs/design/deletion-safety.md).
    pub(crate) fn counts_list(&self, path: &str) -> bool {
        let mut state = self.state.lock();
        let collection = state.collections.get_mut(path);
        let Some(empty) = collection.filter(|collection| collection.objects.is_empty()) else {
            return true;
        };
        empty.empty_lists += 1;
        empty.empty_lists > 2
    }

    /// Returns the events since that version, and those that follow. Nothing is ever deleted, so no
    /// version is too old.
    pub(crate) fn watch(
        &self,
        place: &Place,
        encoding: Encoding,
        since: u64,
    ) -> mpsc::UnboundedReceiver<Bytes> {
        let mut state = self.state.lock();
        let (sender, events) = mpsc::unbounded_channel();
        let Some(collection) = state.collections.get_mut(&place.path) else {
            return events;
        };
        let recent = collection.objects.iter();
        let recent = recent.filter(|(key, entry)| entry.version > since && place.contains(key));
        let mut recent: Vec<_> = recent.map(|(_, entry)| entry).collect();
        recent.sort_by_key(|entry| entry.version);
        for entry in recent {
            sender.send(self.event("MODIFIED", entry, encoding)).ok();
        }
        collection.watchers.push(Watcher {
            place: place.clone(),
            encoding,
            sender,
        });
        events
    }

    fn event(&self, kind: &str, entry: &Entry, encoding: Encoding) -> Bytes {
        event(kind, &self.encode(entry, encoding), encoding)
    }

    /// Begins to change an object. No other object of the API server changes meanwhile.
    pub(crate) fn change<'a>(&'a self, path: &'a str, key: &'a str) -> Change<'a> {
        Change {
            store: self,
            state: self.state.lock(),
            path,
            key,
        }
    }
}

impl Change<'_> {
    /// Returns the object before the change.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        let collection = self.state.collections.get(self.path)?;
        collection.objects.get(self.key)
    }

    /// Returns the JSON of the object before the change.
    pub(crate) fn text(&self) -> Option<Bytes> {
        Some(self.store.encode(self.entry()?, Encoding::Json))
    }

    /// Returns the version after the change.
    pub(crate) fn next_version(&self) -> u64 {
        self.state.version + 1
    }

    /// Stores the object, sends it to the watchers and returns its version.
    pub(crate) fn put(mut self, body: Body) -> u64 {
        self.state.version += 1;
        let version = self.state.version;
        let entry = Entry { version, body };
        let Some(collection) = self.state.collections.get_mut(self.path) else {
            return version;
        };
        let before = collection.objects.insert(self.key.into(), entry.clone());
        let kind = before.map_or("ADDED", |_| "MODIFIED");
        let mut events: [Option<Bytes>; 2] = [None, None];
        collection.watchers.retain(|watcher| {
            if !watcher.place.contains(self.key) {
                return !watcher.sender.is_closed();
            }
            let event = events[watcher.encoding as usize]
                .get_or_insert_with(|| self.store.event(kind, &entry, watcher.encoding));
            watcher.sender.send(event.clone()).is_ok()
        });
        version
    }
}

/// Returns an event of a watch. Protobuf is served for EndpointSlices alone.
pub(crate) fn event(kind: &str, object: &[u8], encoding: Encoding) -> Bytes {
    if encoding == Encoding::Json {
        let head = format!(r#"{{"type":"{kind}","object":"#);
        return [head.as_bytes(), object, b"}\n"].concat().into();
    }
    let object = enveloped("discovery.k8s.io/v1", "EndpointSlice", object);
    let mut message = Vec::with_capacity(object.len() + 32);
    message.bytes(1, kind.as_bytes());
    message.message(2, |extension| extension.bytes(1, &object));
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), &*message].concat().into()
}
