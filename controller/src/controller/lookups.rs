//! Lookups of objects that the hub's watches do not show for sure.

use std::collections::BTreeSet;
use std::time::Instant;

use causeway::domain::ServiceKey;
use causeway_engine::messages::events;
use causeway_engine::model::propagation::Propagation;
use causeway_engine::model::{Failure, Item, ObjectId, TargetCluster};

use super::{Controller, Parts};
use crate::event_recorder::EventClient;
use crate::lookup;

impl Controller {
    /// Something of a service is there of which no MultiClusterService is known.
    pub(super) fn look_up(&mut self, key: &ServiceKey, now: Instant) {
        let holders = self.parts.index.native_holders(key);
        if let Some(at) = self.lookups.want(key, holders, now) {
            self.queue.at(Item::Service(key.clone()), at);
        }
        self.begin_lookups();
    }

    /// A policy of Karmada's is to propagate a Service that causeway has delivered: whether it can
    /// is looked up now and then.
    pub(super) fn look_up_binding(&mut self, key: &ServiceKey, now: Instant) {
        let index = &mut self.parts.index;
        if index.beside_policy(key).next().is_none() {
            index.note_propagation(key, BTreeSet::new());
            return;
        }
        let holders = index.beside_policy(key);
        if let Some(at) = self.bindings.want(key, holders, now) {
            self.queue.at(Item::Service(key.clone()), at);
        }
        self.begin_lookups();
    }

    /// Begins the lookups that still matter, of both kinds, as many as may be under way.
    fn begin_lookups(&mut self) {
        let Parts {
            index, hub, tasks, ..
        } = &self.parts;
        let has_leftovers = |key: &ServiceKey| !index.exposes(key) && index.owns_native(key);
        while let Some(key) = self.lookups.begin(has_leftovers) {
            let events = self.events.clone();
            tasks.spawn_job(
                "lookup",
                lookup::multi_cluster_service(hub.clone(), key, events),
            );
        }
        let has_policy = |key: &ServiceKey| index.beside_policy(key).next().is_some();
        while let Some(key) = self.bindings.begin(has_policy) {
            let events = self.events.clone();
            tasks.spawn_job("lookup", lookup::propagation(hub.clone(), key, events));
        }
    }

    /// Looks up the other writers of the copies of a service over which there is a write conflict.
    pub(super) fn look_up_writers(&mut self, key: &ServiceKey) {
        let Parts {
            write_queue,
            fleet,
            tasks,
            ..
        } = &mut self.parts;
        let item = Item::Service(key.clone());
        for (target, slice) in write_queue.write_conflicts.take_lookups(&item) {
            if let TargetCluster::Member(cluster) = target
                && let Some(EventClient { client, .. }) = fleet.client(&cluster)
            {
                let (client, events) = (client.clone(), self.events.clone());
                let job = lookup::writer(client, cluster, key.clone(), slice, events);
                tasks.spawn_job("lookup", job);
            }
        }
    }

    pub(super) fn propagated(&mut self, key: &ServiceKey, outcome: Result<Propagation, Failure>) {
        let now = Instant::now();
        let pause = match &outcome {
            Ok(propagation) if !propagation.is_complete => lookup::REMEMBERED,
            _ => lookup::SELDOM,
        };
        self.bindings.answered(key, pause, now);
        self.begin_lookups();
        self.queue.at(Item::Service(key.clone()), now + pause);
        let Ok(propagation) = outcome.inspect_err(|failure| {
            tracing::debug!(namespace = %key.namespace, name = %key.name, error = %failure, "ResourceBinding lookup failed");
        }) else {
            return;
        };
        let index = &mut self.parts.index;
        let before = !index.refused_propagation(key).is_empty();
        index.note_propagation(key, propagation.refused);
        index.mark(Item::Service(key.clone()));
        let clusters = index.refused_propagation(key);
        if before || clusters.is_empty() {
            return;
        }
        let news = events::policy_conflict(key, &clusters);
        let object = ObjectId::MultiClusterService(key.clone());
        self.record(
            &TargetCluster::Hub,
            &Item::Service(key.clone()),
            &object,
            vec![news],
        );
    }

    pub(super) fn looked_up(&mut self, key: ServiceKey, exists: Result<bool, Failure>) {
        let now = Instant::now();
        let pause = match &exists {
            Ok(_) => lookup::REMEMBERED,
            Err(_) => lookup::AGAIN,
        };
        self.lookups.answered(&key, pause, now);
        self.begin_lookups();
        match exists {
            Ok(false) if !self.parts.index.exposes(&key) => {
                tracing::info!(namespace = %key.namespace, name = %key.name, "collecting leftovers, MultiClusterService not found");
                self.parts.index.apply_confirmed_absence(key);
            }
            Ok(_) => {}
            Err(failure) => {
                tracing::warn!(namespace = %key.namespace, name = %key.name, error = %failure, "MultiClusterService lookup failed, retrying");
                self.queue.at(Item::Service(key), now + lookup::AGAIN);
            }
        }
    }
}
