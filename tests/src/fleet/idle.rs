//! Clusters that no test uses at present. An API server takes seconds of CPU to start, and a
//! program has dozens of tests: so the next fleet takes them.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{Builder, Clusters};
use crate::cluster::Cluster;
use crate::eventually::{LONG, eventually};
use crate::store::{Content, Store};

/// Maximum time until clusters are again as at their start.
const RENEWED_WITHIN: Duration = Duration::from_secs(90);

static IDLE: Mutex<Vec<Clusters>> = Mutex::new(Vec::new());

/// State of clusters that have just started.
pub(super) struct Origin {
    content: Content,
    /// Names of the groups of the API that each of them serves.
    groups: BTreeSet<String>,
}

impl Origin {
    pub(super) async fn of(hub: &Cluster, store: &Store) -> Self {
        Self {
            content: store.content().await,
            groups: groups(hub).await.expect("the groups of an API"),
        }
    }
}

async fn groups(cluster: &Cluster) -> Result<BTreeSet<String>, kube::Error> {
    let served = cluster.client().list_api_groups().await?;
    Ok(served.groups.into_iter().map(|group| group.name).collect())
}

/// Returns idle clusters of these names, with those that they lack. `None` if there are none. Drops
/// clusters that are not as at their start within [`RENEWED_WITHIN`].
pub(super) async fn take(builder: &Builder) -> Option<Clusters> {
    let mut taken = {
        let mut idle = IDLE.lock();
        let fitting = idle.iter().enumerate().filter(|(_, clusters)| {
            let names = clusters.members.iter().map(|member| member.name());
            names.zip(&builder.members).all(|(has, asked)| has == asked)
        });
        let largest = fitting.max_by_key(|(_, clusters)| clusters.members.len());
        let index = largest.map(|(index, _)| index)?;
        idle.swap_remove(index)
    };
    let renewed = timeout(RENEWED_WITHIN, taken.renew(builder.members.len())).await;
    if renewed.is_err() {
        eprintln!("clusters not used again: not as at their start within {RENEWED_WITHIN:?}");
        return None;
    }
    taken.grow(builder).await;
    Some(taken)
}

/// Keeps the clusters for the next fleet, asleep. Those of a test that failed end, and so do those
/// whose API servers a test has touched.
pub(super) fn give_back(clusters: Clusters) {
    let is_good = clusters.origin.is_some() && clusters.all().all(|one| one.is_untouched());
    if is_good && !std::thread::panicking() {
        clusters.all().for_each(|cluster| cluster.sleep());
        clusters.store.pause();
        IDLE.lock().push(clusters);
    }
}

impl Clusters {
    fn all(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(&self.hub).chain(&self.members)
    }

    /// Returns the hub and the members that do not sleep.
    pub(super) fn awake(&self) -> impl Iterator<Item = &Cluster> {
        self.all().filter(|cluster| !cluster.is_asleep())
    }

    /// Wakes the hub and so many members, and brings the stores back to what they held at the
    /// start, while the API servers run: they watch their stores. Further members sleep on.
    async fn renew(&mut self, members: usize) {
        self.store.resume();
        let mut origin = self.origin.take().expect("clusters to be used again");
        self.all().take(1 + members).for_each(|one| one.wake());
        join_all(self.awake().map(|cluster| cluster.rest())).await;
        self.store.put_back(&mut origin.content).await;
        for cluster in self.awake() {
            let what = format!("{} serves what it served at the start", cluster.name());
            eventually(&what, LONG, async || match groups(cluster).await {
                Ok(groups) if groups == origin.groups => Ok(()),
                groups => Err(format!("{groups:?}")),
            })
            .await;
        }
        join_all(self.awake().map(|cluster| cluster.begin_again())).await;
        self.origin = Some(origin);
    }

    /// Starts the members that are asked for and not there.
    async fn grow(&mut self, builder: &Builder) {
        let missing = builder.members.iter().zip(1..).skip(self.members.len());
        let started = missing.map(|(name, number)| {
            let plan = builder.plan(name, number, &self.directory, &self.store);
            Cluster::start_new(&self.reaper, plan, Vec::new())
        });
        let started = join_all(started).await;
        if !started.is_empty() {
            self.members.extend(started);
            self.origin = Some(Origin::of(&self.hub, &self.store).await);
        }
    }
}
