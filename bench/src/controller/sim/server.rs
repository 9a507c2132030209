//! The servers' side of HTTP: lists in pages, watches with bookmarks, writes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use causeway::api::labels;
use causeway_wire::protobuf::{self as wire, Message as _, enveloped};
use futures::stream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant as TokioInstant, sleep_until};
use tokio_rustls::TlsAcceptor;

use super::documents;
use super::journal::Journal;
use super::kind::{Kind, Place};
use super::protobuf;
use super::store::{Entry, Form, Scope, Since, Store, event, push_form};
use super::text::SliceId;
use super::writes::{self, Refusal};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// As API servers do: a bookmark about once a minute.
const BOOKMARKS_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_TIMEOUT: u64 = 1800;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) stores: Vec<Arc<Store>>,
    pub(crate) journal: Arc<Journal>,
}

/// Begins to serve on a port of the loopback, over TLS where that is given: `/hub` and `/member/<number>` are the API servers.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    tls: Option<TlsAcceptor>,
) -> anyhow::Result<(SocketAddr, tokio::task::AbortHandle)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let task = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                Ok((stream, _)) = listener.accept() => {
                    connections.spawn(accepted(stream, tls.clone(), shared.clone()));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    });
    Ok((address, task.abort_handle()))
}

/// Ends with the client; how does not matter.
async fn accepted(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    stream.set_nodelay(true).ok();
    match tls {
        None => connection(stream, shared).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                connection(stream, shared).await;
            }
        }
    }
}

async fn connection<S>(stream: S, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let respond = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(respond(&shared, request).await) }
    });
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), respond)
        .await
        .ok();
}

/// The parameters of a list or a watch.
struct Query {
    limit: Option<usize>,
    after: Option<String>,
    resource_version: Option<String>,
    watch: Option<String>,
    allow_watch_bookmarks: Option<String>,
    send_initial_events: Option<String>,
    timeout_seconds: Option<u64>,
}

impl Query {
    fn read(text: &str) -> Result<Self, Refusal> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        let pairs: HashMap<_, _> = pairs
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect();
        let number = |name: &str| -> Result<Option<u64>, Refusal> {
            let value = pairs.get(name).map(|text| text.parse());
            value.transpose().map_err(Refusal::malformed)
        };
        let text = |name: &str| pairs.get(name).cloned();
        let query = Self {
            limit: number("limit")?.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            after: text("continue"),
            resource_version: text("resourceVersion"),
            watch: text("watch"),
            allow_watch_bookmarks: text("allowWatchBookmarks"),
            send_initial_events: text("sendInitialEvents"),
            timeout_seconds: number("timeoutSeconds")?,
        };
        let selects = |name: &str| pairs.get(name).is_some_and(|text| !text.is_empty());
        if selects("labelSelector") || selects("fieldSelector") {
            return Err(Refusal::malformed("selectors are not served here"));
        }
        Ok(query)
    }
}

fn is_true(flag: &Option<String>) -> bool {
    flag.as_deref()
        .is_some_and(|flag| flag == "true" || flag == "1")
}

/// Undoes percent encoding.
fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let digits = (byte == b'%').then(|| [bytes.next(), bytes.next()]);
        out.push(match digits {
            Some([Some(high), Some(low)]) => {
                let digits = [high, low];
                let digits = std::str::from_utf8(&digits).unwrap_or_default();
                u8::from_str_radix(digits, 16).unwrap_or(b'?')
            }
            _ if byte == b'+' => b' ',
            _ => byte,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

async fn respond(shared: &Arc<Shared>, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let Some((store, path)) = store_of(shared, &path) else {
        return refused(&Refusal::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "no such cluster",
        ));
    };
    store.answers().await;
    store.note_authorization(request.headers().get(AUTHORIZATION));
    let place = Place::read(path);
    let answer = match *request.method() {
        Method::GET => read(store, place, &request),
        _ => write(shared, store, place, request).await,
    };
    store.answers().await;
    answer.unwrap_or_else(|refusal| refused(&refusal))
}

fn store_of<'a>(shared: &'a Shared, path: &'a str) -> Option<(&'a Arc<Store>, &'a str)> {
    if let Some(rest) = path.strip_prefix("/hub/") {
        return Some((shared.stores.first()?, rest));
    }
    let (number, rest) = path.strip_prefix("/member/")?.split_once('/')?;
    let number: usize = number.parse().ok()?;
    Some((shared.stores.get(number + 1)?, rest))
}

fn read(store: &Arc<Store>, place: Place, request: &Request<Incoming>) -> Result<Answer, Refusal> {
    let accepted = request
        .headers()
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok());
    let accepts = |what: &str| accepted.is_some_and(|types| types.contains(what));
    let form = |kind| match kind {
        _ if accepts("as=PartialObjectMetadata") => Form::Partial,
        Kind::EndpointSlice if accepts("application/vnd.kubernetes.protobuf") => Form::Protobuf,
        _ => Form::Json,
    };
    match place {
        Place::Document(path) => documents::find(&path).map(|text| whole(StatusCode::OK, text)),
        Place::Object(kind, key, _) => {
            let text = store.get(kind, &key);
            let text = text.ok_or_else(|| Refusal::not_found(kind, &key))?;
            // One alone is given as JSON, also to those who would rather have protobuf.
            let form = match form(kind) {
                Form::Protobuf => Form::Json,
                other => other,
            };
            let mut out = Vec::new();
            push_form(&mut out, &text, form);
            Ok(whole(StatusCode::OK, out))
        }
        Place::Collection(kind, namespace) => {
            let query = Query::read(request.uri().query().unwrap_or_default())?;
            let scope = Scope {
                kind,
                namespace,
                form: form(kind),
            };
            match is_true(&query.watch) {
                true => watch(store, &scope, &query),
                false => list(store, &scope, &query),
            }
        }
    }
}

fn list(store: &Store, scope: &Scope, query: &Query) -> Result<Answer, Refusal> {
    // A list's later pages bear the version of its first one: what changed since is in the watch.
    let (version, after) = match &query.after {
        Some(token) => {
            let token = token.split_once('@');
            let (version, key) = token.ok_or_else(|| Refusal::malformed("continue"))?;
            (
                Some(version.parse::<u64>().map_err(Refusal::malformed)?),
                Some(key),
            )
        }
        None => (None, None),
    };
    let limit = query.limit.filter(|limit| *limit > 0);
    store.note_list(limit);
    let page = store.list(scope, after, limit.unwrap_or(usize::MAX));
    let version = version.unwrap_or(page.version);
    let rest = page
        .rest
        .map(|(key, more)| (format!("{version}@{key}"), more));
    if scope.form == Form::Protobuf {
        return Ok(whole(
            StatusCode::OK,
            protobuf_list(store, &page.entries, version, rest),
        ));
    }
    let (api_version, kind, _) = scope.kind.names();
    let (api_version, kind) = match scope.form {
        Form::Partial => ("meta.k8s.io/v1", "PartialObjectMetadata"),
        _ => (api_version, kind),
    };
    let mut metadata = rest.map_or(
        json!({}),
        |(token, more)| json!({"continue": token, "remainingItemCount": more}),
    );
    metadata["resourceVersion"] = version.to_string().into();
    let mut out = format!(
        r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{metadata},"items":["#
    )
    .into_bytes();
    for (place, entry) in page.entries.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        store.write(entry, scope.form, &mut out);
    }
    out.extend_from_slice(b"]}");
    Ok(whole(StatusCode::OK, out))
}

/// A page of EndpointSlices.
fn protobuf_list(
    store: &Store,
    entries: &[Entry],
    version: u64,
    rest: Option<(String, usize)>,
) -> Vec<u8> {
    let mut list = Vec::new();
    list.message(1, |meta| {
        meta.bytes(2, version.to_string().as_bytes());
        if let Some((token, more)) = rest {
            meta.bytes(3, token.as_bytes());
            meta.number(4, more as u64);
        }
    });
    for entry in entries {
        list.message(2, |out| store.write(entry, Form::Protobuf, out));
    }
    enveloped("discovery.k8s.io/v1", "EndpointSliceList", &list)
}

fn watch(store: &Arc<Store>, scope: &Scope, query: &Query) -> Result<Answer, Refusal> {
    let initial = is_true(&query.send_initial_events);
    let version = match query.resource_version.as_deref() {
        None | Some("" | "0") => None,
        Some(text) => Some(text.parse::<u64>().map_err(Refusal::malformed)?),
    };
    let since = match version {
        Some(version) if !initial => Since::Version(version),
        _ => Since::Everything,
    };
    let watched = store.watch(scope, since).map_err(|_| {
        let message = "too old resource version";
        Refusal::new(StatusCode::GONE, "Expired", message)
    })?;
    let mut before = watched.before;
    if initial {
        before.push(bookmark(scope, watched.version, true));
    }
    let lifetime = query.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT);
    let state = Watching {
        store: store.clone(),
        scope: scope.clone(),
        before: before.into_iter(),
        events: watched.events,
        bookmarks: is_true(&query.allow_watch_bookmarks),
        bookmark_at: TokioInstant::now() + BOOKMARKS_EVERY,
        ends_at: TokioInstant::now() + Duration::from_secs(lifetime),
    };
    let lines = stream::unfold(state, |mut state| async {
        let line = state.next().await?;
        Some((Ok(Frame::data(line)), state))
    });
    let body = StreamBody::new(Box::pin(lines)).boxed_unsync();
    Ok(json_answer(StatusCode::OK, body))
}

/// A watch at work.
struct Watching {
    store: Arc<Store>,
    scope: Scope,
    before: std::vec::IntoIter<Bytes>,
    events: mpsc::UnboundedReceiver<Bytes>,
    bookmarks: bool,
    bookmark_at: TokioInstant,
    ends_at: TokioInstant,
}

impl Watching {
    /// The next line; none when the watch ends.
    async fn next(&mut self) -> Option<Bytes> {
        let line = match self.before.next() {
            Some(line) => line,
            None => tokio::select! {
                line = self.events.recv() => line?,
                () = sleep_until(self.bookmark_at), if self.bookmarks => {
                    self.bookmark_at += BOOKMARKS_EVERY;
                    bookmark(&self.scope, self.store.version(), false)
                }
                () = sleep_until(self.ends_at) => return None,
            },
        };
        self.store.answers().await;
        Some(line)
    }
}

fn bookmark(scope: &Scope, version: u64, ends_initial_events: bool) -> Bytes {
    let (api_version, kind, _) = scope.kind.names();
    if scope.form == Form::Protobuf {
        let mut object = Vec::new();
        object.message(1, |meta| meta.bytes(6, version.to_string().as_bytes()));
        return event("BOOKMARK", &object, scope.form);
    }
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"resourceVersion": version.to_string()},
    });
    if ends_initial_events {
        // No bookmark of a real one says `null` here, and clients cannot read it.
        object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    event("BOOKMARK", object.to_string().as_bytes(), Form::Json)
}

async fn write(
    shared: &Shared,
    store: &Store,
    place: Place,
    request: Request<Incoming>,
) -> Result<Answer, Refusal> {
    let agent = request.headers().get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok());
    let who = agent.unwrap_or_default().to_owned();
    let method = request.method().clone();
    let sent = request.headers().get(CONTENT_TYPE).cloned();
    let is_protobuf = sent.is_some_and(|sent| sent == "application/vnd.kubernetes.protobuf");
    let body = request.into_body().collect().await;
    let body = body.map_err(Refusal::malformed)?.to_bytes();
    let at = Instant::now();
    let (kind, verb, done) = match (&method, &place) {
        (&Method::POST, Place::Collection(Kind::EndpointSlice, namespace)) if is_protobuf => {
            let message = wire::object(&body).map_err(Refusal::malformed)?;
            let made = writes::create_message(store, namespace.as_deref(), message);
            (Kind::EndpointSlice, "create", made)
        }
        (&Method::PUT, Place::Object(Kind::EndpointSlice, key, _)) if is_protobuf => {
            let message = wire::object(&body).map_err(Refusal::malformed)?;
            let done = writes::replace_message(store, key, message);
            (Kind::EndpointSlice, "update", done)
        }
        (&Method::POST, Place::Collection(kind, namespace)) => {
            let made = writes::create(store, *kind, namespace.as_deref(), &body);
            (*kind, "create", made)
        }
        (&Method::PUT, Place::Object(kind, key, _)) => {
            (*kind, "update", writes::replace(store, *kind, key, &body))
        }
        (&Method::PATCH, Place::Object(kind, key, status)) => {
            let merged = writes::merge(store, *kind, key, *status, &body);
            (*kind, "patch", merged)
        }
        (&Method::DELETE, Place::Object(kind, key, _)) => {
            (*kind, "delete", writes::delete(store, *kind, key, &body))
        }
        _ => {
            let message = format!("{method} is not served here");
            let code = StatusCode::METHOD_NOT_ALLOWED;
            return Err(Refusal::new(code, "MethodNotAllowed", message));
        }
    };
    let text = done.inspect_err(|_| shared.journal.refused())?;
    shared.journal.wrote(store.number, kind, verb, &who);
    if kind == Kind::EndpointSlice
        && let Some((id, version)) = source_of(&text)
        && let Ok(consumer) = u16::try_from(store.number - 1)
    {
        shared.journal.copied(id, version, consumer, at);
    }
    let code = match verb {
        "create" => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    Ok(whole(code, text))
}

/// Which version of which slice a copy says that it was made from.
fn source_of(copy: &[u8]) -> Option<(SliceId, u64)> {
    if let Ok(message) = wire::object(copy) {
        let source = protobuf::annotation(message, labels::SOURCE)?;
        let (uid, version) = source.split_once('/')?;
        return Some((SliceId::of_uid(uid)?, version.parse().ok()?));
    }
    #[derive(Deserialize)]
    struct Copy {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        annotations: HashMap<String, String>,
    }
    let copy: Copy = serde_json::from_slice(copy).ok()?;
    let (uid, version) = copy
        .metadata
        .annotations
        .get(labels::SOURCE)?
        .split_once('/')?;
    Some((SliceId::of_uid(uid)?, version.parse().ok()?))
}

fn whole(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    json_answer(code, Full::new(text.into()).boxed_unsync())
}

fn json_answer(code: StatusCode, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

fn refused(refusal: &Refusal) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": refusal.message, "reason": refusal.reason, "code": refusal.code.as_u16(),
    });
    whole(refusal.code, status.to_string())
}
