//! Every EndpointSlice and every Service foo of a namespace, as watches see them change: no moment
//! is missed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::names;
use crate::fixtures::RunningPod;
use crate::space::ready_of;
use crate::{Cluster, SOON, eventually};

/// Watches until it is dropped.
pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    tasks: Vec<AbortHandle>,
}

#[derive(Default)]
struct Seen {
    /// By cluster, in order: what was ready at that moment, and by what.
    moments: Vec<Moment>,
    /// By cluster: UID and address of each Service that was there.
    services: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Forbidden deletions.
    deleted: Vec<String>,
    /// By cluster: the UIDs of the slices that Kubernetes keeps.
    own: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug)]
struct Moment {
    cluster: String,
    ready: BTreeSet<String>,
    /// Step that caused it.
    after: String,
}

impl Observer {
    /// Watches these clusters from now on.
    pub fn begin(namespace: &str, clusters: &[&Cluster]) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let mut tasks = Vec::new();
        for cluster in clusters {
            let (slices, services) = (
                Api::<EndpointSlice>::namespaced(cluster.client(), namespace),
                Api::<Service>::namespaced(cluster.client(), namespace),
            );
            let name = cluster.name().to_owned();
            tasks.push(
                tokio::spawn(watch_slices(slices, name.clone(), Arc::clone(&seen))).abort_handle(),
            );
            tasks.push(
                tokio::spawn(watch_services(services, name, Arc::clone(&seen))).abort_handle(),
            );
        }
        Self { seen, tasks }
    }

    /// Waits until each of so many clusters was observed.
    pub async fn sees(&self, clusters: usize) {
        eventually("the observer sees", SOON, async || {
            let seen = self.seen.lock();
            let named: BTreeSet<_> = seen.moments.iter().map(|moment| &moment.cluster).collect();
            named.len() == clusters && seen.services.len() == clusters
        })
        .await;
    }

    /// No moment in these members was without these endpoints, and no Service went or got another
    /// address.
    pub fn nothing_lacked(&self, stayed: &[(&str, &[RunningPod])]) {
        let seen = self.seen.lock();
        for (name, pods) in stayed {
            let moments = seen.moments.iter();
            let moments = moments.filter(|moment| moment.cluster == *name);
            for Moment { ready, after, .. } in moments {
                let lacks: Vec<_> = pods
                    .iter()
                    .map(RunningPod::ip)
                    .filter(|ip| !ready.contains(*ip))
                    .collect();
                assert!(
                    lacks.is_empty(),
                    "{name} lacked {lacks:?} after {after}; it had {ready:?}"
                );
            }
        }
        assert_eq!(seen.deleted, Vec::<String>::new());
        for (cluster, services) in &seen.services {
            assert_eq!(services.len(), 1, "the Service of {cluster}: {services:?}");
        }
    }

    /// No slice that Kubernetes keeps was replaced by another.
    pub fn kubernetes_slices_stayed(&self, cluster: &str) {
        let seen = self.seen.lock();
        let own = seen.own.get(cluster).cloned().unwrap_or_default();
        assert_eq!(
            own.len(),
            1,
            "the slices of Kubernetes in {cluster}: {own:?}"
        );
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn watch_slices(api: Api<EndpointSlice>, cluster: String, seen: Arc<Mutex<Seen>>) {
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let events = events.reflect(writer);
    let mut events = std::pin::pin!(events.filter_map(async |event| event.ok()));
    while let Some(event) = events.next().await {
        let after = match event {
            watcher::Event::Init | watcher::Event::InitApply(_) => continue,
            watcher::Event::InitDone => "a list".to_owned(),
            watcher::Event::Apply(slice) => {
                format!("{} as {:?}", slice.name_any(), slice.resource_version())
            }
            watcher::Event::Delete(slice) => format!("{} went", slice.name_any()),
        };
        let slices = store.state();
        let kubernetes = "endpointslice-controller.k8s.io";
        let kubernetes = labelled(&slices, names::SLICE_MANAGED_BY, kubernetes);
        let mut seen = seen.lock();
        let own = seen.own.entry(cluster.clone()).or_default();
        own.extend(kubernetes.filter_map(|slice| slice.uid()));
        seen.moments.push(Moment {
            cluster: cluster.clone(),
            ready: ready_of(labelled(&slices, names::SLICE_SERVICE, "foo")).collect(),
            after,
        });
    }
}

/// Returns the slices with this label.
fn labelled<'a>(
    slices: &'a [Arc<EndpointSlice>],
    label: &'a str,
    value: &'a str,
) -> impl Iterator<Item = &'a EndpointSlice> {
    let all = slices.iter().map(|slice| &**slice);
    all.filter(move |slice| slice.labels().get(label).is_some_and(|has| has == value))
}

async fn watch_services(api: Api<Service>, cluster: String, seen: Arc<Mutex<Seen>>) {
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events.filter_map(async |event| event.ok()));
    while let Some(event) = events.next().await {
        let mut seen = seen.lock();
        match event {
            watcher::Event::InitApply(service) | watcher::Event::Apply(service) => {
                let address = service
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.cluster_ip.clone());
                let known = seen.services.entry(cluster.clone()).or_default();
                known.insert((
                    service.uid().unwrap_or_default(),
                    address.unwrap_or_default(),
                ));
            }
            watcher::Event::Delete(service) => seen
                .deleted
                .push(format!("Service {} of {cluster}", service.name_any())),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
}
