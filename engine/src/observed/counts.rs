//! Counts of services that metrics show, as of the last plan of each service.

use causeway::domain::ServiceKey;

use super::Index;
use super::shares::{NotedShares, ShareFigures};
use super::tiers::{TierCount, TiersOfService};
use super::unreached::{UnreachedCount, UnreachedOfService};
use super::unready::{ReasonCount, not_ready};

impl Index {
    /// Notes the active tiers of a service, by consumer. Returns the counts that changed.
    pub fn note_tiers(&mut self, key: &ServiceKey, tiers: TiersOfService) -> Vec<TierCount> {
        self.tiers.note(key, tiers)
    }

    /// Drops the noted tiers: a process that no longer writes reports none. Returns the counts that
    /// changed.
    pub fn drop_tiers(&mut self) -> Vec<TierCount> {
        self.tiers.clear()
    }

    /// Notes the shares of a service, or that it has none. Returns the figures of all services if
    /// they may have changed.
    pub fn note_shares(
        &mut self,
        key: &ServiceKey,
        shares: Option<NotedShares>,
    ) -> Option<ShareFigures> {
        self.shares.note(key, shares)
    }

    /// Drops the noted shares: a process that no longer writes reports none. Returns the figures.
    pub fn drop_shares(&mut self) -> ShareFigures {
        self.shares.clear()
    }

    /// Notes whether a MultiClusterService is Ready. Returns the counts that changed.
    pub fn note_readiness(&mut self, key: &ServiceKey) -> Vec<ReasonCount> {
        let mcs = self.hub.multi_cluster_services.get(key);
        self.unready.note(key, mcs.and_then(not_ready))
    }

    /// Drops the noted reasons why MultiClusterServices are not Ready: a process that no longer
    /// writes reports none. Returns the counts that changed.
    pub fn drop_unready(&mut self) -> Vec<ReasonCount> {
        self.unready.clear()
    }

    /// Notes the providers of a service that consumers of other networks do not reach. Returns the
    /// counts that changed.
    pub fn note_unreached(
        &mut self,
        key: &ServiceKey,
        unreached: UnreachedOfService,
    ) -> Vec<UnreachedCount> {
        self.unreached.note(key, unreached)
    }

    /// Drops the noted providers that consumers of other networks do not reach: a process that no
    /// longer writes reports none. Returns the counts that changed.
    pub fn drop_unreached(&mut self) -> Vec<UnreachedCount> {
        self.unreached.clear()
    }
}
