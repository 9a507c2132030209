//! Envelopes of objects in the answers of API servers, as JSON and as protobuf: pages of lists,
//! events of watches, refusals, and single objects.
//!
//! The first byte of an answer shows its encoding: an object of JSON begins with a brace, protobuf
//! with `k8s`, and an event of protobuf with the first of four bytes of its length. The content
//! type, which proxies may change, is ignored. The fields of protobuf have the numbers of
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.

mod page;

use std::io;
use std::pin::Pin;

use causeway_engine::model::protobuf::{self, Fields, Malformed};
use causeway_engine::model::{Failure, FailureKind};
use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use http::{HeaderValue, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Status;
use kube::core::response::StatusDetails;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use self::page::{Page, read_page};
use crate::failure::{Classify as _, classify};

/// Value of `Accept` where protobuf is read: some aggregated API servers send JSON alone.
pub(crate) const PROTOBUF_OR_JSON: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// Content type of an object that is sent.
pub(crate) const PROTOBUF: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf");

/// Bytes of the length before an event of protobuf.
const LENGTH: usize = 4;

/// An object, not read yet.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// As JSON.
    Json(&'a RawValue),
    /// As protobuf: its message, without what is around it.
    Protobuf(&'a [u8]),
}

/// An event of a watch.
pub(crate) struct WatchEvent<'a> {
    pub(crate) kind: &'a str,
    pub(crate) object: Object<'a>,
}

/// Identity of an object that cannot be read otherwise.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Identity {
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        Self {
            namespace: identity.namespace,
            name: identity.name,
            uid: identity.uid,
            resource_version: identity.resource_version,
            ..Self::default()
        }
    }
}

/// Progress of reading an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All of it.
    Whole,
    /// Nothing more comes.
    Ended,
    /// It is longer than may be read.
    TooLong,
}

impl<'a> Object<'a> {
    /// Its bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Json(text) => text.get().len(),
            Self::Protobuf(message) => message.len(),
        }
    }

    /// Returns its identity, as far as it can be read.
    pub(crate) fn identity(self) -> Identity {
        #[derive(Deserialize)]
        struct Bearer {
            metadata: Identity,
        }
        match self {
            Self::Json(text) => serde_json::from_str::<Bearer>(text.get())
                .map(|bearer| bearer.metadata)
                .unwrap_or_default(),
            Self::Protobuf(message) => identity(message).unwrap_or_default(),
        }
    }

    /// Returns the failure that stands in place of an object.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Json(text) => match serde_json::from_str::<Status>(text.get()) {
                Ok(status) => Failure::from_status(&status),
                Err(error) => classify(&error),
            },
            Self::Protobuf(message) => match status(message) {
                Ok(status) => Failure::from_status(&status),
                Err(malformed) => unreadable(malformed),
            },
        }
    }
}

/// Reads an answer that is one object.
///
/// # Errors
/// Where it is none.
pub(crate) fn object(body: &[u8]) -> Result<Object<'_>, Failure> {
    if is_json(body) {
        return serde_json::from_slice(body).map(Object::Json).classified();
    }
    let message = protobuf::object(body);
    message.map(Object::Protobuf).map_err(unreadable)
}

/// Reads an event that was read whole; `None` where the connection was cut within it.
///
/// # Errors
/// Where it is none.
pub(crate) fn event(bytes: &[u8]) -> Result<Option<WatchEvent<'_>>, Failure> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    if !is_json(bytes) {
        let message = bytes.get(LENGTH..).unwrap_or_default();
        return protobuf_event(message).map(Some).map_err(unreadable);
    }
    match serde_json::from_slice::<Line<'_>>(bytes) {
        Ok(Line { kind, object }) => Ok(Some(WatchEvent {
            kind,
            object: Object::Json(object),
        })),
        Err(error) if error.is_eof() => Ok(None),
        Err(error) => Err(classify(&error)),
    }
}

/// Returns the failure that an answer of an API server means.
pub(crate) fn refusal(code: StatusCode, body: &[u8]) -> Failure {
    let status = match protobuf::object(body) {
        Ok(message) => status(message).ok(),
        Err(_) => serde_json::from_slice::<Status>(body).ok(),
    };
    // Not every refusal is an API server's.
    let status = status.filter(|status| status.code > 0).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), "").with_code(code.as_u16())
    });
    Failure::from_status(&status)
}

/// Reads until an event is whole, of `most` bytes at most. What came before this is dropped is in `event`.
pub(crate) async fn read_event(
    mut from: Pin<&mut impl AsyncBufRead>,
    event: &mut Vec<u8>,
    most: usize,
) -> io::Result<Progress> {
    loop {
        let part = from.fill_buf().await?;
        if part.is_empty() {
            // The last line need not end.
            let is_line = is_json(event) && !event.is_empty();
            return Ok(if is_line {
                Progress::Whole
            } else {
                Progress::Ended
            });
        }
        let (wanted, is_end) = wanted(event, part);
        let taken = wanted.min(most.saturating_sub(event.len()));
        event.extend_from_slice(&part[..taken]);
        from.consume_unpin(taken);
        if taken < wanted || (event.len() >= most && !is_end) {
            return Ok(Progress::TooLong);
        }
        if is_end {
            return Ok(Progress::Whole);
        }
    }
}

/// Returns the number of bytes of `part`, which follows `event`, that belong to the event, and
/// whether they complete it.
fn wanted(event: &[u8], part: &[u8]) -> (usize, bool) {
    let first = event.first().or(part.first());
    if first.is_some_and(|first| *first != 0) {
        let end = memchr::memchr(b'\n', part);
        return (end.map_or(part.len(), |end| end + 1), end.is_some());
    }
    let missing = LENGTH.saturating_sub(event.len());
    let Some((head, _)) = part.split_at_checked(missing) else {
        return (part.len(), false);
    };
    let mut length = [0; LENGTH];
    let given = event.iter().chain(head);
    length
        .iter_mut()
        .zip(given)
        .for_each(|(to, from)| *to = *from);
    let whole = LENGTH.saturating_add(u32::from_be_bytes(length) as usize);
    let left = whole.saturating_sub(event.len());
    (left.min(part.len()), left <= part.len())
}

/// Whether an answer, or what there is of it, is JSON.
fn is_json(bytes: &[u8]) -> bool {
    !bytes.starts_with(b"k8s") && bytes.first() != Some(&0)
}

fn unreadable(malformed: Malformed) -> Failure {
    Failure::new(
        FailureKind::Other,
        format!("the answer cannot be read as protobuf: {malformed}"),
    )
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

fn identity(message: &[u8]) -> Result<Identity, Malformed> {
    let mut found = Identity::default();
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
    use std::pin::pin;

    use futures::io::BufReader;

    use super::*;

    /// Reads a stream that arrives in parts of that size, `most` bytes of each event at most.
    fn events(stream: &[u8], part: usize, most: usize) -> (Vec<Vec<u8>>, Progress) {
        let mut from = pin!(BufReader::with_capacity(part, stream));
        let mut events = Vec::new();
        loop {
            let mut event = Vec::new();
            let read = read_event(from.as_mut(), &mut event, most);
            match futures::executor::block_on(read).expect("it is in memory") {
                Progress::Whole => events.push(event),
                end => return (events, end),
            }
        }
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).expect("a short message");
        [&length.to_be_bytes(), message].concat()
    }

    #[test]
    fn events_are_read_one_by_one_in_whatever_parts_they_come() {
        let lines: [&[u8]; 3] = [b"{}\n", b"{\"a\": 1}\n", b"{\"last\": 1}"];
        let frames = [framed(b"a"), framed(b""), framed(&[b'\n'; 20])];
        for part in 1..30 {
            let (read, end) = events(&lines.concat(), part, 20);
            assert_eq!(
                (read, end),
                (lines.map(<[u8]>::to_vec).into(), Progress::Ended)
            );
            let (read, end) = events(&frames.concat(), part, 24);
            assert_eq!((read, end), (frames.to_vec(), Progress::Ended));
        }
    }

    #[test]
    fn truncated_and_overlong_events_are_rejected() {
        let frame = framed(&[7; 20]);
        for part in 1..30 {
            for cut in 1..frame.len() {
                assert_eq!(events(&frame[..cut], part, 24), (vec![], Progress::Ended));
            }
            for most in 5..24 {
                assert_eq!(events(&frame, part, most), (vec![], Progress::TooLong));
                assert_eq!(events(&[b' '; 25], part, most), (vec![], Progress::TooLong));
            }
        }
    }

    #[test]
    fn a_refusal_that_is_no_status_is_known_by_its_code() {
        let status =
            br#"{"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}"#;
        for (body, kind) in [
            (&status[..], FailureKind::Expired),
            (b"k8s\0\x12\x03\x30\x9a\x03", FailureKind::Expired),
            (b"k8s\0\x12\x03\x30", FailureKind::Server),
            (b"<html>Bad Gateway</html>", FailureKind::Server),
            (b"{}", FailureKind::Server),
            (b"\xff", FailureKind::Server),
        ] {
            assert_eq!(
                refusal(StatusCode::BAD_GATEWAY, body).kind,
                kind,
                "{body:?}"
            );
        }
    }
}
