//! Every reason, from a scene in which one thing was changed.

mod clusterset;
mod hub;
mod members;

use causeway::api::Cluster;
use causeway::domain::ServiceKey;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::judge::explain;
use super::report::{Explanation, Finding, Reason};
use super::scene::{Held, Scene};
use super::text;
use crate::lease::Controller;
use crate::status::fixtures::{cross, ready, service, synced};

pub(crate) fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

pub(crate) fn core_service(
    ours: bool,
    ports: &[(&str, u16)],
) -> k8s_openapi::api::core::v1::Service {
    let ports: Vec<_> = ports
        .iter()
        .map(|(name, port)| json!({ "name": name, "port": port, "protocol": "TCP" }))
        .collect();
    let labels = if ours {
        json!({ "mcs.causeway.dev/hub": "hub" })
    } else {
        json!({})
    };
    from(json!({
        "metadata": { "name": "foo", "namespace": "shop", "labels": labels },
        "spec": { "ports": ports },
    }))
}

fn endpoints(ready: &[(&str, bool)]) -> Value {
    let endpoints = ready.iter().map(|(address, ready)| {
        json!({ "addresses": [address], "conditions": { "ready": ready }, "nodeName": "node1", "zone": "z" })
    });
    endpoints.collect()
}

pub(crate) fn source(ready: &[(&str, bool)]) -> k8s_openapi::api::discovery::v1::EndpointSlice {
    from(json!({
        "metadata": {
            "name": "foo-abc", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
            "labels": {
                "kubernetes.io/service-name": "foo",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints(ready),
    }))
}

pub(crate) fn copy(
    version: &str,
    ready: &[(&str, bool)],
) -> k8s_openapi::api::discovery::v1::EndpointSlice {
    from(json!({
        "metadata": {
            "name": "a-foo-abc-0", "namespace": "shop",
            "annotations": { "mcs.causeway.dev/source": format!("u1/{version}") },
            "labels": {
                "kubernetes.io/service-name": "foo",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io",
                "multicluster.kubernetes.io/source-cluster": "a",
                "mcs.causeway.dev/hub": "hub",
            },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints(ready),
    }))
}

fn held(
    service: k8s_openapi::api::core::v1::Service,
    slice: k8s_openapi::api::discovery::v1::EndpointSlice,
) -> Held {
    Held {
        namespace: Some(from(json!({ "metadata": { "name": "shop" } }))),
        services: vec![service],
        slices: vec![slice],
        ..Held::default()
    }
}

fn now() -> Timestamp {
    "2026-11-21T00:00:00Z".parse().expect("a time")
}

fn lease(holder: &str, renewed: &str) -> Controller {
    let lease = from(json!({ "spec": { "holderIdentity": holder, "renewTime": renewed } }));
    Controller::Lease(
        "causeway-system/causeway-controller".to_owned(),
        Some(lease),
    )
}

pub(crate) const BOTH: [(&str, bool); 2] = [("10.1.0.1", true), ("10.1.0.2", true)];

/// `shop/foo`, provided by a and consumed by b, where all is well.
pub(crate) fn healthy() -> Scene {
    Scene {
        key: ServiceKey::new("shop", "foo"),
        now: now(),
        hub_uid: Some("hub".to_owned()),
        wish: Some(service(
            "foo",
            cross(&["a"], &["b"]),
            json!([ready("True", "Ready", "fine")]),
        )),
        service: Some(core_service(false, &[("http", 80)])),
        clusters: vec![synced("a"), synced("b")],
        controller: lease("one", "2026-11-20T23:59:55.000000Z"),
        works: Some(Vec::new()),
        unapplied: None,
        members: [
            (
                "a".to_owned(),
                Ok(held(core_service(true, &[("http", 80)]), source(&BOTH))),
            ),
            (
                "b".to_owned(),
                Ok(held(core_service(true, &[("http", 80)]), copy("7", &BOTH))),
            ),
        ]
        .into(),
    }
}

impl Scene {
    pub(crate) fn member(&mut self, name: &str) -> &mut Held {
        self.members
            .get_mut(name)
            .expect("a member")
            .as_mut()
            .expect("it was read")
    }

    pub(crate) fn without_copies(&mut self) -> &mut Self {
        self.member("b").slices.clear();
        self
    }

    pub(crate) fn annotate(&mut self, name: &str, key: &str, value: &str) -> &mut Self {
        let cluster = self
            .clusters
            .iter_mut()
            .find(|one| one.metadata.name.as_deref() == Some(name));
        let annotations = &mut cluster.expect("a Cluster").metadata.annotations;
        annotations
            .get_or_insert_default()
            .insert(key.to_owned(), value.to_owned());
        self
    }

    fn replace(&mut self, cluster: Cluster) {
        self.clusters
            .retain(|one| one.metadata.name != cluster.metadata.name);
        self.clusters.push(cluster);
    }
}

fn all(explanation: &Explanation) -> Vec<Finding> {
    let mut all = explanation.findings.clone();
    for way in &explanation.ways {
        all.extend(way.findings.clone());
        all.extend(way.consumers.iter().flat_map(|one| one.findings.clone()));
        for provider in &way.providers {
            all.extend(provider.findings.clone());
            let fates = provider.endpoints.iter().flat_map(|one| &one.consumers);
            all.extend(fates.map(|fate| fate.finding.clone()));
        }
    }
    all
}

#[test]
fn where_all_is_well_it_says_where_each_endpoint_is() {
    let explanation = explain(&healthy());
    assert!(explanation.ready, "{:?}", all(&explanation));
    let expected = "\
shop/foo: every ready endpoint is in every consumer

foo.shop.svc (MultiClusterService), in b:

PROVIDER   ENDPOINTS   CONSUMER   STATE    COPIED IN
a          2 ready     b          Copied   a-foo-abc-0
";
    assert_eq!(text::render(&explanation, false), expected);
    let every = text::render(&explanation, true);
    let line = "a          10.1.0.2   ready       node1   z      b          Copied   a-foo-abc-0";
    assert!(every.contains(line), "{every}");
    let json = serde_json::to_value(&explanation).expect("JSON");
    let endpoint = &json["ways"][0]["providers"][0]["endpoints"][0];
    assert_eq!(endpoint["addresses"], json!(["10.1.0.1"]));
    assert_eq!(endpoint["consumers"][0]["reason"], "Copied");
    assert_eq!(endpoint["consumers"][0]["there"], true);
}

/// What is changed in the healthy scene, whether it is still well, the reason that is told, and a part of what mends it.
type Case = (&'static str, fn(&mut Scene), bool, Reason, &'static str);

#[track_caller]
fn hold(cases: &[Case]) {
    hold_in(healthy, cases);
}

#[track_caller]
fn hold_in(scene: fn() -> Scene, cases: &[Case]) {
    for (what, change, well, reason, remedy) in cases {
        let mut scene = scene();
        change(&mut scene);
        let explanation = explain(&scene);
        let findings = all(&explanation);
        assert_eq!(explanation.ready, *well, "{what}: {findings:#?}");
        let found = findings.iter().find(|finding| {
            finding.reason == *reason
                && finding
                    .remedy
                    .as_deref()
                    .unwrap_or_default()
                    .contains(remedy)
        });
        assert!(
            found.is_some(),
            "{what}: {reason:?} {remedy:?} is not in {findings:#?}"
        );
        if !remedy.is_empty() {
            let text = text::render(&explanation, false);
            assert!(text.contains(remedy), "{what}:\n{text}");
        }
    }
}

#[test]
fn a_consumer_that_provides_too_has_its_own_endpoints() {
    let mut scene = healthy();
    scene.wish.as_mut().expect("it").spec = from(cross(&["a"], &["a", "b"]));
    let explanation = explain(&scene);
    assert!(explanation.ready, "{:?}", all(&explanation));
    assert!(
        all(&explanation)
            .iter()
            .any(|one| one.reason == Reason::Own)
    );
}
