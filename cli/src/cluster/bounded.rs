//! Bound of the answers of an API server: no more is read than an honest one sends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::{Request, Response, Uri};
use hyper::body::{Body, Frame, SizeHint};
use kube::client;
use tower::{BoxError, Layer, Service};

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

/// Layer of a client that bounds answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundAnswers;

impl<S> Layer<S> for BoundAnswers {
    type Service = BoundedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BoundedService(inner)
    }
}

/// Service of a client whose answers end with [`Overlong`] beyond the bound.
#[derive(Clone, Debug)]
pub(super) struct BoundedService<S>(S);

impl<S, B> Service<Request<client::Body>> for BoundedService<S>
where
    S: Service<Request<client::Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<Bounded<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<client::Body>) -> Self::Future {
        let is_watch = is_watch(request.uri());
        let bound = move |body| Bounded {
            body,
            is_watch,
            read: 0,
        };
        let answer = self.0.call(request);
        answer.map_ok(move |answer| answer.map(bound)).boxed()
    }
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true")
}

/// Body that ends with [`Overlong`] beyond the bound.
#[derive(Debug)]
pub(super) struct Bounded<B> {
    body: B,
    is_watch: bool,
    /// Bytes of the answer so far, or of the event of a watch, which is a line.
    read: usize,
}

impl<B> Bounded<B> {
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

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = frame.map_err(Into::into).and_then(|frame| {
            let bytes = frame.data_ref();
            bytes.map_or(Ok(()), |bytes| self.count(bytes))?;
            Ok(frame)
        });
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(is_watch: bool) -> Bounded<()> {
        Bounded {
            body: (),
            is_watch,
            read: 0,
        }
    }

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
            let mut body = bounded(is_watch);
            for _ in 0..max / MIB {
                body.count(&mib).expect("within the bound");
            }
            let overlong = body.count(b" ").expect_err("beyond the bound");
            let said = format!("more than {} MiB", max / MIB);
            assert!(overlong.to_string().contains(&said), "{overlong}");
        }
        let mut watch = bounded(true);
        let line = [&mib[1..], b"\n"].concat();
        for _ in 0..2 * EVENT_MAX / MIB {
            watch.count(&line).expect("short events");
        }
    }
}
