//! What hub and members hold at the start: all that the services ask for, as a controller would have left it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use causeway::api::condition::{
    CLUSTERSET_API, ENDPOINT_SLICE_APPLIED, ENDPOINT_SLICE_DISPATCHED, READY, SERVICE_APPLIED,
};
use causeway::api::labels;
use causeway::domain::protected::{DEFAULT_NAMESPACE, MEMBERS_NAMESPACE};
use causeway_certs::{Authority, Leaf};
use causeway_engine::reasons::Reason;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use super::kind::{Kind, key};
use super::services::ServiceSpec;
use super::simulation::Simulation;
use super::store::{Body, Store};
use super::text::{
    CREATED, HUB_UID, NAMESPACES, SliceId, member_name, namespace, service_name, sort, uid,
};

const TOKEN: &str = "dG9rZW4=";
const VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);

/// An address where nobody listens.
const NOBODY: &str = "http://127.0.0.1:1";

/// How many members there are, and what they share.
pub(crate) struct Shape {
    pub(crate) members: usize,
    pub(crate) services: Vec<ServiceSpec>,
    /// Members that refuse connections.
    pub(crate) dead: Vec<usize>,
}

/// Serves API servers and fills them. Whatever the services ask for is in place then.
pub(crate) async fn serve(shape: Shape) -> anyhow::Result<Simulation> {
    let simulation = Simulation::empty(shape.members, shape.services).await?;
    hub(&simulation, &shape.dead);
    members(&simulation);
    Ok(simulation)
}

fn hub(simulation: &Simulation, dead: &[usize]) {
    let hub = simulation.hub();
    let identity = Identity {
        namespace: None,
        name: "kube-system",
        uid: HUB_UID,
    };
    put(hub, Kind::Namespace, identity, json!({}));
    let definition = "clusters.cluster.karmada.io";
    let by = json!({"metadata": {"labels": {labels::MANAGED_BY: labels::MANAGER}}, "spec": {
        "group": "cluster.karmada.io", "scope": "Cluster", "names": {"kind": "Cluster", "plural": "clusters"}, "versions": [],
    }});
    let identity = Identity {
        namespace: None,
        name: definition,
        uid: &uid(sort::OTHER, 0, 1),
    };
    put(hub, Kind::Definition, identity, by);
    let key = BASE64_STANDARD.encode([7; 32]);
    let identity = Identity {
        namespace: Some(DEFAULT_NAMESPACE),
        name: "causeway-export-seal",
        uid: &uid(sort::OTHER, 0, 3),
    };
    put(
        hub,
        Kind::Secret,
        identity,
        json!({"type": "Opaque", "data": {"key": key}}),
    );
    let url = |number| match dead.contains(&number) {
        true => NOBODY.to_owned(),
        false => simulation.member_url(number),
    };
    let secret = json!({"type": "Opaque", "data": {"token": TOKEN}});
    clusters(simulation, url, &secret);
    services(simulation);
}

/// The same, but that members are reached over TLS, as real ones are.
pub(crate) async fn serve_over_tls(shape: Shape) -> anyhow::Result<Simulation> {
    let mut simulation = serve(shape).await?;
    let authority = Authority::new("members", VALIDITY, SystemTime::now())?;
    let address = simulation.serve_over_tls(acceptor(&authority)?).await?;
    let ca = BASE64_STANDARD.encode(authority.pem());
    let secret = json!({"type": "Opaque", "data": {"token": TOKEN, "caBundle": ca}});
    let url = |number| format!("https://{address}/member/{number}");
    clusters(&simulation, url, &secret);
    Ok(simulation)
}

fn acceptor(authority: &Authority) -> anyhow::Result<TlsAcceptor> {
    let leaf = Leaf {
        common_name: "kube-apiserver".to_owned(),
        addresses: vec![Ipv4Addr::LOCALHOST.into()],
        validity: VALIDITY,
        ..Leaf::default()
    };
    let serving = authority.issue(&leaf, SystemTime::now())?;
    let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes())?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The members, as the hub knows them, with their credentials.
fn clusters(simulation: &Simulation, url: impl Fn(usize) -> String, secret: &Value) {
    let hub = simulation.hub();
    for number in 0..simulation.members() {
        let name = member_name(number);
        let place = u32::try_from(number).unwrap_or_default();
        let identity = Identity {
            namespace: None,
            name: &name,
            uid: &uid(sort::CLUSTER, place, 0),
        };
        put(
            hub,
            Kind::Cluster,
            identity,
            cluster(place, &name, &url(number)),
        );
        let identity = Identity {
            namespace: Some(MEMBERS_NAMESPACE),
            name: &name,
            uid: &uid(sort::OTHER, place, 2),
        };
        put(hub, Kind::Secret, identity, secret.clone());
    }
}

/// Puts another token into the Secret of each member.
pub(crate) fn renew_tokens(simulation: &Simulation, token: &str) -> anyhow::Result<()> {
    for number in 0..simulation.members() {
        let key = key(Some(MEMBERS_NAMESPACE), &member_name(number));
        let change = simulation.hub().change(Kind::Secret, &key);
        let stored = change.text();
        let stored = stored.ok_or_else(|| anyhow::anyhow!("there is no Secret {key}"))?;
        let mut secret: Value = serde_json::from_slice(&stored)?;
        secret["data"]["token"] = BASE64_STANDARD.encode(token).into();
        secret["metadata"]["resourceVersion"] = change.next_version().to_string().into();
        change.put(Body::Text(secret.to_string().into()));
    }
    Ok(())
}

fn services(simulation: &Simulation) {
    let hub = simulation.hub();
    for (service, spec) in simulation.services.all() {
        let (namespace, name) = (namespace(service), service_name(service));
        let mcs_uid = uid(sort::MCS, service, 0);
        let mcs = multi_cluster_service(service, spec);
        let identity = Identity {
            namespace: Some(&namespace),
            name: &name,
            uid: &mcs_uid,
        };
        put(hub, Kind::MultiClusterService, identity, mcs);
        let own = json!({"spec": service_spec(&json!({"app": name}))});
        let identity = Identity {
            namespace: Some(&namespace),
            name: &name,
            uid: &uid(sort::SERVICE, service, 1),
        };
        put(hub, Kind::Service, identity, own);
    }
}

fn members(simulation: &Simulation) {
    for number in 0..simulation.members() {
        let place = u32::try_from(number).unwrap_or_default();
        let member = simulation.member(number);
        let identity = Identity {
            namespace: None,
            name: "kube-system",
            uid: &uid(sort::MEMBER, place, 0),
        };
        put(member, Kind::Namespace, identity, json!({}));
        for name in 0..NAMESPACES {
            let of = uid(sort::MEMBER, place, name + 1);
            let identity = Identity {
                namespace: None,
                name: &namespace(name),
                uid: &of,
            };
            put(
                member,
                Kind::Namespace,
                identity,
                json!({"status": {"phase": "Active"}}),
            );
        }
    }
    for (service, spec) in simulation.services.all() {
        let name = service_name(service);
        deliver(
            simulation.member(spec.provider.into()),
            service,
            &json!({"app": name}),
        );
        for consumer in &*spec.consumers {
            let nothing = json!({labels::NO_LOCAL_BACKENDS: "true"});
            deliver(simulation.member(usize::from(*consumer)), service, &nothing);
        }
        for slice in 0..spec.slices {
            slices(simulation, spec, SliceId { service, slice });
        }
    }
}

fn slices(simulation: &Simulation, spec: &ServiceSpec, id: SliceId) {
    let namespace = namespace(id.service);
    let provider = simulation.member(spec.provider.into());
    let source = key(Some(&namespace), &id.name());
    let version = provider.fill(Kind::EndpointSlice, &source, |_| Body::Source(id, 0));
    let copy = id.copy_name(simulation.services.provider_name(id));
    let copy = key(Some(&namespace), &copy);
    for consumer in &*spec.consumers {
        let consumer = simulation.member(usize::from(*consumer));
        consumer.fill(Kind::EndpointSlice, &copy, |_| Body::Copy(id, 0, version));
    }
}

/// A Service as causeway delivers it and an API server completes it.
fn deliver(member: &Store, service: u32, selector: &Value) {
    let object = json!({
        "metadata": {
            "labels": {labels::MANAGED_BY: labels::MANAGER, labels::HUB: HUB_UID},
            "annotations": {labels::OWNER: format!("MultiClusterService/{}", uid(sort::MCS, service, 0))},
        },
        "spec": service_spec(selector),
    });
    let (namespace, name) = (namespace(service), service_name(service));
    let identity = Identity {
        namespace: Some(&namespace),
        name: &name,
        uid: &uid(sort::SERVICE, service, 0),
    };
    put(member, Kind::Service, identity, object);
}

fn service_spec(selector: &Value) -> Value {
    json!({
        "type": "ClusterIP", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        "selector": selector,
    })
}

fn multi_cluster_service(service: u32, spec: &ServiceSpec) -> Value {
    let named = |member: u16| json!({"name": member_name(member.into())});
    let consumers: Vec<_> = spec.consumers.iter().copied().map(named).collect();
    let key = format!("{}/{}", namespace(service), service_name(service));
    let reached = match consumers.len() {
        1 => "1 cluster".to_owned(),
        many => format!("{many} clusters"),
    };
    let ready = format!("{key} can be reached from {reached}, backed by 1 cluster");
    let applied = "EndpointSlices are propagated to target clusters.";
    json!({
        "metadata": {
            "generation": 1, "finalizers": [labels::FINALIZER],
            "labels": {labels::PERMANENT_ID: uid(sort::MCS, service, 0)},
        },
        "spec": {"types": ["CrossCluster"], "providerClusters": [named(spec.provider)], "consumerClusters": consumers},
        "status": {"conditions": [
            condition(SERVICE_APPLIED, Reason::ServiceAppliedSucceed, "Service is propagated to target clusters."),
            condition(ENDPOINT_SLICE_DISPATCHED, Reason::EndpointSliceDispatchedSucceed, "EndpointSlice are dispatched successfully"),
            condition(ENDPOINT_SLICE_APPLIED, Reason::EndpointSliceAppliedSuccess, applied),
            condition(READY, Reason::Ready, &ready),
        ]},
    })
}

fn cluster(number: u32, name: &str, url: &str) -> Value {
    let served = "ServiceExport v1beta1 and ServiceImport v1beta1 are watched";
    json!({
        "metadata": {"generation": 1, "finalizers": [labels::FINALIZER]},
        "spec": {
            "id": uid(sort::MEMBER, number, 0), "syncMode": "Push", "apiEndpoint": url,
            "secretRef": {"namespace": MEMBERS_NAMESPACE, "name": name},
        },
        "status": {"kubernetesVersion": "v1.34.0", "conditions": [
            condition(READY, Reason::Synced, "Services and EndpointSlices are watched"),
            condition(CLUSTERSET_API, Reason::Served, served),
        ]},
    })
}

fn condition(type_: &str, reason: Reason, message: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": reason, "message": message,
        "observedGeneration": 1, "lastTransitionTime": CREATED,
    })
}

struct Identity<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    uid: &'a str,
}

/// Adds an object to a store.
fn put(store: &Store, kind: Kind, identity: Identity<'_>, mut object: Value) {
    let Identity {
        namespace,
        name,
        uid,
    } = identity;
    let (api_version, kind_name, _) = kind.names();
    object["apiVersion"] = api_version.into();
    object["kind"] = kind_name.into();
    let metadata = &mut object["metadata"];
    metadata["name"] = name.into();
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = CREATED.into();
    store.fill(kind, &key(namespace, name), |version| {
        object["metadata"]["resourceVersion"] = version.to_string().into();
        Body::Text(object.to_string().into())
    });
}
