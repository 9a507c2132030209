//! An API server that is a function: a client of it does no IO.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

/// A client whose requests are answered by `answer`, given path and query: the status code and the
/// body.
pub(crate) fn client(
    answer: impl Fn(&str) -> (u16, Bytes) + Clone + Send + Sync + 'static,
) -> Client {
    let service = service_fn(move |request: Request<Body>| {
        let path = request.uri().path_and_query().map(ToString::to_string);
        let (code, body) = answer(&path.unwrap_or_default());
        let response = Response::builder().status(code).body(Full::new(body));
        async move { Ok::<_, Infallible>(response.expect("a status code")) }
    });
    Client::new(service, "default")
}
