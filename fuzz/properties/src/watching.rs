//! One odd object never ends a watch, nor does it hide the others.
//!
//! A document is `{"kind": "EndpointSlice", "items": [], "events": []}`: what an API server lists of a kind, then tells.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use causeway::api;
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::domain::ClusterName;
use causeway_controller::event::{HubEvent, MemberEvent};
use causeway_controller::index::slice::ObservedSlice;
use causeway_controller::watch::{Settings, Signal, Watch};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::planning::World;
use crate::server::client;

/// More would be a mass loss when they are gone again, which a watch waits to believe.
const EVENTS_MAX: usize = 8;

/// An end for what hangs; nothing here waits for anything.
const HANGS: Duration = Duration::from_secs(30);

/// A good object is listed beside the odd ones, another is told of after them.
const LISTED: &str = "listed";
const TOLD: &str = "told";

/// Panics where an odd object ends a watch or hides others, or where what is told cannot be folded in and planned.
pub fn holds(input: &[u8]) {
    let Some(document) = crate::document(input) else {
        return;
    };
    let hub = |event: HubEvent| Heard::Hub(event);
    let member = |event: MemberEvent| Heard::Member(event);
    let script = Script::read(&document);
    let heard = match document["kind"].as_str() {
        Some("MultiClusterService") => script.play(|s| hub(HubEvent::MultiClusterServices(s))),
        Some("Cluster") => script.play::<api::Cluster>(|s| hub(HubEvent::Clusters(s))),
        Some("HubService") => script.play(|s| hub(HubEvent::Services(s))),
        Some("Service") => script.play(|s| member(MemberEvent::Services(s))),
        Some("Namespace") => script.play::<Namespace>(|s| member(MemberEvent::Namespaces(s))),
        Some("ServiceExport") => script.play::<ServiceExport>(|s| member(MemberEvent::Exports(s))),
        Some("ServiceImport") => script.play::<ServiceImport>(|s| member(MemberEvent::Imports(s))),
        Some("EndpointSlice") => script
            .play::<EndpointSlice>(|s| member(MemberEvent::Slices(s.map(ObservedSlice::read)))),
        _ => return,
    };
    let mut world = World::new(&json!({
        "hub": {"service": {"ports": [{"name": "http", "port": 80}]}, "clusters": ["member1", "member2"]},
    }));
    let name = ClusterName::try_from("member1").expect("a name");
    for heard in heard {
        match heard {
            Heard::Hub(event) => world.hear_hub(event),
            Heard::Member(event) => world.hear(&name, event),
        }
        world.plan_anything();
    }
}

enum Heard {
    Hub(HubEvent),
    Member(MemberEvent),
}

/// What an API server says: a page, what it tells on the first watch, and what on each later one.
#[derive(Clone)]
struct Script {
    page: Bytes,
    first: Bytes,
    later: Bytes,
}

impl Script {
    fn read(document: &Value) -> Self {
        let mut items = document["items"].as_array().cloned().unwrap_or_default();
        items.push(good(LISTED));
        let page = json!({"metadata": {"resourceVersion": "10"}, "items": items});
        let last = line(&json!({"type": "ADDED", "object": good(TOLD)}));
        let events = document["events"].as_array().into_iter().flatten();
        let first: String = events.take(EVENTS_MAX).map(line).collect();
        Self {
            page: page.to_string().into(),
            first: (first + &last).into(),
            later: last.into(),
        }
    }

    /// Lets a watch follow the script until the last object was told.
    fn play<K>(&self, wrap: impl Fn(Signal<K>) -> Heard) -> Vec<Heard>
    where
        K: Resource<DynamicType: Default> + DeserializeOwned + Clone + fmt::Debug + 'static,
    {
        let settings = Settings {
            first_retry: Duration::ZERO,
            last_retry: Duration::ZERO,
            disbelief: Duration::ZERO,
            ..Settings::default()
        };
        let script = self.clone();
        let watches = Arc::new(AtomicUsize::new(0));
        let answer = move |path: &str| match path.contains("watch=true") {
            false => (200, script.page.clone()),
            true if watches.fetch_add(1, Ordering::Relaxed) == 0 => (200, script.first.clone()),
            true => (200, script.later.clone()),
        };
        RUNTIME.with(|runtime| {
            runtime.block_on(async {
                let watch = Watch::new(Api::<K>::all(client(answer)), settings);
                let (sender, receiver) = mpsc::channel(64);
                let running = watch.run(|object| object, |signal| signal, sender);
                tokio::select! {
                    () = running => panic!("the watch has ended"),
                    heard = listen(receiver, wrap) => heard,
                    () = tokio::time::sleep(HANGS) => panic!("the watch hangs"),
                }
            })
        })
    }
}

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
}

async fn listen<K: Resource + Clone>(
    mut signals: mpsc::Receiver<Signal<K>>,
    wrap: impl Fn(Signal<K>) -> Heard,
) -> Vec<Heard> {
    let mut heard = Vec::new();
    while let Some(signal) = signals.recv().await {
        let is = |object: &K, name: &str| object.meta().name.as_deref() == Some(name);
        if let Signal::Listed(objects) = &signal {
            assert!(
                objects.iter().any(|object| is(object, LISTED)),
                "an odd object hides another"
            );
        }
        let is_last = matches!(&signal, Signal::Applied(object) if is(object, TOLD));
        heard.push(wrap(signal));
        if is_last {
            break;
        }
    }
    heard
}

/// An object that is fine, whatever its kind.
fn good(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}"), "resourceVersion": "9",
            "labels": {"kubernetes.io/service-name": "foo"}},
        "spec": {"types": ["CrossCluster"], "type": "ClusterSetIP", "ports": []},
        "addressType": "IPv4", "endpoints": [], "ports": [],
    })
}

fn line(event: &Value) -> String {
    format!("{event}\n")
}
