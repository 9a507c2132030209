//! The oracle sees what is wrong: a scene in which all is as it should be, and what may become of it.

use causeway::api::labels;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::judge;
use crate::scene::{Key, Member, Scene};

fn of<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

fn key(name: &str) -> Key {
    ("red".to_owned(), name.to_owned())
}

fn service(selector: Value) -> Service {
    of(json!({
        "metadata": { "name": "web", "namespace": "red", "labels": { labels::HUB: "the-hub" } },
        "spec": { "clusterIP": "10.0.0.1", "selector": selector, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
    }))
}

fn slice(name: &str, labels: Value, source: &str) -> EndpointSlice {
    of(json!({
        "metadata": { "name": name, "namespace": "red", "uid": format!("uid-{name}"), "labels": labels, "annotations": { labels::SOURCE: source } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["10.1.0.1"] }, { "addresses": ["10.1.0.2"] }],
        "ports": [{ "name": "http", "port": 8080 }],
    }))
}

fn member(
    objects: impl IntoIterator<Item = (Key, Service)>,
    slice: Option<EndpointSlice>,
) -> Member {
    let slices = slice
        .into_iter()
        .map(|slice| (crate::scene::key(&slice), slice));
    Member {
        namespaces: vec!["red".to_owned()],
        services: objects.into_iter().collect(),
        slices: slices.collect(),
        exports: Default::default(),
        imports: Default::default(),
    }
}

/// `web` is provided by a, consumed by b, and has nothing to do with c.
fn scene() -> Scene {
    let own =
        json!({ labels::SERVICE_NAME: "web", labels::SLICE_MANAGED_BY: labels::SLICE_CONTROLLER });
    let copied = json!({
        labels::SERVICE_NAME: "web", labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER, labels::SOURCE_CLUSTER: "a",
    });
    let exposed = of(json!({
        "metadata": { "name": "web", "namespace": "red" },
        "spec": { "types": ["CrossCluster"], "providerClusters": [{ "name": "a" }], "consumerClusters": [{ "name": "b" }] },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ] },
    }));
    let (in_a, in_b) = (
        service(json!({ "app": "web" })),
        service(json!({ labels::NO_LOCAL_BACKENDS: "true" })),
    );
    let members = [
        (
            "a",
            member([(key("web"), in_a.clone())], Some(slice("web-1", own, ""))),
        ),
        (
            "b",
            member(
                [(key("web"), in_b)],
                Some(slice("copy", copied, "uid-web-1/7")),
            ),
        ),
        ("c", member([], None)),
    ];
    Scene {
        hub: "the-hub".to_owned(),
        namespaces: vec!["red".to_owned()],
        exposed: [(key("web"), exposed)].into(),
        services: [(key("web"), in_a)].into(),
        joined: ["a", "b", "c"].map(str::to_owned).to_vec(),
        members: members
            .map(|(name, member)| (name.to_owned(), member))
            .into(),
    }
}

fn in_b(scene: &mut Scene) -> &mut Member {
    scene.members.get_mut("b").expect("b")
}

fn copy(scene: &mut Scene) -> &mut EndpointSlice {
    in_b(scene).slices.get_mut(&key("copy")).expect("the copy")
}

/// What is done to the scene, and what is said of it.
type Damage = (fn(&mut Scene), &'static [&'static str]);

const DAMAGES: [Damage; 9] = [
    (|_| {}, &[]),
    (
        |scene| in_b(scene).slices.clear(),
        &[
            "missing (0 of 1): b: native endpoint of red/web from a: 10.1.0.1",
            "10.1.0.2",
        ],
    ),
    (
        |scene| {
            let mut twice = copy(scene).clone();
            twice.metadata.name = Some("another".to_owned());
            in_b(scene).slices.insert(key("another"), twice);
        },
        &[
            "too many (2 of 1): b: native endpoint",
            "10.1.0.2",
            "is one more of uid-web-1",
        ],
    ),
    (
        |scene| {
            copy(scene).endpoints.truncate(1);
        },
        &["missing (0 of 1): b: native endpoint of red/web from a: 10.1.0.2"],
    ),
    (
        |scene| scene.members.get_mut("a").expect("a").slices.clear(),
        &[
            "which a has not",
            "too many (1 of 0): b: native endpoint",
            "10.1.0.2",
        ],
    ),
    (
        |scene| {
            let unready = of(json!({ "ready": false }));
            copy(scene).endpoints[0].conditions = Some(unready);
        },
        &["missing (0 of 1): b", "too many (1 of 0): b"],
    ),
    (
        |scene| {
            let there = in_b(scene).services[&key("web")].clone();
            let c = scene.members.get_mut("c").expect("c");
            c.services.insert(key("web"), there);
        },
        &["too many (1 of 0): c: Service red/web"],
    ),
    (
        |scene| in_b(scene).services.clear(),
        &["missing (0 of 1): b: Service red/web"],
    ),
    (
        |scene| scene.exposed.get_mut(&key("web")).expect("web").status = None,
        &[
            "missing (0 of 1): hub: MultiClusterService red/web Ready=True",
            "Ready=unsaid",
        ],
    ),
];

#[test]
fn the_oracle_sees_what_is_missing_too_many_or_different() {
    for (number, (damage, expected)) in DAMAGES.into_iter().enumerate() {
        let mut damaged = scene();
        damage(&mut damaged);
        let said = judge(&damaged).err().unwrap_or_default();
        assert_eq!(said.len(), expected.len(), "damage {number}: {said:#?}");
        for part in expected {
            let is_said = said.iter().any(|line| line.contains(part));
            assert!(is_said, "damage {number}: {part:?} is not in {said:#?}");
        }
    }
}
