//! Any bytes as the body of a request: the webhook answers with something well-formed, of bounded
//! size, that says of the request what the request says. The input is the body.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use causeway::domain::protected::Protection;
use causeway::process::Process;
use causeway_webhook::connections::Progress;
use causeway_webhook::decide::{Object, Policy, Strictness};
use causeway_webhook::hub::Hub;
use causeway_webhook::limits::Limits;
use causeway_webhook::metrics::Metrics;
use causeway_webhook::review::{self, Subject};
use causeway_webhook::service::{Webhook, router};
use http::Request;
use http_body_util::{BodyExt, Full};
use json_patch::Patch;
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use crate::server::client;

/// What an answer may hold beside the uid, which is the caller's, and a quotation of what is wrong.
const ANSWER_MAX: usize = 256 * 1024;

const WARNINGS_MAX: usize = 11;

/// Panics where the webhook does not keep to the protocol.
pub fn holds(body: &[u8]) {
    let document: Option<Value> = serde_json::from_slice(body).ok();
    let expected = document.as_ref().map(Expected::of);
    let read = review::read(body);
    if let Some(document) = &document {
        let text = document.to_string();
        let plain = review::read(text.as_bytes());
        if let (Ok(one), Ok(other)) = (&read, &plain) {
            assert_eq!(one.uid, other.uid);
            same_subject(&one.subject, &other.subject, has_repetition(body));
        }
        assert!(
            plain.is_ok() || read.is_err(),
            "{plain:?}, and with another spelling {read:?}"
        );
        says_what_it_says(plain.ok(), expected.as_ref().and_then(Option::as_ref));
    }
    for path in ["/mutate", "/validate"] {
        let (code, answer) = SERVED.with(|served| served.send(path, body));
        assert!(
            answer.len() <= ANSWER_MAX + body.len(),
            "{} bytes in answer to {}",
            answer.len(),
            body.len()
        );
        let answer: Value = serde_json::from_slice(&answer).expect("an answer in JSON");
        match code {
            200 => {
                let request = read.as_ref().expect("an answer to what is no request");
                is_review(&answer, &request.uid, document.as_ref());
            }
            400 => {
                assert!(read.is_err(), "refused, and it can be read");
                is_status(&answer, 400);
            }
            // More live requests to the hub than their rate permits.
            429 => {
                assert!(read.is_ok(), "a request that cannot be read asks the hub");
                is_status(&answer, 429);
            }
            other => panic!("{other}: {answer}"),
        }
    }
}

struct Served {
    runtime: Runtime,
    router: Router,
}

thread_local! {
    static SERVED: Served = Served::start();
}

impl Served {
    fn start() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let router = runtime.block_on(async {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            let process = Process::start(address).await.expect("it starts");
            let metrics = process.metrics.register(Metrics::register);
            let policy = Policy {
                missing_service: Strictness::Deny,
                unknown_cluster: Strictness::Deny,
                protection: Protection::new("causeway-system", []),
            };
            let limits = Limits::default();
            let hub = Hub::new(client(hub));
            let tasks = process.tasks.clone();
            let webhook = Webhook::new(hub, policy, &limits, metrics, tasks);
            router(Arc::new(webhook))
        });
        Self { runtime, router }
    }

    fn send(&self, path: &str, body: &[u8]) -> (u16, Bytes) {
        let request = Request::post(path).header("content-type", "application/json");
        let request = request
            .extension(Arc::<Progress>::default())
            .body(Full::new(Bytes::copy_from_slice(body)))
            .expect("a request");
        self.runtime.block_on(async {
            let Ok(response) = self.router.clone().oneshot(request).await;
            let code = response.status().as_u16();
            assert_eq!(response.headers()["content-type"], "application/json");
            let body = response.into_body().collect().await.expect("a body");
            (code, body.to_bytes())
        })
    }
}

/// A hub with Service shop/foo, which has the ports http 80 and metrics 9090, with clusters a, b
/// and c and nothing else.
fn hub(path: &str) -> (u16, Bytes) {
    let named = |name: &str| json!({"metadata": {"name": name}});
    let all = ["a", "b", "c"].map(named);
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let answer = match path.trim_end_matches('/').rsplit('/').next() {
        Some("foo") if path.contains("/namespaces/shop/services/") => json!({
            "metadata": {"name": "foo", "namespace": "shop"},
            "spec": {"ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]},
        }),
        Some("multiclusterservices") => json!({"metadata": {}, "items": []}),
        Some("clusters") => json!({"metadata": {}, "items": all}),
        Some(name @ ("a" | "b" | "c")) if path.contains("/clusters/") => named(name),
        _ => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
            return (404, status.to_string().into());
        }
    };
    (200, answer.to_string().into())
}

/// What a document says, by rules of its own.
struct Expected {
    uid: String,
    namespace: String,
    is_validated: bool,
    is_dry_run: bool,
    object: Value,
}

impl Expected {
    /// `None` where the document is no request.
    fn of(document: &Value) -> Option<Self> {
        let review = document.as_object()?;
        let is = |name: &str, value: &str| review.get(name).is_some_and(|it| it == value);
        let request = review.get("request")?.as_object()?;
        let uid = text(request, "uid").filter(|uid| (1..=128).contains(&uid.len()))?;
        let empty = Map::new();
        let kind = match request.get("kind") {
            None => &empty,
            Some(kind) => kind.as_object()?,
        };
        let (group, version, kind) = (
            text(kind, "group")?,
            text(kind, "version")?,
            text(kind, "kind")?,
        );
        text(request, "name")?;
        let operation = request.get("operation")?.as_str()?;
        let is_known = ["CREATE", "UPDATE", "DELETE", "CONNECT"].contains(&operation);
        let is_dry_run = match request.get("dryRun") {
            None | Some(Value::Null) => false,
            Some(given) => given.as_bool()?,
        };
        let namespace = optional(request, "namespace").filter(|name| name.len() <= 63)?;
        let subresource = optional(request, "subResource")?;
        let is_review = is("apiVersion", "admission.k8s.io/v1") && is("kind", "AdmissionReview");
        let is_ours =
            (group, version, kind) == ("networking.karmada.io", "v1alpha1", "MultiClusterService");
        (is_review && is_known).then(|| Self {
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            is_validated: is_ours
                && ["CREATE", "UPDATE"].contains(&operation)
                && subresource.is_empty(),
            is_dry_run,
            object: request.get("object").cloned().unwrap_or_default(),
        })
    }
}

/// The text of a field, empty where there is none; `None` where it is no text.
fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).map_or(Some(""), Value::as_str)
}

/// As [`text`], but for a field that may be null.
fn optional<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    match fields.get(name) {
        Some(Value::Null) => Some(""),
        _ => text(fields, name),
    }
}

fn says_what_it_says(read: Option<review::Request>, expected: Option<&Expected>) {
    let (request, expected) = match (read, expected) {
        (None, None) => return,
        (Some(request), Some(expected)) => (request, expected),
        (Some(request), None) => panic!("read what is no request: {request:?}"),
        (None, Some(expected)) => panic!("not read: the request {}", expected.uid),
    };
    assert_eq!(request.uid, expected.uid);
    let Subject::Change(change) = &request.subject else {
        let is_readable = serde_json::from_value::<Object>(expected.object.clone()).is_ok();
        let is_left_out = matches!(request.subject, Subject::Unreadable(_)) && is_readable;
        assert!(!is_left_out, "readable and not read: {}", expected.object);
        return;
    };
    assert!(
        expected.is_validated,
        "validated and should not be: {change:?}"
    );
    assert_eq!(
        (&change.namespace, change.dry_run),
        (&expected.namespace, expected.is_dry_run)
    );
    let mut object: Object = serde_json::from_value(expected.object.clone()).expect("it was read");
    if object.metadata.name.is_empty() {
        object
            .metadata
            .name
            .clone_from(&change.object.metadata.name);
    }
    assert_eq!(format!("{:?}", change.object), format!("{object:?}"));
}

/// The same document, spelt differently. What repeats a field may be refused instead.
fn same_subject(one: &Subject, other: &Subject, has_repetition: bool) {
    match (one, other) {
        (Subject::Change(one), Subject::Change(other)) if !has_repetition => {
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
        (Subject::Unreadable(_), Subject::Unreadable(_)) => {}
        _ if has_repetition => {}
        _ => assert_eq!(format!("{one:?}"), format!("{other:?}")),
    }
}

fn is_review(answer: &Value, uid: &str, document: Option<&Value>) {
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    let response = answer["response"].as_object().expect("a response");
    assert_eq!(response["uid"], uid);
    let allowed = response["allowed"].as_bool().expect("a decision");
    assert_eq!(
        response.get("status").is_none(),
        allowed,
        "a denial has a status: {answer}"
    );
    if let Some(status) = response.get("status") {
        let code = status["code"].as_u64().expect("a code");
        assert!([400, 422].contains(&code), "{status}");
        is_status(status, code);
    }
    let warnings = response
        .get("warnings")
        .map(|all| all.as_array().expect("a list").as_slice());
    let warnings = warnings.unwrap_or_default();
    assert!(
        warnings.iter().all(Value::is_string) && warnings.len() <= WARNINGS_MAX,
        "{warnings:?}"
    );
    assert_eq!(
        response.get("patch").is_some(),
        response.get("patchType").is_some()
    );
    if let Some(patch) = response.get("patch") {
        assert_eq!(
            (&response["patchType"], allowed),
            (&json!("JSONPatch"), true)
        );
        let patch = STANDARD
            .decode(patch.as_str().expect("text"))
            .expect("base64");
        let patch: Patch = serde_json::from_slice(&patch).expect("a JSON patch");
        if let Some(document) = document {
            let mut object = document["request"]["object"].clone();
            json_patch::patch(&mut object, &patch).expect("the patch applies");
        }
    }
}

fn is_status(status: &Value, code: u64) {
    assert_eq!(
        (&status["kind"], &status["status"]),
        (&json!("Status"), &json!("Failure"))
    );
    assert_eq!(status["code"], code);
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{status}"
    );
}

/// Whether any object in the text repeats a field: readers differ in which one they take.
fn has_repetition(text: &[u8]) -> bool {
    use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

    struct Repeats(bool);
    struct Look;

    impl<'de> Deserialize<'de> for Repeats {
        fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
            input.deserialize_any(Look)
        }
    }

    impl<'de> Visitor<'de> for Look {
        type Value = Repeats;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str("anything")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Repeats, A::Error> {
            let (mut seen, mut repeats) = (std::collections::BTreeSet::new(), false);
            while let Some((name, inner)) = map.next_entry::<String, Repeats>()? {
                repeats |= inner.0 | !seen.insert(name);
            }
            Ok(Repeats(repeats))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Repeats, A::Error> {
            let mut repeats = false;
            while let Some(inner) = list.next_element::<Repeats>()? {
                repeats |= inner.0;
            }
            Ok(Repeats(repeats))
        }

        fn visit_bool<E>(self, _: bool) -> Result<Repeats, E> {
            Ok(Repeats(false))
        }
        fn visit_i64<E>(self, _: i64) -> Result<Repeats, E> {
            Ok(Repeats(false))
        }
        fn visit_u64<E>(self, _: u64) -> Result<Repeats, E> {
            Ok(Repeats(false))
        }
        fn visit_f64<E>(self, _: f64) -> Result<Repeats, E> {
            Ok(Repeats(false))
        }
        fn visit_str<E>(self, _: &str) -> Result<Repeats, E> {
            Ok(Repeats(false))
        }
        fn visit_unit<E>(self) -> Result<Repeats, E> {
            Ok(Repeats(false))
        }
    }

    // What cannot be looked through is taken for repeating.
    serde_json::from_slice::<Repeats>(text).map_or(true, |found| found.0)
}
