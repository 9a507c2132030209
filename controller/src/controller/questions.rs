//! What the hub's watches do not answer for sure is asked outright.

use std::time::Duration;

use causeway::domain::ServiceKey;
use tokio::time::Instant;

use super::Controller;
use crate::ask;
use crate::failure::Failure;
use crate::index::Item;
use crate::reconcile::Now;

impl Controller {
    pub(super) fn answered(&mut self, key: ServiceKey, exists: Result<bool, Failure>) {
        self.asked.remove(&key);
        match exists {
            Ok(false) if !self.parts.index.hub.exposes(&key) => {
                tracing::info!(service = %key, "leftovers are collected: the hub has no MultiClusterService of that name");
                self.parts.index.hub.confirmed_gone.insert(key.clone());
                self.parts.index.mark(Item::Service(key));
            }
            Ok(_) => {}
            Err(failure) => {
                tracing::warn!(service = %key, %failure, "the hub could not be asked for a MultiClusterService");
                self.queue
                    .at(Item::Service(key), Instant::now() + ask::AGAIN);
            }
        }
    }

    pub(super) fn works_sought(&mut self, key: ServiceKey, found: Result<bool, Failure>, now: Now) {
        self.asked.remove(&key);
        if !self.parts.index.hub.exposes(&key) {
            return;
        }
        match found {
            Ok(found) => {
                let known = self
                    .parts
                    .index
                    .hub
                    .karmada_works
                    .insert(key.clone(), found);
                if known != Some(found) {
                    self.parts.index.mark(Item::Service(key.clone()));
                }
                if found {
                    self.seek_works(&key, ask::WORKS_AGAIN);
                }
            }
            Err(failure) => {
                tracing::warn!(service = %key, %failure, "the hub could not be asked for Karmada's Works");
                self.queue.at(Item::Service(key), now.instant + ask::AGAIN);
            }
        }
    }

    /// Whether it is known if Karmada's own controllers carry the service.
    pub(super) fn knows_works(&self, key: &ServiceKey) -> bool {
        let hub = &self.parts.index.hub;
        hub.karmada_works.contains_key(key) || !hub.exposes(key)
    }

    pub(super) fn seek_works(&mut self, key: &ServiceKey, after: Duration) {
        let mcs = self.parts.index.hub.multi_cluster_services.get(key);
        let Some(id) = mcs.and_then(|mcs| mcs.permanent_id.clone()) else {
            self.parts
                .index
                .hub
                .karmada_works
                .insert(key.clone(), false);
            return self.parts.index.mark(Item::Service(key.clone()));
        };
        if self.asked.insert(key.clone()) {
            let question = ask::works(
                self.parts.hub.clone(),
                key.clone(),
                id,
                after,
                self.events.clone(),
            );
            self.parts.tasks.spawn_job("ask", question);
        }
    }
}
