//! What people and workloads do: services come, change and go. What is done is chosen at random, and is always something
//! that a person may do at any time.

mod exported;
mod native;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use causeway_tests::fixtures::RunningPod;
use causeway_tests::{Cluster, Fleet, Space};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;

use self::exported::Exported;
use self::native::Exposed;
use crate::random::Random;
use crate::scene::{Key, Scene};
use crate::witness::Sight;

/// The namespaces of services that change.
const NAMESPACES: [&str; 2] = ["red", "green"];
/// Of these the second goes and comes.
const PASSING: &str = NAMESPACES[1];
/// The services that a MultiClusterService exposes.
const NATIVE: [&str; 3] = ["n0", "n1", "n2"];
/// The services that members export; the last is headless.
const EXPORTED: [&str; 2] = ["c0", "c1"];
/// The most pods that a service has in a member.
const PODS: usize = 4;
const REMEMBERED: usize = 60;

/// A service of a member.
type Place = (&'static str, &'static str, &'static str);

/// What was done, and what is there because of it.
pub(super) struct Churn {
    members: Vec<&'static str>,
    exposed: BTreeMap<(&'static str, &'static str), Exposed>,
    exported: BTreeMap<Place, Exported>,
    pods: BTreeMap<Place, Vec<RunningPod>>,
    without: BTreeSet<&'static str>,
    /// What was deleted in this round, and is made anew only when it is gone.
    leaving: BTreeSet<Key>,
    touched: BTreeSet<Key>,
    steps: VecDeque<String>,
    count: usize,
}

impl Churn {
    pub(super) async fn new(fleet: &Fleet, members: Vec<&'static str>) -> Self {
        for namespace in NAMESPACES {
            make_namespace(fleet, namespace).await;
        }
        Self {
            members,
            exposed: BTreeMap::new(),
            exported: BTreeMap::new(),
            pods: BTreeMap::new(),
            without: BTreeSet::new(),
            leaving: BTreeSet::new(),
            touched: BTreeSet::new(),
            steps: VecDeque::new(),
            count: 0,
        }
    }

    /// One thing more.
    pub(super) async fn step(&mut self, fleet: &Fleet, random: &mut Random) {
        let done = match random.below(100) {
            0..35 => self.pods(fleet, random).await,
            35..62 => self.native(fleet, random).await,
            62..94 => self.exports(fleet, random).await,
            _ => self.namespace(fleet, random).await,
        };
        self.note(done);
    }

    /// Remembers what was done.
    pub(super) fn note(&mut self, what: String) {
        self.count += 1;
        self.steps.push_back(what);
        if self.steps.len() > REMEMBERED {
            self.steps.pop_front();
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The last things that were done.
    pub(super) fn steps(&self) -> String {
        self.steps
            .iter()
            .map(|step| format!("  {step}\n"))
            .collect()
    }

    /// Whether what was seen has to do with what was done in this round.
    pub(super) fn explains(&self, sight: &Sight) -> bool {
        self.touched.contains(&sight.service)
    }

    /// What was deleted and is still there.
    pub(super) fn still_there(&self, scene: &Scene) -> Vec<String> {
        let mut found = Vec::new();
        for key in self
            .leaving
            .iter()
            .filter(|key| scene.exposed.contains_key(*key))
        {
            found.push(format!(
                "MultiClusterService {key:?} was deleted and is still there"
            ));
        }
        for namespace in &self.without {
            let is_it = |name: &String| name == namespace;
            let members = scene.members.values().flat_map(|member| &member.namespaces);
            if members.chain(&scene.namespaces).any(is_it) {
                found.push(format!(
                    "namespace {namespace} was deleted and is still there"
                ));
            }
        }
        found
    }

    /// A round is over: all is as it should be.
    pub(super) fn settled(&mut self) {
        self.leaving.clear();
        self.touched.clear();
    }

    fn touch(&mut self, namespace: &str, name: &str) {
        self.touched.insert((namespace.to_owned(), name.to_owned()));
    }

    fn somewhere(&self, random: &mut Random) -> &'static str {
        let there: Vec<_> = NAMESPACES
            .into_iter()
            .filter(|name| !self.without.contains(name))
            .collect();
        there[random.below(there.len())]
    }

    async fn pods(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let namespace = self.somewhere(random);
        let all: Vec<&str> = NATIVE.into_iter().chain(EXPORTED).collect();
        let (name, member) = (*random.of(&all), *random.of(&self.members));
        self.touch(namespace, name);
        let place = format!("of {namespace}/{name} in {member}");
        let pods = self.pods.entry((namespace, name, member)).or_default();
        if pods.is_empty() || (pods.len() < PODS && random.once_in(2)) {
            let space = Space::existing(fleet, namespace);
            let more = 1 + random.below(2);
            let new = space
                .backends(name)
                .count(more)
                .create(fleet.member(member))
                .await;
            pods.extend(new);
            return format!("{more} pods more {place}");
        }
        let pod = random.below(pods.len());
        match random.below(4) {
            0 | 1 => {
                let pod = pods.remove(pod);
                pod.delete().await;
                format!("pod {} {place} is gone", pod.name())
            }
            2 => {
                let ready = random.once_in(2);
                pods[pod].set_ready(ready).await;
                format!("pod {} {place} is ready: {ready}", pods[pod].name())
            }
            _ => {
                pods[pod].terminate().await;
                format!("pod {} {place} terminates", pods[pod].name())
            }
        }
    }

    async fn namespace(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let gone = (PASSING.to_owned(), String::new());
        if !self.without.contains(PASSING) && random.once_in(2) {
            // No kubelet ends them.
            let there = self
                .pods
                .extract_if(.., |(namespace, ..), _| *namespace == PASSING);
            for pod in there.flat_map(|(_, pods)| pods) {
                pod.delete().await;
            }
            for cluster in fleet.clusters() {
                let api = Api::<Namespace>::all(cluster.client());
                let deleted = api.delete(PASSING, &DeleteParams::default()).await;
                deleted.unwrap_or_else(|e| panic!("cannot delete a namespace: {e}"));
            }
            for name in NATIVE.into_iter().chain(EXPORTED) {
                self.touch(PASSING, name);
            }
            self.exposed
                .retain(|(namespace, _), _| *namespace != PASSING);
            self.exported
                .retain(|(namespace, ..), _| *namespace != PASSING);
            self.without.insert(PASSING);
            self.leaving.insert(gone);
            return format!("namespace {PASSING} is deleted everywhere");
        }
        if self.without.contains(PASSING) && !self.leaving.contains(&gone) {
            make_namespace(fleet, PASSING).await;
            self.without.remove(PASSING);
            return format!("namespace {PASSING} is made anew");
        }
        "nothing".to_owned()
    }
}

/// A namespace in the hub and in all members.
pub(super) async fn make_namespace(fleet: &Fleet, name: &str) {
    let clusters: Vec<&Cluster> = fleet.clusters().collect();
    let space = Space::existing(fleet, name);
    join_all(clusters.into_iter().map(|cluster| space.create_in(cluster))).await;
}
