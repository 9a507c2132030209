//! Objects as the hub would store them after admission: sends the patch of `kubectl apply` in a dry
//! run.

use causeway::api::{ExposurePort, MultiClusterService};
use http::header::{CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use kube::client::Body;
use kube::core::Status;
use kube::{Error, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::DiffError;
use super::file::Wanted;
use crate::cluster::api_server::{ApiServer, RequestError};
use crate::observe::once;
use crate::views::diff::Admitted;

/// Annotation in which kubectl apply records the last applied file.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Suffix of a webhook warning that becomes a rejection outside of a dry run.
const REFUSED_WITHOUT_DRY_RUN: &str = " (refused without dry run)";

/// Returns the MultiClusterService that the hub would store. `service` is the Service of the given
/// files, as the hub would store it.
///
/// # Errors
/// [`DiffError::Refused`] also if the hub accepts the object only in a dry run.
pub(crate) async fn dry_run(
    hub: &ApiServer,
    wanted: &Wanted,
    service: Option<&Service>,
) -> Result<Admitted, DiffError> {
    let stored = once::multi_cluster_service(hub, &wanted.key).await?;
    let (object, mut warnings) = stored_as(hub, wanted, stored.as_ref()).await?;
    // The Service of the given files may resolve these warnings.
    let is_settled = service.is_some_and(|service| has_ports(service, &object));
    let of_dry_run = warnings.extract_if(.., |one| one.ends_with(REFUSED_WITHOUT_DRY_RUN));
    let refusals: Vec<_> = of_dry_run.collect();
    match refusals.as_slice() {
        [first, ..] if !is_settled => Err(DiffError::Refused {
            file: wanted.file.clone(),
            name: format!("MultiClusterService {}", wanted.key),
            message: first.trim_end_matches(REFUSED_WITHOUT_DRY_RUN).to_owned(),
        }),
        _ => Ok(Admitted {
            stored,
            object,
            warnings,
        }),
    }
}

/// Returns the Service that the hub would store.
pub(crate) async fn service(hub: &ApiServer, wanted: &Wanted) -> Result<Service, DiffError> {
    let stored = hub.get::<Service>(hub.within(&wanted.key.namespace), &wanted.key.name);
    let stored = stored.await?;
    let (mut service, _) = stored_as::<Service>(hub, wanted, stored.as_ref()).await?;
    // A Service that is created in a dry run has no resourceVersion.
    let version = &mut service.metadata.resource_version;
    version.get_or_insert_with(|| "1".to_owned());
    Ok(service)
}

/// Whether a Service has every port that the MultiClusterService exposes.
fn has_ports(service: &Service, object: &MultiClusterService) -> bool {
    let spec = service.spec.as_ref();
    let is_external = spec.and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
    let ports = spec
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let has = |wanted: &ExposurePort| {
        let name = wanted.name.as_deref().filter(|name| !name.is_empty());
        let is_it = |port: &ServicePort| {
            port.port == wanted.port && (name.is_none() || name == port.name.as_deref())
        };
        ports.iter().any(is_it)
    };
    !is_external && object.spec.ports.iter().all(has)
}

/// Creates an object, or applies it to the stored object, in a dry run. Returns the result and its
/// warnings.
async fn stored_as<K>(
    hub: &ApiServer,
    wanted: &Wanted,
    stored: Option<&K>,
) -> Result<(K, Vec<String>), DiffError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let (namespace, name) = (&*wanted.key.namespace, &*wanted.key.name);
    let url = K::url_path(&(), Some(namespace));
    let parameters = "dryRun=All&fieldManager=kubectl-client-side-apply&fieldValidation=Strict";
    let request = match stored {
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
        Ok(answer) => Ok(answer),
        Err(RequestError::Refused { message, .. } | RequestError::Conflict { message, .. }) => {
            Err(DiffError::Refused {
                file: wanted.file.clone(),
                name: format!("{} {}", K::kind(&()), wanted.key),
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

async fn send<K: DeserializeOwned>(
    hub: &ApiServer,
    request: Request<Body>,
) -> Result<(K, Vec<String>), Error> {
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

/// Returns the texts of Warning headers. Each header has one or more `299 - "text"` or `299 -
/// "text" "date"`, separated by commas (RFC 7234, 5.5).
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(WARNING).iter();
    let values = all.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    values.flat_map(texts).collect()
}

fn texts(value: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = value;
    while let Some((_, begun)) = rest.split_once('"') {
        let Some((text, after)) = quoted(begun) else {
            break;
        };
        texts.push(text);
        let date = after.trim_start().strip_prefix('"').and_then(quoted);
        let after = date.map_or(after, |(_, after)| after);
        let Some(next) = after.trim_start().strip_prefix(',') else {
            break;
        };
        rest = next;
    }
    texts
}

/// Reads a quoted string after its opening quote. Returns the string and the remaining text.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut letters = text.chars();
    loop {
        match letters.next()? {
            '"' => return Some((read, letters.as_str())),
            '\\' => read.push(letters.next()?),
            letter => read.push(letter),
        }
    }
}

/// Returns the patch of `kubectl apply` (a three-way JSON merge patch): the content of the file,
/// and null for each field that only the previously applied file sets.
fn apply_patch(stored: &impl Resource, wanted: &Value) -> Result<Value, serde_json::Error> {
    let annotations = stored.meta().annotations.as_ref();
    let Some(text) = annotations.and_then(|all| all.get(LAST_APPLIED)) else {
        return Ok(wanted.clone());
    };
    // A change of the annotation with the last applied file is not a difference.
    let mut wanted = wanted.clone();
    if let Some(meta) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = meta.entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = json!({});
        }
        // The hub rejects annotations that are not a map.
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(LAST_APPLIED.to_owned(), text.as_str().into());
        }
    }
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
    fn annotations_that_are_no_map_are_left_for_the_hub_to_refuse() {
        let stored: MultiClusterService = serde_json::from_value(json!({
            "metadata": {"name": "foo", "annotations": {LAST_APPLIED: r#"{"metadata": {"annotations": {"a": "b"}}}"#}},
            "spec": {"types": []},
        }))
        .expect("it");
        let patch = |annotations: Value| {
            let wanted = json!({"metadata": {"name": "foo", "annotations": annotations}});
            let patch = apply_patch(&stored, &wanted).expect("a patch");
            patch["metadata"]["annotations"].clone()
        };
        for wrong in [json!("a"), json!(["a"]), json!(1), json!(true)] {
            assert_eq!(patch(wrong.clone()), wrong);
        }
        let kept = stored.metadata.annotations.as_ref().expect("some")[LAST_APPLIED].as_str();
        for none in [json!({}), Value::Null] {
            assert_eq!(patch(none), json!({LAST_APPLIED: kept, "a": null}));
        }
    }

    #[test]
    fn a_service_of_the_files_settles_what_the_hub_lacks() {
        let object = |ports: Value| -> MultiClusterService {
            let spec = json!({"types": ["CrossCluster"], "ports": ports});
            serde_json::from_value(json!({"metadata": {"name": "foo"}, "spec": spec})).expect("it")
        };
        let service: Service = serde_json::from_value(
            json!({"spec": {"ports": [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]}}),
        )
        .expect("a Service");
        for (ports, settled) in [
            (json!([]), true),
            (json!([{"port": 80}]), true),
            (json!([{"name": "admin", "port": 81}]), true),
            (json!([{"name": "http", "port": 81}]), false),
            (json!([{"port": 80}, {"port": 82}]), false),
        ] {
            assert_eq!(
                has_ports(&service, &object(ports.clone())),
                settled,
                "{ports}"
            );
        }
        let external = serde_json::from_value(json!({"spec": {"type": "ExternalName"}}));
        assert!(!has_ports(
            &external.expect("a Service"),
            &object(json!([]))
        ));
    }

    #[test]
    fn warnings_are_read_without_their_code() {
        let mut headers = HeaderMap::new();
        for value in [
            r#"299 - "spec.range is deprecated""#,
            r#"299 - "no Cluster is named \"nowhere\"""#,
            r#"299 - "a, b" "Wed, 25 Nov 2026 00:00:00 GMT", 299 api "second \\ one" , 299 - "ä""#,
            r#"299 - "cut"#,
            "299",
        ] {
            let value = value.as_bytes();
            let value = http::HeaderValue::from_bytes(value).expect("a header");
            headers.append(WARNING, value);
        }
        let read = warnings(&headers);
        assert_eq!(
            read,
            [
                "spec.range is deprecated",
                "no Cluster is named \"nowhere\"",
                "a, b",
                "second \\ one",
                "ä",
            ]
        );
    }
}
