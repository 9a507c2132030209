//! What the hub would store: the patch of `kubectl apply`, in a dry run, which the hub's admission sees too.

use causeway::api::MultiClusterService;
use http::header::{CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;
use kube::{Error, Resource as _, ResourceExt as _};
use serde_json::Value;

use super::DiffError;
use super::file::Wanted;
use crate::api_server::{ApiServer, RequestError};
use crate::snapshot::gather;

/// What kubectl apply remembers of the file that was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What admission made of an object.
#[derive(Clone, Debug)]
pub(crate) struct Admitted {
    /// What is stored now, if anything is.
    pub stored: Option<MultiClusterService>,
    /// What would be stored.
    pub object: MultiClusterService,
    /// What a person would be warned of.
    pub warnings: Vec<String>,
}

/// Has the hub's API server say what it would store.
pub(crate) async fn dry_run(hub: &ApiServer, wanted: &Wanted) -> Result<Admitted, DiffError> {
    let (namespace, name) = (&*wanted.key.namespace, &*wanted.key.name);
    let stored = gather::multi_cluster_service(hub, &wanted.key).await?;
    let url = MultiClusterService::url_path(&(), Some(namespace));
    let parameters = "dryRun=All&fieldManager=kubectl-client-side-apply&fieldValidation=Strict";
    let request = match &stored {
        None => request(
            Method::POST,
            format!("{url}?{parameters}"),
            "application/json",
            &wanted.object,
        ),
        Some(stored) => request(
            Method::PATCH,
            format!("{url}/{name}?{parameters}"),
            "application/merge-patch+json",
            &apply_patch(stored, &wanted.object)?,
        ),
    };
    match hub.request(send(hub, request?)).await {
        Ok((object, warnings)) => Ok(Admitted {
            stored,
            object,
            warnings,
        }),
        Err(RequestError::Refused { message, .. } | RequestError::Conflict { message, .. }) => {
            Err(DiffError::Refused {
                file: wanted.file.clone(),
                name: wanted.key.to_string(),
                message,
            })
        }
        Err(error) => Err(error.into()),
    }
}

fn request(
    method: Method,
    url: String,
    content: &str,
    object: &Value,
) -> Result<Request<Body>, DiffError> {
    let body = Body::from(serde_json::to_vec(object)?);
    let request = Request::builder().method(method).uri(url);
    Ok(request.header(CONTENT_TYPE, content).body(body)?)
}

async fn send(
    hub: &ApiServer,
    request: Request<Body>,
) -> Result<(MultiClusterService, Vec<String>), Error> {
    let response = hub.client.send(request).await?;
    let (head, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    if !head.status.is_success() {
        let status = serde_json::from_slice::<Status>(&bytes).map_err(Error::SerdeError)?;
        return Err(Error::Api(status.boxed()));
    }
    let object = serde_json::from_slice(&bytes).map_err(Error::SerdeError)?;
    Ok((object, warnings(&head.headers)))
}

/// The texts of Warning headers, which read `299 - "text"` (RFC 7234, 5.5).
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(WARNING).iter();
    let texts = all.filter_map(|value| value.to_str().ok()?.split_once('"')?.1.rsplit_once('"'));
    texts.map(|(text, _)| text.replace("\\\"", "\"")).collect()
}

/// The patch of `kubectl apply` (a three-way JSON merge patch): what the file says, and null for what the file that was applied before said and
/// this one does not.
fn apply_patch(stored: &MultiClusterService, wanted: &Value) -> Result<Value, serde_json::Error> {
    let Some(text) = stored.annotations().get(LAST_APPLIED) else {
        return Ok(wanted.clone());
    };
    // What is remembered of the file is no difference.
    let mut wanted = wanted.clone();
    wanted["metadata"]["annotations"][LAST_APPLIED] = text.as_str().into();
    Ok(without_dropped(&serde_json::from_str(text)?, &wanted))
}

fn without_dropped(before: &Value, wanted: &Value) -> Value {
    let Value::Object(wanted) = wanted else {
        return wanted.clone();
    };
    let fields = wanted
        .iter()
        .map(|(name, value)| (name.clone(), without_dropped(&before[name], value)));
    let before = before.as_object().into_iter().flatten();
    let dropped = before
        .filter(|(name, _)| !wanted.contains_key(*name))
        .map(|(name, _)| (name.clone(), Value::Null));
    fields.chain(dropped).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_file_no_longer_says_is_taken_out_and_what_others_set_stays() {
        let spec = |spec: Value| json!({"metadata": {"name": "foo"}, "spec": spec});
        for (before, wanted, patch) in [
            (
                json!(null),
                json!({"types": ["CrossCluster"]}),
                json!({"types": ["CrossCluster"]}),
            ),
            (
                json!({"types": ["CrossCluster"], "ports": [{"port": 80}]}),
                json!({"types": ["CrossCluster"]}),
                json!({"types": ["CrossCluster"], "ports": null}),
            ),
            (
                json!({"range": {"clusterNames": ["a"]}}),
                json!({"range": {}}),
                json!({"range": {"clusterNames": null}}),
            ),
            (
                json!({"ports": [{"port": 80}]}),
                json!({"ports": null}),
                json!({"ports": null}),
            ),
        ] {
            assert_eq!(without_dropped(&spec(before), &spec(wanted)), spec(patch));
        }
    }

    #[test]
    fn warnings_are_read_without_their_code() {
        let mut headers = HeaderMap::new();
        for value in [
            r#"299 - "spec.range is deprecated""#,
            r#"299 - "no Cluster is named \"nowhere\"""#,
            "299",
        ] {
            let value = value.replace("\\\\", "\\");
            headers.append(WARNING, value.parse().expect("a header"));
        }
        let read = warnings(&headers);
        assert_eq!(
            read,
            [
                "spec.range is deprecated",
                "no Cluster is named \"nowhere\""
            ]
        );
    }
}
