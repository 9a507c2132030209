//! What the hub's watches do not answer for sure is asked outright.

use causeway::domain::ServiceKey;
use tokio::time::Instant;

use super::Controller;
use crate::ask;
use crate::failure::Failure;
use crate::index::Item;

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
}
