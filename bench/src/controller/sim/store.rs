//! The objects of one API server, and who watches them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use causeway_wire::encode;
use http::HeaderValue;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};

use super::kind::Kind;
use super::protobuf;
use super::services::Services;
use super::text::{CopyText, SliceId, push_source};

/// Versions begin here, so that none of them is one of those with a meaning.
const FIRST_VERSION: u64 = 1000;
/// So many deletions are remembered; a watch that begins earlier has expired.
const DELETIONS_KEPT: usize = 4096;

/// What an object is made from.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// Its JSON.
    Text(Bytes),
    /// A source slice in that version of its content.
    Source(SliceId, u32),
    /// A slice as it was written: its message.
    Message(Bytes),
    /// A copy as the controller wrote it, from that version of the content and of the source object.
    Copy(SliceId, u32, u64),
}

/// An object and its version.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) version: u64,
    pub(crate) body: Body,
}

/// What a list or watch asks for.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<String>,
    pub(crate) form: Form,
}

/// In which form objects are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// Metadata alone.
    Partial,
    /// EndpointSlices alone are sent so.
    Protobuf,
}

/// A part of a list.
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    /// The version of the state.
    pub(crate) version: u64,
    /// The object after which the list goes on, and how many follow.
    pub(crate) rest: Option<(String, usize)>,
}

/// Changes that a watch is to tell, each an event.
pub(crate) struct Watched {
    /// What happened since the version that was asked for, or all that is there.
    pub(crate) before: Vec<Bytes>,
    /// What happens from now on.
    pub(crate) events: mpsc::UnboundedReceiver<Bytes>,
    pub(crate) version: u64,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// With all that is there.
    Everything,
    /// After this version.
    Version(u64),
}

/// The version is too old.
#[derive(Debug)]
pub(crate) struct Expired;

/// The objects of one API server.
pub(crate) struct Store {
    /// 0 for the hub, then the members.
    pub(crate) number: usize,
    services: Arc<Services>,
    state: Mutex<State>,
    hangs: watch::Sender<bool>,
    lists: AtomicUsize,
    authorization: Mutex<Option<HeaderValue>>,
}

struct State {
    version: u64,
    collections: BTreeMap<Kind, Collection>,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<Box<str>, Entry>,
    deleted: VecDeque<(u64, Bytes)>,
    /// Deletions up to this version are forgotten.
    forgotten: u64,
    watchers: Vec<Watcher>,
}

struct Watcher {
    namespace: Option<String>,
    form: Form,
    sender: mpsc::UnboundedSender<Bytes>,
}

/// A change of one object, under the lock of its API server.
pub(crate) struct Change<'a> {
    store: &'a Store,
    state: MutexGuard<'a, State>,
    kind: Kind,
    key: String,
}

impl Store {
    pub(crate) fn new(number: usize, services: Arc<Services>) -> Self {
        Self {
            number,
            services,
            state: Mutex::new(State {
                version: FIRST_VERSION,
                collections: BTreeMap::new(),
            }),
            hangs: watch::Sender::new(false),
            lists: AtomicUsize::new(0),
            authorization: Mutex::new(None),
        }
    }

    /// Notes the credentials of a request.
    pub(crate) fn note_authorization(&self, header: Option<&HeaderValue>) {
        let last = self.authorization.lock();
        let mut last = last.unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != header {
            *last = header.cloned();
        }
    }

    /// Whether the last request bore that token.
    pub(crate) fn was_asked_with(&self, token: &str) -> bool {
        let last = self.authorization.lock();
        let last = last.unwrap_or_else(PoisonError::into_inner);
        let bearer = last.as_ref().and_then(|header| header.to_str().ok());
        bearer.and_then(|bearer| bearer.strip_prefix("Bearer ")) == Some(token)
    }

    /// Returns how many lists were requested, each of its pages counted. A list of one object is no
    /// list: it looks whether a watch may go on.
    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    pub(crate) fn note_list(&self, limit: Option<usize>) {
        if limit != Some(1) {
            self.lists.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on no request is answered and no watch tells anything, until it is taken back.
    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.send_replace(hangs);
    }

    pub(crate) fn hangs(&self) -> bool {
        *self.hangs.borrow()
    }

    /// Waits while the server hangs.
    pub(crate) async fn answers(&self) {
        // The sender lives as long as the store.
        self.hangs.subscribe().wait_for(|hangs| !hangs).await.ok();
    }

    /// Puts in an object before anybody asks; `text` is given its version.
    pub(crate) fn fill(&self, kind: Kind, key: &str, body: impl FnOnce(u64) -> Body) -> u64 {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let body = body(version);
        let collection = state.collections.entry(kind).or_default();
        collection
            .objects
            .insert(key.into(), Entry { version, body });
        version
    }

    /// The JSON of an object.
    pub(crate) fn render(&self, entry: &Entry, out: &mut Vec<u8>) {
        match &entry.body {
            Body::Text(text) => out.extend_from_slice(text),
            Body::Source(id, version) => {
                push_source(out, self.services.content(*id, *version), entry.version);
            }
            Body::Copy(id, version, source_version) => {
                self.copy(entry, *id, *version, *source_version).push(out);
            }
            Body::Message(message) => {
                let slice = protobuf::slice(message).expect("a stored slice");
                serde_json::to_writer(out, &slice).expect("memory");
            }
        }
    }

    fn copy(&self, entry: &Entry, id: SliceId, version: u32, source_version: u64) -> CopyText<'_> {
        CopyText {
            content: self.services.content(id, version),
            provider: self.services.provider_name(id),
            consumer: u32::try_from(self.number).unwrap_or_default(),
            source_version,
            resource_version: entry.version,
        }
    }

    /// The object in that form.
    pub(crate) fn write(&self, entry: &Entry, form: Form, out: &mut Vec<u8>) {
        match (form, &entry.body) {
            (Form::Json, _) => self.render(entry, out),
            (Form::Protobuf, Body::Message(message)) => out.extend_from_slice(message),
            (Form::Protobuf, Body::Source(id, version)) => {
                let content = self.services.content(*id, *version);
                protobuf::push_source(out, content, entry.version);
            }
            (Form::Protobuf, Body::Copy(id, version, source_version)) => {
                let copy = self.copy(entry, *id, *version, *source_version);
                protobuf::push_copy(out, &copy);
            }
            _ => push_form(out, &self.text(entry), form),
        }
    }

    fn text(&self, entry: &Entry) -> Vec<u8> {
        let mut out = Vec::new();
        self.render(entry, &mut out);
        out
    }

    pub(crate) fn get(&self, kind: Kind, key: &str) -> Option<Vec<u8>> {
        let entry = self.entry(kind, key)?;
        Some(self.text(&entry))
    }

    pub(crate) fn entry(&self, kind: Kind, key: &str) -> Option<Entry> {
        let state = self.state();
        state.collections.get(&kind)?.objects.get(key).cloned()
    }

    pub(crate) fn list(&self, scope: &Scope, after: Option<&str>, limit: usize) -> Page {
        let state = self.state();
        let version = state.version;
        let Some(collection) = state.collections.get(&scope.kind) else {
            return Page {
                entries: Vec::new(),
                version,
                rest: None,
            };
        };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut listed = collection
            .objects
            .range::<str, _>((start, Bound::Unbounded))
            .filter(|(key, _)| is_within(key, scope.namespace.as_deref()));
        let (mut entries, mut last) = (Vec::new(), None);
        for (key, entry) in listed.by_ref().take(limit) {
            entries.push(entry.clone());
            last = Some(key);
        }
        // What is left is counted only where it costs nothing: it is a hint.
        let more = listed.next().is_some();
        let rest = last
            .filter(|_| more)
            .map(|key| (key.to_string(), collection.objects.len() - entries.len()));
        Page {
            entries,
            version,
            rest,
        }
    }

    /// Begins to watch.
    ///
    /// # Errors
    /// Where deletions since that version are forgotten.
    pub(crate) fn watch(&self, scope: &Scope, since: Since) -> Result<Watched, Expired> {
        let mut state = self.state();
        let version = state.version;
        let collection = state.collections.entry(scope.kind).or_default();
        let from = match since {
            Since::Everything => 0,
            Since::Version(version) if version < collection.forgotten => return Err(Expired),
            Since::Version(version) => version,
        };
        let mut before: Vec<(u64, Bytes)> = Vec::new();
        for (key, entry) in &collection.objects {
            if entry.version > from && is_within(key, scope.namespace.as_deref()) {
                let kind = match since {
                    Since::Everything => "ADDED",
                    Since::Version(_) => "MODIFIED",
                };
                let mut object = Vec::new();
                self.write(entry, scope.form, &mut object);
                before.push((entry.version, event(kind, &object, scope.form)));
            }
        }
        if since != Since::Everything {
            let deleted = collection.deleted.iter().filter(|(at, _)| *at > from);
            before.extend(deleted.map(|(at, text)| (*at, deletion(text, scope.form))));
        }
        before.sort_by_key(|(version, _)| *version);
        let (sender, events) = mpsc::unbounded_channel();
        collection
            .watchers
            .retain(|watcher| !watcher.sender.is_closed());
        collection.watchers.push(Watcher {
            namespace: scope.namespace.clone(),
            form: scope.form,
            sender,
        });
        Ok(Watched {
            before: before.into_iter().map(|(_, line)| line).collect(),
            events,
            version,
        })
    }

    pub(crate) fn version(&self) -> u64 {
        self.state().version
    }

    /// Begins to change an object; nobody else changes one meanwhile.
    pub(crate) fn change(&self, kind: Kind, key: &str) -> Change<'_> {
        Change {
            store: self,
            state: self.state(),
            kind,
            key: key.to_owned(),
        }
    }
}

impl Change<'_> {
    /// The object as it is.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        let collection = self.state.collections.get(&self.kind)?;
        collection.objects.get(self.key.as_str())
    }

    pub(crate) fn text(&self) -> Option<Vec<u8>> {
        self.entry().map(|entry| self.store.text(entry))
    }

    /// The message of a slice as it is.
    pub(crate) fn message(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.store.write(self.entry()?, Form::Protobuf, &mut out);
        Some(out)
    }

    /// The version that the change will have.
    pub(crate) fn next_version(&self) -> u64 {
        self.state.version + 1
    }

    /// Stores the object and tells it to those who watch. Its JSON.
    pub(crate) fn put(self, body: Body) -> Vec<u8> {
        let store = self.store;
        store.text(&self.put_entry(body))
    }

    /// Stores a slice that was written as protobuf, and tells it to those who watch.
    pub(crate) fn put_message(self, message: Bytes) {
        self.put_entry(Body::Message(message));
    }

    fn put_entry(mut self, body: Body) -> Entry {
        self.state.version += 1;
        let entry = Entry {
            version: self.state.version,
            body,
        };
        let collection = self.state.collections.entry(self.kind).or_default();
        let key = self.key.as_str();
        let before = collection.objects.insert(key.into(), entry.clone());
        let kind = before.map_or("ADDED", |_| "MODIFIED");
        collection.tell(key, |form| {
            let mut object = Vec::new();
            self.store.write(&entry, form, &mut object);
            event(kind, &object, form)
        });
        entry
    }

    /// Removes the object and tells it to those who watch; `text` is its last state, with the version of its removal.
    pub(crate) fn remove(mut self, text: &[u8]) {
        self.state.version += 1;
        let version = self.state.version;
        let collection = self.state.collections.entry(self.kind).or_default();
        collection.objects.remove(self.key.as_str());
        collection
            .deleted
            .push_back((version, Bytes::copy_from_slice(text)));
        if collection.deleted.len() > DELETIONS_KEPT {
            let forgotten = collection.deleted.pop_front();
            collection.forgotten = forgotten.map_or(0, |(version, _)| version);
        }
        collection.tell(&self.key, |form| deletion(text, form));
    }
}

impl Collection {
    fn tell(&mut self, key: &str, event: impl Fn(Form) -> Bytes) {
        let mut events: [Option<Bytes>; 3] = [None, None, None];
        self.watchers.retain(|watcher| {
            if !is_within(key, watcher.namespace.as_deref()) {
                return !watcher.sender.is_closed();
            }
            let event = events[watcher.form as usize]
                .get_or_insert_with(|| event(watcher.form))
                .clone();
            watcher.sender.send(event).is_ok()
        });
    }
}

fn is_within(key: &str, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| {
        let name = key.strip_prefix(namespace);
        name.is_some_and(|name| name.starts_with('/'))
    })
}

/// An event of a watch, of an object in that form.
pub(crate) fn event(kind: &str, object: &[u8], form: Form) -> Bytes {
    if form == Form::Protobuf {
        return protobuf::event(kind, object).into();
    }
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// The event that says that an object is gone, whose last state was this.
fn deletion(text: &[u8], form: Form) -> Bytes {
    let mut object = Vec::new();
    push_form(&mut object, text, form);
    event("DELETED", &object, form)
}

/// An object that is known as JSON, in that form.
pub(crate) fn push_form(out: &mut Vec<u8>, text: &[u8], form: Form) {
    match form {
        Form::Json => out.extend_from_slice(text),
        Form::Partial => push_partial(out, text),
        Form::Protobuf => {
            let slice = serde_json::from_slice(text).expect("a stored slice");
            out.extend(encode(&slice));
        }
    }
}

/// The metadata of an object alone, as `PartialObjectMetadata`.
fn push_partial(out: &mut Vec<u8>, object: &[u8]) {
    #[derive(serde::Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    let whole: Whole<'_> = serde_json::from_slice(object).expect("a stored object has metadata");
    out.extend_from_slice(
        b"{\"apiVersion\":\"meta.k8s.io/v1\",\"kind\":\"PartialObjectMetadata\",\"metadata\":",
    );
    out.extend_from_slice(whole.metadata.get().as_bytes());
    out.push(b'}');
}
