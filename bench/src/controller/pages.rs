//! Lists in pages of the size that the controller asks for, read and passed over.

use std::io::Read as _;

use anyhow::ensure;
use bytes::Bytes;
use causeway_wire::protobuf::{self, Fields};
use flate2::read::GzDecoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderValue, Request as HttpRequest, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request;
use kube::{Client, Resource as _};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Bytes of a page, about.
const PAGE: usize = 2 * 1024 * 1024;
/// Objects of the first page, whose size nobody knows.
const FIRST_PAGE: u32 = 50;

/// How EndpointSlices are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

/// How EndpointSlices are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) encoding: Encoding,
    /// Whether the answer may be compressed.
    pub(crate) gzip: bool,
}

/// What was listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) objects: usize,
    /// As they were sent, TLS and headers aside.
    pub(crate) bytes: usize,
}

impl Encoding {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        }
    }

    fn accept(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        })
    }
}

impl Asked {
    /// Sends a request, and waits for the head of the answer. The client must not decompress by itself.
    pub(crate) async fn send(
        self,
        client: &Client,
        mut request: HttpRequest<Vec<u8>>,
    ) -> anyhow::Result<Response<Body>> {
        let encodings = if self.gzip { "gzip" } else { "identity" };
        let headers = request.headers_mut();
        headers.insert(ACCEPT, self.encoding.accept());
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encodings));
        let answer = client.send(request.map(Body::from)).await?;
        let status = answer.status();
        ensure!(status.is_success(), "an API server answers {status}");
        Ok(answer)
    }

    /// Lists all EndpointSlices, a page after the other.
    pub(crate) async fn list(self, client: &Client) -> anyhow::Result<Listed> {
        let request = Request::new(EndpointSlice::url_path(&(), None));
        let mut listed = Listed::default();
        let (mut token, mut limit) = (None, FIRST_PAGE);
        loop {
            let params = ListParams {
                limit: Some(limit),
                continue_token: token,
                ..ListParams::default()
            };
            let answer = self.send(client, request.list(&params)?).await?;
            let is_compressed = answer.headers().contains_key(CONTENT_ENCODING);
            let mut body = answer.into_body().collect().await?.to_bytes();
            listed.bytes += body.len();
            if is_compressed {
                body = decompressed(&body)?;
            }
            let (objects, next) = pass_over(&body, self.encoding)?;
            listed.objects += objects;
            let each = body.len() / objects.max(1);
            limit = u32::try_from(PAGE / each.max(1))?.clamp(2, 500);
            token = next.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(listed);
            }
        }
    }
}

fn decompressed(body: &[u8]) -> anyhow::Result<Bytes> {
    let mut text = Vec::with_capacity(PAGE + PAGE / 2);
    GzDecoder::new(body).read_to_end(&mut text)?;
    Ok(text.into())
}

/// A page that was passed over: how many objects it has, and where it goes on.
fn pass_over(body: &[u8], encoding: Encoding) -> anyhow::Result<(usize, Option<String>)> {
    #[derive(Deserialize)]
    struct Page {
        metadata: ListMeta,
        items: Vec<IgnoredAny>,
    }
    if encoding == Encoding::Json {
        let page: Page = serde_json::from_slice(body)?;
        return Ok((page.items.len(), page.metadata.continue_));
    }
    let (mut objects, mut token) = (0, None);
    for field in Fields::of(protobuf::object(body)?) {
        match field? {
            (1, meta) => {
                for field in Fields::of(meta.bytes()) {
                    if let (3, value) = field? {
                        token = Some(value.text()?.to_owned());
                    }
                }
            }
            (2, object) => {
                let all_read = Fields::of(object.bytes()).all(|field| field.is_ok());
                ensure!(all_read, "an object is malformed");
                objects += 1;
            }
            _ => {}
        }
    }
    Ok((objects, token))
}
