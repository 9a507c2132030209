//! What the hub's watches do not answer for sure is asked outright.

use causeway::domain::ServiceKey;
use tokio::time::Instant;

use super::{Controller, Parts};
use crate::ask;
use crate::failure::Failure;
use crate::index::Item;

impl Controller {
    /// Something of a service is there of which no MultiClusterService is known.
    pub(super) fn look_up(&mut self, key: &ServiceKey, now: Instant) {
        let holders = self.parts.index.native_holders(key);
        if let Some(at) = self.lookups.want(key, holders, now) {
            self.queue.at(Item::Service(key.clone()), at);
        }
        self.begin_lookups();
    }

    fn begin_lookups(&mut self) {
        let Parts {
            index, hub, tasks, ..
        } = &self.parts;
        let matters = |key: &ServiceKey| !index.hub.exposes(key) && index.owns_native(key);
        while let Some(key) = self.lookups.begin(matters) {
            let lookup = ask::multi_cluster_service(hub.clone(), key, self.events.clone());
            tasks.spawn_job("ask", lookup);
        }
    }

    pub(super) fn answered(&mut self, key: ServiceKey, exists: Result<bool, Failure>) {
        let now = Instant::now();
        let pause = match &exists {
            Ok(_) => ask::REMEMBERED,
            Err(_) => ask::AGAIN,
        };
        self.lookups.answered(&key, pause, now);
        self.begin_lookups();
        match exists {
            Ok(false) if !self.parts.index.hub.exposes(&key) => {
                tracing::info!(service = %key, "leftovers are collected: the hub has no MultiClusterService of that name");
                self.parts.index.hub.confirmed_gone.insert(key.clone());
                self.parts.index.mark(Item::Service(key));
            }
            Ok(_) => {}
            Err(failure) => {
                tracing::warn!(service = %key, %failure, "the hub could not be asked for a MultiClusterService");
                self.queue.at(Item::Service(key), now + ask::AGAIN);
            }
        }
    }
}
