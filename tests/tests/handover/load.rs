//! Changes all the time: endpoints of one service, and what is exposed of another.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use causeway::api::MultiClusterService;
use causeway_tests::eventually::eventually;
use causeway_tests::write::merge;
use causeway_tests::{Fleet, SOON, Space, service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

pub(super) const PROVIDER: &str = "member1";
pub(super) const CONSUMER: &str = "member2";

/// The service whose endpoints change.
pub(super) const MOVING: &str = "moving";
/// The service of which now one port is exposed and now two.
pub(super) const TURNING: &str = "turning";

pub(super) const SLICES: usize = 4;
/// Between two changes of endpoints.
const PAUSE: Duration = Duration::from_millis(40);
/// Between two changes of what is exposed.
const TURN: Duration = Duration::from_millis(900);
/// Maximum time of a request to the hub: the hub is paused now and then, and this load continues.
const PATIENCE: Duration = Duration::from_secs(2);

/// The load, for as long as this is there.
pub(super) struct Load {
    numbers: Arc<[AtomicU32; SLICES]>,
    tasks: [AbortHandle; 2],
}

impl Drop for Load {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Load {
    /// Makes the services, and lets them change.
    pub(super) async fn start(fleet: &Fleet, space: &Space<'_>) -> Self {
        let hub = fleet.hub();
        service(MOVING).port("http", 80).create(hub, space).await;
        let both = service(TURNING).port("http", 80).port("metrics", 9090);
        both.create(hub, space).await;
        for name in [MOVING, TURNING] {
            space.offer(name, [PROVIDER], [CONSUMER]).await;
        }
        let provider = fleet.member(PROVIDER);
        space.backends(TURNING).count(3).create(provider).await;
        let numbers = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
        for slice in 0..SLICES {
            provider.apply(&object(space.name(), slice)).await.ok();
        }
        eventually("the consumer holds the first copies", SOON, async || {
            let there = space.ready_addresses(fleet.member(CONSUMER), MOVING).await;
            there.len() == 3 * SLICES
        })
        .await;
        let slices = Api::namespaced(provider.client(), space.name());
        let objects = Api::namespaced(hub.client(), space.name());
        Self {
            tasks: [
                tokio::spawn(move_endpoints(slices, Arc::clone(&numbers))).abort_handle(),
                tokio::spawn(turn(objects)).abort_handle(),
            ],
            numbers,
        }
    }

    /// Returns the number of changes of each slice.
    pub(super) fn numbers(&self) -> [u32; SLICES] {
        assert!(
            !self.tasks.iter().any(AbortHandle::is_finished),
            "the load has ended"
        );
        self.numbers
            .each_ref()
            .map(|number| number.load(Ordering::Relaxed))
    }
}

/// The addresses of a slice that never go.
pub(super) fn steady(slice: usize) -> [String; 2] {
    [1, 2].map(|host| format!("10.129.{slice}.{host}"))
}

/// The address of a slice after so many changes: each has a range of its own.
fn address(slice: usize, number: u32) -> String {
    let [_, _, third, fourth] = number.to_be_bytes();
    format!("10.{}.{third}.{fourth}", 150 + slice)
}

/// Returns the slice of an address, and its number of changes then; `None` for an address that
/// stays.
pub(super) fn number(address: &str) -> Option<(usize, u32)> {
    let [_, range, third, fourth] = address.parse::<Ipv4Addr>().ok()?.octets();
    let slice = usize::from(range.checked_sub(150)?);
    (slice < SLICES).then(|| (slice, u32::from_be_bytes([0, 0, third, fourth])))
}

fn endpoints(slice: usize, number: u32) -> Value {
    let [one, other] = steady(slice);
    let ready = json!({ "ready": true });
    let all = [one, other, address(slice, number)];
    all.map(|address| json!({ "addresses": [address], "conditions": ready }))
        .into()
}

fn object(namespace: &str, slice: usize) -> String {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("load-{slice}"), "namespace": namespace,
            "labels": { "kubernetes.io/service-name": MOVING, "endpointslice.kubernetes.io/managed-by": "a-person" },
        },
        "endpoints": endpoints(slice, 0),
        "ports": [{ "name": "http", "port": 80 }],
    })
    .to_string()
}

async fn move_endpoints(slices: Api<EndpointSlice>, numbers: Arc<[AtomicU32; SLICES]>) {
    for round in 1.. {
        for (slice, last) in numbers.iter().enumerate() {
            let patch = json!({ "endpoints": endpoints(slice, round) });
            merge(&slices, &format!("load-{slice}"), patch).await;
            last.store(round, Ordering::Relaxed);
            sleep(PAUSE).await;
        }
    }
}

async fn turn(objects: Api<MultiClusterService>) {
    for round in 1.. {
        let numbers: &[u16] = if round % 2 == 0 { &[80] } else { &[80, 9090] };
        let ports: Vec<_> = numbers
            .iter()
            .map(|number| json!({ "port": number }))
            .collect();
        let patch = Patch::Merge(json!({ "spec": { "ports": ports } }));
        let params = PatchParams::default();
        match timeout(PATIENCE, objects.patch(TURNING, &params, &patch)).await {
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(error)) => eprintln!("the hub does not take the change: {error}"),
        }
        sleep(TURN).await;
    }
}
