//! No bytes make the decoder of answers panic, and a slice is decoded alike from every encoding.
//!
//! A document is `{"slice": {}, "edits": [[0, 255]], "part": 7}`: an EndpointSlice, bytes of its
//! protobuf that are replaced by others, and the length of the parts in which a page of it arrives.
//! Any other input is an answer as it is.

use causeway_wire::protobuf::{self, Message as _, enveloped};
use causeway_wire::{
    Object, Page, PageReader, Places, RawSlice, SliceManager, Unreadable, WatchEvent, encode,
    message,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;

/// Maximum bytes of an object of a page.
const OBJECT_MOST: usize = 2048;

/// Labels and annotations whose values are hashed.
const HASHED: [&str; 2] = ["kubernetes.io/service-name", "mcs.causeway.dev/hub"];

/// Panics if the decoder does, or if it depends on the encoding or on the parts of an answer.
pub fn holds(input: &[u8]) {
    let Some(document) = crate::document(input) else {
        return is_read(input, 1 + input.len() % 13);
    };
    let part = document["part"].as_u64().unwrap_or_default() as usize;
    let part = part.clamp(1, 4096);
    is_read(input, part);
    let Ok(slice) = serde_json::from_value::<EndpointSlice>(document["slice"].clone()) else {
        return;
    };
    let json = serde_json::to_string(&slice).expect("JSON");
    let mut message = encode(&slice);
    let typed = content(Object::Protobuf(&message));
    assert_eq!(content(Object::Json(&json)), typed);
    for edit in document["edits"].as_array().into_iter().flatten() {
        let number = |at: usize| edit[at].as_u64().unwrap_or_default() as usize;
        let length = message.len().max(1);
        if let Some(byte) = message.get_mut(number(0) % length) {
            *byte = number(1) as u8;
        }
    }
    content(Object::Protobuf(&message));
    let mut list = Vec::new();
    list.message(1, |meta| meta.bytes(2, b"7"));
    list.bytes(2, &message);
    list.bytes(2, &message);
    let answer = enveloped("discovery.k8s.io/v1", "EndpointSliceList", &list);
    is_read(&answer, part);
    let is_short = message.len() <= OBJECT_MOST;
    let objects = page(&answer, part).map(|(_, objects)| objects.len());
    assert_eq!(objects.ok(), is_short.then_some(2));
}

/// Reads bytes as each kind of answer.
fn is_read(answer: &[u8], part: usize) {
    content(Object::Protobuf(answer));
    if let Ok(text) = std::str::from_utf8(answer) {
        content(Object::Json(text));
    }
    if let Ok(object) = Object::of_answer(answer) {
        object.status().ok();
        object.identity();
        content(object);
    }
    if let Ok(Some(event)) = WatchEvent::read(answer) {
        content(event.object);
    }
    protobuf::Fields::of(answer).for_each(drop);
    let whole = page(answer, usize::MAX).ok();
    assert_eq!(page(answer, part).ok(), whole);
    event_is_split_alike(answer, part);
}

/// Returns all that a caller takes from a slice, as text; `None` if it cannot be read.
fn content(object: Object<'_>) -> Option<String> {
    let message = message(object).ok()?;
    let slice = RawSlice::decode(&message).ok()?;
    let values = || HASHED.into_iter().map(|name| slice.label(name));
    let annotations: Vec<_> = HASHED.map(|name| slice.annotation(name)).into();
    let source = slice.source(SliceManager::Other, &mut Places::default());
    let hash = slice.content_hash(values()).ok();
    let text = format!("{source:?} {hash:?} {annotations:?}");
    Some(format!("{text} {:?}", slice.into_meta()))
}

/// Reads a page that arrives in parts of that length.
fn page(answer: &[u8], part: usize) -> Result<(Page, Vec<Vec<u8>>), Unreadable> {
    let (mut buffer, mut objects) = (Vec::new(), Vec::new());
    let mut reader = PageReader::new(OBJECT_MOST, usize::MAX, &mut buffer);
    for mut part in answer.chunks(part) {
        while let Some(object) = reader.next(&mut part)? {
            objects.push(bytes(object));
        }
    }
    let (page, rest) = reader.finish()?;
    objects.extend(rest.into_iter().map(bytes));
    Ok((page, objects))
}

fn bytes(object: Object<'_>) -> Vec<u8> {
    match object {
        Object::Json(text) => text.as_bytes().to_vec(),
        Object::Protobuf(message) => message.to_vec(),
    }
}

/// The first event of a watch ends at the same byte, whatever the length of the parts.
fn event_is_split_alike(answer: &[u8], part: usize) {
    let end = |part: usize| {
        let mut begun = Vec::new();
        for part in answer.chunks(part) {
            let (taken, is_end) = WatchEvent::split(&begun, part);
            begun.extend_from_slice(&part[..taken]);
            if is_end {
                return Some(begun.len());
            }
            assert_eq!(taken, part.len());
        }
        None
    };
    assert_eq!(end(part), end(usize::MAX));
}
