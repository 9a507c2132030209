//! Bound of a member's answers: no more is read than an honest one sends. Lists and watches, whose
//! size is unknown, are counted by their readers ([`crate::watch::Limits`]).

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::{Request, Response};
use http_body_util::{Either, Limited};
use kube::client::Body;
use tower::{BoxError, Service};

use crate::watch::Counted;

/// Bytes of an answer about one object, a list of API groups or the like.
const MOST: usize = 16 * 1024 * 1024;

/// A client's service whose answers end with an error where they are longer, but for those that the caller counts.
#[derive(Clone, Debug)]
pub(super) struct Bounded<S>(pub(super) S);

impl<S, B> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Limited<B>>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let counted = request.extensions().get::<Counted>().is_some();
        let bound = move |body| match counted {
            true => Either::Left(body),
            false => Either::Right(Limited::new(body, MOST)),
        };
        let answer = self.0.call(request);
        answer.map_ok(move |answer| answer.map(bound)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::io::AsyncReadExt as _;
    use http_body_util::Full;
    use kube::Client;
    use tower::service_fn;

    use super::*;

    /// A client of a server that answers everything with so many bytes.
    fn client(bytes: usize) -> Client {
        let server = service_fn(move |_: Request<Body>| async move {
            let body = Full::new(Bytes::from(vec![b' '; bytes]));
            Ok::<_, BoxError>(Response::new(body))
        });
        Client::new(Bounded(server), "default")
    }

    #[tokio::test]
    async fn overlong_answer_is_an_error_unless_counted_elsewhere() {
        for (bytes, counted, read) in [
            (MOST, false, true),
            (MOST + 1, false, false),
            (MOST + 1, true, true),
        ] {
            let mut request = Request::get("https://member1/api").body(Vec::new());
            let request = request.as_mut().expect("a request");
            if counted {
                request.extensions_mut().insert(Counted);
            }
            let answer = client(bytes).request_stream(request.clone()).await;
            let mut body = Vec::new();
            let ended = answer.expect("an answer").read_to_end(&mut body).await;
            assert_eq!(ended.is_ok(), read, "{bytes} {counted}");
        }
    }
}
