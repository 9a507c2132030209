use kube::Client;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::*;
use crate::event::Event;
use crate::failure::FailureKind;
use crate::hub_watches::{Follower, Report};
use crate::metrics::Metrics;
use crate::watch::tests::http::{self, Asked, PATIENCE};
use crate::watch::{Asks, Signal};

fn read(namespace: &str, labels: Value) -> Option<ServiceKey> {
    let metadata = json!({"namespace": namespace, "name": "foo-5d5d", "labels": labels});
    let work = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    let read = ServiceWork::read(work);
    assert_eq!(*read.id, format!("{namespace}/foo-5d5d"));
    read.service
}

#[test]
fn works_of_karmadas_multiclusterservice_controllers_count_and_others_do_not() {
    let of_foo = |more: Value| {
        let mut labels = json!({
            "multiclusterservice.karmada.io/namespace": "shop",
            "multiclusterservice.karmada.io/name": "foo",
        });
        json_patch::merge(&mut labels, &more);
        labels
    };
    let suppressed = json!({"propagation.karmada.io/instruction": "suppressed"});
    let to_provider = json!({
        "multiclusterservice.karmada.io/permanent-id": "6ae1",
        "karmada.io/managed": "true",
        "propagation.karmada.io/instruction": "suppressed",
    });
    for (what, namespace, labels, counts) in [
        (
            "the object, in a provider",
            "karmada-es-member1",
            of_foo(to_provider),
            true,
        ),
        (
            "a dispatched slice, in a consumer",
            "karmada-es-member2",
            of_foo(json!({})),
            true,
        ),
        (
            "a collected slice, in its provider",
            "karmada-es-member1",
            of_foo(json!({
                "endpointslice.karmada.io/managed-by": "MultiClusterService",
                "propagation.karmada.io/instruction": "suppressed",
            })),
            false,
        ),
        (
            "a slice collected for a ServiceExport",
            "karmada-es-member1",
            json!({
                "endpointslice.karmada.io/namespace": "shop",
                "endpointslice.karmada.io/name": "foo",
                "endpointslice.karmada.io/managed-by": "ServiceExport",
            }),
            false,
        ),
        (
            "the Service, by a ResourceBinding",
            "karmada-es-member1",
            json!({"resourcebinding.karmada.io/permanent-id": "77aa", "work.karmada.io/permanent-id": "01bc"}),
            false,
        ),
        ("without labels", "karmada-es-member1", Value::Null, false),
        (
            "of a name alone",
            "karmada-es-member1",
            json!({"multiclusterservice.karmada.io/name": "foo"}),
            false,
        ),
        (
            "of an empty name",
            "karmada-es-member1",
            of_foo(json!({"multiclusterservice.karmada.io/name": ""})),
            false,
        ),
        (
            "where Karmada executes nothing",
            "shop",
            of_foo(suppressed),
            false,
        ),
    ] {
        let expected = counts.then(|| ServiceKey::new("shop", "foo"));
        assert_eq!(read(namespace, labels), expected, "{what}");
    }
}

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

/// A hub that is asked by a follower, and what the follower tells.
struct Followed {
    requests: mpsc::Receiver<Asked>,
    events: mpsc::Receiver<Event>,
}

impl Followed {
    fn by(client: Client, requests: mpsc::Receiver<Asked>) -> Self {
        let (tell, events) = mpsc::channel(8);
        let (asks, asked) = watch::channel(Asks::default());
        let same = client.clone();
        let follower = Follower {
            client,
            asked,
            connect: Arc::new(move || Ok(same.clone())),
            unreadable: Counter::default(),
            report: Report::new("works", Metrics::default(), None),
        };
        tokio::spawn(async move {
            follower.run(works(), tell).await;
            drop(asks);
        });
        Self { requests, events }
    }

    /// The next request for Works. That the hub serves them is answered whenever it is asked.
    async fn request(&mut self) -> Asked {
        loop {
            let asked = timeout(PATIENCE, self.requests.recv()).await;
            let asked = asked.expect("nothing is asked").unwrap();
            match &*asked.path {
                ASKED => asked.answer(200, SERVED).await,
                _ => return asked,
            }
        }
    }

    async fn told(&mut self) -> HubEvent {
        let event = timeout(PATIENCE, self.events.recv()).await;
        match event.expect("nothing is told").unwrap() {
            Event::Hub(event) => event,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn works_are_watched_once_they_are_served_whatever_the_hub_refuses_at_first() {
    let (client, requests, _accepting) = http::listen().await;
    let mut followed = Followed::by(client, requests);
    let asked = followed.requests.recv().await.unwrap();
    assert_eq!(asked.path, ASKED);
    asked.answer(404, "404 page not found").await;
    assert!(matches!(
        followed.told().await,
        HubEvent::WorksServed(false)
    ));

    let asked = followed.request().await;
    assert!(matches!(followed.told().await, HubEvent::WorksServed(true)));
    assert_eq!(asked.path, format!("{ASKED}/works"));
    let selected = asked.query["labelSelector"]
        .replace("%2F", "/")
        .replace("%2C", ",");
    assert_eq!(selected.replace("%21", "!"), selector());
    asked.refuse(403, "Forbidden", "no").await;
    match followed.told().await {
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
    let list = format!(r#"{{"metadata":{{"resourceVersion":"1"}},"items":[{work}]}}"#);
    followed.request().await.answer(200, &list).await;
    match followed.told().await {
        HubEvent::Works(Signal::Listed(works)) => {
            assert_eq!(works, std::slice::from_ref(&expected))
        }
        other => panic!("{other:?}"),
    }
    let mut watched = followed.request().await;
    assert!(watched.query.contains_key("watch"));
    watched.accept().await;
    assert!(matches!(
        followed.told().await,
        HubEvent::Works(Signal::Connected)
    ));
    watched.event("DELETED", &work.replace('\n', "")).await;
    match followed.told().await {
        HubEvent::Works(Signal::Deleted(work)) => assert_eq!(work, expected),
        other => panic!("{other:?}"),
    }
}
