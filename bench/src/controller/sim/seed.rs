//! Objects at the start: all that the services need, as a controller would have left it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use causeway::api::condition::{
    CLUSTERSET_API, ENDPOINT_SLICE_APPLIED, ENDPOINT_SLICE_DISPATCHED, READY, SERVICE_APPLIED,
};
use causeway::api::{Cluster, MultiClusterService, labels};
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use causeway_engine::reasons::Reason;
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
use super::{ServiceSpec, Simulation};

/// Fills the stores. `url` returns the address of a member.
pub(super) fn fill(
    simulation: &Simulation,
    url: impl Fn(usize) -> String,
    authority: Option<&str>,
) {
    let hub = simulation.hub();
    put::<Namespace>(hub, None, "kube-system", HUB_UID, json!({}));
    let definition = json!({
        "metadata": {"labels": {labels::MANAGED_BY: labels::MANAGER}},
        "spec": {
            "group": "cluster.karmada.io", "scope": "Cluster", "versions": [],
            "names": {"kind": "Cluster", "plural": "clusters"},
        },
    });
    let (name, own) = ("clusters.cluster.karmada.io", uid(UidOf::Other, 0, 1));
    put::<CustomResourceDefinition>(hub, None, name, &own, definition);
    let seal = json!({"type": "Opaque", "data": {"key": BASE64_STANDARD.encode([7; 32])}});
    let (name, own) = ("causeway-export-seal", uid(UidOf::Other, 0, 3));
    put::<Secret>(hub, Some(DEFAULT_NAMESPACE), name, &own, seal);
    for number in 0..simulation.members() {
        let url = url(number);
        member(
            simulation,
            u16::try_from(number).unwrap_or_default(),
            &url,
            authority,
        );
    }
    for (service, spec) in (0..).zip(&*simulation.services) {
        service_of(simulation, service, spec);
    }
}

fn member(simulation: &Simulation, number: u16, url: &str, authority: Option<&str>) {
    let (hub, store) = (simulation.hub(), simulation.member(number));
    let (name, own) = (member_name(number), |of, place| {
        uid(of, number.into(), place)
    });
    let served = "ServiceExport v1beta1 and ServiceImport v1beta1 are watched";
    let cluster = json!({
        "metadata": {"generation": 1, "finalizers": [labels::FINALIZER]},
        "spec": {
            "id": own(UidOf::Member, 0), "syncMode": "Push", "apiEndpoint": url,
            "secretRef": {"namespace": MEMBERS_NAMESPACE, "name": name},
        },
        "status": {"kubernetesVersion": "v1.34.0", "conditions": [
            condition(READY, Reason::Synced, "Services and EndpointSlices are watched"),
            condition(CLUSTERSET_API, Reason::Served, served),
        ]},
    });
    put::<Cluster>(hub, None, &name, &own(UidOf::Cluster, 0), cluster);
    let mut secret = json!({"type": "Opaque", "data": {"token": BASE64_STANDARD.encode("token")}});
    if let Some(authority) = authority {
        secret["data"]["caBundle"] = BASE64_STANDARD.encode(authority).into();
    }
    put::<Secret>(
        hub,
        Some(MEMBERS_NAMESPACE),
        &name,
        &own(UidOf::Other, 2),
        secret,
    );
    put::<Namespace>(
        store,
        None,
        "kube-system",
        &own(UidOf::Member, 0),
        json!({}),
    );
    for place in 0..NAMESPACES {
        let active = json!({"status": {"phase": "Active"}});
        let own = own(UidOf::Member, place + 1);
        put::<Namespace>(store, None, &namespace(place), &own, active);
    }
}

fn service_of(simulation: &Simulation, number: u32, spec: &ServiceSpec) {
    let hub = simulation.hub();
    let (namespace, name) = (namespace(number), service_name(number));
    let (namespace, name) = (Some(&*namespace), &*name);
    let mcs_uid = uid(UidOf::MultiClusterService, number, 0);
    let mcs = multi_cluster_service(number, spec);
    put::<MultiClusterService>(hub, namespace, name, &mcs_uid, mcs);
    let selector = json!({"app": name});
    let service_uid = |place| uid(UidOf::Service, number, place);
    let own = json!({"spec": service_spec(&selector)});
    put::<Service>(hub, namespace, name, &service_uid(1), own);
    let provider = simulation.member(spec.provider);
    let consumers = spec.consumers.iter().map(|one| simulation.member(*one));
    let nothing = json!({labels::NO_LOCAL_BACKENDS: "true"});
    let delivered = consumers.clone().map(|store| (store, &nothing));
    for (store, selector) in delivered.chain([(provider, &selector)]) {
        let delivered = json!({
            "metadata": {
                "labels": {labels::MANAGED_BY: labels::MANAGER, labels::HUB: HUB_UID},
                "annotations": {labels::OWNER: format!("MultiClusterService/{mcs_uid}")},
            },
            "spec": service_spec(selector),
        });
        put::<Service>(store, namespace, name, &service_uid(0), delivered);
    }
    let path = path::<EndpointSlice>();
    for slice in 0..spec.slices {
        let service = number;
        let id = SliceId { service, slice };
        let source = key(namespace, &id.name());
        let source = provider.change(&path, &source).put(Body::Source(id, 0));
        let copy = key(namespace, &id.copy_name(&member_name(spec.provider)));
        for consumer in consumers.clone() {
            consumer.change(&path, &copy).put(Body::Copy(id, source));
        }
    }
}

fn service_spec(selector: &Value) -> Value {
    json!({
        "type": "ClusterIP", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        "selector": selector,
    })
}

fn multi_cluster_service(number: u32, spec: &ServiceSpec) -> Value {
    let named = |member: u16| json!({"name": member_name(member)});
    let consumers: Vec<_> = spec.consumers.iter().copied().map(named).collect();
    let key = format!("{}/{}", namespace(number), service_name(number));
    let reached = match consumers.len() {
        1 => "1 cluster".to_owned(),
        many => format!("{many} clusters"),
    };
    let ready = format!("{key} can be reached from {reached}, backed by 1 cluster");
    let [delivered, dispatched, applied] = [
        "Service is propagated to target clusters.",
        "EndpointSlice are dispatched successfully",
        "EndpointSlices are propagated to target clusters.",
    ];
    json!({
        "metadata": {
            "generation": 1, "finalizers": [labels::FINALIZER],
            "labels": {labels::PERMANENT_ID: uid(UidOf::MultiClusterService, number, 0)},
        },
        "spec": {
            "types": ["CrossCluster"], "providerClusters": [named(spec.provider)],
            "consumerClusters": consumers,
        },
        "status": {"conditions": [
            condition(SERVICE_APPLIED, Reason::ServiceAppliedSucceed, delivered),
            condition(ENDPOINT_SLICE_DISPATCHED, Reason::EndpointSliceDispatchedSucceed, dispatched),
            condition(ENDPOINT_SLICE_APPLIED, Reason::EndpointSliceAppliedSuccess, applied),
            condition(READY, Reason::Ready, &ready),
        ]},
    })
}

fn condition(type_: &str, reason: Reason, message: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": CREATED,
    })
}

/// Adds an object to a store.
fn put<K>(store: &Store, namespace: Option<&str>, name: &str, uid: &str, mut object: Value)
where
    K: Resource<DynamicType = ()>,
{
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    let metadata = &mut object["metadata"];
    metadata["name"] = name.into();
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = CREATED.into();
    let (path, key) = (path::<K>(), key(namespace, name));
    let change = store.change(&path, &key);
    object["metadata"]["resourceVersion"] = change.next_version().to_string().into();
    change.put(Body::Stored(Encoding::Json, object.to_string().into()));
}
