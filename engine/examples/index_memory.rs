//! Measures what the index costs: memory of each source slice and each copy, and how long reading
//! them takes. The arguments are the numbers of members, of slices of each, of endpoints of each
//! slice, and of copies of each slice.
//!
//! `cargo run --release --example index_memory -- [members] [slices] [endpoints] [copies]`

use std::error::Error;
use std::time::Instant;

use causeway::api::Cluster;
use causeway::domain::ClusterName;
use causeway_engine::model::slice::{ObservedSlice, SliceDecoder};
use causeway_engine::model::{HubEvent, MemberEvent, Signal, TimePoint};
use causeway_engine::observed::Index;
use causeway_wire::Object;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// As in the controller.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Anything<T> = Result<T, Box<dyn Error>>;

fn now() -> TimePoint {
    TimePoint {
        instant: Instant::now(),
        wall: Timestamp::now(),
    }
}

fn main() -> Anything<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |otherwise| {
        let number = numbers.next().transpose();
        number.map(|number| number.unwrap_or(otherwise))
    };
    let (members, slices, endpoints, copies) = (next(20)?, next(2000)?, next(100)?, next(10_000)?);
    let mut index = Index::new("hub");
    let now = now();
    let clusters: Vec<Cluster> = (0..members)
        .map(|number| serde_json::from_value(json!({"metadata": {"name": format!("member{number}")}, "spec": {"syncMode": "Push"}})))
        .collect::<Result<_, _>>()?;
    index.apply_hub(HubEvent::Clusters(Signal::Listed(clusters)), now);
    let start = resident()?;
    let mut decoder = SliceDecoder::default();
    let (mut bytes, mut seconds) = (0, 0.0);
    let mut feed = |index: &mut Index,
                    kind: &str,
                    count: usize,
                    text: &dyn Fn(usize, usize) -> Value|
     -> Anything<()> {
        let before = resident()?;
        for member in 0..members {
            let name = ClusterName::try_from(&*format!("member{member}"))?;
            if index.member(&name).is_none() {
                index.engage(&name, 1, None);
            }
            for number in 0..count {
                let line = serde_json::to_string(&text(member, number))?;
                let begun = Instant::now();
                let slice = decoder.decode(Object::Json(&line))?;
                let slice = ObservedSlice::from(slice);
                index.apply_member(&name, MemberEvent::Slices(Signal::Applied(slice)), now);
                seconds += begun.elapsed().as_secs_f64();
                bytes += line.len();
            }
        }
        let all = (members * count).max(1);
        println!("{kind}: {all}, {} bytes each", (resident()? - before) / all);
        Ok(())
    };
    feed(&mut index, "source slices", slices, &|member, number| {
        source(member, number, endpoints)
    })?;
    feed(&mut index, "copies", copies, &|member, number| {
        copy(member, number)
    })?;
    println!(
        "resident: {} MiB, at the start {} MiB",
        resident()? >> 20,
        start >> 20
    );
    println!(
        "read {} MB of JSON at {:.0} MB/s",
        bytes / 1_000_000,
        bytes as f64 / seconds / 1e6
    );
    Ok(())
}

fn uid(one: usize, other: usize) -> String {
    format!("{one:08x}-0000-4000-8000-{other:012x}")
}

fn source(member: usize, number: usize, endpoints: usize) -> Value {
    let endpoint = |place: usize| {
        let node = (number * endpoints + place) % 1000;
        json!({
            "addresses": [format!("10.{}.{}.{}", number % 256, place / 256, place % 256)],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{node:04}.member{member}.example"),
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("foo-{number}-{place}-x7k2p"), "uid": uid(number, place)},
            "zone": format!("region-{member}-{}", node % 3),
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("service-{number}-abcde"), "namespace": format!("shop-{}", number % 50),
            "uid": uid(member, number), "resourceVersion": (1000 + number).to_string(), "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/service-name": format!("service-{number}"),
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": format!("service-{number}"), "uid": uid(member, number + 1), "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "discovery.k8s.io/v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:addressType": {}, "f:endpoints": {}, "f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/service-name": {}}}, "f:ports": {}}}],
        },
        "addressType": "IPv4",
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

fn copy(member: usize, number: usize) -> Value {
    let provider = format!("member{}", number % 20 + 100);
    json!({
        "metadata": {
            "name": format!("{provider}-service-{}-abcde-0a1b2c3d", number / 5), "namespace": format!("shop-{}", number / 5 % 50),
            "uid": uid(member + 1_000_000, number), "resourceVersion": (5000 + number).to_string(),
            "labels": {"kubernetes.io/service-name": format!("service-{}", number / 5),
                "endpointslice.kubernetes.io/managed-by": "endpointslice-dispatch-controller.karmada.io",
                "multicluster.kubernetes.io/source-cluster": provider, "app.kubernetes.io/managed-by": "causeway", "mcs.causeway.dev/hub": "hub"},
            "annotations": {"mcs.causeway.dev/source": format!("{}/77", uid(number, 7))},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

fn resident() -> Anything<usize> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).unwrap_or_default();
    Ok(pages.parse::<usize>()? * 4096)
}
