//! Healthy service for tests, each of which changes one detail.

use std::sync::Arc;

use causeway::api::Cluster;
use causeway::api::multicluster::Version;
use causeway::domain::ServiceKey;
use causeway_engine::lists::NameLists;
use causeway_engine::model::Identity;
use causeway_engine::model::served::{ImportFields, Served, ServedImports};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::service::{Held, Snapshot};
use crate::fixtures::{cross, ready, service, synced};

pub(crate) fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

pub(crate) fn core_service(ours: bool, ports: &[(&str, u16)]) -> Service {
    let ports: Vec<_> = ports
        .iter()
        .map(|(name, port)| json!({ "name": name, "port": port, "protocol": "TCP" }))
        .collect();
    let labels = match ours {
        true => json!({ "mcs.causeway.dev/hub": "hub" }),
        false => json!({}),
    };
    from(json!({
        "metadata": { "name": "foo", "namespace": "shop", "uid": "s1", "resourceVersion": "1", "labels": labels },
        "spec": { "ports": ports },
    }))
}

fn endpoints(ready: &[(&str, bool)]) -> Value {
    let endpoints = ready.iter().map(|(address, ready)| {
        json!({ "addresses": [address], "conditions": { "ready": ready }, "nodeName": "node1", "zone": "z" })
    });
    endpoints.collect()
}

pub(crate) fn source(ready: &[(&str, bool)]) -> EndpointSlice {
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

pub(crate) fn copy(version: &str, ready: &[(&str, bool)]) -> EndpointSlice {
    from(json!({
        "metadata": {
            "name": "a-foo-abc-0", "namespace": "shop", "uid": "c1", "resourceVersion": "1",
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

fn held(name: &str, service: Service, slice: EndpointSlice) -> Held {
    Held {
        identity: Identity {
            uid: format!("uid-of-{name}"),
            version: "v1.36.3".to_owned(),
            release: causeway::domain::KubernetesVersion::new(1, 36),
        },
        served: Served {
            exports: Some(Version::V1beta1),
            export_clusters: false,
            imports: Some(ServedImports {
                version: Version::V1beta1,
                fields: ImportFields::ALL,
            }),
        },
        namespaces: vec![from(json!({ "metadata": { "name": "shop" } }))],
        services: vec![service],
        slices: vec![slice],
        exports: Vec::new(),
        imports: Vec::new(),
        nodes: None,
        paths: Vec::new(),
    }
}

pub(crate) const BOTH: [(&str, bool); 2] = [("10.1.0.1", true), ("10.1.0.2", true)];

/// Returns the healthy service `shop/foo`, provided by `a` and consumed by `b`.
pub(crate) fn healthy() -> Snapshot {
    let conditions = json!([ready("True", "Ready", "fine")]);
    let mut mcs = service("foo", cross(&["a"], &["b"]), conditions);
    identify(&mut mcs.metadata);
    let clusters = ["a", "b"].map(|name| {
        let mut cluster = synced(name);
        identify(&mut cluster.metadata);
        cluster
    });
    let own = || core_service(true, &[("http", 80)]);
    Snapshot {
        key: ServiceKey::new("shop", "foo"),
        hub_uid: Some("hub".to_owned()),
        mcs: Some(mcs),
        service: Some(core_service(false, &[("http", 80)])),
        derived: None,
        imports: Ok(Vec::new()),
        namespaces: Ok(Vec::new()),
        clusters: Arc::new(clusters.into()),
        works: Some(Vec::new()),
        unapplied: None,
        names: NameLists::NotRead,
        members: [
            ("a".to_owned(), Ok(held("a", own(), source(&BOTH)))),
            ("b".to_owned(), Ok(held("b", own(), copy("7", &BOTH)))),
        ]
        .into(),
    }
}

/// Sets the fields that every API server sets.
fn identify(meta: &mut ObjectMeta) {
    let name = meta.name.clone().unwrap_or_default();
    meta.uid.get_or_insert_with(|| format!("uid-of-{name}"));
    meta.resource_version.get_or_insert_with(|| "1".to_owned());
}

impl Snapshot {
    pub(crate) fn clusters_mut(&mut self) -> &mut Vec<Cluster> {
        Arc::make_mut(&mut self.clusters)
    }

    pub(crate) fn member(&mut self, name: &str) -> &mut Held {
        let member = self.members.get_mut(name).expect("a member");
        member.as_mut().expect("it was read")
    }

    pub(crate) fn without_copies(&mut self) -> &mut Self {
        self.member("b").slices.clear();
        self
    }

    pub(crate) fn annotate(&mut self, name: &str, key: &str, value: &str) -> &mut Self {
        let mut clusters = self.clusters_mut().iter_mut();
        let cluster = clusters.find(|one| one.metadata.name.as_deref() == Some(name));
        let metadata = &mut cluster.expect("a Cluster").metadata;
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }
}
