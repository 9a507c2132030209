//! Members come, say who they are and what they hold, and leave.

use causeway::api;
use causeway::domain::{ClusterName, Failover, ServiceKey};
use causeway_engine::messages::{events, unusable};
use causeway_engine::model::slice::SliceRole;
use causeway_engine::model::{
    Configuration, Failure, FailureKind, Generation, HubEvent, Item, MemberEvent, MemberState,
    Signal, TargetCluster, TimePoint,
};
use causeway_engine::reconcile::{
    ClusterOutcome, RefusedProfile, follow_removal, refused_profiles,
};
use causeway_engine::removal::Leftovers;
use kube::Resource as _;

use super::{Controller, HUB, Parts, SourceChange};
use crate::clock;
use crate::event::Round;
use crate::event_recorder::reference;
use crate::fleet::Outcome;
use crate::given::Given;
use crate::lookup;
use crate::metrics::Connectivity;
use crate::traces::{Kind, Source};
use crate::watch::RelistRequests;

impl Controller {
    pub(super) fn apply_hub(&mut self, event: HubEvent, now: TimePoint) {
        let event = match event {
            HubEvent::Secrets(namespace, signal) => {
                for name in self.parts.fleet.note_secrets(&namespace, signal) {
                    self.engage(&name);
                }
                return;
            }
            HubEvent::ProfilesServed(namespace, served) => {
                if !served {
                    for name in self.parts.fleet.note_profiles_listed(&namespace) {
                        self.engage(&name);
                    }
                }
                HubEvent::ProfilesServed(namespace, served)
            }
            HubEvent::Profiles(namespace, signal) => {
                for name in self.parts.fleet.note_profiles(&namespace, &signal) {
                    self.engage(&name);
                }
                HubEvent::Profiles(namespace, signal)
            }
            other => other,
        };
        let is_of_profiles = matches!(event, HubEvent::Clusters(_) | HubEvent::Profiles(..));
        let touched = match &event {
            HubEvent::Clusters(signal) => self.parts.fleet.note_clusters(signal),
            _ => Default::default(),
        };
        let changed = self.multi_cluster_service_of(&event);
        let stood = changed.as_ref().map(|key| self.asked_for(key));
        self.parts.index.apply_hub(event, now);
        if let Some(key) = changed
            && stood != Some(self.asked_for(&key))
        {
            self.traces.event(&key, now, || Source {
                cluster: TargetCluster::Hub.name().to_owned(),
                kind: Kind::MultiClusterService,
            });
        }
        for name in touched {
            if let Some(cluster) = self.parts.index.cluster(&name) {
                let reach = cluster.reach.as_ref();
                self.parts.metrics.cluster(&name, &cluster.network, reach);
            }
            self.engage(&name);
            self.confirm_deletions(&name, now);
        }
        if is_of_profiles {
            self.note_refused_profiles();
        }
    }

    /// Uses what a plugin or an agent gave for a member.
    pub(super) fn apply_credentials(
        &mut self,
        name: &ClusterName,
        round: Round,
        outcome: Result<Given, Failure>,
    ) {
        let error = outcome.as_ref().err().cloned();
        if self.parts.fleet.note_credentials(name, round, outcome)
            && let Some(error) = error
        {
            tracing::warn!(cluster = %name, %error, "credentials not renewed, retrying");
        }
        self.engage(name);
    }

    /// Records an Event for each ClusterProfile of which no Cluster is made, once for each reason.
    fn note_refused_profiles(&mut self) {
        let Parts {
            index,
            keeps_clusters,
            ..
        } = &self.parts;
        if !self.leads || !index.is_hub_listed() {
            return;
        }
        let refused = refused_profiles(index, *keeps_clusters.borrow());
        let known = std::mem::take(&mut self.refused_profiles);
        for RefusedProfile { id, uid, event } in refused {
            if known.get(&id) != Some(&event.note) {
                let (version, kind) = (api::ClusterProfile::api_version(&()), "ClusterProfile");
                let about = reference(version, kind, Some(&id.namespace), &id.name, Some(&uid));
                self.record_on_hub(about, event.clone());
            }
            self.refused_profiles.insert(id, event.note);
        }
    }

    /// The MultiClusterService that an event is about, where its trace may begin.
    fn multi_cluster_service_of(&self, event: &HubEvent) -> Option<ServiceKey> {
        match event {
            HubEvent::MultiClusterServices(Signal::Applied(mcs) | Signal::Deleted(mcs))
                if self.leads && self.traces.is_on() =>
            {
                let namespace = mcs.metadata.namespace.as_deref()?;
                Some(ServiceKey::new(namespace, mcs.metadata.name.as_deref()?))
            }
            _ => None,
        }
    }

    /// Returns the requests of a person in a MultiClusterService. The controller's own writes to it
    /// change none of them.
    fn asked_for(&self, key: &ServiceKey) -> Option<(i64, bool, Failover)> {
        let mcs = self.parts.index.multi_cluster_service(key)?;
        Some((mcs.generation, mcs.is_deleting(), mcs.failover.clone()))
    }

    /// Engages a member as its Cluster and its Secret are now, and notes what is wrong with them.
    pub(super) fn engage(&mut self, name: &ClusterName) {
        let stood = self.parts.index.member_state(name);
        if self.parts.index.note_recorded_uid(name) {
            self.parts.fleet.note_recorded_uid(name);
        }
        let configuration = match self.parts.fleet.reconsider(name) {
            Outcome::Pending => return,
            Outcome::Awaited => Configuration::Awaited,
            Outcome::Unchanged | Outcome::Renewed => Configuration::Valid,
            Outcome::Engaged(generation) => {
                let recorded_uid = self.parts.fleet.recorded_uid(name);
                self.parts.index.engage(name, generation, recorded_uid);
                Configuration::Valid
            }
            Outcome::Unreached(generation, failure) => {
                return self.note_unreached(name, generation, failure);
            }
            Outcome::Kept(error) => Configuration::Outdated(error),
            Outcome::Refused(error) => Configuration::Refused(error),
            Outcome::LeftOut => {
                self.parts.index.stop_watching(name);
                self.show_state(name);
                return;
            }
        };
        let now = clock::now();
        if self
            .parts
            .index
            .note_configuration(name, configuration, now)
        {
            self.note_state(name, &stood);
        }
        self.show_state(name);
    }

    /// Notes that a member is unreachable whose address is not known, because its agent, which
    /// gives it, is not reached.
    fn note_unreached(&mut self, name: &ClusterName, generation: Generation, failure: Failure) {
        let stood = self.parts.index.member_state(name);
        let known = self.parts.index.member(name);
        if known.is_none_or(|member| member.generation() != generation) {
            let recorded_uid = self.parts.fleet.recorded_uid(name);
            self.parts.index.engage(name, generation, recorded_uid);
        }
        let now = clock::now();
        self.parts
            .index
            .note_configuration(name, Configuration::Valid, now);
        let event = MemberEvent::Probed(Err(failure));
        self.parts.index.apply_member(name, event, now);
        self.note_state(name, &stood);
        self.show_state(name);
    }

    fn show_state(&self, name: &ClusterName) {
        let state = connectivity(&self.parts.index.member_state(name));
        self.parts.metrics.member_state(name, state);
    }

    pub(super) fn apply_member(
        &mut self,
        name: &ClusterName,
        generation: Generation,
        event: MemberEvent,
        now: TimePoint,
    ) {
        let member = self.parts.index.member(name);
        if member.is_none_or(|member| member.generation() != generation) {
            return;
        }
        self.parts.metrics.member_event(name, now.wall);
        if let MemberEvent::Slices(signal) | MemberEvent::OtherSlices(signal) = &event
            && let Signal::Applied(slice) | Signal::Deleted(slice) = signal
            && let SliceRole::Source(key, _) = &slice.role
            && self.leads
            && (self.parts.index.exposes(key) || self.parts.index.is_exported(key))
        {
            let change = SourceChange {
                since: now.instant,
                written: None,
            };
            self.sources_changed.entry(key.clone()).or_insert(change);
            self.traces.event(key, now, || Source {
                cluster: name.to_string(),
                kind: Kind::EndpointSlice,
            });
        }
        if let MemberEvent::VersionChanged(_) = &event {
            let cluster = TargetCluster::Member(name.clone());
            self.parts.write_queue.write_conflicts.end(&cluster);
        }
        let suspended = |controller: &Self| {
            let member = controller.parts.index.member(name);
            member.map_or(0, |member| member.suspended_deletions().count)
        };
        let (stood, before) = (self.parts.index.member_state(name), suspended(self));
        let of_paths = matches!(event, MemberEvent::Paths(_));
        let probed = match &event {
            MemberEvent::Probed(outcome) => Some(outcome.as_ref().err().map(|error| error.kind)),
            _ => None,
        };
        self.parts.index.apply_member(name, event, now);
        if of_paths {
            self.note_paths(name);
        }
        if suspended(self) != before {
            self.confirm_deletions(name, now);
        }
        self.note_state(name, &stood);
        // A refused member that rejects the token may be the right cluster again.
        if let Some(failure) = probed
            && matches!(self.parts.index.member_state(name), MemberState::Refused(_))
        {
            self.parts.fleet.note_unreachable(name, failure);
        }
    }

    /// Shows the number of suspended deletions of the hub or a member. A member may be called hub
    /// too.
    pub(super) fn show_suspended_deletions(&self, cluster: &str) {
        let index = &self.parts.index;
        let member = index.member(cluster);
        let of_member = member.map_or(0, |member| member.suspended_deletions().count);
        let of_hub = match cluster {
            HUB => index.hub_suspended_deletions(),
            _ => 0,
        };
        self.parts
            .metrics
            .deletions_suspended(cluster, of_member + of_hub);
    }

    fn note_state(&mut self, name: &ClusterName, stood: &MemberState) {
        let stands = self.parts.index.member_state(name);
        if stands == *stood {
            return;
        }
        tracing::info!(
            cluster = %name,
            state = connectivity(&stands).as_str(),
            error = unusable(&stands),
            "member state changed"
        );
        self.show_state(name);
        let failure = match &stands {
            MemberState::Unreachable { failure, .. } => Some(failure.kind),
            _ => None,
        };
        self.parts.fleet.note_unreachable(name, failure);
        if failure == Some(FailureKind::Unauthorized)
            && let Some(secret) = self.parts.fleet.secret_of(name)
        {
            let (hub, events) = (self.parts.hub.clone(), self.events.clone());
            let job = lookup::credentials(hub, secret, events);
            self.parts.tasks.spawn_job("lookup", job);
        }
        if stands == MemberState::Synced {
            self.parts
                .write_queue
                .reset(&TargetCluster::Member(name.clone()));
        }
    }

    /// A person may have confirmed the member's suspended deletions.
    fn confirm_deletions(&mut self, name: &ClusterName, now: TimePoint) {
        if self.parts.index.deletions_are_confirmed(name, now) {
            tracing::warn!(cluster = %name, "deletions confirmed by annotation, relisting");
            let confirm = |requests: &mut RelistRequests| requests.confirm_deletions += 1;
            self.parts.fleet.relist(name, confirm);
        }
    }

    /// A follower cleans nothing; it forgets a member once the leader has had its time.
    pub(super) fn forget_if_gone(&mut self, name: &ClusterName, now: TimePoint) {
        match follow_removal(&self.parts.index, name, now) {
            ClusterOutcome::Stays => {}
            ClusterOutcome::LookAgain(at) => self.queue.at(Item::Cluster(name.clone()), at),
            ClusterOutcome::Removed(left) => self.forget(name, &left),
        }
    }

    /// Stops watching a removed member and drops its state. Reports the objects that may be left in
    /// it.
    pub(super) fn forget(&mut self, name: &ClusterName, left: &Leftovers) {
        if let Some(event) = events::member_leftovers(left, name, self.parts.index.hub_uid()) {
            let note = &event.note;
            tracing::warn!(cluster = %name, services = ?left.services, note, "leftovers remain");
            if self.leads {
                let cluster = self.parts.index.cluster(name);
                let uid = cluster.map(|cluster| &*cluster.uid);
                let version = api::Cluster::api_version(&());
                let about = reference(version, "Cluster", None, name.as_str(), uid);
                self.record_on_hub(about, event);
            }
        }
        self.parts.fleet.stop_watching(name);
        self.parts.index.remove_cluster(name);
        self.parts
            .write_queue
            .remove(&TargetCluster::Member(name.clone()));
        self.parts.metrics.forget_member(name);
    }
}

fn connectivity(state: &MemberState) -> Connectivity {
    match state {
        MemberState::Synced => Connectivity::Synced,
        MemberState::Syncing | MemberState::NotJoined => Connectivity::Syncing,
        MemberState::Unreachable { .. } => Connectivity::Unreachable,
        MemberState::Unwatched { .. } | MemberState::Refused(_) => Connectivity::Refused,
        MemberState::LeftOut(_) => Connectivity::LeftOut,
    }
}
