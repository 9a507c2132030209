//! The oracle sees what is wrong: a snapshot in which all is as it should be, and what may become
//! of it.

use causeway::api::labels;
use causeway::api::multicluster::ServiceImport;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{EndpointConditions, EndpointSlice};
use serde_json::{Value, json};

use super::check;
use crate::soak::snapshot::{Key, Member, Snapshot};

fn of<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

fn key(name: &str) -> Key {
    ("red".to_owned(), name.to_owned())
}

fn service(name: &str, selector: Value) -> (Key, Service) {
    let object = of(json!({
        "metadata": { "name": name, "namespace": "red", "labels": { labels::HUB: "the-hub" } },
        "spec": {
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "selector": selector,
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }],
        },
    }));
    (key(name), object)
}

/// A slice of two pods of a, in a itself.
fn source(name: &str, service: &str) -> (Key, EndpointSlice) {
    let labels = json!({ labels::SERVICE_NAME: service, labels::SLICE_MANAGED_BY: labels::SLICE_CONTROLLER });
    slice(name, labels, "")
}

/// A copy of [`source`].
fn copied(name: &str, service: &str, source: &str) -> (Key, EndpointSlice) {
    let labels = json!({
        labels::SERVICE_NAME: service, labels::SLICE_MANAGED_BY: labels::SLICE_DISPATCHER, labels::SOURCE_CLUSTER: "a",
    });
    slice(name, labels, &format!("uid-{source}/7"))
}

fn slice(name: &str, labels: Value, source: &str) -> (Key, EndpointSlice) {
    let annotations = json!({ labels::SOURCE: source });
    let object = of(json!({
        "metadata": {
            "name": name, "namespace": "red", "uid": format!("uid-{name}"), "labels": labels, "annotations": annotations,
        },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["10.1.0.1"] }, { "addresses": ["10.1.0.2"] }],
        "ports": [{ "name": "http", "port": 8080 }],
    }));
    (key(name), object)
}

fn import() -> ServiceImport {
    of(json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceImport",
        "metadata": { "name": "api", "namespace": "red", "labels": { labels::HUB: "the-hub" } },
        "spec": { "type": "ClusterSetIP", "ips": ["10.0.0.1"], "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }] },
        "status": { "clusters": [{ "cluster": "a" }] },
    }))
}

/// A member that imports `api`, and what it has beside that.
fn member<const S: usize>(
    services: impl IntoIterator<Item = (Key, Service)>,
    slices: [(Key, EndpointSlice); S],
) -> Member {
    let derived = service("derived-api", json!(null));
    let imported = copied("imported", "derived-api", "api-1");
    Member {
        namespaces: vec!["red".to_owned()],
        services: services.into_iter().chain([derived]).collect(),
        slices: slices.into_iter().chain([imported]).collect(),
        exports: Default::default(),
        nodes: Default::default(),
        imports: [(key("api"), import())].into(),
    }
}

/// `web` is provided by a and consumed by b; `api` is exported by a, and so imported everywhere.
fn snapshot() -> Snapshot {
    let exposed = of(json!({
        "metadata": { "name": "web", "namespace": "red" },
        "spec": { "types": ["CrossCluster"], "providerClusters": [{ "name": "a" }], "consumerClusters": [{ "name": "b" }] },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" },
        ] },
    }));
    let provided = service("web", json!({ "app": "web" }));
    let consumed = service("web", json!({ labels::NO_LOCAL_BACKENDS: "true" }));
    let mut own = service("api", json!({ "app": "api" }));
    own.1.metadata.labels = None;
    let mut a = member(
        [provided.clone(), own],
        [source("web-1", "web"), source("api-1", "api")],
    );
    let export = of(json!({
        "apiVersion": "multicluster.x-k8s.io/v1beta1", "kind": "ServiceExport",
        "metadata": { "name": "api", "namespace": "red", "creationTimestamp": "2026-01-01T00:00:00Z" },
    }));
    a.exports.insert(key("api"), export);
    let members = [
        ("a", a),
        ("b", member([consumed], [copied("copy", "web", "web-1")])),
        ("c", member([], [])),
    ];
    let joined = ["a", "b", "c"].map(|name| {
        let object = json!({ "metadata": { "name": name }, "spec": { "syncMode": "Pull" } });
        (name.to_owned(), of(object))
    });
    Snapshot {
        hub: "the-hub".to_owned(),
        namespaces: vec!["red".to_owned()],
        exposed: [(key("web"), exposed)].into(),
        services: [provided].into(),
        joined: joined.into(),
        members: members
            .map(|(name, member)| (name.to_owned(), member))
            .into(),
    }
}

fn in_b(snapshot: &mut Snapshot) -> &mut Member {
    snapshot.members.get_mut("b").expect("b")
}

fn copy(snapshot: &mut Snapshot) -> &mut EndpointSlice {
    in_b(snapshot)
        .slices
        .get_mut(&key("copy"))
        .expect("the copy")
}

/// Change of the snapshot, and the expected differences.
type Damage = (fn(&mut Snapshot), &'static [&'static str]);

const DAMAGES: [Damage; 13] = [
    (|_| {}, &[]),
    (
        |snapshot| {
            in_b(snapshot).slices.remove(&key("copy"));
        },
        &[
            "missing (0 of 1): b: native endpoint of red/web from a: 10.1.0.1",
            "10.1.0.2",
        ],
    ),
    (
        |snapshot| {
            let mut twice = copy(snapshot).clone();
            twice.metadata.name = Some("another".to_owned());
            in_b(snapshot).slices.insert(key("another"), twice);
        },
        &[
            "too many (2 of 1): b: native endpoint",
            "10.1.0.2",
            "is one more of uid-web-1",
        ],
    ),
    (
        |snapshot| {
            copy(snapshot).endpoints.truncate(1);
        },
        &["missing (0 of 1): b: native endpoint of red/web from a: 10.1.0.2"],
    ),
    (
        |snapshot| {
            let a = snapshot.members.get_mut("a").expect("a");
            a.slices.remove(&key("web-1"));
        },
        &[
            "which a has not",
            "too many (1 of 0): b: native endpoint",
            "10.1.0.2",
        ],
    ),
    (
        |snapshot| {
            let unready = of(json!({ "ready": false }));
            copy(snapshot).endpoints[0].conditions = Some(unready);
        },
        &["missing (0 of 1): b", "too many (1 of 0): b"],
    ),
    (
        |snapshot| {
            let there = in_b(snapshot).services[&key("web")].clone();
            let c = snapshot.members.get_mut("c").expect("c");
            c.services.insert(key("web"), there);
        },
        &["too many (1 of 0): c: Service red/web"],
    ),
    (
        |snapshot| {
            in_b(snapshot).services.remove(&key("web"));
        },
        &["missing (0 of 1): b: Service red/web"],
    ),
    (
        |snapshot| {
            in_b(snapshot).imports.clear();
        },
        &["missing (0 of 1): b: ServiceImport red/api ClusterSetIP"],
    ),
    (
        |snapshot| {
            let import = in_b(snapshot).imports.get_mut(&key("api")).expect("api");
            import.spec.ips = vec!["10.0.0.9".to_owned()];
        },
        &["has [\"10.0.0.9\"] and not [\"10.0.0.1\"]"],
    ),
    (
        |snapshot| {
            in_b(snapshot).slices.remove(&key("imported"));
        },
        &[
            "b: imported endpoint of red/api from a: 10.1.0.1",
            "10.1.0.2",
        ],
    ),
    (
        |snapshot| {
            snapshot.joined.remove("c");
        },
        &[
            "c: Service red/derived-api",
            "c: ServiceImport",
            "c: imported endpoint",
            "10.1.0.2",
        ],
    ),
    (
        |snapshot| snapshot.exposed.get_mut(&key("web")).expect("web").status = None,
        &[
            "missing (0 of 1): hub: MultiClusterService red/web Ready=True",
            "Ready=unsaid",
        ],
    ),
];

/// The same, where `a` is of another network and is reached by node ports.
fn across() -> Snapshot {
    let mut all = snapshot();
    let annotations = json!({ labels::NETWORK: "edge", labels::REACH: "node-ports" });
    let cluster = all.joined.get_mut("a").expect("a");
    cluster.metadata.annotations = Some(of(annotations));
    let a = all.members.get_mut("a").expect("a");
    let node = of(json!({
        "metadata": { "name": "n1" },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": "192.168.0.1" }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }));
    a.nodes.insert("n1".to_owned(), node);
    for (name, port) in [("web", 30_080), ("api", 30_081)] {
        let entry = format!("{name}-entry");
        let (entry_key, mut companion) = service(&entry, json!({ "app": name }));
        let annotations = json!({ labels::COMPANION_OF: name });
        companion.metadata.annotations = Some(of(annotations));
        let spec = companion.spec.as_mut().expect("a spec");
        spec.type_ = Some("NodePort".to_owned());
        spec.external_traffic_policy = Some("Local".to_owned());
        for known in spec.ports.iter_mut().flatten() {
            known.node_port = Some(port);
        }
        a.services.insert(entry_key, companion);
        let (slice_key, mut slice) = source(&format!("{entry}-1"), &entry);
        for endpoint in &mut slice.endpoints {
            endpoint.node_name = Some("n1".to_owned());
        }
        a.slices.insert(slice_key, slice);
    }
    for (member, copy, port) in [
        ("b", "copy", 30_080),
        ("b", "imported", 30_081),
        ("c", "imported", 30_081),
    ] {
        let member = all.members.get_mut(member).expect("a member");
        let copy = member.slices.get_mut(&key(copy)).expect("a copy");
        copy.endpoints = vec![of(json!({ "addresses": ["192.168.0.1"] }))];
        copy.ports = Some(vec![of(json!({ "name": "http", "port": port }))]);
    }
    all
}

fn in_a(snapshot: &mut Snapshot) -> &mut Member {
    snapshot.members.get_mut("a").expect("a")
}

/// Changes of [`across`].
const DAMAGES_ACROSS: [Damage; 8] = [
    (|_| {}, &[]),
    (
        |snapshot| {
            let services = &mut in_a(snapshot).services;
            services.remove(&key("web-entry"));
            // Somebody applied over it.
            let web = services.get_mut(&key("web")).expect("web");
            web.metadata.labels = None;
            web.spec.as_mut().expect("a spec").selector = None;
        },
        &["too many (1 of 0): b: native endpoint of red/web from a: 192.168.0.1"],
    ),
    (
        |snapshot| {
            in_a(snapshot).services.remove(&key("web-entry"));
        },
        &[
            "missing (0 of 1): a: companion of red/web: NodePort Local",
            "too many (1 of 0): b: native endpoint of red/web from a: 192.168.0.1",
        ],
    ),
    (
        |snapshot| {
            let ready = json!([{ "type": "Ready", "status": "Unknown" }]);
            let node = in_a(snapshot).nodes.get_mut("n1").expect("n1");
            node.status.as_mut().expect("a status").conditions = Some(of(ready));
        },
        &[
            "missing (0 of 1): b: native endpoint of red/web from a: 192.168.0.1 ready=false",
            "too many (1 of 0): b: native endpoint of red/web from a: 192.168.0.1 ready=true",
            "missing (0 of 1): b: imported endpoint of red/api from a: 192.168.0.1 ready=false",
            "too many (1 of 0): b: imported endpoint of red/api from a: 192.168.0.1 ready=true",
            "missing (0 of 1): c: imported endpoint of red/api from a: 192.168.0.1 ready=false",
            "too many (1 of 0): c: imported endpoint of red/api from a: 192.168.0.1 ready=true",
        ],
    ),
    (
        |snapshot| {
            let (_, pods) = copied("copy", "web", "web-1");
            *copy(snapshot) = pods;
        },
        &[
            "missing (0 of 1): b: native endpoint of red/web from a: 192.168.0.1",
            "too many (1 of 0): b: native endpoint of red/web from a: 10.1.0.1",
            "too many (1 of 0): b: native endpoint of red/web from a: 10.1.0.2",
        ],
    ),
    (
        |snapshot| {
            let ports = copy(snapshot).ports.as_mut().expect("ports");
            ports[0].port = Some(8080);
        },
        &["ports http:30080", "ports http:8080"],
    ),
    (
        |snapshot| {
            let cluster = snapshot.joined.get_mut("a").expect("a");
            let annotations = cluster.metadata.annotations.as_mut();
            annotations.expect("annotations").remove(labels::REACH);
        },
        &[
            "too many (1 of 0): a: companion of red/web",
            "too many (1 of 0): a: companion of red/api",
            "too many (1 of 0): b: native endpoint of red/web",
            "too many (1 of 0): b: imported endpoint of red/api",
            "too many (1 of 0): c: imported endpoint of red/api",
        ],
    ),
    (
        |snapshot| {
            let name = "web-entry-1";
            let endpoints = &mut in_a(snapshot)
                .slices
                .get_mut(&key(name))
                .expect(name)
                .endpoints;
            endpoints.clear();
        },
        &["too many (1 of 0): b: native endpoint of red/web from a: 192.168.0.1"],
    ),
];

/// The same, where `web` is of type LoadBalancer: b and a itself are its entry clusters, and the
/// load balancer of b has an address.
fn balanced() -> Snapshot {
    let mut all = snapshot();
    let exposed = all.exposed.get_mut(&key("web")).expect("web");
    exposed.spec.types = vec!["LoadBalancer".to_owned()];
    exposed
        .spec
        .consumer_clusters
        .push(of(json!({ "name": "a" })));
    let ingress = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.1" }] } });
    exposed.status = Some(of(ingress.clone()));
    for member in ["a", "b"] {
        let member = all.members.get_mut(member).expect("a member");
        let service = member.services.get_mut(&key("web")).expect("web");
        service.spec.as_mut().expect("a spec").type_ = Some("LoadBalancer".to_owned());
    }
    balanced_in_b(&mut all).status = Some(of(ingress));
    all
}

fn balanced_in_b(snapshot: &mut Snapshot) -> &mut Service {
    let services = &mut in_b(snapshot).services;
    services.get_mut(&key("web")).expect("web")
}

/// Changes of [`balanced`].
const DAMAGES_BALANCED: [Damage; 7] = [
    (|_| {}, &[]),
    (
        |snapshot| snapshot.exposed.get_mut(&key("web")).expect("web").status = None,
        &[
            "missing (0 of 1): hub: MultiClusterService red/web has addresses \"203.0.113.1\"",
            "too many (1 of 0): hub: MultiClusterService red/web has addresses \"\"",
        ],
    ),
    (
        |snapshot| balanced_in_b(snapshot).status = None,
        &[
            "missing (0 of 1): hub: MultiClusterService red/web has addresses \"\"",
            "too many (1 of 0): hub: MultiClusterService red/web has addresses \"203.0.113.1\"",
        ],
    ),
    (
        |snapshot| {
            let unready: EndpointConditions = of(json!({ "ready": false, "serving": false }));
            let source = in_a(snapshot).slices.get_mut(&key("web-1"));
            for endpoint in &mut source.expect("web-1").endpoints {
                endpoint.conditions = Some(unready.clone());
            }
            for endpoint in &mut copy(snapshot).endpoints {
                endpoint.conditions = Some(unready.clone());
            }
        },
        &[
            "missing (0 of 1): hub: MultiClusterService red/web has addresses \"\"",
            "too many (1 of 0): hub: MultiClusterService red/web has addresses \"203.0.113.1\"",
        ],
    ),
    (
        |snapshot| {
            let spec = balanced_in_b(snapshot).spec.as_mut();
            spec.expect("a spec").type_ = None;
        },
        &[
            "missing (0 of 1): b: Service red/web of type LoadBalancer",
            "too many (1 of 0): b: Service red/web with addresses",
            "missing (0 of 1): hub: MultiClusterService red/web has addresses \"\"",
            "too many (1 of 0): hub: MultiClusterService red/web has addresses \"203.0.113.1\"",
        ],
    ),
    (
        |snapshot| {
            in_b(snapshot).slices.remove(&key("copy"));
        },
        &[
            "missing (0 of 1): b: native endpoint of red/web from a: 10.1.0.1",
            "10.1.0.2",
        ],
    ),
    (
        |snapshot| {
            snapshot.joined.remove("b");
        },
        &[
            "too many (1 of 0): b: Service red/web of type LoadBalancer",
            "b: native endpoint of red/web from a: 10.1.0.1",
            "b: native endpoint of red/web from a: 10.1.0.2",
            "b: Service red/derived-api",
            "b: ServiceImport",
            "b: imported endpoint of red/api from a: 10.1.0.1",
            "b: imported endpoint of red/api from a: 10.1.0.2",
            "missing (0 of 1): hub: MultiClusterService red/web has addresses \"\"",
            "too many (1 of 0): hub: MultiClusterService red/web has addresses \"203.0.113.1\"",
        ],
    ),
];

#[test]
fn oracle_sees_wrong_entry_clusters() {
    find(balanced, &DAMAGES_BALANCED);
}

#[test]
fn oracle_sees_wrong_entries_and_companions() {
    find(across, &DAMAGES_ACROSS);
}

#[test]
fn the_oracle_sees_what_is_missing_too_many_or_different() {
    find(snapshot, &DAMAGES);
}

/// Checks that the oracle sees each damage, and nothing else.
fn find(snapshot: fn() -> Snapshot, damages: &[Damage]) {
    for (number, (damage, expected)) in damages.iter().enumerate() {
        let mut damaged = snapshot();
        damage(&mut damaged);
        let said = check(&damaged).err().unwrap_or_default();
        assert_eq!(said.len(), expected.len(), "damage {number}: {said:#?}");
        for part in *expected {
            let is_said = said.iter().any(|line| line.contains(part));
            assert!(is_said, "damage {number}: {part:?} is not in {said:#?}");
        }
    }
}
