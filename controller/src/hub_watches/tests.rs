use std::sync::Arc;

use causeway::domain::ServiceKey;
use causeway_engine::model::{Failure, FailureKind, HubEvent, ServiceWork, Signal};
use kube::Client;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::follower::Follower;
use super::kinds::{selector, works};
use super::report::Report;
use crate::event::Event;
use crate::metrics::Metrics;
use crate::watch::RelistRequests;
use crate::watch::tests::http::{self, PATIENCE, Received};

#[test]
fn the_api_server_is_asked_for_those_alone() {
    assert_eq!(
        selector(),
        "multiclusterservice.karmada.io/namespace,multiclusterservice.karmada.io/name,!endpointslice.karmada.io/managed-by"
    );
}

const ASKED: &str = "/apis/work.karmada.io/v1alpha1";
const SERVED: &str = r#"{"kind":"APIResourceList","groupVersion":"work.karmada.io/v1alpha1","resources":[
    {"name":"works","singularName":"work","namespaced":true,"kind":"Work","verbs":["list","watch"]}]}"#;

const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";
const SERVED_GROUPS: &str = r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"work.karmada.io",
    "versions":[{"groupVersion":"work.karmada.io/v1alpha1","version":"v1alpha1"}]}]}"#;
const OTHER_GROUPS: &str = r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps",
    "versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}"#;

/// A hub that is asked by a follower, and what the follower tells.
struct Followed {
    requests: mpsc::Receiver<Received>,
    events: mpsc::Receiver<Event>,
}

impl Followed {
    fn by(client: Client, requests: mpsc::Receiver<Received>) -> Self {
        let report = Report::new("works", Metrics::default(), None);
        Self::reporting(client, requests, report)
    }

    fn reporting(client: Client, requests: mpsc::Receiver<Received>, report: Report) -> Self {
        let (tell, events) = mpsc::channel(8);
        let (sender, relist_requests) = watch::channel(RelistRequests::default());
        let same = client.clone();
        let follower = Follower {
            client,
            uid: "hub".to_owned(),
            relist_requests,
            connect: Arc::new(move || Ok(same.clone())),
            unreadable: Counter::default(),
            report,
        };
        tokio::spawn(async move {
            follower.run(works(), tell).await;
            drop(sender);
        });
        Self { requests, events }
    }

    /// The next request for Works. That the hub serves them is answered whenever it is asked.
    async fn request(&mut self) -> Received {
        loop {
            let asked = timeout(PATIENCE, self.requests.recv()).await;
            let asked = asked.expect("nothing is asked").unwrap();
            match &*asked.path {
                ASKED => asked.answer(200, SERVED).await,
                _ => return asked,
            }
        }
    }

    async fn reported(&mut self) -> HubEvent {
        let event = timeout(PATIENCE, self.events.recv()).await;
        match event.expect("no event arrived").unwrap() {
            Event::Hub(event) => event,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn works_are_watched_once_the_hub_serves_them() {
    let (client, requests, _accepting) = http::listen().await;
    let mut followed = Followed::by(client, requests);
    // A proxy answers 404 to everything, and then to discovery alone.
    for listed in ["", SERVED_GROUPS, OTHER_GROUPS] {
        for path in [ASKED, "/apis", KUBE_SYSTEM] {
            let asked = followed.requests.recv().await.unwrap();
            assert_eq!((&*asked.path, followed.events.len()), (path, 0));
            match path {
                "/apis" if !listed.is_empty() => asked.answer(200, listed).await,
                KUBE_SYSTEM => asked.answer(200, r#"{"metadata":{"uid":"hub"}}"#).await,
                _ => asked.answer(404, "<html>404</html>").await,
            }
            if path == "/apis" && listed != OTHER_GROUPS {
                break;
            }
        }
    }
    assert!(matches!(
        followed.reported().await,
        HubEvent::WorksServed(false)
    ));

    let asked = followed.request().await;
    assert!(matches!(
        followed.reported().await,
        HubEvent::WorksServed(true)
    ));
    assert_eq!(asked.path, format!("{ASKED}/works"));
    let selected = asked.query["labelSelector"]
        .replace("%2F", "/")
        .replace("%2C", ",");
    assert_eq!(selected.replace("%21", "!"), selector());
    asked.refuse(403, "Forbidden", "no").await;
    match followed.reported().await {
        HubEvent::Works(Signal::Failed(failure)) => {
            assert_eq!(failure.kind, FailureKind::Forbidden)
        }
        other => panic!("{other:?}"),
    }

    let work = r#"{"metadata":{"namespace":"karmada-es-a","name":"w","resourceVersion":"1","labels":{
        "multiclusterservice.karmada.io/namespace":"shop","multiclusterservice.karmada.io/name":"foo"}}}"#;
    let expected = ServiceWork {
        id: "karmada-es-a/w".into(),
        service: Some(ServiceKey::new("shop", "foo")),
    };
    let list =
        format!(r#"{{"kind":"WorkList","metadata":{{"resourceVersion":"1"}},"items":[{work}]}}"#);
    followed.request().await.answer(200, &list).await;
    match followed.reported().await {
        HubEvent::Works(Signal::Listed(works)) => {
            assert_eq!(works, std::slice::from_ref(&expected))
        }
        other => panic!("{other:?}"),
    }
    let mut watched = followed.request().await;
    assert!(watched.query.contains_key("watch"));
    watched.accept().await;
    assert!(matches!(
        followed.reported().await,
        HubEvent::Works(Signal::Connected)
    ));
    watched.event("DELETED", &work.replace('\n', "")).await;
    match followed.reported().await {
        HubEvent::Works(Signal::Deleted(work)) => assert_eq!(work, expected),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn kind_of_an_unknown_version_is_not_reported_as_unserved() {
    const NEWER: &str = "/apis/work.karmada.io/v1beta1";
    let newer_groups = SERVED_GROUPS.replace("v1alpha1", "v1beta1");
    let (client, requests, _accepting) = http::listen().await;
    let mut followed = Followed::by(client, requests);
    for (listed, last) in [(&*newer_groups, NEWER), (OTHER_GROUPS, KUBE_SYSTEM)] {
        for path in [ASKED, "/apis", last] {
            let asked = followed.requests.recv().await.unwrap();
            assert_eq!((&*asked.path, followed.events.len()), (path, 0));
            match path {
                "/apis" => asked.answer(200, listed).await,
                NEWER => asked.answer(200, SERVED).await,
                KUBE_SYSTEM => asked.answer(200, r#"{"metadata":{"uid":"hub"}}"#).await,
                _ => asked.answer(404, "<html>404</html>").await,
            }
        }
    }
    assert!(matches!(
        followed.reported().await,
        HubEvent::WorksServed(false)
    ));
}

#[tokio::test]
async fn resource_that_the_hub_does_not_serve_has_no_metric() {
    let metrics = Metrics::default();
    let shows_watch = || {
        let mut registry = prometheus_client::registry::Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text.contains("hub_watch_up{resource=\"works\"} 0")
    };
    let report = Report::new("works", metrics.clone(), None);
    report.note(&Signal::<()>::Failed(Failure::timeout()));
    assert!(shows_watch());
    let (client, requests, _accepting) = http::listen().await;
    let mut followed = Followed::reporting(client, requests, report);
    followed.requests.recv().await.expect("a request");
    assert!(!shows_watch());
}
