//! Counts of services that metrics show, as of the last plan of each service.

use causeway::domain::ServiceKey;

use super::Index;
use super::shares::{NotedShares, ShareFigures};
use super::tiers::{TierCount, TiersOfService};
use super::unreached::{UnreachedCount, UnreachedOfService};
use super::unready::{ReasonCount, not_ready};

/// Counts of services that changed.
#[derive(Debug)]
pub struct CountChanges {
    /// Services by consumer and farthest active tier.
    pub tiers: Vec<TierCount>,
    /// Figures of all services with shares, if they may have changed.
    pub shares: Option<ShareFigures>,
    /// Services by provider that consumers of other networks do not reach, and reason.
    pub unreached: Vec<UnreachedCount>,
    /// MultiClusterServices that are not Ready, by reason.
    pub unready: Vec<ReasonCount>,
}

impl Index {
    /// Notes the active tiers of a service in its consumers, its shares, and the providers that
    /// consumers of other networks do not reach. Returns the counts that changed.
    pub(crate) fn note_counts(
        &mut self,
        key: &ServiceKey,
        tiers: TiersOfService,
        shares: Option<NotedShares>,
        unreached: UnreachedOfService,
    ) -> CountChanges {
        let mcs = self.hub.multi_cluster_services.get(key);
        CountChanges {
            tiers: self.tiers.note(key, tiers),
            shares: self.shares.note(key, shares),
            unreached: self.unreached.note(key, unreached),
            unready: self.unready.note(key, mcs.and_then(not_ready)),
        }
    }

    /// Notes the active tiers of a service, and nothing else of its plan.
    pub(crate) fn note_tiers(&mut self, key: &ServiceKey, tiers: TiersOfService) {
        self.tiers.note(key, tiers);
    }

    /// Drops all counts: a process that no longer writes reports none. Returns those that changed.
    pub fn drop_counts(&mut self) -> CountChanges {
        CountChanges {
            tiers: self.tiers.clear(),
            shares: Some(self.shares.clear()),
            unreached: self.unreached.clear(),
            unready: self.unready.clear(),
        }
    }
}
