//! Number of services whose providers consumers of other networks do not reach, by provider and
//! reason.

use std::collections::BTreeSet;

use causeway::domain::{ClusterName, ServiceKey};

use super::tally::Tally;
use crate::model::map::HashMap;

/// Provider that consumers of other networks do not reach, and the reason.
type Unreached = (ClusterName, &'static str);

/// Providers of one service that consumers of other networks do not reach.
pub(crate) type UnreachedOfService = BTreeSet<Unreached>;

/// Provider and reason, and the number of services that the provider does not serve for it.
pub(crate) type UnreachedCount = (Unreached, usize);

/// Providers that consumers of other networks do not reach, by service.
#[derive(Debug, Default)]
pub(crate) struct UnreachedNotes {
    /// Services with any such provider.
    services: HashMap<ServiceKey, UnreachedOfService>,
    counts: Tally<Unreached>,
}

impl UnreachedNotes {
    /// Notes the providers of a service that consumers of other networks do not reach. Returns the
    /// counts that changed.
    pub(crate) fn note(
        &mut self,
        key: &ServiceKey,
        unreached: UnreachedOfService,
    ) -> Vec<UnreachedCount> {
        let before = match unreached.is_empty() {
            true => self.services.remove(key),
            false => self.services.insert(key.clone(), unreached.clone()),
        };
        self.counts.replace(before.unwrap_or_default(), unreached)
    }

    /// Drops all notes. Returns the counts that changed.
    pub(crate) fn clear(&mut self) -> Vec<UnreachedCount> {
        std::mem::take(self).counts.clear()
    }
}
