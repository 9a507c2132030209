//! Objects at the start: all that the services need, as a controller would have left it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use serde_json::{Value, json};

use super::slices::{
    CREATED, Encoding, HUB_UID, NAMESPACES, SliceId, UidOf, member_name, namespace, service_name,
    uid,
};
use super::store::{Body, Store, key, path};
use super::{Access, ServiceSpec, Simulation};

/// Fills the stores. Members that are reached over TLS have a certificate of the authority.
pub(super) fn fill(simulation: &Simulation, access: Access, authority: Option<&str>) {
    let hub = simulation.hub();
    let own = |place| uid(UidOf::Other, 0, place);
    put::<Namespace>(hub, (None, "kube-system"), HUB_UID, json!({}));
    let names = json!({"kind": "Cluster", "plural": "clusters"});
    let definition = json!({
        "metadata": {"labels": {labels::MANAGED_BY: labels::MANAGER}},
        "spec": {"group": "cluster.karmada.io", "scope": "Cluster", "versions": [], "names": names},
    });
    let place = (None, "clusters.cluster.karmada.io");
    put::<CustomResourceDefinition>(hub, place, &own(1), definition);
    let seal = json!({"type": "Opaque", "data": {"key": BASE64_STANDARD.encode([7_u8; 32])}});
    let place = (Some(DEFAULT_NAMESPACE), "causeway-export-seal");
    put::<Secret>(hub, place, &own(3), seal);
    let mut data = json!({"token": BASE64_STANDARD.encode("token")});
    if let Some(pem) = authority {
        data["caBundle"] = BASE64_STANDARD.encode(pem).into();
    }
    let annotations = match access {
        Access::Tunnel => json!({labels::TUNNEL: "true"}),
        _ => json!({}),
    };
    for number in 0..simulation.members() {
        let url = match access {
            // Nobody listens there.
            Access::Dead(dead) if dead == number => "http://127.0.0.1:1".to_owned(),
            Access::Tls | Access::Tunnel => format!("https://{}/{}", simulation.tls, number + 1),
            _ => simulation.member_url(number),
        };
        let number = u16::try_from(number).unwrap_or_default();
        member(simulation, number, &url, &annotations, &data);
    }
    for (number, spec) in (0..).zip(&*simulation.services) {
        service(simulation, number, spec);
    }
}

/// Adds a member. `data` is that of its Secret.
fn member(simulation: &Simulation, number: u16, url: &str, annotations: &Value, data: &Value) {
    let (hub, name) = (simulation.hub(), member_name(number));
    let own = |of, place| uid(of, number.into(), place);
    let id = own(UidOf::Member, 0);
    let watched = "Services and EndpointSlices are watched";
    let served = "ServiceExport v1beta1 and ServiceImport v1beta1 are watched";
    let cluster = json!({
        "metadata": {
            "annotations": annotations, "generation": 1, "finalizers": [labels::FINALIZER],
        },
        "spec": {
            "id": id, "syncMode": "Push", "apiEndpoint": url,
            "secretRef": {"namespace": MEMBERS_NAMESPACE, "name": name},
        },
        "status": {"kubernetesVersion": "v1.34.0", "conditions": [
            condition("Ready", "Synced", watched),
            condition("ClustersetAPI", "Served", served),
        ]},
    });
    put::<Cluster>(hub, (None, &name), &own(UidOf::Cluster, 0), cluster);
    let secret = json!({"type": "Opaque", "data": data});
    let place = (Some(MEMBERS_NAMESPACE), &*name);
    put::<Secret>(hub, place, &own(UidOf::Other, 2), secret);
    let store = simulation.member(number);
    put::<Namespace>(store, (None, "kube-system"), &id, json!({}));
    for place in 0..NAMESPACES {
        let (uid, active) = (own(UidOf::Member, place + 1), json!({"phase": "Active"}));
        let object = json!({"status": active});
        put::<Namespace>(store, (None, &namespace(place)), &uid, object);
    }
}

fn service(simulation: &Simulation, service: u32, spec: &ServiceSpec) {
    let hub = simulation.hub();
    let (namespace, name) = (namespace(service), service_name(service));
    let (namespace, place) = (Some(&*namespace), (Some(&*namespace), &*name));
    let mcs_uid = uid(UidOf::MultiClusterService, service, 0);
    let named = |member: u16| json!({"name": member_name(member)});
    let reached = match spec.consumers.len() {
        1 => "1 cluster".to_owned(),
        many => format!("{many} clusters"),
    };
    let key_of = key(namespace, &name);
    let ready = format!("{key_of} can be reached from {reached}, backed by 1 cluster");
    let consumers: Vec<_> = spec.consumers.iter().copied().map(named).collect();
    let applied = "Service is propagated to target clusters.";
    let dispatched = "EndpointSlice are dispatched successfully";
    let slices = "EndpointSlices are propagated to target clusters.";
    let object = json!({
        "metadata": {
            "generation": 1, "finalizers": [labels::FINALIZER],
            "labels": {labels::PERMANENT_ID: mcs_uid},
        },
        "spec": {
            "types": ["CrossCluster"], "providerClusters": [named(spec.provider)],
            "consumerClusters": consumers,
        },
        "status": {"conditions": [
            condition("ServiceApplied", "ServiceAppliedSucceed", applied),
            condition("EndpointSliceDispatched", "EndpointSliceDispatchedSucceed", dispatched),
            condition("EndpointSliceApplied", "EndpointSliceAppliedSuccess", slices),
            condition("Ready", "Ready", &ready),
        ]},
    });
    put::<MultiClusterService>(hub, place, &mcs_uid, object);
    let own = |place| uid(UidOf::Service, service, place);
    let selector = json!({"app": name});
    let object = json!({"spec": service_spec(&selector)});
    put::<Service>(hub, place, &own(1), object);
    let provider = simulation.member(spec.provider);
    let consumers = spec.consumers.iter().map(|one| simulation.member(*one));
    let nothing = json!({labels::NO_LOCAL_BACKENDS: "true"});
    let delivered = consumers.clone().map(|store| (store, &nothing));
    let metadata = json!({
        "labels": {labels::MANAGED_BY: labels::MANAGER, labels::HUB: HUB_UID},
        "annotations": {labels::OWNER: format!("MultiClusterService/{mcs_uid}")},
    });
    for (store, selector) in delivered.chain([(provider, &selector)]) {
        let object = json!({"metadata": metadata, "spec": service_spec(selector)});
        put::<Service>(store, place, &own(0), object);
    }
    let path = path::<EndpointSlice>();
    for slice in 0..spec.slices {
        let id = SliceId { service, slice };
        let source = key(namespace, &id.name());
        let source = provider.change(&path, &source).put(Body::Source(id, 0));
        let copy = key(namespace, &id.copy_name(&member_name(spec.provider)));
        for consumer in consumers.clone() {
            consumer.change(&path, &copy).put(Body::Copy(id, source));
        }
    }
}

/// Returns the spec of a Service, as API servers complete it.
fn service_spec(selector: &Value) -> Value {
    json!({
        "type": "ClusterIP", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        "selector": selector,
    })
}

fn condition(kind: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": CREATED,
    })
}

/// Adds an object.
fn put<K: Resource<DynamicType = ()>>(
    store: &Store,
    (namespace, name): (Option<&str>, &str),
    uid: &str,
    mut object: Value,
) {
    let (path, key) = (path::<K>(), key(namespace, name));
    let change = store.change(&path, &key);
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    for (field, value) in [
        ("name", Some(name)),
        ("namespace", namespace),
        ("uid", Some(uid)),
        ("creationTimestamp", Some(CREATED)),
        ("resourceVersion", Some(&*change.next_version().to_string())),
    ] {
        if let Some(value) = value {
            object["metadata"][field] = value.into();
        }
    }
    change.put(Body::Stored(Encoding::Json, object.to_string().into()));
}
