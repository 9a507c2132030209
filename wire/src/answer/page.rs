//! Pages of lists, which are read as they arrive. Of protobuf one object at a time is held, so
//! hundreds of lists that are read at once take little memory. Of JSON the whole page is held.

use causeway::api::lists::each_entry;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::Object;
use crate::protobuf::{Fields, MAGIC, Malformed};
use crate::unreadable::Unreadable;

/// Number of the field of a list in its envelope, and of an object in its list.
const CONTENT: u64 = 2;
/// Number of the field of a list's metadata.
const METADATA: u64 = 1;
/// Number in place of that of a field whose value is skipped.
const SKIPPED: u64 = 3;
/// Stands for field 1 of the envelope (`TypeMeta`); field 1 of a list is its metadata. No field has
/// this number.
const TYPE: u64 = u64::MAX;

/// Fields of a page besides its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Version of the state that the list shows.
    pub version: String,
    /// Token of the next page; `None` after the last.
    pub token: Option<String>,
}

/// Reader of a page. The caller passes the parts of the answer in their order.
#[derive(Debug)]
pub struct PageReader<'b> {
    /// Text of JSON, or a value that spans parts.
    held: &'b mut Vec<u8>,
    /// Maximum bytes of an object of protobuf.
    object_most: u64,
    /// Number of objects that may still follow.
    objects_left: usize,
    /// Bytes that are read.
    at: u64,
    /// Whether the envelope is that of a list.
    is_list: bool,
    /// Offset of the end of the list; `None` outside a list.
    list_end: Option<u64>,
    step: Step,
    page: Option<Page>,
}

/// Element of the answer that is read next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// First bytes, which show the encoding.
    Magic,
    /// Text of JSON, to the end of the answer.
    Json,
    /// Key of a field.
    Key(Varint),
    /// Number that is skipped.
    Number(Varint),
    /// Length of the value of that field.
    Length(u64, Varint),
    /// Value of that field, of which so many bytes are left.
    Value(u64, u64),
}

/// Number of which some bytes are read.
#[derive(Clone, Copy, Debug, Default)]
struct Varint {
    number: u64,
    shift: u32,
}

/// Value of a field that the caller needs.
#[derive(Clone, Copy)]
enum Value<'p> {
    /// Value that is within one part.
    Part(&'p [u8]),
    /// Value that is held.
    Held,
}

impl<'b> PageReader<'b> {
    /// Returns a reader of a page of at most `objects_most` objects, each of at most `object_most`
    /// bytes. It holds text in `buffer`, so many pages need one allocation.
    pub fn new(object_most: usize, objects_most: usize, buffer: &'b mut Vec<u8>) -> Self {
        buffer.clear();
        Self {
            held: buffer,
            object_most: object_most as u64,
            objects_left: objects_most,
            at: 0,
            is_list: false,
            list_end: None,
            step: Step::Magic,
            page: None,
        }
    }

    /// Reads a part of the answer up to the end of the next object, and returns that; `None` once
    /// the part is read.
    ///
    /// # Errors
    /// The answer is no page ([`Unreadable::NoList`] of another object), the object is too long
    /// ([`Unreadable::TooLong`]), or one too many ([`Unreadable::TooMany`]).
    pub fn next<'o, 'p: 'o>(
        &'o mut self,
        part: &mut &'p [u8],
    ) -> Result<Option<Object<'o>>, Unreadable> {
        while let Some((field, value)) = self.value(part)? {
            if field == CONTENT {
                let left = self.objects_left.checked_sub(1);
                self.objects_left = left.ok_or(Unreadable::TooMany)?;
                return Ok(Some(Object::Protobuf(match value {
                    Value::Part(value) => value,
                    Value::Held => self.held,
                })));
            }
            let message: &[u8] = match value {
                Value::Part(value) => value,
                Value::Held => self.held,
            };
            match field {
                TYPE => self.is_list = is_list(kind(message)?),
                _ => self.page = Some(list_meta(message)?),
            }
        }
        Ok(None)
    }

    /// Ends the page after the last part. Returns its fields, and the objects of a page of JSON.
    ///
    /// # Errors
    /// The answer is no page ([`Unreadable::NoList`] of another object), breaks off, or has too
    /// many objects ([`Unreadable::TooMany`]).
    pub fn finish(self) -> Result<(Page, Vec<Object<'b>>), Unreadable> {
        let is_over = matches!(self.step, Step::Key(Varint { shift: 0, .. }));
        let (page, objects) = match (self.step, self.page, self.list_end) {
            (Step::Magic | Step::Json, ..) => json(self.held, self.objects_left)?,
            (_, Some(page), None) if is_over => (page, Vec::new()),
            _ => return Err(Malformed::Cut.into()),
        };
        match page.version.is_empty() {
            true => Err(Unreadable::NoList),
            false => Ok((page, objects)),
        }
    }

    /// Reads a part up to the end of the next object, of the metadata of the list, or of the type
    /// of the envelope. Returns the number of its field and its value.
    fn value<'p>(&mut self, part: &mut &'p [u8]) -> Result<Option<(u64, Value<'p>)>, Unreadable> {
        // An empty value is complete although nothing of it arrives.
        while !part.is_empty() || matches!(self.step, Step::Value(_, 0)) {
            match self.step {
                Step::Magic => {
                    let head = self.take(part, (MAGIC.len() - self.held.len()) as u64);
                    self.held.extend_from_slice(head);
                    if self.held.len() == MAGIC.len() {
                        let is_protobuf = self.held == MAGIC;
                        self.step = if is_protobuf { Step::KEY } else { Step::Json };
                    }
                }
                Step::Json => {
                    let text = self.take(part, u64::MAX);
                    self.held.extend_from_slice(text);
                }
                Step::Key(mut key) => {
                    self.step = match self.read_varint(&mut key, part)? {
                        Some(key) => Step::after_key(key)?,
                        None => Step::Key(key),
                    };
                }
                Step::Number(mut number) => {
                    self.step = Step::Number(number);
                    match self.read_varint(&mut number, part)? {
                        Some(_) => self.end_field()?,
                        None => self.step = Step::Number(number),
                    }
                }
                Step::Length(field, mut length) => match self.read_varint(&mut length, part)? {
                    Some(length) => self.begin_value(field, length)?,
                    None => self.step = Step::Length(field, length),
                },
                Step::Value(field, left) => {
                    let is_needed = is_needed(field);
                    let value = self.take(part, left);
                    let left = left - value.len() as u64;
                    let is_whole = left == 0 && self.held.is_empty();
                    if is_needed && !is_whole {
                        self.held.extend_from_slice(value);
                    }
                    self.step = Step::Value(field, left);
                    if left == 0 {
                        self.end_field()?;
                        let value = if is_whole {
                            Value::Part(value)
                        } else {
                            Value::Held
                        };
                        if is_needed {
                            return Ok(Some((field, value)));
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    /// Begins the value of a field. That of a list is read field by field.
    fn begin_value(&mut self, field: u64, length: u64) -> Result<(), Unreadable> {
        self.held.clear();
        let end = self.at.saturating_add(length);
        let field = match (self.list_end, field) {
            (None, METADATA) => TYPE,
            _ => field,
        };
        match self.list_end {
            // API servers send the type before the object.
            None if field == CONTENT && !self.is_list => return Err(Unreadable::NoList),
            None if field == CONTENT => {
                self.page = Some(Page::default());
                self.list_end = Some(end);
                self.end_field()?;
            }
            Some(list_end) if end > list_end => return Err(Malformed::Cut.into()),
            _ if length > self.object_most && is_needed(field) => return Err(Unreadable::TooLong),
            _ => self.step = Step::Value(field, length),
        }
        Ok(())
    }

    /// Ends a field, and the list if the field is its last.
    fn end_field(&mut self) -> Result<(), Malformed> {
        match self.list_end {
            Some(end) if self.at > end => return Err(Malformed::Cut),
            Some(end) if self.at == end => self.list_end = None,
            _ => {}
        }
        self.step = Step::KEY;
        Ok(())
    }

    /// Takes so many bytes from a part, or all that it has.
    fn take<'p>(&mut self, part: &mut &'p [u8], wanted: u64) -> &'p [u8] {
        let wanted = usize::try_from(wanted).map_or(part.len(), |all| all.min(part.len()));
        let (taken, rest) = part.split_at(wanted);
        *part = rest;
        self.at += taken.len() as u64;
        taken
    }

    /// Reads on in a number; `None` if the part ends within it.
    fn read_varint(
        &mut self,
        varint: &mut Varint,
        part: &mut &[u8],
    ) -> Result<Option<u64>, Malformed> {
        while let [byte] = *self.take(part, 1) {
            varint.number |= u64::from(byte & 0x7f) << varint.shift;
            if byte & 0x80 == 0 {
                return Ok(Some(varint.number));
            }
            varint.shift += 7;
            if varint.shift >= u64::BITS {
                return Err(Malformed::Field);
            }
        }
        Ok(None)
    }
}

impl Step {
    const KEY: Self = Self::Key(Varint {
        number: 0,
        shift: 0,
    });

    /// Returns the step after the key of a field.
    fn after_key(key: u64) -> Result<Self, Malformed> {
        match (key >> 3, key & 7) {
            (0, _) => Err(Malformed::Field),
            (_, 0) => Ok(Self::Number(Varint::default())),
            (_, 1) => Ok(Self::Value(SKIPPED, 8)),
            (field, 2) => Ok(Self::Length(field, Varint::default())),
            (_, 5) => Ok(Self::Value(SKIPPED, 4)),
            _ => Err(Malformed::Field),
        }
    }
}

/// Whether a value is read: the type of an envelope, and metadata and objects of a list.
fn is_needed(field: u64) -> bool {
    matches!(field, TYPE | METADATA | CONTENT)
}

/// Whether a kind is that of a list. All such kinds have this ending (Kubernetes API conventions,
/// "Types (Kinds)").
fn is_list(kind: &str) -> bool {
    kind.ends_with("List")
}

/// Returns the kind of a `TypeMeta`.
fn kind(message: &[u8]) -> Result<&str, Malformed> {
    let mut kind = "";
    for field in Fields::of(message) {
        if let (2, value) = field? {
            kind = value.text()?;
        }
    }
    Ok(kind)
}

/// Decodes a `ListMeta`.
fn list_meta(message: &[u8]) -> Result<Page, Malformed> {
    let (mut version, mut token) = ("", "");
    for field in Fields::of(message) {
        match field? {
            (2, value) => version = value.text()?,
            (3, value) => token = value.text()?,
            _ => {}
        }
    }
    Ok(Page {
        version: version.to_owned(),
        token: Some(token.to_owned()).filter(|token| !token.is_empty()),
    })
}

fn json<'a>(text: &'a [u8], most: usize) -> Result<(Page, Vec<Object<'a>>), Unreadable> {
    #[derive(Deserialize)]
    struct List<'a> {
        kind: Option<String>,
        metadata: Metadata,
        #[serde(borrow)]
        items: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: Option<String>,
        #[serde(rename = "continue")]
        token: Option<String>,
    }
    let List {
        kind,
        metadata,
        items,
    } = serde_json::from_slice(text)?;
    if kind.is_none_or(|kind| !is_list(&kind)) {
        return Err(Unreadable::NoList);
    }
    let page = Page {
        version: metadata.resource_version.unwrap_or_default(),
        token: metadata.token.filter(|token| !token.is_empty()),
    };
    let mut objects = Vec::new();
    if let Some(items) = items {
        let mut items = serde_json::Deserializer::from_str(items.get());
        each_entry(&mut items, |object: &'a RawValue| {
            if objects.len() <= most {
                objects.push(Object::Json(object.get()));
            }
        })?;
    }
    match objects.len() > most {
        true => Err(Unreadable::TooMany),
        false => Ok((page, objects)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{Message as _, enveloped};

    const ALL: usize = usize::MAX;
    /// List of version 77 without objects.
    const EMPTY: &[u8] = b"\x0a\x04\x12\x0277";

    /// Reads an answer that arrives in parts of that size, with objects of `most` bytes at most.
    fn read(answer: &[u8], part: usize, most: usize) -> Result<(Page, Vec<String>), Unreadable> {
        read_few(answer, part, [most, ALL])
    }

    /// Reads an answer with objects of `most` bytes, and so `many`, at most.
    fn read_few(
        answer: &[u8],
        part: usize,
        [most, many]: [usize; 2],
    ) -> Result<(Page, Vec<String>), Unreadable> {
        let mut held = Vec::new();
        let mut reader = PageReader::new(most, many, &mut held);
        let mut objects = Vec::new();
        let text = |object: Object<'_>| match object {
            Object::Json(text) => text.to_owned(),
            Object::Protobuf(message) => String::from_utf8_lossy(message).into_owned(),
        };
        for mut part in answer.chunks(part) {
            while let Some(object) = reader.next(&mut part)? {
                objects.push(text(object));
            }
            assert!(reader.held.len() <= most, "{}", reader.held.len());
        }
        let (page, rest) = reader.finish()?;
        objects.extend(rest.into_iter().map(text));
        Ok((page, objects))
    }

    fn answer() -> Vec<u8> {
        let mut list = Vec::new();
        list.message(1, |meta| {
            meta.bytes(2, b"77");
            meta.bytes(3, b"more");
        });
        list.bytes(2, b"one");
        list.number(9, 1 << 40);
        list.bytes(2, &[b'x'; 300]);
        list.bytes(8, &[b'y'; 500]);
        list.bytes(2, b"");
        enveloped("v1", "PodList", &list)
    }

    #[test]
    fn page_is_read_in_parts_of_any_size() {
        let json = br#"{"kind": "PodList", "items": ["one"],
            "metadata": {"resourceVersion": "77", "continue": ""}}"#;
        let last = br#"{"kind": "List", "metadata": {"resourceVersion": "77"}, "items": null}"#;
        let x = "x".repeat(300);
        for (answer, token, objects) in [
            (&*answer(), Some("more"), &["one", &*x, ""][..]),
            (json, None, &[r#""one""#]),
            (last, None, &[]),
            (&enveloped("v1", "PodList", EMPTY), None, &[]),
        ] {
            for part in 1..=answer.len() {
                let page = Page {
                    version: "77".to_owned(),
                    token: token.map(str::to_owned),
                };
                let (found, read) = read(answer, part, ALL).unwrap();
                assert_eq!(found, page);
                assert_eq!(read, objects);
            }
        }
    }

    #[test]
    fn answer_that_is_no_list_is_not_an_empty_one() {
        for answer in [
            &br#"{"metadata": {"resourceVersion": "77"}, "items": []}"#[..],
            br#"{"kind": "PodList", "metadata": {}, "items": []}"#,
            br#"{"kind": "Status", "metadata": {"resourceVersion": "77"}}"#,
            b"k8s\0\x12\x06\x0a\x04\x12\x0277",
            &enveloped("v1", "PodList", b"")[..],
            &enveloped("v1", "Status", EMPTY)[..],
        ] {
            for part in 1..=answer.len() {
                let read = read(answer, part, ALL);
                assert!(matches!(read, Err(Unreadable::NoList)), "{answer:?}");
            }
        }
    }

    #[test]
    fn object_beyond_its_maximum_is_an_error() {
        let long_type = enveloped("v1", &"x".repeat(300), b"");
        for part in [7, 2000] {
            let read = |most| read(&answer(), part, most);
            assert!(matches!(read(299), Err(Unreadable::TooLong)));
            assert!(read(300).is_ok());
            let read = read_few(&long_type, part, [300, ALL]);
            assert!(matches!(read, Err(Unreadable::TooLong)));
        }
    }

    #[test]
    fn page_with_too_many_objects_is_an_error() {
        let json = br#"{"kind": "List", "items": [{}, 1, "three"],
            "metadata": {"resourceVersion": "77"}}"#;
        for answer in [&*answer(), json] {
            for part in [7, 2000] {
                let read = |many| read_few(answer, part, [ALL, many]);
                assert!(matches!(read(2), Err(Unreadable::TooMany)));
                assert_eq!(read(3).unwrap().1.len(), 3);
            }
        }
        let null = br#"{"kind": "List", "items": null, "metadata": {"resourceVersion": "77"}}"#;
        assert!(read_few(null, 7, [ALL, 0]).is_ok());
        let wrong = br#"{"kind": "List", "items": {}, "metadata": {}}"#;
        let read = read_few(wrong, 7, [ALL, 0]);
        assert!(matches!(read, Err(Unreadable::Json(_))));
    }

    #[test]
    fn page_that_breaks_off_anywhere_is_an_error() {
        let whole = answer();
        // After the list there are two empty fields of two bytes each.
        let list = whole.len() - 4;
        for cut in (0..whole.len()).filter(|cut| *cut < list || (cut - list) % 2 == 1) {
            for part in [7, 2000] {
                assert!(read(&whole[..cut], part, ALL).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn list_that_ends_within_a_field_is_malformed() {
        for malformed in [
            // A list of three bytes, in which an object has five, or a number ends later.
            &b"k8s\0\x0a\x06\x12\x04List\x12\x03\x12\x05hello"[..],
            b"k8s\0\x0a\x06\x12\x04List\x12\x03\x18\xff\xff\xff\x00",
            b"k8s\0\x00",
            b"k8s\0\x0a\x06\x12\x04List\x12\x02\x13\x00",
            b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            for part in [1, 7] {
                let read = read(malformed, part, ALL);
                assert!(
                    matches!(read, Err(Unreadable::Protobuf(_))),
                    "{malformed:?}"
                );
            }
        }
    }
}
