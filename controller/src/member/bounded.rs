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

/// Bytes of an answer about one object or the like: more than twice what etcd stores of an object.
/// Decoded, a hostile answer takes up to 90 times its bytes.
const MOST: usize = 4 * 1024 * 1024;
/// Bytes of a refusal.
const REFUSAL_MOST: usize = 1024 * 1024;

/// A client's service whose answers end with an error where they are longer, but for those that the
/// caller counts.
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
        let bound = move |answer: Response<B>| {
            let is_refusal = answer.status().is_client_error() || answer.status().is_server_error();
            let most = if is_refusal { REFUSAL_MOST } else { MOST };
            answer.map(|body| match counted {
                true => Either::Left(body),
                false => Either::Right(Limited::new(body, most)),
            })
        };
        self.0.call(request).map_ok(bound).boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures::io::AsyncReadExt as _;
    use http_body_util::Full;
    use kube::Client;
    use tower::service_fn;

    use super::*;

    /// A client of a server that answers everything with that code and so many bytes.
    fn client(code: u16, bytes: usize) -> Client {
        let server = service_fn(move |_: Request<Body>| async move {
            let body = Full::new(Bytes::from(vec![b' '; bytes]));
            Ok::<_, BoxError>(Response::builder().status(code).body(body)?)
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
            let answer = client(200, bytes).request_stream(request.clone()).await;
            let mut body = Vec::new();
            let ended = answer.expect("an answer").read_to_end(&mut body).await;
            assert_eq!(ended.is_ok(), read, "{bytes} {counted}");
        }
    }

    #[tokio::test]
    async fn overlong_refusal_is_not_read_to_its_end() {
        for (bytes, is_read) in [(REFUSAL_MOST, true), (REFUSAL_MOST + 1, false)] {
            let request = Request::get("https://member1/api").body(Vec::new());
            let request = request.expect("a request");
            let refused = client(403, bytes).request_text(request).await;
            let is_api = matches!(refused, Err(kube::Error::Api(_)));
            assert_eq!(is_api, is_read, "{bytes}");
        }
    }
}
