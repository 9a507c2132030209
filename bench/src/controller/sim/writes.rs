//! Writes, as an API server carries them out: identities, versions, preconditions, finalizers.

use std::collections::BTreeMap;

use bytes::Bytes;
use causeway_wire::protobuf::enveloped;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::kind::{Kind, key};
use super::protobuf::{self, Metadata};
use super::store::{Body, Change, Store};
use super::text::{CREATED, sort, uid};

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Why a request is not carried out: what its `Status` says.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
        }
    }

    pub(crate) fn not_found(kind: Kind, key: &str) -> Self {
        let message = format!("{} {key:?} not found", kind.names().2);
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    fn conflict(message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(crate) fn malformed(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", error.to_string())
    }
}

/// An object whose parts other than its metadata are left as they are.
struct Parts {
    metadata: Map<String, Value>,
    rest: BTreeMap<String, Box<RawValue>>,
}

impl Parts {
    fn read(text: &[u8]) -> Result<Self, Refusal> {
        let mut rest: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(text).map_err(Refusal::malformed)?;
        let metadata = rest.remove("metadata");
        let metadata = metadata.map_or(Ok(Map::new()), |raw| serde_json::from_str(raw.get()));
        Ok(Self {
            metadata: metadata.map_err(Refusal::malformed)?,
            rest,
        })
    }

    fn text_of(&self, field: &str) -> Option<&str> {
        let text = self.metadata.get(field)?.as_str()?;
        Some(text).filter(|text| !text.is_empty())
    }

    fn body(mut self, version: u64) -> Result<Body, Refusal> {
        self.metadata
            .insert("resourceVersion".to_owned(), version.to_string().into());
        let metadata = to_raw_value(&self.metadata).map_err(Refusal::malformed)?;
        self.rest.insert("metadata".to_owned(), metadata);
        let text = serde_json::to_vec(&self.rest).map_err(Refusal::malformed)?;
        Ok(Body::Text(text.into()))
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// POST.
pub(crate) fn create(
    store: &Store,
    kind: Kind,
    namespace: Option<&str>,
    text: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let mut parts = Parts::read(text)?;
    let name = match (parts.text_of("name"), parts.text_of("generateName")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(prefix)) => format!("{prefix}{}", store.version()),
        (None, None) => return Err(Refusal::malformed("metadata.name is missing")),
    };
    let key = key(namespace, &name);
    let change = store.change(kind, &key);
    if change.entry().is_some() {
        let message = format!("{} {key:?} already exists", kind.names().2);
        return Err(Refusal::new(StatusCode::CONFLICT, "AlreadyExists", message));
    }
    let version = change.next_version();
    let number = u32::try_from(version).unwrap_or_default();
    let cluster = u32::try_from(store.number).unwrap_or_default();
    let metadata = &mut parts.metadata;
    metadata.insert("name".to_owned(), name.into());
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    let made = uid(sort::OTHER, cluster, number);
    metadata.insert("uid".to_owned(), made.into());
    metadata.insert("creationTimestamp".to_owned(), CREATED.into());
    metadata.insert("generation".to_owned(), 1.into());
    let body = parts.body(version)?;
    Ok(change.put(body))
}

/// POST of a slice as protobuf: the answer.
pub(crate) fn create_message(
    store: &Store,
    namespace: Option<&str>,
    slice: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let wanted = Metadata::read(slice).map_err(Refusal::malformed)?;
    let key = key(namespace, wanted.name);
    let change = store.change(Kind::EndpointSlice, &key);
    if change.entry().is_some() {
        let message = format!("EndpointSlice {key:?} already exists");
        return Err(Refusal::new(StatusCode::CONFLICT, "AlreadyExists", message));
    }
    let version = change.next_version();
    let number = u32::try_from(version).unwrap_or_default();
    let cluster = u32::try_from(store.number).unwrap_or_default();
    let made = uid(sort::OTHER, cluster, number);
    Ok(put_message(change, slice, &made, version))
}

/// PUT of a slice as protobuf: the answer.
pub(crate) fn replace_message(store: &Store, key: &str, slice: &[u8]) -> Result<Vec<u8>, Refusal> {
    let kind = Kind::EndpointSlice;
    let wanted = Metadata::read(slice).map_err(Refusal::malformed)?;
    let change = store.change(kind, key);
    let old = change
        .message()
        .ok_or_else(|| Refusal::not_found(kind, key))?;
    let old = Metadata::read(&old).map_err(Refusal::malformed)?;
    for (wanted, known) in [
        (wanted.uid, old.uid),
        (wanted.resource_version, old.resource_version),
    ] {
        if !wanted.is_empty() && wanted != known {
            return Err(Refusal::conflict(MODIFIED));
        }
    }
    let version = change.next_version();
    Ok(put_message(change, slice, old.uid, version))
}

fn put_message(change: Change<'_>, slice: &[u8], uid: &str, version: u64) -> Vec<u8> {
    let message = protobuf::stored(slice, uid, version);
    let answer = enveloped("discovery.k8s.io/v1", "EndpointSlice", &message);
    change.put_message(message.into());
    answer
}

/// PUT. Without a resourceVersion whatever is there is replaced.
pub(crate) fn replace(
    store: &Store,
    kind: Kind,
    key: &str,
    text: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let mut parts = Parts::read(text)?;
    let change = store.change(kind, key);
    let old = change.text().ok_or_else(|| Refusal::not_found(kind, key))?;
    let old = Parts::read(&old)?;
    check(&old, parts.text_of("uid"), parts.text_of("resourceVersion"))?;
    for field in ["uid", "creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = old.metadata.get(field) {
            parts.metadata.insert(field.to_owned(), value.clone());
        }
    }
    let generation = old.metadata.get("generation").and_then(Value::as_u64);
    let generation = generation.unwrap_or_default() + 1;
    parts
        .metadata
        .insert("generation".to_owned(), generation.into());
    let body = parts.body(change.next_version())?;
    Ok(change.put(body))
}

/// PATCH with a JSON merge patch, of the object or of its status alone.
pub(crate) fn merge(
    store: &Store,
    kind: Kind,
    key: &str,
    status: bool,
    text: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let mut patch: Value = serde_json::from_slice(text).map_err(Refusal::malformed)?;
    let change = store.change(kind, key);
    let old = change.text().ok_or_else(|| Refusal::not_found(kind, key))?;
    let wanted = patch["metadata"]["resourceVersion"].as_str();
    check(&Parts::read(&old)?, None, wanted)?;
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    if status {
        patch = json!({"status": patch["status"]});
    }
    let before: Value = serde_json::from_slice(&old).map_err(Refusal::malformed)?;
    let mut object = before.clone();
    merge_value(&mut object, &patch);
    if object == before {
        return Ok(old);
    }
    if !status && object["spec"] != before["spec"] {
        let generation = before["metadata"]["generation"].as_u64();
        object["metadata"]["generation"] = (generation.unwrap_or_default() + 1).into();
    }
    object["metadata"]["resourceVersion"] = change.next_version().to_string().into();
    let text = Bytes::from(object.to_string());
    if is_deleting(&object) && !has_finalizers(&object) {
        change.remove(&text);
        return Ok(text.to_vec());
    }
    Ok(change.put(Body::Text(text)))
}

/// DELETE. What has finalizers only begins to go.
pub(crate) fn delete(
    store: &Store,
    kind: Kind,
    key: &str,
    options: &[u8],
) -> Result<Vec<u8>, Refusal> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Options {
        preconditions: Option<Preconditions>,
    }
    let options: Options = match options {
        [] => Options::default(),
        text => serde_json::from_slice(text).map_err(Refusal::malformed)?,
    };
    let wanted = options.preconditions.unwrap_or_default();
    let change = store.change(kind, key);
    let old = change.text().ok_or_else(|| Refusal::not_found(kind, key))?;
    let parts = Parts::read(&old)?;
    check(
        &parts,
        wanted.uid.as_deref(),
        wanted.resource_version.as_deref(),
    )?;
    remove(change, &old)
}

fn remove(change: Change<'_>, old: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut object: Value = serde_json::from_slice(old).map_err(Refusal::malformed)?;
    object["metadata"]["resourceVersion"] = change.next_version().to_string().into();
    if has_finalizers(&object) {
        object["metadata"]["deletionTimestamp"] = CREATED.into();
        return Ok(change.put(Body::Text(object.to_string().into())));
    }
    let text = object.to_string().into_bytes();
    change.remove(&text);
    Ok(text)
}

fn check(old: &Parts, uid: Option<&str>, version: Option<&str>) -> Result<(), Refusal> {
    for (field, wanted) in [("uid", uid), ("resourceVersion", version)] {
        if wanted.is_some_and(|wanted| old.text_of(field) != Some(wanted)) {
            return Err(Refusal::conflict(MODIFIED));
        }
    }
    Ok(())
}

fn has_finalizers(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| !all.is_empty())
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// RFC 7396.
fn merge_value(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Some(target) = target.as_object_mut() {
                target.remove(name);
            }
        } else {
            merge_value(&mut target[name.as_str()], value);
        }
    }
}
