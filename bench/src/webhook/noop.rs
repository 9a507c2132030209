//! The floor: a TLS server of the webhook's own stack that reads a request and answers 200.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::net::TcpListener;

use crate::serving::{self, Answer};

/// Path before the length of the answer.
pub(crate) const FIXED: &str = "/fixed/";
/// Path that admits every object, but no dry run.
pub(crate) const ADMIT: &str = "/admit";

static ANSWER: [u8; 64 * 1024] = [b'x'; 64 * 1024];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it serves, over TLS
    #[arg(long)]
    bind: SocketAddr,
    /// The directory of tls.crt and tls.key
    #[arg(long)]
    tls_dir: PathBuf,
}

/// Serves until it is killed.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| {
        let file = args.tls_dir.join(name);
        std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))
    });
    let tls = serving::acceptor(&certificate?, &key?)?;
    crate::runtime()?.block_on(async {
        let listener = TcpListener::bind(args.bind).await?;
        Ok(tokio::spawn(serving::serve(listener, Some(tls), respond)).await?)
    })
}

async fn respond(request: Request<Incoming>) -> Answer {
    let path = request.uri().path();
    let length = path.strip_prefix(FIXED).and_then(|text| text.parse().ok());
    let mut body = request.into_body();
    let answer = match length.and_then(|length: usize| ANSWER.get(..length)) {
        Some(answer) => {
            while let Some(Ok(_)) = body.frame().await {}
            Bytes::from_static(answer)
        }
        None => match body.collect().await {
            Ok(review) => admit(&review.to_bytes()),
            Err(_) => Bytes::new(),
        },
    };
    let mut response = Response::new(Full::new(answer).boxed_unsync());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// Returns the answer to a review, with the UID that the review names first.
fn admit(review: &[u8]) -> Bytes {
    let review = std::str::from_utf8(review).unwrap_or_default();
    let uid = review.split(r#""uid":""#).nth(1);
    let uid = uid
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default();
    let allowed = !review.contains(r#""dryRun":true"#);
    let head = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response""#;
    format!(r#"{head}:{{"uid":"{uid}","allowed":{allowed}}}}}"#).into()
}
