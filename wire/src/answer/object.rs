//! Single objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;
use kube::core::response::StatusDetails;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protobuf::{self, Fields, Malformed};
use crate::unreadable::Unreadable;

/// Maximum number of objects within an object of JSON. In memory each may take a hundred times the
/// two bytes of `{}`. By default etcd stores objects of at most 1.5 MiB, which hold no more than
/// that many, of `{},` each: what a tenant can store is readable.
const PARTS_MAX: usize = 524_288;

/// Object that is not decoded.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// Object of JSON.
    Json(&'a str),
    /// Message of protobuf, without its envelope.
    Protobuf(&'a [u8]),
}

impl<'a> Object<'a> {
    /// Returns the object in an answer that is one object.
    ///
    /// # Errors
    /// The answer is neither JSON nor protobuf in an envelope.
    pub fn of_answer(body: &'a [u8]) -> Result<Self, Unreadable> {
        if is_json(body) {
            let text: &RawValue = serde_json::from_slice(body)?;
            return Ok(Self::Json(text.get()));
        }
        Ok(Self::Protobuf(protobuf::object(body)?))
    }

    /// Returns the text of an object of JSON, which any type may be decoded from: the memory that
    /// it takes is bounded.
    ///
    /// # Errors
    /// The object is protobuf, or has too many objects within it.
    pub fn json(self) -> Result<&'a str, Unreadable> {
        let Self::Json(text) = self else {
            return Err(Unreadable::NotAskedFor);
        };
        // Few objects have so many braces that those within texts matter.
        let braces = memchr::memchr_iter(b'{', text.as_bytes()).count();
        match braces > PARTS_MAX && parts(text) > PARTS_MAX {
            true => Err(Unreadable::TooManyParts(PARTS_MAX)),
            false => Ok(text),
        }
    }

    /// Returns its length, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Json(text) => text.len(),
            Self::Protobuf(message) => message.len(),
        }
    }

    /// Returns its namespace, name, UID and resourceVersion, as far as they can be read.
    pub fn identity(self) -> ObjectMeta {
        match self {
            Self::Json(text) => json_identity(text).unwrap_or_default(),
            Self::Protobuf(message) => protobuf_identity(message).unwrap_or_default(),
        }
    }

    /// Decodes the Status that an API server sends in place of an object.
    ///
    /// # Errors
    /// The object is no Status.
    pub fn status(self) -> Result<Status, Unreadable> {
        match self {
            Self::Json(_) => Ok(serde_json::from_str(self.json()?)?),
            Self::Protobuf(message) => Ok(status(message)?),
        }
    }
}

/// Whether an answer, or the part of it that has arrived, is JSON.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    !bytes.starts_with(b"k8s") && bytes.first() != Some(&0)
}

/// Returns the number of `{` outside the texts of JSON.
fn parts(json: &str) -> usize {
    let (mut count, mut is_text, mut bytes) = (0, false, json.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            // The escaped byte ends no text.
            b'\\' if is_text => {
                bytes.next();
            }
            b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

fn json_identity(text: &str) -> serde_json::Result<ObjectMeta> {
    #[derive(Deserialize)]
    struct Bearer {
        metadata: Identity,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Identity {
        namespace: Option<String>,
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
    }
    let Bearer { metadata } = serde_json::from_str(text)?;
    Ok(ObjectMeta {
        namespace: metadata.namespace,
        name: metadata.name,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        ..ObjectMeta::default()
    })
}

fn protobuf_identity(message: &[u8]) -> Result<ObjectMeta, Malformed> {
    let mut found = ObjectMeta::default();
    for field in Fields::of(message) {
        let (1, metadata) = field? else { continue };
        for field in Fields::of(metadata.bytes()) {
            match field? {
                (1, value) => found.name = Some(value.text()?.to_owned()),
                (3, value) => found.namespace = Some(value.text()?.to_owned()),
                (5, value) => found.uid = Some(value.text()?.to_owned()),
                (6, value) => found.resource_version = Some(value.text()?.to_owned()),
                _ => {}
            }
        }
    }
    Ok(found)
}

fn status(message: &[u8]) -> Result<Status, Malformed> {
    let (mut text, mut reason, mut code) = ("", "", 0);
    let mut object = String::new();
    for field in Fields::of(message) {
        match field? {
            (3, value) => text = value.text()?,
            (4, value) => reason = value.text()?,
            (5, value) => {
                for field in Fields::of(value.bytes()) {
                    if let (1, value) = field? {
                        value.text()?.clone_into(&mut object);
                    }
                }
            }
            (6, value) => {
                let number = value.number().and_then(|number| u16::try_from(number).ok());
                code = number.unwrap_or_default();
            }
            _ => {}
        }
    }
    let status = Status::failure(text, reason).with_code(code);
    Ok(status.with_details(StatusDetails {
        name: object,
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_of_too_many_parts_is_an_error() {
        let object = |parts: usize| format!(r#"{{"managedFields": [{}]}}"#, "{},".repeat(parts));
        let most = object(PARTS_MAX - 1);
        assert_eq!(Object::Json(&most).json().ok(), Some(&*most));
        let error = Object::Json(&object(PARTS_MAX)).json().unwrap_err();
        assert_eq!(
            error.to_string(),
            "it has more than 524288 objects within it"
        );
        let error = Object::Protobuf(b"").json().unwrap_err();
        assert!(matches!(error, Unreadable::NotAskedFor));
    }

    #[test]
    fn object_that_a_tenant_can_store_is_readable() {
        let braces = "{".repeat(256 * 1024);
        let annotation = format!(r#"{{"metadata":{{"annotations":{{"a":"{braces}"}}}}}}"#);
        let fields = r#""f:a":{},"#.repeat(100_000);
        let managed = format!(r#"{{"metadata":{{"managedFields":[{{{fields}"f:b":{{}}}}]}}}}"#);
        let expressions = "{},".repeat(400_000);
        let selectors = format!(r#"{{"spec":{{"matchExpressions":[{expressions}{{}}]}}}}"#);
        for object in [annotation, managed, selectors] {
            assert!(Object::Json(&object).json().is_ok(), "{}", object.len());
        }
    }

    #[test]
    fn braces_within_texts_are_not_counted() {
        for (json, expected) in [
            (r#"{"a":{},"b":[{},{}]}"#, 4),
            (r#"{"{":"{{","b":{}}"#, 2),
            (r#"{"a":"\"{","b":{}}"#, 2),
            (r#"{"a":"\\","b":{}}"#, 2),
            (r#"{"a":"\\\"{{","b":{}}"#, 2),
            (r#"{"a":"\u007b{"}"#, 1),
            (r#""{"#, 0),
            (r#""\"#, 0),
            ("", 0),
        ] {
            assert_eq!(parts(json), expected, "{json}");
        }
    }
}
