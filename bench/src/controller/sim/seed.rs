//! Objects at the start: all that the services need, as a controller would have left it.

use std::sync::LazyLock;

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
    put::<Namespace>(hub, (None, "kube-system"), HUB_UID, "identity", &[]);
    let definition = (None, "clusters.cluster.karmada.io");
    put::<CustomResourceDefinition>(hub, definition, &own(1), "definition", &[]);
    let seal = (Some(DEFAULT_NAMESPACE), "causeway-export-seal");
    put::<Secret>(hub, seal, &own(3), "seal", &[]);
    let authority = authority.map(|pem| BASE64_STANDARD.encode(pem));
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
        let values = [("URL", &json!(url)), ("ANNOTATIONS", &annotations)];
        member(simulation, number, &values, &json!(authority));
    }
    for (number, spec) in (0..).zip(&*simulation.services) {
        service(simulation, number, spec);
    }
}

/// Adds a member, with these values in its Cluster.
fn member(simulation: &Simulation, number: u16, of: &[(&str, &Value); 2], authority: &Value) {
    let (hub, name) = (simulation.hub(), member_name(number));
    let own = |of, place| uid(of, number.into(), place);
    let (id, uid) = (own(UidOf::Member, 0), own(UidOf::Cluster, 0));
    let values = [of[0], of[1], ("ID", &json!(id)), ("NAME", &json!(name))];
    put::<Cluster>(hub, (None, &name), &uid, "cluster", &values);
    let (place, uid) = ((Some(MEMBERS_NAMESPACE), &*name), own(UidOf::Other, 2));
    let secret = ["secret_of_tls", "secret"][usize::from(authority.is_null())];
    put::<Secret>(hub, place, &uid, secret, &[("AUTHORITY", authority)]);
    let store = simulation.member(number);
    put::<Namespace>(store, (None, "kube-system"), &id, "identity", &[]);
    for place in 0..NAMESPACES {
        let uid = own(UidOf::Member, place + 1);
        put::<Namespace>(store, (None, &namespace(place)), &uid, "namespace", &[]);
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
    let values = [
        ("UID", &json!(mcs_uid)),
        ("PROVIDER", &named(spec.provider)),
        ("CONSUMERS", &json!(consumers)),
        ("READY", &json!(ready)),
    ];
    put::<MultiClusterService>(hub, place, &mcs_uid, "multi_cluster_service", &values);
    let own = |place| uid(UidOf::Service, service, place);
    let selector = json!({"app": name});
    put::<Service>(hub, place, &own(1), "service", &[("SELECTOR", &selector)]);
    let provider = simulation.member(spec.provider);
    let consumers = spec.consumers.iter().map(|one| simulation.member(*one));
    let nothing = json!({labels::NO_LOCAL_BACKENDS: "true"});
    let delivered = consumers.clone().map(|store| (store, &nothing));
    let owner = json!(format!("MultiClusterService/{mcs_uid}"));
    for (store, selector) in delivered.chain([(provider, &selector)]) {
        let values = [("SELECTOR", selector), ("OWNER", &owner)];
        put::<Service>(store, place, &own(0), "delivered", &values);
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

/// Adds an object of a template, with these values in it.
fn put<K: Resource<DynamicType = ()>>(
    store: &Store,
    (namespace, name): (Option<&str>, &str),
    uid: &str,
    template: &str,
    values: &[(&str, &Value)],
) {
    static TEMPLATES: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("seed.json")).expect("JSON"));
    let mut text = TEMPLATES[template].to_string();
    for (field, value) in values {
        text = text.replace(&format!("\"${field}\""), &value.to_string());
    }
    let mut object: Value = serde_json::from_str(&text).expect("JSON");
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
