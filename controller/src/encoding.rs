//! Answers of API servers as they arrive: the bytes are read here, and decoded by
//! [`causeway_wire`].

use std::io;
use std::pin::Pin;

use causeway_engine::model::{Failure, FailureKind};
use causeway_wire::{Object, Page, PageReader, Unreadable, WatchEvent};
use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use http::{HeaderValue, StatusCode};
use kube::core::Status;

use crate::failure::classify;

/// Value of `Accept` for requests whose answers may be protobuf: some aggregated API servers send
/// JSON alone.
pub(crate) const PROTOBUF_OR_JSON: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// Content type of an object that is sent.
pub(crate) const PROTOBUF: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf");

/// Progress of reading an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The event is complete.
    Whole,
    /// The answer has ended.
    Ended,
    /// The event is longer than may be read.
    TooLong,
}

/// Reason why a page is not read to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The page is longer than may be read.
    Page,
    /// An object of the page is longer than may be read.
    Object,
    /// The page has more objects than may be read.
    Objects,
    /// The page cannot be read.
    Failed(Failure),
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Unreadable> for Unread {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::TooLong => Self::Object,
            Unreadable::TooMany => Self::Objects,
            error => Self::Failed(unreadable(error)),
        }
    }
}

/// Returns the failure that an API server sends in place of an object.
pub(crate) fn failure(object: Object<'_>) -> Failure {
    match object.status() {
        Ok(status) => Failure::from_status(&status),
        Err(error) => unreadable(error),
    }
}

/// Returns the failure that an answer of an API server means.
pub(crate) fn refusal(code: StatusCode, body: &[u8]) -> Failure {
    let status = Object::of_answer(body).and_then(Object::status).ok();
    // Not every refusal is an API server's.
    let status = status.filter(|status| status.code > 0).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), "").with_code(code.as_u16())
    });
    Failure::from_status(&status)
}

/// Returns the failure of an answer that cannot be read.
pub(crate) fn unreadable(error: Unreadable) -> Failure {
    match error {
        Unreadable::Json(error) => classify(&error),
        Unreadable::Protobuf(malformed) => Failure::new(
            FailureKind::Other,
            format!("the answer cannot be read as protobuf: {malformed}"),
        ),
        error => classify(&error),
    }
}

/// Reads a page to its end, of `most` bytes at most, and passes each object to `take`. Returns the
/// page and its bytes.
///
/// # Errors
/// The answer is no page, breaks off or is too long, or `take` fails. Some objects may have been
/// passed by then.
pub(crate) async fn read_page(
    mut from: Pin<&mut impl AsyncBufRead>,
    mut reader: PageReader<'_>,
    most: usize,
    mut take: impl FnMut(Object<'_>) -> Result<(), Failure>,
) -> Result<(Page, usize), Unread> {
    let mut read = 0;
    loop {
        let mut part = from.fill_buf().await.map_err(|error| classify(&error))?;
        let length = part.len();
        if length == 0 {
            break;
        }
        read += length;
        if read > most {
            return Err(Unread::Page);
        }
        while let Some(object) = reader.next(&mut part)? {
            take(object)?;
        }
        from.consume_unpin(length);
    }
    let (page, objects) = reader.finish()?;
    objects.into_iter().try_for_each(take)?;
    Ok((page, read))
}

/// Reads until an event is complete, of `most` bytes at most. `event` holds what has arrived of it,
/// also when the caller drops this before.
pub(crate) async fn read_event(
    mut from: Pin<&mut impl AsyncBufRead>,
    event: &mut Vec<u8>,
    most: usize,
) -> io::Result<Progress> {
    loop {
        let part = from.fill_buf().await?;
        if part.is_empty() {
            return Ok(match WatchEvent::may_end(event) {
                true => Progress::Whole,
                false => Progress::Ended,
            });
        }
        let (wanted, is_end) = WatchEvent::split(event, part);
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
    fn events_are_read_in_parts_of_any_size() {
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
    fn refusal_without_a_status_has_the_kind_of_its_code() {
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

    #[test]
    fn page_beyond_its_maximum_is_not_read_to_its_end() {
        let whole = br#"{"kind": "List", "metadata": {"resourceVersion": "7"}, "items": [1, 2]}"#;
        let read = |most| {
            let from = pin!(BufReader::with_capacity(7, &whole[..]));
            let (mut held, mut objects) = (Vec::new(), 0);
            let page = read_page(from, PageReader::new(9, 2, &mut held), most, |_| {
                objects += 1;
                Ok(())
            });
            futures::executor::block_on(page).map(|(page, bytes)| (page.version, bytes, objects))
        };
        for most in 0..whole.len() {
            assert_eq!(read(most), Err(Unread::Page), "{most}");
        }
        assert_eq!(read(whole.len()), Ok(("7".to_owned(), whole.len(), 2)));
    }
}
