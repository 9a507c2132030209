//! Lists in pages of the size that the controller requests, read and passed over.

use anyhow::ensure;
use causeway_wire::PageReader;
use http::HeaderValue;
use http::header::{ACCEPT, ACCEPT_ENCODING};
use http_body_util::BodyExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request;
use kube::{Client, Resource as _};

/// Approximate bytes of a page.
const PAGE: usize = 2 * 1024 * 1024;
/// Objects of the first page, as their size is unknown.
const FIRST_PAGE: u32 = 50;

/// Lists all EndpointSlices as protobuf, one page after the other. Returns their number, and their
/// bytes without TLS and headers.
pub(crate) async fn list(client: &Client) -> anyhow::Result<(usize, usize)> {
    let all = Request::new(EndpointSlice::url_path(&(), None));
    let mut params = ListParams::default().limit(FIRST_PAGE);
    let (mut count, mut bytes, mut buffer) = (0, 0, Vec::new());
    loop {
        let mut request = all.list(&params)?;
        let protobuf = HeaderValue::from_static("application/vnd.kubernetes.protobuf");
        request.headers_mut().insert(ACCEPT, protobuf);
        let uncompressed = HeaderValue::from_static("identity");
        request.headers_mut().insert(ACCEPT_ENCODING, uncompressed);
        let answer = client.send(request.map(Body::from)).await?;
        let status = answer.status();
        ensure!(status.is_success(), "an API server answers {status}");
        let body = answer.into_body().collect().await?.to_bytes();
        let (mut reader, mut part) = (PageReader::new(PAGE, &mut buffer), &*body);
        let before = count;
        while reader.next(&mut part)?.is_some() {
            count += 1;
        }
        bytes += body.len();
        let each = body.len() / (count - before).max(1);
        params.limit = Some(u32::try_from(PAGE / each.max(1))?.clamp(2, 500));
        params.continue_token = reader.finish()?.0.token;
        if params.continue_token.is_none() {
            return Ok((count, bytes));
        }
    }
}
