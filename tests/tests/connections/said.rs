//! Collected reports of a member's task.

use std::collections::BTreeMap;
use std::sync::Arc;

use causeway::domain::{ClusterName, KubernetesVersion};
use causeway_controller::event::Event;
use causeway_controller::member::{Member, Settings};
use causeway_controller::watch::RelistRequests;
use causeway_engine::model::served::Served;
use causeway_engine::model::slice::{ObservedSlice, SliceScope};
use causeway_engine::model::{FailureKind, Generation, MemberEvent, Signal};
use causeway_tests::{Cluster, SOON};
use kube::{Client, Resource, ResourceExt as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::{Ended, ended};

const GENERATION: Generation = 7;
const NATIVE: [&str; 3] = ["services", "slices", "namespaces"];

/// Reports of a member so far.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) identities: Vec<String>,
    pub(crate) probes: Vec<Result<(), String>>,
    pub(crate) served: Vec<Served>,
    /// The names in the last list of each kind, and those that were applied since; EndpointSlices
    /// have none.
    pub(crate) listed: BTreeMap<&'static str, Vec<String>>,
    pub(crate) failed: BTreeMap<&'static str, Vec<FailureKind>>,
    connected: BTreeMap<&'static str, usize>,
}

impl Said {
    fn take(&mut self, event: MemberEvent) {
        match event {
            MemberEvent::VersionChanged(_)
            | MemberEvent::ClusterId(_)
            | MemberEvent::SliceScope(SliceScope::All) => {}
            MemberEvent::SliceScope(_)
            | MemberEvent::OtherSlices(_)
            | MemberEvent::Rescoped(..) => panic!("all slices are watched"),
            MemberEvent::Identified(identity) => {
                assert!(identity.release >= KubernetesVersion::OLDEST_MEMBER);
                self.identities.push(identity.uid);
            }
            MemberEvent::Probed(outcome) => self
                .probes
                .push(outcome.map_err(|failure| failure.to_string())),
            MemberEvent::Services(signal) => self.note("services", signal, name),
            MemberEvent::Slices(signal) => {
                self.note("slices", signal, |_: &ObservedSlice| String::new())
            }
            MemberEvent::Namespaces(signal) => self.note("namespaces", signal, name),
            MemberEvent::Nodes(signal) => panic!("{signal:?} though nodes are not needed"),
            MemberEvent::Paths(signal) => panic!("{signal:?} though paths are not needed"),
            MemberEvent::NotDiscovered(failure) => {
                self.failed
                    .entry("discovery")
                    .or_default()
                    .push(failure.kind);
            }
            MemberEvent::Served(served) => self.served.push(served),
            MemberEvent::Exports(signal) => {
                let served = self.serves().is_some_and(|served| served.exports.is_some());
                assert!(served, "{signal:?} though exports are not served");
                self.note("exports", signal, name);
            }
            MemberEvent::Imports(signal) => {
                let served = self.serves().is_some_and(|served| served.imports.is_some());
                assert!(served, "{signal:?} though imports are not served");
                self.note("imports", signal, name);
            }
        }
    }

    fn note<K>(&mut self, kind: &'static str, signal: Signal<K>, name: impl Fn(&K) -> String) {
        match signal {
            Signal::Listed(objects) => {
                let names = objects.iter().map(name).collect();
                self.listed.insert(kind, names);
            }
            Signal::Applied(object) => self.listed.entry(kind).or_default().push(name(&object)),
            Signal::Deleted(object) => {
                let gone = name(&object);
                let listed = self.listed.entry(kind).or_default();
                listed.retain(|name| *name != gone);
            }
            Signal::Confirmed | Signal::Current(_) => {}
            Signal::DeletionsSuspended(missing) => panic!("{missing} {kind} are missing at once"),
            Signal::Connected => *self.connected.entry(kind).or_default() += 1,
            Signal::Failed(failure) => self.failed.entry(kind).or_default().push(failure.kind),
        }
    }

    /// Returns the number of connections of the watches that every cluster has.
    pub(crate) fn natives_connected(&self) -> usize {
        let connected = NATIVE.iter().filter_map(|kind| self.connected.get(kind));
        connected.sum()
    }

    /// The kinds that every cluster has and whose watch failed.
    pub(crate) fn natives_failed(&self) -> Vec<&'static str> {
        let failed = |kind: &&str| self.failed.contains_key(kind);
        NATIVE.into_iter().filter(failed).collect()
    }

    /// Returns the last report of the served versions.
    pub(crate) fn serves(&self) -> Option<&Served> {
        self.served.last()
    }

    /// Whether an object of that kind is known to be there.
    pub(crate) fn knows(&self, kind: &str, name: &str) -> bool {
        let listed = self.listed.get(kind);
        listed.is_some_and(|names| names.iter().any(|known| known == name))
    }

    /// Forgets what was listed and how watches fared: what is reported from here on counts.
    pub(crate) fn forget_objects(&mut self) {
        self.listed.clear();
        self.failed.clear();
        self.connected.clear();
    }
}

fn name<K: Resource>(object: &K) -> String {
    object.name_any()
}

/// Reports of one member's task.
pub(crate) struct Reported {
    events: mpsc::Receiver<Event>,
    pub(crate) said: Said,
    _ended: Ended,
}

impl Reported {
    /// Engages a member by this client.
    pub(crate) fn by(member: &Cluster, client: Client, settings: Settings) -> Self {
        let name = ClusterName::try_from(member.name()).unwrap();
        let (tell, events) = mpsc::channel(64);
        let same = client.clone();
        let connect = Arc::new(move || Ok(same.clone()));
        let (_, relist_requests) = tokio::sync::watch::channel(RelistRequests::default());
        let (_, not_needed) = tokio::sync::watch::channel(false);
        let (_, slice_scope) = tokio::sync::watch::channel(Some(SliceScope::All));
        let member = Member {
            name,
            client,
            connect,
            generation: GENERATION,
            events: tell,
            relist_requests,
            needs_nodes: not_needed.clone(),
            needs_paths: not_needed,
            slice_scope,
            settings,
        };
        let task = tokio::spawn(member.run());
        Self {
            events,
            said: Said::default(),
            _ended: ended(&task),
        }
    }

    /// Takes what is reported until the condition holds.
    pub(crate) async fn until(&mut self, what: &str, holds: impl Fn(&Said) -> bool) {
        let deadline = Instant::now() + SOON;
        while !holds(&self.said) {
            match timeout_at(deadline, self.events.recv()).await {
                Ok(Some(Event::Member {
                    generation: GENERATION,
                    event,
                    ..
                })) => self.said.take(event),
                Ok(other) => panic!("{other:?} and not what a member says"),
                Err(_) => panic!("not in time: {what}: {:?}", self.said),
            }
        }
    }
}
