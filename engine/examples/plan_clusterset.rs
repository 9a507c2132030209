//! Measures how long it takes to plan all exported services from cold.
//!
//! `cargo run --release --example plan_clusterset -- [services] [clusters] [exporters of each]`

use std::error::Error;
use std::time::{Duration, Instant};

use causeway::api::Cluster;
use causeway::api::multicluster::{ServiceExport, Version};
use causeway::domain::protected::{DEFAULT_NAMESPACE, Protection};
use causeway::domain::{ClusterName, ServiceKey};
use causeway_engine::diff::{Diff, Moment, diff};
use causeway_engine::model::served::{ImportFields, Served, ServedImports};
use causeway_engine::model::slice::ObservedSlice;
use causeway_engine::model::{
    Ack, HubEvent, Identity, MemberEvent, Operation, Signal, TargetCluster, TimePoint,
};
use causeway_engine::observed::Index;
use causeway_engine::observed::quota::Quota;
use causeway_engine::plan::{CopyCache, Settings, plan};
use causeway_engine::seal::Seal;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAMESPACE: &str = "shop";
const WRITTEN: &str = "2026-01-01T00:00:00Z";

/// As in the controller.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Anything<T> = Result<T, Box<dyn Error>>;

/// How large the clusterset is.
struct Size {
    services: usize,
    clusters: usize,
    exporters: usize,
}

fn now() -> TimePoint {
    TimePoint {
        instant: Instant::now(),
        wall: Timestamp::now(),
    }
}

fn main() -> Anything<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |otherwise| {
        numbers
            .next()
            .transpose()
            .map(|number| number.unwrap_or(otherwise))
    };
    let size = Size {
        services: next(5000)?,
        clusters: next(20)?,
        exporters: next(2)?,
    };
    let mut index = known(&size)?;
    println!(
        "{} services, {} clusters, {} exporters of each, one slice of 3 endpoints in each exporter",
        size.services, size.clusters, size.exporters
    );
    measure("nothing is imported yet", &index, &size)?;
    let mut uids = 0;
    while write_all(&mut index, &size, &mut uids)? > 0 {}
    measure("everything is as it should be", &index, &size)?;
    Ok(())
}

/// What a controller knows that has just listed everything.
fn known(size: &Size) -> Anything<Index> {
    let now = now();
    let mut index = Index::new("hub");
    let clusters = (0..size.clusters).map(|cluster| {
        read::<Cluster>(json!({"metadata": meta(&member(cluster)), "spec": {"syncMode": "Push"}}))
    });
    let clusters = clusters.collect::<Anything<_>>()?;
    index.apply_hub(HubEvent::WorksServed(false), now);
    index.apply_hub(
        HubEvent::MultiClusterServices(Signal::Listed(Vec::new())),
        now,
    );
    index.apply_hub(HubEvent::Services(Signal::Listed(Vec::new())), now);
    index.apply_hub(HubEvent::Clusters(Signal::Listed(clusters)), now);
    index.apply_hub(HubEvent::Namespaces(Signal::Listed(Vec::new())), now);
    for cluster in 0..size.clusters {
        let name = ClusterName::try_from(&*member(cluster))?;
        index.engage(&name, 1, None);
        for event in events(cluster, size)? {
            index.apply_member(&name, event, now);
        }
    }
    Ok(index)
}

fn events(cluster: usize, size: &Size) -> Anything<Vec<MemberEvent>> {
    let exported = (0..size.services).filter(|service| {
        (cluster + size.clusters - service % size.clusters) % size.clusters < size.exporters
    });
    let (mut services, mut slices, mut exports) = (Vec::new(), Vec::new(), Vec::new());
    for number in exported {
        let name = format!("service-{number}");
        services.push(read::<Service>(service(&name))?);
        let slice = read::<EndpointSlice>(slice(&name, cluster))?;
        slices.push(ObservedSlice::read(&slice));
        exports.push(read::<ServiceExport>(json!({"metadata": meta(&name)}))?);
    }
    let identity = Identity {
        uid: format!("uid-of-{}", member(cluster)),
        version: "v1.34.0".to_owned(),
        release: causeway::domain::KubernetesVersion::new(1, 34),
    };
    let served = Served {
        exports: Some(Version::V1beta1),
        export_clusters: false,
        imports: Some(ServedImports {
            version: Version::V1beta1,
            fields: ImportFields::ALL,
        }),
    };
    let namespace = read::<Namespace>(json!({"metadata": {"name": NAMESPACE}}))?;
    Ok(vec![
        MemberEvent::Identified(identity),
        MemberEvent::Served(served),
        MemberEvent::Namespaces(Signal::Listed(vec![namespace])),
        MemberEvent::Services(Signal::Listed(services)),
        MemberEvent::Slices(Signal::Listed(slices)),
        MemberEvent::Exports(Signal::Listed(exports)),
        MemberEvent::Imports(Signal::Listed(Vec::new())),
        MemberEvent::Namespaces(Signal::Connected),
        MemberEvent::Services(Signal::Connected),
        MemberEvent::Slices(Signal::Connected),
        MemberEvent::Exports(Signal::Connected),
        MemberEvent::Imports(Signal::Connected),
        MemberEvent::Probed(Ok(())),
    ])
}

/// Plans every service, three times, and says what the fastest pass took.
fn measure(what: &str, index: &Index, size: &Size) -> Anything<()> {
    let settings = settings();
    let now = now();
    let mut cache = CopyCache::default();
    let (mut planned, mut compared, mut writes) = (Duration::MAX, Duration::MAX, 0);
    for _ in 0..3 {
        let started = Instant::now();
        for key in keys(size) {
            std::hint::black_box(plan(index, &settings, &key, now, &mut cache));
        }
        planned = planned.min(started.elapsed());
        let started = Instant::now();
        let diffs = keys(size).map(|key| wanted(index, &settings, &key, now, &mut cache));
        writes = diffs
            .map(|diff| diff.writes.values().map(Vec::len).sum::<usize>())
            .sum();
        compared = compared.min(started.elapsed());
    }
    println!(
        "{what}: planned in {:.3} s; planned and compared in {:.3} s ({writes} writes)",
        planned.as_secs_f64(),
        compared.as_secs_f64()
    );
    Ok(())
}

/// Carries out what is to be written, as API servers would, and says how many writes that were.
fn write_all(index: &mut Index, size: &Size, uids: &mut u64) -> Anything<usize> {
    let (settings, now) = (settings(), now());
    let mut cache = CopyCache::default();
    let mut count = 0;
    for key in keys(size) {
        for (cluster, writes) in wanted(index, &settings, &key, now, &mut cache).writes {
            for write in writes {
                *uids += 1;
                count += 1;
                let ack = stored(write.operation(), *uids)?;
                index.apply_ack(&cluster, ack, now);
            }
        }
    }
    Ok(count)
}

fn stored(operation: &Operation, uid: u64) -> Anything<Ack> {
    let identify = |meta: &mut ObjectMeta| {
        meta.uid = Some(format!("own-{uid}"));
        meta.resource_version = Some((uid + 1000).to_string());
    };
    Ok(match operation.clone() {
        Operation::CreateService(_, mut service) => {
            identify(&mut service.metadata);
            if let Some(spec) = &mut service.spec {
                let address = format!("10.{}.{}.{}", uid >> 16 & 255, uid >> 8 & 255, uid & 255);
                spec.cluster_ip = Some(address.clone());
                spec.cluster_ips = Some(vec![address]);
                spec.ip_families = Some(vec!["IPv4".to_owned()]);
                spec.internal_traffic_policy = Some("Cluster".to_owned());
            }
            Ack::Service(service)
        }
        Operation::CreateImport(_, _, mut import) => {
            identify(&mut import.metadata);
            Ack::ServiceImport(import)
        }
        Operation::CreateSlice(_, mut slice) => {
            identify(&mut slice.metadata);
            Ack::Slice(ObservedSlice::read(&slice).into())
        }
        other => return Err(format!("nothing but new objects is expected, not {other:?}").into()),
    })
}

fn wanted(
    index: &Index,
    settings: &Settings,
    key: &ServiceKey,
    now: TimePoint,
    cache: &mut CopyCache,
) -> Diff {
    let moment = Moment { now, busy: false };
    let desired = plan(index, settings, key, now, cache);
    let mut diff = diff(&desired, index, key, moment);
    diff.writes
        .retain(|cluster, _| matches!(cluster, TargetCluster::Member(_)));
    diff
}

fn settings() -> Settings {
    Settings {
        protection: Protection::new(DEFAULT_NAMESPACE, []),
        service_grace: Duration::from_secs(300),
        quota: Quota {
            exports: usize::MAX,
            metadata: usize::MAX,
        },
        seal: Some(Seal::new(b"the hub's")),
        ..Settings::default()
    }
}

fn keys(size: &Size) -> impl Iterator<Item = ServiceKey> {
    (0..size.services).map(|number| ServiceKey::new(NAMESPACE, format!("service-{number}")))
}

fn member(cluster: usize) -> String {
    format!("member{cluster}")
}

fn meta(name: &str) -> Value {
    json!({
        "name": name, "namespace": NAMESPACE, "uid": format!("uid-of-{name}"), "resourceVersion": "1", "generation": 1,
        "creationTimestamp": WRITTEN,
    })
}

fn service(name: &str) -> Value {
    json!({
        "metadata": meta(name),
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "selector": {"app": name},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "metrics", "port": 9090, "targetPort": 9090}],
        },
    })
}

fn slice(service: &str, cluster: usize) -> Value {
    let mut metadata = meta(&format!("{service}-abcde"));
    metadata["labels"] = json!({
        "kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    let endpoint = |host: usize| json!({"addresses": [format!("10.{cluster}.0.{host}")], "conditions": {"ready": true}, "zone": "a", "nodeName": "node-1"});
    json!({
        "metadata": metadata, "addressType": "IPv4", "endpoints": [endpoint(1), endpoint(2), endpoint(3)],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "metrics", "port": 9090, "protocol": "TCP"}],
    })
}

fn read<T: DeserializeOwned>(value: Value) -> Anything<T> {
    Ok(serde_json::from_value(value)?)
}
