//! Actions of users and workloads: services are created, changed and deleted. The actions are
//! random, and each is possible at any time.

mod damage;
mod exported;
mod native;
mod networks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;

use self::exported::Exported;
use self::native::Exposed;
pub(super) use self::native::balance;
pub use self::networks::Network;
use self::networks::Networks;
use crate::fixtures::RunningPod;
use crate::soak::observer::Sight;
use crate::soak::random::Random;
use crate::soak::snapshot::{Key, Snapshot};
use crate::{Cluster, Fleet, SOON, Space, eventually, service_import};

/// The namespaces of services that change.
const NAMESPACES: [&str; 3] = ["red", "green", "blue"];
/// Namespace that is deleted and created again.
const PASSING: &str = NAMESPACES[1];
/// Namespace that one member lacks.
const PARTIAL: &str = NAMESPACES[2];
const WITHOUT_PARTIAL: &str = "member1";
/// The services that a MultiClusterService exposes; the last is one that members have and export
/// too.
const NATIVE: [&str; 4] = ["n0", "n1", "n2", EXPORTED[0]];
/// The services that members export; the last is headless.
const EXPORTED: [&str; 3] = ["c0", "c1", "c2"];
/// Service that a user imports too, in one member.
const IMPORTED: &str = EXPORTED[1];
const IMPORTER: &str = "member2";
/// Maximum number of pods of a service in a member.
const PODS: usize = 4;
const REMEMBERED: usize = 60;

/// A service of a member.
type Place = (&'static str, &'static str, &'static str);

/// Actions so far, and the objects that exist because of them.
pub struct Churn {
    members: Vec<&'static str>,
    exposed: BTreeMap<(&'static str, &'static str), Exposed>,
    exported: BTreeMap<Place, Exported>,
    pods: BTreeMap<Place, Vec<RunningPod>>,
    /// The slices that people made, each with one address.
    by_hand: BTreeSet<Place>,
    /// Delivered Services that somebody applied over.
    claimed: BTreeSet<Place>,
    without: BTreeSet<&'static str>,
    /// The namespace in which nothing is done now.
    spared: Option<&'static str>,
    /// Whether services get preferences among their providers.
    prefers: bool,
    /// Whether services of type LoadBalancer get entry clusters.
    has_entries: bool,
    /// Networks of the members, where they have any.
    networks: Option<Networks>,
    /// Members whose networks changed in this round: what they reach of any service changed.
    relocated: BTreeSet<&'static str>,
    /// Whether no namespace is deleted now.
    keeps_namespaces: bool,
    /// Objects that were deleted in this round, and are recreated only after they are gone.
    leaving: BTreeSet<Key>,
    touched: BTreeSet<Key>,
    steps: VecDeque<String>,
    count: usize,
}

impl Churn {
    /// Makes the namespaces, and in the members the Services that may be exported. Members serve
    /// ServiceImports before.
    pub async fn new(fleet: &Fleet, members: Vec<&'static str>) -> Self {
        let mut churn = Self {
            members,
            exposed: BTreeMap::new(),
            exported: BTreeMap::new(),
            pods: BTreeMap::new(),
            by_hand: BTreeSet::new(),
            claimed: BTreeSet::new(),
            without: BTreeSet::new(),
            spared: None,
            prefers: false,
            has_entries: false,
            networks: None,
            relocated: BTreeSet::new(),
            keeps_namespaces: false,
            leaving: BTreeSet::new(),
            touched: BTreeSet::new(),
            steps: VecDeque::new(),
            count: 0,
        };
        for namespace in NAMESPACES {
            churn.make(fleet, namespace).await;
        }
        churn
    }

    /// From now on services get preferences among their providers, and lose them.
    #[must_use]
    pub fn with_preferences(mut self) -> Self {
        self.prefers = true;
        self
    }

    /// From now on services of type LoadBalancer get entry clusters, whose load balancers give and
    /// take addresses.
    #[must_use]
    pub fn with_entries(mut self) -> Self {
        self.has_entries = true;
        self
    }

    /// Makes a namespace, and in it the Services of members that may be exported.
    async fn make(&mut self, fleet: &Fleet, namespace: &'static str) {
        let has_it = |cluster: &&Cluster| namespace != PARTIAL || cluster.name() != WITHOUT_PARTIAL;
        let clusters: Vec<&Cluster> = fleet.clusters().filter(has_it).collect();
        make_namespace(fleet, namespace, &clusters).await;
        let space = Space::existing(fleet, namespace);
        let import = service_import(IMPORTED).port("http", 80);
        import.create(fleet.member(IMPORTER), &space).await;
        for member in self.members_with(namespace) {
            for name in EXPORTED {
                let place = (namespace, name, member);
                self.exported
                    .insert(place, Exported::make(fleet, place).await);
            }
        }
    }

    fn members_with(&self, namespace: &str) -> Vec<&'static str> {
        let members = self.members.iter().copied();
        members
            .filter(|member| namespace != PARTIAL || *member != WITHOUT_PARTIAL)
            .collect()
    }

    /// From now on nothing is done in one of the namespaces, which stays as it is; gives its name.
    pub fn spare(&mut self) -> &'static str {
        self.spared = Some(PARTIAL);
        PARTIAL
    }

    /// Ends [`Churn::spare`].
    pub fn spare_nothing(&mut self) {
        self.spared = None;
    }

    /// Deletes no namespace until [`Churn::free_namespaces`], and waits until those that are being
    /// deleted are gone. An API server whose definitions change at that time leaves objects of
    /// these kinds in a namespace that is gone.
    pub async fn keep_namespaces(&mut self, fleet: &Fleet) {
        self.keeps_namespaces = true;
        for namespace in &self.without {
            for cluster in fleet.clusters() {
                let api = Api::<Namespace>::all(cluster.client());
                let what = format!("namespace {namespace} is gone in {}", cluster.name());
                eventually(&what, SOON, async || {
                    let found = api.get_opt(namespace).await;
                    found.is_ok_and(|found| found.is_none())
                })
                .await;
            }
        }
    }

    /// Ends [`Churn::keep_namespaces`].
    pub fn free_namespaces(&mut self) {
        self.keeps_namespaces = false;
    }

    /// One thing more.
    pub async fn step(&mut self, fleet: &Fleet, random: &mut Random) {
        if self.networks.is_some() && random.once_in(16) {
            let done = self.network(fleet, random).await;
            return self.note(done);
        }
        let done = match random.below(100) {
            0..32 => self.pods(fleet, random).await,
            32..60 => self.native(fleet, random).await,
            60..84 => self.exports(fleet, random).await,
            84..89 => self.slices(fleet, random).await,
            89..92 => self.claim(fleet, random).await,
            92..96 => self.vandalise(fleet, random).await,
            _ => self.namespace(fleet, random).await,
        };
        self.note(done);
    }

    /// Remembers what was done.
    pub fn note(&mut self, what: String) {
        self.count += 1;
        self.steps.push_back(what);
        if self.steps.len() > REMEMBERED {
            self.steps.pop_front();
        }
    }

    /// Returns the number of actions.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The last things that were done.
    pub fn steps(&self) -> String {
        self.steps
            .iter()
            .map(|step| format!("  {step}\n"))
            .collect()
    }

    /// Whether what was seen has to do with what was done in this round.
    pub fn explains(&self, sight: &Sight) -> bool {
        self.touched.contains(&sight.service) || self.relocated.contains(&*sight.member)
    }

    /// Lists the deleted objects that still exist.
    pub(super) fn still_there(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut found = Vec::new();
        for key in self
            .leaving
            .iter()
            .filter(|key| snapshot.exposed.contains_key(*key))
        {
            found.push(format!(
                "MultiClusterService {key:?} was deleted and is still there"
            ));
        }
        for namespace in &self.without {
            let is_it = |name: &String| name == namespace;
            let members = snapshot
                .members
                .values()
                .flat_map(|member| &member.namespaces);
            if members.chain(&snapshot.namespaces).any(is_it) {
                found.push(format!(
                    "namespace {namespace} was deleted and is still there"
                ));
            }
        }
        found
    }

    /// A round is over: all is as it should be.
    pub fn settled(&mut self) {
        self.leaving.clear();
        self.touched.clear();
        self.relocated.clear();
    }

    fn touch(&mut self, namespace: &str, name: &str) {
        self.touched.insert((namespace.to_owned(), name.to_owned()));
    }

    fn somewhere(&self, random: &mut Random) -> &'static str {
        let there: Vec<_> = NAMESPACES
            .into_iter()
            .filter(|name| !self.without.contains(name) && self.spared != Some(name))
            .collect();
        there[random.below(there.len())]
    }

    async fn pods(&mut self, fleet: &Fleet, random: &mut Random) -> String {
        let namespace = self.somewhere(random);
        let all: Vec<&str> = NATIVE.into_iter().chain(EXPORTED).collect();
        let (name, member) = (*random.of(&all), *random.of(&self.members_with(namespace)));
        self.touch(namespace, name);
        let place = format!("of {namespace}/{name} in {member}");
        let node = self.node(member, random).filter(|_| random.once_in(2));
        let pods = self.pods.entry((namespace, name, member)).or_default();
        if pods.is_empty() || (pods.len() < PODS && random.once_in(2)) {
            let space = Space::existing(fleet, namespace);
            let more = 1 + random.below(3);
            let cluster = fleet.member(member);
            let node = node.unwrap_or_else(|| cluster.node_name());
            let new = space.backends(name).count(more).on_node(&node);
            pods.extend(new.create(cluster).await);
            return format!("{more} pods more {place} on {node}");
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
        if !self.without.contains(PASSING) && random.once_in(2) && !self.keeps_namespaces {
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
            self.by_hand.retain(|(namespace, ..)| *namespace != PASSING);
            self.claimed.retain(|(namespace, ..)| *namespace != PASSING);
            self.exported
                .retain(|(namespace, ..), _| *namespace != PASSING);
            self.without.insert(PASSING);
            self.leaving.insert(gone);
            return format!("namespace {PASSING} is deleted everywhere");
        }
        if self.without.contains(PASSING) && !self.leaving.contains(&gone) {
            self.make(fleet, PASSING).await;
            self.without.remove(PASSING);
            return format!("namespace {PASSING} is recreated");
        }
        "nothing".to_owned()
    }
}

/// A namespace in these clusters.
pub(super) async fn make_namespace(fleet: &Fleet, name: &str, clusters: &[&Cluster]) {
    let space = Space::existing(fleet, name);
    join_all(clusters.iter().map(|cluster| space.create_in(cluster))).await;
}
