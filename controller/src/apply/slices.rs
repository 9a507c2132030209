//! Copies go out as protobuf, and come back so: an API server reads and writes that several times
//! cheaper than JSON.

use causeway_engine::model::slice::{ObservedSlice, SliceDecoder};
use causeway_engine::model::{Ack, Failure};
use causeway_wire::protobuf::enveloped;
use causeway_wire::{Object, encode};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request as HttpRequest, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::client::Body;
use kube::core::request;

use super::named;
use crate::encoding::{self, PROTOBUF, PROTOBUF_OR_JSON};
use crate::failure::{Classify as _, unreadable};

/// Sends a slice as protobuf, and as JSON where something in between knows only that.
pub(super) async fn store(
    client: &Client,
    slice: &EndpointSlice,
    name: &str,
    request: impl Fn(Vec<u8>) -> Result<HttpRequest<Vec<u8>>, request::Error>,
) -> Result<Ack, Failure> {
    let request = |body| {
        request(body)
            .map_err(kube::Error::BuildRequest)
            .classified()
    };
    let message = encode(slice);
    let mut protobuf = request(enveloped("discovery.k8s.io/v1", "EndpointSlice", &message))?;
    protobuf.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
    let (mut code, mut body) = send(client, protobuf).await?;
    if code == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let json = serde_json::to_vec(slice).classified()?;
        (code, body) = send(client, request(json)?).await?;
    }
    if !code.is_success() {
        return Err(encoding::refusal(code, &body));
    }
    let stored = Object::of_answer(&body).map_err(encoding::unreadable)?;
    let stored = SliceDecoder::default().decode(stored);
    let stored = stored.map_err(|error| unreadable(&error))?;
    let stored = named(stored, name)?;
    Ok(Ack::Slice(ObservedSlice::from(stored).into()))
}

/// The answer, whole.
async fn send(
    client: &Client,
    mut request: HttpRequest<Vec<u8>>,
) -> Result<(StatusCode, Vec<u8>), Failure> {
    request.headers_mut().insert(ACCEPT, PROTOBUF_OR_JSON);
    let answer = client.send(request.map(Body::from)).await.classified()?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.classified()?;
    Ok((head.status, body.to_bytes().into()))
}
