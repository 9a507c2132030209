//! Events of watches: a line of JSON, or a message of protobuf after its length.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::{Object, is_json};
use crate::protobuf::{self, Fields, Malformed};
use crate::unreadable::Unreadable;

/// Bytes of the length before an event of protobuf.
const LENGTH: usize = 4;

/// Event of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchEvent<'a> {
    /// Type of the event, as `ADDED`.
    pub kind: &'a str,
    /// Object of the event, or a Status.
    pub object: Object<'a>,
}

impl<'a> WatchEvent<'a> {
    /// Reads an event; `None` if it is JSON that breaks off, as a connection that is cut leaves it.
    ///
    /// # Errors
    /// The bytes are no event.
    pub fn read(bytes: &'a [u8]) -> Result<Option<Self>, Unreadable> {
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        if !is_json(bytes) {
            let message = bytes.get(LENGTH..).unwrap_or_default();
            return Ok(Some(protobuf_event(message)?));
        }
        match serde_json::from_slice::<Line<'_>>(bytes) {
            Ok(Line { kind, object }) => Ok(Some(WatchEvent {
                kind,
                object: Object::Json(object.get()),
            })),
            Err(error) if error.is_eof() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the number of bytes of `part` that belong to the event that begins with `begun`, and
    /// whether they complete it. `begun` and `part` follow each other in the answer.
    pub fn split(begun: &[u8], part: &[u8]) -> (usize, bool) {
        let first = begun.first().or(part.first());
        if first.is_some_and(|first| *first != 0) {
            let end = memchr::memchr(b'\n', part);
            return (end.map_or(part.len(), |end| end + 1), end.is_some());
        }
        let missing = LENGTH.saturating_sub(begun.len());
        let Some((head, _)) = part.split_at_checked(missing) else {
            return (part.len(), false);
        };
        let mut length = [0; LENGTH];
        let given = begun.iter().chain(head);
        length
            .iter_mut()
            .zip(given)
            .for_each(|(to, from)| *to = *from);
        let whole = LENGTH.saturating_add(u32::from_be_bytes(length) as usize);
        let left = whole.saturating_sub(begun.len());
        (left.min(part.len()), left <= part.len())
    }

    /// Whether bytes after which nothing arrives are an event: the last line of JSON may lack its
    /// end.
    pub fn may_end(begun: &[u8]) -> bool {
        is_json(begun) && !begun.is_empty()
    }
}

fn protobuf_event(message: &[u8]) -> Result<WatchEvent<'_>, Malformed> {
    let (mut kind, mut object): (_, &[u8]) = ("", &[]);
    for field in Fields::of(message) {
        match field? {
            (1, value) => kind = value.text()?,
            // A runtime.RawExtension.
            (2, value) => {
                for field in Fields::of(value.bytes()) {
                    if let (1, value) = field? {
                        object = protobuf::object(value.bytes())?;
                    }
                }
            }
            _ => {}
        }
    }
    let object = Object::Protobuf(object);
    Ok(WatchEvent { kind, object })
}
