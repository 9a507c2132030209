//! Sees every version of every copy in the consumer.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::api::labels;
use causeway_tests::Cluster;
use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::load::{MOVING, SLICES, number, steady};

/// Observations.
#[derive(Default)]
struct Seen {
    /// The last change of each slice.
    numbers: [u32; SLICES],
    /// The addresses of copies of other slices, by the copy's name.
    others: BTreeMap<String, Vec<String>>,
    versions: usize,
    wrong: Vec<String>,
}

/// A watch on the copies of the consumer.
pub(super) struct Observer {
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Observer {
    pub(super) fn of(consumer: &Cluster, namespace: &str) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let api = Api::<EndpointSlice>::namespaced(consumer.client(), namespace);
        let task = tokio::spawn(watch(api, Arc::clone(&seen))).abort_handle();
        Self { seen, task }
    }

    /// The last change of each slice that arrived.
    pub(super) fn numbers(&self) -> [u32; SLICES] {
        assert!(!self.task.is_finished(), "the observer has left");
        self.seen.lock().numbers
    }

    /// Returns the number of observed versions. Panics if one of them was wrong.
    pub(super) fn versions(&self) -> usize {
        let seen = self.seen.lock();
        assert!(seen.wrong.is_empty(), "{:#?}", seen.wrong);
        seen.versions
    }
}

async fn watch(api: Api<EndpointSlice>, seen: Arc<Mutex<Seen>>) {
    let copies = format!("{}={}", labels::SLICE_MANAGED_BY, labels::SLICE_DISPATCHER);
    let config = watcher::Config::default().labels(&copies);
    let mut events = std::pin::pin!(watcher(api, config));
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(copy) | watcher::Event::InitApply(copy))) => {
                seen.lock().look(&copy);
            }
            Ok(Some(watcher::Event::Delete(copy))) => {
                let deleted = format!("{} was deleted", copy.name_any());
                seen.lock().wrong.push(deleted);
            }
            Ok(Some(watcher::Event::Init | watcher::Event::InitDone)) => {}
            Ok(None) => return,
            Err(error) => eprintln!("the watch of the copies is begun again: {error}"),
        }
    }
}

impl Seen {
    fn look(&mut self, copy: &EndpointSlice) {
        self.versions += 1;
        let name = copy.name_any();
        let endpoints = copy.endpoints.iter();
        let addresses: Vec<String> = endpoints
            .flat_map(|endpoint| endpoint.addresses.clone())
            .collect();
        let moved = addresses.iter().find_map(|address| number(address));
        let is_moving = copy
            .labels()
            .get(labels::SERVICE_NAME)
            .is_some_and(|of| of == MOVING);
        match moved {
            Some((slice, number)) => {
                let all = steady(slice);
                if addresses.len() != all.len() + 1
                    || !all.iter().all(|one| addresses.contains(one))
                {
                    self.wrong
                        .push(format!("{name} lacks an endpoint: {addresses:?}"));
                }
                let last = &mut self.numbers[slice];
                if number < *last {
                    self.wrong
                        .push(format!("{name} went back from change {last} to {number}"));
                }
                *last = number;
            }
            // The slice that Kubernetes itself keeps for the service has no endpoints.
            None if is_moving && !addresses.is_empty() => {
                self.wrong.push(format!(
                    "{name} lacks the endpoint that moves: {addresses:?}"
                ));
            }
            None => self.look_at_other(name, addresses),
        }
    }

    fn look_at_other(&mut self, name: String, addresses: Vec<String>) {
        let before = self.others.insert(name.clone(), addresses.clone());
        let before = before.unwrap_or_default();
        if let Some(lost) = before.iter().find(|address| !addresses.contains(address)) {
            self.wrong
                .push(format!("{name} lost {lost}: {addresses:?}"));
        }
    }
}
