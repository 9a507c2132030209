//! Writes, as an API server carries them out: identities, versions, preconditions.

use std::collections::BTreeMap;

use bytes::Bytes;
use causeway_wire::Object;
use causeway_wire::protobuf::{Fields, Message as _, enveloped, object};
use kube::core::Status;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::slices::{CREATED, Encoding, UidOf, uid};
use super::store::{Body, Change, Place, Store, key};

/// Rejection of a request.
pub(crate) type Refusal = Box<Status>;

pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Refusal {
    Status::failure(message, reason).with_code(code).boxed()
}

pub(crate) fn not_found(key: &str) -> Refusal {
    refusal(404, "NotFound", &format!("{key:?} not found"))
}

pub(crate) fn malformed(error: impl std::fmt::Display) -> Refusal {
    refusal(400, "BadRequest", &error.to_string())
}

/// Object in a request.
pub(crate) enum Sent {
    /// Metadata, and the other fields, which are not decoded.
    Json(Map<String, Value>, BTreeMap<String, Box<RawValue>>),
    Protobuf(Bytes),
}

impl Sent {
    pub(crate) fn read(body: &Bytes, encoding: Encoding) -> Result<Self, Refusal> {
        if encoding == Encoding::Protobuf {
            let message = object(body).map_err(malformed)?;
            return Ok(Self::Protobuf(body.slice_ref(message)));
        }
        let mut rest: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(body).map_err(malformed)?;
        let metadata = rest.remove("metadata");
        let metadata = metadata.map_or(Ok(Map::new()), |raw| serde_json::from_str(raw.get()));
        let metadata = metadata.map_err(malformed)?;
        Ok(Self::Json(metadata, rest))
    }

    /// Returns name and resourceVersion; empty where they are missing.
    fn identity(&self) -> [String; 2] {
        match self {
            Self::Json(metadata, _) => ["name", "resourceVersion"].map(|field| {
                let text = metadata.get(field).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            }),
            Self::Protobuf(message) => {
                let meta = Object::Protobuf(message).identity();
                [meta.name, meta.resource_version].map(Option::unwrap_or_default)
            }
        }
    }

    /// Stores the object with what the API server sets, and returns the answer.
    fn put(self, change: Change<'_>, uid: &str) -> Result<Bytes, Refusal> {
        let version = change.next_version().to_string();
        match self {
            Self::Json(mut metadata, mut rest) => {
                let set = [
                    ("uid", uid),
                    ("resourceVersion", &version),
                    ("creationTimestamp", CREATED),
                ];
                metadata.extend(set.map(|(name, value)| (name.to_owned(), value.into())));
                let metadata = to_raw_value(&metadata).map_err(malformed)?;
                rest.insert("metadata".to_owned(), metadata);
                let text = serde_json::to_vec(&rest).map_err(malformed)?;
                let text = Bytes::from(text);
                change.put(Body::Stored(Encoding::Json, text.clone()));
                Ok(text)
            }
            Self::Protobuf(message) => {
                let stored = stored(&message, uid, &version);
                let stored = stored.ok_or_else(|| malformed("no metadata"))?;
                let answer = enveloped("discovery.k8s.io/v1", "EndpointSlice", &stored);
                change.put(Body::Stored(Encoding::Protobuf, stored.into()));
                Ok(answer.into())
            }
        }
    }
}

/// Returns a slice with what the API server sets: of a field that occurs twice, the last counts.
fn stored(slice: &[u8], uid: &str, version: &str) -> Option<Vec<u8>> {
    let mut fields = Fields::of(slice);
    let (1, metadata) = fields.next()?.ok()? else {
        return None;
    };
    let mut out = Vec::with_capacity(slice.len() + 64);
    out.message(1, |out| {
        out.extend_from_slice(metadata.bytes());
        out.bytes(5, uid.as_bytes());
        out.bytes(6, version.as_bytes());
    });
    out.extend_from_slice(fields.rest());
    Some(out)
}

/// Creates an object.
pub(crate) fn create(store: &Store, place: &Place, mut sent: Sent) -> Result<Bytes, Refusal> {
    let namespace = place.namespace.as_deref();
    let [name, _] = sent.identity();
    if let Sent::Json(metadata, _) = &mut sent {
        metadata.insert("generation".to_owned(), 1.into());
        metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), namespace.into())));
    }
    let key = key(namespace, &name);
    let change = store.change(&place.path, &key);
    if change.entry().is_some() {
        let message = format!("{key:?} already exists");
        return Err(refusal(409, "AlreadyExists", &message));
    }
    let number = u32::try_from(change.next_version()).unwrap_or_default();
    sent.put(change, &uid(UidOf::Other, store.number, number))
}

/// Replaces an object. Without a resourceVersion any version is replaced.
pub(crate) fn replace(store: &Store, path: &str, key: &str, sent: Sent) -> Result<Bytes, Refusal> {
    let change = store.change(path, key);
    let [_, version] = sent.identity();
    let uid = check(store, &change, &version)?;
    sent.put(change, &uid)
}

/// Applies a JSON merge patch to an object, or to its status alone.
pub(crate) fn merge(
    store: &Store,
    place: &Place,
    key: &str,
    patch: &[u8],
) -> Result<Bytes, Refusal> {
    let mut patch: Value = serde_json::from_slice(patch).map_err(malformed)?;
    let change = store.change(&place.path, key);
    let wanted = patch["metadata"]["resourceVersion"].take();
    check(store, &change, wanted.as_str().unwrap_or_default())?;
    let before = change.text().unwrap_or_default();
    let before: Value = serde_json::from_slice(&before).map_err(malformed)?;
    patch["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    if place.is_status {
        patch = json!({"status": patch["status"]});
    }
    let mut object = before.clone();
    json_patch::merge(&mut object, &patch);
    if object == before {
        return Ok(object.to_string().into());
    }
    if object["spec"] != before["spec"] {
        let generation = before["metadata"]["generation"].as_u64();
        object["metadata"]["generation"] = (generation.unwrap_or_default() + 1).into();
    }
    object["metadata"]["resourceVersion"] = change.next_version().to_string().into();
    let text = Bytes::from(object.to_string());
    change.put(Body::Stored(Encoding::Json, text.clone()));
    Ok(text)
}

/// Checks that the object exists, in that version if it is not empty. Returns its UID.
fn check(store: &Store, change: &Change<'_>, version: &str) -> Result<String, Refusal> {
    let entry = change.entry();
    let entry = entry.ok_or_else(|| not_found(change.key))?;
    match version.is_empty() || version == entry.version.to_string() {
        true => Ok(store.uid(entry)),
        false => Err(refusal(409, "Conflict", "the object has been modified")),
    }
}
