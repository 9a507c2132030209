//! Near pods first: what the annotations `prefer`, `min-ready` and `unreachable` mean for packets.

mod clusterset;
mod dead;
mod herd;
mod restart;
mod shares;
mod stopped;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use causeway::api::labels;
use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, Fleet, SOON, Space, eventually, multi_cluster_service, soak};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use kube::api::{WatchEvent, WatchParams};

use crate::client::sample;
use crate::{said_by, web};

/// `foo`, with pods in the cluster of its client and in a far one.
struct Tiers<'a> {
    fleet: &'a Fleet,
    space: &'a Space<'a>,
    near: &'a Cluster,
    local: Vec<RunningPod>,
    remote: Vec<RunningPod>,
    /// The Service's address in the near cluster: no name is looked up under load.
    url: String,
}

impl<'a> Tiers<'a> {
    /// So many near pods in member2 and far ones in member1, and a service with these annotations.
    /// The far ones are standby.
    async fn set_up(
        fleet: &'a Fleet,
        space: &'a Space<'a>,
        [near_pods, far_pods]: [usize; 2],
        annotations: &[(&str, &str)],
    ) -> Self {
        let [far, near] = ["member1", "member2"].map(|name| fleet.member(name));
        for cluster in [fleet.hub(), far, near] {
            let own = web();
            own.create(cluster, space).await;
        }
        let local = space.backends("foo").count(near_pods).create(near).await;
        let remote = space.backends("foo").count(far_pods).create(far).await;
        // Whom nobody has seen yet is not preferred: far pods would begin as those in charge.
        own_are_ready(space, near, near_pods).await;
        let exposed = multi_cluster_service("foo").providers(["member1", "member2"]);
        let exposed = exposed.consumers(["member2"]);
        let exposed = annotations.iter().fold(exposed, |exposed, (name, value)| {
            exposed.annotation(name, value)
        });
        exposed.create(space).await;
        eventually("the far pods are standby", DEMOTED, || async {
            let [ready, standby] = copied(space, near, "foo").await;
            match (ready, standby == far_pods) {
                (0, true) => Ok(()),
                _ => Err(format!("{ready} are ready, {standby} standby")),
            }
        })
        .await;
        let url = url_in(space, near, "foo").await;
        Self {
            fleet,
            space,
            near,
            local,
            remote,
            url,
        }
    }

    /// Returns the answers of the near pods.
    fn said_near(&self) -> Vec<String> {
        said_in(&self.local, "member2")
    }

    /// Returns the answers of the far pods.
    fn said_far(&self) -> Vec<String> {
        said_in(&self.remote, "member1")
    }

    /// Returns the pods that answer many requests from the near cluster.
    async fn answering(&self) -> Result<BTreeSet<String>, String> {
        let answers = sample(self.near, &self.url, MANY).await?;
        Ok(answers.into_keys().collect())
    }

    /// Waits until these pods, all of them and no other, answer in the near cluster.
    async fn is_answered_by(&self, pods: &[String], within: Duration) {
        let expected: BTreeSet<_> = pods.iter().cloned().collect();
        let what = format!("exactly {pods:?} answer");
        eventually(&what, within, || async {
            let answering = self.answering().await?;
            match answering == expected {
                true => Ok(()),
                false => Err(format!("{answering:?}")),
            }
        })
        .await;
    }
}

/// The controller waits half a minute until a farther tier is standby again, and machines are busy.
const DEMOTED: Duration = Duration::from_secs(90);

/// So many requests that each of a few pods answers some of them.
const MANY: usize = 200;

fn said_in(pods: &[RunningPod], member: &str) -> Vec<String> {
    said_by(&pods.iter().map(|pod| (pod, member)).collect::<Vec<_>>())
}

/// Returns the URL of a Service in a cluster, by its address.
async fn url_in(space: &Space<'_>, cluster: &Cluster, name: &str) -> String {
    let services = space.api::<Service>(cluster);
    let what = format!("{name} has an address in {}", cluster.name());
    let address = eventually(&what, SOON, || async {
        let service = services.get(name).await.map_err(|e| e.to_string())?;
        let address = service.spec.and_then(|spec| spec.cluster_ip);
        address.ok_or_else(|| "none".to_owned())
    })
    .await;
    format!("http://{address}")
}

/// Returns the numbers of ready and of standby endpoints of a service's copies in a cluster.
async fn copied(space: &Space<'_>, cluster: &Cluster, name: &str) -> [usize; 2] {
    let slices = space.slices(cluster, name).await;
    let copies = slices.into_iter().filter(is_copy);
    let endpoints: Vec<_> = copies.flat_map(|copy| copy.endpoints).collect();
    let count = |is: fn(&Endpoint) -> bool| endpoints.iter().filter(|one| is(one)).count();
    [count(is_ready), count(is_standby)]
}

fn is_copy(slice: &EndpointSlice) -> bool {
    let labels = slice.metadata.labels.as_ref();
    let manager = labels.and_then(|labels| labels.get(labels::SLICE_MANAGED_BY));
    manager.is_some_and(|manager| manager == labels::SLICE_DISPATCHER)
}

fn is_ready(endpoint: &Endpoint) -> bool {
    let ready = endpoint.conditions.as_ref().and_then(|one| one.ready);
    ready.unwrap_or(true)
}

fn is_standby(endpoint: &Endpoint) -> bool {
    let standby = EndpointConditions {
        ready: Some(false),
        serving: Some(true),
        terminating: Some(true),
    };
    endpoint.conditions.as_ref() == Some(&standby)
}

/// Waits until the API server of a cluster says that so many of its own endpoints of `foo` are
/// ready, and returns when it said so.
async fn own_are_ready(space: &Space<'_>, cluster: &Cluster, count: usize) -> SystemTime {
    let slices = space.api::<EndpointSlice>(cluster);
    let of_foo = WatchParams::default().labels("kubernetes.io/service-name=foo");
    let events = slices.watch(&of_foo, "0").await.expect("a watch");
    let mut events = events.boxed();
    let mut own: BTreeMap<_, usize> = BTreeMap::new();
    while let Some(event) = events.try_next().await.expect("a watch that goes on") {
        let said = SystemTime::now();
        let (WatchEvent::Added(slice) | WatchEvent::Modified(slice)) = event else {
            continue;
        };
        if !is_copy(&slice) {
            let ready = slice.endpoints.iter().filter(|one| is_ready(one)).count();
            own.insert(slice.metadata.name.clone(), ready);
            if own.values().sum::<usize>() == count {
                return said;
            }
        }
    }
    panic!("the watch ended before {count} endpoints were ready");
}

/// Whether something that has been done so often since is to be done again: once in the short form,
/// until its time is over in the long one.
fn again(begun: Instant, done: usize) -> bool {
    match soak() {
        Some(time) => begun.elapsed() < time,
        None => done == 0,
    }
}
