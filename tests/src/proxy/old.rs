//! Answers of an API server of Kubernetes 1.21, without the fields of EndpointSlices and Services
//! whose feature gates are off there.

use std::io;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

/// Replaces the answer at `/version`.
pub(super) fn name(version: &mut Value) {
    *version = json!({"major": "1", "minor": "21", "gitVersion": "v1.21.14", "platform": version["platform"]});
}

/// Drops the fields of a write that 1.21 does not store.
pub(super) async fn without_gated(request: Request<Incoming>) -> io::Result<Request<Full<Bytes>>> {
    let (mut head, body) = request.into_parts();
    // ServiceImports have fields of these names too, and definitions have no gates.
    let path = head.uri.path();
    let is_gated = path.starts_with("/api/v1/") || path.starts_with("/apis/discovery.k8s.io/");
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let body = match serde_json::from_slice(&body) {
        Ok(mut object) if is_gated => {
            drop_gated(&mut object);
            Bytes::from(object.to_string())
        }
        _ => body,
    };
    head.headers.remove(CONTENT_LENGTH);
    Ok(Request::from_parts(head, Full::new(body)))
}

/// Drops the fields of EndpointSliceTerminatingCondition, TopologyAwareHints and
/// ServiceInternalTrafficPolicy (1.21: `dropDisabledFieldsOnCreate` and `...OnUpdate`), and later
/// ones.
fn drop_gated(object: &mut Value) {
    let endpoints = object.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        remove(endpoint, "hints");
        for condition in ["serving", "terminating"] {
            if let Some(conditions) = endpoint.get_mut("conditions") {
                remove(conditions, condition);
            }
        }
    }
    if let Some(spec) = object.get_mut("spec") {
        remove(spec, "internalTrafficPolicy");
        remove(spec, "trafficDistribution");
    }
}

fn remove(value: &mut Value, field: &str) {
    value.as_object_mut().map(|fields| fields.remove(field));
}
