//! Which tiers carried services in their consumers when they were last planned, and since when fewer would have been enough.

use std::collections::{BTreeMap, HashMap};

use causeway::domain::{ClusterName, ServiceKey, Tier};

use crate::model::TimePoint;
use crate::model::slice::Path;

/// How one consumer used the tiers of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct NotedTiers {
    /// The farthest tier that carried; none where all providers are alike.
    pub farthest: Option<Tier>,
    /// Since when nearer tiers have had enough ready endpoints.
    pub enough_since: Option<TimePoint>,
}

/// The consumers of a service, by exposure.
pub type TiersOfService = BTreeMap<(Path, ClusterName), NotedTiers>;

/// How consumers used the tiers of services, per service.
#[derive(Debug, Default)]
pub struct TierNotes(HashMap<ServiceKey, TiersOfService>);

impl TierNotes {
    /// Since when the nearer tiers of a consumer have had enough ready endpoints.
    pub fn enough_since(
        &self,
        key: &ServiceKey,
        path: Path,
        consumer: &ClusterName,
    ) -> Option<TimePoint> {
        let of_service = self.0.get(key)?;
        of_service.get(&(path, consumer.clone()))?.enough_since
    }

    /// Notes how all consumers of a service use its tiers now; whether that is news.
    pub fn note(&mut self, key: &ServiceKey, tiers: TiersOfService) -> bool {
        if self
            .0
            .get(key)
            .map_or(tiers.is_empty(), |noted| *noted == tiers)
        {
            return false;
        }
        match tiers.is_empty() {
            true => self.0.remove(key),
            false => self.0.insert(key.clone(), tiers),
        };
        true
    }

    /// How many services each consumer gets by each farthest tier.
    pub fn counts(&self) -> BTreeMap<(&ClusterName, String), usize> {
        let mut counts = BTreeMap::new();
        let all = self.0.values().flatten();
        for ((_, consumer), noted) in all {
            if let Some(tier) = &noted.farthest {
                *counts.entry((consumer, tier.to_string())).or_default() += 1;
            }
        }
        counts
    }
}
