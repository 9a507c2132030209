//! Reads a page of a list as it comes. Of protobuf one object at a time is held, so that hundreds of lists that are read at once
//! take little memory; of JSON the whole page is.

use std::io;
use std::pin::Pin;

use causeway_engine::model::Failure;
use causeway_engine::model::protobuf::{Fields, MAGIC, Malformed};
use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Object, unreadable};
use crate::failure::classify;

/// Fields of a page besides its objects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// The version of the state that the list is of.
    pub(crate) version: String,
    /// For the next page; `None` after the last.
    pub(crate) token: Option<String>,
    /// Bytes that it takes.
    pub(crate) bytes: usize,
}

/// Reads a page to its end, and hands over each object; `None` where it is longer than `most` bytes. An object of protobuf that is
/// longer than `object_most` bytes is cut one byte after that, for `take` to refuse. `held` is where text goes, so that pages need not
/// ask for memory again.
///
/// # Errors
/// Where it is no page or breaks off, and what `take` returns. Some objects may have been handed over by then.
pub(crate) async fn read_page(
    from: Pin<&mut impl AsyncBufRead>,
    [most, object_most]: [usize; 2],
    held: &mut Vec<u8>,
    take: impl FnMut(Object<'_>) -> Result<(), Failure>,
) -> Result<Option<Page>, Failure> {
    let bytes = Bytes {
        from,
        read: 0,
        most,
        object_most,
    };
    match bytes.page(held, take).await {
        Ok(page) => Ok(Some(page)),
        Err(Unread::TooLong) => Ok(None),
        Err(Unread::Broken(error)) => Err(classify(&error)),
        Err(Unread::Malformed(malformed)) => Err(unreadable(malformed)),
        Err(Unread::Failed(failure)) => Err(failure),
    }
}

/// Reason why a page is not read to its end.
enum Unread {
    TooLong,
    Broken(io::Error),
    Malformed(Malformed),
    Failed(Failure),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Malformed> for Unread {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A field of a message that still arrives.
enum Field {
    /// Field whose value is read and dropped.
    Other,
    /// Field whose value, of so many bytes, follows.
    Bytes { number: u64, length: u64 },
}

/// The bytes of an answer.
struct Bytes<'a, R> {
    from: Pin<&'a mut R>,
    read: usize,
    most: usize,
    object_most: usize,
}

impl<R: AsyncBufRead> Bytes<'_, R> {
    async fn page(
        mut self,
        held: &mut Vec<u8>,
        mut take: impl FnMut(Object<'_>) -> Result<(), Failure>,
    ) -> Result<Page, Unread> {
        held.clear();
        self.up_to(MAGIC.len() as u64, held).await?;
        let mut page = if held == MAGIC {
            self.envelope(held, &mut take).await?
        } else {
            self.up_to(u64::MAX, held).await?;
            json(held, &mut take)?
        };
        page.bytes = self.read;
        Ok(page)
    }

    /// A `runtime.Unknown`, to the end of the answer.
    async fn envelope(
        &mut self,
        held: &mut Vec<u8>,
        take: &mut impl FnMut(Object<'_>) -> Result<(), Failure>,
    ) -> Result<Page, Unread> {
        let mut page = None;
        while !self.is_at_end().await? {
            match self.field().await? {
                Field::Bytes { number: 2, length } => {
                    page = Some(self.list(length, held, take).await?);
                }
                Field::Bytes { length, .. } => self.exactly(length, held).await?,
                Field::Other => {}
            }
        }
        Ok(page.ok_or(Malformed::Cut)?)
    }

    /// A list of so many bytes.
    async fn list(
        &mut self,
        length: u64,
        held: &mut Vec<u8>,
        take: &mut impl FnMut(Object<'_>) -> Result<(), Failure>,
    ) -> Result<Page, Unread> {
        let mut page = Page::default();
        let end = (self.read as u64).saturating_add(length);
        while (self.read as u64) < end {
            let Field::Bytes { number, length } = self.field().await? else {
                continue;
            };
            let held_most = (self.object_most as u64).saturating_add(1);
            self.exactly(length.min(held_most), held).await?;
            match number {
                1 => (page.version, page.token) = list_meta(held)?,
                2 => take(Object::Protobuf(held))?,
                _ => {}
            }
        }
        if self.read as u64 > end {
            return Err(Malformed::Cut.into());
        }
        Ok(page)
    }

    async fn field(&mut self) -> Result<Field, Unread> {
        let key = self.varint().await?;
        let length = match key & 7 {
            _ if key >> 3 == 0 => return Err(Malformed::Field.into()),
            0 => {
                self.varint().await?;
                return Ok(Field::Other);
            }
            1 => 8,
            2 => self.varint().await?,
            5 => 4,
            _ => return Err(Malformed::Field.into()),
        };
        Ok(Field::Bytes {
            number: key >> 3,
            length,
        })
    }

    async fn varint(&mut self) -> Result<u64, Unread> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.from.fill_buf().await?.first().ok_or(Malformed::Cut)?;
            self.consume(1)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Field.into())
    }

    /// Puts so many bytes in place of what is held.
    async fn exactly(&mut self, length: u64, held: &mut Vec<u8>) -> Result<(), Unread> {
        held.clear();
        self.up_to(length, held).await?;
        if (held.len() as u64) < length {
            return Err(Malformed::Cut.into());
        }
        Ok(())
    }

    /// Adds so many bytes to what is held, or all that come.
    async fn up_to(&mut self, mut length: u64, held: &mut Vec<u8>) -> Result<(), Unread> {
        while length > 0 && !self.is_at_end().await? {
            let part = self.from.fill_buf().await?;
            let wanted = usize::try_from(length).map_or(part.len(), |all| all.min(part.len()));
            held.extend_from_slice(&part[..wanted]);
            length -= wanted as u64;
            self.consume(wanted)?;
        }
        Ok(())
    }

    async fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.from.fill_buf().await?.is_empty())
    }

    fn consume(&mut self, bytes: usize) -> Result<(), Unread> {
        self.from.consume_unpin(bytes);
        self.read += bytes;
        if self.read > self.most {
            return Err(Unread::TooLong);
        }
        Ok(())
    }
}

/// The version and the token of a `ListMeta`.
fn list_meta(message: &[u8]) -> Result<(String, Option<String>), Malformed> {
    let (mut version, mut token) = ("", "");
    for field in Fields::of(message) {
        match field? {
            (2, value) => version = value.text()?,
            (3, value) => token = value.text()?,
            _ => {}
        }
    }
    Ok((
        version.to_owned(),
        Some(token.to_owned()).filter(|token| !token.is_empty()),
    ))
}

fn json(
    text: &[u8],
    take: &mut impl FnMut(Object<'_>) -> Result<(), Failure>,
) -> Result<Page, Failure> {
    #[derive(Deserialize)]
    struct List<'a> {
        metadata: Metadata,
        #[serde(borrow)]
        items: Option<Vec<&'a RawValue>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: Option<String>,
        #[serde(rename = "continue")]
        token: Option<String>,
    }
    let list: List<'_> = serde_json::from_slice(text).map_err(|error| classify(&error))?;
    for object in list.items.unwrap_or_default() {
        take(Object::Json(object))?;
    }
    Ok(Page {
        version: list.metadata.resource_version.unwrap_or_default(),
        token: list.metadata.token.filter(|token| !token.is_empty()),
        bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use causeway_engine::model::FailureKind;
    use causeway_engine::model::protobuf::{Message as _, enveloped};
    use futures::executor::block_on;
    use futures::io::BufReader;

    use super::*;

    const ALL: usize = usize::MAX;

    /// Reads an answer that arrives in parts of that size.
    fn read(
        answer: &[u8],
        part: usize,
        most: usize,
    ) -> Result<Option<(Page, Vec<String>)>, Failure> {
        let from = pin!(BufReader::with_capacity(part, answer));
        let (mut held, mut objects) = (Vec::new(), Vec::new());
        let page = read_page(from, [most, ALL], &mut held, |object| {
            objects.push(match object {
                Object::Json(text) => text.get().to_owned(),
                Object::Protobuf(message) => String::from_utf8_lossy(message).into_owned(),
            });
            Ok(())
        });
        Ok(block_on(page)?.map(|page| (page, objects)))
    }

    fn answer() -> Vec<u8> {
        let mut list = Vec::new();
        list.message(1, |meta| {
            meta.bytes(2, b"77");
            meta.bytes(3, b"more");
        });
        list.bytes(2, b"one");
        list.bytes(2, &[b'x'; 300]);
        list.bytes(2, b"");
        enveloped("v1", "PodList", &list)
    }

    #[test]
    fn a_page_is_read_in_whatever_parts_it_comes() {
        let json = br#"{"items": ["one"], "metadata": {"resourceVersion": "77", "continue": ""}}"#;
        let last = br#"{"metadata": {}, "items": null}"#;
        let x = "x".repeat(300);
        for (answer, version, token, objects) in [
            (&*answer(), "77", Some("more"), &["one", &*x, ""][..]),
            (json, "77", None, &[r#""one""#]),
            (last, "", None, &[]),
            (&enveloped("v1", "PodList", b""), "", None, &[]),
        ] {
            for part in 1..40 {
                let page = Page {
                    version: version.to_owned(),
                    token: token.map(str::to_owned),
                    bytes: answer.len(),
                };
                let (found, read) = read(answer, part, ALL).unwrap().unwrap();
                assert_eq!(found, page);
                assert_eq!(read, objects);
            }
        }
    }

    #[test]
    fn object_beyond_its_bound_is_not_held() {
        let answer = answer();
        let from = pin!(BufReader::with_capacity(7, &*answer));
        let (mut held, mut longest) = (Vec::new(), 0);
        let page = read_page(from, [ALL, 100], &mut held, |object| {
            longest = longest.max(object.bytes());
            match object.bytes() <= 100 {
                true => Ok(()),
                false => Err(Failure::timeout()),
            }
        });
        assert_eq!(block_on(page), Err(Failure::timeout()));
        assert_eq!(longest, 101);
    }

    #[test]
    fn a_page_that_breaks_off_is_a_failure_wherever_it_does() {
        let whole = answer();
        // After the list there are two empty fields of two bytes each.
        let list = whole.len() - 4;
        for cut in (0..whole.len()).filter(|cut| *cut < list || (cut - list) % 2 == 1) {
            let failure = read(&whole[..cut], 7, ALL).expect_err("it broke off");
            assert_eq!(failure.kind, FailureKind::Other, "{cut}: {failure:?}");
        }
    }

    #[test]
    fn a_page_that_is_too_long_is_not_read_to_its_end() {
        for whole in [answer(), br#"{"metadata": {}}"#.to_vec()] {
            for most in 0..whole.len() {
                assert_eq!(read(&whole, 7, most), Ok(None), "{most}");
            }
            assert!(read(&whole, 7, whole.len()).unwrap().is_some());
        }
    }

    #[test]
    fn a_list_whose_objects_are_longer_than_itself_is_malformed() {
        let mut overrun = b"k8s\0".to_vec();
        // A list of three bytes, in which an object has five.
        overrun.extend_from_slice(&[0x12, 3, 0x12, 5, b'h', b'e', b'l', b'l', b'o']);
        for malformed in [&*overrun, b"k8s\0\x00", b"k8s\0\x12\x02\x13\x00"] {
            assert!(read(malformed, 7, ALL).is_err(), "{malformed:?}");
        }
    }
}
