//! HTTP server of the page and its event streams. Every request needs a token.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use causeway::domain::ServiceKey;
use causeway_engine::model::slice::Exposure;
use futures::{Stream, StreamExt as _};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::assets;
use super::feed::Feed;
use super::guard::{Admitted, Guard, Refused, protect};
use super::verifier::Verifier;
use crate::views::ui::row_key;

/// Maximum number of concurrent streams.
const STREAMS: usize = 32;
/// Interval between two keep-alive events of a stream. The page opens a stream again after 45 s
/// without an event (`SILENT_MS` in `cli/ui/src/store.ts`).
const ALIVE_EVERY: Duration = Duration::from_secs(15);
/// Event without content. Scripts do not observe comments, and browsers discard an event without a
/// data line (HTML, section 9.2.6).
const ALIVE: Bytes = Bytes::from_static(b"event: alive\ndata:\n\n");

const TEXT: &str = "text/plain; charset=utf-8";
const EVENTS: &str = "text/event-stream";

/// Shared state of the request handlers.
#[derive(Clone)]
pub(super) struct Page {
    guard: Guard,
    feed: Arc<Feed>,
    streams: Arc<Semaphore>,
    /// Starter of `verify`. `None` if the page may not start any.
    verifier: Option<Arc<Verifier>>,
}

/// Resource below the token.
#[derive(Debug, PartialEq, Eq)]
enum Path {
    Events,
    Explanation(ServiceKey),
    Verify(ServiceKey),
    Asset(assets::Asset),
}

impl Path {
    fn read(path: &str) -> Option<Self> {
        if let Some(asset) = assets::find(path) {
            return Some(Self::Asset(asset));
        }
        let parts: Vec<_> = path.split('/').collect();
        match parts.as_slice() {
            ["api", "events"] => Some(Self::Events),
            // Names of objects contain no character that needs encoding (DNS labels and
            // subdomains).
            ["api", "services", namespace, name, what] if is_name(namespace) && is_name(name) => {
                let key = ServiceKey::new(*namespace, *name);
                match *what {
                    "events" => Some(Self::Explanation(key)),
                    "verify" => Some(Self::Verify(key)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Whether the text has the form of a DNS subdomain: lower case letters, digits, dashes and dots,
/// at most 253 characters (Kubernetes, "Object Names and IDs").
fn is_name(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&text.len()) && text.bytes().all(allowed)
}

/// Returns the router with one handler for all requests.
pub(super) fn router(guard: Guard, feed: Arc<Feed>, verifier: Option<Arc<Verifier>>) -> Router {
    let page = Page {
        guard,
        feed,
        streams: Arc::new(Semaphore::new(STREAMS)),
        verifier,
    };
    Router::new().fallback(answer).with_state(page)
}

async fn answer(State(page): State<Page>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let mut answer = page.answer(&head).await;
    protect(answer.headers_mut());
    answer
}

impl Page {
    async fn answer(&self, request: &Parts) -> Response {
        let admitted = self
            .guard
            .admit(&request.method, &request.uri, &request.headers);
        let path = match admitted {
            Ok(Admitted::Below(path)) => path,
            Ok(Admitted::Open(path)) => return redirect(&path),
            Err(refused) => return line(refused.status(), &refused.to_string()),
        };
        let path = Path::read(path);
        let is_start = matches!(path, Some(Path::Verify(_)));
        if is_start != (request.method == Method::POST) {
            return line(Refused::Method.status(), &Refused::Method.to_string());
        }
        match path {
            None => line(StatusCode::NOT_FOUND, "there is no such page"),
            Some(Path::Verify(key)) => self.verify(key),
            Some(Path::Asset(asset)) => respond(asset.content_type, Body::from(asset.bytes)),
            Some(Path::Events) => match self.streams.clone().try_acquire_owned() {
                Ok(permit) => self.changes(permit),
                Err(_) => busy(),
            },
            Some(Path::Explanation(key)) => match self.streams.clone().try_acquire_owned() {
                Ok(permit) => {
                    let explanations = explanations(self.feed.explain(key).await);
                    stream(with_alive(explanations, alive(), permit))
                }
                Err(_) => busy(),
            },
        }
    }

    /// Starts `verify` of a service that the page shows.
    fn verify(&self, key: ServiceKey) -> Response {
        let exposures = [Exposure::Native, Exposure::Clusterset];
        let mut rows = exposures
            .map(|one| row_key(one, &key.namespace, &key.name))
            .into_iter();
        let is_shown = rows.any(|row| self.feed.shows(&row));
        match &self.verifier {
            None => line(StatusCode::FORBIDDEN, "start kubectl mcs ui with --verify"),
            Some(_) if !is_shown => line(StatusCode::NOT_FOUND, "there is no such service"),
            Some(verifier) => match verifier.start(key) {
                true => line(StatusCode::ACCEPTED, "started"),
                false => line(StatusCode::CONFLICT, "another run of verify is active"),
            },
        }
    }

    fn changes(&self, permit: OwnedSemaphorePermit) -> Response {
        match self.feed.subscribe() {
            Ok((snapshot, received)) => {
                let changes = changes(self.feed.clone(), received);
                let first = futures::stream::iter([snapshot]);
                stream(first.chain(with_alive(changes, alive(), permit)))
            }
            Err(error) => line(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}

/// Returns the changes after a snapshot. A client that lags too far receives a new snapshot.
fn changes(
    feed: Arc<Feed>,
    received: broadcast::Receiver<Bytes>,
) -> impl Stream<Item = Bytes> + Send {
    futures::stream::unfold((feed, received), |(feed, mut received)| async {
        match received.recv().await {
            Ok(change) => Some((change, (feed, received))),
            Err(RecvError::Lagged(_)) => {
                let (snapshot, received) = feed.subscribe().ok()?;
                Some((snapshot, (feed, received)))
            }
            Err(RecvError::Closed) => None,
        }
    })
}

/// Returns the explanations of a service. An existing explanation is sent at once.
fn explanations(mut shown: watch::Receiver<Option<Bytes>>) -> impl Stream<Item = Bytes> + Send {
    shown.mark_changed();
    futures::stream::unfold(shown, |mut shown| async {
        loop {
            shown.changed().await.ok()?;
            let explanation = shown.borrow_and_update().clone();
            if let Some(explanation) = explanation {
                return Some((explanation, shown));
            }
        }
    })
}

/// Adds an event without content at each tick. The stream holds the permit.
fn with_alive(
    events: impl Stream<Item = Bytes> + Send,
    alive: Interval,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Bytes> + Send {
    let state = (Box::pin(events), alive, permit);
    futures::stream::unfold(state, |(mut events, mut alive, permit)| async {
        let event = tokio::select! {
            event = events.next() => event?,
            _ = alive.tick() => ALIVE,
        };
        Some((event, (events, alive, permit)))
    })
}

fn stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    respond(EVENTS, Body::from_stream(events.map(Ok::<_, Infallible>)))
}

fn alive() -> Interval {
    let mut alive = interval(ALIVE_EVERY);
    alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick of an interval is immediate.
    alive.reset();
    alive
}

fn busy() -> Response {
    line(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many pages are open; close some",
    )
}

fn line(status: StatusCode, text: &str) -> Response {
    let mut answer = respond(TEXT, Body::from(format!("{text}\n")));
    *answer.status_mut() = status;
    answer
}

/// Redirects the browser, so that its history does not contain the used one-time address.
fn redirect(path: &str) -> Response {
    match HeaderValue::try_from(path) {
        Ok(path) => {
            let mut answer = line(StatusCode::SEE_OTHER, "");
            answer.headers_mut().insert(LOCATION, path);
            answer
        }
        Err(error) => line(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

fn respond(content_type: &'static str, body: Body) -> Response {
    let mut answer = Response::new(body);
    let content_type = HeaderValue::from_static(content_type);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use axum::http::header::HOST;
    use tower::Service as _;

    use super::*;
    use crate::commands::ui::feed::Update;
    use crate::commands::ui::guard::Token;

    #[tokio::test]
    async fn further_stream_is_refused_until_another_ends() {
        let (token, once) = (Token::random().expect("one"), Token::random().expect("two"));
        let uri = format!("/{}/api/events", token.as_str());
        let (feed, _requests) = Feed::new();
        let router = router(Guard::new(token, once, 8001), Arc::new(feed), None);
        let open = async || {
            let request = Request::get(&uri).header(HOST, "127.0.0.1:8001");
            let request = request.body(Body::empty()).expect("a request");
            router.clone().call(request).await.expect("an answer")
        };
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(open().await);
        }
        let are_open = streams.iter().all(|one| one.status() == StatusCode::OK);
        assert!(are_open, "{streams:?}");
        assert_eq!(open().await.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(streams.pop());
        assert_eq!(open().await.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_client_that_lags_gets_everything_again() {
        let (feed, _) = Feed::new();
        let feed = Arc::new(feed);
        let show = |number: u32| {
            let row = crate::commands::ui::feed::json(&number).expect("JSON");
            let update = Update {
                services: [("a".to_owned(), Some(row))].into(),
                ..Update::default()
            };
            feed.publish(update).expect("JSON");
        };
        show(0);
        let (first, received) = feed.subscribe().expect("JSON");
        let changes = changes(feed.clone(), received);
        let mut changes = Box::pin(futures::stream::iter([first]).chain(changes));
        let mut texts = Vec::new();
        for numbers in [1..2, 2..1000, 1000..1001] {
            numbers.for_each(show);
            let next = changes.next().await.expect("an event");
            texts.push(String::from_utf8_lossy(&next).into_owned());
        }
        for (text, (event, row)) in texts.iter().zip([
            ("snapshot", "[0]"),
            ("snapshot", "[999]"),
            ("change", "[1000]"),
        ]) {
            assert!(text.starts_with(&format!("event: {event}\n")), "{text}");
            assert!(text.contains(row), "{text}");
        }
    }

    #[tokio::test]
    async fn idle_stream_sends_events_without_content() {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned();
        let alive = interval(Duration::from_millis(1));
        let idle = with_alive(futures::stream::pending(), alive, permit.expect("one"));
        let events: Vec<_> = idle.take(2).collect().await;
        assert_eq!(events, ["event: alive\ndata:\n\n"; 2]);
    }

    #[test]
    fn paths_name_the_page_its_files_streams_and_verify() {
        assert!(matches!(Path::read(""), Some(Path::Asset(_))));
        assert!(matches!(Path::read("app.js"), Some(Path::Asset(_))));
        assert_eq!(Path::read("api/events"), Some(Path::Events));
        assert_eq!(
            Path::read("api/services/shop/foo/events"),
            Some(Path::Explanation(ServiceKey::new("shop", "foo")))
        );
        assert_eq!(
            Path::read("api/services/shop/foo/verify"),
            Some(Path::Verify(ServiceKey::new("shop", "foo")))
        );
        let long = format!("api/services/shop/{}/events", "a".repeat(254));
        for path in [
            "index.html",
            "api",
            "api/events/",
            "api/services/shop/events",
            "api/services/shop//events",
            "api/services/shop/foo",
            "api/services/shop/foo/other",
            "api/services/shop/%2e%2e/events",
            "../app.js",
            &long,
        ] {
            assert_eq!(Path::read(path), None, "{path}");
        }
    }
}
