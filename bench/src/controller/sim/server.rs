//! HTTP of the API servers: lists in pages, watches with bookmarks, writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use causeway::api::labels;
use causeway_wire::protobuf::{Message as _, enveloped};
use causeway_wire::{Object, RawSlice, message};
use futures::stream;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;
use tokio::time::sleep_until;

use super::journal::{Journal, Write};
use super::slices::{Encoding, SliceId};
use super::store::{Place, Store, event, path};
use super::writes::{self, Refusal, Sent, malformed, not_found, refusal};
use crate::serving::Answer;

/// Approximate interval of bookmarks of API servers.
const BOOKMARKS_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_TIMEOUT: u64 = 1800;

type Parameters<'a> = HashMap<&'a str, &'a str>;

/// State that all connections share.
pub(crate) struct Shared {
    /// The hub, then the members.
    pub(crate) stores: Vec<Arc<Store>>,
    pub(crate) journal: Arc<Journal>,
}

/// Answers a request. `/NUMBER` is an API server.
pub(crate) async fn respond(shared: Arc<Shared>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().trim_matches('/').to_owned();
    let (number, path) = path.split_once('/').unwrap_or_default();
    let number = number.parse().ok();
    let Some(store) = number.and_then(|number: usize| shared.stores.get(number)) else {
        return refused(&not_found(path));
    };
    store.answers().await;
    let place = Place::read(path).filter(|place| store.serves(&place.path));
    let answer = match (place, request.method()) {
        (Some(place), &Method::GET) => read(&shared, store, place, &request),
        (Some(place), _) => write(&shared, store, &place, request).await,
        (None, _) => document(path),
    };
    store.answers().await;
    answer.unwrap_or_else(|refusal| refused(&refusal))
}

/// Returns a document that an API server has besides objects, with the fields that are read.
fn document(path: &str) -> Result<Answer, Refusal> {
    let found = match path {
        "version" => json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0"}),
        "apis" => {
            let groups = [
                ("cluster.karmada.io", "v1alpha1"),
                ("coordination.k8s.io", "v1"),
                ("discovery.k8s.io", "v1"),
                ("networking.karmada.io", "v1alpha1"),
                ("multicluster.x-k8s.io", "v1beta1"),
            ];
            let groups = groups.map(|(name, version)| {
                let group_version = format!("{name}/{version}");
                let version = json!({"groupVersion": group_version, "version": version});
                json!({"name": name, "versions": [version]})
            });
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        "apis/multicluster.x-k8s.io/v1beta1" => json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": "multicluster.x-k8s.io/v1beta1",
            "resources": [{"name": "serviceexports"}, {"name": "serviceimports"}],
        }),
        "openapi/v3/apis/multicluster.x-k8s.io/v1beta1" => {
            let spec = json!({
                "ips": {"maxItems": 2}, "ipFamilies": {},
                "internalTrafficPolicy": {}, "trafficDistribution": {},
            });
            let status = json!({"properties": {"conditions": {}}});
            let import = json!({
                "x-kubernetes-group-version-kind": [{"kind": "ServiceImport"}],
                "properties": {"spec": {"properties": spec}, "status": status},
            });
            json!({"components": {"schemas": {"ServiceImport": import}}})
        }
        _ => return Err(not_found(path)),
    };
    Ok(answer(StatusCode::OK, found.to_string()))
}

/// Returns the encoding that a header names. EndpointSlices alone have another than JSON, and whole
/// objects of JSON are served in place of metadata.
fn encoding(headers: &HeaderMap, header: HeaderName, of: &str) -> Encoding {
    let types = headers.get(header).and_then(|value| value.to_str().ok());
    let types = types.unwrap_or_default();
    let is_protobuf = types.contains("kubernetes.protobuf") && !types.contains("as=");
    match is_protobuf && of == path::<EndpointSlice>() {
        true => Encoding::Protobuf,
        false => Encoding::Json,
    }
}

/// Returns a number that is not 0, or the default.
fn number(parameters: &Parameters<'_>, name: &str, default: u64) -> Result<u64, Refusal> {
    let text = parameters.get(name).copied().unwrap_or("0");
    match text.parse::<u64>().map_err(malformed)? {
        0 => Ok(default),
        value => Ok(value),
    }
}

fn read(
    shared: &Shared,
    store: &Arc<Store>,
    place: Place,
    request: &Request<Incoming>,
) -> Result<Answer, Refusal> {
    if let Some(key) = &place.key {
        let text = store.change(&place.path, key).text();
        return Ok(answer(StatusCode::OK, text.ok_or_else(|| not_found(key))?));
    }
    let encoding = encoding(request.headers(), ACCEPT, &place.path);
    // No parameter that is served needs percent encoding.
    let query = request.uri().query().unwrap_or_default();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let parameters: Parameters<'_> = pairs.filter(|(_, value)| !value.is_empty()).collect();
    if parameters.contains_key("labelSelector") || parameters.contains_key("fieldSelector") {
        return Err(malformed("selectors are not served here"));
    }
    let is_member = store.number > 0;
    if matches!(parameters.get("watch"), Some(&("true" | "1"))) {
        let open = is_member.then(|| {
            shared.journal.begun_watches.fetch_add(1, Relaxed);
            shared.journal.open_watches.clone()
        });
        return watch(store, place, encoding, &parameters, open);
    }
    let is_list = is_member && parameters.get("limit") != Some(&"1");
    if is_list && store.counts_list(&place.path) {
        shared.journal.lists.fetch_add(1, Relaxed);
    }
    list(store, &place, encoding, &parameters)
}

/// Serves a page. Its token is the version of the first page, and the last key with `_` for `/`.
fn list(
    store: &Store,
    place: &Place,
    encoding: Encoding,
    parameters: &Parameters<'_>,
) -> Result<Answer, Refusal> {
    let token = parameters.get("continue");
    let token = token.and_then(|token| token.split_once('.'));
    let after = token.map(|(_, key)| key.replace('_', "/"));
    let limit = number(parameters, "limit", u64::MAX)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (entries, newest, last) = store.list(place, after.as_deref(), limit);
    let version = token.map_or(newest.to_string(), |(version, _)| version.to_owned());
    let rest = last.map(|key| format!("{version}.{}", key.replace('/', "_")));
    let mut out = Vec::new();
    if encoding == Encoding::Protobuf {
        out.message(1, |meta| {
            meta.bytes(2, version.as_bytes());
            meta.bytes(3, rest.unwrap_or_default().as_bytes());
        });
        for entry in &entries {
            out.bytes(2, &store.encode(entry, encoding));
        }
        let list = enveloped("discovery.k8s.io/v1", "EndpointSliceList", &out);
        return Ok(answer(StatusCode::OK, list));
    }
    let mut metadata = json!({"resourceVersion": version});
    if let Some(token) = rest {
        metadata["continue"] = token.into();
    }
    let head = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":["#);
    out.extend_from_slice(head.as_bytes());
    for (place, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if place > 0 { b"," } else { b"" });
        out.extend_from_slice(&store.encode(entry, encoding));
    }
    out.extend_from_slice(b"]}");
    Ok(answer(StatusCode::OK, out))
}

fn watch(
    store: &Arc<Store>,
    place: Place,
    encoding: Encoding,
    parameters: &Parameters<'_>,
    open: Option<Arc<()>>,
) -> Result<Answer, Refusal> {
    let since = number(parameters, "resourceVersion", u64::MAX)?;
    let lifetime = number(parameters, "timeoutSeconds", DEFAULT_TIMEOUT)?;
    let now = Instant::now();
    let ends_at = now + Duration::from_secs(lifetime);
    let events = store.watch(&place, encoding, since);
    let state = (store.clone(), events, now + BOOKMARKS_EVERY, open);
    let lines = stream::unfold(
        state,
        move |(store, mut events, mut bookmark_at, open)| async move {
            let line = tokio::select! {
                biased;
                line = events.recv() => line?,
                () = sleep_until(bookmark_at.into()) => {
                    bookmark_at += BOOKMARKS_EVERY;
                    bookmark(&store, encoding)
                }
                () = sleep_until(ends_at.into()) => return None,
            };
            store.answers().await;
            Some((Ok(Frame::data(line)), (store, events, bookmark_at, open)))
        },
    );
    let body = StreamBody::new(Box::pin(lines)).boxed_unsync();
    Ok(Response::new(body))
}

fn bookmark(store: &Store, encoding: Encoding) -> Bytes {
    let version = store.version().to_string();
    let metadata = json!({"resourceVersion": version});
    let json = json!({"apiVersion": "v1", "kind": "Bookmark", "metadata": metadata});
    let mut object = json.to_string().into_bytes();
    if encoding == Encoding::Protobuf {
        object.clear();
        object.message(1, |meta| meta.bytes(6, version.as_bytes()));
    }
    event("BOOKMARK", &object, encoding)
}

async fn write(
    shared: &Shared,
    store: &Store,
    place: &Place,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(malformed)?.to_bytes();
    let at = Instant::now();
    let encoding = encoding(&head.headers, CONTENT_TYPE, &place.path);
    let sent = || Sent::read(&body, encoding);
    let path = &place.path;
    let done = match (&head.method, &place.key) {
        (&Method::POST, None) => sent().and_then(|sent| writes::create(store, place, sent)),
        (&Method::PUT, Some(key)) => {
            sent().and_then(|sent| writes::replace(store, path, key, sent))
        }
        (&Method::PATCH, Some(key)) => writes::merge(store, place, key, &body),
        _ => Err(refusal(405, "MethodNotAllowed", "this is not served here")),
    };
    let text = done.inspect_err(|_| {
        shared.journal.refused.fetch_add(1, Relaxed);
    })?;
    let is_slice = *path == self::path::<EndpointSlice>();
    if *path != self::path::<Lease>() {
        shared.journal.wrote(Write {
            at: Instant::now(),
            on_hub: store.number == 0,
            is_slice,
            what: format!("{} {}", head.method, head.uri.path()),
        });
    }
    if is_slice
        && let Some((id, version)) = source_of(&text)
        && let Ok(consumer) = u16::try_from(store.number - 1)
    {
        shared.journal.copied(id, version, consumer, at);
    }
    let code = match head.method {
        Method::POST => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    Ok(answer(code, text))
}

/// Returns the source of a copy and the source's version, as the copy's annotation names them.
fn source_of(copy: &[u8]) -> Option<(SliceId, u64)> {
    let copy = message(Object::of_answer(copy).ok()?).ok()?;
    let copy = RawSlice::decode(&copy).ok()?;
    let (uid, version) = copy.annotation(labels::SOURCE)?.split_once('/')?;
    Some((SliceId::of_uid(uid)?, version.parse().ok()?))
}

fn answer(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

fn refused(refusal: &Refusal) -> Answer {
    let code = StatusCode::from_u16(refusal.code).unwrap_or_default();
    answer(code, serde_json::to_vec(refusal).unwrap_or_default())
}
