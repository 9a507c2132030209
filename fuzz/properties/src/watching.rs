//! One odd object never ends a watch, nor does it hide the others.
//!
//! A document is `{"kind": "EndpointSlice", "items": [], "events": []}`: what an API server lists
//! of a kind, then tells.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use causeway::api::multicluster::{ServiceExport, ServiceImport};
use causeway::domain::ClusterName;
use causeway_controller::watch::{Decoder, Json, Settings, Watch};
use causeway_engine::model::slice::{ObservedSlice, SliceDecoder};
use causeway_engine::model::{HubEvent, MemberEvent, Signal};
use causeway_wire::Object;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Resource};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use crate::planning::Environment;
use crate::server::client;

/// More would be a mass loss when they are gone again, which a watch waits to confirm.
const EVENTS_MAX: usize = 8;

/// An end for what hangs; nothing here waits for anything.
const HANGS: Duration = Duration::from_secs(30);

/// A good object is listed beside the odd ones, another comes after them.
const LISTED: &str = "listed";
const LAST: &str = "last";

/// Panics where an odd object ends a watch or hides others, or where what is reported cannot be
/// applied and planned.
pub fn holds(input: &[u8]) {
    let Some(document) = crate::document(input) else {
        return;
    };
    let hub = |event: HubEvent| Observed::Hub(event);
    let member = |event: MemberEvent| Observed::Member(event);
    let script = Script::read(&document);
    let observed = match document["kind"].as_str() {
        Some("MultiClusterService") => {
            script.play(Json, it, |s| hub(HubEvent::MultiClusterServices(s)))
        }
        Some("Cluster") => script.play(Json, it, |s| hub(HubEvent::Clusters(s))),
        Some("HubService") => script.play(Json, it, |s| hub(HubEvent::Services(s))),
        Some("Service") => script.play(Json, it, |s| member(MemberEvent::Services(s))),
        Some("Namespace") => script.play(Json, it, |s| member(MemberEvent::Namespaces(s))),
        Some("ServiceExport") => script.play(Json, it::<ServiceExport>, |s| {
            member(MemberEvent::Exports(s))
        }),
        Some("ServiceImport") => script.play(Json, it::<ServiceImport>, |s| {
            member(MemberEvent::Imports(s))
        }),
        Some("EndpointSlice") => {
            let slices = document["items"].as_array().into_iter().flatten();
            slices.for_each(is_read_alike);
            let decoder = SliceDecoder::default();
            script.play(decoder, ObservedSlice::from, |s| {
                member(MemberEvent::Slices(s))
            })
        }
        _ => return,
    };
    let mut env = Environment::new(&json!({
        "hub": {"service": {"ports": [{"name": "http", "port": 80}]}, "clusters": ["member1", "member2"]},
    }));
    let name = ClusterName::try_from("member1").expect("a name");
    for observed in observed {
        match observed {
            Observed::Hub(event) => env.observe_hub(event),
            Observed::Member(event) => env.observe(&name, event),
        }
        env.plan_anything();
    }
}

enum Observed {
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
        let metadata = json!({"resourceVersion": "10"});
        let page = json!({"kind": "List", "metadata": metadata, "items": items});
        let last = line(&json!({"type": "ADDED", "object": good(LAST)}));
        let events = document["events"].as_array().into_iter().flatten();
        let first: String = events.take(EVENTS_MAX).map(line).collect();
        Self {
            page: page.to_string().into(),
            first: (first + &last).into(),
            later: last.into(),
        }
    }

    /// Lets a watch follow the script until the last object was reported.
    fn play<K, T>(
        &self,
        decoder: impl Decoder<K>,
        read: impl Fn(K) -> T,
        wrap: impl Fn(Signal<T>) -> Observed,
    ) -> Vec<Observed>
    where
        K: Resource<DynamicType: Default> + fmt::Debug + Send + 'static,
    {
        let settings = Settings {
            first_retry: Duration::ZERO,
            last_retry: Duration::ZERO,
            confirmation_interval: Duration::ZERO,
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
                let api = Api::<K>::all(client(answer));
                let watch = Watch::read_by(decoder, api, settings);
                let (sender, receiver) = mpsc::channel(64);
                let named = |object: K| (object.meta().name.clone(), read(object));
                let running = watch.run(named, |signal| signal, sender);
                tokio::select! {
                    () = running => panic!("the watch has ended"),
                    observed = listen(receiver, wrap) => observed,
                    () = tokio::time::sleep(HANGS) => panic!("the watch hangs"),
                }
            })
        })
    }
}

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
}

/// What is reported until the last object, each object with its name.
async fn listen<T>(
    mut signals: mpsc::Receiver<Signal<(Option<String>, T)>>,
    wrap: impl Fn(Signal<T>) -> Observed,
) -> Vec<Observed> {
    let mut observed = Vec::new();
    while let Some(signal) = signals.recv().await {
        let is = |name: &Option<String>, expected| name.as_deref() == Some(expected);
        if let Signal::Listed(objects) = &signal {
            let is_there = objects.iter().any(|(name, _)| is(name, LISTED));
            assert!(is_there, "an odd object hides another");
        }
        let is_last = matches!(&signal, Signal::Applied((name, _)) if is(name, LAST));
        observed.push(wrap(signal.map(|(_, object)| object)));
        if is_last {
            break;
        }
    }
    observed
}

fn it<K>(object: K) -> K {
    object
}

/// What is read straight from the text is what is read from the typed object.
fn is_read_alike(slice: &Value) {
    // Kubernetes' types do without metadata, which no API server does.
    if !slice["metadata"].is_object() {
        return;
    }
    let text = slice.to_string();
    if let Ok(typed) = serde_json::from_str::<EndpointSlice>(&text) {
        let wire = SliceDecoder::default().decode(Object::Json(&text));
        let wire = wire.expect("it decodes as the typed object does");
        let (typed, wire) = (ObservedSlice::read(&typed), ObservedSlice::from(wire));
        assert_eq!(format!("{wire:?}"), format!("{typed:?}"));
    }
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
