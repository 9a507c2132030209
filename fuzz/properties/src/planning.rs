//! What the schema and the webhook accept the controller can plan.
//!
//! A document is `{"object": {}, "hub": {"service": {}, "clusters": [""]}, "members": {"NAME":
//! {"services": [], "slices": [], "exports": [], "imports": []}}, "publish": false}`; `hub.service`
//! is the spec of the hub's Service.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use causeway::api;
use causeway::api::multicluster::Version;
use causeway::domain::protected::Protection;
use causeway::domain::{
    ClusterName, ClusterSelection, MultiClusterService, ServiceKey, dns1123_label,
};
use causeway_controller::clock;
use causeway_engine::diff::{Moment, diff};
use causeway_engine::model::served::{ImportFields, Served, ServedImports};
use causeway_engine::model::slice::ObservedSlice;
use causeway_engine::model::{HubEvent, Identity, MemberEvent, Signal, TimePoint};
use causeway_engine::observed::Index;
use causeway_engine::plan::{CopyCache, Desired, Settings, plan};
use causeway_engine::seal::Seal;
use causeway_webhook::decide::{self, Change, Decision, Stored};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::admission::Case;
use crate::schema;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schema::of("MultiClusterService"));

const NAMESPACE: &str = "shop";
const NAME: &str = "foo";

/// Panics where something is accepted that the controller cannot plan, or refused without a field
/// to mend.
pub fn holds(input: &[u8]) {
    let Some(document) = crate::document(input) else {
        return;
    };
    let mut object = document["object"].clone();
    let mut env = Environment::new(&document);
    if let Ok(stored) = serde_json::from_value(stored(&object)) {
        env.store(stored);
        env.plan_anything();
    }
    let case = Case::read(&document);
    if let Some(change) = case.change(&object, None) {
        what_cannot_be_read_is_refused(&case, &change);
    }
    if let Some(fields) = object.as_object_mut() {
        // A new object has no status, whatever it says.
        fields.remove("status");
    }
    // An API server drops malformed metadata before anybody else sees it.
    let has_metadata = serde_json::from_value::<ObjectMeta>(object["metadata"].clone()).is_ok();
    if !has_metadata || schema::admit(&SCHEMA, &mut object).is_err() {
        return;
    }
    let Some(change) = case
        .change(&object, None)
        .filter(|change| change.object.metadata.name == NAME)
    else {
        return;
    };
    let object = mutated(&change, object);
    let change = case.change(&object, None).expect("it decodes still");
    let is_accepted = matches!(case.validate(&change), Decision::Allow { .. });
    if !is_accepted || change.namespace != NAMESPACE {
        return;
    }
    let object = serde_json::from_value(stored(&object)).expect("what is accepted decodes");
    env.store(object);
    env.plan_accepted(&change);
}

/// The object as the API server stores it: with an identity.
fn stored(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let identity = json!({"namespace": NAMESPACE, "name": NAME, "uid": "uid-1", "resourceVersion": "7", "generation": 1});
        metadata.retain(|name, _| ["labels", "annotations", "finalizers"].contains(&name.as_str()));
        metadata.extend(identity.as_object().cloned().unwrap_or_default());
        metadata.retain(|name, value| name != "finalizers" || value.is_array());
        for name in ["labels", "annotations"] {
            metadata.retain(|other, value| other != name || is_text_map(value));
        }
    }
    object
}

fn is_text_map(value: &Value) -> bool {
    value
        .as_object()
        .is_some_and(|all| all.values().all(Value::is_string))
}

fn what_cannot_be_read_is_refused(case: &Case, change: &Change) {
    let readable = MultiClusterService::try_from(&change.object.spec);
    let after = Change {
        stored: Stored::Nothing,
        ..change.clone()
    };
    // A denial that names no field of the object is a panic of its own.
    let decision = case.validate(&after);
    if let Err(errors) = readable {
        assert!(
            matches!(decision, Decision::Deny { .. }),
            "accepted, and the parser says: {errors}"
        );
    }
}

fn mutated(change: &Change, mut object: Value) -> Value {
    if let Decision::Patch { operations, .. } = decide::mutate(change.clone(), false) {
        json_patch::patch(&mut object, &operations).expect("the patch applies");
    }
    let mut admitted = object.clone();
    assert_eq!(
        schema::admit(&SCHEMA, &mut admitted),
        Ok(()),
        "the mutation spoilt {object}"
    );
    assert_eq!(
        admitted, object,
        "the mutation wrote what the schema does not know"
    );
    object
}

/// An index with a hub and members that say what the document has them say.
pub(crate) struct Environment {
    pub(crate) index: Index,
    settings: Settings,
    service_is_stored: bool,
}

impl Environment {
    pub(crate) fn new(document: &Value) -> Self {
        let mut env = Self {
            index: Index::new("hub-uid"),
            settings: Settings {
                protection: Protection::new("causeway-system", []),
                service_grace: Duration::from_secs(300),
                publish_exports: document["publish"] == json!(true),
                seal: Some(Seal::new(b"the hub's")),
                ..Settings::default()
            },
            service_is_stored: false,
        };
        let spec = &document["hub"]["service"];
        let service = json!({"metadata": identity(NAME), "spec": spec});
        let service = serde_json::from_value::<Service>(service)
            .ok()
            .filter(|_| spec.is_object());
        env.service_is_stored = service.as_ref().is_some_and(is_possible);
        let clusters: BTreeSet<ClusterName> = document["hub"]["clusters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| ClusterName::try_from(name.as_str()?).ok())
            .take(8)
            .collect();
        let objects = clusters.iter().map(|name| {
            let metadata = json!({"name": name.as_str(), "uid": format!("uid-of-{name}"), "resourceVersion": "5"});
            let cluster = json!({"metadata": metadata, "spec": {"syncMode": "Push"}});
            serde_json::from_value(cluster).expect("a Cluster")
        });
        env.observe_hub(HubEvent::WorksServed(false));
        env.observe_hub(HubEvent::Clusters(Signal::Listed(objects.collect())));
        env.observe_hub(HubEvent::Services(Signal::Listed(
            service.into_iter().collect(),
        )));
        env.observe_hub(HubEvent::Namespaces(Signal::Listed(Vec::new())));
        for name in &clusters {
            env.join(name, &document["members"][name.as_str()]);
        }
        env
    }

    fn join(&mut self, name: &ClusterName, member: &Value) {
        let namespace = serde_json::from_value(
            json!({"metadata": {"name": NAMESPACE, "uid": "n", "resourceVersion": "1"}}),
        );
        let served = Served {
            exports: Some(Version::V1beta1),
            export_clusters: true,
            imports: Some(ServedImports {
                version: Version::V1beta1,
                fields: ImportFields::ALL,
            }),
        };
        let identity = Identity {
            uid: format!("uid-of-{name}"),
            version: "v1.34.0".to_owned(),
            release: causeway::domain::KubernetesVersion::new(1, 34),
        };
        let slices = listed::<EndpointSlice>(&member["slices"]);
        let slices = slices.iter().map(ObservedSlice::read).collect();
        self.index.engage(name, 1, None);
        for event in [
            MemberEvent::Identified(identity),
            MemberEvent::Served(served),
            MemberEvent::Namespaces(Signal::Listed(namespace.into_iter().collect())),
            MemberEvent::Services(Signal::Listed(listed(&member["services"]))),
            MemberEvent::Slices(Signal::Listed(slices)),
            MemberEvent::Exports(Signal::Listed(listed(&member["exports"]))),
            MemberEvent::Imports(Signal::Listed(listed(&member["imports"]))),
            MemberEvent::Namespaces(Signal::Connected),
            MemberEvent::Services(Signal::Connected),
            MemberEvent::Slices(Signal::Connected),
            MemberEvent::Exports(Signal::Connected),
            MemberEvent::Imports(Signal::Connected),
            MemberEvent::Probed(Ok(())),
        ] {
            self.observe(name, event);
        }
    }

    pub(crate) fn observe_hub(&mut self, event: HubEvent) {
        self.index.apply_hub(event, now());
    }

    pub(crate) fn observe(&mut self, name: &ClusterName, event: MemberEvent) {
        self.index.apply_member(name, event, now());
    }

    fn store(&mut self, object: api::MultiClusterService) {
        self.observe_hub(HubEvent::MultiClusterServices(Signal::Listed(vec![object])));
    }

    /// Plans and compares, whatever is known: neither panics, and what cannot be read is left as it
    /// is and said.
    pub(crate) fn plan_anything(&self) -> Desired {
        let key = ServiceKey::new(NAMESPACE, NAME);
        let desired = plan(
            &self.index,
            &self.settings,
            &key,
            now(),
            &mut CopyCache::default(),
        );
        // One that is being deleted asks for nothing, whatever it says.
        let object = self.index.multi_cluster_service(&key);
        let spec = object.filter(|mcs| !mcs.is_deleting()).map(|mcs| &mcs.spec);
        if let Some(Err(errors)) = spec {
            assert!(
                !errors.to_string().is_empty() && desired.problem().is_some(),
                "unreadable, and nothing is reported"
            );
            assert!(
                desired.wanted_members().is_none(),
                "unreadable, and acted upon"
            );
        }
        if let (Some(Ok(spec)), Some(mut members)) = (spec, desired.wanted_members()) {
            let strangers = members.find(|name| !is_asked_for(spec, name));
            assert_eq!(strangers, None, "a member that nobody asked for: {spec:?}");
        }
        let moment = Moment {
            now: now(),
            busy: false,
        };
        let diff = diff(&desired, &self.index, &key, moment);
        assert!(
            diff.writes.len() <= self.index.member_names().len() + 1,
            "{diff:?}"
        );
        desired
    }

    fn plan_accepted(&self, change: &Change) {
        let key = ServiceKey::new(NAMESPACE, NAME);
        let stored = self.index.multi_cluster_service(&key);
        let spec = stored.map(|mcs| &mcs.spec);
        assert!(
            matches!(spec, Some(Ok(_))),
            "accepted, and the controller cannot read it: {spec:?}"
        );
        let desired = self.plan_anything();
        if self.service_is_stored && !change.dry_run {
            assert_eq!(
                desired.problem(),
                None,
                "accepted, and the controller cannot carry it out"
            );
        }
    }
}

fn is_asked_for(spec: &MultiClusterService, name: &ClusterName) -> bool {
    [&spec.providers, &spec.consumers]
        .iter()
        .any(|clusters| match clusters {
            ClusterSelection::All => true,
            ClusterSelection::Named(names) => names.contains(name),
        })
}

/// Whether an API server would store the Service, as far as its ports are concerned.
fn is_possible(service: &Service) -> bool {
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let ids: BTreeSet<_> = ports
        .iter()
        .map(|port| (port.protocol.as_deref().unwrap_or("TCP"), port.port))
        .collect();
    let names: BTreeSet<_> = ports
        .iter()
        .map(|port| port.name.as_deref().unwrap_or_default())
        .collect();
    let is_named =
        |name: &&str| dns1123_label(name).is_ok() || (name.is_empty() && ports.len() == 1);
    ids.len() == ports.len()
        && names.len() == ports.len()
        && names.iter().all(is_named)
        && ids.iter().all(|(protocol, port)| {
            ["TCP", "UDP", "SCTP"].contains(protocol) && (1..=65535).contains(port)
        })
}

fn listed<K: DeserializeOwned>(objects: &Value) -> Vec<K> {
    let objects = objects.as_array().into_iter().flatten().take(64);
    objects
        .filter_map(|object| serde_json::from_value(object.clone()).ok())
        .collect()
}

fn identity(name: &str) -> Value {
    json!({"namespace": NAMESPACE, "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "5"})
}

/// The same in all of the process.
fn now() -> TimePoint {
    static NOW: LazyLock<TimePoint> = LazyLock::new(clock::now);
    TimePoint {
        wall: Timestamp::UNIX_EPOCH,
        ..*NOW
    }
}
