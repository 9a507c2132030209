//! Bound of the answers of an API server: no more is read than an honest one sends.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryFutureExt as _};
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyStream, StreamBody};
use hyper::body::{Body, Frame};
use kube::client;
use tower::{BoxError, Service};

const MIB: usize = 1024 * 1024;
/// Bytes of an answer. causeway-controller holds as much of one kind of a member by default.
const ANSWER_MAX: usize = 1024 * MIB;
/// Bytes of one event of a watch, whose answer has no end.
const EVENT_MAX: usize = 8 * MIB;

/// Answer that is longer than the bound.
#[derive(Debug, thiserror::Error)]
#[error("{what} has more than {} MiB", max / MIB)]
pub(crate) struct Overlong {
    what: &'static str,
    max: usize,
}

/// Service of a client whose answers end with [`Overlong`] beyond the bound.
#[derive(Clone, Debug)]
pub(super) struct BoundAnswers<S>(pub S);

impl<S, B> Service<Request<client::Body>> for BoundAnswers<S>
where
    S: Service<Request<client::Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<client::Body>) -> Self::Future {
        let mut bound = Bound {
            is_watch: is_watch(request.uri()),
            read: 0,
        };
        let bounded = move |body: B| {
            let frames = BodyStream::new(body).map(move |frame| bound.within(frame));
            UnsyncBoxBody::new(StreamBody::new(frames))
        };
        let answer = self.0.call(request);
        answer.map_ok(move |answer| answer.map(bounded)).boxed()
    }
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true")
}

/// Bound of the body of an answer.
#[derive(Debug)]
struct Bound {
    is_watch: bool,
    /// Bytes of the answer so far, or of the event of a watch, which is a line.
    read: usize,
}

impl Bound {
    /// Counts the bytes of a frame.
    fn within<E: Into<BoxError>>(
        &mut self,
        frame: Result<Frame<Bytes>, E>,
    ) -> Result<Frame<Bytes>, BoxError> {
        let frame = frame.map_err(Into::<BoxError>::into)?;
        if let Some(bytes) = frame.data_ref() {
            self.count(bytes)?;
        }
        Ok(frame)
    }

    /// Counts bytes.
    fn count(&mut self, bytes: &[u8]) -> Result<(), Overlong> {
        let end_of_event = match self.is_watch {
            true => bytes.iter().rposition(|byte| *byte == b'\n'),
            false => None,
        };
        self.read = match end_of_event {
            Some(end) => bytes.len() - end - 1,
            None => self.read.saturating_add(bytes.len()),
        };
        let (what, max) = match self.is_watch {
            true => ("an event of a watch", EVENT_MAX),
            false => ("an answer", ANSWER_MAX),
        };
        match self.read <= max {
            true => Ok(()),
            false => Err(Overlong { what, max }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_events_of_a_watch_are_counted_by_themselves() {
        let uri = |query: &str| format!("https://member1/api/v1/services{query}");
        for (query, watch) in [
            ("", false),
            ("?limit=500", false),
            ("?watch=true&timeoutSeconds=290", true),
            ("?limit=1&watch=true", true),
        ] {
            let uri = uri(query).parse().expect("a URI");
            assert_eq!(is_watch(&uri), watch, "{uri}");
        }
    }

    #[test]
    fn answer_and_event_end_with_an_error_beyond_the_bound() {
        let mib = vec![b' '; MIB];
        for (is_watch, max) in [(false, ANSWER_MAX), (true, EVENT_MAX)] {
            let mut body = Bound { is_watch, read: 0 };
            for _ in 0..max / MIB {
                body.count(&mib).expect("within the bound");
            }
            let overlong = body.count(b" ").expect_err("beyond the bound");
            let said = format!("more than {} MiB", max / MIB);
            assert!(overlong.to_string().contains(&said), "{overlong}");
        }
        let mut watch = Bound {
            is_watch: true,
            read: 0,
        };
        let line = [&mib[1..], b"\n"].concat();
        for _ in 0..2 * EVENT_MAX / MIB {
            watch.count(&line).expect("short events");
        }
    }
}
