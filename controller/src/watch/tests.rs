//! The protocol's rare turns, over real HTTP, from a server that does exactly what the test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Level;

use self::http::{PATIENCE, Received, status};
use super::*;

pub(crate) mod http;
mod limits;
mod scoped;

struct Server {
    requests: mpsc::Receiver<Received>,
    signals: mpsc::Receiver<Signal<String>>,
    reconnect: watch::Sender<Instant>,
    relist_requests: watch::Sender<RelistRequests>,
    connections: Arc<AtomicUsize>,
    unreadable: Counter,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Server {
    async fn watched_with(settings: Settings) -> Self {
        let guard = new_guard(settings.confirmation_interval, false);
        Self::guarded_by(guard, settings).await
    }

    async fn guarded_by(guard: SharedGuard, settings: Settings) -> Self {
        let (client, requests, accepting) = http::listen().await;
        let services = Api::<Service>::all(client.clone());
        let connections = Arc::<AtomicUsize>::default();
        let connected = connections.clone();
        let connect = Arc::new(move || {
            connected.fetch_add(1, Ordering::Relaxed);
            Ok(client.clone())
        });
        let (reconnect, reconnections) = watch::channel(Instant::now());
        let (relist_requests, relist_on) = watch::channel(RelistRequests::default());
        let (tell, signals) = mpsc::channel(8);
        let unreadable = Counter::default();
        let watch = Watch {
            reconnect: Some(reconnections),
            relist_requests: Some(relist_on),
            connect: Some(connect),
            guard: Some(guard),
            unreadable: unreadable.clone(),
            ..Watch::new(services, settings)
        };
        let watching = tokio::spawn(watch.run(|service| service.name_any(), |signal| signal, tell));
        Self {
            requests,
            signals,
            reconnect,
            relist_requests,
            connections,
            unreadable,
            tasks: vec![accepting, watching],
        }
    }

    async fn watched() -> Self {
        let retry = Duration::from_millis(1);
        Self::watched_with(Settings {
            page: 2,
            first_retry: retry,
            last_retry: retry,
            ..Settings::default()
        })
        .await
    }

    fn request_second_list(&self) {
        self.relist_requests
            .send_modify(|requests| requests.second_list += 1);
    }

    async fn asked(&mut self) -> Received {
        timeout(PATIENCE, self.requests.recv())
            .await
            .expect("no request in time")
            .unwrap()
    }

    async fn asked_for_list(&mut self) -> Received {
        let asked = self.asked().await;
        assert!(
            !asked.query.contains_key("watch"),
            "a watch was asked for, not a list: {:?}",
            asked.query
        );
        assert!(
            !asked.query.contains_key("resourceVersion"),
            "the list is not of the most recent state"
        );
        asked
    }

    async fn asked_to_watch_from(&mut self, version: &str) -> Received {
        let mut asked = self.asked().await;
        if asked.asks_for_the_newest() {
            asked.answer(200, &list(&[], version, "")).await;
            asked = self.asked().await;
        }
        assert_eq!(
            asked.query.get("watch").map(String::as_str),
            Some("true"),
            "a list was asked for"
        );
        assert_eq!(asked.query["resourceVersion"], version);
        assert_eq!(asked.query["allowWatchBookmarks"], "true");
        asked
    }

    async fn reported(&mut self) -> String {
        let signal = timeout(PATIENCE, self.signals.recv())
            .await
            .expect("no signal in time");
        format!("{:?}", signal.unwrap())
    }

    /// Answers a list of `foo` at version 7 and accepts the watch that follows.
    async fn settled(&mut self) -> Received {
        self.settled_by(&[service("foo", 5)]).await
    }

    /// The same with a list of these objects, of which `foo` alone can be read.
    async fn settled_by(&mut self, objects: &[String]) -> Received {
        let listed = list(objects, "7", "");
        self.asked_for_list().await.answer(200, &listed).await;
        assert_eq!(self.reported().await, r#"Listed(["foo"])"#);
        let mut watch = self.asked_to_watch_from("7").await;
        watch.accept().await;
        assert_eq!(self.reported().await, "Connected");
        watch
    }
}

fn service(name: &str, version: u32) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"namespace":"shop","name":"{name}","resourceVersion":"{version}"}}}}"#
    )
}

fn odd_service(name: &str, version: u32) -> String {
    service(name, version).replace(r#""kind""#, r#""spec":{"ports":"many"},"kind""#)
}

fn list(items: &[String], version: &str, token: &str) -> String {
    let items = items.join(",");
    format!(
        r#"{{"kind":"ServiceList","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{items}]}}"#
    )
}

#[tokio::test]
async fn pages_form_one_list_and_watches_resume_at_bookmarks() {
    let mut server = Server::watched().await;
    let first = server.asked_for_list().await;
    assert_eq!(first.query["limit"], "2");
    first
        .answer(200, &list(&[service("a", 1), service("b", 2)], "7", "more"))
        .await;
    let second = server.asked_for_list().await;
    assert_eq!(second.query["continue"], "more");
    second.answer(200, &list(&[service("c", 3)], "7", "")).await;
    assert_eq!(server.reported().await, r#"Listed(["a", "b", "c"])"#);
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    watch.event("ADDED", &service("d", 8)).await;
    assert_eq!(server.reported().await, r#"Applied("d")"#);
    watch.event("DELETED", &service("d", 9)).await;
    assert_eq!(server.reported().await, r#"Deleted("d")"#);
    watch
        .event(
            "BOOKMARK",
            r#"{"kind":"Service","metadata":{"resourceVersion":"20"}}"#,
        )
        .await;
    watch.end().await;
    let mut watch = server.asked_to_watch_from("20").await;
    watch.accept().await;
    assert_eq!(
        server.reported().await,
        "Connected",
        "the end of a watch is no failure"
    );
}

#[tokio::test]
async fn an_empty_list_is_a_list() {
    let mut server = Server::watched().await;
    server
        .asked_for_list()
        .await
        .answer(
            200,
            r#"{"kind":"ServiceList","metadata":{"resourceVersion":"1"},"items":null}"#,
        )
        .await;
    assert_eq!(server.reported().await, "Listed([])");
    server.asked_to_watch_from("1").await;
}

#[tokio::test]
async fn answer_that_is_no_list_is_a_failure() {
    let mut server = Server::watched().await;
    let asked = server.asked_for_list().await;
    asked
        .answer(200, r#"{"kind":"Status","metadata":{}}"#)
        .await;
    let failed = server.reported().await;
    assert!(failed.contains("is not a list"), "{failed}");
    server.asked_for_list().await;
}

#[tokio::test]
async fn watch_that_begins_again_compares_with_the_one_before() {
    let settings = Settings::default();
    let guard = new_guard(settings.confirmation_interval, false);
    let all: Vec<_> = (1..=12).map(|n| service(&format!("s{n}"), n)).collect();
    let mut before = Server::guarded_by(guard.clone(), settings.clone()).await;
    let asked = before.asked_for_list().await;
    asked.answer(200, &list(&all, "20", "")).await;
    assert!(before.reported().await.starts_with("Listed"));
    drop(before);
    let mut after = Server::guarded_by(guard, settings).await;
    let asked = after.asked_for_list().await;
    asked.answer(200, &list(&[], "21", "")).await;
    assert_eq!(after.reported().await, "DeletionsSuspended(12)");
}

#[tokio::test]
async fn object_that_cannot_be_read_is_not_missing_from_a_list() {
    for (lists_foo, reports) in [
        (true, &[r#"Applied("foo")"#, "DeletionsSuspended(0)"][..]),
        (false, &["DeletionsSuspended(1)"]),
    ] {
        let settings = Settings::default();
        let guard = new_guard(settings.confirmation_interval, false);
        let mut before = Server::guarded_by(guard.clone(), settings.clone()).await;
        let asked = before.asked_for_list().await;
        let all = [service("foo", 5), service("bar", 6)];
        asked.answer(200, &list(&all, "7", "")).await;
        assert_eq!(before.reported().await, r#"Listed(["foo", "bar"])"#);
        drop(before);
        let mut after = Server::guarded_by(guard, settings).await;
        let asked = after.asked_for_list().await;
        let foo = lists_foo.then(|| service("foo", 5));
        let all: Vec<_> = foo.into_iter().chain([odd_service("bar", 8)]).collect();
        asked.answer(200, &list(&all, "9", "")).await;
        for report in reports {
            assert_eq!(after.reported().await, *report);
        }
        assert_eq!(after.unreadable.get(), 1);
    }
}

#[tokio::test]
async fn list_with_an_unreadable_object_confirms_nothing() {
    let mut server = Server::watched_with(Settings {
        confirmation_interval: Duration::from_millis(1),
        ..Settings::default()
    })
    .await;
    let odd = [service("foo", 5), odd_service("bar", 6)];
    let _first = server.settled_by(&odd).await;
    server.request_second_list();
    let whole = [service("foo", 5), service("bar", 10)];
    for (from, objects, version, reports) in [
        (
            "7",
            odd,
            "8",
            [r#"Applied("foo")"#, "DeletionsSuspended(0)"],
        ),
        ("8", whole, "11", [r#"Listed(["foo", "bar"])"#, "Confirmed"]),
    ] {
        let mut watch = server.asked_to_watch_from(from).await;
        watch.accept().await;
        assert_eq!(server.reported().await, "Connected");
        let asked = server.asked_for_list().await;
        asked.answer(200, &list(&objects, version, "")).await;
        for report in reports {
            assert_eq!(server.reported().await, report);
        }
    }
}

#[tokio::test]
async fn second_lists_that_prove_nothing_become_rarer() {
    let interval = Duration::from_millis(50);
    let guard = new_guard(interval, false);
    let settings = Settings {
        confirmation_interval: interval,
        ..Settings::default()
    };
    let mut server = Server::guarded_by(guard.clone(), settings).await;
    let odd = [service("foo", 5), odd_service("bar", 6)];
    let _first = server.settled_by(&odd).await;
    let odd = list(&odd, "7", "");
    server.request_second_list();
    for intervals in [2, 4, 8] {
        let mut watch = server.asked_to_watch_from("7").await;
        watch.accept().await;
        assert_eq!(server.reported().await, "Connected");
        let asked = server.asked_for_list().await;
        let begun = Instant::now();
        asked.answer(200, &odd).await;
        assert_eq!(server.reported().await, r#"Applied("foo")"#);
        assert_eq!(server.reported().await, "DeletionsSuspended(0)");
        let due = guard.lock().unwrap().relist_at().expect("a second list");
        assert!(due >= (begun + interval * intervals).into_std());
    }
}

#[tokio::test]
async fn readable_list_ends_the_pause_before_a_second_list() {
    let retry = Duration::from_millis(1);
    let settings = Settings {
        first_retry: retry,
        confirmation_interval: Duration::from_secs(600),
        ..Settings::default()
    };
    let mut server = Server::guarded_by(new_guard(retry, false), settings).await;
    let odd = [service("foo", 5), odd_service("bar", 6)];
    let _first = server.settled_by(&odd).await;
    let odd = list(&odd, "7", "");
    server.request_second_list();
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    server.asked_for_list().await.answer(200, &odd).await;
    assert_eq!(server.reported().await, r#"Applied("foo")"#);
    assert_eq!(server.reported().await, "DeletionsSuspended(0)");
    let expired = server.asked_to_watch_from("7").await;
    expired.refuse(410, "Expired", "too old").await;
    let whole = list(&[service("foo", 5), service("bar", 8)], "8", "");
    server.asked_for_list().await.answer(200, &whole).await;
    assert_eq!(server.reported().await, r#"Listed(["foo", "bar"])"#);
    let mut watch = server.asked_to_watch_from("8").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    server.asked_for_list().await.answer(200, &whole).await;
    assert_eq!(server.reported().await, r#"Listed(["foo", "bar"])"#);
    assert_eq!(server.reported().await, "Confirmed");
}

#[tokio::test]
async fn list_with_expired_pages_restarts_and_is_never_partial() {
    let mut server = Server::watched().await;
    server
        .asked_for_list()
        .await
        .answer(200, &list(&[service("a", 1)], "7", "more"))
        .await;
    server
        .asked_for_list()
        .await
        .refuse(410, "Expired", "the token is too old")
        .await;
    let whole = server.asked_for_list().await;
    assert!(!whole.query.contains_key("limit") && !whole.query.contains_key("continue"));
    whole.answer(200, &list(&[service("b", 2)], "9", "")).await;
    assert_eq!(server.reported().await, r#"Listed(["b"])"#);
    server.asked_to_watch_from("9").await;
}

#[tokio::test]
async fn long_lists_are_read_by_other_threads() {
    let mut server = Server::watched_with(Settings {
        page: 2,
        first_retry: Duration::from_millis(1),
        long_lists: Some(Handle::current()),
        ..Settings::default()
    })
    .await;
    let first = list(&[service("a", 1)], "7", "more");
    for (connections, refusal) in [(1, "InternalError"), (2, "Expired")] {
        server.asked_for_list().await.answer(200, &first).await;
        let second = server.asked_for_list().await;
        assert_eq!(server.connections.load(Ordering::Relaxed), connections);
        assert_eq!(second.query["continue"], "more");
        let code = if refusal == "Expired" { 410 } else { 500 };
        second.refuse(code, refusal, "not now").await;
        if refusal != "Expired" {
            let failed = server.reported().await;
            assert!(failed.contains("500"), "{failed}");
        }
    }
    let whole = server.asked_for_list().await;
    assert!(!whole.query.contains_key("limit") && !whole.query.contains_key("continue"));
    let objects = [service("b", 2), service("c", 3)];
    whole.answer(200, &list(&objects, "9", "")).await;
    assert_eq!(server.reported().await, r#"Listed(["b", "c"])"#);
    server.asked_to_watch_from("9").await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn expired_version_causes_a_relist() {
    let mut server = Server::watched().await;
    let mut watch = server.settled().await;
    watch
        .event(
            "ERROR",
            &status(410, "Expired", "too old resource version: 7 (90)"),
        )
        .await;
    server
        .asked_for_list()
        .await
        .answer(200, &list(&[], "90", ""))
        .await;
    assert_eq!(server.reported().await, "Listed([])");
    server
        .asked_to_watch_from("90")
        .await
        .refuse(410, "Expired", "too old")
        .await;
    server
        .asked_for_list()
        .await
        .answer(200, &list(&[], "91", ""))
        .await;
    assert_eq!(server.reported().await, "Listed([])");
}

#[tokio::test]
async fn outage_is_reported_once_per_reason_without_a_relist() {
    let mut server = Server::watched().await;
    server.settled().await.end().await;
    for _ in 0..3 {
        server
            .asked_to_watch_from("7")
            .await
            .refuse(503, "ServiceUnavailable", "x")
            .await;
    }
    server
        .asked_to_watch_from("7")
        .await
        .refuse(403, "Forbidden", "no")
        .await;
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    assert!(
        server
            .reported()
            .await
            .contains("the API server answers 503")
    );
    assert!(server.reported().await.contains(r#"detail: "no""#));
    assert_eq!(server.reported().await, "Connected");
}

#[tokio::test]
async fn expired_watch_does_not_end_an_outage() {
    let mut server = Server::watched().await;
    server.settled().await.end().await;
    let refused = server.asked_to_watch_from("7").await;
    refused.refuse(503, "ServiceUnavailable", "x").await;
    assert!(server.reported().await.contains("503"));
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    let expired = status(410, "Expired", "too old resource version: 7 (90)");
    watch.event("ERROR", &expired).await;
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&[], "90", "")).await;
    assert_eq!(server.reported().await, "Listed([])");
    let mut watch = server.asked_to_watch_from("90").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
}

/// Counts the log lines of a thread, of that level or worse.
pub(crate) struct Logged(pub(crate) Level, pub(crate) Arc<AtomicUsize>);

impl tracing::Subscriber for Logged {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= self.0
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn watches_that_end_early_are_logged_once() {
    let warnings = Arc::<AtomicUsize>::default();
    let _guard = tracing::subscriber::set_default(Logged(Level::WARN, warnings.clone()));
    let mut server = Server::watched().await;
    server.settled().await.end().await;
    for ends in 1..=8 {
        let mut watch = server.asked_to_watch_from("7").await;
        watch.accept().await;
        assert_eq!(server.reported().await, "Connected");
        assert_eq!(warnings.load(Ordering::Relaxed), ends / 5, "{ends}");
        watch.end().await;
    }
}

#[tokio::test]
async fn refused_watch_is_reported_after_a_refused_list() {
    let mut server = Server::watched().await;
    let asked = server.asked_for_list().await;
    asked.refuse(403, "Forbidden", "cannot list").await;
    assert!(server.reported().await.contains("cannot list"));
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&[], "7", "")).await;
    assert_eq!(server.reported().await, "Listed([])");
    let asked = server.asked_to_watch_from("7").await;
    asked.refuse(403, "Forbidden", "cannot watch").await;
    assert!(server.reported().await.contains("cannot watch"));
}

#[tokio::test]
async fn unreadable_object_ends_neither_list_nor_watch() {
    let mut server = Server::watched().await;
    let objects = [service("a", 1), odd_service("b", 2)];
    server
        .asked_for_list()
        .await
        .answer(200, &list(&objects, "7", ""))
        .await;
    assert_eq!(server.reported().await, r#"Listed(["a"])"#);
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    watch.event("MODIFIED", &odd_service("b", 8)).await;
    watch.event("MODIFIED", &service("a", 9)).await;
    assert_eq!(server.reported().await, r#"Applied("a")"#);
    assert_eq!(server.unreadable.get(), 2);
    watch.event("DELETED", &odd_service("b", 10)).await;
    server.asked_for_list().await;
}

#[tokio::test]
async fn annotation_of_many_braces_makes_no_object_unreadable() {
    let braces = "{".repeat(524_289);
    let annotated = format!(r#""metadata":{{"annotations":{{"a":"{braces}"}},"#);
    let braced = service("foo", 8).replace(r#""metadata":{"#, &annotated);
    let mut server = Server::watched().await;
    let mut watch = server.settled().await;
    watch.event("MODIFIED", &braced).await;
    assert_eq!(server.reported().await, r#"Applied("foo")"#);
    watch.event("ADDED", &service("bar", 9)).await;
    assert_eq!(server.reported().await, r#"Applied("bar")"#);
    let expired = status(410, "Expired", "too old resource version");
    watch.event("ERROR", &expired).await;
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&[braced], "90", "")).await;
    assert_eq!(server.reported().await, r#"Listed(["foo"])"#);
    assert_eq!(server.unreadable.get(), 0);
}

#[tokio::test]
async fn unreadable_deletion_is_listed_after_a_pause() {
    let hour = Duration::from_secs(3600);
    let mut server = Server::watched_with(Settings {
        first_retry: hour,
        last_retry: hour,
        ..Settings::default()
    })
    .await;
    let mut watch = server.settled().await;
    watch.event("DELETED", &odd_service("foo", 8)).await;
    let asked = timeout(Duration::from_millis(100), server.requests.recv()).await;
    assert!(asked.is_err(), "a list without a pause");
    server.reconnect.send_replace(Instant::now());
    server.asked_for_list().await;
}

#[tokio::test]
async fn a_line_that_is_cut_off_is_not_taken_and_comes_again() {
    let mut server = Server::watched().await;
    let mut watch = server.settled().await;
    watch.event("ADDED", &service("bar", 8)).await;
    assert_eq!(server.reported().await, r#"Applied("bar")"#);
    watch
        .chunk(r#"{"type":"DELETED","object":{"metadata":{"na"#)
        .await;
    drop(watch);
    let mut watch = server.asked_to_watch_from("8").await;
    watch.accept().await;
    let reported = server.reported().await;
    let reported = if reported.contains("the connection was lost") {
        server.reported().await
    } else {
        reported
    };
    assert_eq!(reported, "Connected");
}

#[tokio::test]
async fn silent_watch_ends_after_the_server_timeout() {
    let short = Duration::from_millis(50);
    let settings = Settings {
        watch_timeout: short,
        margin: short,
        first_retry: short,
        ..Settings::default()
    };
    let mut server = Server::watched_with(settings).await;
    let silent = server.settled().await;
    assert!(server.reported().await.contains("no answer in time"));
    server.asked_to_watch_from("7").await;
    drop(silent);
}

#[tokio::test]
async fn watch_without_bookmarks_reconnects_before_it_fails() {
    let mut server = Server::watched_with(Settings {
        silence: Duration::from_millis(50),
        ..Settings::default()
    })
    .await;
    let silent = server.settled().await;
    let mut watch = server.asked_to_watch_from("7").await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected", "not a failure");
    drop(silent);
}

#[tokio::test]
async fn watches_silent_on_new_connections_are_logged_once() {
    let warnings = Arc::<AtomicUsize>::default();
    let _guard = tracing::subscriber::set_default(Logged(Level::WARN, warnings.clone()));
    let mut server = Server::watched_with(Settings {
        silence: Duration::from_millis(500),
        ..Settings::default()
    })
    .await;
    let _silent = server.settled().await;
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    // An event ends the row.
    watch.event("ADDED", &service("bar", 8)).await;
    assert_eq!(server.reported().await, "Connected");
    assert_eq!(server.reported().await, r#"Applied("bar")"#);
    let mut watches = vec![watch];
    for expected in [0, 1, 1] {
        let mut watch = server.asked_to_watch_from("8").await;
        assert_eq!(warnings.load(Ordering::Relaxed), expected);
        watch.accept().await;
        assert_eq!(server.reported().await, "Connected", "not a failure");
        watches.push(watch);
    }
}

#[tokio::test]
async fn server_silent_on_a_new_connection_has_failed() {
    let short = Duration::from_millis(50);
    let mut server = Server::watched_with(Settings {
        silence: short,
        connect_deadline: Duration::from_secs(2),
        first_retry: short,
        ..Settings::default()
    })
    .await;
    let silent = server.settled().await;
    let (newest, watch) = (server.asked().await, server.asked().await);
    assert!(server.reported().await.contains("no answer in time"));
    drop((silent, newest, watch));
}

#[tokio::test]
async fn bookmarks_and_parts_of_a_long_line_keep_a_quiet_watch() {
    let mut server = Server::watched_with(Settings {
        silence: Duration::from_secs(2),
        ..Settings::default()
    })
    .await;
    let mut watch = server.settled().await;
    let pause = Duration::from_millis(100);
    for version in 8..23 {
        tokio::time::sleep(pause).await;
        let bookmark =
            format!(r#"{{"kind":"Service","metadata":{{"resourceVersion":"{version}"}}}}"#);
        watch.event("BOOKMARK", &bookmark).await;
    }
    let line = format!(r#"{{"type":"ADDED","object":{}}}"#, service("bar", 30));
    for part in line.as_bytes().chunks(line.len().div_ceil(15)) {
        tokio::time::sleep(pause).await;
        watch.chunk(str::from_utf8(part).unwrap()).await;
    }
    watch.chunk("\n").await;
    assert_eq!(server.reported().await, r#"Applied("bar")"#);
    assert!(server.requests.try_recv().is_err(), "another connection");
    server.asked_to_watch_from("30").await;
}

#[tokio::test]
async fn reconnect_request_ends_silent_watches_and_pauses() {
    let hour = Duration::from_secs(3600);
    let settings = Settings {
        first_retry: hour,
        last_retry: hour,
        ..Settings::default()
    };
    let mut server = Server::watched_with(settings).await;
    let silent = server.settled().await;
    server.reconnect.send_replace(Instant::now());
    server
        .asked_to_watch_from("7")
        .await
        .refuse(503, "ServiceUnavailable", "x")
        .await;
    assert!(server.reported().await.contains("503"));
    server.reconnect.send_replace(Instant::now());
    server.asked_to_watch_from("7").await;
    drop(silent);
}

#[tokio::test]
async fn reconnect_request_spares_a_watch_that_is_newer() {
    let failed_at = Instant::now();
    let mut server = Server::watched().await;
    let mut watch = server.settled().await;
    server.reconnect.send_replace(failed_at);
    watch.event("ADDED", &service("bar", 8)).await;
    assert_eq!(server.reported().await, r#"Applied("bar")"#);
    server.reconnect.send_replace(Instant::now());
    server.asked_to_watch_from("8").await;
}

#[tokio::test]
async fn a_watch_ends_when_nobody_listens() {
    let mut server = Server::watched().await;
    let mut watch = server.settled().await;
    let (_, nobody) = mpsc::channel(1);
    server.signals = nobody;
    watch.event("ADDED", &service("bar", 8)).await;
    let watching = server.tasks.pop().unwrap();
    timeout(PATIENCE, watching)
        .await
        .expect("the watch goes on")
        .unwrap();
}

#[tokio::test]
async fn mass_deletion_counts_once_a_second_list_confirms_it() {
    let short = Duration::from_millis(1);
    let mut server = Server::watched_with(Settings {
        first_retry: short,
        confirmation_interval: short,
        ..Settings::default()
    })
    .await;
    let all: Vec<_> = (0..20).map(|n| service(&format!("foo-{n}"), 5)).collect();
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&all, "7", "")).await;
    assert!(server.reported().await.starts_with("Listed("));
    let expired = server.asked_to_watch_from("7").await;
    expired.refuse(410, "Expired", "too old").await;
    let asked = server.asked_for_list().await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 0);
    asked.answer(200, &list(&all[..2], "3", "")).await;
    assert_eq!(server.reported().await, r#"Applied("foo-0")"#);
    assert_eq!(server.reported().await, r#"Applied("foo-1")"#);
    assert_eq!(server.reported().await, "DeletionsSuspended(18)");
    let mut watch = server.asked_to_watch_from("3").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    let asked = server.asked_for_list().await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    asked.answer(200, &list(&all[..1], "4", "")).await;
    assert_eq!(server.reported().await, r#"Listed(["foo-0"])"#);
    server.asked_to_watch_from("4").await;
}

#[tokio::test]
async fn pages_are_as_long_as_fits_their_bytes() {
    let mut server = Server::watched_with(Settings {
        page: 40,
        page_bytes: 1000,
        ..Settings::default()
    })
    .await;
    let mut limits = Vec::new();
    for (objects, token) in [(1, "a"), (2, "b"), (1, "")] {
        let asked = server.asked_for_list().await;
        limits.push(asked.query["limit"].clone());
        let long = "x".repeat(400);
        let services: Vec<_> = (0..objects)
            .map(|n| service(&format!("{token}{n}-{long}"), 5))
            .collect();
        asked.answer(200, &list(&services, "7", token)).await;
    }
    assert_eq!(limits, ["40", "2", "2"]);
    server.reported().await;
    server.asked_to_watch_from("7").await;
}

#[tokio::test]
async fn older_server_state_is_relisted_and_suspends_deletions() {
    let mut server = Server::watched_with(Settings {
        first_retry: Duration::from_millis(1),
        confirmation_interval: Duration::from_millis(1),
        ..Settings::default()
    })
    .await;
    let watch = server.settled().await;
    watch.end().await;
    let asked = server.asked().await;
    assert!(asked.asks_for_the_newest(), "{:?}", asked.query);
    asked.answer(200, &list(&[], "3", "")).await;
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&[], "3", "")).await;
    assert_eq!(server.reported().await, "DeletionsSuspended(1)");
    let mut watch = server.asked_to_watch_from("3").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&[], "4", "")).await;
    assert_eq!(server.reported().await, "Listed([])");
}

#[tokio::test]
async fn an_api_server_that_refuses_its_version_is_not_watched_before_it_does() {
    let mut server = Server::watched().await;
    server.settled().await.end().await;
    let asked = server.asked().await;
    assert!(asked.asks_for_the_newest(), "{:?}", asked.query);
    asked.refuse(503, "ServiceUnavailable", "it starts").await;
    assert!(server.reported().await.contains("503"));
    let asked = server.asked().await;
    assert!(asked.asks_for_the_newest(), "{:?}", asked.query);
    asked.answer(200, &list(&[], "3", "")).await;
    let asked = server.asked_for_list().await;
    asked
        .answer(200, &list(&[service("foo", 2)], "3", ""))
        .await;
    assert_eq!(server.reported().await, r#"Applied("foo")"#);
    assert_eq!(server.reported().await, "DeletionsSuspended(0)");
}

#[tokio::test]
async fn second_list_requested_in_a_pause_is_made() {
    let hour = Duration::from_secs(3600);
    let mut server = Server::watched_with(Settings {
        first_retry: hour,
        last_retry: hour,
        confirmation_interval: Duration::from_millis(1),
        ..Settings::default()
    })
    .await;
    let watch = server.settled().await;
    server.reconnect.send_replace(Instant::now());
    let refused = server.asked_to_watch_from("7").await;
    refused.refuse(503, "ServiceUnavailable", "x").await;
    assert!(server.reported().await.contains("503"));
    server.request_second_list();
    let mut opened = server.asked_to_watch_from("7").await;
    opened.accept().await;
    let asked = server.asked_for_list().await;
    asked
        .answer(200, &list(&[service("foo", 5)], "8", ""))
        .await;
    assert_eq!(server.reported().await, r#"Listed(["foo"])"#);
    assert_eq!(server.reported().await, "Confirmed");
    let mut opened = server.asked_to_watch_from("8").await;
    opened.accept().await;
    assert_eq!(server.reported().await, "Connected");
    drop(watch);
}

#[tokio::test]
async fn requested_second_list_uses_a_new_connection() {
    let mut server = Server::watched_with(Settings {
        confirmation_interval: Duration::from_millis(1),
        ..Settings::default()
    })
    .await;
    let first = server.settled().await;
    server.request_second_list();
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    let asked = server.asked_for_list().await;
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
    asked
        .answer(200, &list(&[service("foo", 5)], "8", ""))
        .await;
    assert_eq!(server.reported().await, r#"Listed(["foo"])"#);
    assert_eq!(server.reported().await, "Confirmed");
    drop(first);
}

#[tokio::test]
async fn list_that_began_before_a_second_one_was_due_confirms_nothing() {
    let settings = Settings {
        confirmation_interval: Duration::ZERO,
        ..Settings::default()
    };
    let guard = new_guard(settings.confirmation_interval, false);
    let mut server = Server::guarded_by(guard.clone(), settings).await;
    let asked = server.asked_for_list().await;
    let due = Instant::now().into_std();
    guard.lock().unwrap().request_second_list(due);
    let foo = list(&[service("foo", 5)], "7", "");
    asked.answer(200, &foo).await;
    assert_eq!(server.reported().await, r#"Listed(["foo"])"#);
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    server.asked_for_list().await.answer(200, &foo).await;
    assert_eq!(server.reported().await, r#"Listed(["foo"])"#);
    assert_eq!(server.reported().await, "Confirmed");
}

#[tokio::test]
async fn new_term_is_reported_after_a_list_that_began_in_it() {
    let mut server = Server::watched().await;
    let asked = server.asked_for_list().await;
    server
        .relist_requests
        .send_modify(|requests| requests.term = 1);
    asked.answer(200, &list(&[], "7", "")).await;
    assert_eq!(server.reported().await, "Listed([])");
    let mut watch = server.asked_to_watch_from("7").await;
    watch.accept().await;
    assert_eq!(server.reported().await, "Connected");
    let asked = server.asked_for_list().await;
    asked
        .answer(200, &list(&[service("foo", 8)], "8", ""))
        .await;
    assert_eq!(server.reported().await, r#"Listed(["foo"])"#);
    assert_eq!(server.reported().await, "Current(1)");
    server.asked_to_watch_from("8").await;
}

#[tokio::test]
async fn confirmed_deletions_count_without_a_watch() {
    let mut server = Server::watched_with(Settings {
        first_retry: Duration::from_millis(1),
        last_retry: Duration::from_millis(1),
        ..Settings::default()
    })
    .await;
    let all: Vec<_> = (0..20).map(|n| service(&format!("foo-{n}"), 5)).collect();
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&all, "7", "")).await;
    assert!(server.reported().await.starts_with("Listed("));
    for _ in 0..2 {
        let expired = server.asked_to_watch_from("7").await;
        expired.refuse(410, "Expired", "too old").await;
        let asked = server.asked_for_list().await;
        asked.answer(200, &list(&[], "7", "")).await;
        assert_eq!(server.reported().await, "DeletionsSuspended(20)");
    }
    let expired = server.asked_to_watch_from("7").await;
    server
        .relist_requests
        .send_modify(|requests| requests.confirm_deletions += 1);
    expired.refuse(410, "Expired", "too old").await;
    let asked = server.asked_for_list().await;
    asked.answer(200, &list(&[], "7", "")).await;
    assert_eq!(server.reported().await, "Listed([])");
}
