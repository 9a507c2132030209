//! A watch of the objects of some names, which change while it runs.

use causeway_engine::model::slice::{ServiceNames, SliceScope};

use super::*;

/// An API server, and a watch of the objects of `a` in it.
struct Scoped {
    requests: mpsc::Receiver<Received>,
    reports: mpsc::Receiver<String>,
    wanted: watch::Sender<Option<SliceScope>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Scoped {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn names(all: &[&str]) -> Arc<ServiceNames> {
    Arc::new(all.iter().map(|name| (*name).into()).collect())
}

/// Returns an object of a name.
fn of(owner: &str, name: &str, version: u32) -> String {
    let labels = format!(r#""metadata":{{"labels":{{"of":"{owner}"}},"#);
    service(name, version).replace(r#""metadata":{"#, &labels)
}

fn owner(service: &Service) -> Arc<str> {
    service.labels()["of"].as_str().into()
}

impl Scoped {
    /// Returns a watch whose list at version 10 held an object of `a`.
    async fn watched() -> (Self, Received) {
        let (client, requests, accepting) = http::listen().await;
        let (wanted, scopes) = watch::channel(None);
        let (tell, reports) = mpsc::channel(8);
        let retry = Duration::from_millis(1);
        let settings = Settings {
            first_retry: retry,
            last_retry: retry,
            ..Settings::default()
        };
        let scope = Scope {
            wanted: scopes,
            names: names(&["a"]),
            service: owner,
            rescoped: Box::new(|names, objects| format!("{names:?} adds {objects:?}")),
        };
        let read = |service: Service| service.name_any();
        let wrap = |signal| format!("{signal:?}");
        let watch = Watch::new(Api::<Service>::all(client), settings);
        let watching = tokio::spawn(watch.run_in(Some(scope), read, wrap, tell));
        let mut scoped = Self {
            requests,
            reports,
            wanted,
            tasks: vec![accepting, watching],
        };
        scoped.lists("a", &[of("a", "a-1", 5)], "10").await;
        scoped.reports(r#"Listed(["a-1"])"#).await;
        let watch = scoped.watches("a", "10").await;
        (scoped, watch)
    }

    fn wants(&self, all: &[&str]) {
        let scope = SliceScope::Named(names(all));
        self.wanted.send_replace(Some(scope));
    }

    async fn asked(&mut self) -> Received {
        let asked = timeout(PATIENCE, self.requests.recv()).await;
        asked.expect("no request in time").expect("a request")
    }

    /// Answers a list of these names.
    async fn lists(&mut self, of: &str, objects: &[String], version: &str) {
        let asked = self.asked().await;
        assert!(!asked.query.contains_key("watch"), "{:?}", asked.query);
        assert_eq!(named(&asked), of);
        asked.answer(200, &list(objects, version, "")).await;
    }

    /// Accepts a watch of these names from a version.
    async fn watches(&mut self, of: &str, version: &str) -> Received {
        let mut asked = self.asked().await;
        assert_eq!(asked.query.get("watch").map(String::as_str), Some("true"));
        assert_eq!(
            (named(&asked), &*asked.query["resourceVersion"]),
            (of, version)
        );
        asked.accept().await;
        self.reports("Connected").await;
        asked
    }

    async fn reports(&mut self, expected: &str) {
        let report = timeout(PATIENCE, self.reports.recv()).await;
        assert_eq!(
            report.expect("no report in time").expect("a report"),
            expected
        );
    }
}

/// Returns the names of a request's selector.
fn named(asked: &Received) -> &str {
    let selector = &asked.query["labelSelector"];
    let (_, names) = selector.split_once("in+%28").expect("names");
    names.split_once("%29").expect("an end").0
}

#[tokio::test]
async fn new_name_is_listed_alone_while_the_watch_goes_on() {
    let (mut server, mut watch) = Scoped::watched().await;
    server.wants(&["a", "b"]);
    let listed = server.asked().await;
    assert_eq!(named(&listed), "b");
    watch.event("MODIFIED", &of("a", "a-1", 11)).await;
    server.reports(r#"Applied("a-1")"#).await;
    let objects = [of("b", "b-1", 9)];
    listed.answer(200, &list(&objects, "15", "")).await;
    server.reports(r#"{"a", "b"} adds ["b-1"]"#).await;
    let mut watch = server.watches("a%2Cb", "11").await;
    // The list has shown these.
    watch.event("MODIFIED", &of("b", "b-1", 13)).await;
    watch.event("DELETED", &of("b", "b-0", 15)).await;
    watch.event("MODIFIED", &of("a", "a-1", 14)).await;
    server.reports(r#"Applied("a-1")"#).await;
    watch.event("MODIFIED", &of("b", "b-1", 16)).await;
    server.reports(r#"Applied("b-1")"#).await;
}

#[tokio::test]
async fn newest_version_is_requested_without_a_selector() {
    let (mut server, watch) = Scoped::watched().await;
    watch.end().await;
    let asked = server.asked().await;
    assert!(asked.asks_for_the_newest(), "{:?}", asked.query);
    assert!(!asked.query.contains_key("labelSelector"));
    asked.answer(200, &list(&[], "10", "")).await;
    server.watches("a", "10").await;
}

#[tokio::test]
async fn watch_that_is_ahead_of_the_list_of_a_new_name_goes_back() {
    let (mut server, mut watch) = Scoped::watched().await;
    server.wants(&["a", "b"]);
    let listed = server.asked().await;
    watch.event("MODIFIED", &of("a", "a-1", 20)).await;
    server.reports(r#"Applied("a-1")"#).await;
    listed.answer(200, &list(&[], "15", "")).await;
    server.reports(r#"{"a", "b"} adds []"#).await;
    let mut watch = server.watches("a%2Cb", "15").await;
    watch.event("MODIFIED", &of("a", "a-1", 20)).await;
    watch.event("ADDED", &of("b", "b-1", 17)).await;
    server.reports(r#"Applied("b-1")"#).await;
}

#[tokio::test]
async fn failed_list_of_a_new_name_is_repeated_and_disturbs_nothing() {
    let (mut server, mut watch) = Scoped::watched().await;
    server.wants(&["a", "b"]);
    let listed = server.asked().await;
    listed
        .answer(500, &status(500, "InternalError", "no"))
        .await;
    let listed = server.asked().await;
    assert_eq!(named(&listed), "b");
    watch.event("MODIFIED", &of("a", "a-1", 11)).await;
    server.reports(r#"Applied("a-1")"#).await;
}

#[tokio::test]
async fn dropped_name_is_forgotten_and_missing_from_no_list() {
    let (mut server, _watch) = Scoped::watched().await;
    server.wants(&["a", "b"]);
    let many: Vec<_> = (0..30).map(|n| of("b", &format!("b-{n}"), 9)).collect();
    server.lists("b", &many, "10").await;
    let report = server.reports.recv().await.expect("a report");
    assert!(
        report.starts_with(r#"{"a", "b"} adds ["b-0", "#),
        "{report}"
    );
    let _watch = server.watches("a%2Cb", "10").await;
    server.wants(&["a"]);
    server.reports(r#"{"a"} adds []"#).await;
    let mut watch = server.watches("a", "10").await;
    let expired = status(410, "Expired", "too old");
    watch.event("ERROR", &expired).await;
    server.lists("a", &[of("a", "a-1", 5)], "40").await;
    server.reports(r#"Listed(["a-1"])"#).await;
}

#[tokio::test]
async fn relist_of_names_suspends_a_large_loss() {
    let (mut server, _watch) = Scoped::watched().await;
    server.wants(&["a", "b"]);
    let many: Vec<_> = (0..30).map(|n| of("b", &format!("b-{n}"), 9)).collect();
    server.lists("b", &many, "10").await;
    server.reports.recv().await.expect("a report");
    let mut watch = server.watches("a%2Cb", "10").await;
    watch
        .event("ERROR", &status(410, "Expired", "too old"))
        .await;
    server
        .lists("a%2Cb", &[of("a", "a-1", 5), of("b", "b-0", 9)], "40")
        .await;
    server.reports(r#"Applied("a-1")"#).await;
    server.reports(r#"Applied("b-0")"#).await;
    server.reports("DeletionsSuspended(29)").await;
}

#[tokio::test]
async fn relist_leaves_out_names_that_are_dropped_meanwhile() {
    let (mut server, _watch) = Scoped::watched().await;
    server.wants(&["a", "b"]);
    server.lists("b", &[of("b", "b-1", 9)], "10").await;
    server.reports(r#"{"a", "b"} adds ["b-1"]"#).await;
    let mut watch = server.watches("a%2Cb", "10").await;
    // The names have just changed, and stay for a second.
    server.wants(&["a"]);
    watch
        .event("ERROR", &status(410, "Expired", "too old"))
        .await;
    server.reports(r#"{"a"} adds []"#).await;
    server.lists("a", &[of("a", "a-1", 5)], "40").await;
    server.reports(r#"Listed(["a-1"])"#).await;
}
